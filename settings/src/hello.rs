//! The lines of the file [`Interceptor::hello`](crate::Interceptor::hello), which the library writes and `omniprobe` reads.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the library says of its process in a line: the number of the process, a word, and what the word needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloLine {
    /// The library is loaded, and its log can be written.
    Loaded,
    /// The log of the process, and the length that it had when it was opened.
    Log {
        /// In bytes.
        length: u64,
        /// Its file.
        path: PathBuf,
    },
    /// The process's file of records.
    Records(PathBuf),
    /// Why the process has no file of records: an abrupt end loses rows.
    NoRecords(String),
    /// The process ended in order, so that the library could say what it lost.
    Ended,
    /// The process had a runtime which has not loaded the library, and why that may be.
    NotLoaded(String),
    /// What the user has to know. No word is before it.
    Notice(String),
}

const LOADED: &str = "ok";
const LOG: &str = "log-at";
const RECORDS: &str = "records-at";
const NO_RECORDS: &str = "no-records";
const ENDED: &str = "ended";
const NOT_LOADED: &str = "not-loaded";

impl HelloLine {
    /// The line of a process, with its end. Texts must be of one line.
    pub fn to_bytes(&self, process: u32) -> Vec<u8> {
        let of_path = |words: String, path: &Path| [words.as_bytes(), b" ", &escaped(path)].concat();
        let said = match self {
            HelloLine::Loaded => LOADED.into(),
            HelloLine::Log { length, path } => of_path(format!("{LOG} {length}"), path),
            HelloLine::Records(path) => of_path(RECORDS.to_owned(), path),
            HelloLine::NoRecords(reason) => format!("{NO_RECORDS} {reason}").into_bytes(),
            HelloLine::Ended => ENDED.into(),
            HelloLine::NotLoaded(reason) => format!("{NOT_LOADED} {reason}").into_bytes(),
            HelloLine::Notice(text) => text.clone().into_bytes(),
        };
        [process.to_string().as_bytes(), b" ", &said, b"\n"].concat()
    }

    /// The process and what is said of it in a line without its end; `None` for a line without a process or with a damaged path.
    pub fn read(line: &[u8]) -> Option<(u32, HelloLine)> {
        let (process, said) = divided(line)?;
        let process = std::str::from_utf8(process).ok()?.parse().ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (word, rest) = divided(said).unwrap_or((said, b""));
        let line = match std::str::from_utf8(word).unwrap_or_default() {
            LOADED if rest.is_empty() => HelloLine::Loaded,
            LOG => {
                let (length, path) = divided(rest)?;
                HelloLine::Log { length: std::str::from_utf8(length).ok()?.parse().ok()?, path: unescaped(path)? }
            }
            RECORDS => HelloLine::Records(unescaped(rest)?),
            NO_RECORDS => HelloLine::NoRecords(text(rest)),
            ENDED if rest.is_empty() => HelloLine::Ended,
            NOT_LOADED => HelloLine::NotLoaded(text(rest)),
            _ => HelloLine::Notice(text(said)),
        };
        Some((process, line))
    }
}

/// What is before the first space, and what is behind it.
pub(crate) fn divided(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().position(|&byte| byte == b' ')?;
    Some((&bytes[..space], &bytes[space + 1..]))
}

/// A path without line breaks: these bytes and `%` are `%` and two hexadecimal digits.
pub(crate) fn escaped(path: &Path) -> Vec<u8> {
    let mut line = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'\n' | b'\r' => line.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => line.push(byte),
        }
    }
    line
}

/// The path that [`escaped`] has written; `None` for what it does not write.
pub(crate) fn unescaped(line: &[u8]) -> Option<PathBuf> {
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
    fn each_line_is_read_back_as_it_was_said() {
        let path = || PathBuf::from("/a b/100%\n7 ended");
        for line in [
            HelloLine::Loaded,
            HelloLine::Log { length: 5, path: path() },
            HelloLine::Records(path()),
            HelloLine::NoRecords("a full disk".to_owned()),
            HelloLine::Ended,
            HelloLine::NotLoaded("some reason".to_owned()),
            HelloLine::Notice("ok, but rows are missing".to_owned()),
        ] {
            let bytes = line.to_bytes(17);
            assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 1, "{line:?}");
            assert_eq!(HelloLine::read(bytes.trim_ascii_end()), Some((17, line)));
        }
        for nothing in [&b""[..], b"x ended", b"7", b"7 log-at", b"7 log-at x /a", b"7 records-at %0"] {
            assert_eq!(HelloLine::read(nothing), None);
        }
    }

    #[test]
    fn a_path_of_any_bytes_is_one_line_and_read_back() {
        let every: Vec<u8> = (1..=255).collect();
        for bytes in [&b"/dev/shm/logdur.1.records"[..], b"a\nb%0a\r%", &every] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let line = escaped(path);
            assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            assert_eq!(unescaped(&line).as_deref(), Some(path));
        }
        assert_eq!(escaped(Path::new("/dev/shm/logdur.1.records")), b"/dev/shm/logdur.1.records");
        for damaged in [&b"a%"[..], b"a%0", b"a%zz", b"%\xff\xff"] {
            assert_eq!(unescaped(damaged), None);
        }
    }
}
