//! `cargo xtask demo`: a HIP program on the emulated GPU, and a table of its kernels' durations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::dist;
use crate::setup::{self, Rocm};
use crate::shell::{self, root};

/// The processors that programs are compiled for: those that `--emulate` is tested with.
const ARCHS: &[&str] = &["gfx90a", "gfx906"];

/// The packages that a run on the emulated GPU needs.
const PACKAGES: [&str; 3] = ["logdur", "omniprobe", "kfd-emu"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("demo takes no arguments, found {args:?}");
    }
    println!("a few minutes on two processors when nothing is built yet, seconds later");
    let rocm = setup::rocm()?;
    dist::packages(|package| PACKAGES.contains(&package))?;
    let source = root().join("tests/programs/vectors.hip");
    println!("compiling {}", source.display());
    let example = compile(&rocm, &source)?;
    let omniprobe = shell::built("omniprobe");
    let mut command = Command::new(&omniprobe);
    command.args(["--emulate", ARCHS[0], "--stats"]);
    if let Some(root) = &rocm.root {
        command.arg("--rocm").arg(root);
    }
    command.arg("--").arg(&example);
    println!("{}\n", shell::shown(&command));
    shell::run(&mut command)
}

/// Compiles a HIP program, unless that has been done since it was changed.
///
/// # Errors
/// What the compiler says.
pub(crate) fn compile(rocm: &Rocm, source: &Path) -> Result<PathBuf> {
    let mut command = Command::new(&rocm.hipcc);
    command.args(ARCHS.iter().map(|arch| format!("--offload-arch={arch}"))).arg("-O3");
    compile_by(command, source, &[])
}

/// The same for one processor.
///
/// # Errors
/// What the compiler says.
pub(crate) fn compile_for(rocm: &Rocm, source: &Path, arch: &str) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?.to_string_lossy();
    let program = shell::cache().join("programs").join(format!("{name}-{arch}"));
    let mut command = Command::new(&rocm.hipcc);
    command.arg(format!("--offload-arch={arch}")).arg("-O3");
    compile_to(command, source, program, &[])
}

/// The same for a program that includes our headers for kernels.
///
/// # Errors
/// What the compiler says.
pub(crate) fn compile_with_headers(rocm: &Rocm, source: &Path) -> Result<PathBuf> {
    let mut command = Command::new(&rocm.hipcc);
    command.args(ARCHS.iter().map(|arch| format!("--offload-arch={arch}"))).args(["-O3", "-std=c++17", "-I"]);
    command.arg(shell::root().join("instrument/include"));
    compile_by(command, source, &[])
}

/// The same for a C program that uses the HSA interface.
///
/// # Errors
/// What the compiler says.
pub(crate) fn compile_hsa(rocm: &Rocm, source: &Path) -> Result<PathBuf> {
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2"]);
    if let Some(root) = &rocm.root {
        command.arg("-I").arg(root.join("include")).arg("-L").arg(root.join("lib"));
        command.arg(format!("-Wl,-rpath,{}", root.join("lib").display()));
    }
    compile_by(command, source, &["-lhsa-runtime64"])
}

/// The code object of the tests' own kernels, for the processor that is emulated by default.
///
/// # Errors
/// What the compiler says.
pub(crate) fn kernels(rocm: &Rocm) -> Result<PathBuf> {
    compile_by(device_compiler(rocm, "-O2"), &shell::root().join("tests/programs/kernels.hip"), &[])
}

/// Compiles a HIP source to a code object for gfx90a, with an option like `-O1`, into a folder.
///
/// # Errors
/// What the compiler says.
pub(crate) fn code_object(rocm: &Rocm, source: &Path, option: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let name = source.file_stem().context("a source has a name")?;
    let mut command = device_compiler(rocm, option);
    shell::output(command.arg(source).arg("-o").arg(folder.join(name).with_extension("hsaco"))).map(drop)
}

fn device_compiler(rocm: &Rocm, option: &str) -> Command {
    let mut command = Command::new(&rocm.hipcc);
    command.args(["--cuda-device-only", "--no-gpu-bundle-output", option, "-c", "--offload-arch=gfx90a"]);
    command
}

fn compile_by(command: Command, source: &Path, libraries: &[&str]) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    compile_to(command, source, shell::cache().join("programs").join(name), libraries)
}

fn compile_to(mut command: Command, source: &Path, program: PathBuf, libraries: &[&str]) -> Result<PathBuf> {
    fs::create_dir_all(program.parent().context("a program has a folder")?)?;
    if changed(&program) <= changed(source) {
        shell::output(command.arg(source).arg("-o").arg(&program).args(libraries))?;
    }
    Ok(program)
}

/// When a file was changed last; long ago if there is none.
pub fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|d| d.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
