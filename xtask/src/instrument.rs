//! `cargo xtask instrument-pass [--llvm VERSION|all] [--tools]`: the plugin of a compiler that instruments kernels, `instrument/pass/`,
//! and programs of LLVM that load it.
//!
//! LLVM's headers are Debian's. The device functions are bitcode in the plugin, one for each processor.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use amdgpu_processor::Messages;
use anyhow::{Context, Result, bail};

use crate::debian::Suite;
use crate::{rocm, setup, shell};

/// A version of LLVM.
pub struct Llvm {
    number: u32,
    /// Of Debian, with its headers.
    suite: &'static str,
    /// What compiles the device functions. LLVM reads the bitcode of older versions.
    clang: Clang,
}

enum Clang {
    /// A program of the machine.
    Machine(&'static str),
    /// That of a ROCm: its version.
    Rocm(&'static str),
}

const VERSIONS: &[Llvm] = &[
    Llvm { number: 15, suite: "bookworm", clang: Clang::Machine("clang-15") },
    Llvm { number: 17, suite: "trixie", clang: Clang::Rocm("6.1.2") },
    Llvm { number: 19, suite: "bookworm", clang: Clang::Machine("clang-19") },
    Llvm { number: 21, suite: "sid", clang: Clang::Machine("clang-19") },
    // The first one whose plugin is for gfx950, too: the compiler of the device functions has to know it, and be no newer.
    Llvm { number: 22, suite: "sid", clang: Clang::Machine("clang-22") },
    Llvm { number: 23, suite: "sid", clang: Clang::Machine("clang-22") },
];

/// What clang says of a processor that it does not know, before and from version 20 on.
const UNKNOWN: [&str; 2] = ["invalid target ID", "unsupported HIP gpu architecture"];

/// Programs of LLVM that tests and other commands start.
const TOOLS: [&str; 4] = ["opt", "llc", "lld", "llvm-mc"];
const STRICT: &[&str] = &["-std=c++17", "-Wall", "-Wextra", "-Werror"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--llvm", text, "--tools"] => {
            let llvm = version(text)?;
            println!("{}\n{}", build(llvm)?.display(), tools(llvm)?.display());
        }
        [] => println!("{}", build(of_compiler(&setup::rocm()?.hipcc)?)?.display()),
        ["--llvm", "all"] => {
            for llvm in VERSIONS {
                println!("{}", build(llvm)?.display());
            }
        }
        ["--llvm", text] => println!("{}", build(version(text)?)?.display()),
        _ => bail!("instrument-pass takes --llvm VERSION [--tools], or --llvm all, found {args:?}"),
    }
    Ok(())
}

/// Builds the plugins of all versions.
///
/// # Errors
/// As [`build`].
pub(crate) fn all() -> Result<()> {
    VERSIONS.iter().try_for_each(|llvm| build(llvm).map(drop))
}

/// The version of LLVM that a compiler of HIP is.
///
/// # Errors
/// When it cannot be started, or is of a version that is not supported.
pub(crate) fn of_compiler(hipcc: &Path) -> Result<&'static Llvm> {
    let text = shell::output(Command::new(hipcc).arg("--version"))?;
    let number = text.split("clang version ").nth(1).and_then(|rest| rest.split('.').next());
    version(number.with_context(|| format!("{} names no version of clang: {text}", hipcc.display()))?)
}

/// A version of LLVM, by its number.
///
/// # Errors
/// When it is not supported.
pub fn version(text: &str) -> Result<&'static Llvm> {
    let known = || VERSIONS.iter().map(|llvm| llvm.number.to_string()).collect::<Vec<_>>().join(", ");
    let found = VERSIONS.iter().find(|llvm| llvm.number.to_string() == text);
    found.with_context(|| format!("LLVM {text:?}: expected one of {}", known()))
}

/// Builds a plugin if it is older than its sources, and returns where it is.
///
/// # Errors
/// When Debian's packages cannot be had, or a compiler refuses.
pub(crate) fn build(llvm: &Llvm) -> Result<PathBuf> {
    let number = llvm.number;
    let plugin = shell::built(&format!("liblogdur-instrument-{number}.so"));
    let folder = shell::root().join("instrument/pass");
    let files = ["device.hip", "pass.cpp", "settings.cpp", "settings.h"].map(|file| folder.join(file));
    // This file chooses the compiler of the device functions.
    let others = ["instrument/include/logdur_device.h", "xtask/src/instrument.rs"].map(|file| shell::root().join(file));
    let time = |path: &Path| path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if files.iter().chain(&others).all(|file| time(file) < time(&plugin)) {
        return Ok(plugin);
    }
    let headers = headers(llvm)?;
    let work = shell::root().join("target/instrument").join(number.to_string());
    fs::create_dir_all(&work)?;
    fs::write(work.join("device_bitcode.h"), bitcode(llvm, &work)?)?;
    // LLVM is built without them; its functions are the compiler's that loads the plugin.
    let mut command = Command::new("c++");
    command.args(STRICT).args(["-fPIC", "-shared", "-O1", "-fno-rtti", "-fno-exceptions", "-I"]).arg(&work);
    command.arg("-isystem").arg(headers.join(format!("llvm-{number}")));
    command.arg("-isystem").arg(headers.join(format!("llvm-c-{number}")));
    // Never a file that is half written.
    let unfinished = plugin.with_extension("unfinished");
    command.args([folder.join("pass.cpp"), folder.join("settings.cpp")]).arg("-o").arg(&unfinished);
    shell::output(&mut command)?;
    fs::rename(&unfinished, &plugin)?;
    Ok(plugin)
}

/// Builds what the tests of Triton's kernels need: the newest version, and its programs.
///
/// # Errors
/// As [`build`].
pub(crate) fn for_triton() -> Result<()> {
    let newest = VERSIONS.iter().max_by_key(|llvm| llvm.number).context("no version of LLVM")?;
    build(newest)?;
    tools(newest).map(drop)
}

/// `opt`, `llc`, `lld` and `llvm-mc` of a version, unpacked into the cache with all libraries that they need: the folder.
///
/// # Errors
/// When Debian's packages cannot be had.
pub fn tools(llvm: &Llvm) -> Result<PathBuf> {
    let Llvm { number, suite, .. } = *llvm;
    let folder = shell::cache().join("llvm").join(format!("{number}-tools"));
    if TOOLS.iter().all(|name| folder.join(name).exists()) {
        return Ok(folder);
    }
    let lists = Suite::open(suite)?;
    let mut packages = lists.closure(&format!("llvm-{number}"))?;
    for package in lists.closure(&format!("lld-{number}"))? {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    let unfinished = folder.with_extension("unfinished");
    fs::remove_dir_all(&unfinished).ok();
    fs::create_dir_all(unfinished.join("lib"))?;
    // As a ROCm's: everything comes to lie in `lib`.
    symlink(".", unfinished.join("usr"))?;
    symlink(".", unfinished.join("lib/x86_64-linux-gnu"))?;
    lists.unpack(&packages, &unfinished)?;
    for name in TOOLS {
        let program = format!("\"$here/lib/llvm-{number}/bin/{name}\" \"$@\"");
        let start = format!("exec \"$here/lib/ld-linux-x86-64.so.2\" --library-path \"$here/lib\" {program}");
        rocm::script(&unfinished.join(name), &format!("here=$(dirname \"$(readlink -f \"$0\")\")\n{start}\n"))?;
    }
    // One of an earlier list of tools.
    fs::remove_dir_all(&folder).ok();
    fs::rename(&unfinished, &folder)?;
    Ok(folder)
}

/// LLVM's headers, unpacked into the cache.
fn headers(llvm: &Llvm) -> Result<PathBuf> {
    let Llvm { number, suite, .. } = *llvm;
    let folder = shell::cache().join("llvm").join(number.to_string());
    if !folder.exists() {
        let package = format!("llvm-{number}-dev");
        let lists = Suite::open(suite)?;
        let packages: Vec<_> = lists.closure(&package)?.into_iter().filter(|p| p.name == package).collect();
        let unfinished = folder.with_extension("unfinished");
        fs::remove_dir_all(&unfinished).ok();
        lists.unpack_only(&packages, &unfinished, &["./usr/include/*"])?;
        fs::rename(&unfinished, &folder)?;
    }
    Ok(folder.join("usr/include"))
}

/// The processors that the header supports, by name; a compiler may lack some.
fn supported() -> impl Iterator<Item = &'static str> {
    amdgpu_processor::targets().filter(|target| target.messages != Messages::No).map(|target| target.name)
}

/// The device functions of each processor that the compiler knows, as a header of C++.
fn bitcode(llvm: &Llvm, work: &Path) -> Result<String> {
    let clang = match llvm.clang {
        Clang::Machine(program) => PathBuf::from(program),
        Clang::Rocm(version) => match rocm::named(version)?.first() {
            Some(generation) => rocm::unpack(generation)?.folder.join("bin/clang++"),
            None => bail!("no ROCm {version}"),
        },
    };
    let mut text = String::from("#pragma once\n#include <cstddef>\n");
    let (mut rows, mut processors) = (String::new(), Vec::new());
    for processor in supported() {
        let file = work.join(format!("{processor}.bc"));
        let mut command = Command::new(&clang);
        command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "-emit-llvm", "-O3", "-c"]);
        command.args(STRICT).arg(format!("--offload-arch={processor}"));
        command
            .arg("-I")
            .arg(shell::root().join("instrument/include"))
            .arg(shell::root().join("instrument/pass/device.hip"));
        match shell::output(command.arg("-o").arg(&file)) {
            Err(error) if UNKNOWN.iter().any(|said| error.to_string().contains(said)) => continue,
            result => result?,
        };
        let bytes = fs::read(&file)?;
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        writeln!(text, "alignas(4) inline const unsigned char {processor}[] = {{{}}};", list.join(","))?;
        writeln!(rows, "    {{\"{processor}\", {processor}, sizeof({processor})}},")?;
        processors.push(processor);
    }
    if processors.is_empty() {
        bail!("{} knows none of {}", clang.display(), supported().collect::<Vec<_>>().join(", "));
    }
    writeln!(text, "struct Bitcode {{\n    const char* cpu;\n    const unsigned char* start;\n    size_t size;\n}};")?;
    writeln!(text, "inline const Bitcode BITCODE[] = {{\n{rows}}};")?;
    writeln!(text, "inline const char CPUS[] = \"{}\";", processors.join(", "))?;
    Ok(text)
}
