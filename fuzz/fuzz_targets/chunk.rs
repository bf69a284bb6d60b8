//! The file of a chunk with anything in it: it is the chunk that its name says, or refused with a reason, and nothing may panic.
//!
//! The first byte says whether checksums and the beginning of the id are made right, so that what is behind them is reached.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_capture::{Id, decode_chunk};

/// Bytes of a frame's head, and where in it the id's first bytes and the checksums are: docs/capture-format.md.
const HEAD: usize = 48;

fuzz_target!(|data: &[u8]| {
    let Some((seal, file)) = data.split_first() else { return };
    let (mut file, id) = (file.to_vec(), Id::of(&[*seal]));
    if seal % 2 == 1 && file.len() >= HEAD {
        file[..4].copy_from_slice(b"LDFR");
        file[4..6].copy_from_slice(&7_u16.to_le_bytes());
        file[36..40].copy_from_slice(&id.0[..4]);
        let body = crc32fast::hash(&file[HEAD..]);
        file[40..44].copy_from_slice(&body.to_le_bytes());
        let head = crc32fast::hash(&file[..44]);
        file[44..48].copy_from_slice(&head.to_le_bytes());
    }
    match decode_chunk(file, &id) {
        Ok(bytes) => assert_eq!(Id::of(&bytes), id),
        Err(found) => assert!(!found.is_empty()),
    }
});
