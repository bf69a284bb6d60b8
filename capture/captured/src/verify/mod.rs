//! Compares the bytes that a replay wrote with those that the application's own dispatch wrote.
//!
//! Only bytes that one of them changed are compared; all others are unchanged. Several replays of the application's own kernel, from
//! the same memory, show which elements are not deterministic. These are masked and counted. Another kernel's values in them are judged
//! by the values that the application's kernel was seen to compute ([`Score`], [`chance`]). Replays of other kernels never add to the mask.

pub mod chance;
mod compare;
mod element;
mod seen;
mod stored;
mod verdict;

pub use compare::Unwritten;
pub use compare::{ComparedBytes, Comparison, Score};
pub use element::{Distance, Rule, Tolerance, Type};
pub use stored::Stored;
pub use verdict::leave_out_stacks;
pub use verdict::{Judged, Mask, Overall, Says, Verdict};

/// A piece of memory with a name: what an argument points to, a variable, an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its name: `out`, `arg2`, a variable's symbol, section and offset of what has none, or the address in hexadecimal.
    pub name: String,
    /// Its first address, as the application had it.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// What its elements are.
    pub element_type: Type,
    /// What is near enough.
    pub tolerance: Tolerance,
}

impl Buffer {
    /// False for memory that nothing names: it is called by its address, or by its section.
    pub fn is_named(&self) -> bool {
        !self.name.starts_with("0x") && !self.name.starts_with('.')
    }
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
    /// Bytes that the application's kernel changed in the application.
    pub written: u64,
    /// Bytes that the first replay of the kernel that is judged changed.
    pub replayed: u64,
    /// Bytes that replays of the application's own kernel changed.
    pub own_replayed: u64,
    /// Bytes of all elements that the application's kernel changed, there or in a replay.
    pub changed: u64,
    /// Elements that the application's kernel changed and that are not as it left them.
    pub mismatches: u64,
    /// Elements that the application's kernel left alone and the replay did not.
    pub outside: u64,
    /// Masked elements with values that the application's kernel was not seen to compute.
    pub strange: u64,
    /// Elements in which replays of the application's kernel agree with each other and not with what the application got, when
    /// another kernel is judged.
    pub unreproduced: u64,
    /// Elements that are not equal but near enough.
    pub near: u64,
    /// Elements that are not a number in both, with other bits.
    pub nans: u64,
    /// Bytes of elements that replays of the application's own kernel differ in among themselves.
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
