//! Names for people.

use cpp_demangle::Symbol;

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

/// The demangled name of a kernel; the symbol itself if it is not a mangled one.
pub fn demangle(symbol: &str) -> String {
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    Symbol::new(symbol).ok().and_then(|s| s.demangle().ok()).unwrap_or_else(|| symbol.to_owned())
}

/// A text without line breaks.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
}
