//! Registers that commands name: one table of those that have an effect here, or can have none.
//!
//! Sources: the kernel's register lists of gfx9 (`gc_9_0_offset.h`, `gc_9_4_3_offset.h`, and their fields in `*_sh_mask.h`). Addresses are
//! in dwords, with the segment of the register block added. They are the same on all processors of the family.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::counters::Counters;

/// Registers that follow each other.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    /// The first one's.
    address: u32,
    count: u32,
    /// True for a value that does here what it does on hardware.
    takes: fn(u32) -> bool,
}

impl Row {
    /// Their addresses.
    const fn addresses(&self) -> Range<u32> {
        self.address..self.address + self.count
    }
}

/// Any value: the executor looks at it, or it can have no effect.
fn any(_: u32) -> bool {
    true
}

/// What it switches on is not there.
fn off(value: u32) -> bool {
    value == 0
}

/// What it masks out would have to be left out.
fn all(value: u32) -> bool {
    value == u32::MAX
}

macro_rules! registers {
    ($($name:ident = $address:literal, $count:literal, $takes:expr;)*) => {
        $(pub(super) const $name: Row = Row { name: stringify!($name), address: $address, count: $count, takes: $takes };)*
        const TABLE: &[&Row] = &[$(&$name),*];
    };
}

registers! {
    START = 0x2e04, 3, any;
    NUM_THREAD = 0x2e07, 3, any;
    PIPELINESTAT_ENABLE = 0x2e0a, 1, off;
    // Bit 0.
    PERFCOUNT_ENABLE = 0x2e0b, 1, |value| value <= 1;
    PGM = 0x2e0c, 2, any;
    // Workgroups get their scratch from the machine.
    DISPATCH_SCRATCH_BASE = 0x2e10, 2, any;
    PGM_RSRC1 = 0x2e12, 1, any;
    PGM_RSRC2 = 0x2e13, 1, any;
    // How many waves may run at a time: of time alone.
    RESOURCE_LIMITS = 0x2e15, 1, any;
    STATIC_THREAD_MGMT_SE0_1 = 0x2e16, 2, all;
    TMPRING_SIZE = 0x2e18, 1, any;
    STATIC_THREAD_MGMT_SE2_3 = 0x2e19, 2, all;
    // Where a dispatch goes on that was interrupted: none is.
    RESTART = 0x2e1b, 3, any;
    THREAD_TRACE_ENABLE = 0x2e1e, 1, off;
    PGM_RSRC3 = 0x2e2d, 1, any;
    USER_DATA = 0x2e40, 16, any;
    GRBM_GFX_INDEX = 0xc200, 1, any;
    SQ_PERFCOUNTER = 0xd1c0, 32, |_| false;
    // `PERFMON_STATE` (bits 3 to 0): reset, run, stop. `PERFMON_SAMPLE_ENABLE` (bit 10): they are read as they are.
    CP_PERFMON_CNTL = 0xd808, 1, |value| value & !(1 << 10) <= 2;
    // `PERF_SEL` (bits 8 to 0), masks of caches (19 to 12), and of SIMDs (27 to 24): all four.
    SQ_PERFCOUNTER_SELECT = 0xd9c0, 16, |value| value & !0xf_f1ff == 0xf << 24 && Counters::has(value & 0x1ff);
    // Kinds of shaders, and of processes; the rate, which none of the counters has.
    SQ_PERFCOUNTER_CTRL = 0xd9e0, 1, |value| value & 0x3f00 == 0;
    SQ_PERFCOUNTER_MASK = 0xd9e1, 1, all;
}

/// Where registers of `SET_SH_REG` and of `SET_UCONFIG_REG` are.
pub(super) const SHADER: Range<u32> = 0x2c00..0x3000;
pub(super) const CONFIGURATION: Range<u32> = 0xc000..0x1_0000;
/// `BIF_BX_PF0_GPU_HDP_FLUSH_REQ` and `_DONE`: the host's writes are visible at once here.
pub(super) const FLUSH: [u32; 2] = [0xe26, 0xe27];

/// Bit of `SQ_PERFCOUNTER_CTRL`: compute shaders are counted.
const CS_EN: u32 = 1 << 6;
/// Bit of `GRBM_GFX_INDEX`: what is written goes to all shader engines.
const SE_BROADCAST: u32 = 1 << 31;

/// The registers of a queue's commands.
#[derive(Debug, Default)]
pub(super) struct Registers {
    values: BTreeMap<u32, u32>,
}

impl Registers {
    /// The value that was set last, or 0.
    pub(super) fn get(&self, row: &Row) -> u32 {
        self.at(row.address)
    }

    /// Those of registers that follow each other; 0 for what is behind the row.
    pub(super) fn several<const N: usize>(&self, row: &Row) -> [u32; N] {
        let mut addresses = row.addresses();
        std::array::from_fn(|_| addresses.next().map_or(0, |address| self.at(address)))
    }

    fn at(&self, address: u32) -> u32 {
        self.values.get(&address).copied().unwrap_or_default()
    }

    /// Sets a register.
    ///
    /// # Errors
    /// A description of the register when that value has an effect on hardware that it has not here.
    pub(super) fn set(&mut self, address: u32, value: u32, counters: &Counters) -> Result<(), String> {
        match row_of(address) {
            Some(row) if (row.takes)(value) => {}
            Some(row) => return Err(format!("register {address:#x} ({}) with {value:#x}", row.name)),
            None => return Err(format!("register {address:#x}")),
        }
        self.values.insert(address, value);
        if [&CP_PERFMON_CNTL, &SQ_PERFCOUNTER_CTRL].iter().any(|row| row.address == address) {
            // Of all dies, also where a command is for one of them.
            let state = self.get(&CP_PERFMON_CNTL) & 15;
            counters.run(state == 1 && self.get(&SQ_PERFCOUNTER_CTRL) & CS_EN != 0);
            if state == 0 {
                counters.reset();
            }
        }
        Ok(())
    }

    /// Reads a register. `dies` has a bit for each die that executes the command.
    ///
    /// # Errors
    /// A description of the register when hardware has a value there that is not known here.
    pub(super) fn read(&self, address: u32, dies: u32, counters: &Counters) -> Result<u32, String> {
        let at = |why: &str| format!("register {address:#x}, {why}");
        if SQ_PERFCOUNTER.addresses().contains(&address) {
            let place = address - SQ_PERFCOUNTER.address;
            let select = self.at(SQ_PERFCOUNTER_SELECT.address + place / 2);
            let index = self.get(&GRBM_GFX_INDEX);
            if index & SE_BROADCAST != 0 || dies.count_ones() != 1 {
                return Err(at("of several shader engines"));
            }
            let sum = counters.read(select & 0x1ff, dies.trailing_zeros(), index >> 16 & 0xff);
            let sum = sum.ok_or_else(|| at("which counts nothing"))?;
            return Ok((sum >> (place % 2 * 32)) as u32);
        }
        row_of(address).map(|_| self.at(address)).ok_or_else(|| at("to be read"))
    }

    /// True when the dispatches of the queue are counted.
    pub(super) fn counts(&self) -> bool {
        self.get(&PERFCOUNT_ENABLE) == 1
    }
}

fn row_of(address: u32) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.addresses().contains(&address)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_is_in_one_row_and_in_one_of_the_two_spaces() {
        for (n, row) in TABLE.iter().enumerate() {
            let Range { start, end } = row.addresses();
            assert!([SHADER, CONFIGURATION].iter().any(|space| space.contains(&start) && end <= space.end), "{row:x?}");
            let others = TABLE.iter().skip(n + 1).map(|other| other.addresses());
            assert!(others.clone().all(|other| other.end <= start || end <= other.start), "{row:x?}");
        }
    }
}
