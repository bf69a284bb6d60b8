//! What this crate reads, against what LLVM's tools and other readers read in the same bytes.

mod compiled;
mod metadata;
mod readelf;
