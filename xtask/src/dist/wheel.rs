//! The wheel: the Python package of `python/` with the binaries. It is tested in a fresh environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::binaries::BINARIES;
use super::build::{self, Built, GLIBC};
use crate::{exports, setup, shell};

/// What the wheel is made with, and what its tests need; data frames and Triton are in environments of their own.
const PACKAGES: &[&str] = &[
    "maturin==1.16.0",
    "wheel==0.48.0",
    "mypy==2.4.1",
    "pytest==9.2.0",
    "tqdm==4.70.1",
    "distributed==2026.8.0",
    "optuna==5.0.0",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "matplotlib==3.11.2",
    "mcp==2.3.0",
];

/// The oldest version of the C library that a tag of wheels names. Source: PEP 599 and PEP 600.
const OLDEST_GLIBC: (u32, u32) = (2, 17);

fn folder() -> PathBuf {
    shell::root().join("target/wheel")
}

fn tools() -> Result<PathBuf> {
    let python = setup::python("python", PACKAGES)?;
    Ok(python.parent().context("Python has no folder")?.to_owned())
}

/// `cargo xtask wheel`: the wheel of an ordinary build, and its tests.
///
/// # Errors
/// When the wheel cannot be made or installed, or a test fails.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("wheel takes no arguments, found {args:?}");
    }
    let rocm = setup::for_tests()?;
    build::for_this_machine()?;
    test(&rocm.hipcc, None)
}

/// Makes the wheel of a release, for the oldest C library that all of its binaries can use.
///
/// # Errors
/// When a tool cannot be had, or what the compiler says.
pub(super) fn make(built: &Built) -> Result<Vec<PathBuf>> {
    let mut maturin = Command::new(tools()?.join("maturin"));
    let compatible = format!("manylinux_{}_{}", GLIBC.0, GLIBC.1);
    maturin.args(["build", "--zig", "--target", build::TARGET, "--compatibility", &compatible]);
    build::for_old_systems(&mut maturin)?;
    Ok(vec![packed(maturin, |file| built.path(file))?])
}

/// Installs the wheel of a release, and runs the package's tests.
///
/// # Errors
/// When it cannot be installed, or a test fails.
pub(super) fn try_out(_: &Built, made: &[PathBuf]) -> Result<()> {
    let [wheel] = made else { bail!("expected one wheel, found {}", made.len()) };
    installed(wheel, &setup::for_tests()?.hipcc, None)
}

/// Makes the wheel of this build's binaries, and runs the package's tests in a fresh environment, on a device as for the other
/// tests.
///
/// # Errors
/// When the wheel cannot be made or installed, or a test fails.
pub(crate) fn test(hipcc: &Path, device: Option<&str>) -> Result<()> {
    let binaries = folder().join("binaries");
    fs::create_dir_all(&binaries)?;
    for binary in BINARIES {
        let stripped = binaries.join(binary.file);
        shell::output(Command::new("strip").arg("-o").arg(stripped).arg(shell::built(binary.file)))?;
    }
    let mut maturin = Command::new(tools()?.join("maturin"));
    maturin.args(["build", "--compatibility", "linux"]);
    let wheel = packed(maturin, |file| binaries.join(file))?;
    installed(&wheel, hipcc, device)
}

/// Makes a wheel by a command of maturin, with binaries. Its tag is that of the C library that they need.
fn packed(mut maturin: Command, binary: impl Fn(&str) -> PathBuf) -> Result<PathBuf> {
    let tools = tools()?;
    let (source, made) = (shell::root().join("python"), folder().join("made"));
    let packaged = source.join("logdur/bin");
    fs::remove_dir_all(&packaged).ok();
    fs::create_dir_all(&packaged)?;
    for file in BINARIES.iter().map(|binary| binary.file) {
        fs::copy(binary(file), packaged.join(file)).with_context(|| file)?;
    }
    fs::remove_dir_all(&made).ok();
    maturin.args(["--quiet", "--release", "--locked", "--out"]).arg(&made);
    shell::output(maturin.current_dir(&source))?;
    let wheel = only_file(&made)?;
    // What the compiled module needs is known only now.
    let unpacked = folder().join("unpacked");
    fs::remove_dir_all(&unpacked).ok();
    shell::output(Command::new(tools.join("wheel")).arg("unpack").arg(&wheel).arg("--dest").arg(&unpacked))?;
    let mut glibc = OLDEST_GLIBC;
    for file in elf_files(&unpacked)? {
        glibc = glibc.max(exports::newest_glibc(&file)?);
    }
    let tag = format!("manylinux_{}_{}_x86_64", glibc.0, glibc.1);
    shell::output(Command::new(tools.join("wheel")).args(["tags", "--remove", "--platform-tag", &tag]).arg(&wheel))?;
    let wheel = only_file(&made)?;
    println!("{}: {} bytes", wheel.display(), wheel.metadata()?.len());
    Ok(wheel)
}

/// Installs a wheel in a fresh environment, and runs the package's tests there.
///
/// # Errors
/// When it cannot be installed, or a test fails.
fn installed(wheel: &Path, hipcc: &Path, device: Option<&str>) -> Result<()> {
    let environment = folder().join("environment");
    let package = wheel.to_str().context("the folder of the wheel is no text")?;
    setup::environment(&environment, &[package])?;
    let bin = environment.join("bin");
    // What only tests need, behind what the wheel brings.
    let libraries = library(&bin.join("python"))?;
    let others = [setup::python("python", PACKAGES)?, setup::columns()?, setup::triton()?];
    let lines: Result<Vec<String>> = others.iter().map(|python| Ok(library(python)?.display().to_string())).collect();
    fs::write(libraries.join("of-the-tests.pth"), lines?.join("\n"))?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([bin.clone()].into_iter().chain(std::env::split_paths(&others)))?;
    let python = || {
        let mut command = Command::new(bin.join("python"));
        command.env("PATH", &path).env("LOGDUR_TEST_HIPCC", hipcc);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
        command.envs(device.map(|device| ("LOGDUR_TEST_DEVICE", device)));
        command
    };
    let mut types = python();
    types.args(["-m", "mypy", "--cache-dir"]).arg(folder().join("mypy"));
    shell::output(types.current_dir(shell::root().join("python"))).context("the types of the Python package")?;
    let mut tests = python();
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(shell::root().join("python/tests"));
    // Not in the folder of the sources, which Python would take for the package.
    shell::run(tests.current_dir(folder()))
}

/// The folder of the packages of an environment's Python.
fn library(python: &Path) -> Result<PathBuf> {
    let asked = "import sysconfig; print(sysconfig.get_path('purelib'))";
    Ok(shell::output(Command::new(python).args(["-c", asked]))?.trim().into())
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    match files.as_slice() {
        [one] => Ok(one.clone()),
        others => bail!("{}: expected one file, found {}", folder.display(), others.len()),
    }
}

/// The files of a folder that the C library loads.
fn elf_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(elf_files(&path)?);
        } else if fs::read(&path)?.starts_with(b"\x7fELF") {
            found.push(path);
        }
    }
    Ok(found)
}
