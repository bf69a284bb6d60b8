//! Cache lines and bank conflicts of each access, by source line.

use std::collections::{BTreeMap, HashMap};

use logdur_analysis::banks::{self, Direction};
use logdur_analysis::forms::Out;
use logdur_analysis::forms::memory::{self, Access, Total, UNKNOWN};
use logdur_analysis::lines::Bytes;
use logdur_analysis::processor::row_of;
use logdur_handler::Open;
use logdur_handler::messages::{AddressSpace, Kind, Message};

use crate::code::{Machine, Wanted};
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
    /// Bytes that the machine instruction accesses at once, by the access and whether it is one of LDS.
    parts: HashMap<(Key, bool), u64>,
    bytes: Bytes,
}

/// The machine instruction of an access.
fn machine((file, line, column, bytes, reads, writes): Key, lds: bool, about: &About) -> Option<Machine<'_>> {
    about.code.machine(file, line, Wanted { column, reads, writes, lds, bytes: bytes.into() })
}

/// What a lane accesses by instructions of `part` bytes: where it begins, and each piece. An instruction that is wider than the access has
/// others beside it; it is aligned where it can be.
fn pieces(address: u64, bytes: u64, part: u64) -> impl Iterator<Item = (u64, u64)> {
    let start = if part > bytes && part.is_power_of_two() { address & !(part - 1) } else { address };
    (0..bytes.max(part)).step_by(part.max(1) as usize).map(move |at| (start + at, part.min(bytes.max(part) - at)))
}

impl Memory {
    /// Bytes that an instruction of an access accesses at once.
    fn part(&mut self, key: Key, lds: bool, about: &About) -> u64 {
        let of = || machine(key, lds, about).map_or(u64::from(key.3), |machine| u64::from(machine.access.part)).max(1);
        *self.parts.entry((key, lds)).or_insert_with(of)
    }
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
        let bytes = u64::from(access.bytes);
        let (mut at, mut lds, mut memory) = ([0; 64], 0u64, 0u64);
        for (lane, address) in message.lanes().zip(message.addresses()) {
            let to = match place(access.space, address) {
                Where::Memory => &mut memory,
                Where::Lds => &mut lds,
                Where::Elsewhere => continue,
            };
            *to |= 1 << lane;
            at[lane as usize] = address;
        }
        let lanes = |mask: u64| (0..64).filter(move |lane| mask >> lane & 1 != 0);
        if memory != 0 {
            let part = self.part(key, false, about);
            let total = self.memory.entry(key).or_default();
            total.executions += 1;
            for piece in 0..bytes.div_ceil(part).max(1) as usize {
                self.bytes.clear();
                for (start, length) in lanes(memory).filter_map(|lane| pieces(at[lane], bytes, part).nth(piece)) {
                    self.bytes.push(start, length);
                }
                self.bytes.join();
                let touched = self.bytes.touched(row_of(&about.processor).l2_line.into());
                total.needed += touched.least;
                total.used += touched.lines;
            }
        }
        if lds != 0 {
            let direction = if access.writes { Direction::Write } else { Direction::Read };
            let part = self.part(key, true, about).min(MOST);
            let total = self.lds.entry(key).or_default();
            total.executions += 1;
            // Of accesses that were merged, the first one has the conflicts.
            let first = lanes(lds).next().map_or(0, |lane| at[lane]);
            if part > bytes && part.is_power_of_two() && first & (part - 1) >= bytes {
                return;
            }
            let banks = row_of(&about.processor).lds.banks;
            for piece in 0..bytes.div_ceil(part).max(1) as usize {
                let (mut starts, mut length) = ([0; 64], 0);
                for lane in lanes(lds) {
                    let Some(of) = pieces(at[lane] & 0xffff_ffff, bytes, part).nth(piece) else { continue };
                    (starts[lane], length) = of;
                }
                total.conflicts += u64::from(banks::conflicts(banks, &starts, lds, length as u8, direction));
            }
        }
    }

    fn end(self, about: &About, open: &Open, out: &mut Out) {
        let mut texts = Texts::new();
        let mut accesses = |totals: &BTreeMap<Key, Total>, lds| -> Vec<Access> {
            totals.iter().map(|(key, total)| access(*key, *total, lds, about, open, &mut texts)).collect()
        };
        memory::write(&about.dispatch(), &accesses(&self.memory, false), &accesses(&self.lds, true), out);
    }
}

/// The lines of source files, by path.
type Texts = HashMap<String, Vec<String>>;

/// An access as it is reported.
fn access(key: Key, total: Total, lds: bool, about: &About, open: &Open, texts: &mut Texts) -> Access {
    let (file, line, column, bytes, reads, writes) = key;
    let known = about.code.line(file, line);
    let isa = machine(key, lds, about).map(|machine| (machine.access.bytes, machine.text.to_owned()));
    let name = known.map(|line| line.file.clone()).or_else(|| open.source_file(about.id, file));
    // A line without an instruction has a text, too.
    let text = known.map(|line| line.text.clone()).or_else(|| {
        let name = name.as_ref()?;
        let lines = texts.entry(name.clone()).or_insert_with(|| amdgpu_listing::source_lines(name).unwrap_or_default());
        lines.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
    });
    Access {
        file: name.unwrap_or_else(|| UNKNOWN.to_owned()),
        line: line.into(),
        column: column.into(),
        text: text.unwrap_or_default(),
        reads,
        writes,
        bytes: bytes.into(),
        isa,
        total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_as_wide_as_its_machine_instruction() {
        let of = |address, bytes, part| pieces(address, bytes, part).collect::<Vec<_>>();
        assert_eq!(of(0x108, 4, 4), [(0x108, 4)]);
        // Merged with others: aligned where the size is a power of two.
        assert_eq!(of(0x108, 4, 16), [(0x100, 16)]);
        assert_eq!(of(0x108, 4, 12), [(0x108, 12)]);
        // Divided.
        assert_eq!(of(0x100, 16, 8), [(0x100, 8), (0x108, 8)]);
        assert_eq!(of(0x100, 12, 8), [(0x100, 8), (0x108, 4)]);
    }
}
