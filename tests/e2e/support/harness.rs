//! What every story needs: programs, compiled once; a run of one, with the library and without.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

use crate::support::log::Log;
use crate::support::versions;

/// No program of ours needs as long as this, with the short counts and with the long ones.
fn time_limit() -> Duration {
    Duration::from_secs(count(120, 3600) as u64)
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A library or program that `cargo xtask test` has built.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = root().join("target/release").join(name);
    assert!(path.exists(), "{} is not there: run the tests with `cargo xtask test`", path.display());
    path
}

/// Copies a file that is executed afterwards. A process of its own writes it: a child that another test starts meanwhile would keep
/// the copy open for writing until it executes its program, and such a file is not executed (`ETXTBSY`).
pub(crate) fn copy_program(program: &Path, copy: &Path) {
    let status = Command::new("cp").arg(program).arg(copy).status().unwrap();
    assert!(status.success(), "{}: {status}", copy.display());
}

/// True when the tests run on hardware.
pub(crate) fn on_hardware() -> bool {
    std::env::var_os("LOGDUR_TEST_DEVICE").is_some_and(|d| d == "real")
}

/// The long counts of a test, or the short ones.
pub(crate) fn count(short: usize, full: usize) -> usize {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { full } else { short }
}

/// The processors to test on: what `LOGDUR_TEST_ARCHS` says, two kinds of emulated ones, or what the hardware is.
pub(crate) fn archs() -> Vec<String> {
    static REAL: LazyLock<String> = LazyLock::new(|| {
        let output = Command::new(built("omniprobe")).arg("doctor").args(rocm_option()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let gpu = text.lines().find_map(|line| line.strip_prefix("gpu ")).expect("a GPU, as --device real says");
        gpu.split_whitespace().next().unwrap().to_owned()
    });
    if on_hardware() {
        return vec![REAL.clone()];
    }
    let chosen = std::env::var("LOGDUR_TEST_ARCHS").unwrap_or_else(|_| "gfx90a,gfx906".to_owned());
    chosen.split(',').map(str::to_owned).collect()
}

/// The processor that tests run on to which it is all the same.
pub(crate) fn arch() -> String {
    archs().swap_remove(0)
}

/// The folder of the ROCm to test on; `None` for the machine's own.
pub(crate) fn rocm() -> Option<PathBuf> {
    std::env::var_os("LOGDUR_TEST_ROCM").map(PathBuf::from)
}

/// That folder as `omniprobe` takes it.
pub(crate) fn rocm_option() -> Vec<OsString> {
    rocm().map_or_else(Vec::new, |folder| vec!["--rocm".into(), folder.into()])
}

/// What links a program to the ROCm to test on, so that it runs there without any variable: other programs that it is
/// run with need the machine's own libraries.
pub(crate) fn link_options() -> Vec<OsString> {
    let Some(lib) = rocm().map(|folder| folder.join("lib")) else { return Vec::new() };
    let lib = lib.display();
    let mut options = vec![
        format!("-L{lib}"),
        // The old kind of path, which libraries inherit.
        format!("-Wl,--disable-new-dtags,-rpath,{lib}"),
        // Its libraries may need a newer C library than the machine's.
        "-Wl,--allow-shlib-undefined".to_owned(),
    ];
    let loader = format!("{lib}/ld-linux-x86-64.so.2");
    if Path::new(&loader).exists() {
        options.push(format!("-Wl,--dynamic-linker={loader}"));
    }
    options.into_iter().map(OsString::from).collect()
}

/// Where the programs for the ROCm and the processors to test on are kept.
pub(crate) fn programs() -> PathBuf {
    let all = root().join("target/tests").join(archs().join("+"));
    rocm().map_or(all.clone(), |folder| all.join(folder.file_name().unwrap()))
}

/// The list of what the ROCm to test on is made of, if it was unpacked by `cargo xtask rocm`.
fn made_of() -> Option<PathBuf> {
    rocm().map(|folder| folder.join("packages")).filter(|list| list.is_file())
}

/// Runs a compiler once for each output, and only if the output is older than its sources.
fn make(output: &Path, sources: &[PathBuf], command: impl FnOnce() -> Command) {
    static MADE: LazyLock<Mutex<HashMap<PathBuf, Arc<OnceLock<()>>>>> = LazyLock::new(Mutex::default);
    let once = MADE.lock().unwrap().entry(output.to_owned()).or_default().clone();
    once.get_or_init(|| {
        let time = |p: &Path| p.metadata().and_then(|d| d.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        if sources.iter().chain(&made_of()).all(|s| time(s) < time(output)) {
            return;
        }
        fs::create_dir_all(output.parent().unwrap()).unwrap();
        let mut command = command();
        let result = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        assert!(result.status.success(), "{command:?}: {}", String::from_utf8_lossy(&result.stderr));
    });
}

/// A file of `tests/programs`, or of the documentation if it is in `example`, and the headers of this project that it includes.
fn sources(file: &str) -> Vec<PathBuf> {
    let folder = if file.starts_with("example/") { "docs" } else { "tests/programs" };
    let mut files = vec![root().join(folder).join(file)];
    let mut next = 0;
    while let Some(path) = files.get(next) {
        let text = fs::read_to_string(path).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        for header in
            names.flat_map(|name| ["tests/programs", "instrument/include"].map(|folder| root().join(folder).join(name)))
        {
            if header.is_file() && !files.contains(&header) {
                files.push(header);
            }
        }
        next += 1;
    }
    files
}

/// The compiler of HIP programs.
pub(crate) fn hipcc() -> Command {
    Command::new(std::env::var_os("LOGDUR_TEST_HIPCC").unwrap_or_else(|| "hipcc".into()))
}

/// A HIP program of `tests/programs`, for all processors that are tested.
pub(crate) fn hip(name: &str) -> PathBuf {
    hip_optimized(name, "-O3")
}

/// A HIP program, compiled with options like `-O3`.
pub(crate) fn hip_optimized(name: &str, options: &str) -> PathBuf {
    hip_compiled(name, options, &archs(), "")
}

/// A HIP program for these target IDs alone, like `gfx90a:sramecc-`.
pub(crate) fn hip_targets(name: &str, targets: &[&str]) -> PathBuf {
    hip_compiled(name, "-O3", targets, &targets.join("+"))
}

fn hip_compiled(name: &str, options: &str, targets: &[impl Display], suffix: &str) -> PathBuf {
    let words = options.replace(' ', "") + &suffix.replace(':', ".");
    let program = programs().join(if words == "-O3" { name.to_owned() } else { format!("{name}{words}") });
    let sources = sources(&format!("{name}.hip"));
    make(&program, &sources, || {
        let mut command = hipcc();
        command.args(targets.iter().map(|target| format!("--offload-arch={target}")));
        // Not every hipcc has this standard by itself, and rocPRIM needs it.
        command.arg("-std=c++17").arg("-I").arg(root().join("instrument/include"));
        command.args(options.split_whitespace()).arg(&sources[0]).arg("-o").arg(&program);
        command.args(link_options()).args(versions::hiprtc()).args(versions::roctx().into_iter().flatten());
        command
    });
    program
}

/// A HIP program as a library, for `in_library` to load and run.
pub(crate) fn hip_library(name: &str) -> PathBuf {
    let library = programs().join(format!("lib{name}.so"));
    let sources = sources(&format!("{name}.hip"));
    make(&library, &sources, || {
        let mut command = hipcc();
        command.args(archs().iter().map(|arch| format!("--offload-arch={arch}")));
        command.args(["-std=c++17", "-O3", "-shared", "-fPIC", "-Dmain=program"]);
        command.arg(&sources[0]).arg("-o").arg(&library).args(link_options());
        command
    });
    library
}

/// A C program of `tests/programs` that uses the HSA interface.
pub(crate) fn hsa(name: &str) -> PathBuf {
    let mut libraries = link_options();
    libraries.push("-lhsa-runtime64".into());
    c_program(name, name, &libraries)
}

/// The same with the emulated device among its libraries: it needs no variable to find it.
pub(crate) fn hsa_with_device(name: &str) -> PathBuf {
    let mut libraries = link_options();
    let device = built("libkfdemu.so");
    let folder = device.parent().unwrap().display();
    libraries.extend([format!("-Wl,--no-as-needed,-rpath,{folder}").into(), device.clone().into()]);
    libraries.push("-lhsa-runtime64".into());
    c_program(name, &format!("{name}-with-device"), &libraries)
}

/// A C program of `tests/programs` that uses the OpenCL interface: the machine's, also when another ROCm is tested.
pub(crate) fn opencl(name: &str) -> PathBuf {
    c_program(name, name, &["-lOpenCL".into()])
}

/// The same under a sanitizer of the compiler, whose runtime is a shared library.
pub(crate) fn hsa_sanitized(name: &str, sanitizer: &str) -> PathBuf {
    let mut libraries = link_options();
    libraries.extend(["-lhsa-runtime64".into(), format!("-fsanitize={sanitizer}").into()]);
    c_program(name, &format!("{name}-{sanitizer}"), &libraries)
}

/// A C program of `tests/programs` that loads its libraries itself, and finds them as if it had been linked with them.
pub(crate) fn loading(name: &str) -> PathBuf {
    let mut libraries = link_options();
    libraries.push("-ldl".into());
    c_program(name, name, &libraries)
}

fn c_program(name: &str, output: &str, libraries: &[OsString]) -> PathBuf {
    let program = programs().join(output);
    let sources = sources(&format!("{name}.c"));
    make(&program, &sources, || {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]).arg(&sources[0]).arg("-o").arg(&program);
        if let Some(rocm) = rocm() {
            command.arg("-I").arg(rocm.join("include"));
        }
        command.args(libraries);
        command
    });
    program
}

/// A library of `tests/programs`, in C or C++, to be loaded beside ours.
pub(crate) fn library(name: &str) -> PathBuf {
    let library = programs().join(format!("lib{}.so", name.split('.').next().unwrap()));
    let sources = sources(name);
    make(&library, &sources, || {
        // The runtime's header of its tables includes its neighbours by their bare names.
        let mut command = Command::new(if name.ends_with(".cpp") { "c++" } else { "cc" });
        command.args(["-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-DAMD_INTERNAL_BUILD"]);
        match rocm().map(|rocm| rocm.join("include")) {
            Some(include) => command.arg("-isystem").arg(&include).arg("-isystem").arg(include.join("hsa")),
            None => command.args(["-isystem", "/usr/include/hsa"]),
        };
        command.arg(&sources[0]).arg("-o").arg(&library).arg("-ldl");
        command
    });
    library
}

/// A handler of messages, in C or C++: a file below the project's folder.
pub(crate) fn handler(file: &str) -> PathBuf {
    let source = root().join(file);
    let name = source.file_stem().unwrap().display().to_string();
    let library = root().join("target/tests").join(format!("lib{name}.handler.so"));
    make(&library, &[source.clone(), root().join("instrument/include/logdur_handler.h")], || {
        let is_c = file.ends_with(".c");
        let mut command = Command::new(if is_c { "cc" } else { "c++" });
        command.args([if is_c { "-std=gnu11" } else { "-std=c++11" }, "-O1", "-Wall", "-Wextra", "-Werror"]);
        command.args(["-shared", "-fPIC", "-fvisibility=hidden", "-I"]).arg(root().join("instrument/include"));
        command.arg(&source).arg("-o").arg(&library);
        command
    });
    library
}

/// The code object of `kernels.hip` for a processor.
pub(crate) fn kernels(arch: &str) -> PathBuf {
    hip_object("kernels", arch, "-O2")
}

/// The notes of a code object, as LLVM prints them.
pub(crate) fn notes(object: &Path) -> String {
    let output = Command::new("llvm-readelf-19").arg("--notes").arg(object).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The code object of a HIP source for a processor, compiled with some options.
pub(crate) fn hip_object(name: &str, arch: &str, options: &str) -> PathBuf {
    let object = programs().join(format!("{name}{}.{arch}.hsaco", options.replace(' ', "")));
    let sources = sources(&format!("{name}.hip"));
    make(&object, &sources, || {
        let mut command = hipcc();
        command.args(["--cuda-device-only", "--no-gpu-bundle-output", "-std=c++17", "-c", "-I"]);
        command.arg(root().join("instrument/include"));
        command.args(options.split_whitespace()).arg(format!("--offload-arch={arch}"));
        command.arg(&sources[0]).arg("-o").arg(&object);
        command
    });
    object
}

/// The code object of an OpenCL C source, by a version of clang and for a version of the code object's ABI,
/// with options like `-DNAME`.
pub(crate) fn opencl_object(source: &Path, arch: &str, clang: u32, optimise: u32, abi: u32, options: &str) -> PathBuf {
    let name = source.file_stem().unwrap().display();
    let words = options.replace(' ', "");
    let object =
        root().join("target/tests").join(format!("{name}{words}.{arch}.clang{clang}.O{optimise}.v{abi}.hsaco"));
    make(&object, &[source.to_owned()], || {
        let mut command = Command::new(format!("clang-{clang}"));
        command.args([
            "-x",
            "cl",
            "-cl-std=CL2.0",
            "-target",
            "amdgcn-amd-amdhsa",
            "-cl-fp32-correctly-rounded-divide-sqrt",
        ]);
        command.arg(format!("-mcpu={arch}")).arg(format!("-O{optimise}")).arg(format!("-mcode-object-version={abi}"));
        command.args(options.split_whitespace()).arg(source).arg("-o").arg(&object);
        command.arg(device_libraries(clang));
        command
    });
    object
}

/// The option of clang that names libraries for the GPU that it can read: the machine's, or for a newer one than 19 those of the ROCm
/// to test on.
pub(crate) fn device_libraries(clang: u32) -> String {
    let folder = match rocm().filter(|_| clang > 19) {
        Some(root) => root.join(format!("lib/llvm-{clang}/lib/clang/{clang}/amdgcn/bitcode")),
        None => PathBuf::from("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"),
    };
    format!("--rocm-device-lib-path={}", folder.display())
}

/// A C program of `tests/programs/openmp`, whose target regions are for all processors that are tested.
pub(crate) fn openmp(name: &str, options: &str) -> PathBuf {
    let program = programs().join("openmp").join(format!("{name}{}", options.replace(' ', "")));
    let source = root().join("tests/programs/openmp").join(format!("{name}.c"));
    make(&program, std::slice::from_ref(&source), || {
        let mut command = Command::new("clang-19");
        command.args(options.split_whitespace()).arg("-fopenmp");
        command.args(archs().iter().map(|arch| format!("--offload-arch={arch}")));
        command.arg("--rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode");
        // Its runtime is beside the compiler's libraries, and opens ROCm's when it starts.
        command.arg("-Wl,-rpath,/usr/lib/llvm-19/lib").args(link_options());
        command.arg(&source).arg("-o").arg(&program);
        command
    });
    program
}

/// The device's code of such a program, compiled again: what the compiler's linker has optimised, made into instructions at
/// another level. The linker's own optimisation is that of the program; clang 19's ends in an error below `-O2`.
pub(crate) fn openmp_object(name: &str, options: &str, level: &str) -> PathBuf {
    let arch = arch();
    let folder = programs().join("openmp").join(format!("{name}{}.parts", options.replace(' ', "")));
    let object = folder.join(format!("{name}{level}.{arch}.hsaco"));
    let source = root().join("tests/programs/openmp").join(format!("{name}.c"));
    make(&object, std::slice::from_ref(&source), || {
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("clang-19");
        command.args(options.split_whitespace()).args(["-fopenmp", "-save-temps=obj"]);
        command.arg(format!("--offload-arch={arch}"));
        command.arg("--rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode").args(link_options());
        // The parts are left where the linker runs.
        let program = folder.join(name);
        let made = command.arg(&source).arg("-o").arg(&program).current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
        let mut command = Command::new("clang-19");
        command.args([level, "--target=amdgcn-amd-amdhsa", "-nogpulib", "-x", "ir"]).arg(format!("-mcpu={arch}"));
        command.arg(folder.join(format!("{name}.amdgcn-amd-amdhsa.{arch}.postlink.bc"))).arg("-o").arg(&object);
        command
    });
    object
}

/// A folder with what Triton compiled of `tests/programs/triton` for a processor, arguments and expected results.
pub(crate) fn triton(arch: &str) -> PathBuf {
    let folder = root().join("target/tests/triton").join(arch);
    let sources = ["prepare.py", "kernels.py", "cases.py"].map(|f| root().join("tests/programs/triton").join(f));
    make(&folder.join("cases.json"), &sources, || {
        let environment = root().join("target/xtask/triton");
        // Written last, when everything is installed.
        let complete = environment.join("packages").is_file();
        assert!(complete, "no Python with Triton in {}: `cargo xtask test` installs it", environment.display());
        let mut command = Command::new(environment.join("bin/python"));
        command.arg("-B").arg(&sources[0]).arg(&folder).arg(arch);
        // Another cache might have what another Triton made.
        command.env("TRITON_CACHE_DIR", root().join("target/tests/triton/cache"));
        command
    });
    folder
}

/// A program to run.
pub(crate) struct Run {
    program: PathBuf,
    arch: String,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    folder: TempDir,
}

/// What came of a run.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Everything that the run wrote.
    pub(crate) folder: TempDir,
}

impl Run {
    pub(crate) fn new(program: PathBuf) -> Run {
        let folder = tempfile::Builder::new().prefix("logdur-test-").tempdir().unwrap();
        Run { program, arch: arch(), arguments: Vec::new(), variables: Vec::new(), folder }
    }

    /// A HIP program.
    pub(crate) fn hip(name: &str) -> Run {
        Run::new(hip(name))
    }

    /// A program that uses the HSA interface.
    pub(crate) fn hsa(name: &str) -> Run {
        Run::new(hsa(name))
    }

    pub(crate) fn arch(mut self, arch: &str) -> Run {
        self.arch = arch.to_owned();
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Run {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.variables.push((name.into(), value.as_ref().into()));
        self
    }

    /// A file of this run's.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command, with the device but without the library.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
            command.env_remove(name);
        }
        command.env("TEST_KERNELS", kernels(&self.arch));
        if !on_hardware() {
            command.env("LD_PRELOAD", built("libkfdemu.so")).env("KFDEMU_GPUS", &self.arch);
            command.env("KFDEMU_LOG", self.file("kfdemu.log")).env("KFDEMU_TRACE", self.file("trace.json"));
        }
        command.envs(self.variables.iter().map(|(n, v)| (n, v)));
        command
    }

    /// Runs without the library.
    pub(crate) fn bare(self) -> Outcome {
        let command = self.command();
        self.finish(command)
    }

    /// Runs with the library, the log in `log.csv`.
    pub(crate) fn watched(self) -> Outcome {
        let mut command = self.command();
        command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        command.env("LOGDUR_LOG_LOCATION", self.file("log.csv"));
        command.envs(self.variables.iter().map(|(n, v)| (n, v)));
        self.finish(command)
    }

    /// Runs under `omniprobe` with some options.
    pub(crate) fn probed<A: AsRef<OsStr>>(self, options: &[A]) -> Outcome {
        let mut command = self.omniprobe();
        command.args(options);
        if !on_hardware() {
            command.args(["--emulate", &self.arch]);
        }
        command.arg("--").arg(&self.program).args(&self.arguments);
        self.finish(command)
    }

    /// `omniprobe` with the variables of the run, but for those that choose the device: it has options for that.
    pub(crate) fn omniprobe(&self) -> Command {
        let mut command = Command::new(built("omniprobe"));
        command.stdin(Stdio::null());
        for (name, value) in self.command().get_envs() {
            match value.filter(|_| name != "LD_PRELOAD" && name != "KFDEMU_GPUS") {
                Some(value) => _ = command.env(name, value),
                None => _ = command.env_remove(name),
            }
        }
        command
    }

    /// Runs a command to its end, in the folder of the run.
    pub(crate) fn finish(self, mut command: Command) -> Outcome {
        command.current_dir(self.folder.path());
        let [out, err] = ["stdout", "stderr"].map(|name| self.file(name));
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (start, limit) = (Instant::now(), time_limit());
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() > limit => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("{command:?} did not end; it wrote:\n{}", fs::read_to_string(&out).unwrap());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        Outcome { status, stdout: text(out), stderr: text(err), folder: self.folder }
    }
}

/// Variables that a developer may have set and that would change what is tested.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [
        "LOGDUR_CAPTURE",
        "LOGDUR_LOG",
        "LOGDUR_NAMES",
        "LOGDUR_RECORDS",
        "LOGDUR_FILTER",
        "LOGDUR_DISPATCHES",
        "LOGDUR_HANDLER",
        "LOGDUR_INSTRUMENT",
        "LOGDUR_KERNEL",
        "LOGDUR_QUEUE",
        "LOGDUR_RANKS",
        "LOGDUR_START",
        "LOGDUR_WHEN",
        "LOGDUR_STACKS",
        "KFDEMU_",
        "HSA_",
        "LD_PRELOAD",
    ]
    .iter()
    .any(|p| name.starts_with(p))
}

impl Outcome {
    /// The same outcome, after a look that the program was content with itself.
    pub(crate) fn passed(self) -> Outcome {
        let said = self.stdout.lines().any(|line| line == "PASS");
        assert!(self.status.success() && said, "{}:\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// A file that the run wrote.
    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The log in `log.csv`, its account checked.
    pub(crate) fn log(&self) -> Log {
        Log::parse(&self.read("log.csv"))
    }

    /// The emulator's own list of the kernels that it executed. Empty on hardware.
    pub(crate) fn trace(&self) -> Vec<serde_json::Value> {
        if on_hardware() {
            return Vec::new();
        }
        self.read("trace.json").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
