//! Builds the binaries for old systems: with the C library's interface of ten years, from any machine, to the same bytes.
//!
//! The linker is Zig's, which has the symbols of each version of glibc. Both it and `cargo-zigbuild`, which makes Cargo use it,
//! are packages of Python's index. Paths of the machine are replaced, so that the binaries of two builds in two folders are the same.
//! Their debug information is not: Zig's own assembly has its paths there. So it is in files of its own, and no id is made of it.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection};

use super::binaries::{self, BINARIES};
use crate::{setup, shell};

/// The newest version of the C library that the binaries may ask for: RHEL 8 and its clones have 2.28.
pub(crate) const GLIBC: (u32, u32) = (2, 28);

pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

const PACKAGES: &[&str] = &["cargo-zigbuild==0.24.0", "ziglang==0.17.1"];

/// The built and stripped binaries.
pub(crate) struct Built {
    folder: PathBuf,
}

impl Built {
    /// A binary, by the name of its file.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Its debug information, which has the same build id.
    fn debug(&self, file: &str) -> PathBuf {
        self.folder.join(format!("{file}.debug"))
    }
}

/// Builds what has changed for the machine itself, as the tests use it.
///
/// # Errors
/// What the compiler says.
pub fn for_this_machine() -> Result<()> {
    packages(|_| true)
}

/// Builds some of the packages, and says which ones it is at. A terminal sees Cargo's own progress, too.
///
/// # Errors
/// What the compiler says.
pub(crate) fn packages(are_wanted: impl Fn(&str) -> bool) -> Result<()> {
    for mut packages in binaries::packages() {
        packages.retain(|package| are_wanted(package));
        if packages.is_empty() {
            continue;
        }
        println!("building {}", packages.join(", "));
        let mut command = Command::new(shell::cargo());
        command.args(["build", "--release"]).current_dir(shell::root());
        command.args((!io::stderr().is_terminal()).then_some("--quiet"));
        shell::run(command.args(packages.iter().flat_map(|package| ["-p", package])))?;
    }
    Ok(())
}

/// Builds what has changed.
///
/// # Errors
/// When the tools cannot be had, or what the compiler says.
pub(crate) fn build() -> Result<Built> {
    let root = shell::root();
    build_in(&root, &root.join("target"), &cargo_home()?)?;
    stripped(&root.join("target"), super::folder().join("binaries"))
}

/// Builds the tracked files once more, in a folder with another name, and compares.
///
/// # Errors
/// When a binary differs.
pub(crate) fn again(first: &Built) -> Result<()> {
    let folder = super::folder().join("another folder");
    let (source, home) = (folder.join("source"), folder.join("cargo"));
    fs::remove_dir_all(&source).ok();
    fs::create_dir_all(&source)?;
    fs::create_dir_all(&home)?;
    let registry = home.join("registry");
    if !registry.exists() {
        std::os::unix::fs::symlink(cargo_home()?.join("registry"), &registry)?;
    }
    let files = shell::output(Command::new("git").args(["ls-files"]).current_dir(shell::root()))?;
    for file in files.lines().filter(|file| shell::root().join(file).is_file()) {
        let copy = source.join(file);
        fs::create_dir_all(copy.parent().context("a file has a folder")?)?;
        fs::copy(shell::root().join(file), copy)?;
    }
    build_in(&source, &folder.join("target"), &home)?;
    let second = stripped(&folder.join("target"), folder.join("binaries"))?;
    for binary in BINARIES {
        let (first, second) = (first.path(binary.file), second.path(binary.file));
        if fs::read(&first)? != fs::read(&second)? {
            bail!("{} and {}: expected the same bytes", first.display(), second.display());
        }
    }
    Ok(())
}

/// A compiler of C for old systems.
///
/// # Errors
/// When it cannot be had.
pub(crate) fn c_compiler() -> Result<Command> {
    let mut command = Command::new(setup::python("zig", PACKAGES)?);
    command.args(["-m", "ziglang", "cc", "-O2", "-Wall", "-Werror", "-target"]);
    command.arg(format!("x86_64-linux-gnu.{}.{}", GLIBC.0, GLIBC.1));
    Ok(command)
}

/// Has a command that runs Cargo here compile for old systems, as [`build`] does.
///
/// # Errors
/// When the tools cannot be had.
pub(super) fn for_old_systems(command: &mut Command) -> Result<()> {
    configure(command, &shell::root(), &cargo_home()?)
}

fn configure(command: &mut Command, root: &Path, home: &Path) -> Result<()> {
    let python = setup::python("zig", PACKAGES)?;
    let tools = python.parent().context("Python has no folder")?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools.to_owned()].into_iter().chain(std::env::split_paths(&others)))?;
    let sysroot = shell::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    // The sources of crates may be behind a link, which Cargo resolves in some paths only.
    let registry = home.join("registry");
    let resolved = registry.canonicalize().with_context(|| registry.display().to_string())?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let options = [
        remap(root, "/logdur"),
        remap(&registry, "/cargo/registry"),
        remap(&resolved, "/cargo/registry"),
        // Where its source is installed, the compiler names the files of the standard library.
        remap(&library, "/rust"),
        // Debuggers find debug information by it.
        "-Clink-arg=-Wl,--build-id=sha1".to_owned(),
    ];
    command.env("PATH", &path).env("CARGO_HOME", home).env_remove("RUSTFLAGS");
    command.env("CARGO_ENCODED_RUSTFLAGS", options.join("\u{1f}"));
    // Of several units of a crate, the linker of LLVM names local symbols by hashes that depend on the folder of the build.
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    // Assembly has the paths of its sources in its debug information, which says nothing that is needed.
    command.env("CFLAGS", "-g0");
    Ok(())
}

fn build_in(root: &Path, target: &Path, home: &Path) -> Result<()> {
    let program = setup::python("zig", PACKAGES)?.with_file_name("cargo-zigbuild");
    for packages in binaries::packages() {
        let mut command = Command::new(&program);
        command.args(["zigbuild", "--quiet", "--locked", "--release", "--target-dir"]).arg(target);
        command.arg(format!("--target={TARGET}.{}.{}", GLIBC.0, GLIBC.1));
        command.args(packages.iter().flat_map(|package| ["-p", package]));
        configure(&mut command, root, home)?;
        shell::run(command.current_dir(root))?;
    }
    Ok(())
}

/// Divides what was built into binaries and their debug information.
fn stripped(target: &Path, folder: PathBuf) -> Result<Built> {
    fs::create_dir_all(&folder)?;
    let built = Built { folder };
    for binary in BINARIES {
        let (whole, debug) = (target.join(TARGET).join("release").join(binary.file), built.debug(binary.file));
        let stripped = built.path(binary.file);
        shell::output(
            Command::new("objcopy").args(["--only-keep-debug", "--compress-debug-sections"]).args([&whole, &debug]),
        )?;
        shell::output(Command::new("strip").arg("--strip-unneeded").arg("-o").args([&stripped, &whole]))?;
        identify(&stripped, &debug)?;
    }
    Ok(built)
}

/// Bytes of a build id that is a sum of SHA-1.
const ID: usize = 20;

/// Gives a binary and its debug information a build id that is made of the binary alone. The linker's is made of both.
fn identify(stripped: &Path, debug: &Path) -> Result<()> {
    write_id(stripped, &[0; ID])?;
    let sum = shell::output(Command::new("sha1sum").arg(stripped))?;
    let byte = |n: usize| sum.get(2 * n..2 * n + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let id: Option<Vec<u8>> = (0..ID).map(byte).collect();
    let id = id.with_context(|| format!("expected a sum of SHA-1, found {sum:?}"))?;
    [stripped, debug].into_iter().try_for_each(|path| write_id(path, &id))
}

/// Writes a build id in the place of the one that the linker made.
fn write_id(path: &Path, id: &[u8]) -> Result<()> {
    const SECTION: &str = ".note.gnu.build-id";
    let mut bytes = fs::read(path)?;
    let range = object::File::parse(&*bytes)?.section_by_name(SECTION).and_then(|section| section.file_range());
    // The id is the end of the note.
    let place = range.and_then(|(start, length)| {
        let end = usize::try_from(start + length).ok()?;
        bytes.get_mut(end.checked_sub(id.len())?..end)
    });
    place.with_context(|| format!("{}: expected a section {SECTION}", path.display()))?.copy_from_slice(id);
    Ok(fs::write(path, bytes)?)
}

fn cargo_home() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("there is no home folder")
}
