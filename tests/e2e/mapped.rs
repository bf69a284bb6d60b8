//! Captures of memory that is not of the application's allocations: what it maps itself, memory of another process, signals.
//! Who runs the dispatch again has it as memory of a pool, at its addresses.

use logdur_capture::{AllocationKind, Reader};

use crate::harness::{self, Run};
use crate::{mutations, replay, versions};

/// Captures the one kernel of a program that works in memory of a kind; a fresh process computes the same, its twins
/// do not.
fn computed_again(program: impl Fn() -> Run, kind: AllocationKind) {
    for arch in harness::archs() {
        let run = program().arch(&arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
        let reader = Reader::open(&file).unwrap();
        let dispatch = &reader.dispatches()[0];
        let at = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
        let around = |a: &&logdur_capture::Placed<logdur_capture::Allocation>| (a.base..a.base + a.size).contains(&at);
        let allocations = reader.allocations_at(dispatch.place);
        let allocation = allocations.iter().copied().find(around).unwrap_or_else(|| panic!("{at:#x}: {allocations:?}"));
        assert_eq!(allocation.kind, kind, "{arch}: {:?}", run.log().notices);
        assert_eq!(mutations::fail(&file, &arch), 1, "{arch}");
    }
}

#[test]
fn memory_that_the_application_maps_is_captured_and_a_fresh_process_computes_the_same() {
    if versions::has_virtual_memory() {
        computed_again(|| Run::hsa("virtual_memory"), AllocationKind::Virtual);
    }
}

#[test]
fn memory_of_another_process_is_captured_and_a_fresh_process_computes_the_same() {
    computed_again(|| Run::hsa("attached_memory"), AllocationKind::Ipc);
}

#[test]
fn signals_that_kernels_write_are_captured_and_a_fresh_process_computes_the_same() {
    let of = |kernels: &str| Run::hip("signal_memory").env("LOGDUR_CAPTURE_KERNELS", kernels);
    computed_again(|| of("^raise"), AllocationKind::HostPool);
    // HIP's own kernel reads nothing but its arguments.
    let run = of("^__amd");
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let verified = replay::on_file(Run::new(harness::built("omniprobe")), "verify", &file, &harness::arch(), &[]);
    // What the host changed meanwhile qualifies it.
    let passes = verified.stdout.lines().last().is_some_and(|word| word.starts_with("PASS"));
    assert!(passes && verified.status.success(), "{}{}", verified.stdout, verified.stderr);
    drop(run);
}
