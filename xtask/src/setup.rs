//! What a machine needs beyond Rust: found, or installed when that is possible, or named in one line to copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A thing that has to be there, and the distribution's package that has it.
struct Need {
    /// Programs or files, one of which is enough.
    what: &'static [&'static str],
    package: &'static str,
}

/// To compile and run HIP programs.
const HIP: &[Need] = &[Need { what: &["hipcc"], package: "hipcc" }];

/// To run the tests: a C compiler and the runtime's headers for its programs, LLVM's tools as oracles.
const TESTS: &[Need] = &[
    Need { what: &["cc"], package: "gcc" },
    Need { what: &["c++"], package: "g++" },
    Need { what: &["/usr/include/hsa/hsa.h"], package: "libhsa-runtime-dev" },
    Need { what: &["/usr/include/rocprim/rocprim.hpp"], package: "librocprim-dev" },
    Need { what: &["llvm-objdump-19"], package: "llvm-19" },
    // Knows every processor of the tables.
    Need { what: &["llvm-mc-22"], package: "llvm-22" },
    // OpenCL C for the GPU by an old and a newer compiler, and on the processor as the reference.
    Need { what: &["clang-15"], package: "clang-15" },
    Need { what: &["clang-19"], package: "clang-19" },
    Need { what: &["clang-22"], package: "clang-22" },
    Need { what: &["ld.lld-19"], package: "lld-19" },
    Need { what: &["ld.lld-22"], package: "lld-22" },
    // OpenMP's offloading: its runtime, and its library for the GPU.
    Need { what: &["/usr/lib/llvm-19/lib/libomptarget-amdgpu-gfx90a.bc"], package: "libomp-19-dev" },
    // Makes bundles, compressed ones too.
    Need { what: &["clang-offload-bundler-19"], package: "clang-tools-19" },
    Need { what: &["/usr/lib/x86_64-linux-gnu/amdgcn/bitcode/opencl.bc"], package: "rocm-device-libs" },
    Need { what: &["/etc/OpenCL/vendors/pocl.icd"], package: "pocl-opencl-icd" },
    Need { what: &["/usr/include/CL/cl.h"], package: "opencl-c-headers" },
    Need { what: &["/usr/lib/x86_64-linux-gnu/libOpenCL.so"], package: "ocl-icd-opencl-dev" },
    // Reads what the emulated driver shows of its GPUs.
    Need { what: &["rocm-smi"], package: "rocm-smi" },
];

/// Opens reports.
const BROWSER: &[Need] = &[Need { what: &["chromium-headless-shell"], package: "chromium-headless-shell" }];

/// Triton, what its kernels are compared with, and Perfetto's decoder of timelines, at versions that are known to go together.
const TRITON: &[&str] = &["triton==3.9.0", "numpy==2.4.6", "perfetto==0.59.1"];

/// Readers of exported columns.
const COLUMNS: &[&str] = &["duckdb==2.0.0", "pandas==3.1.1", "polars==2.1.0", "pyarrow==26.0.1"];

/// AMD's pseudocode of instructions as text, in a package that a story runs as a second client of the driver, with what it is compared with;
/// and floats of eight bits and less.
const PSEUDOCODE: &[&str] = &["tinygrad==0.14.0", "numpy==2.4.6", "ml_dtypes==0.6.0"];

/// Makes roots of other systems.
const ROOTS: &[Need] = &[Need { what: &["mmdebstrap"], package: "mmdebstrap" }];

/// Configures builds.
const CMAKE: Need = Need { what: &["cmake"], package: "cmake" };

/// Find installed packages for builds, and pack archives.
const BUILDERS: &[Need] =
    &[CMAKE, Need { what: &["pkg-config"], package: "pkg-config" }, Need { what: &["zstd"], package: "zstd" }];

/// Load environment modules.
const MODULES: &[Need] =
    &[Need { what: &["modulecmd"], package: "environment-modules" }, Need { what: &["man"], package: "man-db" }];

/// The library, and the headers that compilers have of their own.
const LIBCLANG: &[&str] = &["libclang1-19", "libclang-common-19-dev"];

/// Where ROCm is, and its compiler.
pub struct Rocm {
    /// The folder to give to `--rocm`; `None` for the distribution's own.
    pub root: Option<PathBuf>,
    /// Its compiler.
    pub hipcc: PathBuf,
}

/// Finds a ROCm: `ROCM_PATH`, `/opt/rocm`, the distribution's; installs the latter if there is none.
///
/// # Errors
/// When there is none and it cannot be installed.
pub fn rocm() -> Result<Rocm> {
    let elsewhere = std::env::var_os("ROCM_PATH").map(PathBuf::from).into_iter().chain([PathBuf::from("/opt/rocm")]);
    for root in elsewhere.filter(|root| root != Path::new("/usr")) {
        let hipcc = root.join("bin/hipcc");
        if hipcc.is_file() {
            return Ok(Rocm { root: Some(root), hipcc });
        }
    }
    install(HIP)?;
    Ok(Rocm { root: None, hipcc: program("hipcc").context("hipcc is not in PATH after its package was installed")? })
}

/// Sees to it that the tests can run.
///
/// # Errors
/// When something is missing and cannot be installed.
pub fn for_tests() -> Result<Rocm> {
    let rocm = rocm()?;
    install(TESTS)?;
    triton()?;
    columns()?;
    Ok(rocm)
}

/// Sees to it that there is a browser without a window. Not every distribution has one.
///
/// # Errors
/// When there is none and it cannot be installed.
pub fn browser() -> Result<()> {
    install(BROWSER)
}

/// Sees to it that roots of other systems can be made.
///
/// # Errors
/// When their maker is missing and cannot be installed.
pub fn roots() -> Result<()> {
    install(ROOTS)
}

/// Sees to it that there is CMake.
///
/// # Errors
/// When it is missing and cannot be installed.
pub fn cmake() -> Result<()> {
    install(&[CMAKE])
}

/// Sees to it that installed packages can be found for builds.
///
/// # Errors
/// When a program is missing and cannot be installed.
pub fn builders() -> Result<()> {
    install(BUILDERS)
}

/// Sees to it that environment modules can be loaded.
///
/// # Errors
/// When a program is missing and cannot be installed.
pub fn modules() -> Result<()> {
    install(MODULES)
}

/// Makes a Python environment with Triton in the cache (some 300 MB to fetch, once) and returns its Python.
///
/// # Errors
/// When it cannot be made.
pub fn triton() -> Result<PathBuf> {
    python("triton", TRITON)
}

/// Makes a Python environment with readers of exported columns in the cache, and returns its Python.
///
/// # Errors
/// When it cannot be made.
pub fn columns() -> Result<PathBuf> {
    python("columns", COLUMNS)
}

/// Fetches AMD's pseudocode of instructions, once, and returns the folder with a folder for each family of processors. Beside the
/// environment's `bin` are the tests that the package's source has.
///
/// # Errors
/// When it cannot be fetched, or is not where it was.
pub fn pseudocode() -> Result<PathBuf> {
    let python = python("pseudocode", PSEUDOCODE)?;
    tests_of(PSEUDOCODE[0], "test", &python)?;
    let script = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let packages = shell::output(Command::new(python).args(["-c", script]))?;
    let folder = Path::new(packages.trim()).join("tinygrad/runtime/autogen/amd");
    if !folder.join("cdna/str_pcode.py").is_file() {
        bail!("{} has no pseudocode", folder.display());
    }
    Ok(folder)
}

/// Makes a Python environment with packages in the cache, once, and returns its Python.
///
/// # Errors
/// When it cannot be made.
pub fn python(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = shell::cache().join(name);
    let stamp = folder.join("packages");
    let python = folder.join("bin/python");
    let all = packages.join(" ");
    let _alone = shell::alone(&folder.with_extension("lock"), name)?;
    if fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == all) {
        return Ok(python);
    }
    println!("fetching {all}");
    environment(&folder, packages)?;
    fs::write(&stamp, all)?;
    Ok(python)
}

/// Fetches the folder of tests from a package's source into its environment, once.
fn tests_of(package: &str, folder: &str, python: &Path) -> Result<()> {
    let environment = python.ancestors().nth(2).context("an environment's Python is in its bin")?;
    let (tests, stamp) = (environment.join(folder), environment.join(format!("{folder}.of")));
    let _alone = shell::alone(&environment.with_extension("lock"), package)?;
    if tests.is_dir() && fs::read_to_string(&stamp).is_ok_and(|of| of == package) {
        return Ok(());
    }
    let work = environment.join("source");
    fs::remove_dir_all(&work).ok();
    fs::create_dir_all(&work)?;
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary",
        ":all:",
        "-d",
    ]);
    shell::fetched(pip.arg(&work).arg(package)).with_context(|| format!("downloading the source of {package}"))?;
    for archive in fs::read_dir(&work)? {
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(archive?.path()).arg("-C").arg(environment);
        shell::run(tar.args(["--strip-components=1", "--wildcards", &format!("*/{folder}/*")]))?;
    }
    if !tests.is_dir() {
        bail!("the source of {package} has no folder {folder}");
    }
    fs::remove_dir_all(&work)?;
    Ok(fs::write(&stamp, package)?)
}

/// Makes a Python environment in a folder, with packages of Python's index.
///
/// # Errors
/// When it cannot be made, or a package cannot be had.
pub fn environment(folder: &Path, packages: &[&str]) -> Result<()> {
    let environment = || shell::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
    if environment().is_err() {
        install_packages(&["python3-venv"])?;
        environment().context("making a Python environment")?;
    }
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    shell::fetched(&mut pip).with_context(|| format!("installing {}", packages.join(" ")))?;
    Ok(())
}

/// The folder of a libclang, for bindgen.
///
/// # Errors
/// When there is none and it cannot be installed.
#[cfg_attr(feature = "bindings", allow(dead_code, reason = "the command that has libclang is started with its path"))]
pub fn libclang() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return Ok(path.into());
    }
    if let Some(folder) = newest_libclang() {
        return Ok(folder);
    }
    install_packages(LIBCLANG)?;
    newest_libclang().context("no libclang in /usr/lib/llvm-* after its package was installed")
}

fn newest_libclang() -> Option<PathBuf> {
    let names = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<String>>()
    };
    let is_complete = |folder: &PathBuf| {
        // The library of C++ is another one.
        let is_it = |f: &String| f.starts_with("libclang") && f.contains(".so") && !f.starts_with("libclang-cpp");
        let own = folder.join("clang");
        names(folder.clone()).iter().any(is_it)
            && names(own.clone()).iter().any(|version| own.join(version).join("include/stddef.h").is_file())
    };
    let versions = names(PathBuf::from("/usr/lib"));
    let versions = versions.iter().filter_map(|name| name.strip_prefix("llvm-")?.parse::<u32>().ok());
    let folders = versions.map(|version| (version, PathBuf::from(format!("/usr/lib/llvm-{version}/lib"))));
    folders.filter(|(_, folder)| is_complete(folder)).max().map(|(_, folder)| folder)
}

fn install(needs: &[Need]) -> Result<()> {
    let there = |what: &&str| if what.starts_with('/') { Path::new(what).exists() } else { program(what).is_some() };
    let missing: Vec<&str> = needs.iter().filter(|n| !n.what.iter().any(there)).map(|n| n.package).collect();
    if missing.is_empty() { Ok(()) } else { install_packages(&missing) }
}

fn install_packages(packages: &[&str]) -> Result<()> {
    // SAFETY: no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || program("apt-get").is_none() {
        bail!("not there, please install: sudo apt-get install {}", packages.join(" "));
    }
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o", "Dpkg::Use-Pty=0"]).args(arguments);
        command
    };
    shell::fetched(&mut apt(&["update"]))?;
    shell::fetched(apt(&["install", "-y", "--no-install-recommends"]).args(packages))?;
    Ok(())
}

/// A program in the folders of `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file())
}
