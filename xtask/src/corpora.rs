//! Real code objects: development corpora that are fetched or compiled into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian::Suite;
use crate::shell::{self, root};
use crate::{demo, setup};

/// A development corpus: its name, what is in it, and what brings its files.
pub struct Corpus {
    /// On the command line.
    pub name: &'static str,
    /// For people.
    pub what: &'static str,
    /// Fetches or compiles what is not there, and names all files.
    pub files: fn() -> Result<Vec<PathBuf>>,
}

/// Every corpus.
pub const CORPORA: &[Corpus] = &[
    Corpus { name: "hip", what: "the HIP programs of tests/programs", files: hip },
    Corpus { name: "triton", what: "the Triton kernels of tests/programs/triton", files: triton },
    Corpus { name: "bitsandbytes", what: "the ROCm libraries of bitsandbytes 0.50.2 (PyPI)", files: bitsandbytes },
    Corpus { name: "rocblas", what: "rocBLAS (Debian trixie's librocblas0)", files: rocblas },
    Corpus { name: "hipsparselt", what: "hipSPARSELt (Debian experimental's libhipsparselt0)", files: hipsparselt },
    Corpus { name: "rocwmma", what: "rocWMMA's tests (Debian experimental's librocwmma-tests)", files: rocwmma },
];

/// The processors that our own kernels are compiled for here.
const ARCHS: [&str; 2] = ["gfx906", "gfx90a"];
const BITSANDBYTES: &str = "bitsandbytes==0.50.2";
/// A suite of Debian, and a package. That of the last two has kernels for gfx950.
const ROCBLAS: (&str, &str) = ("trixie", "librocblas0");
const HIPSPARSELT: (&str, &str) = ("experimental", "libhipsparselt0");
const ROCWMMA: (&str, &str) = ("experimental", "librocwmma-tests");

/// A file, or all files below a folder.
///
/// # Errors
/// When a file or folder cannot be read.
pub fn below(path: &Path) -> Result<Vec<PathBuf>> {
    let at = || path.display().to_string();
    if !fs::metadata(path).with_context(at)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(at)? {
        let entry = entry.with_context(at)?;
        // Links would count twice, or go round.
        if !entry.file_type()?.is_symlink() {
            files.extend(below(&entry.path())?);
        }
    }
    files.sort();
    Ok(files)
}

/// The folders of the corpora that have been fetched or compiled.
pub fn folders() -> Result<Vec<(String, PathBuf)>> {
    let all = shell::cache().join("corpora");
    let entries = fs::read_dir(&all).with_context(|| format!("{}: run `cargo xtask corpus hip`", all.display()))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        // A fetch that was stopped.
        if path.is_dir() && path.extension().is_none_or(|e| e != "partial") {
            folders.push((path.file_name().context("a folder has a name")?.to_string_lossy().into_owned(), path));
        }
    }
    folders.sort();
    Ok(folders)
}

fn folder(name: &str) -> PathBuf {
    shell::cache().join("corpora").join(name)
}

/// A folder that is filled once: complete, or not there.
fn filled(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<PathBuf>> {
    let folder = folder(name);
    if !folder.is_dir() {
        let partial = folder.with_extension("partial");
        fs::remove_dir_all(&partial).ok();
        fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;
        fill(&partial)?;
        fs::rename(&partial, &folder)?;
    }
    below(&folder)
}

/// A bundle of each program, optimised and not.
fn hip() -> Result<Vec<PathBuf>> {
    let rocm = setup::rocm()?;
    let mut sources = below(&root().join("tests/programs"))?;
    sources.retain(|s| s.extension().is_some_and(|e| e == "hip"));
    let archs = ARCHS.map(|arch| format!("--offload-arch={arch}"));
    let folder = folder("hip");
    fs::create_dir_all(&folder)?;
    let mut bundles = Vec::new();
    for source in &sources {
        for level in ["-O0", "-O3"] {
            let name = source.file_stem().context("a source has a name")?;
            let bundle = folder.join(format!("{}{level}", name.display()));
            if demo::changed(&bundle) <= demo::changed(source) {
                let mut command = Command::new(&rocm.hipcc);
                command.args(&archs).args(["--cuda-device-only", "-std=c++17", "-c", level]).arg(source);
                shell::output(command.arg("-o").arg(&bundle))?;
            }
            bundles.push(bundle);
        }
    }
    Ok(bundles)
}

fn triton() -> Result<Vec<PathBuf>> {
    let python = setup::triton()?;
    let mut files = Vec::new();
    for arch in ARCHS {
        // Compiled each time: a second or two where Triton's own cache has them.
        let folder = folder("triton").join(arch);
        let mut command = Command::new(&python);
        command.arg("-B").arg(root().join("tests/programs/triton/prepare.py")).arg(&folder).arg(arch);
        shell::output(command.env("TRITON_CACHE_DIR", shell::cache().join("triton-cache")))?;
        files.extend(below(&folder)?);
    }
    Ok(files)
}

fn bitsandbytes() -> Result<Vec<PathBuf>> {
    filled(&BITSANDBYTES.replace("==", "-"), |folder| {
        let python = setup::triton()?;
        let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"];
        shell::fetched(Command::new(&python).args(pip).arg(folder).arg(BITSANDBYTES))?;
        for wheel in below(folder)? {
            shell::output(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
            fs::remove_file(wheel)?;
        }
        Ok(())
    })
}

fn rocblas() -> Result<Vec<PathBuf>> {
    // Its kernels for other families are ten times as large.
    of_debian(ROCBLAS, &["*.so.*", "*gfx9*"])
}

fn hipsparselt() -> Result<Vec<PathBuf>> {
    of_debian(HIPSPARSELT, &["*.so.*", "*.co", "*.hsaco"])
}

fn rocwmma() -> Result<Vec<PathBuf>> {
    of_debian(ROCWMMA, &["*_test"])
}

/// What the patterns match of a package's files.
fn of_debian((suite, name): (&str, &str), patterns: &[&str]) -> Result<Vec<PathBuf>> {
    filled(&format!("{name}-{suite}"), |folder| {
        let lists = Suite::open(suite)?;
        let mut packages = lists.closure(name)?;
        packages.retain(|p| p.name == name);
        let bytes: u64 = packages.iter().map(|p| p.size).sum();
        println!("fetching {name} of {suite} ({} MB, once)", bytes / 1_000_000);
        lists.unpack_only(&packages, folder, patterns)
    })
}
