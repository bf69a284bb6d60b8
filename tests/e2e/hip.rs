//! HIP's breadth: programs that compare everything with the host, optimized and not, on every processor, watched or not.

use crate::bed::{self, Run};

/// Runs a program in every way; with the library, the log must account for every dispatch.
fn in_every_way(program: &str) {
    for level in ["-O3", "-O0"] {
        let binary = bed::hip_optimized(program, level);
        for arch in bed::archs() {
            Run::new(binary.clone()).arch(&arch).bare().passed();
            let watched = Run::new(binary.clone()).arch(&arch).watched().passed();
            let log = watched.log();
            let emulated = watched.trace().iter().filter(|packet| packet["type"] == "KernelDispatch").count();
            if !bed::on_hardware() {
                assert!(!log.rows.is_empty() && log.rows.len() <= emulated, "{} rows of {emulated}", log.rows.len());
            }
        }
    }
}

/// One story for each program of `tests/programs`.
macro_rules! stories {
    ($($story:ident $program:literal;)*) => {
        $(#[test]
        fn $story() {
            in_every_way($program);
        })*
    };
}

stories! {
    integers_of_every_width_compute_as_on_the_host "integers";
    mathematical_functions_are_within_their_bounds "functions";
    halves_are_rounded_once_alone_and_packed "halves";
    lanes_exchange_values_in_every_way "lanes";
    atomic_operations_lose_nothing_in_a_crowd "atomics";
    private_arrays_recursion_and_pointers_to_functions_work "calls";
    local_memory_is_shared_by_the_workgroup_alone "local_memory";
    matrix_instructions_sum_products_of_every_shape "matrices";
    every_kind_of_memory_is_where_the_runtime_says "memory";
    copies_and_fills_write_their_bytes_and_no_others "copies";
    streams_run_side_by_side_and_wait_when_told "streams";
    graphs_do_what_was_captured_or_built "graphs";
    grids_have_every_work_item_once "grids";
    modules_are_loaded_from_files_memory_and_source "modules";
    kernels_print_what_the_host_would "printing";
}
