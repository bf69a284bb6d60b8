//! Which version of the C library `liblogdur.so` needs, and which one there is.

use std::ffi::CStr;
use std::fmt::{self, Display};

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32);

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    fn of(text: &str) -> Option<Version> {
        let (major, minor) = text.split_once('.')?;
        Some(Version(major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    }

    /// That of this process.
    pub(super) fn here() -> Option<Version> {
        // SAFETY: the function has no preconditions.
        let text = unsafe { libc::gnu_get_libc_version() };
        // SAFETY: it returned a text that lives as long as the process.
        Version::of(unsafe { CStr::from_ptr(text) }.to_str().ok()?)
    }

    /// The newest one whose symbols a library names, by the names of its symbol versions (`GLIBC_2.34`).
    pub(super) fn needed(library: &[u8]) -> Option<Version> {
        const PREFIX: &[u8] = b"GLIBC_";
        let names = library.split(|&byte| byte == 0).filter_map(|name| name.strip_prefix(PREFIX));
        names.filter_map(|version| Version::of(std::str::from_utf8(version).ok()?)).max()
    }
}

/// A line about both, and whether the one is enough for the other.
pub(super) fn compared(needed: Version, here: Version) -> (String, bool) {
    let enough = needed <= here;
    let said = if enough { String::new() } else { format!(": build logdur on a system with glibc {here} or older") };
    (format!("liblogdur.so needs {needed}, here is {here}{said}"), enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_a_library_names_is_compared_with_that_of_the_system() {
        let library = b"\0GLIBC_2.2.5\0libc.so.6\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.9\0xGLIBC_2.99\0";
        let needed = Version::needed(library).unwrap();
        assert_eq!(needed, Version(2, 34));
        assert_eq!(compared(needed, Version(2, 36)), ("liblogdur.so needs 2.34, here is 2.36".to_owned(), true));
        assert!(compared(needed, Version(2, 34)).1);
        let (line, enough) = compared(needed, Version(2, 28));
        assert!(!enough && line.ends_with("build logdur on a system with glibc 2.28 or older"), "{line}");
        assert_eq!(Version::needed(b"nothing"), None);
        assert!(Version::here() > Some(Version(2, 0)));
    }
}
