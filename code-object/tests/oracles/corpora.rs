//! Real code objects that `cargo xtask corpus` has brought: libraries of others, whole.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use amdgpu_code_object::CodeObject;
use amdgpu_code_object::container;

use crate::{compiled, metadata, second_reader};

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries.map(|e| e.unwrap()) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    files
}

/// Every code object of a corpus, or of each file as many as fit into some megabytes.
#[test]
fn what_libraries_of_others_have_is_what_llvm_prints() {
    let full = std::env::var_os("LOGDUR_TEST_FULL").is_some();
    let file = compiled::folder().join("of-a-corpus.co");
    for corpus in fs::read_dir(compiled::root().join("target/xtask/corpora")).into_iter().flatten() {
        let corpus = corpus.unwrap();
        let (mut objects, mut kernels, mut compared, mut seen) = (0, 0, 0, HashSet::new());
        let mut budget = if full { usize::MAX } else { 6 << 20 };
        for path in below(&corpus.path()) {
            let at = || path.display().to_string();
            let bytes = fs::read(&path).unwrap();
            let entries = container::entries(&bytes.as_slice()).unwrap_or_else(|e| panic!("{}: {e}", at()));
            container::read_each(&bytes.as_slice(), &entries, &mut |index, found| {
                let object = found.unwrap_or_else(|e| panic!("{}: {e}", at()));
                let mut hash = DefaultHasher::new();
                object.hash(&mut hash);
                if !entries[index].is_code_object() || !seen.insert(hash.finish()) {
                    return;
                }
                let parsed = CodeObject::parse(&object).unwrap_or_else(|e| panic!("{}: {e}", at()));
                assert_eq!(parsed.problems, [], "{}", at());
                assert!(second_reader::agrees(&object, &parsed), "{}", at());
                if let Some(target) = entries[index].target() {
                    assert_eq!(target.to_string(), parsed.target.to_string(), "{}", at());
                }
                objects += 1;
                kernels += parsed.kernels.len();
                if object.len() < budget {
                    if !full {
                        budget -= object.len();
                    }
                    fs::write(&file, &object).unwrap();
                    metadata::assert_as_printed(&file);
                    compared += 1;
                }
            });
        }
        println!("{}: {objects} code objects, {kernels} kernels; {compared} compared", corpus.path().display());
        assert!(objects > 0, "{} has code objects", corpus.path().display());
    }
}
