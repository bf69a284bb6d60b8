//! Code objects made by hand: what is unknown is kept, what is broken is told.

use rmpv::Value as Pack;

use super::*;
use crate::kernel::{Access, AddressSpace, KernelKind};
use crate::value_kind::ValueKind;

/// The bytes of a note, padded.
fn note(owner: &[u8], kind: u32, bytes: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for number in [owner.len() as u32, bytes.len() as u32, kind] {
        note.extend(number.to_le_bytes());
    }
    for part in [owner, bytes] {
        note.extend(part);
        note.resize(note.len().next_multiple_of(4), 0);
    }
    note
}

/// An ELF with nothing but notes, which begin at byte 120.
fn elf(abi: u8, flags: u32, notes: &[Vec<u8>]) -> Vec<u8> {
    let notes = notes.concat();
    let mut bytes = b"\x7fELF\x02\x01\x01\x40".to_vec();
    bytes.extend([abi, 0, 0, 0, 0, 0, 0, 0]);
    // A shared object for machine 224, version 1.
    bytes.extend([3, 0, 224, 0, 1, 0, 0, 0]);
    for number in [0, 64, 0_u64] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(flags.to_le_bytes());
    for half in [64, 56, 1, 0, 0, 0_u16] {
        bytes.extend(half.to_le_bytes());
    }
    // A segment of notes: type, flags, offset, two addresses, two sizes, alignment.
    bytes.extend([4, 0, 0, 0, 4, 0, 0, 0]);
    for number in [120, 0, 0, notes.len() as u64, notes.len() as u64, 4] {
        bytes.extend(number.to_le_bytes());
    }
    assert_eq!(bytes.len(), 120);
    bytes.extend(notes);
    bytes
}

fn map(pairs: &[(&str, Pack)]) -> Pack {
    Pack::Map(pairs.iter().map(|(key, value)| (Pack::from(*key), value.clone())).collect())
}

fn list(values: &[Pack]) -> Pack {
    Pack::Array(values.to_vec())
}

/// A note of metadata from version 3 on.
fn metadata(document: &Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, document).unwrap();
    note(b"AMDGPU\0", 32, &bytes)
}

/// A document of a version with some kernels and more pairs.
fn document(minor: u32, kernels: &[Pack], more: &[(&str, Pack)]) -> Pack {
    let version = list(&[Pack::from(1), Pack::from(minor)]);
    let mut pairs = vec![("amdhsa.version", version), ("amdhsa.kernels", list(kernels))];
    pairs.extend(more.iter().cloned());
    map(&pairs)
}

/// A kernel with what every kernel has, and more pairs.
fn kernel(name: &str, more: &[(&str, Pack)]) -> Pack {
    let mut pairs = vec![(".name", Pack::from(name)), (".symbol", Pack::from(format!("{name}.kd")))];
    for key in [
        ".kernarg_segment_size",
        ".kernarg_segment_align",
        ".group_segment_fixed_size",
        ".private_segment_fixed_size",
        ".wavefront_size",
        ".sgpr_count",
        ".vgpr_count",
        ".max_flat_workgroup_size",
    ] {
        pairs.push((key, Pack::from(64)));
    }
    pairs.extend(more.iter().cloned());
    map(&pairs)
}

/// The problems of an object, but that descriptors are not there.
fn problems(object: &CodeObject) -> Vec<String> {
    let all = object.problems.iter().map(ToString::to_string);
    all.filter(|problem| !problem.contains("the symbol of a descriptor")).collect()
}

#[test]
fn what_is_not_known_is_kept_by_its_name() {
    let argument = map(&[
        (".offset", Pack::from(0)),
        (".size", Pack::from(8)),
        (".value_kind", Pack::from("hidden_something_new")),
        (".address_space", Pack::from("remote")),
        (".access", Pack::from("append")),
        (".lifetime", Pack::from(3)),
    ]);
    let kernel =
        kernel("k", &[(".args", list(&[argument])), (".kind", Pack::from("daemon")), (".speed", Pack::from("fast"))]);
    let more = [("amdhsa.target", Pack::from("amdgcn-amd-amdhsa--gfx7777")), ("amdhsa.mood", Pack::from(true))];
    let object = CodeObject::parse(&elf(9, 0x5fe, &[metadata(&document(2, &[kernel], &more))])).unwrap();
    assert_eq!((object.abi, object.target.processor.as_str()), (Abi::Later(11), "gfx7777"));
    assert_eq!((object.target.xnack, object.target.sramecc), (Setting::Any, Setting::Any));
    assert_eq!(object.unknown, [("amdhsa.mood".to_owned(), Value::Bool(true))]);
    let kernel = object.kernel("k").unwrap();
    assert_eq!(kernel.kind, KernelKind::Other("daemon".to_owned()));
    assert_eq!(kernel.unknown, [(".speed".to_owned(), Value::Text("fast".into()))]);
    let argument = &kernel.arguments[0];
    assert_eq!(argument.kind, ValueKind::Other("hidden_something_new".to_owned()));
    assert!(argument.kind.is_hidden());
    assert_eq!(argument.address_space, Some(AddressSpace::Other("remote".to_owned())));
    assert_eq!(argument.access, Some(Access::Other("append".to_owned())));
    assert_eq!(argument.unknown, [(".lifetime".to_owned(), Value::Unsigned(3))]);
    // Without a name anywhere it is its number.
    assert_eq!(CodeObject::parse(&elf(4, 0x0200_007e, &[])).unwrap().target.processor, "mach-0x7e");
}

#[test]
fn one_broken_kernel_is_told_and_the_others_are_read() {
    let argument = map(&[(".size", Pack::from(8)), (".value_kind", Pack::from("by_value"))]);
    let kernels = [
        kernel("good", &[]),
        kernel("bad", &[(".args", list(&[argument]))]),
        kernel("shaped", &[(".reqd_workgroup_size", list(&[Pack::from(64), Pack::from(1)]))]),
        kernel("large", &[(".agpr_count", Pack::from(1_u64 << 32))]),
        map(&[(".sgpr_count", Pack::from(1))]),
        Pack::from(7),
        kernel("last", &[]),
    ];
    let object = CodeObject::parse(&elf(3, 0x53f, &[metadata(&document(2, &kernels, &[]))])).unwrap();
    assert_eq!(object.kernels.iter().map(|k| &*k.name).collect::<Vec<_>>(), ["good", "last"]);
    assert_eq!(
        problems(&object),
        [
            r#"metadata of kernel "bad": argument 0: .offset: expected a number below 2^32, found nothing"#,
            r#"metadata of kernel "shaped": .reqd_workgroup_size: expected three numbers, found [64, 1]"#,
            r#"metadata of kernel "large": .agpr_count: expected a number below 2^32, found 4294967296"#,
            r##"metadata of kernel "#4": .name: expected text, found nothing"##,
            r##"metadata of kernel "#5": : expected a map, found 7"##,
        ]
        .map(|line| line.replace(": : ", ": the kernel: "))
    );
    let missing = object.problems.iter().map(ToString::to_string).find(|p| p.contains("\"good\"")).unwrap();
    assert_eq!(
        missing,
        r#"metadata of kernel "good": .symbol: expected the symbol of a descriptor that is in the file, found "good.kd""#
    );
}

#[test]
fn all_notes_of_one_version_are_merged_and_another_version_is_told() {
    let printf = |text: &str| ("amdhsa.printf", list(&[Pack::from(text)]));
    let notes = [
        metadata(&document(2, &[kernel("a", &[])], &[])),
        metadata(&document(2, &[kernel("b", &[]), kernel("c", &[])], &[printf("1")])),
        metadata(&document(1, &[kernel("old", &[])], &[])),
        note(b"GNU\0", 3, b"build"),
        metadata(&document(2, &[kernel("other_printf", &[])], &[printf("2")])),
        metadata(&document(2, &[kernel("d", &[])], &[printf("1")])),
    ];
    let object = CodeObject::parse(&elf(3, 0x53f, &notes)).unwrap();
    assert_eq!(object.kernels.iter().map(|k| &*k.name).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!((object.printf.as_slice(), object.metadata_version.as_slice()), (&["1".to_owned()][..], &[1, 2][..]));
    let at = |index: usize| 120 + notes[..index].concat().len() + 20;
    assert_eq!(
        problems(&object),
        [
            format!("metadata note at {:#x}: expected version [1, 2] like the first, found [1, 1]", at(2)),
            format!("metadata note at {:#x}: expected the formats of printf of the first, found others", at(4)),
        ]
    );
}

#[test]
fn what_is_no_code_object_or_is_damaged_is_refused_with_its_place() {
    let good = elf(3, 0x53f, &[metadata(&document(2, &[kernel("k", &[])], &[]))]);
    let said = |bytes: &[u8]| CodeObject::parse(bytes).unwrap_err().to_string();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        said(&bytes)
    };
    assert_eq!(said(&good[..40]), "code object at 0x0: expected 64 bytes, found 40");
    assert_eq!(with(1, b'X'), r#"code object at 0x0: expected an ELF, found "\x7fXLF""#);
    assert_eq!(with(4, 1), "code object at 0x4: expected 64 bits, little-endian, found class 1 and byte order 1");
    assert_eq!(with(18, 62), "code object at 0x12: expected machine 224, AMD GPU, found 62");
    assert_eq!(with(7, 65), "code object at 0x7: expected OS ABI 64, HSA, found 65");
    assert!(with(72, 0xff).starts_with("notes at 0xff: expected a table that is whole, found "), "{}", with(72, 0xff));
    assert_eq!(
        with(140, 0xc1),
        "MessagePack metadata at 0x8d: expected a type of MessagePack before this byte, found 0xc1"
    );
    assert!(said(&good[..good.len() - 8]).starts_with("notes at 0x78"));
    assert_eq!(CodeObject::metadata(&elf(3, 0x53f, &[])), Ok(None));
}

#[test]
fn flags_of_the_header_mean_what_the_version_of_the_abi_says() {
    let target = |abi, flags| CodeObject::parse(&elf(abi, flags, &[])).unwrap().target;
    let text = |abi, flags| target(abi, flags).to_string();
    // Versions 2 and 3: one bit each, and what the processor does not have is not there.
    assert_eq!([text(0, 0x12c), text(1, 0x12c), text(1, 0x2c)], ["gfx900:xnack+", "gfx900:xnack+", "gfx900:xnack-"]);
    assert_eq!([text(1, 0x22f), text(1, 0x2a)], ["gfx906:sramecc+:xnack-", "gfx803"]);
    // Later ones: two bits.
    for abi in 2..=4 {
        assert_eq!([text(abi, 0x53f), text(abi, 0x63f)], ["gfx90a", "gfx90a:xnack-"]);
        assert_eq!([text(abi, 0x73f), text(abi, 0xe3f)], ["gfx90a:xnack+", "gfx90a:sramecc+:xnack-"]);
        assert_eq!((target(abi, 0x53f).xnack, target(abi, 0x036).xnack), (Setting::Any, Setting::Unsupported));
    }
    let generic = target(4, 0x0100_0151);
    assert_eq!((generic.to_string().as_str(), generic.generic_version), ("gfx9-generic", 1));
    assert!(generic.is_generic());
}

#[test]
fn the_oldest_objects_say_in_a_note_what_they_are_for() {
    let isa = |major: u32, minor: u32, stepping: u32| {
        let mut bytes = vec![4, 0, 7, 0];
        for number in [major, minor, stepping] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(b"AMD\0AMDGPU\0");
        CodeObject::parse(&elf(0, 0, &[note(b"AMD\0", 3, &bytes)])).unwrap().target.to_string()
    };
    assert_eq!([isa(8, 0, 3), isa(8, 0, 0), isa(8, 0, 1)], ["gfx803", "gfx802", "gfx801:xnack+"]);
    assert_eq!([isa(9, 0, 0), isa(9, 0, 1)], ["gfx900:xnack-", "gfx900:xnack+"]);
    assert_eq!([isa(9, 0, 7), isa(9, 0, 12)], ["gfx906:sramecc-:xnack+", "gfx90c:xnack-"]);
    assert_eq!(CodeObject::parse(&elf(0, 0, &[])).unwrap().target.to_string(), "mach-0x0");
}

/// An ELF of some sections and segments: type, flags, offset, size, number of another section.
fn elf_of_tables(sections: &[(u32, u64, u64, u64, u32)], segments: &[(u32, u64, u64)], data: &[u8]) -> Vec<u8> {
    let mut bytes = elf(3, 0x53f, &[]);
    bytes.truncate(64);
    let data_at = 64;
    let segments_at = data_at + data.len() as u64;
    let sections_at = segments_at + segments.len() as u64 * 56;
    bytes[32..40].copy_from_slice(&segments_at.to_le_bytes());
    bytes[40..48].copy_from_slice(&sections_at.to_le_bytes());
    // The table of the sections' names is the last one.
    let sections = [sections, &[(3, 0, 64, 1, 0)]].concat();
    for (at, half) in [(56, segments.len()), (58, 64), (60, sections.len() + 1), (62, sections.len())] {
        bytes[at..at + 2].copy_from_slice(&(half as u16).to_le_bytes());
    }
    bytes.extend(data);
    for (kind, offset, size) in segments {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(4_u32.to_le_bytes());
        for number in [*offset, 0, 0, *size, *size, 4] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes.extend([0; 64]);
    for (kind, flags, offset, size, link) in sections {
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for number in [flags, 0, offset, size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(link.to_le_bytes());
        bytes.extend([0; 4]);
        for number in [1, 24_u64] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn tables_that_name_the_same_bytes_again_and_again_take_no_more_memory_than_the_bytes() {
    let said = |bytes: &[u8]| CodeObject::parse(bytes).unwrap_err().to_string();
    // A thousand segments of the same note.
    let note = metadata(&document(2, &[kernel("k", &[])], &[]));
    let again = vec![(4, 64, note.len() as u64); 1000];
    let text = said(&elf_of_tables(&[], &again, &note));
    assert!(text.starts_with("notes at 0x40: expected at most "), "{text}");
    // Ten thousand variables of the same long name.
    let mut data = vec![b'n'; 1 << 20];
    data.push(0);
    let names = (3, 0, 64, data.len() as u64, 0);
    let symbols_at = 64 + data.len() as u64;
    for address in 0..10_000_u64 {
        data.extend([0, 0, 0, 0, 1, 0, 1, 0]);
        data.extend(address.to_le_bytes());
        data.extend([0; 8]);
    }
    let symbols = (2, 0, symbols_at, 24 * 10_000, 2);
    let text = said(&elf_of_tables(&[symbols, names], &[], &data));
    assert!(text.starts_with("names of symbols at 0x0: expected at most "), "{text}");
    // A thousand sections of the same relocations.
    let again = vec![(4, 2, 64, 24 * 1000, 0); 1000];
    let text = said(&elf_of_tables(&again, &[], &[0; 24 * 1000]));
    assert!(text.starts_with("relocations at 0x40: expected at most "), "{text}");
}
