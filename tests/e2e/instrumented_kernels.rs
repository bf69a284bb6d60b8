//! Kernels that are instrumented by hand or by the compiler's pass: what they send, against what they do.

use crate::harness::{self, Run};

/// Compiles without warnings.
const STRICT: &str = "-O3 -Wall -Wextra -Werror";

#[test]
fn a_kernel_instrumented_by_hand_sends_what_its_lanes_do_also_when_buffers_are_full() {
    for arch in harness::archs() {
        Run::new(harness::hip_optimized("by_hand", STRICT)).arch(&arch).bare().passed();
    }
}

#[test]
fn the_header_names_the_processors_that_it_supports() {
    let source = "#include \"logdur_device.h\"\n";
    let run = Run::hip("by_hand");
    let file = run.file("empty.hip");
    std::fs::write(&file, source).unwrap();
    let mut command = harness::hipcc();
    command.args(["-std=c++14", "-nogpuinc", "--cuda-device-only", "--offload-arch=gfx1030", "-c"]).arg(&file);
    let outcome = run.finish({
        command.arg("-I").arg(harness::root().join("include"));
        command
    });
    assert!(!outcome.status.success() && outcome.stderr.contains("supports gfx900, gfx906"), "{}", outcome.stderr);
}
