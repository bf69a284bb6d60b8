//! Code objects that compilers make of the sources here, each once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use amdgpu_code_object::CodeObject;
use logdur_kernel_cache::{Hash, Interface};

/// One build of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    /// The file in `tests/sources`.
    pub(crate) source: &'static str,
    /// Version of clang; HIP is compiled by `hipcc`, which has its own.
    pub(crate) clang: u32,
    /// The target ID.
    pub(crate) target: &'static str,
    /// Version of the code object's ABI.
    pub(crate) abi: u32,
    /// More options, with spaces in between.
    pub(crate) options: &'static str,
}

/// OpenCL, optimised, of version 5.
pub(crate) const SCALE: Build = Build { source: "scale.cl", clang: 19, target: "gfx90a", abi: 5, options: "-O3" };
/// HIP, optimised, of version 5.
pub(crate) const SUM: Build = Build { source: "sum.hip", clang: 0, target: "gfx90a", abi: 5, options: "-O3" };

impl Build {
    pub(crate) const fn options(self, options: &'static str) -> Build {
        Build { options, ..self }
    }

    pub(crate) const fn target(self, target: &'static str) -> Build {
        Build { target, ..self }
    }

    pub(crate) const fn abi(self, clang: u32, abi: u32) -> Build {
        Build { clang, abi, ..self }
    }

    /// The code object.
    pub(crate) fn path(self) -> PathBuf {
        let Build { source, clang, target, abi, options } = self;
        let words: String = options.chars().filter(|c| !c.is_whitespace()).collect();
        let name = format!("{source}.{clang}.{target}.v{abi}{words}.co").replace('/', "_");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources").join(source);
        make(&name, std::slice::from_ref(&source), |output| {
            let mut command = if source.extension().is_some_and(|e| e == "hip") {
                let mut command = Command::new("hipcc");
                command.args(["--cuda-device-only", "--no-gpu-bundle-output", "-c"]);
                command.arg(format!("--offload-arch={target}"));
                command
            } else {
                let mut command = Command::new(format!("clang-{clang}"));
                command.args(["-target", "amdgcn-amd-amdhsa", "-nogpulib", "-cl-std=CL2.0"]);
                command.arg(format!("-mcpu={target}"));
                command
            };
            command.arg(format!("-mcode-object-version={abi}")).args(options.split_whitespace());
            command.arg(&source).arg("-o").arg(output);
            command
        })
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        fs::read(self.path()).expect("the code object was made")
    }

    pub(crate) fn hash(self) -> Hash {
        Hash::of(&self.bytes())
    }

    /// A kernel of it; its name in HIP is longer.
    pub(crate) fn kernel(self, name: &str) -> Interface {
        let object = CodeObject::parse(&self.bytes()).expect("a compiler's code object");
        let kernel = object.kernels.iter().find(|k| k.name.contains(name)).expect(name);
        Interface::of(&object, kernel)
    }
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a command that makes a file, if the file is older than one of the sources.
pub(crate) fn make(name: &str, sources: &[PathBuf], command: impl FnOnce(&Path) -> Command) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-cache");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let time = |p: &Path| p.metadata().and_then(|d| d.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let (output, partial) = (folder.join(name), folder.join(format!("{name}.partial")));
    if sources.iter().any(|s| time(s) >= time(&output)) {
        // Complete or not there: a compiler may be stopped.
        run(&mut command(&partial));
        fs::rename(&partial, &output).expect("what was made is there");
    }
    output
}
