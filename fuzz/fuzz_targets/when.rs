//! Conditions of `LOGDUR_WHEN` from any bytes: what is read is written so that it is read again.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use logdur_settings::{Value, When};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(when) = When::parse(OsStr::from_bytes(bytes)) {
        assert_eq!(When::parse(&when.text()), Ok(when));
    }
});
