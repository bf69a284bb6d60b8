//! OpenMP programs of this repository in C, compiled with LLVM's compiler: the machine's, or that of a place's ROCm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::{rocm, shell};

use super::emulated::ARCH;
use super::forms::{Programs, Test};
use super::place::InstalledSuite;

/// Has the machine's runtime of OpenMP's offloading.
const MACHINES: &str = "/usr/lib/llvm-19/lib";
/// The program of the end-to-end tests, whose regions run on all devices.
const REGIONS: &str = "tests/programs/openmp/regions.c";
/// Where the packages of LLVM 21 have the runtime, below the folder that they are unpacked into.
const RUNTIME: &str = "lib/llvm-21/lib";
/// What the compiler starts: each is a script, since the programs need the C library of their ROCm.
const PROGRAMS: &[&str] = &["clang", "clang-linker-wrapper", "clang-offload-packager", "ld.lld", "lld"];

/// Compiles every source. Each program is a test alone, and one with its regions replaced by those of another level.
pub(super) fn list(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    let sources = programs.all(place)?.into_iter().chain([shell::root().join(REGIONS)]);
    for source in sources.filter(|source| source.extension().is_some_and(|e| e == "c")) {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let program = place.folder.join(&name);
        // Without optimisation Debian's linker of device code crashes.
        compile(place, &source, "-O2", &program)?;
        let cache = place.folder.join("recompiled").join(&name);
        fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        compile(place, &source, "-O3", &cache.join(&name))?;
        for (name, cache) in [(name.clone(), None), (format!("{name} recompiled"), Some(cache))] {
            let (words, folder) = (place.words(&program), place.folder.clone());
            tests.push(Test { group: name.clone(), name, words, folder, cache });
        }
    }
    Ok(tests)
}

fn compile(place: &InstalledSuite, source: &Path, level: &str, program: &Path) -> Result<()> {
    let mut command = match &place.rocm {
        None => machines(),
        Some(rocm) => of_rocm(&place.folder, rocm)?,
    };
    command.args([level, "-fopenmp"]).arg(format!("--offload-arch={ARCH}"));
    shell::output(command.arg(source).arg("-o").arg(program)).map(drop)
}

fn machines() -> Command {
    let mut command = Command::new("clang-19");
    command.arg("--rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode");
    command.arg(format!("-Wl,-rpath,{MACHINES}"));
    command
}

/// The compiler of a ROCm, with the runtime that is in a place.
fn of_rocm(folder: &Path, rocm: &Path) -> Result<Command> {
    let llvm = rocm.join("lib/llvm-21");
    let bin = folder.join("compiler");
    fs::create_dir_all(&bin)?;
    for name in PROGRAMS {
        let start = format!(
            "exec '{}' --argv0 '{}' --library-path '{}' '{}' \"$@\"\n",
            rocm::loader(rocm).display(),
            bin.join(name).display(),
            rocm.join("lib").display(),
            llvm.join("bin").join(name).display()
        );
        rocm::script(&bin.join(name), &start)?;
    }
    let runtime = folder.join(RUNTIME);
    // The package that has the library's short name conflicts with those of the machine's compiler.
    let short = runtime.join("libomp.so");
    fs::remove_file(&short).ok();
    symlink("../../libomp.so.5", &short).with_context(|| format!("making {}", short.display()))?;
    // The package's own link is for a folder that is one deeper.
    let library = folder.join("lib/libomptarget.so.21.1");
    fs::remove_file(&library).ok();
    symlink("llvm-21/lib/libomptarget.so.21.1", &library)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(bin.join("clang"));
    command.env("PATH", format!("{}:{path}", bin.display())).args(["-no-canonical-prefixes", "-fuse-ld=lld"]);
    command.arg("-resource-dir").arg(llvm.join("lib/clang/21"));
    command.arg(format!("--rocm-device-lib-path={}", llvm.join("lib/clang/21/amdgcn/bitcode").display()));
    // The runtime's own header.
    command.arg("-idirafter").arg(runtime.join("clang/21/include"));
    command.arg("-L").arg(&runtime).arg("-L").arg(folder.join("lib"));
    command.arg("-Xoffload-linker").arg(format!("-L{}", runtime.join("amdgcn-amd-amdhsa").display()));
    // Its libraries need a newer C library than the linker finds.
    command.arg("-Wl,--allow-shlib-undefined");
    Ok(command)
}
