//! A system with the oldest C library that Debian offers: a root of its own, in which the binaries are run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::binaries::BINARIES;
use super::build::{self, Built};
use crate::{demo, setup, shell};

const SUITE: &str = "bullseye";
/// The version of its C library.
const GLIBC: &str = "2.31";
/// Beyond the packages that every system has: what unpacks archives.
const PACKAGES: &str = "zstd";
const MIRROR: &str = "http://deb.debian.org/debian";

/// The root of a freshly installed system.
pub(crate) struct Root {
    folder: PathBuf,
}

impl Root {
    /// True for a user who can run programs in another root; says what is not run for others.
    pub(crate) fn is_possible() -> bool {
        // SAFETY: no preconditions.
        let possible = unsafe { libc::geteuid() } == 0;
        if !possible {
            println!("{SUITE}: not run: only root can run programs in another root");
        }
        possible
    }

    /// A copy of the system for one test, without what another test has left.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn fresh(name: &str) -> Result<Root> {
        let original = shell::cache().join(format!("root-{SUITE}"));
        if !original.is_dir() {
            setup::roots()?;
            let unfinished = original.with_extension("unfinished");
            fs::remove_dir_all(&unfinished).ok();
            let mut command = Command::new("mmdebstrap");
            command.args(["--quiet", "--variant=essential", &format!("--include={PACKAGES}"), SUITE]);
            shell::output(command.arg(&unfinished).arg(MIRROR))
                .with_context(|| format!("installing Debian's {SUITE} into {}", unfinished.display()))?;
            fs::rename(&unfinished, &original)?;
        }
        let folder = super::folder().join("roots").join(name);
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(folder.parent().context("a root has a parent")?)?;
        shell::output(Command::new("cp").args(["--archive", "--reflink=auto"]).args([&original, &folder]))?;
        Ok(Root { folder })
    }

    /// Where a path of the system is.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Copies a file into a folder of the system.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub(crate) fn put(&self, file: &Path, folder: &str) -> Result<()> {
        let folder = self.outside(folder);
        fs::create_dir_all(&folder)?;
        let copy = folder.join(file.file_name().context("a file has a name")?);
        fs::copy(file, &copy).with_context(|| format!("copying {} to {}", file.display(), copy.display()))?;
        Ok(())
    }

    /// A command that runs in the system, which has its own processes.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "--root"]).arg(&self.folder);
        command.args(["/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]);
        command.args(["HOME=/root", "LC_ALL=C.UTF-8"]).arg(program);
        command
    }

    /// Runs a line of shell, and returns what it prints.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn sh(&self, line: &str) -> Result<String> {
        shell::output(self.command("sh").args(["-e", "-c", line]))
    }
}

/// Runs the binaries in the old system: the command line on a capture, the libraries in a program that uses them as a runtime does.
/// No package of a system this old has the HSA runtime.
///
/// # Errors
/// What fails there.
pub(crate) fn run(built: &Built) -> Result<()> {
    if !Root::is_possible() {
        return Ok(());
    }
    let root = Root::fresh("binaries")?;
    let found = root.sh("ldd --version | sed -n '1s/.* //p'")?;
    if found.trim() != GLIBC {
        bail!("{SUITE}: expected glibc {GLIBC}, found {}", found.trim());
    }
    for binary in BINARIES {
        root.put(&built.path(binary.file), "/opt/logdur")?;
    }
    root.put(&capture(built)?, "/root")?;
    print!("{}", root.sh("/opt/logdur/omniprobe --version")?);
    let verified = root.sh("/opt/logdur/omniprobe verify /root/dist.ldcap --backend emu")?;
    if !verified.lines().any(|line| line == "PASS") {
        bail!("expected a replay that passes, found\n{verified}");
    }
    root.put(&compiled(&shell::root().join("tests/programs/old_system.c"))?, "/root")?;
    let line = "LD_PRELOAD=/opt/logdur/libkfdemu.so KFDEMU_GPUS=gfx90a /root/old_system /opt/logdur/liblogdur.so";
    print!("{}", root.sh(line)?);
    Ok(())
}

/// Captures a dispatch with the binaries, on the machine's own ROCm.
///
/// # Errors
/// When the program cannot be compiled or captured.
pub(crate) fn capture(built: &Built) -> Result<PathBuf> {
    let rocm = setup::rocm()?;
    let program = demo::compile(&rocm, &shell::root().join("docs/example/pipeline.hip"))?;
    let path = super::folder().join("dist.ldcap");
    let mut command = Command::new(built.path("omniprobe"));
    command.args(["--emulate", "gfx90a", "--log-location", "/dev/null", "--force", "--capture"]).arg(&path);
    command.args(["--capture-kernels", "smooth"]);
    if let Some(root) = &rocm.root {
        command.arg("--rocm").arg(root);
    }
    shell::output(command.arg("--").arg(program))?;
    Ok(path)
}

/// Compiles a C program for old systems.
fn compiled(source: &Path) -> Result<PathBuf> {
    let program = super::folder().join(source.file_stem().context("a source has a name")?);
    shell::output(build::c_compiler()?.arg(source).arg("-o").arg(&program).arg("-ldl"))?;
    Ok(program)
}
