//! Symbols of any bytes: each has a name, or none, and reading one ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_demangle::{demangle, parameters, parts};
use logdur_journal::names;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for symbol in [text.to_owned(), format!("_Z{text}"), format!("_Z1fI{text}EvT_")] {
        let name = demangle(&symbol);
        // What has a name has all of its parts, unless one of them repeats itself for too long.
        if parts(&symbol).is_some() {
            assert!(name.is_some(), "{symbol}");
        }
        assert!(parameters(&symbol).is_none_or(|_| parts(&symbol).is_some() || name.is_none()), "{symbol}");
        assert!(names::names(&symbol).contains(&symbol), "{symbol}");
    }
});
