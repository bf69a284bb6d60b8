//! Code objects as a loader lays them out, against the bytes and relocations that `llvm-readelf` and `llvm-objcopy` show.

use std::fs;
use std::process::Command;

use amdgpu_code_object::load;

use crate::compiled::{self, folder, run};

/// Where code objects are laid out.
const BASE: u64 = 0x7f12_3450_0000;

/// A number in hexadecimal.
fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

#[test]
fn addresses_are_stored_where_relocations_say_and_all_else_is_as_in_the_file() {
    let mut compared = 0;
    for path in compiled::hip_objects() {
        let bytes = fs::read(&path).expect("a code object");
        let loaded = load::load(&bytes, BASE, |_| None).expect("a code object that can be loaded");
        let at = |address: u64, size: usize| &loaded.bytes[(address - loaded.first) as usize..][..size];
        let text = run(Command::new("llvm-readelf-19").args(["--relocs", "--wide"]).arg(&path));
        let mut changed = Vec::new();
        for line in text.lines() {
            // Offset, info, type, then the symbol's value, name and addend, or the addend alone.
            let words: Vec<&str> = line.split_whitespace().collect();
            let (offset, kind, value) = match words[..] {
                [offset, _, "R_AMDGPU_RELATIVE64", addend] => (hex(offset), "R_AMDGPU_RELATIVE64", hex(addend)),
                [offset, _, kind, value, _, "+", addend] if kind.starts_with("R_AMDGPU") => {
                    (hex(offset), kind, hex(value) + hex(addend))
                }
                _ => continue,
            };
            assert!(["R_AMDGPU_RELATIVE64", "R_AMDGPU_ABS64"].contains(&kind), "{line}");
            let stored = at(offset, 8).try_into().map(u64::from_le_bytes).expect("eight bytes");
            assert_eq!(stored, BASE - loaded.first + value, "{}: {line}", path.display());
            compared += 1;
            changed.push(offset..offset + 8);
        }
        let sections = run(Command::new("llvm-readelf-19").args(["--sections", "--wide"]).arg(&path));
        for name in [".text", ".rodata", ".data", ".data.rel.ro", ".dynsym"] {
            let Some(line) = sections.lines().find(|line| line.split_whitespace().any(|word| word == name)) else {
                continue;
            };
            let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != name).collect();
            let address = hex(words[2]);
            let part = folder().join(format!("loaded{name}"));
            let dump = format!("--dump-section={name}={}", part.display());
            run(Command::new("llvm-objcopy-19").arg(dump).arg(&path).arg("/dev/null"));
            let expected = fs::read(&part).expect("the section's bytes");
            for (address, (is, was)) in (address..).zip(at(address, expected.len()).iter().zip(&expected)) {
                let relocated = changed.iter().any(|range| range.contains(&address));
                assert!(relocated || is == was, "{} at {address:#x} of {name}", path.display());
            }
        }
    }
    assert!(compared > 10, "only {compared} relocations");
}

#[test]
fn what_is_defined_elsewhere_has_to_be_given_by_its_name() {
    let source = folder().join("elsewhere.s");
    let lines =
        ".section .data,\"aw\"\n.globl pointer\n.type pointer,@object\n.size pointer,8\npointer: .quad elsewhere+5\n";
    fs::write(&source, lines).expect("the folder can be written");
    let object = folder().join("elsewhere.o");
    run(Command::new("clang-19")
        .args(["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object));
    let linked = folder().join("elsewhere.hsaco");
    run(Command::new("ld.lld-19")
        .args(["-shared", "--unresolved-symbols=ignore-all"])
        .arg(&object)
        .arg("-o")
        .arg(&linked));
    let bytes = fs::read(&linked).expect("what was linked");
    let error = load::load(&bytes, BASE, |_| None).expect_err("it is defined nowhere").to_string();
    assert!(error.contains("an address of elsewhere"), "{error}");
    let loaded = load::load(&bytes, BASE, |name| (name == "elsewhere").then_some(0x1234)).expect("it is defined");
    let stored = 0x1239u64.to_le_bytes();
    assert_eq!(loaded.bytes.windows(8).filter(|word| *word == stored).count(), 1);
}
