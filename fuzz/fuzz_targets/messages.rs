//! Any bytes as a sub-buffer: what is before the first error is read, and nothing behind it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_messages::{Messages, check};

fuzz_target!(|bytes: &[u8]| {
    let mut read = 0;
    for message in Messages::new(bytes) {
        match message {
            Ok(message) => {
                read += 64 + message.header.data_bytes as usize;
                let data: usize = (0..message.items()).map(|n| 4 * message.item(n).count()).sum();
                assert_eq!(data, message.items() * message.item_bytes());
                assert_eq!(4 * message.threads().len() + data, message.header.data_bytes as usize);
                assert!(message.addresses().len() <= 64);
            }
            Err(corrupt) => assert_eq!((corrupt.offset, corrupt.bytes), (read, bytes.len())),
        }
    }
    assert_eq!(check(bytes).bytes, read);
});
