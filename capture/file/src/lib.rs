//! The capture file: dispatches of an application with their code and the memory before and after them.
//!
//! [`Writer`] makes a file, [`Reader`] reads one, whole or not. docs/capture-format.md describes every byte.
//!
//! ```text
//! header | frame | frame | … | footer         frame: head (type, lengths, checksums) and body
//!
//! Pack      contents of chunks of memory, each named by its BLAKE3 hash, each in the file once
//! Extents   which contents are at which addresses, as far as that changed since the parent
//! records   Snapshot, Dispatch, Agent, …: fields with numbers (see [`records`])
//! ```
//! This crate keeps committed data readable, even if the process dies, and says what is missing. It never panics on any file or memory,
//! never needs memory that grows with the captured data, and does not know the HSA runtime.

#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::exit,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod buffer;
mod check;
mod chunk;
mod compress;
mod digest;
mod error;
mod extent;
mod fingerprint;
mod frame;
mod header;
mod id;
mod index;
mod known;
mod map;
mod memory;
mod pack;
mod page;
mod reader;
pub mod records;
mod region;
mod repair;
mod rewrite;
mod scan;
mod snapshot;
mod source;
mod state;
mod storage;
mod store;
mod table;
mod tasks;
mod value;
mod words;
mod writer;

pub use buffer::{Buffer, Lent, STEP, end_of_step};
pub use check::Report;
pub use compress::Compress;
pub use digest::Digests;
pub use error::CaptureError;
pub use frame::MAX_BODY;
pub use header::{CAPTURE_MAGIC, CHUNK, HEADER_BYTES, Header, MAJOR, MINOR, PAGE};
pub use id::{Id, IdOfPieces};
pub use memory::{Change, Difference, Memory};
pub use page::page;
pub use reader::Reader;
pub use records::{
    Agent, Allocation, AllocationKind, Begun, Changed, Checkpoint, CodeObject, Completed, Dispatch, Evidence, FREED,
    FramePosition, Freed, Global, KERNARG_EXTENT, Kernel, Loaded, Note, Packet, Placed, Property, Queue, Record,
    Records, Region, RegionEnd, Scope, Session, Severity, Snapshot, SnapshotId, Step, StepKind, StorePath, UNANNOUNCED,
    UNTAKEN,
};
pub use rewrite::Contents;
pub use scan::{End, Finding};
pub use snapshot::SnapshotWriter;
pub use source::Source;
pub use storage::{FileStorage, PRIVATE, Storage, numbered, size_limit};
pub use store::{Collected, Store, decode as decode_chunk};
pub use tasks::{Spawn, Threads};
pub use value::{FieldRow, Fields, Kind, Shown};
pub use words::{WORD, words, words_in};
pub use writer::{Durability, Options, Writer};
