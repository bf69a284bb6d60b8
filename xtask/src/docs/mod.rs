//! `cargo xtask docs`: the pages, and the parts of pages, that are printed from tables; links, names of the code, examples, the picture and the
//! book.

mod book;
mod examples;
mod links;
mod names;
mod timeline;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{self, root};
use examples::Outputs;

/// The picture of a run.
const PICTURE: &str = "docs/example/pipeline.svg";

/// What the command line asks for.
#[derive(Default)]
struct Options {
    /// Compare, and write nothing.
    check: bool,
    /// Run the commands of the pages, too.
    examples: bool,
    /// Build the book, too.
    full: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options::default();
        for arg in args {
            match arg.as_str() {
                "--check" => options.check = true,
                "--examples" => options.examples = true,
                "--full" => options.full = true,
                other => bail!("docs takes --check, --examples and --full, found {other:?}"),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let Options { check, examples, full } = Options::parse(args)?;
    if examples {
        examples::run(if check { Outputs::Compare } else { Outputs::Write })?;
    }
    for (file, text) in printed()? {
        match file.split_once('#') {
            None => write(&file, &text, check)?,
            Some((file, part)) => {
                let path = root().join(file);
                let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                write(file, &with_part(&page, part, &text).with_context(|| file.to_owned())?, check)?;
            }
        }
    }
    write(PICTURE, &timeline::picture()?, check)?;
    links::check()?;
    names::check()?;
    if full { book::build() } else { Ok(()) }
}

/// The pages that are made from tables, by their files. `FILE#NAME` is a part of a page that is written by hand.
fn printed() -> Result<BTreeMap<String, String>> {
    let mut command = Command::new(shell::cargo());
    let text = shell::output(command.args(["run", "--quiet", "--package", "xtask-pages"]).current_dir(root()))?;
    serde_json::from_str(&text).context("what xtask-pages prints")
}

/// Runs the commands of the pages: each has to end as its page says.
///
/// # Errors
/// The first command that ends otherwise.
pub(crate) fn commands() -> Result<()> {
    examples::run(Outputs::Ignore)
}

/// Writes a page, or compares it with the file.
fn write(file: &str, text: &str, check: bool) -> Result<()> {
    let path = root().join(file);
    if !check {
        fs::create_dir_all(path.parent().context("a page has a folder")?)?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    } else if fs::read_to_string(&path).unwrap_or_default() != text {
        bail!("{file} differs from what it is made of: run `cargo xtask docs`");
    }
    println!("{file}");
    Ok(())
}

/// The page with the part between its marks replaced.
fn with_part(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) =
        (format!("<!-- {name}: printed by `cargo xtask docs` -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("expected the mark {begin:?}, found none"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("expected the mark {end:?}, found none"))?;
    Ok([before, &begin, text, &end, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_in_any_order_and_others_are_refused() {
        let parse = |line: &str| Options::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let both = parse("--examples --check").expect("two options that there are");
        assert!(both.check && both.examples && !both.full);
        assert!(parse("--full").is_ok_and(|options| options.full && !options.check));
        assert!(parse("--chek").is_err());
    }

    #[test]
    fn a_part_of_a_page_is_replaced_between_its_marks_and_nothing_else() {
        let page = "a\n<!-- x: printed by `cargo xtask docs` -->\nold\n<!-- end of x -->\nb\n";
        let new = with_part(page, "x", "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert!(with_part("a\n", "x", "new\n").is_err());
    }
}
