//! Which instructions of a kernel the emulated GPU's tables lack, of code that LLVM makes; and code that is damaged.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use amdgpu_listing::{Arch, Listing, Which, missing};

/// Compiles OpenCL C; the code object.
fn compile(arch: &str, source: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(format!("{arch}-{}.co", std::thread::current().name().expect("a test").replace(':', "_")));
    let mut command = Command::new("clang-19");
    command.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-g", "-"]);
    command.arg(format!("-mcpu={arch}")).arg("-o").arg(&output).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("clang reads its input");
    assert!(child.wait().expect("clang ends").success());
    std::fs::read(output).expect("clang has written its output")
}

fn names(code: &[u8], arch: Arch, kernel: &str) -> Vec<String> {
    let found = missing(code, arch, kernel).expect("a kernel");
    found.iter().map(|m| m.name.map_or_else(|| m.why.to_string(), str::to_owned)).collect()
}

#[test]
fn what_the_tables_lack_is_named_and_what_no_wave_gets_to_is_not() {
    let source = r#"
        kernel void plain(global float* out) { out[0] += 1; }
        kernel void three(global float* out, int n) {
            if (n > 3)
                __asm__ volatile("s_atc_probe 0x7, s[4:5], 0x64\n\ts_dcache_discard s[4:5], 0x40");
            else
                __asm__ volatile("s_movrels_b32 s4, s5" ::: "s4");
            out[0] = n;
        }
        kernel void data() { __asm__ volatile("s_endpgm\n\t.long 0xffffffff\n\t.long 0xf0001234"); }
        kernel void jump() { __asm__ volatile("s_branch 1\n\t.long 0xffffffff\n\ts_nop 0"); }
        kernel void wild() { __asm__ volatile(".long 0xc7ffffff\n\t.long 0"); }
    "#;
    let code = compile("gfx942", source);
    for kernel in ["plain", "data", "jump"] {
        assert_eq!(names(&code, Arch::Gfx942, kernel), [""; 0], "{kernel}");
    }
    let mut found = names(&code, Arch::Gfx942, "three");
    found.sort_unstable();
    assert_eq!(found, ["s_atc_probe", "s_dcache_discard", "s_movrels_b32"]);
    assert_eq!(names(&code, Arch::Gfx942, "wild"), ["unknown encoding"]);
    let said = missing(&code, Arch::Gfx942, "wild").expect("a kernel")[0].to_string();
    assert!(said.starts_with("unknown encoding at 0x") && said.ends_with("(c7ffffff 00000000)"), "{said}");
    assert!(missing(&code, Arch::Gfx942, "nothing").is_err());
}

#[test]
fn code_that_ends_with_a_call_lacks_no_instruction() {
    // As a function that calls `abort` at last, which does not return.
    let source = r#"
        kernel void last() { __asm__ volatile(
            "s_cbranch_scc1 2\n\t"
            "s_endpgm\n\t"
            "s_nop 0\n\t"
            "s_getpc_b64 s[12:13]\n\t"
            "s_swappc_b64 s[18:19], s[12:13]\n\t"
            ".size last, .-last\n\t"
            ".section .other,\"\",@progbits" ::: "s12", "s13", "s18", "s19"); }
    "#;
    let code = compile("gfx90a", source);
    assert_eq!(names(&code, Arch::Gfx90a, "last"), [""; 0]);
}

#[test]
fn functions_count_for_the_kernels_that_call() {
    let source = r#"
        __attribute__((noinline)) int called(int n) { __asm__ volatile("s_setkill 0"); return n * n; }
        kernel void calls(global int* out) { out[0] = called(out[1]); }
        kernel void alone(global int* out) { out[0] = 1; }
    "#;
    let code = compile("gfx90a", source);
    assert_eq!(names(&code, Arch::Gfx90a, "calls"), ["s_setkill"]);
    assert_eq!(names(&code, Arch::Gfx90a, "alone"), [""; 0]);
}

#[test]
fn all_of_a_kernel_counts_that_jumps_by_address() {
    let source = r#"
        kernel void far() {
            __asm__ volatile("s_getpc_b64 s[4:5]\n\ts_add_u32 s4, s4, 20\n\ts_addc_u32 s5, s5, 0\n\ts_setpc_b64 s[4:5]\n\t"
                             "s_nop 0\n\ts_nop 0\n\ts_movreld_b32 s4, s5" ::: "s4", "s5");
        }
    "#;
    let code = compile("gfx906", source);
    assert_eq!(names(&code, Arch::Gfx906, "far"), ["s_movreld_b32"]);
}

#[test]
fn damaged_code_objects_are_listed_as_far_as_they_go_or_refused() {
    let source = "
        __attribute__((noinline)) int called(int n) { return n * n; }
        kernel void calls(global int* out) { for (int i = 0; i < out[9]; ++i) out[i] = called(out[1]); }
    ";
    let whole = compile("gfx90a", source);
    let (mut listed, mut refused) = (0, 0);
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        for value in [0xff, bytes[at] ^ 0x08] {
            bytes[at] = value;
            let _ = missing(&bytes, Arch::Gfx90a, "calls");
            match Listing::of("a test", &bytes, Which::All) {
                Ok(listing) => {
                    listed += 1;
                    let words: usize = listing.parts.iter().flat_map(|p| listing.lines(p)).map(|l| l.words.len()).sum();
                    assert!(4 * words <= bytes.len() + 4 * listing.parts.len(), "byte {at}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(listed > 100 && refused > 10, "{listed} listed, {refused} refused");
}
