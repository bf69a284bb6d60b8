//! Captures of memory that is mapped rather than allocated: by the application's own calls, of another process. Who
//! runs the dispatch again has it as memory of a pool, at its addresses.

use logdur_capture::{AllocationKind, Reader};

use crate::bed::{self, Run};
use crate::{twins, versions};

/// Captures the one kernel of a program that works in memory of a kind; a fresh process computes the same, its twins
/// do not.
fn computed_again(program: &str, kind: AllocationKind) {
    for arch in bed::archs() {
        let run = Run::hsa(program).arch(&arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
        let reader = Reader::open(&file).unwrap();
        let dispatch = &reader.dispatches()[0];
        let at = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
        let around = |a: &&logdur_capture::Placed<logdur_capture::Allocation>| (a.base..a.base + a.size).contains(&at);
        let allocations = reader.allocations_at(dispatch.place);
        let allocation = allocations.iter().copied().find(around).unwrap_or_else(|| panic!("{at:#x}: {allocations:?}"));
        assert_eq!(allocation.kind, kind, "{program} on {arch}: {:?}", run.log().notices);
        assert_eq!(twins::fail(&file, &arch), 1, "{program} on {arch}");
    }
}

#[test]
fn memory_that_the_application_maps_is_captured_and_a_fresh_process_computes_the_same() {
    if versions::has_virtual_memory() {
        computed_again("virtual_memory", AllocationKind::Virtual);
    }
}

#[test]
fn memory_of_another_process_is_captured_and_a_fresh_process_computes_the_same() {
    if versions::attaches_by_the_driver() {
        computed_again("attached_memory", AllocationKind::Ipc);
    }
}
