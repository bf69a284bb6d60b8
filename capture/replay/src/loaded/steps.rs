//! What steps of a region do beside launches: memory of the host is written, bytes are copied and filled.

use std::ops::Range;

use logdur_capture::{Loaded, Memory};
use logdur_captured::CapturedDispatch;

use super::{LoadedDispatch, bias_of};
use crate::contents::Contents;
use crate::device::Load;
use crate::error::{ReplayError, Result};
use crate::memory;
use crate::placed::{Placed, PlacedRange};

/// Bytes that a copy moves at once.
const STEP: u64 = 4 << 20;

impl LoadedDispatch<'_> {
    /// Where the application's kernel of a dispatch is, which is this one or a companion. `captured` is any dispatch of the kernel.
    ///
    /// # Errors
    /// When the device does not have all of its instructions, or its code cannot be loaded.
    pub(crate) fn kernel_of(&mut self, captured: &CapturedDispatch<'_>) -> Result<Placed> {
        self.device.has_instructions(&captured.original)?;
        let descriptor = captured.original.kernel.descriptor.map(|descriptor| descriptor.address);
        let is_same =
            |a: &Loaded, b: &Loaded| (a.executable, a.code_object, a.base) == (b.executable, b.code_object, b.base);
        let bias = match captured.loaded {
            Some(loaded) if self.captured.loaded.is_some_and(|own| is_same(own, loaded)) => {
                Some(bias_of(&self.captured.original, self.own))
            }
            Some(loaded) => self.called().find(|(called, _)| is_same(&called.loaded, loaded)).map(|(_, bias)| bias),
            None if self.captured.loaded.is_none() && self.captured.original.id == captured.original.id => {
                Some(bias_of(&self.captured.original, self.own))
            }
            None => None,
        };
        if let (Some(bias), Some(address)) = (bias, descriptor) {
            return Ok(bias.placed(address));
        }
        self.qualify(format!(
            "{}: code at another address: the capture does not say where it was",
            captured.original.kernel.name
        ));
        self.device.load(Load::Kernel(&captured.original))
    }

    /// Where memory of a snapshot is, as far as it is restored.
    pub(crate) fn areas_of(&self, memory: &Memory<'_>) -> Vec<PlacedRange> {
        let mut all = Vec::new();
        for range in memory.ranges() {
            for area in &self.areas {
                let (start, end) = (range.start.max(area.captured.start), range.end.min(area.captured.end));
                if start < end {
                    all.push(PlacedRange { captured: start..end, placed: area.now(start) });
                }
            }
        }
        all
    }

    /// Writes memory of a snapshot over what is there.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(crate) fn write(&self, memory: &Memory<'_>, areas: &[PlacedRange]) -> Result<()> {
        let contents = Contents { memory, around: &self.around, filled: None };
        memory::restore(self.device(), contents, areas, &self.relocations).map(drop)
    }

    /// Copies or writes bytes at captured addresses: `from` is given where in them each piece begins, and fills it.
    ///
    /// # Errors
    /// When the device cannot be read or written to, or not all of it is restored memory.
    pub(crate) fn put(
        &self,
        to: u64,
        bytes: u64,
        from: impl Fn(&LoadedDispatch<'_>, u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut at, mut piece) = (0, Vec::new());
        while at < bytes {
            piece.resize((bytes - at).min(STEP) as usize, 0);
            from(self, at, &mut piece)?;
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                let address = to + (piece.len() - rest.len()) as u64 + at;
                let (placed, length) = self.restored_at(address, rest.len())?;
                let (now, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                // SAFETY: `restored_at` gives memory of the device, and no kernel runs.
                unsafe { self.device.write(&[(placed, now)]) }?;
                rest = behind;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Reads what is at a captured address now.
    ///
    /// # Errors
    /// When the device cannot be read, or not all of it is restored memory.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let (placed, length) = self.restored_at(at + done as u64, rest.len())?;
            let Some(now) = rest.get_mut(..length) else { break };
            // SAFETY: `restored_at` gives memory of the device, and no kernel runs.
            unsafe { self.device.read(&mut [(placed, now)]) }?;
            done += length;
        }
        Ok(())
    }

    /// The parts of a range that are restored memory.
    pub(crate) fn restored_of(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let parts =
            self.areas.iter().map(|area| range.start.max(area.captured.start)..range.end.min(area.captured.end));
        parts.filter(|part| part.start < part.end).collect()
    }

    /// Reads what is at a captured address now, with addresses in it as they would have been captured.
    ///
    /// # Errors
    /// As for [`LoadedDispatch::read`].
    pub(crate) fn read_captured(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.read(at, to)?;
        self.relocations.backward(at, to);
        Ok(())
    }

    /// Where restored memory is, and how many of the bytes are there in one piece.
    fn restored_at(&self, captured: u64, bytes: usize) -> Result<(Placed, usize)> {
        let behind = self.areas.partition_point(|area| area.captured.start <= captured);
        let area = behind.checked_sub(1).and_then(|at| self.areas.get(at));
        let area = area.filter(|area| captured < area.captured.end).ok_or_else(|| {
            ReplayError::Unsupported(format!("{bytes} bytes at {captured:#x}, where nothing was restored"))
        })?;
        let rest = usize::try_from(area.captured.end - captured).unwrap_or(usize::MAX);
        Ok((area.now(captured), bytes.min(rest)))
    }
}
