//! Boards of MI300 and MI350 as they are used: divided into partitions, with several dies in one dispatch, with masks of compute units, and as an APU.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::analyze::instructions;
use crate::emulator::triton;
use crate::support::harness::{self, Run};
use crate::support::versions;

/// A program on boards that `gpus` says, with the numbers of units that these have.
fn on_boards(program: &str, gpus: &str, units: &str) -> Run {
    let arch = gpus.split([':', ',']).next().unwrap();
    let binary = harness::hip_targets(program, &[arch]);
    Run::new(binary).arch(arch).env("KFDEMU_GPUS", gpus).env("KFDEMU_CUS", units)
}

/// True where a story of these boards can run on the ROCm to test on.
fn is_known(gpus: &str) -> bool {
    let known = if gpus.starts_with("gfx950") { versions::hip_knows_gfx950() } else { versions::knows_gfx942() };
    known && !harness::on_hardware()
}

#[test]
fn workgroups_run_on_every_die_in_turn_and_with_a_mask_on_its_units_alone() {
    for (gpus, units, said) in [
        ("gfx942", "product", "304 units on 8 dies, from die 0"),
        ("gfx942:mi300a", "product", "228 units on 6 dies, from die 0"),
        ("gfx942:dpx", "64", "32 units on 4 dies, from die 0"),
        ("gfx942:cpx", "product", "38 units on 1 dies, from die 0"),
        ("gfx942:mi300a:tpx", "product", "76 units on 2 dies, from die 0"),
        ("gfx950:mi355x", "64", "64 units on 8 dies, from die 0"),
        ("gfx950:dpx", "product", "128 units on 4 dies, from die 0"),
        ("gfx950:mi355x:cpx:nps2", "product", "32 units on 1 dies, from die 0"),
    ] {
        if is_known(gpus) {
            let run = on_boards("units", gpus, units).bare().passed();
            assert!(run.stdout.starts_with(said), "{gpus}: {}", run.stdout);
            assert!(run.stdout.contains("\nmasks of "), "{gpus}: {}", run.stdout);
        }
    }
    // Partitions behind the first have other dies.
    for (gpus, partition, said) in [
        ("gfx942:cpx", "2", "8 units on 1 dies, from die 2\n"),
        ("gfx942:qpx", "3", "16 units on 2 dies, from die 6\n"),
        ("gfx950:dpx", "1", "32 units on 4 dies, from die 4\n"),
    ] {
        if is_known(gpus) {
            let run = on_boards("units", gpus, "64").env("HIP_VISIBLE_DEVICES", partition).bare().passed();
            assert!(run.stdout.starts_with(said), "{gpus}: {}", run.stdout);
        }
    }
}

#[test]
fn processors_of_one_die_have_masks_too() {
    if harness::on_hardware() {
        return;
    }
    for arch in harness::archs() {
        let run = Run::hip("units").arch(&arch).env("KFDEMU_CUS", "32").bare().passed();
        assert!(run.stdout.contains("32 units on"), "{arch}: {}", run.stdout);
    }
}

#[test]
fn a_queue_has_the_mask_that_it_was_given_and_no_other_queue_has_it() {
    let told = if versions::tells_masks() { "tells" } else { "forgets" };
    for arch in harness::archs() {
        Run::hsa("cu_masks").arch(&arch).args([told]).bare().passed();
        Run::hsa("cu_masks").arch(&arch).args([told]).watched().passed();
    }
    for (gpus, units) in [("gfx942", 304), ("gfx942:cpx", 38), ("gfx942:mi300a:tpx", 76)] {
        if is_known(gpus) {
            let run = Run::hsa("cu_masks").arch("gfx942").env("KFDEMU_GPUS", gpus).env("KFDEMU_CUS", "product");
            let run = run.args([told]).bare().passed();
            assert!(run.stdout.starts_with(&format!("{units} units\n")), "{gpus}: {}", run.stdout);
        }
    }
}

#[test]
fn a_mask_without_units_of_a_die_holds_the_dispatch_for_ever_and_the_log_says_why() {
    if !is_known("gfx942") {
        return;
    }
    let run = on_boards("units", "gfx942", "64").args(["hangs", "5"]);
    let log = run.file("kfdemu.log");
    let mut child = run.command().stdout(Stdio::null()).spawn().unwrap();
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let begun = Instant::now();
    while !said().contains("has no compute unit of XCC 5") {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none(), "{}", said());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(child.try_wait().unwrap().is_none(), "the kernel never ends");
    child.kill().unwrap();
    child.wait().unwrap();
    // With a unit of each die, it ends.
    on_boards("units", "gfx942", "64").args(["hangs", "8"]).bare().passed();
}

#[test]
fn each_partition_is_a_gpu_with_its_part_of_units_and_memory_at_an_address_of_its_own() {
    for (gpus, count, name, units, memory) in [
        ("gfx942", 1, "MI300X", 304, 16384),
        ("gfx942:mi300x:cpx", 8, "MI300X", 38, 2048),
        ("gfx942:qpx:nps4", 4, "MI300X", 76, 4096),
        ("gfx942:mi300x:dpx,gfx942:cpx", 10, "MI300X", 152, 8192),
        ("gfx950:mi350x:cpx:nps2", 8, "MI350X", 32, 2048),
    ] {
        if !is_known(gpus) {
            continue;
        }
        let run = on_boards("partitions", gpus, "product").bare().passed();
        assert!(run.stdout.starts_with(&format!("{count} GPUs\n")), "{gpus}: {}", run.stdout);
        let first = format!("gpu 0: AMD Instinct {name} (emulated), {units} units, {memory} MiB, integrated 0\n");
        assert!(run.stdout.contains(&first), "{gpus}: {}", run.stdout);
        let many = on_boards("many_gpus", gpus, "64").watched().passed();
        let log = many.log();
        let gpus_in_log: BTreeSet<&str> = log.rows.iter().map(|row| row.text("agent")).collect();
        assert_eq!(gpus_in_log.len(), count, "{gpus}");
    }
}

#[test]
fn files_of_a_board_say_how_it_is_divided_and_how_it_can_be() {
    if harness::on_hardware() {
        return;
    }
    for (gpus, current, available, memory) in [
        ("gfx942", "SPX", "SPX, DPX, QPX, CPX", "NPS1"),
        ("gfx942:cpx:nps4", "CPX", "SPX, DPX, QPX, CPX", "NPS4"),
        ("gfx942:mi300a:tpx", "TPX", "SPX, TPX, CPX", "NPS1"),
        ("gfx950:mi355x:dpx", "DPX", "SPX, DPX, QPX, CPX", "NPS1"),
    ] {
        let said = |name: &str| {
            let file = format!("/sys/class/drm/card0/device/{name}");
            Run::new("/bin/cat".into()).args([file]).env("KFDEMU_GPUS", gpus).bare().stdout
        };
        let found = ["current_compute_partition", "available_compute_partition", "current_memory_partition"].map(said);
        assert_eq!(found, [current, available, memory].map(|text| format!("{text}\n")), "{gpus}");
    }
}

#[test]
fn peaks_are_those_of_the_board_that_a_dispatch_was_captured_on() {
    for (gpus, product) in [("gfx942:mi300a", "MI300A"), ("gfx950:mi350x", "MI350X"), ("gfx950:mi355x", "MI355X")] {
        if !is_known(gpus) {
            continue;
        }
        let run = on_boards("analyzed", gpus, "64");
        let capture = run.file("a.ldcap");
        let outcome = run.env("LOGDUR_CAPTURE", &capture).watched().passed();
        let (status, all, said) = instructions::analyzed(&capture, &["-k", "divergent"]);
        assert_eq!(status, 0, "{said}");
        let expected = format!("AMD Instinct {product}");
        assert_eq!(all[0]["roofline"]["published_peaks_of"], *expected, "{gpus}");
        drop(outcome);
    }
}

#[test]
fn an_apu_has_the_memory_of_its_host_and_shares_it() {
    if !is_known("gfx942") {
        return;
    }
    let run = on_boards("partitions", "gfx942:mi300a", "product").env("KFDEMU_BAR", "small").bare().passed();
    let line = run.stdout.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with("gpu 0: AMD Instinct MI300A (emulated), 228 units, "), "{line}");
    let information = fs::read_to_string("/proc/meminfo").unwrap();
    let kibibytes =
        information.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let mebibytes: u64 = kibibytes.map(|kib: u64| kib >> 10).unwrap();
    assert!(line.contains(&format!(", {mebibytes} MiB, ")), "{line}; the host has {mebibytes} MiB");
    // HIP says so from version 6 on.
    assert!(versions::hip() < (6, 0) || line.ends_with("integrated 1"), "{line}");
}

#[test]
fn a_division_that_a_board_does_not_have_is_refused_by_name() {
    if !is_known("gfx942") {
        return;
    }
    let run = on_boards("many_gpus", "gfx942:tpx", "8").bare();
    let log = run.read("kfdemu.log");
    assert!(!run.status.success() && log.contains("\"tpx\", expected spx, dpx, qpx, cpx"), "{log}");
}

#[test]
fn kernels_of_triton_with_floats_of_eight_and_four_bits_compute_what_numpy_computes_on_mi300() {
    triton::only_on("gfx942", versions::knows_gfx942());
}
