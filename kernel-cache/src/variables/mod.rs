//! Variables of the device: which of them a kernel refers to, and how another code object comes to use the application's.
//!
//! A variable exists once in each code object that has it. A kernel that takes another's place has to use those that the
//! application writes and reads, so its addresses are made to lead there before its code is loaded.
//!
//! An address that code makes does not say which variable it is of: compilers fold `coef[i - 1]` into an address in front of
//! `coef`, inside of another variable. It is moved only where a relocation names the variable, or where everything that
//! it could be of moves by the same distance.

mod address;
mod binding;
mod module;
mod place;
mod reach;

pub use binding::{Binding, Patch, What as Patched};
pub use module::{Module, Modules};

pub(crate) use binding::bind;
pub(crate) use reach::Analysis;
