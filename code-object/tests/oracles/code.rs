//! Functions and sections, as `llvm-readelf` and `llvm-objcopy` have them; and mutilated ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use amdgpu_code_object::{CodeObject, Image};

use crate::compiled::{self, folder, run};

/// Address and size of each symbol of a function, and the names that it has.
fn functions(path: &Path) -> BTreeMap<(u64, u64), Vec<String>> {
    let text = run(Command::new("llvm-readelf-19").args(["--symbols", "--wide"]).arg(path));
    let mut found = BTreeMap::<_, Vec<String>>::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, value, size, "FUNC", _, _, index, name, ..] = words[..]
            && index != "UND"
        {
            let address = u64::from_str_radix(value, 16).expect("an address");
            found.entry((address, size.parse().expect("a size"))).or_default().push(name.to_owned());
        }
    }
    found
}

#[test]
fn functions_are_where_their_symbols_say_and_kernels_are_told_from_others() {
    let mut compared = 0;
    for path in compiled::hip_objects().iter().chain(&compiled::opencl()) {
        let bytes = fs::read(path).expect("a code object");
        let object = CodeObject::parse(&bytes).expect("a code object");
        let image = Image::parse(&bytes).expect("a code object");
        let ours = image.functions(&object).expect("functions");
        for ((address, size), names) in functions(path) {
            let found = ours.iter().find(|f| f.address == address).unwrap_or_else(|| panic!("{names:?}"));
            assert!(found.size == size && names.contains(&found.name), "{}: {found:?}", path.display());
            assert_eq!(found.is_kernel, object.kernel(&found.name).is_some(), "{found:?}");
            assert!(image.code(address).is_some_and(|code| code.len() as u64 >= size), "{found:?}");
            compared += 1;
        }
        // Those of version 2 have symbols of another type.
        let entries = object.kernels.iter().filter_map(|k| Some((&k.name, k.descriptor?.entry)));
        for (name, entry) in entries {
            assert!(ours.iter().any(|f| f.is_kernel && f.name == *name && f.address == entry && f.size > 0), "{name}");
        }
    }
    assert!(compared > 100, "only {compared} functions");
}

/// Name, address and size of the variables that only their file knows, by the symbols' table.
fn local_variables(path: &Path) -> Vec<(String, u64, u64)> {
    let text = run(Command::new("llvm-readelf-19").args(["--symbols", "--wide"]).arg(path));
    let is_writable = |index: &str| {
        let sections = run(Command::new("llvm-readelf-19").args(["--sections", "--wide"]).arg(path));
        sections.lines().any(|line| {
            let of = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
            of.is_some_and(|(number, rest)| {
                number.trim() == index && [" .bss ", " .data "].iter().any(|n| rest.contains(n))
            })
        })
    };
    let local = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, value, size, "OBJECT", "LOCAL", _, index, name, ..] = words[..] else { return None };
        let is_variable = is_writable(index) && !name.contains("__HIP_Coordinates");
        let address = u64::from_str_radix(value, 16).expect("an address");
        is_variable.then(|| (name.to_owned(), address, size.parse().expect("a size")))
    });
    local.collect()
}

#[test]
fn variables_that_only_their_file_knows_are_found_also_without_their_names() {
    let mut compared = 0;
    for path in compiled::hip_objects() {
        let inner_of = |path: &Path| {
            let bytes = fs::read(path).expect("a code object");
            let object = CodeObject::parse(&bytes).expect("a code object");
            Image::parse(&bytes).expect("a code object").inner_data(&object.globals)
        };
        let stripped = path.with_extension("stripped");
        run(Command::new("llvm-objcopy-19").arg("--strip-all").args([&path, &stripped]));
        let (inner, without_names) = (inner_of(&path), inner_of(&stripped));
        for (name, address, size) in local_variables(&path) {
            let found = inner.iter().any(|i| (&*i.name, i.start, i.size) == (&*name, address, size));
            assert!(found, "{name} in {}: {inner:x?}", path.display());
            let is_in = |i: &amdgpu_code_object::InnerData| i.start <= address && address + size <= i.start + i.size;
            let covering =
                without_names.iter().find(|i| is_in(i)).unwrap_or_else(|| panic!("{name}: {without_names:x?}"));
            assert!(covering.name.starts_with(".bss+0x") || covering.name.starts_with(".data+0x"), "{covering:x?}");
            compared += 1;
        }
        let exported = |name: &str| ["counter", "zeroed", "named"].contains(&name);
        assert!(!inner.iter().any(|i| exported(&i.name)), "{inner:x?}");
    }
    assert!(compared >= 2, "only {compared} variables");
}

#[test]
fn sections_are_read_by_name_and_code_ends_where_its_section_does() {
    let path = &compiled::hip_objects()[0];
    let bytes = fs::read(path).expect("a code object");
    let image = Image::parse(&bytes).expect("a code object");
    for name in [".text", ".note", ".dynsym", ".rodata"] {
        let part = folder().join(format!("section{name}"));
        run(Command::new("llvm-objcopy-19")
            .arg(format!("--dump-section={name}={}", part.display()))
            .arg(path)
            .arg("/dev/null"));
        assert_eq!(image.section(name).expect("a section")[..], fs::read(&part).expect("what was dumped"), "{name}");
    }
    assert!(image.section(".nothing").expect("none").is_empty());
    let [(start, code)] = image.text()[..] else { panic!("one section of code") };
    assert_eq!(code, &image.section(".text").expect("a section")[..]);
    assert_eq!(image.code(start + 4), code.get(4..));
    assert_eq!(image.code(start + code.len() as u64), None);
    assert_eq!(image.code(0), None);
}

#[test]
fn no_byte_that_is_another_makes_the_code_unbounded() {
    let path = &compiled::hip_objects()[0];
    let whole = fs::read(path).expect("a code object");
    let (mut bytes, step) = (whole.clone(), whole.len() / 150 + 1);
    let headers = (0..64).chain((0..whole.len()).step_by(step)).chain(whole.len().saturating_sub(256)..whole.len());
    for at in headers {
        for value in [0, 0xff, whole[at] ^ 0x10] {
            bytes[at] = value;
            if let (Ok(image), Ok(object)) = (Image::parse(&bytes), CodeObject::parse(&bytes)) {
                let _ = image.functions(&object);
                assert!(image.text().iter().all(|(_, code)| code.len() <= bytes.len()));
                let _ = image.section(".debug_line");
            }
        }
        bytes[at] = whole[at];
    }
}
