//! Names for people.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use regex::Regex;

use crate::demangle;

/// In the file of records, a number that is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// What a row is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Operation {
    /// The dispatch of a kernel.
    #[default]
    Dispatch = 0,
    /// A copy by the runtime. Its record has the number of bytes in place of the kernel descriptor's address, and its times are
    /// nanoseconds of the system clock.
    Copy = 1,
    /// A range between two calls of the application's, for instance of ROCTx. Its record has the number of the thread in place of
    /// the kernel descriptor's address, and its times are nanoseconds of the system clock.
    Range = 2,
    /// A moment that the application marks: a range without length.
    Mark = 3,
}

/// A kernel as records name it, by a number; or what is copied from where to where; or the text of a range or mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// What it is.
    pub operation: Operation,
    /// Its symbol, without `.kd`.
    pub symbol: String,
    /// Bytes of arguments of the application's kernel, if that is known.
    pub kernarg_size: Option<u32>,
    /// Registers of the kernel that ran.
    pub registers: Registers,
    /// Short hash of the code object whose kernel ran in place of the application's, after [`INSTRUMENTED`] if it is an
    /// instrumented clone; empty if the application's own ran.
    pub replaced: String,
}

/// What [`Kernel::replaced`] begins with for an instrumented clone.
pub const INSTRUMENTED: &str = "instrumented:";

/// Registers that a kernel was compiled for, as the metadata of its code object counts them; `None` if that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Vector registers of a work-item; with those for accumulation where both are one file.
    pub vgprs: Option<u32>,
    /// Accumulation registers of a work-item.
    pub agprs: Option<u32>,
    /// Scalar registers of a wave.
    pub sgprs: Option<u32>,
}

impl Kernel {
    /// True if a filter of kernels does not keep its rows out of the log.
    pub fn is_wanted(&self, filter: &Regex) -> bool {
        self.operation != Operation::Dispatch || is_named(&self.symbol, filter)
    }

    /// The name in rows: demangled if it is a kernel's, and without control characters.
    pub fn shown(&self) -> String {
        match self.operation {
            Operation::Dispatch => demangle(&self.symbol),
            Operation::Copy | Operation::Range | Operation::Mark => escaped(&self.symbol),
        }
    }
}

impl Operation {
    /// Each of them.
    pub const ALL: [Operation; 4] = [Operation::Dispatch, Operation::Copy, Operation::Range, Operation::Mark];

    /// True for what the application says with a range or a mark.
    pub fn is_marker(self) -> bool {
        matches!(self, Operation::Range | Operation::Mark)
    }

    /// As rows name it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Dispatch => "dispatch",
            Operation::Copy => "copy",
            Operation::Range => "range",
            Operation::Mark => "mark",
        }
    }

    /// The one that rows name so.
    pub fn named(name: &[u8]) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name().as_bytes() == name)
    }

    pub(crate) fn of(number: u32) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| *operation as u32 == number)
    }
}

/// The demangled name of a kernel, spelled as `llvm-cxxfilt` spells it; the symbol itself if it is not a mangled one.
/// Control characters are escaped: a code object may have any symbols.
pub fn demangle(symbol: &str) -> String {
    escaped(&demangle::demangle(symbol).unwrap_or_else(|| symbol.to_owned()))
}

/// A text whose control characters are escaped, those for the direction of text included: `\u001b` for the one that begins a terminal's commands. JSON reads them back.
pub fn escaped(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.chars().any(is_control) {
        return text.to_owned();
    }
    let mut all = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_control(c) {
            all.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            all.push(c);
        }
    }
    all
}

/// The names of a kernel, each once: the symbol; the demangled one; that without result and arguments; that without arguments of
/// a template; that without namespaces.
pub fn names(symbol: &str) -> Vec<String> {
    let mut all = vec![symbol.to_owned()];
    for name in demangle::parts(symbol).into_iter().flatten() {
        let name = one_line(&name);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// True for a kernel one of whose [`names`] matches.
pub fn is_named(symbol: &str, filter: &Regex) -> bool {
    names(symbol).iter().any(|name| filter.is_match(name))
}

/// A text without line breaks, and without other control characters.
pub fn one_line(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A path as a word of a command line, which a shell reads back to the same bytes (`$'…'` of bash, zsh and ksh if it has control
/// characters or bytes that are no text). It has no line break, no control character and no two spaces in a row.
pub fn shell_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let text = std::str::from_utf8(bytes).ok();
    if let Some(text) = text.filter(|text| one_line(&format!("'{text}'")) == format!("'{text}'")) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    let mut after_space = false;
    for &byte in bytes {
        match byte {
            b'\\' | b'\'' => word.extend(['\\', char::from(byte)]),
            b' ' if !after_space => word.push(' '),
            // An escape has three digits: another digit may follow.
            0x21..=0x7e => word.push(char::from(byte)),
            _ => word.push_str(&format!("\\{byte:03o}")),
        }
        after_space = byte == b' ' && !after_space;
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_word_of_a_path_as_the_same_bytes() {
        use std::ffi::OsStr;
        let paths: [(&[u8], &str); 8] = [
            (b"/dev/shm/logdur.1.records", "/dev/shm/logdur.1.records"),
            (b"", "''"),
            (b"it's $(x) `y`", r"'it'\''s $(x) `y`'"),
            ("m\u{fc}ll".as_bytes(), "'m\u{fc}ll'"),
            (b"a\nb\x1b[2J\t9", r"$'a\012b\033[2J\0119'"),
            (b"\xff'\\n%", r"$'\377\'\\n%'"),
            (b"two  spaces   ", r"$'two \040spaces \040 '"),
            ("p\u{202e}".as_bytes(), r"$'p\342\200\256'"),
        ];
        for (bytes, expected) in paths {
            let word = shell_word(Path::new(OsStr::from_bytes(bytes)));
            assert_eq!(word, expected);
            assert_eq!(one_line(&word), word, "it is as it is in a notice");
            let script = format!("printf %s {word}");
            let read = std::process::Command::new("bash").args(["-c", &script]).env("LC_ALL", "C").output().unwrap();
            assert_eq!(read.stdout, bytes, "{word}");
        }
    }

    #[test]
    fn names_that_are_not_mangled_or_badly_so_stay_as_they_are() {
        assert_eq!(demangle("__amd_rocclr_fillBufferAligned"), "__amd_rocclr_fillBufferAligned");
        assert_eq!(demangle("_Znot a name"), "_Znot a name");
        assert_eq!(demangle("_ZN2ns6kernelILi4EfEEvPT0_i"), "void ns::kernel<4, float>(float*, int)");
    }

    #[test]
    fn a_filter_matches_any_of_the_names_of_a_kernel() {
        let symbol = "_ZN2ns6kernelILi4EfEEvPT0_i";
        let expected =
            [symbol, "void ns::kernel<4, float>(float*, int)", "ns::kernel<4, float>", "ns::kernel", "kernel"];
        assert_eq!(names(symbol), expected);
        for filter in ["^kernel$", "^ns::kernel<4", "^void", "float\\*, int", "^_ZN2ns"] {
            assert!(is_named(symbol, &Regex::new(filter).expect("a pattern")), "{filter}");
        }
        assert!(!is_named(symbol, &Regex::new("^float").expect("a pattern")));
        assert_eq!(names("gemm"), ["gemm"]);
    }

    #[test]
    fn control_characters_of_a_symbol_are_escaped() {
        assert_eq!(demangle("a\u{1b}[2J\n# account"), "a\\u001b[2J\\u000a# account");
        assert_eq!(one_line("a\n  b\u{9b}c\u{202e}d"), "a b\\u009bc\\u202ed");
        assert_eq!(escaped("grüße"), "grüße");
    }
}
