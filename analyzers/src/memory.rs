//! Cache lines and bank conflicts of each access, by source line.

use std::collections::BTreeMap;

use logdur_analysis::banks::{self, Direction};
use logdur_analysis::forms::Out;
use logdur_analysis::forms::memory::{self, Access, Total, UNKNOWN};
use logdur_analysis::lines::Bytes;
use logdur_analysis::processor::l2_line_of;
use logdur_handler::Open;
use logdur_handler::messages::{AddressSpace, Kind, Message};

use crate::each::{About, Analyzer};

/// Bytes that a lane accesses in LDS at once, at most.
const MOST: u64 = 16;

/// Where an address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Global memory.
    Memory,
    /// LDS.
    Lds,
    /// Scratch, GDS, and what is read as constant.
    Elsewhere,
}

/// Where an address points to, by its address space. Flat addresses with these upper bits are in the apertures of LDS and scratch, which
/// the driver puts there (the Linux kernel's `kfd_flat_memory.c`, for gfx9).
pub(crate) fn place(space: AddressSpace, address: u64) -> Where {
    match (space, address >> 48) {
        (AddressSpace::Global, _) | (AddressSpace::Flat, 0) => Where::Memory,
        (AddressSpace::Lds, _) | (AddressSpace::Flat, 1) => Where::Lds,
        _ => Where::Elsewhere,
    }
}

/// An access of the source: file, line, column, bytes of a lane, and whether it reads and writes.
type Key = (u64, u32, u32, u16, bool, bool);

/// Accesses of a dispatch.
#[derive(Default)]
pub(crate) struct Memory {
    memory: BTreeMap<Key, Total>,
    lds: BTreeMap<Key, Total>,
    bytes: Bytes,
}

impl Analyzer for Memory {
    const NAME: &'static str = memory::NAME;
    const COLUMNS: &'static str = memory::COLUMNS;
    const NEEDS_CODE: bool = true;

    fn begin(_open: &Open) -> Result<Memory, String> {
        Ok(Memory::default())
    }

    fn message(&mut self, about: &About, message: &Message<'_>, _out: &mut Out) {
        let header = &message.header;
        if header.kind != Kind::Address {
            return;
        }
        let access = header.access();
        let key = (header.file, header.line, header.column, access.bytes, access.reads, access.writes);
        let (mut at, mut lds, mut in_memory) = ([0; 64], 0u64, false);
        self.bytes.clear();
        for (lane, address) in message.lanes().zip(message.addresses()) {
            match place(access.space, address) {
                Where::Memory => {
                    in_memory = true;
                    self.bytes.push(address, access.bytes.into());
                }
                Where::Lds => {
                    lds |= 1 << lane;
                    at[lane as usize] = address & 0xffff_ffff;
                }
                Where::Elsewhere => {}
            }
        }
        if in_memory {
            self.bytes.join();
            let touched = self.bytes.touched(l2_line_of(&about.processor).into());
            let total = self.memory.entry(key).or_default();
            total.executions += 1;
            total.needed += touched.least;
            total.used += touched.lines;
        }
        if lds != 0 {
            let direction = if access.writes { Direction::Write } else { Direction::Read };
            let total = self.lds.entry(key).or_default();
            total.executions += 1;
            for part in (0..u64::from(access.bytes)).step_by(MOST as usize) {
                let bytes = MOST.min(u64::from(access.bytes) - part);
                let at = at.map(|at| at + part);
                total.conflicts += u64::from(banks::conflicts(&at, lds, bytes as u8, direction));
            }
        }
    }

    fn end(self, about: &About, open: &Open, out: &mut Out) {
        let accesses = |totals: &BTreeMap<Key, Total>, lds| -> Vec<Access> {
            totals.iter().map(|(key, total)| access(*key, *total, lds, about, open)).collect()
        };
        memory::write(&about.dispatch(), &accesses(&self.memory, false), &accesses(&self.lds, true), out);
    }
}

/// An access as it is reported.
fn access(
    (file, line, column, bytes, reads, writes): Key,
    total: Total,
    lds: bool,
    about: &About,
    open: &Open,
) -> Access {
    let known = about.code.line(file, line);
    let isa = known.and_then(|line| line.access(reads, writes, lds)).map(|(text, bytes)| (bytes, text.to_owned()));
    let name = known.map(|line| line.file.clone()).or_else(|| open.source_file(about.id, file));
    Access {
        file: name.unwrap_or_else(|| UNKNOWN.to_owned()),
        line: line.into(),
        column: column.into(),
        text: known.map(|line| line.text.clone()).unwrap_or_default(),
        reads,
        writes,
        bytes: bytes.into(),
        isa,
        total,
    }
}
