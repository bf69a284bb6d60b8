//! Real code objects that `cargo xtask corpus` has brought: libraries of others, whole.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use amdgpu_code_object::CodeObject;
use amdgpu_code_object::container;

use crate::large::Counted;
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

/// Takes a size from a budget, if there is so much left.
fn within(budget: &mut u64, size: u64) -> bool {
    let left = budget.checked_sub(size);
    *budget = left.unwrap_or(*budget);
    left.is_some()
}

/// Every code object of each corpus that is there, with `--full`; else as many as fit into some megabytes.
#[test]
fn what_libraries_of_others_have_is_what_llvm_prints() {
    let full = std::env::var_os("LOGDUR_TEST_FULL").is_some();
    let file = compiled::folder().join("of-a-corpus.co");
    for corpus in fs::read_dir(compiled::root().join("target/xtask/corpora")).into_iter().flatten() {
        let corpus = corpus.unwrap();
        let (mut objects, mut kernels, mut compared, mut seen) = (0, 0, 0, HashSet::new());
        let [mut to_read, mut to_compare] = if full { [u64::MAX; 2] } else { [64 << 20, 6 << 20] };
        for path in below(&corpus.path()) {
            let at = || path.display().to_string();
            let source = Counted::open(&path);
            let mut entries = container::entries(&source).unwrap_or_else(|e| panic!("{}: {e}", at()));
            assert!(entries.iter().all(|e| e.problem.is_none()), "{}: {entries:?}", at());
            entries.retain(|e| e.is_code_object() && within(&mut to_read, e.length));
            container::read_each(&source, &entries, &mut |index, found| {
                let object = found.unwrap_or_else(|e| panic!("{}: {e}", at()));
                let mut hash = DefaultHasher::new();
                object.hash(&mut hash);
                if !seen.insert(hash.finish()) {
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
                if within(&mut to_compare, object.len() as u64) {
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
