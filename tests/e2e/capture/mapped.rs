//! Captures of memory that is not of the application's allocations: what it maps itself, memory of another process, signals.
//! Who runs the dispatch again has it as memory of a pool, at its addresses.

use logdur_capture::{AllocationKind, Reader};

use crate::replay::{mutations, verify};
use crate::support::harness::{self, Run};
use crate::support::versions;

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
fn memory_at_two_addresses_is_one_memory_in_captures_and_in_replays() {
    if !versions::has_virtual_memory() {
        return;
    }
    let run = Run::hsa("virtual_memory").args(["twice"]);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let reader = Reader::open(&file).unwrap();
    let dispatch = &reader.dispatches()[0];
    let mapped = reader.allocations_at(dispatch.place).into_iter().filter(|a| a.kind == AllocationKind::Virtual);
    let parts: Vec<(u64, u64)> = mapped.map(|a| (a.handle, a.offset)).collect();
    assert!(matches!(parts[..], [a, b] if a == b && a.0 != 0), "{parts:?} {:?}", run.log().notices);
    for backend in [&[][..], &["--backend", "emu"]] {
        let verify = verify::on_file(Run::new(harness::built("omniprobe")), "verify", &file, &harness::arch(), backend);
        verify::ended(&verify, "PASS", 0);
    }
}

#[test]
fn packed_pointers_and_ends_of_buffers_are_found_and_what_is_hidden_is_named_as_left_out() {
    for scope in ["args", "reachable"] {
        let run = Run::hip("packed_pointers").env("LOGDUR_CAPTURE_SCOPE", scope).env("LOGDUR_CAPTURE_KERNELS", "^k_");
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
        for backend in [&[][..], &["--backend", "emu"]] {
            let tool = |options: &[&str]| {
                let all = [options, backend].concat();
                verify::on_file(Run::new(harness::built("omniprobe")), "verify", &file, &harness::arch(), &all)
            };
            let found = tool(&["--kernel", "k_(packed|halves|behind_end|list)"]);
            let passed = found.stdout.lines().filter(|line| line.starts_with("PASS")).count();
            // What a list leads to is found from there only.
            let expected = if scope == "args" { (3, Some(9)) } else { (4, Some(0)) };
            assert_eq!((passed, found.status.code()), expected, "{scope}: {}{}", found.stdout, found.stderr);
            let hidden = tool(&["--kernel", "k_hidden"]);
            let said = hidden.stderr.contains("which leaves memory out; --capture-scope all holds more");
            assert!(said && hidden.status.code() == Some(9), "{scope}: {}{}", hidden.stdout, hidden.stderr);
        }
        drop(run);
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
    let verified = verify::on_file(Run::new(harness::built("omniprobe")), "verify", &file, &harness::arch(), &[]);
    // What the host changed meanwhile qualifies it.
    let passes = verified.stdout.lines().last().is_some_and(|word| word.starts_with("PASS"));
    assert!(passes && verified.status.success(), "{}{}", verified.stdout, verified.stderr);
    drop(run);
}
