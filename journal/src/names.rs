//! Names for people.

use regex::Regex;

use crate::demangle;

/// In the file of records, the size of arguments that nobody knows.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// A kernel as records name it, by a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Its symbol, without `.kd`.
    pub symbol: String,
    /// Bytes of arguments of the application's kernel, if that is known.
    pub kernarg_size: Option<u32>,
    /// Short hash of the code object whose kernel ran in place of the application's; empty if its own did.
    pub replaced: String,
}

/// The demangled name of a kernel, spelled as `llvm-cxxfilt` spells it; the symbol itself if it is not a mangled one.
/// Control characters are escaped: a code object may have any symbols.
pub fn demangle(symbol: &str) -> String {
    escaped(&demangle::demangle(symbol).unwrap_or_else(|| symbol.to_owned()))
}

/// A text whose control characters are escaped: `\u001b` for the one that begins a terminal's commands. JSON reads them back.
pub fn escaped(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

#[cfg(test)]
mod tests {
    use super::*;

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
