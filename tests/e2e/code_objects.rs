//! Versions of the code object's ABI, and what the runtime makes of each.

use crate::bed;
use crate::compare::{Random, Type};
use crate::launch::{self, Arg, Launch};

/// Compiler, version of the ABI, optimisation, and whether the code is for the whole family of processors.
const BUILDS: &[(u32, u32, u32, bool)] = &[
    (15, 4, 0, false),
    (15, 5, 3, false),
    (19, 4, 3, false),
    (19, 5, 0, false),
    (19, 6, 0, false),
    (19, 6, 3, false),
    (19, 6, 3, true),
];

/// The processors that code for `gfx9-generic` runs on. Source: LLVM's `AMDGPUUsage`, "Generic Processors".
const GENERIC: &[&str] = &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"];

/// What is said of an object that the runtime does not load.
const REFUSED: [&str; 2] = ["FAIL hsa_executable_load_agent_code_object", "HSA_STATUS_ERROR_INVALID_CODE_OBJECT"];

/// The runtimes 5.2.3 and 6.1.2 know the versions up to 5 and refuse 6 when an object is loaded; 6.4.3 and 7.2.4 run
/// it, for a processor and for the family.
#[test]
fn each_version_of_the_code_object_is_run_as_on_the_cpu_or_refused_when_it_is_loaded() {
    let source = bed::root().join("tests/programs/opencl/bare.cl");
    let args = |size: u32| {
        let input = Random::of("neighbours").elements(Type::Int(4), 768);
        vec![Arg::Buffer(input), Arg::Buffer(vec![0; 768 * 4]), Arg::Local(4 * size)]
    };
    let launch = |size| Launch {
        kernel: "neighbours".to_owned(),
        grid: vec![768],
        workgroup: vec![size],
        lds: 0,
        args: args(size),
    };
    let launches = [launch(64), launch(256)];
    let expected = launch::on_cpu(&source, "-cl-std=CL3.0", &launches);
    let mut known = Vec::new();
    for arch in bed::archs() {
        for &(clang, abi, optimise, generic) in BUILDS {
            if generic && !GENERIC.contains(&&*arch) {
                continue;
            }
            let target = if generic { "gfx9-generic" } else { &arch };
            let object = bed::opencl_object(&source, target, clang, optimise, abi, "-nogpulib");
            match launch::try_on_gpu(&object, &arch, &launches, false) {
                Ok((got, _)) => {
                    assert!(got == expected, "{}: other results than on the CPU", object.display());
                    known.push((abi, true));
                }
                Err(outcome) if abi == 6 && REFUSED.iter().all(|said| outcome.stdout.contains(said)) => {
                    known.push((abi, false));
                }
                Err(outcome) => panic!("{}: {}{}", object.display(), outcome.stdout, outcome.stderr),
            }
        }
    }
    let mut sixth = known.iter().filter(|(abi, _)| *abi == 6).map(|(_, runs)| *runs);
    let first = sixth.next().expect("objects of version 6");
    assert!(sixth.all(|runs| runs == first), "a runtime knows a version or it does not: {known:?}");
}
