//! A file of records that has everything. Fuzzing changes it, too.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use logdur_journal::clock::Line;
use logdur_journal::lines::Format;
use logdur_journal::snapshot::Snapshot;
use logdur_journal::{Block, Fate, Kernel, Naming, Origin, Records, Registers, RowFilter, Shape, State, recover};

/// The file of a process that had dispatches in every state. It is made in a folder, and removed.
pub(crate) fn whole(folder: &Path) -> Vec<u8> {
    let origin = Origin {
        format: Format::Csv,
        log: None,
        filter: RowFilter { only: Some("add".to_owned()), ..RowFilter::default() },
        rank: Some(3),
        naming: Naming::Demangled,
    };
    let (records, _) = Records::create(folder, &origin).expect("a file of records");
    records.agent(0, "gfx90a", "A GPU");
    let kernel = |symbol: &str, kernarg_size, replaced: &str| Kernel {
        symbol: symbol.to_owned(),
        kernarg_size,
        registers: Registers { vgprs: kernarg_size, ..Registers::default() },
        replaced: replaced.to_owned(),
        code: format!("lib.so#{symbol}"),
        ..Default::default()
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
    records.header().next_id().store(8, Ordering::Relaxed);
    let path = records.path().expect("records in a file");
    let bytes = fs::read(path).expect("the file can be read");
    fs::remove_file(path).expect("the file can be removed");
    bytes
}

/// Reads everything: how many rows are missing in the log, or `None` if the file is refused.
pub(crate) fn exercise(bytes: &[u8]) -> Option<usize> {
    let snapshot = Snapshot::parse(bytes).ok()?;
    let mut text = Vec::new();
    recover::missing(&snapshot, Format::Csv, None).print(&mut text, true).expect("memory can be written");
    Some(text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"\"")).count())
}
