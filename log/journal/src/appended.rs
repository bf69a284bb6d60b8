//! Files that grow while something runs: logs above all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use logdur_system::path::Target;

use crate::lines::Lines;
use crate::packed;

/// How a log begins, or the rest of one whose beginning was cut off.
const BEGINS: &[&[u8]] = &[
    b"kernel,",
    b"kernel\n",
    b"# agent ",
    b"# device ",
    b"# clocks: ",
    b"# run: ",
    b"# records: ",
    b"# notice: ",
    b"# compare: ",
    b"# account: ",
    b"# format: ",
    b"{\"kernel\":",
    b"{\"agent\":",
    b"{\"systemNs\":",
    b"{\"run\":",
    b"{\"records\":",
    b"{\"notice\":",
    b"{\"compare\":",
    b"{\"account\":",
];
/// How much of a file is looked at.
const BEGIN: u64 = 4096;
/// How much of it is shown.
const SHOWN: usize = 16;

/// Opens a file for appending, with flags of `open(2)`, and makes it if it is not there. With `reads`, it can be read, too.
///
/// # Errors
/// When the system refuses, or a link leads there that is not followed.
pub fn open(path: &Path, reads: bool, flags: i32) -> io::Result<File> {
    let place = match Target::of(path)? {
        Target::File(place) => place,
        Target::Descriptor(number) => {
            // SAFETY: duplicates a number; no memory is involved.
            let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
            // SAFETY: the descriptor is new, and nobody else's.
            return if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(copy) }) };
        }
    };
    // What another process has open is a link that only the kernel can follow.
    let follows = if place.is_symlink() { 0 } else { libc::O_NOFOLLOW };
    OpenOptions::new().read(reads).append(true).create(true).custom_flags(flags | follows).open(place)
}

/// Opens a log of such lines for appending.
///
/// # Errors
/// As for [`open`], or when it is a regular file that has something else in it.
pub fn open_log(path: &Path, lines: Lines, reads: bool, flags: i32) -> io::Result<File> {
    // Before it is made, or a pipe opened.
    may_be_log(path, lines)?;
    open(path, reads, flags)
}

/// Looks whether a file is a log of such lines, or may become one. All lines of text go together, chunks do not go with them.
///
/// # Errors
/// When it is a regular file that has something else in it.
pub fn may_be_log(path: &Path, lines: Lines) -> io::Result<()> {
    let Target::File(place) = Target::of(path)? else { return Ok(()) };
    if !fs::metadata(&place).is_ok_and(|data| data.is_file() && data.len() > 0) {
        return Ok(());
    }
    let mut begin = Vec::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(&place);
    // A log that this user may write and not read is taken as it is.
    let Ok(file) = opened else { return Ok(()) };
    if file.take(BEGIN).read_to_end(&mut begin).is_err() {
        return Ok(());
    }
    let (is_text, is_packed) = (is_of_log(&begin), is_packed(&begin));
    let expected = match lines.are_packed() {
        true if is_packed => return Ok(()),
        false if is_text => return Ok(()),
        true if is_text => "a log in records or an empty file, found a log in text",
        false if is_packed => "a log in text or an empty file, found a log in records",
        _ => "a log or an empty file, found one",
    };
    let shown = begin.get(..SHOWN).unwrap_or(&begin).escape_ascii();
    Err(io::Error::other(format!("expected {expected} that begins with \"{shown}\": nothing is appended to it")))
}

/// True for the beginning of a log of chunks.
pub fn is_packed(begin: &[u8]) -> bool {
    !begin.is_empty() && (begin.starts_with(&packed::MAGIC) || packed::MAGIC.starts_with(begin))
}

/// The header that a log in CSV begins with, and the end of its line.
pub fn header(path: &Path) -> Option<Vec<u8>> {
    let Target::File(place) = Target::of(path).ok()? else { return None };
    // To open a pipe would be its reader's.
    fs::metadata(&place).ok().filter(|data| data.is_file() && data.len() > 0)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(&place).ok()?;
    let mut begin = Vec::new();
    file.take(BEGIN).read_to_end(&mut begin).ok()?;
    let end = begin.iter().position(|byte| *byte == b'\n')? + 1;
    begin.truncate(end);
    begin.starts_with(b"kernel,").then_some(begin)
}

/// True for the beginning of a log. Of one whose beginning was cut off, it is a row.
fn is_of_log(begin: &[u8]) -> bool {
    let is_row = || {
        begin.first() == Some(&b'"')
            && !begin.starts_with(b"\"\"\"")
            && (contains(begin, b"\",") || !begin.contains(&b'\n'))
    };
    BEGINS.iter().any(|known| begin.starts_with(known) || known.starts_with(begin)) || is_row()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use crate::lines::Format;

    use super::*;

    #[test]
    fn what_is_no_log_is_not_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let said = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let opened = open_log(&path, Lines::of(Format::Csv), false, 0).map(drop);
            assert_eq!(fs::read(&path).unwrap(), bytes);
            opened.map_err(|error| error.to_string())
        };
        let others: [&[u8]; 9] = [
            b"LDCAP\r\n\x1a rest",
            b"LDRECORD",
            b"#include <hip/hip_runtime.h>\n",
            b"#!/bin/sh\n",
            b"\"\"\"A module.\"\"\"\n",
            b"{\"include\":[]}",
            b"\x7fELF",
            b"kernels\n",
            b"\n",
        ];
        for other in others {
            let refused = said(other).unwrap_err();
            assert!(refused.starts_with("expected a log or an empty file, found one that begins with"), "{refused}");
        }
        for format in [Format::Csv, Format::CsvSafe, Format::Json] {
            let lines = Lines::of(format);
            let mut whole = lines.header().into_bytes();
            let [mut agent, mut account, mut notice] = [(); 3].map(|()| Vec::new());
            lines.agent(&mut agent, 0, "gfx90a", "MI210", "uuid=1");
            lines.account(&mut account, 1, &[("seen", 1)]);
            lines.notice(&mut notice, "x");
            whole.extend_from_slice(&agent);
            for begin in [&whole, &agent, &account, &notice, &whole[..3].to_vec(), &Vec::new()] {
                assert_eq!(said(begin), Ok(()), "{}", begin.escape_ascii());
            }
        }
        assert_eq!(said(b"\"f(int, char)\",1,2,3\n"), Ok(()), "the rest of a log");
        assert_eq!(header(&path), None);
        fs::write(&path, "kernel,dispatch\n\"f\",1\n").unwrap();
        assert_eq!(header(&path).as_deref(), Some(&b"kernel,dispatch\n"[..]));
        assert_eq!(
            open_log(Path::new("/dev/null"), Lines::of(Format::Csv), false, 0)
                .map(drop)
                .map_err(|error| error.to_string()),
            Ok(())
        );
    }

    #[test]
    fn chunks_and_text_are_not_mixed_in_one_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let said = |bytes: &[u8], format| {
            fs::write(&path, bytes).unwrap();
            may_be_log(&path, Lines::of(format)).map_err(|error| error.to_string())
        };
        let mut chunk = Vec::new();
        Lines::of(Format::Records).notice(&mut chunk, "x");
        for begin in [&chunk[..], &chunk[..3], b""] {
            assert_eq!(said(begin, Format::Records), Ok(()));
        }
        let text = said(b"kernel,dispatch\n", Format::Records).unwrap_err();
        assert!(
            text.starts_with("expected a log in records or an empty file, found a log in text that begins"),
            "{text}"
        );
        for format in [Format::Csv, Format::Json, Format::CsvSafe] {
            let packed = said(&chunk, format).unwrap_err();
            assert!(packed.starts_with("expected a log in text or an empty file, found a log in records"), "{packed}");
        }
        assert!(said(b"\x7fELF", Format::Records).unwrap_err().starts_with("expected a log or an empty file"));
    }
}
