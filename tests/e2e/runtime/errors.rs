//! What goes wrong on the GPU: the application hears of it as without the library, and the log has what went before.

use std::os::unix::process::ExitStatusExt;

use crate::support::harness::{self, Run};
use crate::support::versions;

#[test]
fn errors_reach_the_applications_own_callbacks_and_earlier_rows_are_written() {
    for mode in ["illegal", "trap", "fault", "lds"] {
        let bare = Run::hsa("errors").args([mode]).bare().passed();
        let watched = Run::hsa("errors").args([mode]).watched().passed();
        assert_eq!(watched.stdout, bare.stdout, "{mode}");
        let log = watched.log();
        let account = log.account();
        assert_eq!(log.rows_of("increment").len(), 1, "{mode}: {account:?}");
        let failed = log.rows.iter().filter(|r| r.flags().contains("incomplete")).count();
        assert_eq!(failed as u64, account["seen"] - 1, "{mode}: a kernel that never completed says so");
    }
}

#[test]
fn statuses_are_those_of_the_hardware() {
    let said = |mode: &str| Run::hsa("errors").args([mode]).bare().passed().stdout;
    // Source: `hsa.h` and ROCr's `AqlQueue::DynamicScratchHandler`.
    for (mode, line) in [
        ("illegal", "queue error 0x2a"),
        ("trap", "queue error 0x1016"),
        ("lds", "queue error 0x1003"),
        ("type", "queue error 0x1009"),
        ("fault", "memory fault at 0x123456789000"),
    ] {
        assert!(said(mode).contains(line), "{mode}: {}", said(mode));
    }
}

#[test]
fn the_emulator_says_where_a_kernel_went_wrong() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hsa("errors").args(["fault"]).bare().passed();
    let log = run.read("kfdemu.log");
    for part in ["write to 4 bytes at 0x123456789000", "pc 0x", "global_store_dword v[", "lane 0", "workgroup 0,0,0"] {
        assert!(log.contains(part), "no {part:?} in {log}");
    }
    let log = Run::hsa("errors").args(["illegal"]).bare().passed().read("kfdemu.log");
    assert!(log.contains("illegal instruction") && log.contains("ffffffff"), "{log}");
}

/// How a program ends after "going wrong".
#[derive(Clone, Copy)]
enum End {
    /// The runtime aborts it, and says this on standard error.
    Aborts(&'static str),
    /// It goes on, and lines of its output begin like these.
    Says(&'static [&'static str]),
}
use End::{Aborts, Says};

/// What becomes of a mode of `hip_errors`.
struct Wrong {
    mode: &'static str,
    end: End,
    /// From which version of HIP on it ends otherwise, and how.
    since: Option<((u32, u32), End)>,
    /// What the emulator's log holds, all in one line.
    emulator: &'static [&'static str],
}

impl Wrong {
    fn end(&self) -> End {
        self.since.filter(|(version, _)| versions::hip() >= *version).map_or(self.end, |(_, end)| end)
    }
}

const NOT_PRESENT: End = Aborts("Page not present or supervisor privilege");
const WORKED: &str = "hipDeviceSynchronize: hipSuccess";
/// HIP 7 makes a status of the device of what goes wrong on it.
const ILLEGAL_ADDRESS: Option<((u32, u32), End)> =
    Some(((7, 0), Says(&["hipDeviceSynchronize: hipErrorIllegalAddress"])));
const LAUNCH_FAILURE: Option<((u32, u32), End)> =
    Some(((7, 0), Says(&["hipDeviceSynchronize: hipErrorLaunchFailure"])));

/// Source of the statuses: HIP's documentation and ROCr's messages for these errors on hardware.
const WRONG: &[Wrong] = &[
    Wrong {
        mode: "null",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &[
            "write to 0x0:",
            "lane 0",
            "global_store_dword",
            "kernel _Z",
            "kernel object 0x",
            "nearest mapping 0x",
        ],
    },
    Wrong {
        mode: "wild",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &["read of 4 bytes at 0x123456789000, which is not mapped", "global_load_dword", "pc 0x"],
    },
    Wrong {
        mode: "freed",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &["write to 4 bytes", "lane 0", "which has been unmapped"],
    },
    Wrong {
        mode: "beyond",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &["read of 4 bytes", "lane 32", "ends 0 bytes before it"],
    },
    Wrong {
        mode: "unmapped",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &[
            "write to 4 bytes",
            "lane 0",
            "pc 0x",
            "global_store_dword",
            "registered memory that the application has unmapped",
        ],
    },
    Wrong {
        mode: "unmapped_copy",
        end: NOT_PRESENT,
        since: ILLEGAL_ADDRESS,
        emulator: &["read of 0x", "registered memory that the application has unmapped"],
    },
    Wrong {
        mode: "unaligned",
        end: Aborts("HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"),
        since: ILLEGAL_ADDRESS,
        emulator: &["not aligned as an atomic access needs it", "global_atomic_add", "lane 0"],
    },
    Wrong {
        mode: "illegal",
        end: Aborts("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
        since: LAUNCH_FAILURE,
        emulator: &["illegal instruction", "ffffffff", "kernel object 0x"],
    },
    Wrong {
        mode: "symbol",
        end: Says(&["hipModuleLoad: hipSuccess", "increment: hipSuccess", "no_such_kernel: hipErrorNotFound", WORKED]),
        since: None,
        emulator: &[],
    },
    Wrong { mode: "arch", end: Says(&["hipModuleLoad: hipError", WORKED]), since: None, emulator: &[] },
    Wrong {
        mode: "lds",
        end: Says(&["launch: hipErrorOutOfMemory", WORKED]),
        since: Some(((5, 7), Says(&["launch: hipErrorInvalidValue", WORKED]))),
        emulator: &[],
    },
    Wrong { mode: "workgroup", end: Says(&["launch: hipErrorInvalid", WORKED]), since: None, emulator: &[] },
    Wrong {
        mode: "grid",
        end: Says(&["launch: hipErrorInvalid", "launch: hipErrorInvalid", WORKED]),
        since: None,
        emulator: &[],
    },
];

/// Runs a mode of `hip_errors`; what it shows must be as expected, and the log must hold what was before.
fn goes_wrong(wrong: &Wrong, run: Run) {
    // What a process that aborts could not write, omniprobe does.
    let log = run.file("log.csv");
    let outcome = run.args([wrong.mode]).probed(&["-l", log.to_str().unwrap()]);
    let mode = wrong.mode;
    let lines = versions::own_lines(&outcome.stdout).into_iter();
    let after: Vec<&str> = lines.skip_while(|line| *line != "going wrong").skip(1).collect();
    match wrong.end() {
        Aborts(text) => {
            assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{mode}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(text), "{mode}: {}", outcome.stderr);
            assert!(after.is_empty(), "{mode}: {after:?}");
        }
        Says(lines) => {
            assert!(outcome.status.success() && after.len() == lines.len() + 1, "{mode}: {after:?}");
            assert!(after.iter().zip(lines).all(|(line, said)| line.starts_with(said)), "{mode}: {after:?}");
        }
    }
    let log = outcome.log();
    // Of a process that dies at once, times may be lost, but no row is.
    let good = log.rows_of("add_one").into_iter().filter(|r| matches!(r.flags(), "" | "times-lost"));
    assert!(good.count() >= 3, "{mode}: {:?}", log.account());
    if !wrong.emulator.is_empty() && !harness::on_hardware() {
        let lines = outcome.read("kfdemu.log");
        let whole = lines.lines().any(|line| wrong.emulator.iter().all(|part| line.contains(part)));
        assert!(whole, "{mode}: no line with all of {:?} in {lines}", wrong.emulator);
    }
}

#[test]
fn hip_programs_that_go_wrong_end_as_on_hardware() {
    for wrong in WRONG {
        let run = Run::hip("hip_errors");
        // The mode needs a code object for another processor.
        let run = if wrong.mode == "arch" { run.env("TEST_KERNELS", harness::kernels(&other_arch())) } else { run };
        goes_wrong(wrong, run);
    }
}

#[test]
fn a_program_without_code_for_the_processor_is_told_so_and_the_log_has_none_of_its_kernels() {
    if harness::on_hardware() {
        return;
    }
    let compiled_for = harness::archs();
    let other = ["gfx900", "gfx908"].into_iter().find(|arch| !compiled_for.iter().any(|a| a == arch)).unwrap();
    let run = || Run::hip("vectors").env("KFDEMU_GPUS", other);
    let (bare, watched) = (run().bare(), run().watched());
    assert!(!bare.status.success(), "{}", bare.stdout);
    for said in [&bare.stdout, &bare.stderr] {
        assert!(!said.contains("PASS"), "{said}");
    }
    assert_eq!(watched.status, bare.status);
    assert_eq!((&watched.stdout, &watched.stderr), (&bare.stdout, &bare.stderr));
    let says_so = bare.stderr.contains("hipErrorNoBinaryForGpu") || bare.stdout.contains("FAIL");
    assert!(says_so || versions::dies_without_code(), "{}", bare.stderr);
    let log = watched.read("log.csv");
    assert!(log.lines().any(|line| line.starts_with(&format!("# agent 0: {other},"))), "{log}");
    // The runtime may have run kernels of its own.
    let of_program = |line: &&str| !line.starts_with('#') && !line.starts_with("\"__amd_rocclr_");
    assert_eq!(log.lines().filter(of_program).count(), 1, "the names of the columns only: {log}");
}

#[test]
fn small_pieces_of_freed_memory_are_caught_when_the_runtime_keeps_no_blocks() {
    // The driver sees the runtime's blocks only: their pieces stay mapped, here as on hardware.
    let mut freed = Wrong { mode: "freed_small", end: Says(&[WORKED]), since: None, emulator: &[] };
    goes_wrong(&freed, Run::hip("hip_errors"));
    (freed.end, freed.since) = (NOT_PRESENT, ILLEGAL_ADDRESS);
    freed.emulator = &["write to 4 bytes", "lane 0", "which has been unmapped"];
    goes_wrong(&freed, Run::hip("hip_errors").env("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1"));
}

/// A processor that the tests do not run on by default.
fn other_arch() -> String {
    if harness::arch() == "gfx906" { "gfx90a".to_owned() } else { "gfx906".to_owned() }
}
