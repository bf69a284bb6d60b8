//! Messages that instrumented kernels send to the host: their layouts, as AMD's dh_comms defines them, and a reader.
//!
//! A kernel writes messages into *sub-buffers*. [`Descriptor`] tells it where they are. [`Messages`] reads the bytes of one
//! sub-buffer; [`check`] does the same for all of them at once.
//!
//! This crate never panics on any bytes, never reads past them, and never allocates for a message.
//!
//! Source of the layouts: dh_comms' `data_headers.h` and `dh_comms_dev.h`, whose device code was compiled and compared.

#![forbid(unsafe_code)]
// Loaded into processes of others, on bytes that kernels wrote.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice
)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod descriptor;
mod error;
mod hash;
mod header;
mod message;

pub use descriptor::Descriptor;
pub use error::{Corrupt, Malformed};
pub use hash::file_hash;
pub use header::{Access, AddressSpace, Arch, HEADER_BYTES, Header, Kind, Thread};
pub use message::{Checked, Item, Message, Messages, check};

/// The name of a kernel's instrumented clone: AMD's passes add a trailing `void *` and this frame around the mangled name.
pub fn clone_name(kernel: &str) -> String {
    format!("__amd_crk_{kernel}Pv")
}

/// The name of the kernel that a clone was made from; `None` for a name of another form.
pub fn original_name(clone: &str) -> Option<&str> {
    clone.strip_prefix("__amd_crk_")?.strip_suffix("Pv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_named_after_its_kernel() {
        assert_eq!(clone_name("_Z3addPf"), "__amd_crk__Z3addPfPv");
        assert_eq!(original_name("__amd_crk__Z3addPfPv"), Some("_Z3addPf"));
        assert_eq!(original_name("_Z3addPf"), None);
    }
}
