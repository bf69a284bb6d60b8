//! Which memory dispatches of a part reach, as far as addresses in their arguments, in variables and in that memory lead.

use std::ops::Range;

use logdur_capture::FramePosition;
use logdur_captured::region::CapturedPart;
use logdur_captured::{extent, without};

use crate::error::Result;
use crate::loaded::LoadedDispatch;

/// Bytes of an address.
const WORD: usize = 8;
/// Bytes that are read at once.
const STEP: u64 = 4 << 20;

/// A piece of memory that is reached whole, or not at all: the captured bytes of an allocation.
struct Piece {
    range: Range<u64>,
    /// The number of the allocation's record in the file: memory that is allocated anew is another piece.
    made: u64,
    /// What begins in it and leads to it: the allocation, captured or not.
    leads: Range<u64>,
}

/// The memory that is reached so far.
pub(super) struct Reached {
    /// By address.
    pieces: Vec<Piece>,
    /// Those that are reached: the beginning, and the number of the record.
    reached: std::collections::BTreeSet<(u64, u64)>,
    /// There is memory that was not there before: words that were followed may lead to it now.
    has_new: bool,
}

impl Reached {
    pub(super) fn new() -> Reached {
        Reached { pieces: Vec::new(), reached: std::collections::BTreeSet::new(), has_new: false }
    }

    /// Takes over what allocations there are at a place of the capture.
    pub(super) fn at(&mut self, part: &CapturedPart<'_>, place: FramePosition) {
        let held = part.captured.before.ranges();
        let mut pieces = Vec::new();
        let mut rest = held.clone();
        for allocation in part.region.reader.allocations_at(place) {
            let leads = allocation.base..allocation.base.saturating_add(allocation.size);
            for held in &held {
                let range = held.start.max(leads.start)..held.end.min(leads.end);
                if range.start < range.end {
                    pieces.push(Piece { range, made: allocation.place.sequence, leads: leads.clone() });
                }
            }
            rest = rest.into_iter().flat_map(|range| without(range, &leads)).filter(|r| r.start < r.end).collect();
        }
        // Memory that no allocation has is there for as long as the part: variables of code above all.
        let gone = part.captured.allocations.iter().map(|a| a.base..a.base.saturating_add(a.size));
        for gone in gone {
            rest = rest.into_iter().flat_map(|range| without(range, &gone)).filter(|r| r.start < r.end).collect();
        }
        pieces.extend(rest.into_iter().map(|range| Piece { leads: range.clone(), range, made: 0 }));
        pieces.sort_by_key(|piece| piece.range.start);
        let was_there = |piece: &Piece| {
            self.pieces.iter().any(|was| (was.range.start, was.made) == (piece.range.start, piece.made))
        };
        self.has_new |= pieces.iter().any(|piece| !was_there(piece));
        self.reached.retain(|key| pieces.iter().any(|piece| (piece.range.start, piece.made) == *key));
        self.pieces = pieces;
    }

    /// The pieces that some bytes lead to and that were not reached, with what these lead to.
    fn follow(&mut self, bytes: &[u8], next: &mut Vec<usize>) {
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else { return };
        let all = first.leads.start.min(first.range.start)..last.leads.end.max(last.range.end);
        for word in bytes.windows(WORD) {
            let Ok(word) = word.try_into().map(u64::from_le_bytes) else { continue };
            if all.contains(&word) {
                self.aim(word, next);
            }
        }
    }

    fn aim(&mut self, address: u64, next: &mut Vec<usize>) {
        // An allocation may have several pieces; all of them are reached with it.
        let behind = self.pieces.partition_point(|piece| piece.leads.start <= address);
        let before = self.pieces.get(..behind).unwrap_or_default().iter().enumerate().rev();
        let Some(leads) = before.map(|(_, piece)| &piece.leads).take(1).find(|leads| leads.contains(&address)).cloned()
        else {
            return;
        };
        for (number, piece) in self.pieces.iter().enumerate() {
            if piece.leads == leads && self.reached.insert((piece.range.start, piece.made)) {
                next.push(number);
            }
        }
    }

    /// Follows what is in arguments and in changed memory, and reads what they lead to; the ranges that are reached now and were not.
    ///
    /// # Errors
    /// When memory cannot be read.
    pub(super) fn reach<'b>(
        &mut self,
        part: &CapturedPart<'_>,
        loaded: &LoadedDispatch<'_>,
        seeds: impl Iterator<Item = &'b [u8]>,
    ) -> Result<Vec<Range<u64>>> {
        let mut next = Vec::new();
        let code: Vec<Range<u64>> = part.captured.all_loaded.iter().map(|loaded| extent(loaded)).collect();
        for (number, piece) in self.pieces.iter().enumerate() {
            let is_variable = piece.made == 0 && code.iter().any(|code| code.contains(&piece.range.start));
            if is_variable && self.reached.insert((piece.range.start, piece.made)) {
                next.push(number);
            }
        }
        seeds.for_each(|bytes| self.follow(bytes, &mut next));
        let mut new = Vec::new();
        if std::mem::take(&mut self.has_new) {
            for range in self.ranges(loaded) {
                self.follow_memory(loaded, &range, &mut next)?;
            }
        }
        while let Some(number) = next.pop() {
            let Some(range) = self.pieces.get(number).map(|piece| piece.range.clone()) else { continue };
            for piece in loaded.restored_of(&range) {
                self.follow_memory(loaded, &piece, &mut next)?;
                new.push(piece);
            }
        }
        new.sort_by_key(|range| range.start);
        Ok(new)
    }

    /// Follows what is in restored memory.
    fn follow_memory(&mut self, loaded: &LoadedDispatch<'_>, piece: &Range<u64>, next: &mut Vec<usize>) -> Result<()> {
        let (mut at, mut bytes) = (piece.start, Vec::new());
        while at < piece.end {
            // An address across two reads is in the second one, too.
            let from = at.saturating_sub(WORD as u64 - 1).max(piece.start);
            let end = piece.end.min(at + STEP);
            bytes.resize((end - from) as usize, 0);
            loaded.read_captured(from, &mut bytes)?;
            self.follow(&bytes, next);
            at = end;
        }
        Ok(())
    }

    /// All ranges that are reached.
    pub(super) fn ranges(&self, loaded: &LoadedDispatch<'_>) -> Vec<Range<u64>> {
        let is_reached = |piece: &&Piece| self.reached.contains(&(piece.range.start, piece.made));
        self.pieces.iter().filter(is_reached).flat_map(|piece| loaded.restored_of(&piece.range)).collect()
    }

    /// The parts of some memory that are reached.
    pub(super) fn parts(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let is_reached = |piece: &&Piece| self.reached.contains(&(piece.range.start, piece.made));
        let parts = self.pieces.iter().filter(is_reached);
        let parts = parts.map(|piece| piece.range.start.max(range.start)..piece.range.end.min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }
}
