//! Names for people.

use logdur_system::text::{escaped, one_line};
use regex::Regex;

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

/// Which names of kernels rows have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Naming {
    /// The demangled ones.
    #[default]
    Demangled = 0,
    /// The symbols.
    Mangled = 1,
    /// The demangled ones, and the symbols in a column of their own.
    Both = 2,
}

impl Naming {
    pub(crate) fn of(number: u32) -> Option<Naming> {
        [Naming::Demangled, Naming::Mangled, Naming::Both].into_iter().find(|naming| *naming as u32 == number)
    }
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
    /// The code object of the application's kernel, as rows name it; empty if that is not known. Two kernels of one name differ in it.
    pub code: String,
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
    /// The name in rows, without control characters.
    pub fn shown(&self, naming: Naming) -> String {
        match (self.operation, naming) {
            (Operation::Dispatch, Naming::Demangled | Naming::Both) => demangle(&self.symbol),
            _ => escaped(&self.symbol),
        }
    }

    /// The symbol that rows have beside the name, without control characters; empty if they have none.
    pub fn shown_beside(&self, naming: Naming) -> String {
        match (self.operation, naming) {
            (Operation::Dispatch, Naming::Both) => escaped(&self.symbol),
            _ => String::new(),
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
    escaped(&logdur_demangle::demangle(symbol).unwrap_or_else(|| symbol.to_owned()))
}

/// The names of a kernel, each once: the symbol; the demangled one; that without result and arguments; that without arguments of
/// a template; that without namespaces.
pub fn names(symbol: &str) -> Vec<String> {
    let mut all = vec![symbol.to_owned()];
    for name in logdur_demangle::parts(symbol).into_iter().flatten() {
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
    fn rows_have_the_names_of_kernels_that_are_asked_for_and_other_work_has_one_name() {
        let of = |operation, naming| {
            let kernel = Kernel { operation, symbol: "_Z3addPf\u{1b}".to_owned(), ..Kernel::default() };
            let plain = Kernel { symbol: "_Z3addPf".to_owned(), ..kernel.clone() };
            [kernel.shown(naming), plain.shown(naming), kernel.shown_beside(naming)]
        };
        let escaped = "_Z3addPf\\u001b";
        for (naming, plain, beside) in [
            (Naming::Demangled, "add(float*)", ""),
            (Naming::Mangled, "_Z3addPf", ""),
            (Naming::Both, "add(float*)", escaped),
        ] {
            assert_eq!(of(Operation::Dispatch, naming), [escaped, plain, beside], "{naming:?}");
            assert_eq!(of(Operation::Range, naming), [escaped, "_Z3addPf", ""], "{naming:?}");
            assert_eq!(Naming::of(naming as u32), Some(naming));
        }
        assert_eq!(Naming::of(3), None);
    }

    #[test]
    fn control_characters_of_a_symbol_are_escaped() {
        assert_eq!(demangle("a\u{1b}[2J\n# account"), "a\\u001b[2J\\u000a# account");
        let unseen = "a\u{feff}\u{200b}\u{200c}\u{200d}\u{2060}\u{ad}b";
        assert_eq!(demangle(unseen), "a\\ufeff\\u200b\\u200c\\u200d\\u2060\\u00adb");
    }
}
