//! A capture file with bytes changed anywhere: it is read, or refused with a reason, and nothing may panic.
//!
//! Four bytes are a change: where, in little-endian order, and to what. What is left over says how much of the file there is;
//! if that is an odd number of bytes, ids of contents and checksums are made right, so that what is behind them is reached.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use logdur_capture::{Compress, Options};

#[path = "../../capture/file/tests/integration/exercise.rs"]
mod exercise;
#[allow(dead_code, reason = "the stories need more of it")]
#[path = "../../capture/file/tests/integration/harness.rs"]
mod harness;

static FOLDER: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("logdur-fuzz-store.{}", std::process::id())));

static WHOLE: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let options = |compress| Options { compress, ..harness::options(2) };
    [
        harness::capture(&options(Compress::None), 2, 3000),
        harness::capture(&options(Compress::Lz4), 3, 9000),
        harness::shared(&options(Compress::Lz4), 2, 20_000, &FOLDER),
    ]
});

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let mut bytes = WHOLE[usize::from(which % 3)].clone();
    let (changes, rest) = data.as_chunks::<4>();
    for &[a, b, c, to] in changes {
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % bytes.len();
        bytes[at] = to;
    }
    if let [a, b, ..] = rest {
        bytes.truncate(usize::from(u16::from_le_bytes([*a, *b])).max(1));
    }
    if rest.len() % 2 == 1 {
        exercise::seal(&mut bytes);
    }
    exercise::exercise(bytes, &FOLDER.join("store"));
});
