//! Names with marks, of which each process of a job makes a name of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What stands in a name for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// `%p`: the process id.
    Process,
    /// `%r`: the rank, which is 0 outside of a parallel job.
    Rank,
    /// `%h`: the name of the host.
    Host,
}

impl Mark {
    /// The mark that a text begins with, and what is behind it.
    fn first(text: &[u8]) -> Option<(Mark, &[u8])> {
        match text {
            [b'%', b'p', behind @ ..] => Some((Mark::Process, behind)),
            [b'%', b'r', behind @ ..] => Some((Mark::Rank, behind)),
            [b'%', b'h', behind @ ..] => Some((Mark::Host, behind)),
            _ => None,
        }
    }

    /// True for a byte that can be in what takes the mark's place. Ids and ranks are digits.
    fn may_be(self, byte: u8) -> bool {
        self == Mark::Host || byte.is_ascii_digit()
    }
}

/// True for a path whose name each process makes its own.
pub fn has_marks(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    (0..bytes.len()).any(|at| bytes.get(at..).is_some_and(|rest| Mark::first(rest).is_some()))
}

/// The path that this process makes of a path: `%p` is its id, `%r` its rank, `%h` the name of the host.
pub fn replaced(path: &Path, rank: u32) -> PathBuf {
    let [process, rank] = [std::process::id(), rank].map(|number| OsString::from(number.to_string()));
    replaced_by(path, [&process, &rank, &host()])
}

/// The path that a process makes of a path whose id, rank and host are these texts.
pub fn replaced_by(path: &Path, [process, rank, host]: [&OsStr; 3]) -> PathBuf {
    let (mut text, mut rest) = (Vec::new(), path.as_os_str().as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        match Mark::first(rest) {
            Some((mark, behind)) => {
                let value = match mark {
                    Mark::Process => process,
                    Mark::Rank => rank,
                    Mark::Host => host,
                };
                text.extend_from_slice(value.as_bytes());
                rest = behind;
            }
            None => {
                text.push(*byte);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(text))
}

/// The name of the host, as a part of a path; `localhost` when the system does not tell it.
fn host() -> OsString {
    let mut name = [0_u8; 256];
    // SAFETY: the call writes at most so many bytes.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    if failed != 0 || name.is_empty() || name.contains(&b'/') {
        "localhost".into()
    } else {
        OsStr::from_bytes(name).into()
    }
}

/// The files that processes made of a name with marks, sorted. `None` for a path that is meant as it is: its name has no mark, or
/// there is a file of exactly this name.
///
/// # Errors
/// When the folder cannot be read, or has no such file.
pub fn made_of(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let name = path.file_name().unwrap_or_default();
    if !has_marks(Path::new(name)) || path.exists() {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: expected a folder: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_of(name.as_bytes(), entry.file_name().as_bytes()) {
            found.push(entry.path());
        }
    }
    if found.is_empty() {
        let text = format!("{}: expected logs of processes, found none", path.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    found.sort();
    Ok(Some(found))
}

/// True for a name that a process can have made of a name with marks.
fn is_of(pattern: &[u8], name: &[u8]) -> bool {
    if let Some((mark, rest)) = Mark::first(pattern) {
        let longest = name.iter().take_while(|byte| mark.may_be(**byte)).count();
        return (1..=longest).any(|end| name.get(end..).is_some_and(|name| is_of(rest, name)));
    }
    match (pattern.split_first(), name.split_first()) {
        (Some((first, pattern)), Some((byte, name))) => first == byte && is_of(pattern, name),
        (first, byte) => first.is_none() && byte.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_replaced_and_other_percent_signs_stay() {
        let (pid, host) = (std::process::id(), host().into_string().unwrap());
        assert_eq!(replaced(Path::new("a%p/b%p.c%d%"), 0), PathBuf::from(format!("a{pid}/b{pid}.c%d%")));
        assert_eq!(replaced(Path::new("%r-%h%%p"), 7), PathBuf::from(format!("7-{host}%{pid}")));
        assert!(!host.is_empty());
    }

    #[test]
    fn what_takes_the_place_of_a_mark_is_of_its_name() {
        for (name, is_it) in
            [("log.7.a-1.csv", true), ("log.7.csv", false), ("log.x.a.csv", false), ("log..a.csv", false)]
        {
            assert_eq!(is_of(b"log.%r.%h.csv", name.as_bytes()), is_it, "{name}");
        }
        assert!(has_marks(Path::new("a%%p")) && !has_marks(Path::new("a%d%")));
    }
}
