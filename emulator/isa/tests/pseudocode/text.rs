//! The file with AMD's pseudocode: a Python dictionary, one entry a line, of which the values are string literals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The texts of one family of processors, by their operations' names in capitals, without the suffix of an encoding.
pub(crate) type Texts = BTreeMap<String, String>;

/// Where `cargo xtask test` puts the text. Tests that are run without it have what it fetched before.
pub(crate) fn folder() -> Option<PathBuf> {
    let made = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pattern = root.join("target/xtask/pseudocode/lib");
        let pythons = std::fs::read_dir(pattern).ok()?;
        let packages = pythons.flatten().map(|entry| entry.path().join("site-packages"));
        packages.map(|packages| packages.join("tinygrad/runtime/autogen/amd")).find(|folder| folder.is_dir())
    };
    std::env::var_os("LOGDUR_TEST_PSEUDOCODE").map(PathBuf::from).or_else(made)
}

/// The texts of a family.
pub(crate) fn read(folder: &Path, family: &str) -> Texts {
    let path = folder.join(family).join("str_pcode.py");
    let content = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut texts = Texts::new();
    for line in content.lines() {
        let Some((key, literal)) = line.trim().split_once(": ").filter(|(key, _)| key.contains("Op.")) else {
            continue;
        };
        let name = key.split_once('.').map_or(key, |(_, name)| name);
        let name = name.trim_end_matches("_E32").trim_end_matches("_E64");
        texts.entry(name.to_owned()).or_insert_with(|| unquoted(literal.trim_end_matches(',')));
    }
    texts
}

/// The text with a result of more than 128 bits, which numbers of the evaluator do not have, as results of 128 bits each: the dwords from
/// `SDATA[159 : 128]` on are of `SDATA1`.
pub(crate) fn in_groups(text: &str) -> String {
    let mut pieces = text.split("SDATA[");
    let mut all = pieces.next().unwrap_or_default().to_owned();
    let is_wide = text.contains("SDATA[255 : 224]");
    for piece in pieces {
        let bits = piece.split_once(']').and_then(|(bits, rest)| Some((bits.split_once(" : ")?, rest)));
        let numbers =
            bits.and_then(|((high, low), rest)| Some((high.parse::<u32>().ok()?, low.parse::<u32>().ok()?, rest)));
        all += &match numbers.filter(|_| is_wide) {
            Some((high, low, rest)) => format!("SDATA{}[{} : {}]{rest}", low / 128, high % 128, low % 128),
            None => format!("SDATA[{piece}"),
        };
    }
    all
}

/// What a literal between quotes of either kind stands for.
fn unquoted(literal: &str) -> String {
    let mut rest = literal.chars();
    let quote = rest.next();
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => break,
            },
            c if Some(c) == quote => break,
            c => text.push(c),
        }
    }
    text
}
