//! Bytes that may keep code objects: what is found lies within them and can be read, or says why not.

#![no_main]

use amdgpu_code_object::container::{self, Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(entries) = container::entries(&data) else { return };
    for entry in &entries {
        assert!(entry.container_offset <= data.len() as u64);
        if entry.kind != Kind::CompressedBundle && entry.problem.is_none() {
            assert!(entry.offset + entry.length <= data.len() as u64);
        }
    }
    // Some entries at most: each of them may be as large as the format allows.
    let some = &entries[..entries.len().min(8)];
    container::read_each(&data, some, &mut |index, found| {
        assert_eq!(found.is_ok(), some[index].read(&data).is_ok());
        if let Ok(bytes) = found {
            assert_eq!(bytes.len() as u64, some[index].length);
        }
    });
});
