//! The machine as a wave's instructions see it: memory, LDS, scratch, messages, clocks.
//!
//! An instruction sees what is mapped when it begins: a kernel may be told by the host of memory that was mapped since.

use std::sync::Arc;
use std::sync::atomic::{self, AtomicU16, AtomicU32, Ordering};

use amdgpu_isa::atomic::AtomicOp;
use amdgpu_isa::env::{Addresses, Env, Fault, GwsOp};
use amdgpu_isa::wave::Vgpr;

use crate::clock::{self, Clock};
use crate::driver::Driver;
use crate::gws::{Gws, Ticket};
use crate::memory::{Refusal, Refused, View, byte_at};

/// First address of the window that scratch descriptors and flat scratch bases point into. It is above all user
/// addresses. Each workgroup has memory of its own behind it, so that stray scratch addresses reach nobody else's.
pub(crate) const SCRATCH_WINDOW: u64 = 0x8000_0000_0000;

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

fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            lane
        })
    })
}

/// Lowest and highest address of the active lanes, and the bits that any of them has below a dword.
#[inline]
fn extent(at: &Addresses, mask: u64) -> (u64, u64, u64) {
    if mask == u64::MAX {
        return at.iter().fold((u64::MAX, 0, 0), |(low, high, bits), &a| (low.min(a), high.max(a), bits | a));
    }
    lanes(mask).fold((u64::MAX, 0, 0), |(low, high, bits), l| (low.min(at[l]), high.max(at[l]), bits | at[l]))
}

impl Machine<'_> {
    /// Where the active lanes' bytes are, when all lie in one region and are aligned to dwords (or are single bytes,
    /// or aligned half-words): the host address of the lowest.
    #[inline]
    fn together(&mut self, at: &Addresses, mask: u64, bytes: u8, write: bool) -> Option<(*mut u8, u64)> {
        let (low, high, bits) = extent(at, mask);
        let alignment = u64::from(bytes.min(4)) - 1;
        if bits & alignment != 0 || high >= SCRATCH_WINDOW {
            return None;
        }
        let host = self.view.translate(low, high - low + u64::from(bytes), write).ok()?;
        Some((host, low))
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

    /// One lane's read-modify-write; `apply` makes the new value.
    fn modify(&mut self, at: u64, bytes: u8, apply: impl Fn(u64) -> u64) -> Result<u64, Refused> {
        if let Some(range) = self.scratch_range(at, bytes.into()) {
            let mut value = [0; 8];
            value[..usize::from(bytes)].copy_from_slice(&self.scratch[range.clone()]);
            let old = u64::from_le_bytes(value);
            self.scratch[range].copy_from_slice(&apply(old).to_le_bytes()[..usize::from(bytes)]);
            return Ok(old);
        }
        if bytes == 4 {
            let word = self.view.word32(at, true)?;
            let mut old = word.load(Ordering::Relaxed);
            loop {
                match word.compare_exchange_weak(old, apply(old.into()) as u32, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => return Ok(old.into()),
                    Err(now) => old = now,
                }
            }
        }
        let word = self.view.word64(at, true)?;
        let mut old = word.load(Ordering::Relaxed);
        loop {
            match word.compare_exchange_weak(old, apply(old), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Ok(old),
                Err(now) => old = now,
            }
        }
    }
}

/// A fault of lane `l`.
fn fault(at: Refused, l: usize, bytes: u8, write: bool) -> Fault {
    Fault { address: at.at, lane: l as u8, bytes, write }
}

impl Env for Machine<'_> {
    fn load(&mut self, at: &Addresses, mask: u64, bytes: u8, out: &mut [Vgpr; 4]) -> Result<(), Fault> {
        self.view.refresh();
        let Some((host, low)) = self.together(at, mask, bytes, false) else {
            let mut buffer = [0; 16];
            for l in lanes(mask) {
                buffer[..4].fill(0);
                self.read_lane(at[l], &mut buffer[..usize::from(bytes)]).map_err(|u| fault(u, l, bytes, false))?;
                for (word, chunk) in out.iter_mut().zip(buffer.chunks_exact(4)).take(usize::from(bytes).div_ceil(4)) {
                    word[l] = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
                }
            }
            return Ok(());
        };
        let place = |l: usize| host.wrapping_add((at[l] - low) as usize);
        match bytes {
            1 => {
                for l in lanes(mask) {
                    // SAFETY: `together` found the byte of every active lane mapped.
                    out[0][l] = unsafe { byte_at(place(l), 0) }.load(Ordering::Relaxed).into();
                }
            }
            2 => {
                for l in lanes(mask) {
                    // SAFETY: `together` found the bytes of every active lane mapped and aligned.
                    out[0][l] = unsafe { AtomicU16::from_ptr(place(l).cast()) }.load(Ordering::Relaxed).into();
                }
            }
            4 if mask == u64::MAX => {
                for (l, word) in out[0].iter_mut().enumerate() {
                    // SAFETY: `together` found the bytes of every lane mapped and aligned.
                    *word = unsafe { AtomicU32::from_ptr(place(l).cast()) }.load(Ordering::Relaxed);
                }
            }
            _ => {
                for l in lanes(mask) {
                    for (n, word) in out.iter_mut().enumerate().take(usize::from(bytes) / 4) {
                        // SAFETY: `together` found all words of every active lane mapped and aligned.
                        word[l] =
                            unsafe { AtomicU32::from_ptr(place(l).wrapping_add(4 * n).cast()) }.load(Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, at: &Addresses, mask: u64, bytes: u8, data: &[Vgpr; 4]) -> Result<(), Fault> {
        self.view.refresh();
        let Some((host, low)) = self.together(at, mask, bytes, true) else {
            for l in lanes(mask) {
                let mut buffer = [0; 16];
                for (word, chunk) in data.iter().zip(buffer.chunks_exact_mut(4)) {
                    chunk.copy_from_slice(&word[l].to_le_bytes());
                }
                self.write_lane(at[l], &buffer[..usize::from(bytes)]).map_err(|u| fault(u, l, bytes, true))?;
            }
            return Ok(());
        };
        let place = |l: usize| host.wrapping_add((at[l] - low) as usize);
        match bytes {
            1 => {
                for l in lanes(mask) {
                    // SAFETY: `together` found the byte of every active lane mapped.
                    unsafe { byte_at(place(l), 0) }.store(data[0][l] as u8, Ordering::Relaxed);
                }
            }
            2 => {
                for l in lanes(mask) {
                    // SAFETY: `together` found the bytes of every active lane mapped and aligned.
                    unsafe { AtomicU16::from_ptr(place(l).cast()) }.store(data[0][l] as u16, Ordering::Relaxed);
                }
            }
            _ => {
                for l in lanes(mask) {
                    for (n, word) in data.iter().enumerate().take(usize::from(bytes) / 4) {
                        // SAFETY: `together` found all words of every active lane mapped and aligned.
                        unsafe { AtomicU32::from_ptr(place(l).wrapping_add(4 * n).cast()) }
                            .store(word[l], Ordering::Relaxed);
                    }
                }
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
        data: &[Vgpr; 4],
        old: &mut [Vgpr; 4],
    ) -> Result<(), Fault> {
        let words = usize::from(bytes) / 4;
        self.view.refresh();
        for l in lanes(mask) {
            let operand = |n: usize| -> u64 {
                let low = u64::from(data[n * words][l]);
                if words == 2 { low | u64::from(data[n * words + 1][l]) << 32 } else { low }
            };
            let (a, b) = (operand(0), operand(1));
            let apply = |value: u64| {
                if words == 2 { op.apply64(value, a, b) } else { op.apply32(value as u32, a as u32, b as u32).into() }
            };
            let value = self.modify(at[l], bytes, apply).map_err(|u| fault(u, l, bytes, true))?;
            old[0][l] = value as u32;
            old[1][l] = (value >> 32) as u32;
        }
        Ok(())
    }

    fn scalar_load(&mut self, at: u64, out: &mut [u32]) -> Result<(), Fault> {
        self.view.refresh();
        let bytes = 4 * out.len();
        if let Ok(host) = self.view.translate(at, bytes as u64, false)
            && at.is_multiple_of(4)
        {
            for (n, word) in out.iter_mut().enumerate() {
                // SAFETY: `translate` found all the words mapped; the address is aligned.
                *word = unsafe { AtomicU32::from_ptr(host.wrapping_add(4 * n).cast()) }.load(Ordering::Relaxed);
            }
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
        for (n, word) in data.iter().enumerate() {
            self.write_lane(at + 4 * n as u64, &word.to_le_bytes()).map_err(|u| fault(u, 0, 4, true))?;
        }
        Ok(())
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
