//! Writes some dispatches of a region as a region of their own. What the steps between them do is done by a replay, and is in the deltas of
//! the dispatches that are kept, beside what the host had changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

use logdur_capture::{
    Evidence, FileStorage, FramePosition, Id, Note, Options as FileOptions, RegionEnd, Scope, Severity, SnapshotId,
    Step, StepKind, Writer,
};
use logdur_captured::Told;
use logdur_captured::region::{CapturedPart, PartStep, Work};

use super::extract::{BY_REPLAY, snapshot};
use super::reached::Reached;
use super::run::LoadedPart;
use crate::error::{ReplayError, Result};
use crate::loaded::{LoadedDispatch, Variant};
use crate::placed::Pages;
use crate::setup::Setup;

/// What of a part is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The numbers of the dispatches' steps.
    pub steps: BTreeSet<u64>,
    /// Memory that is filled with zeros, where a part finds it first and where the host writes it.
    pub zeroed: Vec<Range<u64>>,
    /// What it was asked for by.
    pub words: String,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Dispatches that were kept.
    pub dispatches: u64,
    /// Bytes of memory of the kept dispatches: those that they begin with, and those that are written between them.
    pub memory: u64,
    /// True if the memory at the end is the application's, not a replay's.
    pub has_reference: bool,
    /// How the last dispatch ends in a replay, if that is no success.
    pub fault: Option<String>,
}

/// Writes kept dispatches of a part into a file. The steps of the part are replayed in this process, which has not started the runtime yet.
///
/// # Errors
/// What keeps the part from being replayed; when its last step is not kept ([`Region::spanning`](logdur_captured::region::Region::spanning)
/// has a part that ends so); when the file cannot be written.
pub fn trim(part: &CapturedPart<'_>, setup: &Setup, kept: &Kept, storage: FileStorage) -> Result<Trimmed> {
    let is_kept =
        |step: &PartStep<'_>| matches!(step.work, Work::Dispatch { .. }) && kept.steps.contains(&step.step.sequence);
    let is_barrier = |step: &PartStep<'_>| matches!(step.work, Work::Barrier);
    let last = part.last().unwrap_or_default();
    if !part.steps.get(last).is_some_and(is_kept) {
        return Err(ReplayError::Usage {
            what: format!("region {}, {}", part.region.record.id, part.part.steps()),
            expected: "a dispatch that is kept as its last step".to_owned(),
            found: "another step".to_owned(),
        });
    }
    let mut loaded = LoadedPart::set(part, setup)?;
    let own = loaded.side(&Variant::default())?;
    // What the steps change is known afterwards. The last one may end the device: it is not run here.
    loaded.after(&own, last)?;
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    let writer = Writer::new(storage, &FileOptions::default())?;
    let mut trimming = Trimming {
        part,
        kept,
        told: Told::of(part.region.reader, std::iter::once(&part.captured)),
        writer,
        reached: Reached::new(),
        then: None,
        waiting: Vec::new(),
        evidence: Evidence::Idle,
        sequence: 0,
        memory: 0,
    };
    trimming.begin()?;
    trimming.zero(&loaded.loaded, &part.captured.before.ranges())?;
    let mut fault = None;
    for (number, step) in part.steps.iter().enumerate().take(last + 1) {
        loaded.prepare(number)?;
        if step.is_meanwhile() {
            trimming.meanwhile(&loaded, number)?;
            continue;
        }
        let delta = step.delta.as_ref().filter(|_| number > 0).map_or_else(Vec::new, |delta| delta.ranges());
        trimming.zero(&loaded.loaded, &delta)?;
        trimming.waiting.extend(delta);
        trimming.evidence = worse(trimming.evidence, step);
        if is_barrier(step) {
            trimming.barrier(step)?;
            continue;
        }
        if !is_kept(step) {
            loaded.step(&own, number)?;
            trimming.then.get_or_insert_with(Then::default).is_over = true;
            continue;
        }
        trimming.keep(&mut loaded.loaded, step)?;
        match loaded.step(&own, number) {
            Ok(_) => {}
            Err(ReplayError::Step { error, .. })
                if number == last && matches!(*error, ReplayError::Fault(_) | ReplayError::LeftOut { .. }) =>
            {
                fault = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        let next = part.steps.iter().skip(number + 1).find(|step| !is_barrier(step) && !step.is_meanwhile());
        let pages = next.filter(|next| !is_kept(next)).map(|_| pages(&mut loaded.loaded)).transpose()?;
        trimming.then = Some(Then { pages, is_over: false });
    }
    if last + 1 < part.steps.len() && fault.is_none() {
        loaded.prepare(last + 1)?;
        trimming.meanwhile(&loaded, last + 1)?;
        trimming.behind(&mut loaded.loaded)?;
    }
    trimming.end(&loaded, fault)
}

/// The pages that are not as at the beginning of the part, in all memory: steps that are left out may change some back.
fn pages(loaded: &mut LoadedDispatch<'_>) -> Result<Pages> {
    loaded.changed()
}

/// How sure it is what the host changed before a step and those before it.
fn worse(evidence: Evidence, step: &PartStep<'_>) -> Evidence {
    match step.step.evidence {
        Evidence::Idle => evidence,
        other if step.delta.is_some() && !matches!(evidence, Evidence::Either) => other,
        _ => evidence,
    }
}

/// The memory after the last dispatch that is kept.
#[derive(Default)]
struct Then {
    /// The pages that were not as at the beginning of the part, if steps follow that are not kept.
    pages: Option<Pages>,
    /// True if one of those has run.
    is_over: bool,
}

/// A file that is being written.
struct Trimming<'t, 'c> {
    part: &'t CapturedPart<'c>,
    kept: &'t Kept,
    told: Told<'c>,
    writer: Writer<FileStorage>,
    reached: Reached,
    /// `None` before the first step.
    then: Option<Then>,
    /// What the host has written since the last dispatch that is kept.
    waiting: Vec<Range<u64>>,
    evidence: Evidence,
    sequence: u64,
    memory: u64,
}

impl Trimming<'_, '_> {
    /// Writes what is said before the region.
    fn begin(&mut self) -> Result<()> {
        let region = self.part.region.record;
        self.told.write_until(&mut self.writer, region.place)?;
        let trigger = format!("{}, of which were kept: {}", region.trigger, self.kept.words);
        let scope = scope(region.scope);
        // What is between the dispatches was done in the order of the steps.
        self.writer.region(&logdur_capture::Region {
            trigger,
            scope,
            has_dependencies: false,
            ..region.value.clone()
        })?;
        Ok(())
    }

    /// Fills what of ranges is to be zero.
    fn zero(&self, loaded: &LoadedDispatch<'_>, ranges: &[Range<u64>]) -> Result<()> {
        for zero in &self.kept.zeroed {
            for range in ranges {
                let both = zero.start.max(range.start)..zero.end.min(range.end);
                for piece in loaded.restored_of(&both) {
                    loaded.put(piece.start, piece.end - piece.start, |_, _, bytes| {
                        bytes.fill(0);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Writes a dispatch, with what it reaches first and with what was changed since the one before.
    fn keep(&mut self, loaded: &mut LoadedDispatch<'_>, step: &PartStep<'_>) -> Result<()> {
        let Work::Dispatch { dispatch, .. } = step.work else { return Ok(()) };
        self.told.write_until(&mut self.writer, step.step.place)?;
        self.reached.at(self.part, step.step.place);
        let changed = self.changed(loaded)?;
        let seeds = [dispatch.kernarg.as_slice(), dispatch.replaced_kernarg.as_slice()].into_iter();
        let seeds = seeds.chain(changed.iter().map(|(_, bytes)| bytes.as_slice()));
        let new = self.reached.reach(self.part, loaded, seeds)?;
        let is_new = |at: u64| new.iter().any(|range| range.contains(&at));
        // What is reached now is written whole.
        let changed: Vec<&(u64, Vec<u8>)> = changed.iter().filter(|(at, _)| !is_new(*at)).collect();
        let delta = if new.is_empty() && changed.is_empty() {
            None
        } else {
            let mut snapshot = self.writer.snapshot(None);
            for range in &new {
                let mut read =
                    |at: u64, to: &mut [u8]| loaded.read_captured(range.start + at, to).map_err(io::Error::other);
                snapshot.range(range.start, range.end - range.start, &mut read)?;
                self.memory += range.end - range.start;
            }
            for (at, bytes) in changed {
                snapshot.bytes(*at, bytes)?;
                self.memory += bytes.len() as u64;
            }
            Some(snapshot.finish()?)
        };
        self.sequence += 1;
        let evidence = std::mem::replace(&mut self.evidence, Evidence::Idle);
        self.writer.step(&Step {
            sequence: self.sequence,
            delta,
            evidence,
            // Hashes are of the application's memory.
            changed: Vec::new(),
            has_changed: false,
            digest: Id::default(),
            ..step.step.value.clone()
        })?;
        Ok(())
    }

    /// What the host has written while a dispatch ran, which replays have decided.
    fn meanwhile(&mut self, loaded: &LoadedPart<'_>, number: usize) -> Result<()> {
        let of_host = loaded.changed.get(number).into_iter().flatten();
        let ranges: Vec<Range<u64>> = of_host.map(|range| range.captured.clone()).collect();
        self.zero(&loaded.loaded, &ranges)?;
        self.waiting.extend(ranges);
        Ok(())
    }

    /// Writes what the host has written behind the last dispatch.
    fn behind(&mut self, loaded: &mut LoadedDispatch<'_>) -> Result<()> {
        let changed = self.changed(loaded)?;
        if changed.is_empty() {
            return Ok(());
        }
        let mut snapshot = self.writer.snapshot(None);
        changed.iter().try_for_each(|(at, bytes)| snapshot.bytes(*at, bytes))?;
        let delta = Some(snapshot.finish()?);
        self.sequence += 1;
        let (region, sequence, kind) = (self.part.region.record.id, self.sequence, StepKind::Copy);
        self.writer.step(&Step { region, sequence, kind, delta, evidence: Evidence::Idle, ..Step::default() })?;
        Ok(())
    }

    /// Writes a barrier between dispatches that are kept.
    fn barrier(&mut self, step: &PartStep<'_>) -> Result<()> {
        if self.sequence == 0 {
            return Ok(());
        }
        self.sequence += 1;
        self.writer.step(&Step {
            sequence: self.sequence,
            delta: None,
            digest: Id::default(),
            ..step.step.value.clone()
        })?;
        Ok(())
    }

    /// What was changed in memory that is reached, since the last dispatch that was kept: addresses and bytes, which do not touch.
    fn changed(&mut self, loaded: &mut LoadedDispatch<'_>) -> Result<Vec<(u64, Vec<u8>)>> {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(then) = self.then.take() else { return Ok(Vec::new()) };
        let mut all = BTreeMap::new();
        if let (true, Some(then)) = (then.is_over, &then.pages) {
            let now = pages(loaded)?;
            for page in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
                let length = then.get(page).or(now.get(page)).map_or(0, |bytes| bytes.len());
                let mut bytes = [vec![0; length], vec![0; length]];
                for (pages, bytes) in [then, &now].into_iter().zip(&mut bytes) {
                    match pages.get(page) {
                        Some(found) => bytes.copy_from_slice(found),
                        None => loaded.before().read(*page, bytes)?,
                    }
                }
                let [was, is] = &bytes;
                put_differing(*page, was, is, &mut all);
            }
        }
        // The host's writes are written as they are: the dispatch before may have left the same bytes here, and others elsewhere.
        for range in waiting {
            for part in self.reached.parts(&range) {
                for piece in loaded.restored_of(&part) {
                    let mut bytes = vec![0; (piece.end - piece.start) as usize];
                    loaded.read_captured(piece.start, &mut bytes)?;
                    all.extend((piece.start..).zip(bytes));
                }
            }
        }
        Ok(joined(all).into_iter().flat_map(|(at, bytes)| self.of_reached(at, &bytes)).collect())
    }

    /// What of some bytes is in memory that is reached.
    fn of_reached(&self, at: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let parts = self.reached.parts(&(at..at + bytes.len() as u64)).into_iter();
        let of = |part: Range<u64>| {
            let bytes = bytes.get((part.start - at) as usize..(part.end - at) as usize)?;
            Some((part.start, bytes.to_vec()))
        };
        parts.filter_map(of).collect()
    }

    /// Writes the end of the region.
    fn end(mut self, loaded: &LoadedPart<'_>, fault: Option<String>) -> Result<Trimmed> {
        let (part, region) = (self.part, self.part.region);
        let live = part.live();
        let mut ranges = Vec::new();
        for range in self.reached.ranges(&loaded.loaded) {
            let live = live.iter().map(|live| live.start.max(range.start)..live.end.min(range.end));
            ranges.extend(live.filter(|part| part.start < part.end));
        }
        let reference = part.captured.after.as_ref().filter(|_| self.kept.zeroed.is_empty());
        let held = reference.map_or_else(Vec::new, |after| after.ranges());
        let holds = |range: &Range<u64>| held.iter().any(|held| held.start <= range.start && range.end <= held.end);
        let after: Option<SnapshotId> = match reference {
            _ if fault.is_some() => None,
            Some(reference) => {
                let mut snapshot = self.writer.snapshot(None);
                for range in ranges.iter().filter(|range| holds(range)) {
                    let mut read =
                        |at: u64, to: &mut [u8]| reference.read(range.start + at, to).map_err(io::Error::other);
                    snapshot.range(range.start, range.end - range.start, &mut read)?;
                }
                Some(snapshot.finish()?)
            }
            None => Some(snapshot(&mut self.writer, None, &loaded.loaded, &ranges)?),
        };
        let has_reference = reference.is_some() && after.is_some();
        self.told.notes_until(&mut self.writer, FramePosition { sequence: u64::MAX, offset: 0 })?;
        self.notes(loaded, has_reference)?;
        let ended = region.end.map(|end| (end.is_complete, end.reason.clone()));
        let (was_complete, was) = ended.unwrap_or_else(|| (false, "its process ended, or still ran".to_owned()));
        let reason = match &fault {
            Some(fault) => format!("its last dispatch does not end in a replay: {fault}"),
            None => was,
        };
        let is_complete = was_complete && fault.is_none();
        self.writer.region_end(&RegionEnd {
            region: region.record.id,
            steps: self.sequence,
            after,
            is_complete,
            reason: if is_complete { String::new() } else { reason },
            ..RegionEnd::default()
        })?;
        self.writer.finish()?;
        Ok(Trimmed { dispatches: self.kept.steps.len() as u64, memory: self.memory, has_reference, fault })
    }

    /// Writes what of it is a replay's, and what the replay rests on.
    fn notes(&mut self, loaded: &LoadedPart<'_>, has_reference: bool) -> Result<()> {
        let part = self.part;
        let said =
            |severity, text: String| Note { severity, code: BY_REPLAY.to_owned(), text, dispatch: None, time_ns: 0 };
        let region = part.region.record.id;
        let what = if has_reference { "memory between dispatches" } else { "memory between dispatches and at the end" };
        let text = format!("{what} is that of a replay of region {region}, {}", part.part.steps());
        // A proof with it rests on replays.
        self.writer.note(&said(Severity::Loss, text))?;
        let zeroed: u64 = self.kept.zeroed.iter().map(|range| range.end - range.start).sum();
        if zeroed > 0 {
            self.writer.note(&said(Severity::Info, format!("{zeroed} bytes of memory were replaced by zeros")))?;
        }
        for why in part.qualified.iter().chain(&loaded.loaded.qualified) {
            self.writer.note(&said(Severity::Loss, why.clone()))?;
        }
        Ok(())
    }
}

/// What a trimmed region has of the memory: what its dispatches reach.
fn scope(of: Scope) -> Scope {
    if of == Scope::All { Scope::Reachable } else { of }
}

/// Keeps the bytes of a page that are others now.
fn put_differing(page: u64, was: &[u8], is: &[u8], all: &mut BTreeMap<u64, u8>) {
    if was != is {
        let bytes = (page..).zip(was.iter().zip(is));
        all.extend(bytes.filter(|(_, (was, is))| was != is).map(|(at, (_, is))| (at, *is)));
    }
}

/// Joins bytes that follow each other.
fn joined(bytes: BTreeMap<u64, u8>) -> Vec<(u64, Vec<u8>)> {
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, byte) in bytes {
        match all.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.push(byte),
            _ => all.push((at, vec![byte])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_differ_are_kept_and_joined() {
        let mut all = BTreeMap::new();
        put_differing(0x1000, &[1, 2, 3, 4, 5], &[1, 9, 8, 4, 7], &mut all);
        put_differing(0x1005, &[1], &[2], &mut all);
        assert_eq!(joined(all), [(0x1001, vec![9, 8]), (0x1004, vec![7, 2])]);
    }
}
