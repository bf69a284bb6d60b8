//! Paths in the lines of the file [`Interceptor::hello`](crate::Interceptor::hello), which the library writes and `omniprobe`
//! reads.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path without line breaks: these bytes and `%` are `%` and two hexadecimal digits.
pub fn to_line(path: &Path) -> Vec<u8> {
    let mut line = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'\n' | b'\r' => line.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => line.push(byte),
        }
    }
    line
}

/// The path that [`to_line`] has written; `None` for what it does not write.
pub fn from_line(line: &[u8]) -> Option<PathBuf> {
    let mut path = Vec::new();
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            path.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        path.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_path_of_any_bytes_is_one_line_and_read_back() {
        let every: Vec<u8> = (1..=255).collect();
        for bytes in [&b"/dev/shm/logdur.1.records"[..], b"a\nb%0a\r%", &every] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let line = to_line(path);
            assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            assert_eq!(from_line(&line).as_deref(), Some(path));
        }
        assert_eq!(to_line(Path::new("/dev/shm/logdur.1.records")), b"/dev/shm/logdur.1.records");
        for damaged in [&b"a%"[..], b"a%0", b"a%zz", b"%\xff\xff"] {
            assert_eq!(from_line(damaged), None);
        }
    }
}
