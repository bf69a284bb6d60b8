//! Device variables: which ones a kernel refers to, and how another code object is made to use the application's.
//!
//! Each code object has its own copy of a variable. A replacement must use the copies that the application writes and reads, so its
//! addresses are patched to lead there before its code is loaded.
//!
//! An address in code does not show which variable it belongs to: compilers fold `coef[i - 1]` into an address in front of `coef`,
//! inside of another variable. An address is patched only if a relocation names the variable, or if all variables that it may belong to
//! move by the same distance.

mod address;
mod binding;
mod module;
mod place;
mod reach;

pub use binding::{Binding, Patch, What as Patched};
pub use module::{Module, Modules};

pub(crate) use binding::bind;
pub(crate) use reach::{Analysis, arch};
