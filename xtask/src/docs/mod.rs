//! `cargo xtask docs`: the pages, and the parts of pages, that are printed from tables; links, names of the code, examples, the picture and the
//! book.

mod book;
mod examples;
mod header;
mod links;
mod names;
mod timeline;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell::root;
use examples::Outputs;

/// A page: its file, and what prints it.
type Page = (&'static str, fn() -> String);

const PAGES: &[Page] = &[
    ("docs/capture-format.md", logdur_capture::page),
    ("docs/environment.md", logdur_settings::page),
    ("docs/isa-coverage.md", amdgpu_isa::coverage::page),
    ("docs/kernel-cache.md", logdur_kernel_cache::page),
    ("docs/statuses.md", logdur_replay::Exit::page),
];

/// A part of a page that is written by hand: its file, its name between the marks, and what prints it.
type Part = (&'static str, &'static str, fn() -> String);

const PARTS: &[Part] = &[
    ("docs/agents.md", "statuses", logdur_replay::Exit::table),
    ("docs/analysis.md", "analyses", logdur_observe::Analysis::table),
    ("docs/analysis.md", "checks", logdur_observe::Check::table),
    ("docs/analysis.md", "peaks", logdur_observe::peaks),
];

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
    for (file, print) in PAGES {
        write(file, &print(), check)?;
    }
    for (file, name, print) in PARTS {
        let path = root().join(file);
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        write(file, &with_part(&page, name, &print()).with_context(|| (*file).to_owned())?, check)?;
    }
    write("include/logdur_handler.h", &header::text()?, check)?;
    write(PICTURE, &timeline::picture()?, check)?;
    links::check()?;
    names::check()?;
    if full { book::build() } else { Ok(()) }
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
