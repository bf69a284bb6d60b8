//! What others say of the same bytes: LLVM's disassembler of our decoder, a C compiler of our layouts.

use std::path::{Path, PathBuf};
use std::process::Command;

use amdgpu_isa::Arch;
use amdgpu_isa::decode::Decoder;
use amdgpu_isa::disasm::Disassembly;
use object::{Object, ObjectSection};

use crate::support::harness;

/// An instruction as `llvm-objdump` prints it: its text, address and words.
struct Line {
    text: String,
    address: u64,
    words: Vec<u32>,
}

fn objdump(file: &Path) -> Vec<Line> {
    let output = Command::new("llvm-objdump-19").args(["-d", "--no-show-raw-insn"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().filter_map(line).collect()
}

/// `\ts_nop 0 // 000000001234: BF800000 <symbol+0x3c>`
fn line(text: &str) -> Option<Line> {
    let (instruction, comment) = text.strip_prefix('\t')?.split_once("//")?;
    let (address, words) = comment.trim().split_once(": ")?;
    let words = words.split_whitespace().take_while(|w| !w.starts_with('<'));
    Some(Line {
        text: instruction.trim().to_owned(),
        address: u64::from_str_radix(address, 16).ok()?,
        words: words.map(|w| u32::from_str_radix(w, 16).unwrap()).collect(),
    })
}

/// The code objects of a HIP program for each processor, from its `.hip_fatbin`.
fn code_objects(program: &Path) -> Vec<(Arch, PathBuf)> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let bundle = file.section_by_name(".hip_fatbin").unwrap().data().unwrap();
    let mut found = Vec::new();
    for arch in harness::archs() {
        let output = harness::programs().join(format!("{}.{arch}.co", program.file_name().unwrap().display()));
        std::fs::write(&output, code_object(bundle, &arch)).unwrap();
        found.push((arch.parse().unwrap(), output));
    }
    found
}

/// One code object of a clang offload bundle. Source: clang's documentation, "Bundled Binary File Layout".
fn code_object<'a>(bundle: &'a [u8], arch: &str) -> &'a [u8] {
    let number = |at: usize| u64::from_le_bytes(bundle[at..at + 8].try_into().unwrap()) as usize;
    assert!(bundle.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"));
    let mut at = 32;
    for _ in 0..number(24) {
        let (offset, size, length) = (number(at), number(at + 8), number(at + 16));
        let triple = std::str::from_utf8(&bundle[at + 24..at + 24 + length]).unwrap();
        if triple.ends_with(arch) {
            return &bundle[offset..offset + size];
        }
        at += 24 + length;
    }
    panic!("no code for {arch}");
}

#[test]
fn every_instruction_of_the_programs_reads_as_llvm_reads_it() {
    let mut objects: Vec<(Arch, PathBuf)> =
        harness::archs().iter().map(|arch| (arch.parse().unwrap(), harness::kernels(arch))).collect();
    for program in ["vectors", "throughput", "launch"] {
        objects.extend(code_objects(&harness::hip(program)));
    }
    let mut compared = 0;
    for (arch, file) in objects {
        let decoder = Decoder::new(arch);
        for line in objdump(&file) {
            // Data between functions, and what the test programs mean to be no instruction.
            if line.text.starts_with(".long") {
                continue;
            }
            let mut words = [0; 4];
            words[..line.words.len()].copy_from_slice(&line.words);
            let inst = decoder.decode(&words);
            let inst = inst.unwrap_or_else(|e| panic!("{}: {:#x}: {}: {e}", file.display(), line.address, line.text));
            let ours = Disassembly { inst: &inst, arch }.to_string();
            assert_eq!(same_form(&ours), same_form(&line.text), "{} at {:#x}", file.display(), line.address);
            assert_eq!(usize::from(inst.size), 4 * line.words.len(), "{} at {:#x}", file.display(), line.address);
            compared += 1;
        }
    }
    assert!(compared > 1000, "only {compared} instructions");
}

/// Without differences of spelling: spaces.
fn same_form(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_extension_table_of_the_runtime_is_laid_out_as_we_think() {
    let entries: &[(&str, usize)] = &[
        ("hsa_amd_memory_async_copy_fn", std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_memory_async_copy_fn)),
        ("hsa_amd_signal_create_fn", std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_signal_create_fn)),
        (
            "hsa_amd_queue_intercept_create_fn",
            std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_queue_intercept_create_fn),
        ),
        (
            "hsa_amd_queue_intercept_register_fn",
            std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_queue_intercept_register_fn),
        ),
        (
            "hsa_amd_profiling_set_profiler_enabled_fn",
            std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_profiling_set_profiler_enabled_fn),
        ),
        (
            "hsa_amd_memory_async_copy_rect_fn",
            std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_memory_async_copy_rect_fn),
        ),
        ("hsa_amd_queue_cu_get_mask_fn", std::mem::offset_of!(hsa_sys::raw::AmdExtTable, hsa_amd_queue_cu_get_mask_fn)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("offsets.cpp");
    let mut text = "#define AMD_INTERNAL_BUILD\n#include <cstddef>\n#include <cstdio>\n#include <hsa/hsa_api_trace.h>\nint main() {\n".to_owned();
    text += "std::printf(\"%zu\\n\", sizeof(AmdExtTable));\n";
    for (name, _) in entries {
        text += &format!("std::printf(\"%zu\\n\", offsetof(AmdExtTable, {name}));\n");
    }
    std::fs::write(&source, text + "}\n").unwrap();
    let program = folder.path().join("offsets");
    let include = harness::rocm().unwrap_or("/usr".into()).join("include");
    // The installed header includes its neighbours by their bare names.
    let mut compiler = Command::new("c++");
    compiler.arg("-w").arg("-I").arg(&include).arg("-I").arg(include.join("hsa"));
    let compiled = compiler.arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let text = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let mut numbers = text.lines().map(|line| line.parse::<usize>().unwrap());
    let size = numbers.next().unwrap() as u32;
    let layout = hsa_sys::table::AmdExtLayout::of_size(size);
    for ((name, newest), offset) in entries.iter().zip(numbers) {
        assert_eq!(layout.offset(*newest, size), Some(offset), "{name} in a table of {size} bytes");
    }
}
