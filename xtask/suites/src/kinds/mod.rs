//! `cargo xtask kinds`: no mnemonic is compared outside of the instruction tables, and no match on what an operation does has a wildcard.
//!
//! A row says what its operation does ([`Action`](amdgpu_isa::action::Action)). Where code compared mnemonics instead, or left kinds to a
//! wildcard, a new operation would silently be treated as the default.

mod tokens;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use tokens::Token;
use xtask::shell;

/// Where mnemonics are by right: the tables, the page of what they lack, what compares both with LLVM, and programs in assembly.
const TABLES: &[&str] = &[
    "emulator/isa/src/ops",
    "emulator/isa/src/coverage",
    "emulator/isa/src/coverage/mod.rs",
    "omniprobe/self-test/src/kernels.rs",
    "xtask/suites/src/kinds/mod.rs",
    "xtask/suites/src/masks.rs",
];
/// Enums that are matched on without a wildcard.
const ENUMS: [&str; 3] = ["Action", "Bitwise", "Condition"];
/// Methods that look at a part of a text.
const PARTS: [&str; 9] = [
    "starts_with",
    "ends_with",
    "contains",
    "strip_prefix",
    "strip_suffix",
    "split",
    "split_once",
    "rsplit_once",
    "find",
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("kinds takes no arguments, found {args:?}");
    }
    let root = shell::root();
    let names: BTreeSet<&str> = amdgpu_isa::rows().map(|op| op.name).collect();
    let mut files = Vec::new();
    sources(&root, &mut files)?;
    let mut wrong = Vec::new();
    let mut counted = 0;
    for file in files {
        let place = file.strip_prefix(&root).unwrap_or(&file);
        if TABLES.iter().any(|table| place.starts_with(table)) {
            continue;
        }
        counted += 1;
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        wrong.extend(refusals(&text, &names).iter().map(|(line, what)| format!("{}:{line}: {what}", place.display())));
    }
    match &*wrong {
        [] => println!("{counted} files compare no mnemonic, and no match on an operation's kind has a wildcard"),
        wrong => bail!("{}\n{} of these: put what is asked into the rows", wrong.join("\n"), wrong.len()),
    }
    Ok(())
}

/// The files of Rust in a folder that are no tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_test = ["tests", "tests.rs", "target"].contains(&&*name) || name.starts_with('.');
        if path.is_dir() && !is_test {
            sources(&path, files)?;
        } else if name.ends_with(".rs") && !is_test {
            files.push(path);
        }
    }
    Ok(())
}

/// What is wrong with a file, by line.
fn refusals(text: &str, names: &BTreeSet<&str>) -> Vec<(usize, &'static str)> {
    let tokens = tokens::without_tests(tokens::of(text));
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let line = tokens[at].line;
        // A text that is made for people is compared with nothing.
        let is_shown = tokens::are(&tokens, at + 1, &[".", "to_owned"]);
        if !is_shown && tokens[at].text().is_some_and(|text| is_mnemonic(text, names)) {
            found.push((line, "a mnemonic, or how some begin, as text"));
        }
        if tokens::are(&tokens, at, &["op", ".", "name"]) && is_compared(&tokens, at) {
            found.push((line, "the name of an operation is compared"));
        }
        if tokens[at].is("match") && has_wildcard(&tokens, at) {
            found.push((line, "a match on an operation's kind with a wildcard"));
        }
    }
    found
}

/// True for a mnemonic, or how some begin.
fn is_mnemonic(text: &str, names: &BTreeSet<&str>) -> bool {
    let families = ["s_", "v_", "ds_", "flat_", "scratch_", "global_", "buffer_", "image_", "tbuffer_"];
    let is_known = || names.range(text..).next().is_some_and(|name| name.starts_with(text));
    families.iter().any(|family| text.starts_with(family)) && (families.contains(&text) || is_known())
}

/// True where `op.name` at a place is looked at, and not only shown.
fn is_compared(tokens: &[Token], at: usize) -> bool {
    let behind = |n: usize| tokens.get(at + 3 + n);
    let has_part = || behind(0).is_some_and(|t| t.is(".")) && behind(1).is_some_and(|t| PARTS.iter().any(|p| t.is(p)));
    let equals = || ["==", "!="].iter().any(|sign| behind(0).is_some_and(|t| t.is(sign)));
    // The path before it: `step.inst.`
    let path =
        tokens[..at].iter().rev().take_while(|t| t.is(".") || t.is("&") || t.is_word() && !t.is("match")).count();
    let before = |n: usize| (at - path).checked_sub(1 + n).map(|n| &tokens[n]);
    let is = |n: usize, what: &str| before(n).is_some_and(|t| t.is(what));
    let matched = is(0, "match") || is(0, "(") && is(1, "!") && is(2, "matches");
    let other_side = is(0, "==") || is(0, "!=");
    let bound = is(0, "=") && behind(0).is_some_and(|t| t.is(";"));
    has_part() || equals() || matched || other_side || bound
}

/// True for a match on an operation's kind with an arm for all others.
fn has_wildcard(tokens: &[Token], at: usize) -> bool {
    let Some((scrutinee, arms)) = tokens::arms(tokens, at) else { return false };
    let names_kind = |arm: &[Token]| {
        let pattern = arm.split(|t| t.is("if")).next().unwrap_or_default();
        (0..pattern.len()).any(|n| ENUMS.iter().any(|of| tokens::are(pattern, n, &[of, "::"])))
    };
    let is_one = scrutinee.iter().any(|t| t.is("action")) || arms.iter().any(|arm| names_kind(arm));
    // A guard leaves the rest to other arms.
    let is_other = |word: &str| {
        ["if", "true", "false"].contains(&word) || word.starts_with(|c: char| !c.is_lowercase() && c != '_')
    };
    let is_binding = |t: &Token| t.is_word() && !is_other(t.word());
    let is_open =
        |pattern: &[Token]| pattern.iter().all(|t| ["(", ")", ",", ".."].iter().any(|p| t.is(p)) || is_binding(t));
    is_one && arms.iter().any(|pattern| is_open(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&'static str> {
        refusals(text, &["s_nop", "v_add_u32"].into()).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn a_mnemonic_that_is_compared_is_refused_however_that_is_written() {
        for text in [
            r#"fn f() { if inst.op.name == "other" {} }"#,
            r#"fn f() { "other" != step.inst.op.name }"#,
            r#"fn f() { inst.op.name.ends_with("_b32") }"#,
            r#"fn f() { match inst.op.name { _ => {} } }"#,
            r#"fn f() { matches!(inst.op.name, "a" | "b") }"#,
            r#"fn f() { let name = op.name; }"#,
            r#"fn f() { name == "s_nop" }"#,
            r#"const SUMS: [&str; 1] = ["v_add_"];"#,
            r##"fn f() { name == r#"v_add_u32"# }"##,
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
        for text in [
            r#"fn f() { println!("{} is s_nop", inst.op.name); }"#,
            r#"fn f() { Sides { name: inst.op.name, states } }"#,
            r#"fn f() -> String { "s_nop".to_owned() }"#,
            r#"/* op.name == "s_nop" */ // "v_add_""#,
            r#"fn f() -> char { '"' } fn g<'a>() { "s_unknown" }"#,
            "#[cfg(test)] mod tests { fn f() { op.name == \"s_nop\" } }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_wildcard_in_a_match_on_a_kind_is_refused_and_others_are_not() {
        for text in [
            "fn f() { match inst.op.action { Move => a, _ => b } }",
            "fn f() { match action { Move if c => { match x { _ => 1 } } other => b, } }",
            "fn f() { match (x, y) { (Action::Nop, Some(_)) => (), (_, rest) => {} } }",
            "fn f() { match of { Bitwise::And => 1, _ => 2 } }",
        ] {
            assert_eq!(found(text), ["a match on an operation's kind with a wildcard"], "{text}");
        }
        for text in [
            "fn f() { match inst.op.action { Move if x => a, Move | Other => b } }",
            "fn f() { match op.family { Family::Ds => Action::Nop, _ => Action::Other } }",
            "fn f() { match x { Action::Branch(_) => 1, Action::Other => match y { _ => 2 } } }",
            "fn f() { match op.family { Family::Mubuf if op.action != Action::WriteBack => 1, _ => 2 } }",
            "fn f() { match op.action { Other if x => 1, _ if y => 2, Other => 3 } }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
