//! A library of a gigabyte is listed, and one code object of it read, without reading the rest.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use amdgpu_code_object::container;
use amdgpu_code_object::{CodeObject, Source};

use crate::compiled;

/// A file, and how many bytes were read of it.
pub(crate) struct Counted {
    file: File,
    length: u64,
    read: Cell<u64>,
}

impl Counted {
    pub(crate) fn open(path: &Path) -> Counted {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let length = file.metadata().unwrap().len();
        Counted { file, length, read: Cell::new(0) }
    }
}

impl Source for Counted {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.set(self.read.get() + buffer.len() as u64);
        self.file.read_exact_at(buffer, at)
    }
}

/// Bundles in the library, and bytes from one to the next.
const COUNT: u64 = 64;
const EACH: u64 = 16 << 20;
/// Where the section begins.
const START: u64 = 4096;

/// The header of a library with a section of bundles, and the table of its sections with their names.
fn library(sections_at: u64) -> (Vec<u8>, Vec<u8>) {
    let names = b"\0.hip_fatbin\0.shstrtab\0";
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // A library for x86-64, version 1.
    header.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for number in [0, 0, sections_at] {
        header.extend(number.to_le_bytes());
    }
    for half in [0, 0, 64, 56, 0, 64, 3, 2_u16] {
        header.extend(half.to_le_bytes());
    }
    let mut table = vec![0; 64];
    // Name, type, flags, address, offset, size, and what does not matter here.
    for (name, kind, offset, size) in
        [(1_u32, 1_u32, START, COUNT * EACH), (13, 3, sections_at + 3 * 64, names.len() as u64)]
    {
        table.extend(name.to_le_bytes());
        table.extend(kind.to_le_bytes());
        for number in [0, 0, offset, size, 0, 1, 0] {
            table.extend(number.to_le_bytes());
        }
    }
    table.extend(names);
    (header, table)
}

/// A bundle whose code object is at its end, behind a hole.
fn table(object: &[u8]) -> Vec<u8> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend(2_u64.to_le_bytes());
    let host = (4096, 0, "host-x86_64-unknown-linux");
    for (offset, size, id) in [host, (EACH - 65536, object.len() as u64, "hipv4-amdgcn-amd-amdhsa--gfx90a")] {
        for number in [offset, size, id.len() as u64] {
            table.extend(number.to_le_bytes());
        }
        table.extend(id.as_bytes());
    }
    table
}

#[test]
fn a_library_of_a_gigabyte_is_listed_by_reading_less_than_a_hundredth_of_it() {
    let object = compiled::object(19, 5, "gfx90a", "arguments.cl", &["-O3"]);
    let compressed = compiled::make("large.hipfb", std::slice::from_ref(&object), |output| {
        let mut command = Command::new("clang-offload-bundler-19");
        command.args(["-type=o", "-compress", "-targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--gfx90a"]);
        command.arg("-input=/dev/null").arg(format!("-input={}", object.display()));
        command.arg(format!("-output={}", output.display()));
        command
    });
    let [object, compressed] = [object, compressed].map(|path| fs::read(path).unwrap());
    // Half of the bundles are compressed. Most of the file is holes.
    let path = compiled::folder().join("liblarge.so");
    let file = File::create_new(&path).or_else(|_| File::create(&path)).unwrap();
    let (header, sections) = library(START + COUNT * EACH);
    file.write_all_at(&header, 0).unwrap();
    for number in 0..COUNT {
        let at = START + number * EACH;
        if number % 2 == 1 {
            file.write_all_at(&compressed, at).unwrap();
        } else {
            file.write_all_at(&table(&object), at).unwrap();
            file.write_all_at(&object, at + EACH - 65536).unwrap();
        }
    }
    file.write_all_at(&sections, START + COUNT * EACH).unwrap();
    drop(file);
    let seen = compiled::run(Command::new("llvm-readelf-19").arg("--sections").arg(&path));
    assert!(seen.contains(".hip_fatbin"), "LLVM sees the section: {seen}");

    let counted = Counted::open(&path);
    let length = counted.len();
    assert!(length >= 1 << 30);
    let entries = container::entries(&counted).unwrap();
    assert_eq!(entries.len() as u64, 2 * COUNT);
    assert!(entries.iter().all(|e| e.problem.is_none() && e.in_host_elf), "{entries:?}");
    let listed = counted.read.get();
    println!("{listed} of {length} bytes read, {:.4} %", 100.0 * listed as f64 / length as f64);
    assert!(listed < length / 100, "{listed} of {length} bytes read");
    let code: Vec<_> = entries.iter().filter(|e| e.is_code_object()).collect();
    assert_eq!(code.len() as u64, COUNT);
    for entry in &code[code.len() - 2..] {
        counted.read.set(0);
        assert!(entry.read(&counted).unwrap() == object, "{entry:?}");
        assert!(counted.read.get() < 1 << 20, "{} bytes read for one code object", counted.read.get());
    }
    assert!(CodeObject::parse(&object).is_ok_and(|o| o.kernels.len() == 6));
    fs::remove_file(path).unwrap();
}
