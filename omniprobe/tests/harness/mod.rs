//! What the tests of the command line run on: a folder with a source of kernels and what is made of it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A folder that goes when this does.
pub(crate) struct Harness {
    folder: TempDir,
}

impl Harness {
    /// With a source of OpenCL C.
    pub(crate) fn of(source: &str) -> Harness {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        fs::write(folder.path().join("source.cl"), source).expect("the source can be written");
        Harness { folder }
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A code object of the source, for a processor.
    pub(crate) fn compile(&self, output: &str, arch: &str, options: &[&str]) -> PathBuf {
        let path = self.path(output);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        let mut command = Command::new("clang-19");
        command.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib"]);
        tool(command.arg(format!("-mcpu={arch}")).args(options).arg(self.path("source.cl")).arg("-o").arg(&path));
        path
    }
}

/// Runs a tool that has to succeed; what it printed.
pub(crate) fn tool(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a subcommand of `omniprobe`.
pub(crate) fn omniprobe(subcommand: &str, arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omniprobe"));
    // Of this process alone: indexes of the user's are not touched.
    static INDEXES: OnceLock<TempDir> = OnceLock::new();
    let indexes = INDEXES.get_or_init(|| tempfile::tempdir().expect("a folder for temporary files"));
    command.env("XDG_CACHE_HOME", indexes.path());
    command.arg(subcommand).args(arguments.iter().map(|a| a.as_ref()));
    command.output().expect("omniprobe was built")
}
