//! Everything that can be asked of a file, whatever it is. Fuzzing does the same.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use logdur_capture::{Contents, End, Finding, Options, Reader, StorePath};

/// Bytes before a file's first frame, of a frame's head, and where in that the checksums are: docs/capture-format.md.
const HEADER: usize = 128;
const HEAD: usize = 48;

/// The type of packs, and what stands behind their chunks: of each its length and its id, then their number.
const PACK: u16 = 2;
const CHUNK_ROW: usize = 36;

fn put_crc(bytes: &mut [u8], from: usize, to: usize, at: usize) {
    let crc = crc32fast::hash(&bytes[from..to]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The chunks of a pack's body: where in it each is, and where its id is. `None` if its table is damaged.
fn chunks(body: &[u8]) -> Option<Vec<(Range<usize>, usize)>> {
    let (rest, count) = body.split_last_chunk::<4>()?;
    let table = rest.len().checked_sub(number(count).checked_mul(CHUNK_ROW)?)?;
    let mut start = 0;
    let chunk = |(n, row): (usize, &[u8])| {
        let end = start + number(&row[..4]);
        let chunk = start..end;
        start = end;
        (end <= table).then_some((chunk, table + n * CHUNK_ROW + 4))
    };
    rest[table..].chunks_exact(CHUNK_ROW).enumerate().map(chunk).collect()
}

/// Makes the ids of contents right: those of the chunks of packs that are stored as they are, and wherever else the file has
/// the same id.
fn rehash(bytes: &mut [u8]) {
    let mut changed = Vec::new();
    let mut at = HEADER;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let (kind, stored, codec) = (number(&head[4..6]), number(&head[16..24]), head[32]);
        let Some(end) = stored.checked_next_multiple_of(8).and_then(|length| length.checked_add(at + HEAD)) else {
            break;
        };
        let Some(body) = bytes.get_mut(at + HEAD..end).map(|body| &mut body[..stored]) else { break };
        at = end;
        if kind != usize::from(PACK) || codec != 0 {
            continue;
        }
        for (chunk, id) in chunks(body).unwrap_or_default() {
            let new = *blake3::hash(&body[chunk]).as_bytes();
            let old: [u8; 32] = body[id..id + 32].try_into().unwrap();
            body[id..id + 32].copy_from_slice(&new);
            if old != new {
                changed.push((old, new));
            }
        }
    }
    for (old, new) in changed {
        let found = |from: usize| bytes[from..].windows(32).position(|window| window == old).map(|n| from + n);
        let places: Vec<usize> = std::iter::successors(found(0), |at| found(at + 32)).collect();
        places.into_iter().for_each(|at| bytes[at..at + 32].copy_from_slice(&new));
    }
}

/// Makes ids of contents and checksums right, as far as there are frames.
pub(crate) fn seal(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    rehash(bytes);
    put_crc(bytes, 0, HEADER - 4, HEADER - 4);
    let tag: [u8; 4] = bytes[32..36].try_into().unwrap();
    let mut at = HEADER;
    while bytes.len() - at >= HEAD {
        bytes[at..at + 4].copy_from_slice(b"LDFR");
        bytes[at + 36..at + 40].copy_from_slice(&tag);
        let stored = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap());
        let end = usize::try_from(stored).ok().and_then(|n| n.checked_next_multiple_of(8)?.checked_add(at + HEAD));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else {
            return put_crc(bytes, at, at + HEAD - 4, at + HEAD - 4);
        };
        put_crc(bytes, at + HEAD, end, at + 40);
        put_crc(bytes, at, at + HEAD - 4, at + HEAD - 4);
        at = end;
    }
}

fn assert_told(findings: &[Finding]) {
    assert!(findings.iter().all(|finding| !finding.text.is_empty()));
}

/// Reads everything, with a store; how much is wrong, or `None` if it is refused.
pub(crate) fn exercise(bytes: Vec<u8>, store: &Path) -> Option<usize> {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    reader.look_in(store);
    assert_told(reader.problems());
    let report = reader.check();
    assert_told(&report.findings);
    let _ = reader.records().shown();
    let mut before = None;
    let mut buffer = vec![0; 100_000];
    for snapshot in &reader.records().snapshots {
        let Ok(memory) = reader.snapshot(snapshot.id) else { continue };
        for range in memory.ranges().into_iter().take(20) {
            let length =
                usize::try_from(range.end - range.start).map_or(buffer.len(), |length| length.min(buffer.len()));
            let _ = memory.read(range.start, &mut buffer[..length]);
        }
        if let Some(before) = &before {
            let _ = memory.changed_since(before);
        }
        before = Some(memory);
    }
    for object in &reader.records().code_objects {
        let _ = reader.code_object(object.id);
    }
    let _ = reader.shared(&mut HashSet::new());
    if reader.header().is_shared() {
        let renamed = Contents::Renamed(StorePath::default());
        for contents in [Contents::Embedded, renamed] {
            let _ = reader.rewrite(Vec::new(), &contents, &Options::default(), &mut |_| ());
        }
    }
    for dispatch in reader.dispatches() {
        let _ = reader.allocations_at(dispatch.place);
    }
    Some(report.findings.len() + usize::from(*reader.end() != End::Finished))
}
