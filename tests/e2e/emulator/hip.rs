//! HIP's breadth: programs that compare everything with the host, optimized and not, on every processor, watched or not.

use std::os::unix::process::ExitStatusExt;

use crate::support::harness::{self, Run};
use crate::support::versions;

/// How a program is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Levels {
    /// The optimizer's best, and code as it was written: other instructions, and scratch memory everywhere.
    Both,
    /// The best only: the kernels are the runtime's own, or a library's that takes long to compile.
    Best,
}
use Levels::{Best, Both};

/// Runs a program in every way; with the library, the log must account for every dispatch.
fn in_every_way(program: &str, levels: Levels) {
    let unoptimized = Some(versions::unoptimized()).filter(|_| levels == Both);
    for level in std::iter::once("-O3").chain(unoptimized) {
        let binary = harness::hip_optimized(program, level);
        for arch in harness::archs() {
            Run::new(binary.clone()).arch(&arch).bare().passed();
            let watched = Run::new(binary.clone()).arch(&arch).watched().passed();
            let log = watched.log();
            let emulated = watched.trace().iter().filter(|packet| packet["type"] == "KernelDispatch").count();
            if !harness::on_hardware() {
                assert!(!log.rows.is_empty() && log.rows.len() <= emulated, "{} rows of {emulated}", log.rows.len());
            }
        }
    }
}

/// One story for each program of `tests/programs`.
macro_rules! stories {
    ($($story:ident $program:literal $levels:ident;)*) => {
        $(#[test]
        fn $story() {
            in_every_way($program, $levels);
        })*
    };
}

stories! {
    integers_of_every_width_compute_as_on_the_host "integers" Both;
    mathematical_functions_are_within_their_bounds "functions" Both;
    halves_are_rounded_once_alone_and_packed "halves" Both;
    lanes_exchange_values_in_every_way "lanes" Both;
    atomic_operations_lose_nothing_in_a_crowd "atomics" Both;
    private_arrays_recursion_and_pointers_to_functions_work "calls" Both;
    aligned_words_of_up_to_sixteen_bytes_are_read_and_written_whole "whole" Best;
    waves_that_race_or_wait_for_each_other_all_end "races" Best;
    local_memory_is_shared_by_the_workgroup_alone "local_memory" Both;
    matrix_instructions_sum_products_of_every_shape "matrices" Both;
    every_kind_of_memory_is_where_the_runtime_says "memory" Both;
    kernels_get_to_their_memory_in_every_way "reached" Both;
    copies_and_fills_write_their_bytes_and_no_others "copies" Best;
    streams_run_side_by_side_and_wait_when_told "streams" Both;
    graphs_do_what_was_captured_or_built "graphs" Both;
    grids_have_every_work_item_once "grids" Both;
    groups_within_a_block_know_their_members "groups" Both;
    modules_are_loaded_from_files_memory_and_source "modules" Both;
    kernels_print_and_allocate_as_the_host_would "printing" Both;
    kernels_of_rocprim_sort_scan_reduce_and_select_as_the_host "primitives" Best;
}

#[test]
fn loads_into_half_of_a_register_do_with_the_other_half_what_the_device_says_that_it_has() {
    if harness::on_hardware() {
        return;
    }
    for arch in harness::archs().iter().filter(|&arch| arch != "gfx900") {
        // Code for both, and code for the one: then the compiler makes use of it that the other half is kept.
        for (feature, said) in [("", "cleared"), (":sramecc+", "cleared"), (":sramecc-", "kept")] {
            let target = format!("{arch}{feature}");
            let programs = [harness::hip("half_loads"), harness::hip_targets("half_loads", &[&target])];
            for program in programs {
                let run = Run::new(program).arch(arch).env("KFDEMU_GPUS", &target).bare().passed();
                assert!(run.stdout.lines().next().is_some_and(|line| line.ends_with(said)), "{target}: {}", run.stdout);
            }
        }
    }
}

/// A program of what one processor has, where the ROCm to test on knows it.
pub(super) fn only_on(arch: &str, is_known: bool, program: &str) {
    let here = !harness::on_hardware() || harness::archs().iter().any(|other| other == arch);
    if here && is_known {
        let binary = harness::hip_targets(program, &[arch]);
        Run::new(binary.clone()).arch(arch).bare().passed();
        Run::new(binary).arch(arch).watched().passed();
    }
}

/// A program of what only MI300 has.
fn on_gfx942(program: &str) {
    only_on("gfx942", versions::knows_gfx942(), program);
}

#[test]
fn floats_of_eight_bits_and_sparse_matrices_are_converted_and_multiplied_as_documented() {
    on_gfx942("small_floats");
}

#[test]
fn loads_into_local_memory_write_a_dword_for_each_lane() {
    on_gfx942("loads_to_lds");
}

#[test]
fn an_assertion_that_fails_on_the_device_is_reported_by_every_lane_and_ends_the_kernel() {
    for arch in harness::archs() {
        let run = Run::hip("printing").arch(&arch).args(["assert"]).bare();
        let said = run.stderr.matches("Device-side assertion `int(threadIdx.x) < most").count();
        let lines = versions::own_lines(&run.stdout);
        let went_on = lines.iter().find_map(|line| line.strip_prefix("the program went on: "));
        // HIP 7 makes a status of the device of what goes wrong on it.
        let end =
            if versions::hip() >= (7, 0) { (None, Some("hipErrorLaunchFailure")) } else { (Some(libc::SIGABRT), None) };
        assert_eq!((said, (run.status.signal(), went_on)), (3, end), "{}\n{}", run.stdout, run.stderr);
    }
}
