//! `cargo xtask rocm VERSION|all`: the ROCms that the project is tested with, from Debian's packages, each unpacked into
//! a folder of its own that looks like an installed one. `docs/rocm.md` says what is in it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::debian::{Package, Suite};
use crate::shell;

/// A ROCm that the project is tested with.
pub struct Generation {
    /// Of the HSA runtime, when this line was written.
    pub version: &'static str,
    /// Debian's name of it.
    pub suite: &'static str,
    /// True when the suite's packages still change: another version is no error, and neither is a day without one.
    pub moving: bool,
    /// What `cargo xtask ci` runs on it.
    pub part: StoryChoice,
}

/// A part of the end-to-end tests.
pub enum StoryChoice {
    /// None: it is the ROCm of the machine that this is developed on, where all tests are run.
    Machine,
    /// All but those of the tools.
    OfTheRocm,
    /// Those with one of these in their names.
    Names(&'static [&'static str]),
}

/// Every ROCm, the oldest first.
pub const GENERATIONS: &[Generation] = &[
    Generation { version: "5.2.3", suite: "bookworm", moving: false, part: StoryChoice::Machine },
    Generation { version: "6.1.2", suite: "trixie", moving: false, part: StoryChoice::OfTheRocm },
    Generation { version: "6.4.3", suite: "sid", moving: true, part: StoryChoice::Names(OF_THE_RUNTIME) },
    Generation { version: "7.2.4", suite: "experimental", moving: true, part: StoryChoice::Names(OF_THE_RUNTIME) },
];

/// Tests in which it matters what the runtime does: its tables, queues, signals, errors, start and end, and what a fault leaves; programs
/// of captures, which are compiled for each HIP; checks of code that each compiler writes otherwise; and those of ROCTx and of the
/// processor of MI350, which only these suites have.
const OF_THE_RUNTIME: &[&str] = &[
    "runtime::queues::",
    "runtime::app_signals::",
    "runtime::newest::",
    "log::markers::",
    "emulator::mi350::",
    "capture::reproduced::",
    "analyze::ordered::",
    "after_a_gpu_fault",
];

/// An unpacked ROCm.
pub struct Unpacked {
    /// Where it is.
    pub folder: PathBuf,
    /// Of the HSA runtime.
    pub version: String,
}

/// Its packages, one a line, and the sign that it is complete.
const LIST: &str = "packages";
/// The first line of that list. The number grows with every change of what this file makes of packages.
const LAYOUT: &str = "# layout 3\n";
/// The package whose version names a ROCm.
const RUNTIME: &str = "libhsa-runtime64-1";
/// Brings the libraries and the headers of HIP and the HSA runtime, and what they depend on.
const LIBRARIES: &str = "libamdhip64-dev";
/// Headers of kernels that others wrote, to be compiled and run; needs nothing that is not there anyway.
const KERNELS: &str = "librocprim-dev";
/// Ranges and marks of applications.
const MARKERS: &str = "libroctx64-4";
/// Names the compiler of the suite's HIP.
const COMPILER: &str = "hipcc";
/// The C library and what is built with it: taken only from a suite whose C library is newer than the machine's, since
/// programs that are compiled here must find one that is new enough.
pub const BASE: &[&str] = &["libc6", "libgcc-s1", "libstdc++6"];
const LOADER: &str = "ld-linux-x86-64.so.2";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let [text] = args else { bail!("expected one version, or all: {}", known()) };
    for generation in named(text)? {
        let Unpacked { folder, version } = unpack(generation)?;
        println!("{version} {}", folder.display());
    }
    Ok(())
}

fn known() -> String {
    GENERATIONS.iter().map(|g| format!("{} ({})", g.version, g.suite)).collect::<Vec<_>>().join(", ")
}

/// The generations that a word on the command line means: a version, a suite, or all.
///
/// # Errors
/// When it means none.
pub fn named(text: &str) -> Result<Vec<&'static Generation>> {
    let found: Vec<_> = GENERATIONS.iter().filter(|g| text == "all" || text == g.version || text == g.suite).collect();
    if found.is_empty() {
        bail!("no ROCm {text:?}, expected all or one of {}", known());
    }
    Ok(found)
}

fn parent() -> PathBuf {
    shell::cache().join("rocm")
}

/// Sees to it that a ROCm is unpacked, and says on stderr what was done.
///
/// # Errors
/// When the packages cannot be fetched, are not those that are expected, or lack something that they need.
pub fn unpack(generation: &Generation) -> Result<Unpacked> {
    let Generation { version, suite, moving, .. } = *generation;
    let _alone = shell::alone(&parent().join(format!("{suite}.lock")), &format!("ROCm {version} ({suite})"))?;
    let folder = parent().join(version);
    let list = |folder: &Path| fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    let known = list(&folder);
    if !moving && known.starts_with(LAYOUT) {
        let names = known.lines().filter_map(|line| line.split(' ').next());
        write_scripts(&folder, clang(names).context("the list of packages has no clang")?)?;
        eprintln!("ROCm {version} ({suite}): is there");
        return Ok(Unpacked { folder, version: version.to_owned() });
    }
    let start = Instant::now();
    let lists = Suite::open(suite)?;
    let contents = Contents::of(&lists)?;
    let found = contents.version.clone();
    if found != version && !moving {
        bail!("{suite} has ROCm {found}, expected {version}");
    }
    let changed = if found == version { String::new() } else { format!(", no longer {version}") };
    let folder = parent().join(&found);
    if list(&folder) == contents.list() {
        write_scripts(&folder, &contents.clang)?;
        eprintln!("ROCm {found} ({suite}{changed}): is there");
        return Ok(Unpacked { folder, version: found });
    }
    // Whoever is stopped in the middle leaves nothing that looks complete.
    let unfinished = parent().join(format!("{found}.unfinished"));
    fs::remove_dir_all(&unfinished).ok();
    contents.unpack(&lists, &unfinished).with_context(|| format!("ROCm {found} from {suite}"))?;
    fs::remove_dir_all(&folder).ok();
    fs::rename(&unfinished, &folder)?;
    eprintln!(
        "ROCm {found} ({suite}{changed}): {} packages, {} MB, {:.0} s",
        contents.packages.len(),
        contents.packages.iter().map(|p| p.size).sum::<u64>() / 1_000_000,
        start.elapsed().as_secs_f64()
    );
    Ok(Unpacked { folder, version: found })
}

/// What a ROCm is made of.
struct Contents {
    version: String,
    packages: Vec<Package>,
    /// The version of clang that the suite's HIP is compiled with.
    clang: String,
}

impl Contents {
    /// Chooses among a suite's packages.
    fn of(suite: &Suite) -> Result<Contents> {
        let mut packages = suite.closure(LIBRARIES)?;
        packages.extend(suite.closure(KERNELS)?.into_iter().filter(|p| p.name == KERNELS));
        let libc = packages.iter().find(|p| p.name == BASE[0]).context("nothing needs a C library")?;
        if release(&libc.version) <= machines_libc() {
            packages.retain(|p| !BASE.contains(&p.name.as_str()));
        }
        // Of the compiler what compiles HIP: its other dependencies are languages and libraries that the machine has.
        let compiler = suite.closure(COMPILER)?;
        let clang = clang(compiler.iter().map(|p| p.name.as_str())).context("hipcc needs no clang")?.to_owned();
        let parts = [
            format!("clang-{clang}"),
            format!("libclang-cpp{clang}"),
            format!("libclang-cpp{clang}t64"),
            format!("libclang-common-{clang}-dev"),
            // Has the bundler of code objects.
            format!("clang-tools-{clang}"),
            format!("lld-{clang}"),
            format!("rocm-device-libs-{clang}"),
            "rocm-device-libs".to_owned(),
            "rocminfo".to_owned(),
        ];
        for package in compiler {
            if parts.contains(&package.name) && !packages.contains(&package) {
                packages.push(package);
            }
        }
        // Older suites have no such package.
        packages.extend(suite.closure(MARKERS).unwrap_or_default().into_iter().filter(|p| p.name == MARKERS));
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        let runtime = packages.iter().find(|p| p.name == RUNTIME).with_context(|| format!("no {RUNTIME}"))?;
        let version = runtime.version.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
        Ok(Contents { version: version.to_owned(), packages, clang })
    }

    fn list(&self) -> String {
        let lines = self.packages.iter().map(|p| format!("{} {}\n", p.name, p.version));
        std::iter::once(LAYOUT.to_owned()).chain(lines).collect()
    }

    fn unpack(&self, suite: &Suite, folder: &Path) -> Result<()> {
        // Everything comes to lie in `lib`, `include`, `bin`, as below `/opt/rocm`. That `lib` is a folder and no link
        // matters: LLVM's libraries look for others in `$ORIGIN/../lib`.
        fs::create_dir_all(folder.join("lib"))?;
        fs::create_dir_all(folder.join("bin"))?;
        symlink(".", folder.join("usr"))?;
        symlink(".", folder.join("lib/x86_64-linux-gnu"))?;
        suite.unpack(&self.packages, folder)?;
        write_scripts(folder, &self.clang)?;
        self.check(folder)?;
        fs::write(folder.join(LIST), self.list())?;
        Ok(())
    }

    /// Every library that is needed is there, and none is the machine's unless it is of the base.
    fn check(&self, folder: &Path) -> Result<()> {
        let libraries =
            ["libamdhip64.so", "libhsa-runtime64.so", "libamd_comgr.so"].map(|l| folder.join("lib").join(l));
        let programs = ["clang", "lld", "clang-offload-bundler"];
        let programs = programs.map(|p| folder.join(format!("lib/llvm-{}/bin/{p}", self.clang)));
        let lib = folder.join("lib").canonicalize()?;
        for file in libraries.iter().chain(&programs) {
            let mut command = if owns_libc(folder) {
                let mut loader = Command::new(folder.join("lib").join(LOADER));
                loader.arg("--library-path").arg(&lib).arg("--list");
                loader
            } else {
                let mut ldd = Command::new("ldd");
                ldd.env("LD_LIBRARY_PATH", &lib);
                ldd
            };
            let text = shell::output(command.arg(file))?;
            let missing = text.lines().find(|l| l.contains("not found"));
            let foreign = text.lines().find(|line| {
                let path = line.split(" => ").nth(1).and_then(|rest| rest.split(" (").next());
                path.is_some_and(|p| Path::new(p).canonicalize().is_ok_and(|p| !p.starts_with(&lib)))
            });
            if let Some(line) = missing.or(foreign.filter(|_| owns_libc(folder))) {
                bail!("{} needs a library that none of the packages has: {}", file.display(), line.trim());
            }
        }
        Ok(())
    }
}

/// The version of clang among packages.
fn clang<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .find_map(|name| name.strip_prefix("clang-").filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())))
}

/// Programs of the suite need its C library, so what starts them is a script.
fn write_scripts(folder: &Path, clang: &str) -> Result<()> {
    let llvm = format!("lib/llvm-{clang}");
    let start = if owns_libc(folder) {
        format!("exec \"$here/lib/{LOADER}\" --argv0 \"$name\" --library-path \"$here/lib\" \"$program\" \"$@\"")
    } else {
        "LD_LIBRARY_PATH=\"$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\" exec \"$program\" \"$@\"".to_owned()
    };
    for name in ["clang++", "lld", "ld.lld", "clang-offload-bundler"] {
        let text = format!("{HERE_OF_BIN}name=$here/bin/{name} program=$here/{llvm}/bin/{name}\n{start}\n");
        script(&folder.join("bin").join(name), &text)?;
    }
    let run = format!(
        "# Runs a program with the ROCm of this folder: run PROGRAM [ARGUMENT ...]\n{HERE_OF_ROOT}name=$1\n\
         program=$(command -v -- \"$1\") || {{ echo \"run: no program $1\" >&2; exit 127; }}\nshift\n{start}\n"
    );
    script(&folder.join("run"), &run)?;
    let headers = only(folder, &format!("{llvm}/lib/clang"), "include/stdint.h")?;
    let bitcode = [headers.join("amdgcn/bitcode"), PathBuf::from("lib/amdgcn/bitcode")];
    let bitcode = bitcode.iter().find(|p| folder.join(p).join("ockl.bc").is_file());
    let bitcode = bitcode.context("the device libraries are in none of the places that are known")?.display();
    let headers = headers.display();
    // `--dynamic-linker` and the path make the program one of this ROCm's without any variable. The path has to be
    // the old kind, which libraries inherit.
    let loader = if owns_libc(folder) { format!("-Wl,--dynamic-linker=$here/lib/{LOADER} ") } else { String::new() };
    let hipcc = format!(
        "# Compiles and links HIP programs for the ROCm of this folder.\n{HERE_OF_BIN}{LANGUAGES}\
         exec \"$here/bin/clang++\" --start-no-unused-arguments -no-canonical-prefixes -D__HIP_PLATFORM_AMD__=1 \
         -resource-dir \"$here/{headers}\" --rocm-path=\"$here\" \
         --rocm-device-lib-path=\"$here/{bitcode}\" -isystem \"$here/{headers}\" -isystem \"$here/include\" \
         --hip-link \
         {loader}-Wl,--disable-new-dtags,-rpath,\"$here/lib\",--allow-shlib-undefined \
         --end-no-unused-arguments \"$@\" --start-no-unused-arguments -L\"$here/lib\" -lamdhip64\n"
    );
    script(&folder.join("bin/hipcc"), &hipcc)
}

const HERE_OF_BIN: &str = "here=$(dirname \"$(dirname \"$(readlink -f \"$0\")\")\")\n";
const HERE_OF_ROOT: &str = "here=$(dirname \"$(readlink -f \"$0\")\")\n";

/// Says of sources of C and C++ what language they are, unless that is said: C++ is HIP, as for the `hipcc` of ROCm, which has the same
/// endings of names. Other files, and what follows an option as its value, stay as they are.
const LANGUAGES: &str = r#"said=
for word; do
    case $word in -x*) said=yes ;; esac
done
[ "${HIP_COMPILE_CXX_AS_HIP:-1}" = 0 ] && said=yes
left=$# before=
while [ "$left" -gt 0 ]; do
    word=$1 language=
    shift
    left=$((left - 1))
    case $said$before in
        yes*|-o|-D|-I|-U|-include|-isystem|-MF|-MT|-MQ|-Xclang|-Xlinker|-mllvm) ;;
        *) case $word in
            -*) ;;
            *.c) language=c ;;
            *.cpp|*.cxx|*.cc|*.C|*.cu|*.cuh) language=hip ;;
        esac ;;
    esac
    if [ "$language" ]; then
        set -- "$@" -x "$language" "$word" -x none
    else
        set -- "$@" "$word"
    fi
    before=$word
done
"#;

/// Writes a program for the shell, unless it is there.
///
/// # Errors
/// When it cannot be written.
pub fn script(path: &Path, text: &str) -> Result<()> {
    let text = format!("#!/bin/sh\n{text}");
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    // A package's own file of that name may be a link to elsewhere.
    fs::remove_file(path).ok();
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// True when a ROCm brings its own C library.
pub fn owns_libc(folder: &Path) -> bool {
    loader(folder).exists()
}

/// Where the dynamic loader of a ROCm's own C library is, if it brings one.
pub fn loader(folder: &Path) -> PathBuf {
    folder.join("lib").join(LOADER)
}

/// The folder in `parent` that has a file, relative to `root`.
fn only(root: &Path, parent: &str, file: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(root.join(parent)).with_context(|| format!("{parent} in {}", root.display()))? {
        let name = entry?.file_name();
        if root.join(parent).join(&name).join(file).is_file() {
            return Ok(Path::new(parent).join(name));
        }
    }
    bail!("no {file} below {parent} in {}", root.display())
}

/// The first two numbers of a version.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn machines_libc() -> (u32, u32) {
    // SAFETY: no preconditions.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: the C library's version is a constant C string.
    let version = unsafe { std::ffi::CStr::from_ptr(version) };
    release(&version.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_one_generation_or_all() {
        assert_eq!(named("all").map(|g| g.len()).ok(), Some(GENERATIONS.len()));
        assert_eq!(named("trixie").map(|g| g[0].version).ok(), Some("6.1.2"));
        assert!(named("6.1").is_err());
    }

    #[test]
    fn hipcc_takes_cpp_as_hip_unless_a_language_is_said_and_leaves_objects_alone() {
        let folder = std::env::temp_dir().join(format!("logdur-hipcc-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        let text = format!("{HERE_OF_BIN}{LANGUAGES}exec \"$here/bin/shows\" -first \"$@\" -last\n");
        script(&folder.join("bin/hipcc"), &text).unwrap();
        script(&folder.join("bin/shows"), "for word; do echo \"$word\"; done\n").unwrap();
        let run = |words: &str| {
            let mut hipcc = Command::new(folder.join("bin/hipcc"));
            shell::output(hipcc.args(words.split('|')).env_remove("HIP_COMPILE_CXX_AS_HIP")).unwrap().replace('\n', "|")
        };
        for (given, made) in [
            ("-O3|a b.cpp|-o|x", "-O3|-x|hip|a b.cpp|-x|none|-o|x"),
            ("a.cpp|b.o|c.cc|d.hip|-lm", "-x|hip|a.cpp|-x|none|b.o|-x|hip|c.cc|-x|none|d.hip|-lm"),
            ("a.c|b.cu|libx.so", "-x|c|a.c|-x|none|-x|hip|b.cu|-x|none|libx.so"),
            ("-x|c++|a.cpp", "-x|c++|a.cpp"),
            ("-xhip|a.cpp|b.o", "-xhip|a.cpp|b.o"),
            ("-c|a.o|-include|b.cpp|-o|c.cpp", "-c|a.o|-include|b.cpp|-o|c.cpp"),
            ("--version", "--version"),
        ] {
            assert_eq!(run(given), format!("-first|{made}|-last|"));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn releases_of_the_c_library_are_compared_as_numbers() {
        assert!(release("2.41-12+deb13u4") > release("2.36-9+deb12u14"));
        assert!(release("2.100") > release("2.36"));
    }
}
