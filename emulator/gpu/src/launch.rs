//! The launch parameters of a dispatch, from its packet and the kernel descriptor.

use amdgpu_isa::Arch;
use amdgpu_isa::wave::LANES;
use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::kernel_descriptor::{self, KernelDescriptor};

use crate::driver::PacketError;
use crate::memory::View;

/// Work-items of a workgroup at most.
pub(crate) const MAX_WORKGROUP: u32 = 1024;
/// Bytes of a wave's scratch at most, all lanes together: 13 bits of 1 KB. Source: `COMPUTE_TMPRING_SIZE.WAVESIZE` of gfx9; wider fields
/// of later processors count smaller units.
const MAX_WAVE_SCRATCH: u32 = 0x1fff << 10;
/// Scalar registers that a dispatch can fill.
pub(crate) const USER_DATA: usize = 16;

/// The parameters of a dispatch, constant from its launch on.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The packet.
    pub packet: Packet,
    /// The packet's id in its queue.
    pub packet_id: u64,
    /// Address of the packet in the queue's ring.
    pub packet_address: u64,
    /// Address of the queue.
    pub queue_address: u64,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the kernel arguments.
    pub kernarg_address: u64,
    /// Handle of the completion signal, or 0.
    pub completion_signal: u64,
    /// The kernel descriptor.
    pub descriptor: KernelDescriptor,
    /// Address of the first instruction.
    pub entry: u64,
    /// Work-items of the grid.
    pub grid: [u32; 3],
    /// Work-items of a whole workgroup.
    pub workgroup: [u32; 3],
    /// Workgroups of the grid.
    pub workgroups: [u32; 3],
    /// Bytes of LDS for each workgroup.
    pub lds: u32,
    /// Bytes of scratch for each work-item.
    pub scratch: u32,
    /// What scalar registers begin with, where commands say it and not the descriptor.
    pub user_data: Option<Box<[u32; USER_DATA]>>,
}

impl Launch {
    /// Reads what a dispatch packet asks for and checks it as the packet processor does.
    ///
    /// # Errors
    /// What is wrong with the packet.
    pub fn new(
        packet: &Packet,
        packet_id: u64,
        packet_address: u64,
        queue_address: u64,
        arch: Arch,
        view: &mut View,
    ) -> Result<Launch, PacketError> {
        let dimensions = usize::from(packet.dimensions());
        let [wx, wy, wz] = packet.workgroup_size().map(u32::from);
        let [gx, gy, gz] = packet.grid_size();
        let mut grid = [1; 3];
        let mut workgroup = [1; 3];
        grid[..dimensions].copy_from_slice(&[gx, gy, gz][..dimensions]);
        workgroup[..dimensions].copy_from_slice(&[wx, wy, wz][..dimensions]);
        let items: u64 = workgroup.iter().map(|&w| u64::from(w)).product();
        if dimensions == 0 || grid.contains(&0) || workgroup.contains(&0) || items > u64::from(MAX_WORKGROUP) {
            return Err(PacketError::Dimensions);
        }
        let lds = packet.group_segment_size();
        if lds > arch.row().target.lds {
            return Err(PacketError::GroupSegment);
        }
        if packet.private_segment_size() > MAX_WAVE_SCRATCH / LANES as u32 {
            return Err(PacketError::Resources);
        }
        let kernel_object = packet.kernel_object();
        let mut bytes = [0; kernel_descriptor::SIZE];
        if kernel_object == 0 || view.read(kernel_object, &mut bytes).is_err() {
            return Err(PacketError::CodeObject);
        }
        let descriptor = KernelDescriptor::parse(&bytes);
        let entry = kernel_object.wrapping_add_signed(descriptor.entry_offset);
        if !entry.is_multiple_of(4) || view.translate(entry, 4, false).is_none() {
            return Err(PacketError::CodeObject);
        }
        if arch.unified_registers() && descriptor.accum_offset() > 256 {
            return Err(PacketError::Resources);
        }
        Ok(Launch {
            packet: *packet,
            packet_id,
            packet_address,
            queue_address,
            kernel_object,
            kernarg_address: packet.kernarg_address(),
            completion_signal: packet.completion_signal(),
            descriptor,
            entry,
            grid,
            workgroup,
            workgroups: std::array::from_fn(|d| grid[d].div_ceil(workgroup[d])),
            lds,
            scratch: packet.private_segment_size(),
            user_data: None,
        })
    }

    /// Bytes of scratch that one wave takes, all lanes together.
    pub fn scratch_of_wave(&self) -> u32 {
        (self.scratch * LANES as u32).next_multiple_of(1024)
    }

    /// Workgroups in all. Grids of more than 2^64 never end, whatever their number.
    pub fn total(&self) -> u64 {
        self.workgroups.iter().fold(1, |total, &n| u64::saturating_mul(total, n.into()))
    }

    /// Coordinates of workgroup `n`, x fastest.
    pub fn coordinates(&self, n: u64) -> [u32; 3] {
        let [x, y, _] = self.workgroups.map(u64::from);
        [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
    }

    /// Work-items of the workgroup at these coordinates: fewer at the edge of the grid.
    pub fn extent(&self, at: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|d| self.workgroup[d].min(self.grid[d] - at[d] * self.workgroup[d]))
    }
}
