//! The folders that an installation has: what the archive and the package of Debian are made of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::VERSION;
use super::binaries::BINARIES;
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
    for binary in BINARIES {
        put(&built.path(binary.file), &tree.join(binary.folder).join(binary.file), 0o755)?;
    }
    let root = shell::root();
    for (from, to) in TEMPLATES {
        write(&tree.join(to), template(&fs::read_to_string(root.join("packaging").join(from))?).as_bytes())?;
    }
    for name in OF_THE_ROOT {
        put(&root.join(name), &tree.join(DOCUMENTS).join(name), 0o644)?;
    }
    files_of(&root.join("include"), &tree.join("include"))?;
    files_of(&root.join("docs"), &tree.join(DOCUMENTS).join("docs"))?;
    super::licenses::write(&tree.join(DOCUMENTS).join("THIRD-PARTY-LICENSES"))?;
    let omniprobe = || Command::new(built.path("omniprobe"));
    for (name, to) in COMPLETIONS {
        write(&tree.join(to), shell::output(omniprobe().args(["completions", name]))?.as_bytes())?;
    }
    let pages = tree.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    shell::output(omniprobe().arg("man").arg(&pages))?;
    Ok(tree)
}

/// A file of `packaging/` with the version and the address of the project.
pub(crate) fn template(text: &str) -> String {
    text.replace("@VERSION@", VERSION).replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY"))
}

/// Copies a file, with these permissions.
pub(crate) fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
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
