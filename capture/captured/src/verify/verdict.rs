//! The words for what was found: of a buffer, and of a dispatch.

use std::fmt;

use super::BufferReport;

/// What came of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Neither changed it.
    Untouched,
    /// The application's kernel was given no way to it and changes nothing in it in any replay, nor does the kernel that is
    /// judged; the host can write it, and did so while the application's kernel ran.
    ChangedByHost,
    /// Stacks of threads, dead memory once the kernel has ended, are not as the application got them. Everything else was compared,
    /// and is.
    Stacks,
    /// Every byte is as the application got it.
    Match,
    /// Every byte is, but for elements in which replays of the application's own kernel differ among themselves.
    MatchMasked,
    /// Every element is equal or near enough.
    WithinTol,
    /// The capture does not have it after the kernel.
    NoReference,
    /// Some replays computed something else, not enough of them to say that it is no chance.
    Undecided,
    /// Replays of the application's own kernel agree with each other and not with what the application got.
    NotReproduced,
    /// The application's kernel changed it, the replay changed nothing in it.
    NothingWritten,
    /// What the application's kernel wrote is there, and the replay wrote elsewhere too.
    TouchedOutside,
    /// The kernel leaves what was there, where the application's kernel stores: memory already held the value.
    NotStored,
    /// The result depends on bytes that the application's kernel overwrites without reading them, or that lie around captured memory.
    ReadsOld,
    /// Elements differ.
    Mismatch,
}

/// What a buffer's verdict means for the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Nothing: there was nothing to compare.
    Nothing,
    /// There was nothing to compare it with.
    NoReference,
    /// It speaks for a PASS.
    Pass,
    /// Nothing can be said.
    Inconclusive,
    /// The application's own kernel computes something else than it did.
    NotReproduced,
    /// The kernel that is judged computes something else.
    Fail,
}

impl Verdict {
    /// The word, and what it means for the dispatch.
    fn row(self) -> (&'static str, Says) {
        match self {
            Verdict::Untouched => ("UNTOUCHED", Says::Nothing),
            Verdict::ChangedByHost => ("CHANGED_BY_HOST", Says::Nothing),
            Verdict::Stacks => ("STACKS", Says::Nothing),
            Verdict::Match => ("MATCH", Says::Pass),
            Verdict::MatchMasked => ("MATCH_MASKED", Says::Pass),
            Verdict::WithinTol => ("WITHIN_TOL", Says::Pass),
            Verdict::NoReference => ("NO_REFERENCE", Says::NoReference),
            Verdict::Undecided => ("UNDECIDED", Says::Inconclusive),
            Verdict::NotReproduced => ("NOT_REPRODUCED", Says::NotReproduced),
            Verdict::NothingWritten => ("NOTHING_WRITTEN", Says::Fail),
            Verdict::TouchedOutside => ("TOUCHED_OUTSIDE", Says::Fail),
            Verdict::NotStored => ("NOT_STORED", Says::Fail),
            Verdict::ReadsOld => ("READS_OLD", Says::Fail),
            Verdict::Mismatch => ("MISMATCH", Says::Fail),
        }
    }

    /// What it means for the dispatch.
    pub fn says(self) -> Says {
        self.row().1
    }

    /// True when something else was computed, by whichever kernel.
    pub fn is_failure(self) -> bool {
        matches!(self.says(), Says::Fail | Says::NotReproduced)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().0)
    }
}

/// Whose kernel is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The application's own, by what the application got.
    Own,
    /// Another one, by the application's own and what the application got.
    Other,
}

/// The result for a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overall {
    /// Every byte that was written is as the application got it, near enough, or masked; and nothing else was written.
    Pass,
    /// Something else was computed.
    Fail,
    /// Another kernel cannot be judged: the application's own computes something else than the application got.
    NotReproduced,
    /// The application's kernel is not deterministic, so that nothing can be said.
    Inconclusive,
    /// Neither wrote anything that can be seen: that proves nothing.
    NothingWritten,
    /// The capture does not have the memory after the kernel.
    NoReference,
}

/// Leaves the memory of stacks out if everything else was compared and is equal, or near enough: what it has then is the rest of a
/// computation whose results are right. Anything else that is masked, or that is not in the capture, keeps it in.
pub fn leave_out_stacks(buffers: &mut [BufferReport], is_stacks: impl Fn(&BufferReport) -> bool) {
    let is_equal = |report: &BufferReport| {
        report.masked == 0 && matches!(report.verdict, Verdict::Untouched | Verdict::Match | Verdict::WithinTol)
    };
    let mut others = buffers.iter().filter(|report| !is_stacks(report));
    if !others.all(is_equal) {
        return;
    }
    for report in buffers.iter_mut().filter(|report| is_stacks(report) && !is_equal(report)) {
        if report.verdict != Verdict::NoReference {
            report.verdict = Verdict::Stacks;
        }
    }
}

impl Overall {
    /// Of the buffers' results. `limit` is the share of what was written that may be masked.
    pub fn of(buffers: &[BufferReport], judged: Judged, limit: f64) -> Overall {
        // Where there is no memory, none has to be there afterwards.
        let (mut passes, mut referenced) = (false, buffers.is_empty());
        let mut inconclusive = Mask::of(buffers).share() > limit;
        let (mut reproduced, mut fails) = (true, false);
        for verdict in buffers.iter().map(|b| b.verdict) {
            referenced |= verdict != Verdict::NoReference;
            match verdict.says() {
                Says::Nothing | Says::NoReference => {}
                Says::Pass => passes = true,
                Says::Inconclusive => inconclusive = true,
                Says::NotReproduced => reproduced = false,
                Says::Fail => fails = true,
            }
        }
        match () {
            () if !reproduced && judged == Judged::Other => Overall::NotReproduced,
            () if !reproduced || fails => Overall::Fail,
            () if inconclusive => Overall::Inconclusive,
            () if passes => Overall::Pass,
            () if referenced => Overall::NothingWritten,
            () => Overall::NoReference,
        }
    }
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overall::Pass => "PASS",
            Overall::Fail => "FAIL",
            Overall::NotReproduced => "NOT_REPRODUCED",
            Overall::Inconclusive => "INCONCLUSIVE",
            Overall::NothingWritten => "NOTHING_WRITTEN",
            Overall::NoReference => "NO_REFERENCE",
        })
    }
}

/// How much of a dispatch's results is masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Bytes of elements in which replays of the application's own kernel differ among themselves.
    pub masked: u64,
    /// Bytes of all elements that the application's own kernel changes.
    pub changed: u64,
}

impl Mask {
    /// Of all buffers of a dispatch, but for stacks that are left out.
    pub fn of(buffers: &[BufferReport]) -> Mask {
        let counted = || buffers.iter().filter(|report| report.verdict != Verdict::Stacks);
        let sum = |of: fn(&BufferReport) -> u64| counted().map(of).sum();
        Mask { masked: sum(|b| b.masked), changed: sum(|b| b.changed) }
    }

    /// The masked part of what was written, from 0 to 1.
    pub fn share(self) -> f64 {
        if self.masked == 0 { 0.0 } else { self.masked as f64 / self.changed.max(1) as f64 }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mask { masked, changed } = self;
        write!(f, "{masked} of {changed} written bytes are masked ({:.2} %)", 100.0 * self.share())
    }
}
