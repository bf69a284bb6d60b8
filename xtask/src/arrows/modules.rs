//! The modules of each crate: which of them use each other in a circle.
//!
//! A module is a file or a folder directly below `src`; what only tests use does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use regex::Regex;

/// The most modules that may use each other in a circle.
const MOST: usize = 3;

/// Folders of crates in which none do.
const NONE: &[&str] = &["", "intercept", "emulator/kfd", "capture/file"];

/// Which modules a module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Refuses large circles of modules below a crate's folder.
///
/// # Errors
/// When there is one.
pub(super) fn check(root: &Path, folder: &str) -> Result<()> {
    let mut uses = Uses::new();
    let src = root.join(folder).join("src");
    read(&src, &src, &mut uses)?;
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|other| other != module && known.contains(other));
    }
    let most = if NONE.contains(&folder) { 1 } else { MOST };
    let Some(circle) = circles(&uses).into_iter().find(|circle| circle.len() > most) else { return Ok(()) };
    let inside = |used: &BTreeSet<String>| used.intersection(&circle).cloned().collect::<Vec<_>>().join(", ");
    let lines: Vec<String> = circle.iter().map(|m| format!("  {m} uses {}", inside(&uses[m]))).collect();
    bail!(
        "{folder}: {} modules use each other in a circle, expected at most {most}:\n{}",
        circle.len(),
        lines.join("\n")
    )
}

/// Adds what the files of a folder use.
fn read(src: &Path, folder: &Path, uses: &mut Uses) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read(src, &path, uses)?;
            continue;
        }
        let Some(modules) = modules_of(path.strip_prefix(src)?) else { continue };
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        uses.entry(modules[0].clone()).or_default().extend(used(&text, modules.len())?);
    }
    Ok(())
}

/// The modules of a file, the outermost first; `None` for the crate itself, for tests, and for what is no source.
fn modules_of(path: &Path) -> Option<Vec<String>> {
    let parts = path.with_extension("");
    let mut modules: Vec<String> = parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if modules.last().is_some_and(|last| last == "mod") {
        modules.pop();
    }
    let is_source = path.extension().is_some_and(|e| e == "rs");
    let is_crate = matches!(modules.first()?.as_str(), "lib" | "main") && modules.len() == 1;
    (is_source && !is_crate && !modules.iter().any(|m| m == "tests")).then_some(modules)
}

/// The modules of the crate that a file uses which is `depth` modules deep.
fn used(text: &str, depth: usize) -> Result<BTreeSet<String>> {
    let tests = Regex::new(r"#\[cfg\([^\n]*test[^\n]*\)\]\n(?:#\[[^\n]*\n)*(?:pub(?:\([^)]*\))? )?mod ")?;
    let text = tests.find(text).map_or(text, |found| &text[..found.start()]);
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let name = Regex::new(r"^\s*(\w+)")?;
    let mut all: BTreeSet<String> = BTreeSet::new();
    all.extend(Regex::new(r"\bcrate::(\w+)")?.captures_iter(&code).map(|c| c[1].to_owned()));
    let inner = Regex::new(r"\{[^{}]*\}")?;
    for list in Regex::new(r"\bcrate::\{((?:[^{}]|\{[^{}]*\})*)\}")?.captures_iter(&code) {
        let flat = inner.replace_all(&list[1], "").into_owned();
        all.extend(flat.split(',').filter_map(|part| Some(name.captures(part)?[1].to_owned())));
    }
    for path in Regex::new(r"(?:^|[^:\w])((?:super::)+)(\w+)")?.captures_iter(&code) {
        if path[1].len() == "super::".len() * depth {
            all.insert(path[2].to_owned());
        }
    }
    Ok(all)
}

/// The sets of modules of which each uses each, in some number of steps.
fn circles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = left.pop() {
            left.extend(uses[&module].iter().filter(|other| seen.insert((*other).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|module| (module, reach(module))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        reached[module].iter().filter(|other| reached[other].contains(module)).cloned().collect()
    };
    let all: BTreeSet<BTreeSet<String>> = uses.keys().map(circle).filter(|c| c.len() > 1).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_reach_each_other_are_a_circle_and_what_tests_use_is_no_arrow() {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<String>>();
        let text = "use crate::a::X;\nuse crate::{b::{Y, Z}, c};\n// crate::d\nsuper::e::f();\nsuper::super::g::h();\n\
                    #[cfg(test)]\nmod tests { use crate::i; }";
        assert_eq!(used(text, 1).unwrap(), names(&["a", "b", "c", "e"]));
        assert_eq!(used(text, 2).unwrap(), names(&["a", "b", "c", "g"]));
        let uses = [("a", &["b"][..]), ("b", &["c", "d"]), ("c", &["a"]), ("d", &[])];
        let uses: Uses = uses.iter().map(|(module, used)| ((*module).to_owned(), names(used))).collect();
        assert_eq!(circles(&uses), [names(&["a", "b", "c"])]);
        assert_eq!(modules_of(Path::new("queue/mod.rs")), Some(vec!["queue".to_owned()]));
        assert_eq!((modules_of(Path::new("lib.rs")), modules_of(Path::new("a/tests.rs"))), (None, None));
    }
}
