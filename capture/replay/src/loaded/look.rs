//! Looks at memory again and again: which pages have changed since the last look.

use std::sync::Arc;

use logdur_captured::regions::PAGE;

use super::LoadedDispatch;
use crate::error::Result;
use crate::placed::{Pages, PlacedRange};

/// The most bytes of which all are looked at. Of more, only those that whole replays were seen to change.
const MOST: u64 = 1 << 30;

/// Memory as it was when it was looked at last.
pub(crate) struct Look {
    areas: Vec<PlacedRange>,
    /// What is in the areas, one behind the other.
    last: Vec<u8>,
    /// Room for what is there now.
    now: Vec<u8>,
}

/// A page that has changed, whole but where an area begins or ends in it. Addresses in it are those of the capture.
pub(crate) struct ChangedPage {
    /// The captured address of its first byte.
    pub(crate) at: u64,
    /// What was there.
    pub(crate) was: Vec<u8>,
    /// What is there now.
    pub(crate) is: Arc<[u8]>,
}

fn length(area: &PlacedRange) -> usize {
    (area.captured.end - area.captured.start) as usize
}

impl LoadedDispatch<'_> {
    /// Looks at memory as it is. Of more than can be looked at each time, a whole replay has to have been looked at before.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(crate) fn look(&mut self) -> Result<Look> {
        let all: u64 = self.areas.iter().map(|area| area.captured.end - area.captured.start).sum();
        let areas = if all <= MOST {
            self.areas.clone()
        } else {
            self.qualify(format!(
                "of {all} bytes of memory, only those are looked at after each dispatch that are others at the end: what a dispatch writes \
                 and a later one writes back is not seen"
            ));
            self.dirty.runs().to_vec()
        };
        // Arguments are written before each launch.
        let is_memory = |area: &PlacedRange| !self.arguments.contains(&area.captured);
        let areas: Vec<PlacedRange> = areas.into_iter().filter(is_memory).collect();
        let bytes = areas.iter().map(length).sum();
        let mut look = Look { areas, last: vec![0; bytes], now: vec![0; bytes] };
        self.read_all(&look.areas, &mut look.last)?;
        Ok(look)
    }

    /// The pages that have changed since the last look, by address.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(crate) fn changed_since(&self, look: &mut Look) -> Result<Vec<ChangedPage>> {
        self.read_all(&look.areas, &mut look.now)?;
        let mut pages = Vec::new();
        let (mut last, mut now) = (look.last.as_slice(), look.now.as_slice());
        for area in &look.areas {
            let (was, last_rest) = last.split_at_checked(length(area)).unwrap_or_default();
            let (is, now_rest) = now.split_at_checked(length(area)).unwrap_or_default();
            (last, now) = (last_rest, now_rest);
            if was == is {
                continue;
            }
            let (mut at, mut was, mut is) = (area.captured.start, was, is);
            while !is.is_empty() {
                let page = ((PAGE - at % PAGE) as usize).min(is.len());
                let ((old, old_rest), (new, new_rest)) = (was.split_at(page), is.split_at(page));
                if old != new {
                    let mut bytes = [old.to_vec(), new.to_vec()];
                    bytes.iter_mut().for_each(|bytes| self.relocations.backward(at, bytes));
                    let [was, is] = bytes;
                    pages.push(ChangedPage { at, was, is: is.into() });
                }
                (at, was, is) = (at + page as u64, old_rest, new_rest);
            }
        }
        std::mem::swap(&mut look.last, &mut look.now);
        Ok(pages)
    }

    /// Writes pages over what is there.
    ///
    /// # Errors
    /// When the device cannot be written to, or a page is no restored memory.
    pub(crate) fn put_pages(&self, pages: &Pages) -> Result<()> {
        for (at, bytes) in pages {
            let mut bytes = bytes.to_vec();
            self.relocations.forward(*at, &mut bytes);
            self.put(*at, bytes.len() as u64, |_, from, piece| {
                let bytes = bytes.get(from as usize..).unwrap_or_default();
                piece.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reads areas, one behind the other.
    fn read_all(&self, areas: &[PlacedRange], to: &mut [u8]) -> Result<()> {
        let mut pieces = Vec::with_capacity(areas.len());
        let mut rest = to;
        for area in areas {
            let (now, behind) = std::mem::take(&mut rest).split_at_mut_checked(length(area)).unwrap_or_default();
            pieces.push((area.placed, now));
            rest = behind;
        }
        // SAFETY: areas lie in memory of the device, or in variables of loaded code; no kernel runs.
        unsafe { self.device.read(&mut pieces) }
    }
}
