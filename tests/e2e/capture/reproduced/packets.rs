//! Launches that HIP refuses: their packets are given to the GPU, or the program is refused.

use std::fs;
use std::path::Path;

use amdgpu_code_object::{CodeObject, Kernel};
use logdur_capture::AllocationKind;

use super::regions::{compiled, without};
use super::{compile, failed, reproduce, run, written};
use crate::replay::region::{Story, text};
use crate::replay::verify::{WORDS, increment};
use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Run, built};
use crate::support::versions;

#[test]
fn a_workgroup_of_more_work_items_than_its_kernel_declares_is_a_packet_that_the_program_gives_to_the_gpu() {
    let arch = harness::arch();
    let keep = Run::new(built("omniprobe"));
    let mut story = Story::new();
    // `tally` declares 64, and counts once, whatever its workgroups are.
    story.steps[4].workgroup = 128;
    let file = story.write(&keep.file("a.ldcap"));
    let (outcome, folder) = compiled(&file, &[]);
    let said = "tally: a workgroup of 128 work-items, of which it declares 64 at most: HIP refuses it, so that the program gives the packet";
    assert!(outcome.stderr.contains(said), "{}", text(&outcome));
    run(&folder, &arch).passed();
    // HIP does refuse it.
    let program = folder.join("reproduce.cpp");
    let source = fs::read_to_string(&program).unwrap();
    fs::write(&program, source.replace("if (launch.is_packet) {", "if (false) {")).unwrap();
    fs::remove_file(folder.join("reproduce")).unwrap();
    compile(&folder, "c++");
    let refused = run(&folder, &arch);
    assert!(refused.status.code() == Some(2) && refused.stderr.contains("error: step 5: "), "{}", text(&refused));
    // What it does is compared.
    let (_outcome, folder) = compiled(&file, &[]);
    without(&folder, |line| line.trim_start().starts_with("{5, LAUNCH,"));
    failed(&run(&folder, &arch));
}

/// A launch of one workgroup of `kernel`, which has 64 words before and after it as their first argument, if there are some.
fn one_workgroup(
    kernel: &'static str,
    code: &Path,
    workgroup: u16,
    words: Option<[Vec<u32>; 2]>,
) -> (Captured, Kernel) {
    let code = fs::read(code).unwrap();
    let about = CodeObject::parse(&code).unwrap().kernel(kernel).unwrap().clone();
    let mut kernarg = vec![0; about.kernarg_size as usize];
    let mut buffers = Vec::new();
    if let Some([before, after]) = words {
        kernarg[..8].copy_from_slice(&WORDS.to_le_bytes());
        buffers.push(Buffer::words(WORDS, &before, &after));
    }
    let (grid, scratch) = (workgroup.into(), about.private_size);
    (Captured { kernel, code, grid, workgroup, scratch, kernarg, buffers, ..increment(&harness::arch()) }, about)
}

/// True for what the packet alone says, by the names of AMDGPUUsage.
fn is_of_packet(kind: &str) -> bool {
    let named = ["hidden_block_count_", "hidden_group_size_", "hidden_remainder_"];
    named.iter().any(|name| kind.starts_with(name))
        || ["hidden_grid_dims", "hidden_dynamic_lds_size", "hidden_none"].contains(&kind)
}

#[test]
fn a_hidden_argument_that_only_hip_can_give_keeps_a_packet_from_being_given_and_is_named() {
    let arch = harness::arch();
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("a.ldcap");
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    // Without optimisation a kernel demands all that its version of the ABI has: that of HIP's compiler, and the fifth.
    let by_hip = harness::hip_object("kernels", &arch, "-O0");
    let fifth = harness::opencl_object(&source, &arch, versions::clang_for(&arch), 0, 5, "-nogpulib");
    let mut refused = Vec::new();
    for (code, is_run) in [(by_hip, true), (fifth, false)] {
        let before: Vec<u32> = (0..1024u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let most =
            CodeObject::parse(&fs::read(&code).unwrap()).unwrap().kernel("increment").unwrap().max_flat_workgroup_size;
        let workgroup = 2 * most;
        let mut after = before.clone();
        after[..workgroup as usize].iter_mut().for_each(|word| *word = word.wrapping_add(1));
        let (captured, kernel) = one_workgroup("increment", &code, workgroup as u16, Some([before, after]));
        let what = format!("increment: a workgroup of {workgroup} work-items, of which it declares {most} at most");
        let given = format!("{what}: HIP refuses it, so that the program gives the packet to the GPU");
        for argument in kernel.hidden() {
            let kind = argument.kind.to_string();
            let mut set = captured.clone();
            set.kernarg[argument.offset as usize] = 1;
            let (outcome, folder) = reproduce(&set.write(&file), 7);
            if is_of_packet(&kind) {
                assert!(outcome.status.success() && outcome.stderr.contains(&given), "{kind}: {}", text(&outcome));
                continue;
            }
            let said = format!("{what}, and {kind}, which is HIP's: HIP refuses the launch");
            assert!(outcome.status.code() == Some(7) && outcome.stderr.contains(&said), "{kind}: {}", text(&outcome));
            assert!(!folder.exists(), "{kind}");
            refused.push(kind);
        }
        // None of them is what HIP gives to kernels that do not ask.
        let (outcome, folder) = written(&captured.write(&file), 7);
        assert!(outcome.stderr.contains(&given), "{}", text(&outcome));
        if is_run {
            compile(&folder, "c++");
            run(&folder, &arch).passed();
        }
    }
    for kind in ["hidden_hostcall_buffer", "hidden_multigrid_sync_arg", "hidden_heap_v1", "hidden_default_queue"] {
        assert!(refused.iter().any(|of| of == kind), "{kind} is none of {refused:?}");
    }
}

#[test]
fn a_variable_whose_memory_is_hips_keeps_a_packet_from_being_given_and_is_named() {
    let arch = harness::arch();
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("a.ldcap");
    let of_64 = "-O3 --gpu-max-threads-per-block=64";
    let step = harness::hip_object("own_variables", &arch, of_64);
    let square = harness::hip_object("memory", &arch, of_64);
    let of_step = |workgroup: u16| {
        let after = (0..u32::from(workgroup)).map(|n| n + 3).collect();
        let (mut captured, _) = one_workgroup("step", &step, workgroup, Some([vec![0; workgroup.into()], after]));
        let bytes = |word: u32| word.to_le_bytes().to_vec();
        captured.variables = vec![("shared_by_both", bytes(3), bytes(8))];
        captured
    };
    // HIP launches what a kernel declares, with its variables.
    let (_outcome, folder) = written(&of_step(64).write(&file), 7);
    compile(&folder, "c++");
    run(&folder, &arch).passed();
    let managed = {
        let (mut captured, _) = one_workgroup("_Z14square_managedv", &square, 128, None);
        let before: Vec<u32> = (0..256).collect();
        let after: Vec<u32> = before.iter().map(|n| if *n < 128 { n * n } else { *n }).collect();
        captured.buffers = vec![Buffer { kind: AllocationKind::Managed, ..Buffer::words(WORDS, &before, &after) }];
        let pointer = WORDS.to_le_bytes().to_vec();
        captured.variables = vec![("managed_words", pointer.clone(), pointer)];
        captured
    };
    for (captured, kernel, variable) in
        [(of_step(128), "step", "shared_by_both"), (managed, "_Z14square_managedv", "managed_words")]
    {
        let (outcome, folder) = reproduce(&captured.write(&file), 7);
        let said = format!(
            "{kernel}: a workgroup of 128 work-items, of which it declares 64 at most, and variables, which are HIP's ({variable}): HIP \
             refuses the launch"
        );
        assert!(outcome.status.code() == Some(7) && outcome.stderr.contains(&said), "{said}: {}", text(&outcome));
        assert!(!folder.exists());
    }
}
