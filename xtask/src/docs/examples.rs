//! The commands of the documents, run on the emulated GPU: blocks marked `console`, in which lines with `$ ` are commands.
//!
//! The commands of a page run in one folder, in the order of the page. The folder is new, and `docs` in it is the project's. What a
//! block shows of an output is checked, or written anew with the numbers of this run. In a block, a line `...` stands for any lines,
//! and `...` in a line for any text. A block that shows `???` gets the whole output.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use regex::Regex;

use crate::dist;
use crate::setup::{self, Rocm};
use crate::shell::root;

/// The pages whose commands are run.
const PAGES: &[&str] = &[
    "README.md",
    "docs/durations.md",
    "docs/swap.md",
    "docs/capture.md",
    "docs/verify.md",
    "docs/bench.md",
    "docs/tune.md",
    "docs/capture-example.md",
    "docs/tuning-example.md",
];

const BEGIN: &str = "```console";
const END: &str = "```";
const PROMPT: &str = "$ ";
const ELISION: &str = "...";
/// In a block: the whole output is to be written here.
const WHOLE: &str = "???";
/// Shows the status of the command before it, which otherwise has to be 0.
const STATUS: &str = "echo $?";
/// Seconds after which a command is ended.
const LIMIT: &str = "300";

/// What is done with the outputs of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outputs {
    /// They are written into the pages.
    Write,
    /// They are compared with the pages.
    Compare,
    /// Only the statuses of the commands are compared.
    Ignore,
}

/// Runs the commands of all pages.
///
/// # Errors
/// The first command with another status, or another output, than its page says.
pub(super) fn run(outputs: Outputs) -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    for page in PAGES {
        run_page(&rocm, page, outputs).with_context(|| (*page).to_owned())?;
        println!("{page}");
    }
    Ok(())
}

fn run_page(rocm: &Rocm, page: &str, outputs: Outputs) -> Result<()> {
    let path = root().join(page);
    let text = fs::read_to_string(&path)?;
    let folder = root().join("target/examples").join(page.replace(['/', '.'], "-"));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    symlink(root().join("docs"), folder.join("docs"))?;
    let new = with_outputs(&text, outputs, &mut |command| ran(rocm, &folder, command))?;
    match outputs {
        Outputs::Compare if masked(&new) != masked(&text) => {
            bail!("its outputs differ from those of this run: run `cargo xtask docs --examples`")
        }
        Outputs::Compare | Outputs::Ignore => Ok(()),
        Outputs::Write => fs::write(&path, new).context("writing it"),
    }
}

/// The status of a command and what it printed, on either stream.
fn ran(rocm: &Rocm, folder: &Path, command: &str) -> Result<(i32, String)> {
    let mut folders = vec![root().join("target/release")];
    folders.extend(rocm.hipcc.parent().map(Path::to_owned));
    folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let mut shell = Command::new("timeout");
    shell.args([LIMIT, "sh", "-c", &format!("exec 2>&1\n{command}")]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", std::env::join_paths(folders)?).env("LC_ALL", "C.UTF-8");
    for (name, _) in std::env::vars_os() {
        if ["LOGDUR_", "KFDEMU_", "HSA_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            shell.env_remove(name);
        }
    }
    if let Some(root) = &rocm.root {
        shell.env("ROCM_PATH", root).env("LD_LIBRARY_PATH", root.join("lib"));
    }
    let output = shell.output().with_context(|| format!("could not start {command}"))?;
    let status = output.status.code().with_context(|| format!("{command}: {}", output.status))?;
    // The pages show paths as a reader has them, who starts in a folder of the same contents.
    let folder = format!("{}/", folder.display());
    Ok((status, String::from_utf8_lossy(&output.stdout).replace(&folder, "")))
}

/// The page with the outputs of a run in its blocks.
///
/// # Errors
/// When a status is not the one that the page has, or an output does not have the lines that the page shows.
fn with_outputs(page: &str, outputs: Outputs, run: &mut dyn FnMut(&str) -> Result<(i32, String)>) -> Result<String> {
    let mut new = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        new += &format!("{line}\n");
        if line != BEGIN {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != END) {
            let mut command = line.strip_prefix(PROMPT).with_context(|| format!("not a command: {line}"))?.to_owned();
            new += &format!("{line}\n");
            while command.ends_with('\\')
                && let Some(rest) = lines.next()
            {
                command += &format!("\n{rest}");
                new += &format!("{rest}\n");
            }
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|line| *line != END && !line.starts_with(PROMPT)) {
                shown.push(line);
            }
            let (status, output) = run(&command)?;
            let merged = match outputs {
                Outputs::Ignore => Ok(String::new()),
                _ if shown == [WHOLE] => Ok(output.clone()),
                _ => merge(&shown, &output),
            };
            new += &merged.with_context(|| format!("the output of `{command}`:\n{output}"))?;
            let mut expected = 0;
            if lines.next_if(|line| *line == format!("{PROMPT}{STATUS}")).is_some() {
                let text = lines.next().unwrap_or_default();
                expected = text.parse().with_context(|| format!("expected a status after {STATUS}, found {text:?}"))?;
                new += &format!("{PROMPT}{STATUS}\n{text}\n");
            }
            if status != expected {
                bail!("`{command}`: expected status {expected}, found {status}:\n{output}");
            }
        }
    }
    Ok(new)
}

/// What a page shows of an output, with the numbers and names of a run.
///
/// # Errors
/// The line that the output does not have.
fn merge(shown: &[&str], output: &str) -> Result<String> {
    let mut found = output.lines();
    let mut text = String::new();
    let mut skipping = false;
    for line in shown {
        if line.trim() == ELISION {
            skipping = true;
            text += &format!("{line}\n");
            continue;
        }
        let merged = if skipping {
            found.find_map(|candidate| merge_line(line, candidate))
        } else {
            found.next().and_then(|candidate| merge_line(line, candidate))
        };
        text += &format!("{}\n", merged.with_context(|| format!("it does not have, or not here, the line {line:?}"))?);
        skipping = false;
    }
    match found.next() {
        Some(line) if !skipping => bail!("the page does not show its line {line:?}"),
        _ => Ok(text),
    }
}

/// The line of a run in the form of the shown one; `None` if they differ in more than numbers.
fn merge_line(shown: &str, found: &str) -> Option<String> {
    let (shown, found) = (words(shown), words(found));
    let mut text = String::new();
    let mut at = 0;
    let mut parts = shown.split(|word| *word == ELISION).peekable();
    let mut first = true;
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let fits = |at: &usize| found.get(*at..*at + part.len()).is_some_and(|words| same(part, words));
        let begin = match (first, last) {
            (true, _) => Some(0),
            (false, true) => found.len().checked_sub(part.len()).filter(|begin| *begin >= at),
            (false, false) => (at..=found.len()).find(&fits),
        };
        let begin = begin.filter(fits)?;
        if !first {
            text += ELISION;
        }
        at = begin + part.len();
        text += &found[begin..at].concat();
        first = false;
    }
    (at == found.len()).then_some(text)
}

/// True for words that differ in numbers and widths of spaces alone.
fn same(shown: &[&str], found: &[&str]) -> bool {
    shown.len() == found.len() && shown.iter().zip(found).all(|(a, b)| mask(a) == mask(b))
}

/// Numbers, hashes and addresses, spaces, and single other characters.
fn words(line: &str) -> Vec<&str> {
    // The expression is constant: a test has it compiled.
    let Ok(word) = Regex::new(r"\.\.\.|0x[0-9a-f]+|[0-9a-f]{8,}|\d+(\.\d+)?(e-?\d+)?|\s+|(?s:.)") else {
        return vec![line];
    };
    word.find_iter(line).map(|word| word.as_str()).collect()
}

fn mask(word: &str) -> &str {
    match word.chars().next() {
        Some(c) if c.is_whitespace() => " ",
        Some(c) if c.is_ascii_digit() || word.len() >= 8 => "0",
        _ => word,
    }
}

/// A text without its numbers.
fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| words(line).into_iter().map(mask).collect::<String>() + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# T\n```console\n$ a \\\n   -b\nx 1 ns\n...\nq=2a00ff11, ... 3\n$ c\n$ echo $?\n6\n```\n$ not run\n";

    fn page(outputs: Outputs, status: i32, output: &str) -> Result<String> {
        with_outputs(PAGE, outputs, &mut |command| match command {
            "a \\\n   -b" => Ok((0, output.to_owned())),
            "c" => Ok((status, String::new())),
            other => bail!("unexpected {other}"),
        })
    }

    #[test]
    fn a_page_gets_the_numbers_of_a_run_and_keeps_what_it_leaves_out() {
        let new = page(Outputs::Write, 6, "x   25.5 ns\nmore\nq=bb00ff17, and so on, 4\n").expect("it has these lines");
        assert_eq!(new, PAGE.replace("x 1", "x   25.5").replace("2a00ff11", "bb00ff17").replace("... 3", "... 4"));
        assert_eq!(masked(&new), masked(PAGE));
    }

    #[test]
    fn other_words_lines_and_statuses_are_refused() {
        let wrong = |status: i32, output: &str| {
            format!("{:#}", page(Outputs::Compare, status, output).expect_err("it differs"))
        };
        let good = "x 1 ns\nq=2a00ff11, z 3\n";
        assert!(wrong(0, good).contains("expected status 6, found 0"));
        assert!(wrong(6, &good.replace("ns", "ms")).contains("the line \"x 1 ns\""));
        assert!(wrong(6, &format!("y\n{good}")).contains("the line \"x 1 ns\""));
        assert!(wrong(6, &format!("{good}y\n")).contains("does not show its line \"y\""));
        assert!(wrong(6, "x 1 ns\n").contains("the line \"q=2a00ff11, ... 3\""));
    }

    #[test]
    fn statuses_are_compared_where_outputs_are_not() {
        assert!(page(Outputs::Ignore, 6, "other words\n").is_ok());
        assert!(page(Outputs::Ignore, 0, "other words\n").is_err());
    }

    #[test]
    fn a_block_that_shows_nothing_yet_gets_all() {
        let new = with_outputs("```console\n$ a\n???\n```\n", Outputs::Write, &mut |_| Ok((0, "1\n2\n".to_owned())));
        assert_eq!(new.expect("any output"), "```console\n$ a\n1\n2\n```\n");
    }
}
