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

/// The demangled name of a kernel, spelled as `llvm-cxxfilt` and `c++filt` spell it; the symbol itself if it is not a mangled one.
pub fn demangle(symbol: &str) -> String {
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    let read = |symbol: &str| Symbol::new(symbol).ok().and_then(|symbol| symbol.demangle().ok());
    let name = read(symbol).or_else(|| read(&unconstrained(symbol)?));
    name.map_or_else(|| symbol.to_owned(), |name| spelled(&name))
}

/// The declarations of template parameters that may be before an argument, and add nothing that a later part of the symbol could
/// refer to: those of `auto`, of `decltype(auto)`, and of concepts without arguments. Longer ones first. Source: the Itanium
/// C++ ABI, `<template-param-decl>` and `<type-constraint>`.
const DECLARATIONS: &[&str] = &["TnDk", "TnDK", "TnDa", "TnDc", "Tk"];

/// The symbol without declarations of template parameters: the parser does not know them, and what they declare is not part of a
/// name. `None` if there is none.
fn unconstrained(symbol: &str) -> Option<String> {
    let (mut kept, mut rest) = (String::with_capacity(symbol.len()), symbol);
    while let Some(first) = rest.chars().next() {
        let declared = DECLARATIONS.iter().find_map(|declaration| {
            let after = rest.strip_prefix(declaration)?;
            // A concept's name follows.
            if matches!(*declaration, "TnDa" | "TnDc") { Some(after) } else { after_concept(after) }
        });
        // An argument is at the beginning of a list, or behind another.
        if let Some(after) = declared.filter(|_| !kept.ends_with('D')) {
            rest = after;
            continue;
        }
        kept.push(first);
        rest = rest.get(first.len_utf8()..)?;
    }
    (kept.len() < symbol.len()).then_some(kept)
}

/// What is behind the name of a concept in the global namespace or in `std`, if it has no arguments.
fn after_concept(text: &str) -> Option<&str> {
    let text = text.strip_prefix("St").unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (length, name) = text.split_at_checked(digits)?;
    name.get(length.parse().ok()?..).filter(|after| !after.starts_with('I'))
}

/// Numbers among the arguments of templates with the suffix of their type instead of a cast, and lists of arguments that end
/// together without a space.
fn spelled(name: &str) -> String {
    const SUFFIXES: &[(&str, &str)] = &[
        ("(unsigned int)", "u"),
        ("(unsigned long long)", "ull"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(long)", "l"),
    ];
    let (mut text, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(first) = rest.chars().next() {
        let number = SUFFIXES.iter().find_map(|(cast, suffix)| {
            let after = rest.strip_prefix(cast)?;
            let sign = usize::from(after.starts_with('-'));
            let digits = after.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
            let (number, after) = after.split_at_checked(sign + digits)?;
            (digits > 0).then_some((number, suffix, after))
        });
        if let Some((number, suffix, after)) = number {
            text.push_str(number);
            text.push_str(suffix);
            rest = after;
            continue;
        }
        let closes = first == ' ' && text.ends_with('>') && rest.starts_with(" >") && !is_operator(&text);
        if !closes {
            text.push(first);
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    text
}

/// True for a text that ends with the name of an operator, as in `operator>` and `operator->`.
fn is_operator(text: &str) -> bool {
    text.trim_end_matches(['>', '-', '=', '<']).ends_with("operator")
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

    /// Names of a compiler, and what llvm-cxxfilt 19 prints of them.
    #[test]
    fn constrained_templates_are_spelled_as_llvm_spells_them() {
        for (symbol, name) in [
            ("_Z11constrainedITk6NumberdEvPT_", "void constrained<double>(double*)"),
            ("_Z5valueITnDkSt8integralLb1EdEvPT0_", "void value<true, double>(double*)"),
            ("_Z5valueITnDkSt8integralLm3EdEvPT0_", "void value<3ul, double>(double*)"),
            ("_Z5applyITnDaXadL_Z5twiceiEEiEvPT0_", "void apply<&twice(int), int>(int*)"),
            (
                "_Z4evenIN7rocprim4plusIiEELj256ELl8EEvPT_",
                "void even<rocprim::plus<int>, 256u, 8l>(rocprim::plus<int>*)",
            ),
            (
                "_Z4evenISt6vectorIS0_IiEEEvT_",
                "void even<std::vector<std::vector<int>>>(std::vector<std::vector<int>>)",
            ),
        ] {
            assert_eq!(demangle(symbol), name, "{symbol}");
        }
        // What could be referred to later is not taken out: the name stays as it is.
        let refers = "_Z4withITk4SameIiEiEvPT_";
        assert_eq!(demangle(refers), refers);
    }

    #[test]
    fn operators_keep_their_names() {
        assert_eq!(spelled("bool operator> <A<B> >(int)"), "bool operator> <A<B>>(int)");
        assert_eq!(spelled("f<(unsigned int)>(long)"), "f<(unsigned int)>(long)");
    }
}
