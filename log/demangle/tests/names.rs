//! Demangled names against those of `llvm-cxxfilt-19`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use logdur_demangle::demangle;

/// What llvm-cxxfilt 19 does not read, or reads otherwise than later versions: how a symbol shows it.
const KNOWN: &[(&str, &str)] = &[
    ("DF16b", "std::bfloat16_t is left mangled"),
    ("LDi", "a value of type char32_t is left mangled"),
    ("MUlT_", "a generic lambda that initializes a variable is left mangled"),
    ("TpTnT", "a pack that is declared with its type keeps its dots, and is not left out where it is empty"),
];

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("names are text")
}

/// The mangled names of an object or a library. Those with `$` are left out: the oracle takes them for two words.
fn symbols(file: &Path, option: &[&str]) -> BTreeSet<String> {
    let text = output(Command::new("llvm-nm-19").args(["--just-symbol-name", "--defined-only"]).args(option).arg(file));
    let names = text.lines().map(|line| line.split('@').next().unwrap_or(line));
    names.filter(|name| name.starts_with("_Z") && !name.contains('$')).map(str::to_owned).collect()
}

/// Compares with the oracle; how many names were compared.
fn compare(symbols: &BTreeSet<String>) -> usize {
    let mut filter = Command::new("llvm-cxxfilt-19");
    let mut filter = filter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("llvm-cxxfilt-19");
    let all = symbols.iter().map(|name| format!("{name}\n")).collect::<String>();
    let mut input = filter.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let said = String::from_utf8(filter.wait_with_output().expect("it runs").stdout).expect("names are text");
    writer.join().expect("no panic").expect("all is read");
    assert_eq!(said.lines().count(), symbols.len());
    let differ = symbols.iter().zip(said.lines()).filter_map(|(symbol, theirs)| {
        let ours = demangle(symbol).unwrap_or_else(|| symbol.clone());
        let known = KNOWN.iter().any(|(part, _)| symbol.contains(part));
        (ours != theirs && !known).then(|| format!("{symbol}\n  llvm: {theirs}\n  ours: {ours}"))
    });
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{} names differ:\n{}", differ.len(), differ.join("\n"));
    symbols.len()
}

#[test]
fn names_of_every_kind_are_spelled_as_llvm_spells_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/names/names.cpp");
    let folder = tempfile::tempdir().expect("a folder");
    for (n, options) in [&["-std=c++2b"][..], &["-std=c++2b", "-fclang-abi-compat=17"]].iter().enumerate() {
        let object = folder.path().join(format!("names{n}.o"));
        output(Command::new("clang-19").args(*options).arg("-w").arg("-c").arg(&source).arg("-o").arg(&object));
        let compared = compare(&symbols(&object, &[]));
        assert!(compared > 100, "{compared} names");
    }
}

#[test]
fn names_of_large_libraries_are_spelled_as_llvm_spells_them() {
    let mut compared = 0;
    for library in ["libLLVM.so.19.1", "libclang-cpp.so.19.1", "libstdc++.so.6"] {
        let path = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
        if path.exists() {
            compared += compare(&symbols(&path, &["-D"]));
        }
    }
    assert!(compared > 10_000, "{compared} names");
}
