//! What this crate reads, against what LLVM's tools and other readers read in the same bytes.

mod bundles;
mod code;
mod compiled;
mod corpora;
mod large;
mod loaded;
mod metadata;
mod mutations;
mod readelf;
mod second_reader;
