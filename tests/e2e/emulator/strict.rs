//! The emulated GPU under the real runtime: as unkind as hardware.

use std::os::unix::process::ExitStatusExt;

use crate::support::harness::{self, Run};

#[test]
fn barrier_packets_order_kernels_within_and_between_queues() {
    for arch in harness::archs() {
        Run::hsa("barriers").arch(&arch).bare().passed();
        Run::hsa("barriers").arch(&arch).watched().passed();
    }
}

#[test]
fn memory_of_the_device_is_the_hosts_only_through_a_large_aperture() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hsa("unkind").args(["vram"]).env("KFDEMU_BAR", "small").bare();
    assert_eq!((run.stdout.as_str(), run.status.signal()), ("about to read\n", Some(libc::SIGSEGV)));
    // Unless it is reached through a large aperture, as on the products that are emulated.
    Run::hsa("unkind").args(["vram"]).bare().passed();
}

#[test]
fn registered_memory_is_reached_through_the_address_for_the_gpu() {
    Run::hsa("unkind").args(["userptr"]).bare().passed();
}

#[test]
fn a_doorbell_that_is_rung_too_far_executes_what_is_in_the_ring() {
    if harness::on_hardware() {
        return;
    }
    Run::hsa("unkind").args(["stale"]).bare().passed();
}

#[test]
fn no_kernel_runs_on_when_its_queue_is_destroyed() {
    Run::hsa("unkind").args(["destroyed"]).bare().passed();
    Run::hsa("unkind").args(["destroyed"]).watched().passed();
}

#[test]
fn times_that_are_asked_for_after_the_first_packet_are_not_written() {
    let bare = Run::hsa("unkind").args(["profiling"]).bare().passed();
    if !harness::on_hardware() {
        assert!(bare.stdout.contains("ticks 0 0\n"), "{}", bare.stdout);
    }
    // The library asks before the first packet: there are times, for it and for the application.
    let watched = Run::hsa("unkind").args(["profiling"]).watched().passed();
    assert!(!watched.stdout.contains("ticks 0 0\n"), "{}", watched.stdout);
    assert!(watched.log().rows.iter().all(|r| r.flags().is_empty()));
}

#[test]
fn copies_go_right_with_and_without_copy_engines() {
    for sdma in ["0", "1"] {
        Run::hip("vectors").env("HSA_ENABLE_SDMA", sdma).bare().passed();
    }
}

#[test]
fn the_product_says_that_it_is_emulated() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("vectors").bare().passed();
    let device = run.stdout.lines().find_map(|line| line.strip_prefix("device: ")).unwrap();
    assert!(device.ends_with(" (emulated)"), "{device}");
}

#[test]
fn the_driver_leaves_the_heap_of_the_process_alone() {
    if harness::on_hardware() {
        return;
    }
    Run::hsa("heap").bare().passed();
}

#[test]
fn a_kernel_that_only_waits_is_reported_once_with_the_instructions_of_its_waves() {
    if harness::on_hardware() {
        return;
    }
    for arch in harness::archs() {
        let run = Run::hip("races").arch(&arch).env("KFDEMU_STUCK_SECONDS", "1");
        let log = run.file("kfdemu.log");
        let outcome = run.args(["stuck".as_ref(), log.as_os_str()]).bare().passed();
        let said = outcome.read("kfdemu.log");
        assert_eq!(said.matches("makes no progress").count(), 1, "{said}");
        assert!(said.contains("3 of 3 workgroups unfinished"), "{said}");
        assert!(said.contains("no progress: kernel _Z8wait_forPVjPj, kernel object 0x"), "{said}");
        // Six waves, each in one of the lines, whose instruction is one of the loop that polls.
        let places: Vec<&str> =
            said.lines().filter_map(|line| line.split_once("  pc 0x").map(|(_, place)| place)).collect();
        let others =
            |place: &str| place.split_once(" and ").map_or(0, |(_, n)| n.split(' ').next().unwrap().parse().unwrap());
        assert_eq!(places.iter().map(|place| 1 + others(place)).sum::<usize>(), 6, "{said}");
        assert!(places.iter().all(|place| place.contains("_") && place.contains("; workgroup ")), "{said}");
    }
}

#[test]
fn a_kernel_that_computes_for_long_is_not_reported() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("races").env("KFDEMU_STUCK_SECONDS", "1").args(["compute", "8000000"]);
    let said = run.bare().passed().read("kfdemu.log");
    assert!(!said.contains("makes no progress"), "{said}");
}

#[test]
fn a_thread_that_waits_for_a_kernel_leaves_the_processors_to_the_emulated_gpu() {
    if harness::on_hardware() {
        return;
    }
    for run in [Run::hip("waiting").bare(), Run::hip("waiting").watched()] {
        let run = run.passed();
        let [waited, used] = ["waited ", "used "].map(|what| -> u64 {
            let (_, number) = run.stdout.split_once(what).unwrap();
            number.split_once(" ms").unwrap().0.parse().unwrap()
        });
        // It was all of the time, or what a busy machine gave it.
        assert!(used < waited / 10, "{}", run.stdout);
    }
}
