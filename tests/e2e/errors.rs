//! What goes wrong on the GPU: the application hears of it as without the library, and the log has what went before.

use crate::bed::Run;

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
    if crate::bed::on_hardware() {
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
