//! What differs from one ROCm to the next, by its version: the one place where a test asks which it runs on.

use std::ffi::OsString;
use std::fs;
use std::sync::LazyLock;

use crate::support::harness;

/// Major and minor number that a header of the ROCm to test on defines, by the beginning of their names.
fn defined(header: &str, names: &str) -> (u32, u32) {
    let header = harness::rocm().unwrap_or_else(|| "/usr".into()).join("include").join(header);
    let text = fs::read_to_string(&header).unwrap_or_else(|e| panic!("{}: {e}", header.display()));
    let number = |part: &str| {
        let name = format!("{names}{part}");
        let line = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(&name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {}", header.display()))
    };
    (number("_MAJOR"), number("_MINOR"))
}

/// Major and minor number of the HIP to test on, by its headers.
pub(crate) fn hip() -> (u32, u32) {
    static VERSION: LazyLock<(u32, u32)> = LazyLock::new(|| defined("hip/hip_version.h", "HIP_VERSION"));
    *VERSION
}

/// True where applications can map memory themselves: `hsa_amd_vmem_*`, of version 1.4 of AMD's extensions.
pub(crate) fn has_virtual_memory() -> bool {
    defined("hsa/hsa_ext_amd.h", "HSA_AMD_INTERFACE_VERSION") >= (1, 4)
}

/// True where the HSA runtime knows the processor of MI300: from ROCm 5.7 on.
pub(crate) fn knows_gfx942() -> bool {
    hip() >= (5, 7)
}

/// True where the HSA runtime and the compiler know the processor of MI350: from ROCm 6.4 on.
pub(crate) fn knows_gfx950() -> bool {
    hip() >= (6, 4)
}

/// True where HIP knows it, too: from version 7 on. The 6.4.3 of Debian's packages says that there is no device.
pub(crate) fn hip_knows_gfx950() -> bool {
    hip() >= (7, 0)
}

/// True where the runtime's intercept queues are known to work. The 6.4.3 of Debian's packages has the function table of 7.0.
pub(crate) fn intercept_queues_work() -> bool {
    ((6, 0)..(6, 4)).contains(&hip())
}

/// Major version of the clang that compiles HIP.
pub(crate) fn clang() -> u32 {
    static VERSION: LazyLock<u32> = LazyLock::new(|| {
        let output = harness::hipcc().arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = text.split("clang version ").nth(1).and_then(|rest| rest.split('.').next());
        number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("hipcc --version says {text:?}"))
    });
    *VERSION
}

/// What links the compiler at run time, a library of its own from HIP 6 on; programs that do not use it go without.
pub(crate) fn hiprtc() -> &'static [&'static str] {
    if hip() >= (6, 0) { &["-Wl,--as-needed", "-lhiprtc"] } else { &[] }
}

/// What links the library of ROCTx, where the ROCm to test on has it; programs ask for its functions by weak names.
pub(crate) fn roctx() -> Option<[OsString; 2]> {
    let library = harness::rocm()?.join("lib/libroctx64.so.4");
    library.exists().then(|| ["-Wl,--no-as-needed".into(), library.into()])
}

/// The level for code that is as it was written. Clang 17 loads spilled registers before it switches lanes on again, so that
/// its unoptimized code with branches is wrong on any GPU (llvm-project#61083).
pub(crate) fn unoptimized() -> &'static str {
    if clang() == 17 { "-O1" } else { "-O0" }
}

/// How many kernels `vectors` dispatches: its own three and those of HIP that fill and, in 6.4 and 7.2, copy memory that is not
/// pinned.
pub(crate) fn kernels_of_vectors() -> u64 {
    3 + kernels_of_hip_in_vectors() as u64
}

/// Those that are HIP's.
pub(crate) fn kernels_of_hip_in_vectors() -> usize {
    if hip() >= (6, 0) { 2 } else { 1 }
}

/// Bytes of the arguments of a kernel whose own take `explicit` bytes and that uses no hidden ones. Before version 5 of
/// the ABI, clang's default from 18 on, those are left out; since, there are 256 bytes for them whether used or not.
pub(crate) fn kernarg_bytes(explicit: u64) -> u64 {
    if clang() >= 18 { explicit.next_multiple_of(8) + 256 } else { explicit }
}

/// Variables without which a ROCr before 5.7 may hang on hardware when it destroys a queue: one event serves all queues, the
/// thread that destroys one and the runtime's own both wait for it, and either may take the other's signal. Since, the
/// driver counts signals (`KFDEMU_KFD_MINOR`); the emulated one tells each thread of every signal.
pub(crate) fn waits_without_interrupts() -> Option<(&'static str, &'static str)> {
    (harness::on_hardware() && hip() < (5, 7)).then_some(("HSA_ENABLE_INTERRUPT", "0"))
}

/// HIP 6.4 and 7.2 ask the driver to wait for signals while they launch, as often as it takes: the fourth program of
/// `costs` has no fixed number of system calls of its own there.
pub(crate) fn waits_while_it_launches() -> bool {
    hip() >= (6, 0)
}

/// HIP 7.2.4 of Debian launches a kernel that it has no code for by a pointer that is none, and dies.
pub(crate) fn dies_without_code() -> bool {
    hip() >= (7, 2)
}

/// HIP 6.4 and later refuse a grid whose last workgroups are not complete, if the kernel was compiled for complete ones.
pub(crate) fn launches_incomplete_workgroups() -> bool {
    hip() < (6, 4)
}

/// The CMake files of Debian's HIP 5.7 name its library in `/usr`, wherever they are.
pub(crate) fn cmake_finds_hip() -> bool {
    harness::rocm().is_none() || hip() != (5, 7)
}

/// The lines of a HIP program that are its own: HIP 7 describes a kernel that fails on standard output.
pub(crate) fn own_lines(stdout: &str) -> Vec<&str> {
    let of_hip = |line: &str| ["Kernel Name: ", "VGPU=", "\t"].iter().any(|start| line.starts_with(start));
    stdout.lines().filter(|line| !of_hip(line)).map(str::trim_start).collect()
}

/// The machine's clang that compiles OpenCL and C for a processor: 19 does not know gfx950.
pub(crate) fn clang_for(arch: &str) -> u32 {
    if arch == "gfx950" { 22 } else { 19 }
}

/// True where the HSA runtime tells the mask of compute units that a queue was given last; from 7 on it tells that of the new queue.
pub(crate) fn tells_masks() -> bool {
    hip() < (7, 0)
}
