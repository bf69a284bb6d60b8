//! A log in records with bytes changed anywhere, and checksums made right again: it is read, and nothing may panic.
//!
//! Four bytes are a change: where, in little-endian order, and to what. What is left over says how much of the file there is.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use logdur_journal::lines::Format;
use logdur_journal::packed;

#[path = "../../log/journal/tests/packed/whole.rs"]
mod chunks;
#[path = "../../log/journal/tests/packed/exercise.rs"]
mod exercise;

use exercise::exercise;

static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| chunks::whole(Format::Csv).0);

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
    let _ = exercise(&bytes);
    seal(&mut bytes);
    let _ = exercise(&bytes);
});

/// Makes the checksum of each chunk right.
fn seal(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        let (chunk, rest) = bytes.split_at_mut(packed::piece(bytes, 0));
        if chunk.len() > 32 {
            let mut sum = crc32fast::Hasher::new();
            sum.update(&chunk[8..24]);
            sum.update(&chunk[32..]);
            chunk[24..28].copy_from_slice(&sum.finalize().to_le_bytes());
        }
        bytes = rest;
    }
}
