//! Finds other code objects that a dispatch needs: those with functions that the kernel calls by pointer, or with constants that it
//! reads.
//!
//! A value that looks like an address counts as one: at every byte of the arguments and, if the kernel calls or jumps by address, in
//! aligned words of memory. A code object that is loaded without need has no effect.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use amdgpu_code_object::{CodeObject, Image, Unreadable};
use logdur_capture::{Global, Id, Loaded, Memory};

use super::{CapturedDispatch, processor};
use crate::error::{CapturedError, Result, with_causes};

/// Bytes that are read at once.
const PIECE: usize = 4 << 20;
/// Bytes of an address.
const WORD: usize = size_of::<u64>();

/// A code object beside the kernel's own that a dispatch leads to.
#[derive(Debug)]
pub struct Called {
    /// Where it was loaded.
    pub loaded: Loaded,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is added to its addresses where it was loaded.
    pub moved: u64,
    /// Its captured variables, by address.
    pub ranges: Vec<Range<u64>>,
    /// The names of its variables.
    pub globals: Vec<Global>,
}

/// The other code objects that a dispatch leads to.
#[derive(Debug, Default)]
pub(crate) struct OtherCode {
    /// Those that a replay can load.
    pub(crate) called: Vec<Called>,
    /// Those that it cannot, and why.
    pub(crate) unavailable: Vec<(Loaded, String)>,
}

/// How messages name a loaded code object.
pub fn name(loaded: &Loaded) -> String {
    if loaded.uri.is_empty() { loaded.code_object.to_string() } else { loaded.uri.clone() }
}

/// Where a code object was loaded.
pub fn extent(loaded: &Loaded) -> Range<u64> {
    loaded.base..loaded.base.saturating_add(loaded.size)
}

/// Code objects in memory, by address, and the addresses of each that were met.
struct Met<'r> {
    all: Vec<(&'r Loaded, Vec<u64>)>,
    /// From the first address of all to behind the last.
    bounds: Range<u64>,
}

impl<'r> Met<'r> {
    fn new(mut all: Vec<&'r Loaded>) -> Met<'r> {
        all.sort_by_key(|loaded| loaded.base);
        let start = all.first().map_or(0, |loaded| loaded.base);
        let end = all.iter().map(|loaded| extent(loaded).end).max().unwrap_or(0);
        Met { all: all.into_iter().map(|loaded| (loaded, Vec::new())).collect(), bounds: start..end }
    }

    /// Looks at words that begin so many bytes apart.
    fn look(&mut self, bytes: &[u8], step: usize) {
        for word in bytes.windows(WORD).step_by(step) {
            let address = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if !self.bounds.contains(&address) {
                continue;
            }
            let before = self.all.partition_point(|(loaded, _)| loaded.base <= address);
            let found = before.checked_sub(1).and_then(|at| self.all.get_mut(at));
            if let Some((_, met)) = found.filter(|(loaded, _)| extent(loaded).contains(&address))
                && !met.contains(&address)
            {
                met.push(address);
            }
        }
    }

    /// Looks at all memory of a snapshot.
    fn look_through(&mut self, memory: &Memory<'_>) -> Result<()> {
        let mut bytes = Vec::new();
        for range in memory.ranges() {
            let mut at = range.start.next_multiple_of(WORD as u64);
            while at < range.end {
                bytes.resize(PIECE.min((range.end - at) as usize), 0);
                memory.read(at, &mut bytes)?;
                self.look(&bytes, WORD);
                at += bytes.len() as u64;
            }
        }
        Ok(())
    }
}

impl CapturedDispatch<'_> {
    /// The other code objects that the dispatch leads to, among those that the capture knows to be in memory.
    ///
    /// # Errors
    /// When the capture is damaged.
    pub(super) fn find_called(&self) -> Result<OtherCode> {
        let own = [self.loaded, self.own_data.as_ref().map(|own| own.loaded)];
        let is_own = |loaded: &Loaded| own.iter().flatten().any(|own| std::ptr::eq(*own, loaded));
        let mut of_companions: Vec<&Loaded> = self.companions.iter().filter_map(|companion| companion.loaded).collect();
        of_companions.sort_by_key(|loaded| (loaded.base, std::ptr::from_ref(*loaded)));
        of_companions.dedup_by_key(|loaded| std::ptr::from_ref(*loaded));
        of_companions.retain(|loaded| loaded.base != 0 && !is_own(loaded));
        let is_companions = |loaded: &Loaded| of_companions.iter().any(|of| std::ptr::eq(*of, loaded));
        let others: Vec<&Loaded> = self
            .all_loaded
            .iter()
            .copied()
            .filter(|loaded| loaded.base != 0 && !is_own(loaded) && !is_companions(loaded))
            .collect();
        let mut found = OtherCode::default();
        for loaded in &of_companions {
            found.called.push(self.contents(loaded)?);
        }
        if others.is_empty() {
            return Ok(found);
        }
        let mut met = Met::new(others);
        met.look(&self.dispatch.kernarg, 1);
        self.companions.iter().for_each(|companion| met.look(&companion.dispatch.kernarg, 1));
        if self.goes_by_address() {
            met.look_through(&self.before)?;
        }
        for (loaded, addresses) in met.all.into_iter().filter(|(_, met)| !met.is_empty()) {
            match self.with_contents(loaded, &addresses) {
                Ok(Some(called)) => found.called.push(called),
                Ok(None) => {}
                Err(error) => found.unavailable.push((loaded.clone(), with_causes(&error))),
            }
        }
        Ok(found)
    }

    /// True if a kernel of the dispatch calls or jumps to an address of a register, as far as that is known.
    fn goes_by_address(&self) -> bool {
        let isa = self.agent.map_or("", |agent| agent.isa.as_str());
        let Ok(arch) = processor(isa).parse() else { return true };
        let goes =
            |code: &super::Code| amdgpu_listing::goes_by_address(&code.bytes, arch, &code.kernel.name).unwrap_or(true);
        let mut seen = HashSet::new();
        let companions = self.companions.iter().map(|companion| &companion.original);
        let all = companions.filter(|code| seen.insert(Arc::as_ptr(code))).map(|code| &**code);
        [Some(&*self.original), self.ran_instead.as_ref()].into_iter().flatten().chain(all).any(goes)
    }

    /// A code object with what the capture has of it; `None` if the addresses that were met are of captured memory alone.
    fn with_contents(&self, loaded: &Loaded, addresses: &[u64]) -> Result<Option<Called>> {
        let called = self.contents(loaded)?;
        let is_captured = |address: &u64| called.ranges.iter().any(|range| range.contains(address));
        Ok((!addresses.iter().all(is_captured)).then_some(called))
    }

    /// A code object with what the capture has of it.
    fn contents(&self, loaded: &Loaded) -> Result<Called> {
        let whole = extent(loaded);
        let held = self.before.ranges().into_iter();
        let held = held.map(|range| range.start.max(whole.start)..range.end.min(whole.end));
        let ranges: Vec<Range<u64>> = held.filter(|range| range.start < range.end).collect();
        let bytes = self.reader.code_object(loaded.code_object)?;
        let unreadable = |source: Unreadable| CapturedError::CodeObject {
            place: format!("code object {} of the capture", loaded.code_object),
            source,
        };
        CodeObject::parse(&bytes).map_err(unreadable)?;
        let image = Image::parse(&bytes).map_err(unreadable)?;
        let moved = loaded.base.wrapping_sub(image.first_address());
        let of = |g: &&Global| (g.executable, g.code_object) == (loaded.executable, loaded.code_object);
        let of = |g: &&Global| of(g) && whole.contains(&g.address);
        let globals = self.reader.records().globals.iter().map(|global| &global.value).filter(of).cloned().collect();
        Ok(Called { loaded: loaded.clone(), moved, ranges, globals, bytes })
    }
}

impl Called {
    /// Its hash.
    pub fn id(&self) -> Id {
        self.loaded.code_object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_code_are_found_at_every_byte_of_arguments_and_in_words_of_memory() {
        let loaded = |base| Loaded { base, size: 0x1000, ..Loaded::default() };
        let (first, second) = (loaded(0x7000_0000), loaded(0x7000_3000));
        let words: Vec<u8> = [0x7000_0010u64, 0x7000_1000, 0x7000_3fff, 0x7000_3fff, 7].map(u64::to_le_bytes).concat();
        let met = |bytes: &[u8], step| {
            let mut met = Met::new(vec![&second, &first]);
            met.look(bytes, step);
            met.all.into_iter().map(|(_, met)| met).collect::<Vec<_>>()
        };
        assert_eq!(met(&words, WORD), [vec![0x7000_0010], vec![0x7000_3fff]]);
        let packed = [&[0; 3], &*words].concat();
        assert_eq!((met(&packed, 1), met(&packed, WORD)), (met(&words, WORD), vec![vec![], vec![]]));
    }
}
