//! The links of the documents, and the book's table of contents, against the files that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::shell::root;

/// The documents outside of the book.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

/// The folder of the book, and its table of contents.
const BOOK: &str = "docs";
const CONTENTS: &str = "docs/SUMMARY.md";

/// The most lines that a document may have.
const LIMITS: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 200)];

/// What of a document matters to links.
#[derive(Debug, Default)]
struct Document {
    /// Its links, in its order, without those to other sites.
    links: Vec<String>,
    /// The names by which its headings are linked to.
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(text: &str) -> Document {
        let mut document = Document::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) if !is_external(&dest_url) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let numbered = (1..).map(|n| format!("{name}-{n}"));
                    let free = std::iter::once(name.clone()).chain(numbered).find(|n| !document.anchors.contains(n));
                    document.anchors.extend(free);
                }
                _ => {}
            }
        }
        document
    }
}

/// True for a link that leads to another site.
fn is_external(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The name by which GitHub and mdBook link to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut all, part| {
        match part {
            Component::ParentDir => _ = all.pop(),
            Component::CurDir => {}
            part => all.push(part),
        }
        all
    })
}

/// Checks every link, the table of contents, and the lengths of documents.
///
/// # Errors
/// All that is wrong, a line each.
pub(super) fn check() -> Result<()> {
    let mut texts = BTreeMap::new();
    let pages = fs::read_dir(root().join(BOOK))?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let pages = pages.iter().filter(|page| page.extension().is_some_and(|e| e == "md"));
    let pages = pages.filter_map(|page| Some(Path::new(BOOK).join(page.file_name()?)));
    for file in DOCUMENTS.iter().map(PathBuf::from).chain(pages) {
        let text = fs::read_to_string(root().join(&file)).with_context(|| file.display().to_string())?;
        texts.insert(file, text);
    }
    let mut wrong = problems(&texts, &|path| root().join(path).exists());
    for (file, most) in LIMITS {
        let lines = texts.get(Path::new(file)).map_or(0, |text| text.lines().count());
        if lines > *most {
            wrong.push(format!("{file}: expected at most {most} lines, found {lines}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// What is wrong with the links of documents, given by their paths; `exists` knows other files.
fn problems(texts: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let documents: BTreeMap<&PathBuf, Document> = texts.iter().map(|(f, text)| (f, Document::parse(text))).collect();
    let mut wrong = Vec::new();
    for (&file, document) in &documents {
        for link in &document.links {
            let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, a)| (path, Some(a)));
            let folder = file.parent().unwrap_or(Path::new(""));
            let target = if path.is_empty() { file.clone() } else { normal(&folder.join(path)) };
            let known = documents.get(&target);
            if known.is_none() && !exists(&target) {
                wrong.push(format!("{}: link to {link}: there is no {}", file.display(), target.display()));
            } else if file.starts_with(BOOK) && !target.starts_with(BOOK) {
                wrong.push(format!("{}: link to {link}: it leads out of the book", file.display()));
            } else if let (Some(anchor), Some(known)) = (anchor, known)
                && !known.anchors.contains(anchor)
            {
                wrong.push(format!("{}: link to {link}: {} has no such heading", file.display(), target.display()));
            }
        }
    }
    let listed = documents.get(&PathBuf::from(CONTENTS)).map_or(&[][..], |contents| contents.links.as_slice());
    for page in texts.keys().filter(|page| page.starts_with(BOOK) && *page != Path::new(CONTENTS)) {
        let name = page.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let times = listed.iter().filter(|link| *link == name).count();
        if times != 1 {
            wrong.push(format!("{CONTENTS}: expected {name} once, found it {times} times"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let texts = pages.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())).collect();
        problems(&texts, &|path| path == Path::new("LICENSE") || path == Path::new("docs/example/a.hip"))
    }

    #[test]
    fn links_to_files_and_headings_that_are_there_are_right() {
        let contents = "[Start](README.md)\n- [A](a.md)\n";
        let a = "# A & `b`: c_d\n[s](README.md#two-2) [f](example/a.hip) [w](https://a.b/c#d) [t](#a--b-c_d)\n";
        let start = "# Two 2\n# Same\n# Same\n[x](a.md) [y](#same-1)\n";
        let pages = [("docs/SUMMARY.md", contents), ("docs/a.md", a), ("docs/README.md", start)];
        assert_eq!(found(&pages), Vec::<String>::new());
        assert_eq!(
            found(&[&pages[..], &[("README.md", "[a](docs/a.md) [l](LICENSE)")]].concat()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_kind_of_broken_link_is_named_with_its_page() {
        let contents = "[A](a.md)\n[A](a.md)\n";
        let a = "[1](gone.md) [2](a.md#gone) ![3](gone.svg) [4](../LICENSE) `[no](link.md)`\n```\n[no](link.md)\n```\n";
        assert_eq!(
            found(&[("docs/SUMMARY.md", contents), ("docs/a.md", a), ("docs/b.md", "")]),
            [
                "docs/a.md: link to gone.md: there is no docs/gone.md",
                "docs/a.md: link to a.md#gone: docs/a.md has no such heading",
                "docs/a.md: link to gone.svg: there is no docs/gone.svg",
                "docs/a.md: link to ../LICENSE: it leads out of the book",
                "docs/SUMMARY.md: expected a.md once, found it 2 times",
                "docs/SUMMARY.md: expected b.md once, found it 0 times",
            ]
        );
    }
}
