//! The packet trace (`KFDEMU_TRACE`): one JSON object a line for every packet that was completed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use amdgpu_emu::driver::CompletedPacket;
use hsa_sys::abi::aql::PacketType;

/// The file that lines are appended to, each in one call, so that several processes may share it.
pub(crate) struct Trace(File);

impl Trace {
    /// Opens a trace.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn open(path: &Path) -> io::Result<Trace> {
        OpenOptions::new().create(true).append(true).open(path).map(Trace)
    }

    /// Writes a packet's line; a full disk loses it.
    pub(crate) fn packet(&self, gpu_id: u32, done: &CompletedPacket) {
        let CompletedPacket { queue, id, packet, start, end, instructions } = done;
        let mut line = format!(
            "{{\"pid\":{},\"gpu\":{gpu_id},\"queue\":{queue},\"packet\":{id},\"type\":\"{:?}\",\"header\":{},\
             \"signal\":{},\"startTicks\":{start},\"endTicks\":{end},\"words\":\"",
            std::process::id(),
            packet.packet_type(),
            packet.header(),
            packet.completion_signal(),
        );
        for word in packet.0 {
            line += &format!("{word:08x}");
        }
        line += "\"";
        if packet.packet_type() == PacketType::KernelDispatch {
            line += &format!(
                ",\"kernelObject\":{},\"kernarg\":{},\"grid\":{:?},\"workgroup\":{:?},\"ldsBytes\":{},\
                 \"scratchBytes\":{},\"instructions\":{instructions}",
                packet.kernel_object(),
                packet.kernarg_address(),
                packet.grid_size(),
                packet.workgroup_size(),
                packet.group_segment_size(),
                packet.private_segment_size(),
            );
        }
        line += "}\n";
        drop((&self.0).write_all(line.as_bytes()));
    }
}
