//! A file of records with bytes changed anywhere: it is read, or refused with a reason, and nothing may panic.
//!
//! Four bytes are a change: where, in little-endian order, and to what. What is left over says how much of the file there is.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../log/journal/tests/records/whole.rs"]
mod records;

static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| records::whole(&std::env::temp_dir()));

fuzz_target!(|data: &[u8]| {
    let mut bytes = WHOLE.clone();
    let (changes, rest) = data.as_chunks::<4>();
    for &[a, b, c, to] in changes {
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % bytes.len();
        bytes[at] = to;
    }
    if let [a, b, c] = rest {
        bytes.truncate(u32::from_le_bytes([*a, *b, *c, 0]) as usize % bytes.len());
    }
    let _ = records::exercise(&bytes);
});
