//! Files that appear, change and go while the cache is open.

use std::fs;
use std::path::Path;

use logdur_kernel_cache::Cache;

use crate::compiled::{SCALE, SUM};
use crate::folders::Harness;

const SUM_NAME: &str = "_Z3sumPfPKfi";

/// Files that have a kernel, and the LDS of each.
fn candidates(cache: &Cache, name: &str) -> Vec<(String, u32)> {
    let file = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    cache.candidates(name).iter().map(|c| (file(&c.path), c.interface.group_size)).collect()
}

#[test]
fn a_file_that_is_written_renamed_or_removed_changes_its_kernels_and_no_others() {
    let harness = Harness::new();
    harness.put("sum.co", &SUM.bytes(), 3600);
    let mut cache = harness.open();
    let scale = |lds| vec![("scale.co".to_owned(), lds)];

    let path = harness.put("scale.co", &SCALE.bytes(), 0);
    assert_eq!(cache.update(&path), ["scale"]);
    assert_eq!(candidates(&cache, "scale"), scale(0));
    // In place, with a time of long ago.
    harness.put("scale.co", &SCALE.options("-O3 -DLDS=256").bytes(), 3600);
    assert_eq!(cache.update(&path), ["scale"]);
    assert_eq!(candidates(&cache, "scale"), scale(1024));
    // Nothing of it is read again when it is as it was.
    assert_eq!(cache.update(&path), [""; 0]);
    // Both ends of a rename.
    let renamed = harness.root.join("deeper");
    fs::create_dir(&renamed).expect("a folder");
    let renamed = renamed.join("other.co");
    fs::rename(&path, &renamed).expect("it can be renamed");
    assert_eq!(cache.update(&path), ["scale"]);
    assert_eq!(candidates(&cache, "scale"), []);
    assert_eq!(cache.update(&renamed), ["scale"]);
    assert_eq!(candidates(&cache, "scale"), [("other.co".to_owned(), 1024)]);
    // A kernel for another.
    fs::write(&renamed, SUM.bytes()).expect("it can be written");
    assert_eq!(cache.update(&renamed), [SUM_NAME, "scale"]);
    assert_eq!(candidates(&cache, SUM_NAME).len(), 2);
    fs::remove_file(&renamed).expect("it is there");
    assert_eq!(cache.update(&renamed), [SUM_NAME]);
    assert_eq!(candidates(&cache, SUM_NAME), [("sum.co".to_owned(), 0)]);
    assert_eq!(cache.problems(), []);
}

#[test]
fn a_folder_is_followed_with_all_that_is_below_it() {
    let harness = Harness::new();
    harness.put("a/scale.co", &SCALE.bytes(), 3600);
    harness.put("a/b/sum.co", &SUM.bytes(), 3600);
    harness.put("ab/scale.co", &SCALE.options("-O3 -DLDS=256").bytes(), 3600);
    let mut cache = harness.open();
    assert_eq!(cache.folders().count(), 4);
    let (from, to) = (harness.root.join("a"), harness.root.join("moved"));
    fs::rename(&from, &to).expect("it can be renamed");
    assert_eq!(cache.update(&from), [SUM_NAME, "scale"]);
    assert_eq!((candidates(&cache, "scale").len(), candidates(&cache, SUM_NAME).len()), (1, 0));
    assert_eq!(cache.update(&to), [SUM_NAME, "scale"]);
    assert_eq!((candidates(&cache, "scale").len(), candidates(&cache, SUM_NAME).len()), (2, 1));
    assert!(cache.folders().any(|folder| folder == to.join("b")));
    // The whole root goes and comes back.
    let away = harness.root.with_extension("away");
    fs::rename(&harness.root, &away).expect("it can be renamed");
    assert_eq!(cache.update(&harness.root), [SUM_NAME, "scale"]);
    assert_eq!((cache.kernels().len(), cache.problems().len()), (0, 1));
    fs::rename(&away, &harness.root).expect("it can be renamed");
    assert_eq!(cache.update(harness.root.parent().expect("a folder")), [SUM_NAME, "scale"]);
    assert_eq!((cache.kernels().len(), cache.problems().len()), (3, 0));
}

#[test]
fn a_file_that_is_broken_is_named_until_it_is_whole() {
    let harness = Harness::new();
    let path = harness.put("scale.co", &SCALE.bytes()[..1000], 3600);
    let mut cache = harness.open();
    assert_eq!((cache.problems().len(), cache.kernels().len()), (1, 0));
    harness.put("scale.co", &SCALE.bytes(), 3600);
    assert_eq!(cache.update(&path), ["scale"]);
    assert_eq!((cache.problems().len(), cache.kernels().len()), (0, 1));
}

#[test]
fn what_is_outside_changes_nothing_even_if_its_name_begins_alike() {
    let harness = Harness::new();
    harness.put("scale.co", &SCALE.bytes(), 3600);
    let mut cache = harness.open();
    let beside = harness.root.with_extension("co");
    fs::write(&beside, SCALE.bytes()).expect("it can be written");
    assert_eq!(cache.update(&beside), [""; 0]);
    assert_eq!(cache.kernels().len(), 1);
}

#[test]
fn hundreds_of_updates_end_where_a_new_start_begins() {
    let harness = Harness::new();
    let mut cache = harness.open();
    let builds = [SCALE, SCALE.options("-O3 -DLDS=256"), SUM].map(|build| build.bytes());
    // Any order will do that comes back to files that are there.
    let mut state = 1_u32;
    for _ in 0..400 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let name = format!("{}/{}.co", state >> 28, state >> 20 & 15);
        let path = harness.root.join(&name);
        if state >> 8 & 3 == 0 && path.exists() {
            fs::remove_file(&path).expect("it is there");
        } else {
            harness.put(&name, &builds[(state >> 4) as usize % builds.len()], 3600);
        }
        cache.update(&path);
    }
    let again = harness.open();
    assert_eq!(again.indexing().files_read, again.indexing().files);
    assert!(again.kernels().len() > 50);
    assert_eq!(cache.kernels(), again.kernels());
    for name in ["scale", SUM_NAME] {
        assert_eq!(cache.candidates(name), again.candidates(name));
    }
}
