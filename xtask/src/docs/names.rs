//! The files and names of the code that documents for developers mention, against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Parser};

use crate::shell::{self, root};

/// The documents that lead to places in the code.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/life-of-a-packet.md"];

/// The ends of the names of files with code, and of those that documents mention.
const CODE: &[&str] = &[".rs", ".h", ".c", ".cpp", ".hip", ".cl", ".py", ".pyi", ".toml"];

/// What the code has.
#[derive(Debug, Default)]
struct Code {
    files: Vec<String>,
    /// Every word of a file that could be a name.
    words: BTreeSet<String>,
}

impl Code {
    fn of(files: impl Iterator<Item = (String, String)>) -> Code {
        let mut code = Code::default();
        for (file, text) in files {
            let words = text.split(|c: char| !is_of_name(c)).filter(|word| !word.is_empty());
            for word in words {
                if !code.words.contains(word) {
                    code.words.insert(word.to_owned());
                }
            }
            code.files.push(file);
        }
        code
    }

    /// What of a code span of a document is not in the code; `None` if all is, and if the span names neither a file nor a name.
    fn lacks<'s>(&self, span: &'s str) -> Option<&'s str> {
        if CODE.iter().any(|end| span.ends_with(end)) && !span.contains([' ', '*']) {
            let is_end_of = |file: &String| Path::new(file).ends_with(span);
            return (!self.files.iter().any(is_end_of)).then_some(span);
        }
        let name = span.trim_end_matches(['!', '?']);
        let is_name = name.contains("::") || name.contains('_') || name.contains(char::is_uppercase);
        if !is_name || !name.split("::").all(|part| !part.is_empty() && part.chars().all(is_of_name)) {
            return None;
        }
        name.split("::").find(|part| !self.words.contains(*part))
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Checks all of them.
pub(super) fn check() -> Result<()> {
    let mut command = Command::new("git");
    let list =
        shell::output(command.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root()))?;
    let files = list.lines().filter(|file| CODE.iter().any(|end| file.ends_with(end)));
    // A file that was removed and is still in git's list has no text.
    let texts = files.filter_map(|file| Some((file.to_owned(), fs::read_to_string(root().join(file)).ok()?)));
    let code = Code::of(texts);
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).with_context(|| (*document).to_owned())?;
        for event in Parser::new(&text) {
            let Event::Code(span) = event else { continue };
            if let Some(missing) = code.lacks(&span) {
                bail!("{document}: expected `{span}` in the code, found no file and no name `{missing}`");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_a_name_that_the_code_lacks_is_told() {
        let files = [("src/log/mod.rs", "struct Writer; fn write_rows() {}"), ("a/b.h", "#define BOTH 1")];
        let code = Code::of(files.into_iter().map(|(file, text)| (file.to_owned(), text.to_owned())));
        for there in
            ["log/mod.rs", "src/log/mod.rs", "b.h", "Writer::write_rows", "write_rows", "BOTH", "cargo x", "word"]
        {
            assert_eq!(code.lacks(there), None, "{there}");
        }
        for (gone, what) in [("og/mod.rs", "og/mod.rs"), ("Reader", "Reader"), ("Writer::read_rows", "read_rows")] {
            assert_eq!(code.lacks(gone), Some(what));
        }
    }
}
