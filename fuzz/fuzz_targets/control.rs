//! Requests to a process that can be controlled, and its answers, from any bytes: what is read is written so that it is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_settings::{Answer, Request};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = Request::read(bytes) {
        assert_eq!(Request::read(request.to_line().trim_end_matches('\n').as_bytes()), Ok(request));
    }
    let answer = Answer::read(bytes).filter(|_| !bytes.contains(&b'\n'));
    if let Some(answer) = answer {
        let line = answer.to_bytes();
        assert_eq!(Answer::read(line.strip_suffix(b"\n").unwrap_or(&line)), Some(answer));
    }
});
