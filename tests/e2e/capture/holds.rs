//! Captures of applications that keep the GPU busy: what is held, for how long, and what is read meanwhile.

use logdur_capture::{AllocationKind, Dispatch, Placed, Reader};

use crate::support::harness::{self, Outcome, Run};
use crate::support::versions;

/// A run that is captured, its file and its notices.
fn captured(run: Run) -> (Outcome, Reader, Vec<String>) {
    let file = run.file("run.ldcap");
    let outcome = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let notices = outcome.log().notices;
    let reader = Reader::open(&file).unwrap_or_else(|e| panic!("{e}: {notices:?}"));
    assert!(reader.check().is_clean());
    (outcome, reader, notices)
}

fn buffered(mode: &str, count: u32) -> Run {
    Run::hip("buffered").args([mode, &count.to_string()]).env("LOGDUR_CAPTURE_KERNELS", "scale")
}

fn is_whole(notices: &[String]) -> bool {
    notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses"))
}

/// The 1024 numbers that an argument points to, before and after a dispatch.
fn numbers(reader: &Reader, dispatch: &Placed<Dispatch>, argument: usize) -> [Vec<i32>; 2] {
    let address = u64::from_le_bytes(dispatch.kernarg[8 * argument..][..8].try_into().unwrap());
    [dispatch.before, dispatch.after].map(|snapshot| {
        let mut bytes = vec![0; 4096];
        reader.snapshot(snapshot.unwrap()).unwrap().read(address, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
    })
}

/// What the kernel `scale` makes of a number.
fn scaled(number: i32, rounds: i32) -> i32 {
    (0..rounds).fold(number, |sum, round| sum.wrapping_add(round & number))
}

#[test]
fn double_buffering_with_copies_that_wait_in_both_directions_is_captured_whole() {
    let mut devices = vec![("large", "1"), ("large", "0")];
    // The SDMA engines that are free can be asked for since ROCm 5.6; without them, only the aperture is left.
    if versions::hip() >= (6, 0) {
        devices.push(("small", "1"));
    }
    for (bar, sdma) in devices {
        for mode in ["both", "back"] {
            let run = buffered(mode, 4).env("KFDEMU_BAR", bar).env("HSA_ENABLE_SDMA", sdma);
            let (_, reader, notices) = captured(run.env("LOGDUR_CAPTURE_DISPATCHES", "1-4"));
            assert!(is_whole(&notices), "{mode} {bar} {sdma}: {notices:?}");
            assert_eq!(reader.dispatches().len(), 4, "{mode} {bar} {sdma}");
            for (step, dispatch) in reader.dispatches().iter().enumerate() {
                let input = if mode == "both" { step } else { step % 2 } as i32 * 17;
                let [read, still] = numbers(&reader, dispatch, 0);
                let [_, wrote] = numbers(&reader, dispatch, 1);
                assert_eq!(read, (input..input + 1024).collect::<Vec<_>>(), "{mode} {bar} {sdma}: step {step}");
                assert_eq!(still, read);
                assert_eq!(wrote, read.iter().map(|&n| scaled(n, 100)).collect::<Vec<_>>());
                assert_ne!(dispatch.held_ns, 0);
            }
        }
    }
}

#[test]
fn dispatches_are_captured_beside_a_stream_that_is_a_whole_ring_ahead() {
    let (_, reader, notices) = captured(buffered("ahead", 1).env("LOGDUR_CAPTURE_MAX_HOLD", "600"));
    assert!(is_whole(&notices), "{notices:?}");
    assert_eq!(reader.dispatches().len(), 1, "{notices:?}");
    assert!(
        notices.iter().any(|n| n.contains("scale(int const*, int*, int): 1 dispatches") && n.contains("held for "))
    );
}

#[test]
fn a_dispatch_is_held_no_longer_than_its_limit() {
    let run = Run::hip("rough").args(["other"]).env("LOGDUR_CAPTURE_KERNELS", "wait_then_write");
    let (_, reader, notices) = captured(run.env("LOGDUR_CAPTURE_MAX_HOLD", "1"));
    assert_eq!(reader.dispatches().len(), 0);
    let said = "not captured: a dispatch of queue ";
    assert!(
        notices.iter().any(|n| n.contains(said) && n.ends_with("held for 1 s, the limit of LOGDUR_CAPTURE_MAX_HOLD"))
    );
}

#[test]
fn after_eight_failures_in_a_row_nothing_more_is_captured() {
    let run = Run::hip("swaps").args(["plain"; 20]).env("LOGDUR_CAPTURE_KERNELS", "plain");
    let (_, reader, notices) =
        captured(run.env("LOGDUR_CAPTURE_DISPATCHES", "1-20").env("LOGDUR_CAPTURE_MAX_HOLD", "0"));
    assert_eq!(reader.dispatches().len(), 0);
    assert_eq!(reader.notes().iter().filter(|note| note.code == "untaken").count(), 8, "{notices:?}");
    let stopped = notices.iter().filter(|n| n.contains("nothing more is captured: 8 dispatches in a row")).count();
    assert_eq!(stopped, 1, "{notices:?}");
}

#[test]
fn memory_that_is_too_large_for_the_file_is_reduced_to_what_is_reachable() {
    let run = |bytes: &str| buffered("back", 2).env("LOGDUR_CAPTURE_MAX_BYTES", bytes);
    let reduced = "captures have the scope `reachable`";
    let (_, reader, notices) = captured(run("3M"));
    assert!(
        notices.iter().any(|n| n.contains("LOGDUR_CAPTURE_MAX_BYTES leaves") && n.ends_with(reduced)),
        "{notices:?}"
    );
    assert_eq!(reader.dispatches()[0].scope.to_string(), "Reachable");
    let [read, _] = numbers(&reader, &reader.dispatches()[0], 0);
    assert_eq!(read, (0..1024).collect::<Vec<_>>());
    let (_, reader, notices) = captured(run("8G"));
    assert!(!notices.iter().any(|n| n.ends_with(reduced)), "{notices:?}");
    assert_eq!(reader.dispatches()[0].scope.to_string(), "All");
}

#[test]
fn memory_of_another_gpu_is_captured_only_where_the_dispatchs_gpu_may_access_it() {
    if harness::on_hardware() {
        return;
    }
    let gpus = [harness::arch(), harness::arch()].join(",");
    let (_, reader, notices) = captured(Run::hip("two_gpus").env("KFDEMU_GPUS", gpus));
    assert!(is_whole(&notices), "{notices:?}");
    let of_second: Vec<_> = reader
        .records()
        .allocations
        .iter()
        .filter(|a| a.owner == 2 && matches!(a.kind, AllocationKind::DeviceCoarse | AllocationKind::DeviceFine))
        .collect();
    assert!(!of_second.is_empty());
    let has = |dispatch: &Placed<Dispatch>| {
        let ranges = reader.snapshot(dispatch.before.unwrap()).unwrap().ranges();
        of_second.iter().any(|a| ranges.iter().any(|range| range.start < a.base + a.size && a.base < range.end))
    };
    let of_first = |d: &&Placed<Dispatch>| reader.records().queues.iter().any(|q| q.id == d.queue && q.agent == 1);
    let first: Vec<_> = reader.dispatches().iter().filter(of_first).collect();
    assert!(!has(first.first().unwrap()), "no access was allowed yet");
    assert!(reader.dispatches().iter().any(has), "the second GPU's own");
}
