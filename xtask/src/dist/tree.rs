//! The folders that an installation has: what the archive and the package of Debian are made of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::VERSION;
use super::binaries::{BINARIES, Binary};
use super::build::Built;
use crate::shell;

/// Files of `packaging/`, and where they are installed. `@VERSION@` and `@REPOSITORY@` are replaced in them.
const TEMPLATES: &[(&str, &str)] = &[
    ("logdur-config.cmake", "lib/cmake/logdur/logdur-config.cmake"),
    ("logdur-config-version.cmake", "lib/cmake/logdur/logdur-config-version.cmake"),
    ("logdur.pc", "lib/pkgconfig/logdur.pc"),
    ("modulefile", concat!("share/modulefiles/logdur/", env!("CARGO_PKG_VERSION"))),
];

/// The shells whose completions are installed, and where they look for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/omniprobe"),
    ("zsh", "share/zsh/site-functions/_omniprobe"),
    ("fish", "share/fish/vendor_completions.d/omniprobe.fish"),
];

/// Where documents are installed.
const DOCUMENTS: &str = "share/doc/logdur";

/// Documents of the root of the checkout.
const OF_THE_ROOT: &[&str] = &["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Fills a folder with `bin`, `lib`, `include` and `share`.
///
/// # Errors
/// When a file cannot be made.
pub(crate) fn make(built: &Built) -> Result<PathBuf> {
    let tree = super::folder().join("tree");
    fs::remove_dir_all(&tree).ok();
    put_binaries(|file| built.path(file), &tree)?;
    put_shared(&built.path("omniprobe"), &tree)?;
    for name in OF_THE_ROOT {
        put(&shell::root().join(name), &tree.join(DOCUMENTS).join(name), 0o644)?;
    }
    files_of(&shell::root().join("docs"), &tree.join(DOCUMENTS).join("docs"))?;
    super::licenses::write(&tree.join(DOCUMENTS).join("THIRD-PARTY-LICENSES"))?;
    Ok(tree)
}

/// Puts the binaries, each from its place, into the folders of a tree. Returns where they are there.
///
/// # Errors
/// When one cannot be copied.
pub(crate) fn put_binaries(place: impl Fn(&str) -> PathBuf, tree: &Path) -> Result<Vec<PathBuf>> {
    let one = |binary: &Binary| {
        let to = tree.join(binary.folder).join(binary.file);
        put(&place(binary.file), &to, 0o755).map(|()| to)
    };
    BINARIES.iter().map(one).collect()
}

/// Puts what belongs to the binaries into a tree: headers, files for build systems, completions and manual pages.
///
/// # Errors
/// When a file cannot be made.
pub(crate) fn put_shared(omniprobe: &Path, tree: &Path) -> Result<()> {
    let root = shell::root();
    for (from, to) in TEMPLATES {
        write(&tree.join(to), template(&fs::read_to_string(root.join("packaging").join(from))?).as_bytes())?;
    }
    files_of(&root.join("instrument/include"), &tree.join("include"))?;
    let omniprobe = || Command::new(omniprobe);
    for (name, to) in COMPLETIONS {
        write(&tree.join(to), shell::output(omniprobe().args(["completions", name]))?.as_bytes())?;
    }
    let pages = tree.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    shell::output(omniprobe().arg("man").arg(&pages))?;
    Ok(())
}

/// A file of `packaging/` with the version and the address of the project.
pub(crate) fn template(text: &str) -> String {
    text.replace("@VERSION@", VERSION).replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY"))
}

/// Copies a file, with these permissions.
pub(crate) fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    // Processes that have the old file keep it.
    fs::remove_file(to).ok();
    fs::copy(from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::write(to, bytes).with_context(|| to.display().to_string())
}

/// Copies the tracked files of a folder.
fn files_of(from: &Path, to: &Path) -> Result<()> {
    let files = shell::output(Command::new("git").args(["ls-files", "--"]).arg(from).current_dir(shell::root()))?;
    for file in files.lines() {
        let file = shell::root().join(file);
        put(&file, &to.join(file.strip_prefix(from)?), 0o644)?;
    }
    Ok(())
}
