//! Selects the memory of a snapshot, and reads it into the file, each byte once.
//!
//! # Threads
//! The capture thread.

use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::time::Instant;

use hsa::Executable;
use logdur_capture::{Buffer, SnapshotId, WORD, words, words_in};
use logdur_intercept::Interceptor;
use logdur_settings::CaptureScope;
use logdur_system::lock;

use super::Capture;
use super::file::{Over, Source};
use super::hold::{PATIENCE, TooMuch};
use super::memory::{Allocation, Kind};
use super::read::To;
use super::take::{Reading, Untaken};
use super::untouched::{self, Links, Moment};

/// Which memory a snapshot includes, and the deadline for reading it.
pub(super) struct Wanted<'a> {
    pub(super) scope: CaptureScope,
    /// The position of the dispatch's agent in the list of agents.
    pub(super) agent: usize,
    pub(super) kernarg: &'a [u8],
    /// The executable of the replacement, if it has variables of its own.
    pub(super) replacement: Option<Executable>,
    /// The dispatch has run.
    pub(super) is_after: bool,
    pub(super) end: Instant,
}

/// The memory of a snapshot. It grows during reading if addresses are followed.
struct Gathered<'a, 'r> {
    capture: &'a Capture,
    reading: &'r mut Reading<'a>,
    end: Instant,
    /// How many bytes the file may still grow.
    left: u64,
    all: Vec<Allocation>,
    /// How many of them were read, or known to be unchanged.
    next: usize,
    /// Serial numbers of memory that is unchanged since the parent snapshot.
    same: HashSet<u64>,
    /// Present if each word that looks like an address is followed.
    follow: Option<Follow>,
}

/// Following addresses from memory to memory.
struct Follow {
    /// First addresses of the memory found.
    known: HashSet<u64>,
    /// The range of all memory: a word outside of it is no address.
    span: (u64, u64),
    /// The last bytes that were looked at, and the address behind them: an address may lie across two pieces.
    last: (Vec<u8>, u64),
    /// Addresses found in memory of the parent snapshot.
    before: Links,
    /// Addresses found in memory now.
    links: Links,
}

impl Follow {
    fn new(found: &[Allocation], span: (u64, u64), changes: u64, before: Links) -> Follow {
        // If the list of memory has changed, other words are addresses.
        let before = if before.changes == changes { before } else { Links::default() };
        let known = found.iter().map(|a| a.base).collect();
        Follow { known, span, last: Default::default(), before, links: Links { changes, ..Links::default() } }
    }
}

impl Gathered<'_, '_> {
    /// Follows each word in a piece of memory that looks like an address, at any byte: structs may be packed.
    fn follow(&mut self, range: &Allocation, at: u64, piece: &[u8]) {
        let Some(follow) = &mut self.follow else { return };
        let span = follow.span;
        let (mut across, behind) = std::mem::take(&mut follow.last);
        if behind != at {
            across.clear();
        }
        across.extend(piece.iter().take(WORD - 1));
        let mut addresses = words_in(&across, span).chain(words_in(piece, span)).peekable();
        let links = follow.links.of.entry(range.serial).or_default();
        if addresses.peek().is_none() {
            return;
        }
        lock(&self.capture.memory).each_led_to(addresses, |inside| {
            if !links.contains(&inside.base) {
                links.push(inside.base);
            }
            if follow.known.insert(inside.base) {
                self.all.push(inside);
            }
        });
    }

    /// Remembers the end of a piece, for the next one.
    fn ends(&mut self, at: u64, piece: &[u8]) {
        if let Some(follow) = &mut self.follow {
            let tail = piece.get(piece.len().saturating_sub(WORD - 1)..).unwrap_or_default();
            follow.last = (tail.to_vec(), at + piece.len() as u64);
        }
    }

    /// The same for memory that is unchanged and not read. False if its addresses are not known from before.
    fn follow_known(&mut self, range: &Allocation) -> bool {
        let Some(follow) = &mut self.follow else { return true };
        let Some(links) = follow.before.of.remove(&range.serial) else { return false };
        let memory = lock(&self.capture.memory);
        for base in &links {
            if let Some(found) = memory.around(*base).filter(|found| follow.known.insert(found.base)) {
                self.all.push(*found);
            }
        }
        drop(memory);
        follow.links.of.insert(range.serial, links);
        true
    }
}

impl Source for Gathered<'_, '_> {
    fn next(&mut self) -> Result<Option<(Allocation, bool)>, TooMuch> {
        let Some(range) = self.all.get(self.next).copied() else { return Ok(None) };
        self.next += 1;
        if self.follow.is_some() {
            let bytes = self.all.iter().map(|a| a.size).sum();
            self.capture.limits.allow(bytes, self.capture.readings(), self.left)?;
        }
        let same = self.same.contains(&range.serial) && self.follow_known(&range);
        Ok(Some((range, same)))
    }

    fn read(&mut self, range: &Allocation, offset: u64, to: &mut Buffer) -> io::Result<()> {
        let at = range.base + offset;
        self.capture.piece(self.reading, range, at, &mut *to, self.end)?;
        self.follow(range, at, to.bytes());
        self.ends(at, to.bytes());
        Ok(())
    }

    fn all(&self) -> &[Allocation] {
        &self.all
    }
}

impl Capture {
    /// How many times the memory of a dispatch is read.
    pub(super) fn readings(&self) -> u64 {
        1 + u64::from(self.after)
    }

    /// Reads memory into the file. Queues and copies must be at rest. The snapshot of a kernel that reaches no memory is empty.
    pub(super) fn snapshot<'a>(
        &'a self,
        interceptor: &Interceptor,
        reading: &mut Reading<'a>,
        wanted: &Wanted<'_>,
        parent: Option<SnapshotId>,
    ) -> Result<Option<SnapshotId>, Untaken> {
        if wanted.scope == CaptureScope::Kernarg {
            return Ok(None);
        }
        let before = self.untouched.take().filter(|before| Some(before.snapshot) == parent);
        let quiet = self.quiet(interceptor);
        let before = before.filter(|before| quiet.as_ref() == Some(&before.quiet));
        let all = self.ranges(interceptor, wanted);
        let memory = lock(&self.memory);
        let (span, changes) = (memory.span(), memory.changes());
        // All memory that may be reached; which part is reached is not known yet. Where a dispatch is about to run, only what was known
        // before can be used: looking at the host's mappings takes a while.
        let is_of_use = quiet.is_some() && before.as_ref().map_or(wanted.is_after, |before| !before.private.is_empty());
        let private = if is_of_use { untouched::private(memory.all()) } else { HashSet::new() };
        drop(memory);
        let (same, links) = match before {
            Some(before) => (private.intersection(&before.private).copied().collect(), before.links),
            None => (HashSet::new(), Links::default()),
        };
        let (start, mut file) = (Instant::now(), lock(&self.file));
        let left = file.left();
        let bytes = all.iter().map(|a| a.size).sum();
        self.limits.allow(bytes, self.readings(), left)?;
        let follows = wanted.scope == CaptureScope::Reachable;
        let follow = follows.then(|| Follow::new(&all, span, changes, links));
        let mut gathered = Gathered { capture: self, reading, end: wanted.end, left, all, next: 0, same, follow };
        let read = file.snapshot(interceptor, parent, &mut gathered, wanted.end)?;
        let id = read.id;
        let moment = quiet.zip(id).filter(|_| read.is_whole).map(|(quiet, id)| Moment {
            snapshot: id,
            quiet,
            private: gathered.all.iter().map(|a| a.serial).filter(|serial| private.contains(serial)).collect(),
            links: gathered.follow.map(|follow| follow.links).unwrap_or_default(),
        });
        self.untouched.put(moment);
        for what in read.unread {
            if file.lost(&what)? {
                interceptor.notice(format!("capture: {what}"));
            }
        }
        match read.over {
            None => self.limits.measured(read.bytes, start.elapsed(), left - file.left()),
            Some(Over::Bytes) => return Err(TooMuch::Bytes { bytes, left }.into()),
            Some(Over::Time) => return Err(Untaken::Held(self.limits.hold)),
            Some(Over::TooMuch(why)) => return Err(why.into()),
        }
        Ok(id)
    }

    /// Reads a piece of memory. It is freed neither meanwhile nor while a copy of it is in progress.
    pub(super) fn piece<'a, 't>(
        &'a self,
        reading: &mut Reading<'a>,
        range: &Allocation,
        at: u64,
        to: impl Into<To<'t>>,
        end: Instant,
    ) -> io::Result<()> {
        let deadline = end.min(Instant::now() + PATIENCE);
        let Reading { reader, not_freed } = reading;
        let Some(reader) = reader.as_mut() else { return Err(io::ErrorKind::Other.into()) };
        let held = not_freed.take().unwrap_or_else(|| self.reading.write().unwrap_or_else(PoisonError::into_inner));
        let known = lock(&self.memory).is_there(range, at);
        let read = if known {
            // SAFETY: it is allocated, and no thread frees it while the lock is held: as long as a copy is under way.
            let read = unsafe { reader.read(range, at, to.into(), &self.copies, deadline) };
            read.map_err(|e| {
                let kind = if e.is_freed(range) { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
                io::Error::new(kind, e.to_string())
            })
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "it was freed meanwhile"))
        };
        *not_freed = Some(held).filter(|_| !reader.has_no_late_copies());
        read
    }

    /// The memory in the scope of a dispatch. With `reachable`, only memory whose addresses are in arguments or code.
    fn ranges(&self, interceptor: &Interceptor, wanted: &Wanted<'_>) -> Vec<Allocation> {
        let agent = interceptor.agent(wanted.agent).map_or(0, |agent| agent.agent.handle);
        let mut memory = lock(&self.memory);
        memory.forget_unmapped();
        let all: Vec<Allocation> = memory.of_agent(agent).copied().collect();
        let mut found: Vec<Allocation> = words(wanted.kernarg).flat_map(|word| memory.led_to(word)).collect();
        // Code reaches its own variables without an argument.
        found.extend(all.iter().filter(|a| matches!(a.kind, Kind::Variable { .. })));
        let own = wanted.replacement.map_or(&[][..], |replacement| memory.of_ours(replacement)).to_vec();
        drop(memory);
        found.extend(&own);
        found.sort_by_key(|a| a.base);
        found.dedup();
        match wanted.scope {
            CaptureScope::Kernarg => Vec::new(),
            CaptureScope::Args | CaptureScope::Reachable => found,
            CaptureScope::All => with_signals(all, found, own),
        }
    }
}

/// All memory, the signals that arguments point to, and the replacement's own data.
fn with_signals(mut all: Vec<Allocation>, found: Vec<Allocation>, own: Vec<Allocation>) -> Vec<Allocation> {
    all.extend(own);
    all.extend(found.into_iter().filter(|a| a.kind == Kind::Signal));
    all.sort_by_key(|a| a.base);
    all
}
