//! Code objects of every version of the ABI and of many processors, compiled here, each once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

/// A compiler, a version of the ABI, and the targets that it knows and that version has.
const OPENCL: &[(u32, u32, &[&str])] = &[
    (15, 2, &["gfx803", "gfx900", "gfx900:xnack-", "gfx906"]),
    (15, 3, &["gfx803", "gfx900", "gfx906:sramecc+:xnack+", "gfx908", "gfx1030"]),
    (15, 4, &["gfx900", "gfx906:sramecc-", "gfx90a:sramecc+:xnack-", "gfx1010", "gfx1030"]),
    (15, 5, &["gfx803", "gfx90a", "gfx1100"]),
    (19, 4, &["gfx900", "gfx908", "gfx90a:xnack+", "gfx942", "gfx1030"]),
    (19, 5, &["gfx803", "gfx906", "gfx90a", "gfx942:sramecc-", "gfx1100", "gfx1200"]),
    (19, 6, &["gfx803", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx9-generic", "gfx10-1-generic", "gfx11-generic"]),
];

/// The processors that HIP programs are compiled for: those that the headers and libraries of every ROCm know.
pub(crate) const HIP_ARCHS: [&str; 2] = ["gfx906", "gfx90a"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace").to_owned()
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources").join(name)
}

/// Where what is made here is kept.
pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("code-object");
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// Runs a command that has to succeed; what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools print UTF-8")
}

/// Runs a command that makes a file, if the file was not made by this very command or is older than one of the sources.
pub(crate) fn make(name: &str, sources: &[PathBuf], command: impl FnOnce(&Path) -> Command) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let time = |p: &Path| p.metadata().and_then(|d| d.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let file = |end: &str| folder().join(format!("{name}{end}"));
    let (output, partial, made_by) = (file(""), file(".partial"), file(".command"));
    let mut command = command(&partial);
    let words = format!("{command:?}");
    let same = fs::read_to_string(&made_by).is_ok_and(|text| text == words);
    if !same || sources.iter().any(|s| time(s) >= time(&output)) {
        // Complete or not there: a compiler may be stopped.
        run(&mut command);
        fs::rename(&partial, &output).expect("what was made is there");
        fs::write(&made_by, words).expect("the folder can be written");
    }
    output
}

/// A file that LLVM makes for a GPU from one of the sources.
pub(crate) fn object(clang: u32, abi: u32, target: &str, file: &str, options: &[&str]) -> PathBuf {
    let name = format!("{file}-{clang}-v{abi}-{target}{}.co", options.concat().replace('/', "_"));
    make(&name, &[source(file)], |output| {
        let mut command = Command::new(format!("clang-{clang}"));
        command.args(["-target", "amdgcn-amd-amdhsa", "-nogpulib"]).arg(format!("-mcpu={target}"));
        command.arg(format!("-mcode-object-version={abi}")).args(options);
        command.arg(source(file)).arg("-o").arg(output);
        command
    })
}

/// The OpenCL kernels, in every build of the table, optimised and not.
pub(crate) fn opencl() -> Vec<PathBuf> {
    let mut objects = Vec::new();
    for &(clang, abi, targets) in OPENCL {
        for target in targets {
            for level in ["-O0", "-O3"] {
                let options = [level, "-cl-std=CL2.0", "-cl-kernel-arg-info"];
                objects.push(object(clang, abi, target, "arguments.cl", &options));
            }
        }
    }
    objects
}

/// A HIP program compiled by the machine's compiler.
pub(crate) fn hip(name: &str, source: &Path, options: &[&str]) -> PathBuf {
    make(name, &[source.to_owned()], |output| {
        let mut command = Command::new(std::env::var_os("LOGDUR_TEST_HIPCC").unwrap_or_else(|| "hipcc".into()));
        command.arg("-std=c++17").args(options).arg(source).arg("-o").arg(output);
        command
    })
}

/// HIP kernels as bare code objects: globals and function pointers, and a program with many kinds of kernels.
pub(crate) fn hip_objects() -> Vec<PathBuf> {
    let mut objects = Vec::new();
    for source in [source("globals.hip"), root().join("tests/programs/kernels.hip")] {
        for arch in HIP_ARCHS {
            for level in ["-O0", "-O3"] {
                let stem = source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
                let arch = format!("--offload-arch={arch}");
                let options = [&*arch, "--cuda-device-only", "--no-gpu-bundle-output", "-c", level];
                objects.push(hip(&format!("{stem}{arch}{level}.co"), &source, &options));
            }
        }
    }
    objects
}

/// Two files of assembly linked into one: each has its own note of metadata.
pub(crate) fn two_notes() -> PathBuf {
    let parts: Vec<PathBuf> =
        ["first", "second"].map(|name| object(19, 5, "gfx90a", &format!("{name}.s"), &["-c"])).into();
    make("two-notes.co", &parts, |output| {
        let mut command = Command::new("ld.lld-19");
        command.arg("-shared").args(&parts).arg("-o").arg(output);
        command
    })
}

/// All of them.
pub(crate) fn all() -> Vec<PathBuf> {
    let mut objects = opencl();
    objects.extend(hip_objects());
    objects.push(two_notes());
    objects
}
