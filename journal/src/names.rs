//! Names for people.

use cpp_demangle::Symbol;
use regex::Regex;

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
/// Control characters are escaped: a code object may have any symbols.
pub fn demangle(symbol: &str) -> String {
    if !symbol.starts_with("_Z") {
        return escaped(symbol);
    }
    let read = |symbol: &str| Symbol::new(symbol).ok().and_then(|symbol| symbol.demangle().ok());
    let name = read(symbol).or_else(|| read(&unconstrained(symbol)?));
    escaped(&name.map_or_else(|| symbol.to_owned(), |name| spelled(&name)))
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
    let demangled = one_line(&demangle(symbol));
    let callee = without_arguments(&demangled);
    let bare = without_template(callee);
    let mut all = vec![symbol.to_owned()];
    for name in [&demangled, callee, bare, without_namespaces(bare)] {
        if all.iter().all(|known| known != name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// True for a kernel one of whose [`names`] matches.
pub fn is_named(symbol: &str, filter: &Regex) -> bool {
    names(symbol).iter().any(|name| filter.is_match(name))
}

/// A name without namespaces and classes: `sum` of `(anonymous namespace)::ns<int>::sum`.
fn without_namespaces(name: &str) -> &str {
    let mut depth = 0;
    let begin = name.char_indices().rev().find(|(at, letter)| {
        depth += i32::from(matches!(letter, '>' | ')' | '}')) - i32::from(matches!(letter, '<' | '(' | '{'));
        depth == 0 && name.get(..*at).is_some_and(|before| before.ends_with("::"))
    });
    begin.and_then(|(at, _)| name.get(at..)).unwrap_or(name)
}

/// A name without the template's arguments: `ns::sum` of `ns::sum<int>`.
fn without_template(name: &str) -> &str {
    if !name.ends_with('>') {
        return name;
    }
    let mut depth = 0;
    let begin = name.char_indices().rev().find(|(_, letter)| {
        depth += i32::from(*letter == '>') - i32::from(*letter == '<');
        depth == 0
    });
    begin.and_then(|(at, _)| name.get(..at)).unwrap_or(name)
}

/// A demangled name without arguments and result: `ns::sum<int>` of `void ns::sum<int>(int*, (anonymous namespace)::t)`.
fn without_arguments(name: &str) -> &str {
    let mut depth = 0;
    let mut end = name.len();
    if name.ends_with(')') {
        for (at, letter) in name.char_indices().rev() {
            depth += i32::from(letter == ')') - i32::from(letter == '(');
            if depth == 0 {
                end = at;
                break;
            }
        }
    }
    let name = name.get(..end).unwrap_or(name);
    depth = 0;
    let mut start = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    name.get(start..).unwrap_or(name)
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

    #[test]
    fn a_name_without_arguments_has_its_namespaces_and_its_parameters_of_templates() {
        assert_eq!(without_arguments("saxpy(float, float const*)"), "saxpy");
        assert_eq!(
            without_arguments("void ns::k<4, float (*)(int)>(float*, void (*)(int))"),
            "ns::k<4, float (*)(int)>"
        );
        assert_eq!(without_arguments("(anonymous namespace)::k(int)"), "(anonymous namespace)::k");
        assert_eq!(without_arguments("gemm"), "gemm");
        assert_eq!(without_template("ns<int>::k<4, float (*)(a<int>)>"), "ns<int>::k");
        assert_eq!(["gemm", "k>"].map(without_template), ["gemm", "k>"]);
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
        assert_eq!(without_namespaces("(anonymous namespace)::a<b::c>::k"), "k");
        assert_eq!(without_namespaces("use()::{lambda(a::b)#1}::operator()"), "operator()");
    }

    #[test]
    fn control_characters_of_a_symbol_are_escaped() {
        assert_eq!(demangle("a\u{1b}[2J\n# account"), "a\\u001b[2J\\u000a# account");
        assert_eq!(one_line("a\n  b\u{9b}c\u{202e}d"), "a b\\u009bc\\u202ed");
        assert_eq!(escaped("grüße"), "grüße");
    }
}
