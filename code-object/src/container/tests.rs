//! Bundles made by hand: what is broken is told, and its neighbours are read.

use super::*;

/// A bundle of some entries: ID, offset if it is not to be right, bytes.
fn bundle(parts: &[(&str, Option<u64>, &[u8])]) -> Vec<u8> {
    let table: usize = parts.iter().map(|(id, ..)| 24 + id.len()).sum();
    let (mut bytes, mut data) = (bundle::MAGIC.to_vec(), Vec::<u8>::new());
    let start = bytes.len() + 8 + table;
    bytes.extend((parts.len() as u64).to_le_bytes());
    for (id, offset, part) in parts {
        for number in [offset.unwrap_or((start + data.len()) as u64), <[u8]>::len(part) as u64, id.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(id.as_bytes());
        data.extend(*part);
    }
    bytes.extend(data);
    bytes
}

const A: &str = "hipv4-amdgcn-amd-amdhsa--gfx90a";
const B: &str = "hipv4-amdgcn-amd-amdhsa--gfx906:xnack-";

fn two() -> Vec<u8> {
    bundle(&[(A, None, b"code a"), (B, None, b"code b")])
}

fn listed(bytes: &[u8]) -> Vec<Entry> {
    entries(&bytes).unwrap()
}

/// What each entry gives when it is read.
fn read(bytes: &[u8]) -> Vec<std::result::Result<Vec<u8>, String>> {
    listed(bytes).iter().map(|entry| entry.read(&bytes).map_err(|e| e.to_string())).collect()
}

/// A compressed bundle of version 2.
fn compressed(method: u16, packed: &[u8], unpacked: u32) -> Vec<u8> {
    let mut bytes = b"CCOB\x02\0".to_vec();
    bytes.extend(method.to_le_bytes());
    bytes.extend((packed.len() as u32 + 24).to_le_bytes());
    bytes.extend(unpacked.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(packed);
    bytes
}

fn zlib(contents: &[u8]) -> Vec<u8> {
    compressed(0, &miniz_oxide::deflate::compress_to_vec_zlib(contents, 6), contents.len() as u32)
}

/// A frame of zstd whose one block is a byte repeated. Source: RFC 8878, sections 3.1.1.1 and 3.1.1.2.
fn repeated(size: u32) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    frame.extend((size << 3 | 1 << 1 | 1).to_le_bytes()[..3].to_vec());
    frame.push(0);
    frame
}

#[test]
fn an_entry_that_leads_outside_is_told_and_the_others_are_read() {
    let bytes = bundle(&[(A, None, b"code a"), ("broken", Some(1 << 40), b"?"), (B, None, b"code b")]);
    assert_eq!(
        read(&bytes),
        [
            Ok(b"code a".to_vec()),
            Err("entry of an offload bundle at 0x10000000000: expected 1 bytes, found 0".to_owned()),
            Ok(b"code b".to_vec()),
        ]
    );
}

#[test]
fn a_table_that_is_damaged_is_told_and_the_next_bundle_is_read() {
    let mut bytes = two();
    // The number of entries, and the length of the first ID.
    for (at, said) in [
        (31, "table of an offload bundle at 0x18: expected at most 4096, found 72057594037927938"),
        (54, "table of an offload bundle at 0x30: expected at most 1024, found 281474976710687"),
    ] {
        let mut several = bytes.clone();
        several[at] = 1;
        several.resize(8192, 0);
        several.extend(two());
        let found = read(&several);
        assert_eq!(found, [Err(said.to_owned()), Ok(b"code a".to_vec()), Ok(b"code b".to_vec())]);
    }
    let short = &bytes[..70];
    assert_eq!(read(short), [Err("table of an offload bundle at 0x38: expected 31 bytes, found 14".to_owned())]);
    // Something else behind a bundle, and a bundle behind that.
    bytes.extend(b"garbage");
    bytes.resize(4096, 0);
    bytes.extend(two());
    let found = read(&bytes);
    let said = r#"bundle at 0xa1: expected __CLANG_OFFLOAD_BUNDLE__, CCOB or an offload package, found "garbage\x00""#;
    assert_eq!(found.len(), 5);
    assert_eq!(found[2], Err(said.to_owned()));
    assert_eq!(found[4], Ok(b"code b".to_vec()));
}

#[test]
fn a_compressed_bundle_that_is_damaged_says_what_is_wrong_with_it() {
    let good = zlib(&two());
    assert_eq!(read(&good), [Ok(b"code a".to_vec()), Ok(b"code b".to_vec())]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        read(&bytes).swap_remove(0).unwrap_err()
    };
    assert_eq!(with(4, 9), "header of a compressed bundle at 0x4: expected version 1, 2 or 3, found 9");
    assert_eq!(with(6, 2), "header of a compressed bundle at 0x6: expected method 0, zlib, or 1, zstd, found 2");
    assert_eq!(with(8, 3), "compressed bundle at 0x0: expected 24 bytes, found 3");
    assert!(with(11, 1).starts_with("compressed bundle at 0x0: expected 16777"), "{}", with(11, 1));
    assert_eq!(with(12, 20), "table of an offload bundle at 0x0: expected 24 bytes, found 20");
    assert!(
        with(15, 0x80).starts_with("contents of a compressed bundle at 0x0: expected at most "),
        "{}",
        with(15, 0x80)
    );
    assert!(with(24, 0xff).contains("expected data that can be decompressed, found zlib: Data"), "{}", with(24, 0xff));
    assert!(with(6, 1).contains("compressed data at 0x18: expected a frame of zstd"), "{}", with(6, 1));
    // Cut short, but the header says so.
    let cut = compressed(0, &good[24..good.len() - 20], two().len() as u32);
    let found = read(&cut);
    assert!(found.iter().any(|f| f.as_ref().is_err_and(|e| e.contains("unexpected end of file"))), "{found:?}");
    assert_eq!(
        read(&zlib(b"no bundle at all, but some text that is long enough")),
        [Err(
            r#"table of an offload bundle at 0x0: expected __CLANG_OFFLOAD_BUNDLE__, found "no bundle at all, but so""#
                .to_owned()
        )]
    );
    let outside = zlib(&bundle(&[(A, None, b"code a"), (B, Some(158), b"code b")]));
    assert_eq!(read(&outside)[1], Err("entry of a compressed bundle at 0x9e: expected 6 bytes, found 3".to_owned()));
    assert_eq!(read(&outside)[0], Ok(b"code a".to_vec()));
}

#[test]
fn what_claims_to_hold_more_than_it_can_or_holds_more_than_it_claims_takes_no_memory_for_it() {
    let claims = compressed(1, &repeated(128 << 10), u32::MAX);
    let said = read(&claims).swap_remove(0).unwrap_err();
    assert_eq!(said, "contents of a compressed bundle at 0x0: expected at most 1069056, found 4294967295");
    // Zeros, which are no bundle: 128 KiB of them in ten bytes.
    let zeros = compressed(1, &repeated(128 << 10), 128 << 10);
    assert!(read(&zeros)[0].as_ref().is_err_and(|e| e.contains("expected __CLANG_OFFLOAD_BUNDLE__")));
    // Half of a bundle is all that the header admits to.
    let whole = two();
    let half = compressed(0, &miniz_oxide::deflate::compress_to_vec_zlib(&whole, 6), whole.len() as u32 - 8);
    let found = read(&half);
    let said = "entry of a compressed bundle at 0x9b: expected 6 bytes, found 0";
    assert_eq!((found[0].is_err(), &found[1]), (true, &Err(said.to_owned())));
}

#[test]
fn a_decompression_bomb_is_refused_before_it_is_decompressed() {
    // Three megabytes of deflated zeros are three gigabytes, which is no more than deflate can do.
    for method in [0, 1] {
        let said = read(&compressed(method, &vec![0; 3 << 20], 3 << 30)).swap_remove(0).unwrap_err();
        let expected = "contents of a compressed bundle at 0x0: expected at most 268435456, found 3221225472";
        assert_eq!(said, expected);
    }
}

#[test]
fn what_keeps_no_code_objects_has_none_and_damaged_headers_are_told() {
    for bytes in [&b""[..], b"text", b"\x7fELF", b"PK\x03\x04", &[0; 10_000]] {
        assert_eq!(listed(bytes), []);
    }
    // A program for the host whose table of sections is not there.
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(64, 0);
    (elf[16], elf[18], elf[20]) = (3, 62, 1);
    assert_eq!(listed(&elf), []);
    (elf[40], elf[58], elf[60]) = (64, 64, 5);
    let said = entries(&elf.as_slice()).unwrap_err().to_string();
    assert_eq!(said, "table of sections at 0x40: expected 320 bytes, found 0");
    elf[58] = 40;
    let said = entries(&elf.as_slice()).unwrap_err().to_string();
    assert_eq!(said, "table of sections at 0x40: expected rows of 64 bytes, found 40");
    // 32 bits: no program that loads code objects.
    elf[4] = 1;
    assert_eq!(listed(&elf), []);
}

#[test]
fn ids_of_every_form_name_their_target() {
    let target = |id: &str| Entry::of(Kind::Bundle, 0, 1).named(id.to_owned()).target().map(|t| t.to_string());
    assert_eq!(target(B).as_deref(), Some("gfx906:xnack-"));
    assert_eq!(target("hip-amdgcn-amd-amdhsa-gfx900").as_deref(), Some("gfx900"));
    assert_eq!(target("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack+").as_deref(), Some("gfx9-4-generic:xnack+"));
    assert_eq!(target("hip-spirv64-amd-amdhsa--amdgcnspirv").as_deref(), Some("amdgcnspirv"));
    assert_eq!(target("host-x86_64-unknown-linux-gnu"), None);
}

#[test]
fn a_small_file_has_no_endless_list_of_entries() {
    // A table of 4096 entries is a kilobyte when it is compressed.
    let row: Vec<u8> = [150_u64, 0, 1].iter().flat_map(|n| n.to_le_bytes()).chain([b'h']).collect();
    let mut table = bundle::MAGIC.to_vec();
    table.extend(4096_u64.to_le_bytes());
    table.extend(row.repeat(4096));
    let mut packed = zlib(&table);
    assert_eq!(listed(&packed).len(), 4096);
    packed.resize(packed.len().next_multiple_of(4096), 0);
    let said = entries(&packed.repeat(30)).unwrap_err().to_string();
    assert!(said.starts_with("entries of bundles at "), "{said}");
    assert!(said.ends_with("expected at most 100000, found 102400"), "{said}");
}

#[test]
fn a_package_with_a_number_near_2_to_the_64_is_told_wherever_the_number_is() {
    let before = 16;
    let package = |field: usize, number: u64| {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(package::MAGIC);
        bytes.extend(1_u32.to_le_bytes());
        // Size, offset and size of the entry; its kinds; offset and number of strings; offset and size of the image.
        for word in [104_u64, 32, 40, 3 << 16, 72, 1, 100, 4] {
            bytes.extend(word.to_le_bytes());
        }
        // Offsets of key and value.
        [88_u64, 93].iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes.extend_from_slice(b"arch\0gfx90a\0\x7fELF");
        bytes[before + field..][..8].copy_from_slice(&number.to_le_bytes());
        let end = bytes.len() as u64;
        package::entries(&bytes, before as u64, end).entries.remove(0)
    };
    let right = package(72, 88);
    assert_eq!((&*right.id, &right.problem), ("hip---gfx90a", &None));
    for field in [8, 16, 40, 48, 56, 64, 72, 80] {
        for number in [u64::MAX, u64::MAX - 15, 1 << 63] {
            assert!(package(field, number).problem.is_some(), "{number:#x} at {field}");
        }
    }
}
