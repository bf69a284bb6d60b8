//! A small machine around one wave: memory that repeats itself, so that most addresses are mapped.

use amdgpu_isa::atomic::AtomicOp;
use amdgpu_isa::env::{Addresses, Env, Fault, GwsOp};
use amdgpu_isa::wave::{LANES, Vgpr};

/// 64 KiB of memory at every address below [`Memory::END`], and LDS.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lds: Vec<u8>,
    clock: u64,
}

impl Memory {
    /// The first address that is not mapped.
    pub(crate) const END: u64 = 1 << 63;
    const SIZE: u64 = 1 << 16;

    pub(crate) fn new(lds: usize) -> Memory {
        Memory { bytes: vec![0; Memory::SIZE as usize], lds: vec![0; lds], clock: 0 }
    }

    fn check(at: u64, lane: usize, bytes: u8, write: bool) -> Result<(), Fault> {
        if at < Memory::END { Ok(()) } else { Err(Fault { address: at, lane: lane as u8, bytes, write }) }
    }

    fn get(&self, at: u64, bytes: u8) -> u64 {
        (0..u64::from(bytes))
            .fold(0, |value, n| value | u64::from(self.bytes[((at + n) % Memory::SIZE) as usize]) << (8 * n))
    }

    fn put(&mut self, at: u64, bytes: u8, value: u64) {
        for n in 0..u64::from(bytes) {
            self.bytes[((at + n) % Memory::SIZE) as usize] = (value >> (8 * n)) as u8;
        }
    }
}

fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |l| mask >> l & 1 == 1)
}

impl Env for Memory {
    fn load(&mut self, at: &Addresses, mask: u64, bytes: u8, out: &mut [Vgpr]) -> Result<(), Fault> {
        for l in lanes(mask) {
            Memory::check(at[l], l, bytes, false)?;
            for n in 0..bytes.div_ceil(4) {
                out[usize::from(n)][l] = self.get(at[l] + 4 * u64::from(n), bytes.min(4)) as u32;
            }
        }
        Ok(())
    }

    fn store(&mut self, at: &Addresses, mask: u64, bytes: u8, data: &[Vgpr]) -> Result<(), Fault> {
        for l in lanes(mask) {
            Memory::check(at[l], l, bytes, true)?;
            for n in 0..bytes.div_ceil(4) {
                self.put(at[l] + 4 * u64::from(n), bytes.min(4), data[usize::from(n)][l].into());
            }
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        at: &Addresses,
        mask: u64,
        bytes: u8,
        data: &[Vgpr],
        old: &mut [Vgpr],
    ) -> Result<(), Fault> {
        for l in lanes(mask) {
            Memory::check(at[l], l, bytes, true)?;
            let before = self.get(at[l], bytes);
            let word = |n: usize| data.get(n).map_or(0, |word| word[l]);
            let pair = |n: usize| u64::from(word(n)) | u64::from(word(n + 1)) << 32;
            let after = match bytes {
                4 => op.apply32(before as u32, word(0), word(1)).into(),
                _ => op.apply64(before, pair(0), pair(2)),
            };
            self.put(at[l], bytes, after);
            for (n, word) in old.iter_mut().enumerate() {
                word[l] = (before >> (32 * n)) as u32;
            }
        }
        Ok(())
    }

    fn scalar_load(&mut self, at: u64, out: &mut [u32]) -> Result<(), Fault> {
        for (n, word) in out.iter_mut().enumerate() {
            let at = at.wrapping_add(4 * n as u64);
            Memory::check(at, 0, 4, false)?;
            *word = self.get(at, 4) as u32;
        }
        Ok(())
    }

    fn scalar_store(&mut self, at: u64, data: &[u32]) -> Result<(), Fault> {
        for (n, &word) in data.iter().enumerate() {
            let at = at.wrapping_add(4 * n as u64);
            Memory::check(at, 0, 4, true)?;
            self.put(at, 4, word.into());
        }
        Ok(())
    }

    fn lds(&mut self) -> &mut [u8] {
        &mut self.lds
    }

    fn message(&mut self, _id: u32, _m0: u32) {}

    fn cycles(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn ticks(&mut self) -> u64 {
        self.cycles()
    }

    fn fence(&mut self) {}

    fn gws(&mut self, _op: GwsOp, _resource: u32, _value: u32) -> bool {
        true
    }
}
