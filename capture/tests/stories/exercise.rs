//! Everything that can be asked of a file, whatever it is. Fuzzing does the same.

use logdur_capture::{Finding, Reader};

/// Bytes before a file's first frame, of a frame's head, and where in that the checksums are: docs/capture-format.md.
const HEADER: usize = 128;
const HEAD: usize = 48;

fn put_crc(bytes: &mut [u8], from: usize, to: usize, at: usize) {
    let crc = crc32fast::hash(&bytes[from..to]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the checksums right, as far as there are frames.
pub(crate) fn seal(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
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

/// Reads everything; how much is wrong, or `None` if it is refused.
pub(crate) fn exercise(bytes: Vec<u8>) -> Option<usize> {
    let reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    assert_told(reader.problems());
    let report = reader.check();
    assert_told(&report.findings);
    let _ = reader.records().shown();
    let mut before = None;
    let mut buffer = vec![0; 100_000];
    for snapshot in &reader.records().snapshots {
        let Ok(memory) = reader.snapshot(snapshot.id) else { continue };
        for (address, length) in memory.ranges().into_iter().take(20) {
            let length = usize::try_from(length).map_or(buffer.len(), |length| length.min(buffer.len()));
            let _ = memory.read(address, &mut buffer[..length]);
        }
        if let Some(before) = &before {
            let _ = memory.changed_since(before);
        }
        before = Some(memory);
    }
    for object in &reader.records().code_objects {
        let _ = reader.code_object(object.id);
    }
    for dispatch in reader.dispatches() {
        let _ = reader.allocations_at(dispatch.place);
    }
    Some(report.findings.len())
}
