//! Looks at memory again and again: which pages have changed since the last look.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use logdur_captured::regions::PAGE;

use super::LoadedDispatch;
use crate::error::Result;
use crate::placed::{Pages, Placed, PlacedRange};

/// The most bytes that are kept, and of which all are looked at where the device does not tell what is written. Of more, such a device shows
/// only those that whole replays were seen to change.
const MOST: u64 = 1 << 30;

/// What was in memory at the last look, as it is on the device.
enum Last {
    /// All of it, one area behind the other.
    Whole(Vec<u8>),
    /// Pages that were written since the first look, by the captured address of their first byte. The others are as before the first step.
    Written(BTreeMap<u64, Vec<u8>>),
}

/// Memory as it was when it was looked at last.
pub(crate) struct Look {
    areas: Vec<PlacedRange>,
    /// Where in `last` each area begins.
    starts: Vec<usize>,
    /// The areas, by where they are now.
    by_place: Vec<usize>,
    last: Last,
    /// Room for what is there now.
    now: Vec<u8>,
    /// Pages that have changed since the first look, by the captured address of their first byte.
    touched: BTreeSet<u64>,
    /// The device tells what is written: nothing else is looked at.
    is_told: bool,
}

impl Look {
    /// The area of a captured address, and where in `last` that is.
    fn at(&self, captured: u64) -> Option<(&PlacedRange, usize)> {
        let number = self.areas.partition_point(|area| area.captured.start <= captured).checked_sub(1)?;
        let (area, start) = (self.areas.get(number)?, *self.starts.get(number)?);
        (captured < area.captured.end).then(|| (area, start + (captured - area.captured.start) as usize))
    }

    /// The pages that written memory has in the areas: their captured addresses, cut by the areas.
    fn pages_of(&self, written: &[Range<Placed>]) -> BTreeMap<u64, u64> {
        let mut pages = BTreeMap::new();
        let end = |area: &PlacedRange| area.now(area.captured.end);
        for range in written {
            // Areas do not overlap: their ends are sorted, too.
            let area = |number: &usize| self.areas.get(*number);
            let from = self.by_place.partition_point(|number| area(number).is_some_and(|a| end(a) <= range.start));
            let behind = self.by_place.iter().skip(from).filter_map(area);
            for area in behind.take_while(|area| area.placed < range.end) {
                let (start, last) = (range.start.max(area.placed), range.end.min(end(area)));
                let (mut at, last) = (area.then(start) / PAGE * PAGE, area.then(last));
                while at < last {
                    let next = at + PAGE;
                    pages.insert(at.max(area.captured.start), next.min(area.captured.end));
                    at = next;
                }
            }
        }
        pages
    }
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

/// What is not seen of so many bytes.
pub(crate) fn unseen(all: u64) -> String {
    format!(
        "of {all} bytes of memory, only those are looked at after each dispatch that are others at the end: what a dispatch writes and a later \
         one writes back is not seen"
    )
}

fn length(area: &PlacedRange) -> usize {
    (area.captured.end - area.captured.start) as usize
}

impl LoadedDispatch<'_> {
    /// Bytes of all memory.
    fn all(&self) -> u64 {
        self.areas.iter().map(|area| area.captured.end - area.captured.start).sum()
    }

    /// Bytes of all memory, if not all that steps write is seen: there is more than can be looked at each time, and the device does not tell
    /// what is written.
    pub(crate) fn unseen(&mut self) -> Option<u64> {
        let all = self.all();
        (all > MOST && !self.device.watch_writes()).then_some(all)
    }

    /// Looks at memory as it was before the first step. Where not all can be seen, whole replays have to have been looked at before.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(crate) fn look(&mut self) -> Result<Look> {
        let areas = match self.unseen() {
            None => self.areas.clone(),
            Some(all) => {
                self.qualify(unseen(all));
                self.dirty.runs().to_vec()
            }
        };
        // Arguments are written before each launch.
        let is_memory = |area: &PlacedRange| !self.arguments.contains(&area.captured);
        let areas: Vec<PlacedRange> = areas.into_iter().filter(is_memory).collect();
        let mut bytes = 0;
        let mut start_of = |area| {
            let start = bytes;
            bytes += length(area);
            start
        };
        let starts = areas.iter().map(&mut start_of).collect();
        let mut by_place: Vec<usize> = (0..areas.len()).collect();
        by_place.sort_by_key(|number| areas.get(*number).map(|area| area.placed));
        let is_told = self.device.watch_writes();
        let now = if is_told { Vec::new() } else { vec![0; bytes] };
        let last = if is_told && bytes as u64 > MOST {
            Last::Written(BTreeMap::new())
        } else {
            let mut last = vec![0; bytes];
            self.read_all(&areas, &mut last)?;
            Last::Whole(last)
        };
        Ok(Look { areas, starts, by_place, last, now, touched: BTreeSet::new(), is_told })
    }

    /// Writes memory as it was before the first step, with pages over it, where it is not so. Everything that has changed since the first look
    /// is known; the next look is at what changes from here on.
    ///
    /// # Errors
    /// When the capture or the device cannot be read, or the device not be written to.
    pub(crate) fn put_state(&self, look: &mut Look, state: &Pages) -> Result<()> {
        self.changed_since(look)?;
        let mut other = Pages::new();
        let all: BTreeSet<u64> = look.touched.iter().chain(state.keys()).copied().collect();
        for page in all {
            let Some((area, start)) = look.at(page) else { continue };
            let end = (page / PAGE * PAGE + PAGE).min(area.captured.end);
            let mut is = self.last_at(look, page, start..start + (end - page) as usize)?;
            self.relocations.backward(page, &mut is);
            let wanted = match state.get(&page) {
                Some(bytes) => bytes.clone(),
                None => {
                    let mut bytes = vec![0; is.len()];
                    self.before().read(page, &mut bytes)?;
                    bytes.into()
                }
            };
            if *wanted != *is {
                other.insert(page, wanted);
            }
        }
        self.put_pages(&other)?;
        self.changed_since(look).map(drop)
    }

    /// The pages that have changed since the last look, by address.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(crate) fn changed_since(&self, look: &mut Look) -> Result<Vec<ChangedPage>> {
        let pages = if look.is_told { self.changed_of_written(look)? } else { self.changed_of_all(look)? };
        look.touched.extend(pages.iter().map(|page| page.at));
        Ok(pages)
    }

    /// The same of what the device says to be written.
    fn changed_of_written(&self, look: &mut Look) -> Result<Vec<ChangedPage>> {
        let mut pages = Vec::new();
        for (at, end) in look.pages_of(&self.device.take_written()) {
            let Some((area, start)) = look.at(at) else { continue };
            let placed = area.now(at);
            let mut is = vec![0; (end - at) as usize];
            // SAFETY: a part of an area; no kernel runs.
            unsafe { self.device.read(&mut [(placed, &mut is)]) }?;
            let within = start..start + is.len();
            if let Last::Whole(last) = &look.last
                && last.get(within.clone()) == Some(&*is)
            {
                continue;
            }
            let mut was = self.last_at(look, at, within.clone())?;
            match &mut look.last {
                Last::Written(_) if was == is => continue,
                Last::Written(last) => _ = last.insert(at, is.clone()),
                Last::Whole(last) => last.get_mut(within).unwrap_or_default().copy_from_slice(&is),
            }
            self.relocations.backward(at, &mut was);
            self.relocations.backward(at, &mut is);
            pages.push(ChangedPage { at, was, is: is.into() });
        }
        Ok(pages)
    }

    /// What was at the last look in a page of an area, from an address on; `within` is where that is among all bytes of the areas.
    fn last_at(&self, look: &Look, at: u64, within: Range<usize>) -> Result<Vec<u8>> {
        match &look.last {
            Last::Whole(last) => Ok(last.get(within).unwrap_or_default().to_vec()),
            Last::Written(last) => match last.get(&at) {
                Some(bytes) => Ok(bytes.clone()),
                None => {
                    let mut bytes = vec![0; within.len()];
                    self.before().read(at, &mut bytes)?;
                    self.relocations.forward(at, &mut bytes);
                    Ok(bytes)
                }
            },
        }
    }

    /// The same, by a look at all memory.
    fn changed_of_all(&self, look: &mut Look) -> Result<Vec<ChangedPage>> {
        // Only of a device that tells what is written not all is kept.
        let Last::Whole(whole) = &mut look.last else { return Ok(Vec::new()) };
        self.read_all(&look.areas, &mut look.now)?;
        let mut pages = Vec::new();
        let (mut last, mut now) = (whole.as_slice(), look.now.as_slice());
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
        std::mem::swap(whole, &mut look.now);
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
