//! A file of records with bytes changed anywhere: it is read, or refused with a reason, and nothing may panic.
//!
//! Four bytes are a change: where, in little-endian order, and to what. What is left over says how much of the file there is.

#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use libfuzzer_sys::fuzz_target;
use logdur_journal::clock::Line;
use logdur_journal::lines::Format;
use logdur_journal::snapshot::Snapshot;
use logdur_journal::{Block, Fate, Origin, Records, Shape, State, recover};

/// The file of a process that had dispatches in every state.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = std::env::temp_dir();
    let origin = Origin { format: Format::Csv, log: None, filter: Some("add".to_owned()) };
    let (records, _) = Records::create(&folder, &origin).expect("a file of records");
    records.agent(0, "gfx90a", "A GPU");
    let kernel = |symbol: &str, kernarg_size, replaced: &str| logdur_journal::Kernel {
        symbol: symbol.to_owned(),
        kernarg_size,
        replaced: replaced.to_owned(),
    };
    let kernels = [(1, &kernel("_Z3addPf", Some(24), "1a2b3c4d5e6f")), (2, &kernel("other", None, ""))];
    records.kernels(kernels.into_iter());
    Line { tick: 1000, ns: 50_000, ns_per_tick: 10.0 }.store(records.header().host_clock());
    // SAFETY: blocks live as long as the process.
    let block: &'static Block = unsafe { records.blocks(1)[0].as_ref() };
    block.assign(7, 0);
    for (i, record) in block.records.iter().enumerate().take(8) {
        record.id.store(i as u64, Ordering::Relaxed);
        record.set_shape(Shape { kernel: i as u32 % 3, ..Shape::default() });
        record.set_state(State::InFlight);
        if i > 3 {
            record.set_fate([Fate::Pending, Fate::Writing, Fate::Filtered, Fate::Written][i - 4]);
        }
    }
    let path = records.path().expect("records in a file").to_owned();
    let bytes = std::fs::read(&path).expect("the file can be read");
    std::fs::remove_file(path).expect("the file can be removed");
    bytes
});

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
    let Ok(snapshot) = Snapshot::parse(&bytes) else { return };
    let mut text = Vec::new();
    recover::missing(&snapshot, Format::Csv, None).print(&mut text, true).expect("memory can be written");
});
