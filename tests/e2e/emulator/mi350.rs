//! The processor of MI350, on a ROCm that knows it: programs in HIP and kernels of Triton, against the host and NumPy.

use crate::emulator::{hip, triton};
use crate::instrument::kernels;
use crate::support::harness::{self, Run};
use crate::support::versions;

const ARCH: &str = "gfx950";

/// Programs of `tests/programs` for every processor.
const PROGRAMS: &[&str] = &[
    "integers",
    "functions",
    "halves",
    "lanes",
    "atomics",
    "calls",
    "whole",
    "local_memory",
    "memory",
    "reached",
    "copies",
    "streams",
    "grids",
    "groups",
    "modules",
    "printing",
];

#[test]
fn programs_of_every_processor_compute_as_on_the_host() {
    for program in PROGRAMS {
        hip::only_on(ARCH, versions::hip_knows_gfx950(), program);
    }
}

#[test]
fn products_of_floats_of_eight_six_and_four_bits_with_scales_are_those_of_the_host() {
    hip::only_on(ARCH, versions::hip_knows_gfx950(), "scaled_matrices");
}

#[test]
fn local_memory_of_160_kilobytes_is_there_as_a_whole_and_no_more() {
    hip::only_on(ARCH, versions::hip_knows_gfx950(), "large_local_memory");
}

#[test]
fn the_product_that_is_chosen_among_those_with_the_processor_says_its_name() {
    if versions::hip_knows_gfx950() && !harness::on_hardware() {
        for (gpus, name) in [(ARCH, "MI350X"), ("gfx950:mi355x", "MI355X")] {
            let program = harness::hip_targets("large_local_memory", &[ARCH]);
            let run = Run::new(program).arch(ARCH).env("KFDEMU_GPUS", gpus).bare().passed();
            assert!(run.stdout.contains(&format!("AMD Instinct {name} (emulated): ")), "{}", run.stdout);
        }
    }
}

#[test]
fn kernels_of_triton_with_floats_of_eight_and_four_bits_compute_what_numpy_computes() {
    triton::only_on(ARCH, versions::knows_gfx950());
}

#[test]
fn kernels_instrumented_by_hand_and_by_the_pass_send_what_they_access() {
    hip::only_on(ARCH, versions::hip_knows_gfx950(), "by_hand");
    if versions::hip_knows_gfx950() && !harness::on_hardware() {
        kernels::clones_send_what_kernels_access(ARCH, "-O3");
    }
}
