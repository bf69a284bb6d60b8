//! The machine as a wave's instructions see it: memory, LDS, scratch, messages, clocks.
//!
//! An instruction sees the memory that is mapped when it begins: the host may tell a running kernel of newly mapped memory.

mod lanes;

use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use amdgpu_isa::atomic::AtomicOp;
use amdgpu_isa::env::{Addresses, Env, Fault, GwsOp};
use amdgpu_isa::wave::{LANES, Vgpr};

use crate::clock::{self, Clock};
use crate::driver::Driver;
use crate::gws::{Gws, Ticket};
use crate::machine::lanes::{Reach, ReachedMemory, modify32, modify64, put_words, words};
use crate::memory::{Refusal, Refused, View, host};

/// First address of the window that scratch descriptors and flat scratch bases point into. It is above all user
/// addresses. Each workgroup has memory of its own behind it, so that stray scratch addresses reach no other workgroup's memory.
pub const SCRATCH_WINDOW: u64 = 0x8000_0000_0000;

/// The machine around the wave that is running.
pub(crate) struct Machine<'a> {
    pub(crate) view: &'a mut View,
    pub(crate) lds: &'a mut [u8],
    pub(crate) scratch: &'a mut [u8],
    pub(crate) gws: &'a Gws,
    pub(crate) ticket: &'a mut Option<Ticket>,
    pub(crate) driver: &'a Arc<dyn Driver>,
    pub(crate) clock: &'a Clock,
    /// The deterministic clock as the wave reads it. It has a reading of its own, which grows with every look.
    pub(crate) reading: &'a mut u64,
}

impl Machine<'_> {
    /// The host memory of the active lanes' bytes, if one region or the wave's scratch has all of them.
    #[inline]
    fn together(&mut self, reach: &Reach, write: bool) -> Option<*mut u8> {
        if reach.low < SCRATCH_WINDOW {
            return self.view.together(reach.low, reach.span, write);
        }
        let range = self.scratch_range(reach.low, usize::try_from(reach.span).ok()?)?;
        Some(self.scratch[range].as_mut_ptr())
    }

    fn scratch_range(&self, at: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(at.checked_sub(SCRATCH_WINDOW)?).ok()?;
        let end = start.checked_add(bytes)?;
        (end <= self.scratch.len()).then_some(start..end)
    }

    /// Reads one lane's bytes, wherever they are.
    fn read_lane(&mut self, at: u64, out: &mut [u8]) -> Result<(), Refused> {
        if at < SCRATCH_WINDOW {
            return self.view.read(at, out);
        }
        let range = self.scratch_range(at, out.len()).ok_or(Refused { at, write: false, why: Refusal::NotMapped })?;
        out.copy_from_slice(&self.scratch[range]);
        Ok(())
    }

    /// Writes one lane's bytes, wherever they go.
    fn write_lane(&mut self, at: u64, data: &[u8]) -> Result<(), Refused> {
        if at < SCRATCH_WINDOW {
            return self.view.write(at, data);
        }
        let range = self.scratch_range(at, data.len()).ok_or(Refused { at, write: true, why: Refusal::NotMapped })?;
        self.scratch[range].copy_from_slice(data);
        Ok(())
    }

    /// One lane's read-modify-write; the old value. `a` and `b` are the operands.
    fn modify(&mut self, op: AtomicOp, at: u64, bytes: u8, a: u64, b: u64) -> Result<u64, Refused> {
        if let Some(range) = self.scratch_range(at, bytes.into()) {
            let mut value = [0; 8];
            value[..usize::from(bytes)].copy_from_slice(&self.scratch[range.clone()]);
            let old = u64::from_le_bytes(value);
            let new =
                if bytes == 4 { op.apply32(old as u32, a as u32, b as u32).into() } else { op.apply64(old, a, b) };
            self.scratch[range].copy_from_slice(&new.to_le_bytes()[..usize::from(bytes)]);
            return Ok(old);
        }
        if bytes == 4 {
            return Ok(modify32(self.view.word32(at, true)?, op, a as u32, b as u32).into());
        }
        Ok(modify64(self.view.word64(at, true)?, op, a, b))
    }
}

/// A fault of lane `l`.
fn fault(at: Refused, l: usize, bytes: u8, write: bool) -> Fault {
    Fault { address: at.at, lane: l as u8, bytes, write }
}

/// The lanes of a mask, lowest first.
fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |l| mask >> l & 1 == 1)
}

impl Env for Machine<'_> {
    fn load(&mut self, at: &Addresses, mask: u64, bytes: u8, out: &mut [Vgpr]) -> Result<(), Fault> {
        self.view.refresh();
        let reach = Reach::of(at, mask, bytes);
        if let Some(base) = self.together(&reach, false) {
            // SAFETY: `together` found the bytes of every active lane mapped, and the view keeps them so.
            unsafe { ReachedMemory::new(base, &reach, at, mask) }.load(bytes, out);
            return Ok(());
        }
        for l in lanes(mask) {
            let mut buffer = [0; 16];
            self.read_lane(at[l], &mut buffer[..usize::from(bytes)]).map_err(|u| fault(u, l, bytes, false))?;
            put_words(out, l, &buffer);
        }
        Ok(())
    }

    fn store(&mut self, at: &Addresses, mask: u64, bytes: u8, data: &[Vgpr]) -> Result<(), Fault> {
        self.view.refresh();
        let reach = Reach::of(at, mask, bytes);
        if let Some(base) = self.together(&reach, true) {
            // SAFETY: `together` found the bytes of every active lane mapped and writable, and the view keeps them so.
            unsafe { ReachedMemory::new(base, &reach, at, mask) }.store(bytes, data);
            return Ok(());
        }
        for l in lanes(mask) {
            let buffer = words(data, l);
            self.write_lane(at[l], &buffer[..usize::from(bytes)]).map_err(|u| fault(u, l, bytes, true))?;
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
        self.view.refresh();
        let reach = Reach::of(at, mask, bytes);
        if let Some(base) = self.together(&reach, true)
            // SAFETY: `together` found the bytes of every active lane mapped and writable, and the view keeps them so.
            && unsafe { ReachedMemory::new(base, &reach, at, mask) }.modify(op, bytes, data, old)
        {
            return Ok(());
        }
        let operand = |first: usize, l: usize| {
            let word = |n: usize| data.get(n).map_or(0, |word| word[l]);
            if bytes == 4 { word(first).into() } else { host::pair(word(2 * first), word(2 * first + 1)) }
        };
        for l in lanes(mask) {
            let value = self
                .modify(op, at[l], bytes, operand(0, l), operand(1, l))
                .map_err(|refused| fault(refused, l, bytes, true))?;
            for (n, word) in old.iter_mut().enumerate() {
                word[l] = (value >> (32 * n)) as u32;
            }
        }
        Ok(())
    }

    fn scalar_load(&mut self, at: u64, out: &mut [u32]) -> Result<(), Fault> {
        self.view.refresh();
        let bytes = 4 * out.len();
        if let Some(from) = self.view.together(at, bytes as u64, false)
            && at.is_multiple_of(4)
        {
            // SAFETY: `together` found all the bytes mapped; the address is aligned.
            unsafe { host::read_dwords(from, out) };
            return Ok(());
        }
        let mut buffer = [0; 64];
        self.read_lane(at, &mut buffer[..bytes]).map_err(|u| fault(u, 0, bytes as u8, false))?;
        for (word, chunk) in out.iter_mut().zip(buffer.chunks_exact(4)) {
            *word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        }
        Ok(())
    }

    fn scalar_store(&mut self, at: u64, data: &[u32]) -> Result<(), Fault> {
        self.view.refresh();
        let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write_lane(at, &bytes).map_err(|u| fault(u, 0, bytes.len() as u8, true))
    }

    fn lds(&mut self) -> &mut [u8] {
        self.lds
    }

    fn message(&mut self, id: u32, m0: u32) {
        /// `MSG_INTERRUPT`: the event that a signal names.
        const INTERRUPT: u32 = 1;
        if id & 15 == INTERRUPT {
            self.driver.wave_interrupt(m0 & 0xff_ffff);
        }
    }

    fn cycles(&mut self) -> u64 {
        // The shader clock is modelled at one gigahertz, so that loops that wait for it end.
        if self.clock.is_deterministic() { 10 * self.ticks() } else { clock::system_nanoseconds() }
    }

    fn ticks(&mut self) -> u64 {
        if self.clock.is_deterministic() {
            *self.reading += 1;
            return *self.reading;
        }
        self.clock.ticks()
    }

    fn fence(&mut self) {
        atomic::fence(Ordering::SeqCst);
    }

    fn gws(&mut self, op: GwsOp, resource: u32, value: u32) -> bool {
        match op {
            GwsOp::Init => {
                self.gws.init(resource, value);
                true
            }
            GwsOp::Barrier => self.gws.arrive(resource, self.ticket),
        }
    }
}
