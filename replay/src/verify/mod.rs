//! What a replay wrote, compared with what the application's own dispatch wrote.
//!
//! Only bytes that either of them changed are looked at: everything else is as it was before, in both. Several replays
//! from the same memory tell what is not deterministic; that is masked and counted.

mod compare;
mod element;

pub use compare::{Comparison, Piece};
pub use element::{Distance, Rule, Tolerance, Type};

use std::fmt;

use crate::exit::Exit;

/// What came of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Neither changed it.
    Untouched,
    /// It is memory of the host that the kernel was given no way to, and the replay changed nothing in it: the application's
    /// threads did, while its kernel ran.
    ChangedByHost,
    /// Every byte is as the application got it.
    Match,
    /// Every byte is, but for those that replays differ in among themselves.
    MatchMasked,
    /// Every element is equal or near enough.
    WithinTol,
    /// The capture does not have it after the kernel.
    NoReference,
    /// The application's kernel changed it, the replay changed nothing in it.
    NothingWritten,
    /// What the application's kernel wrote is there, and the replay wrote elsewhere too.
    TouchedOutside,
    /// Elements differ.
    Mismatch,
}

impl Verdict {
    /// True when the replay computed something else.
    pub fn is_failure(self) -> bool {
        matches!(self, Verdict::NothingWritten | Verdict::TouchedOutside | Verdict::Mismatch)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Untouched => "UNTOUCHED",
            Verdict::ChangedByHost => "CHANGED_BY_HOST",
            Verdict::Match => "MATCH",
            Verdict::MatchMasked => "MATCH_MASKED",
            Verdict::WithinTol => "WITHIN_TOL",
            Verdict::NoReference => "NO_REFERENCE",
            Verdict::NothingWritten => "NOTHING_WRITTEN",
            Verdict::TouchedOutside => "TOUCHED_OUTSIDE",
            Verdict::Mismatch => "MISMATCH",
        })
    }
}

/// A piece of memory with a name: what an argument points to, a variable, an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its name: `out`, `arg2`, a variable's symbol, or the address in hexadecimal.
    pub name: String,
    /// Its first address, as the application had it.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// What its elements are.
    pub of: Type,
    /// What is near enough.
    pub tolerance: Tolerance,
}

/// An element that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number in the buffer.
    pub index: u64,
    /// Its address, as the application had it.
    pub address: u64,
    /// What it was before the kernel.
    pub before: String,
    /// What the application's kernel left there.
    pub expected: String,
    /// What the replay left there.
    pub found: String,
}

/// What was found of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferReport {
    /// The buffer.
    pub buffer: Buffer,
    /// The result.
    pub verdict: Verdict,
    /// Bytes that the application's kernel changed.
    pub written: u64,
    /// Bytes that the replay changed.
    pub replayed: u64,
    /// Elements that the application's kernel changed and that are not as it left them.
    pub mismatches: u64,
    /// Elements that the application's kernel left alone and the replay did not.
    pub outside: u64,
    /// Elements that are not equal but near enough.
    pub near: u64,
    /// Elements that are not a number in both, with other bits.
    pub nans: u64,
    /// Bytes of elements that replays differ in among themselves.
    pub masked: u64,
    /// The largest difference, of elements that are near or not.
    pub max_abs: Option<f64>,
    /// The largest difference by the expected value's magnitude.
    pub max_rel: Option<f64>,
    /// The most numbers between.
    pub max_ulp: Option<u64>,
    /// The first element that is not as it should be, by address.
    pub first: Option<Difference>,
}

/// The result for a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overall {
    /// Every byte that was written is as the application got it, or near enough, and nothing else was written.
    Pass,
    /// Something else was computed.
    Fail,
    /// Neither wrote anything that can be seen: that proves nothing.
    NothingWritten,
    /// The capture does not have the memory after the kernel.
    NoReference,
}

impl Overall {
    /// Of the buffers' results.
    pub fn of(buffers: &[BufferReport]) -> Overall {
        if buffers.iter().any(|b| b.verdict.is_failure()) {
            return Overall::Fail;
        }
        let (mut compared, mut referenced) = (false, false);
        for verdict in buffers.iter().map(|b| b.verdict) {
            referenced |= verdict != Verdict::NoReference;
            compared |= !matches!(verdict, Verdict::NoReference | Verdict::Untouched | Verdict::ChangedByHost);
        }
        match (compared, referenced) {
            (true, _) => Overall::Pass,
            (false, true) => Overall::NothingWritten,
            (false, false) => Overall::NoReference,
        }
    }

    /// The status that says it.
    pub fn exit(self) -> Exit {
        match self {
            Overall::Pass => Exit::Success,
            Overall::Fail => Exit::Mismatch,
            Overall::NothingWritten => Exit::NothingToCompare,
            Overall::NoReference => Exit::Incomplete,
        }
    }
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overall::Pass => "PASS",
            Overall::Fail => "FAIL",
            Overall::NothingWritten => "NOTHING_WRITTEN",
            Overall::NoReference => "NO_REFERENCE",
        })
    }
}
