//! What was checked is what is loaded: of files that are replaced, and by an index that lies.

use std::fs::{self, FileTimes};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use logdur_kernel_cache::{Cache, Choice, Decision, Hash, Interface, Modules, Unavailable, index};

use crate::compiled::{Build, SCALE};
use crate::folders::Harness;

const FASTER: Build = SCALE.options("-O3 -DREGISTERS");
const MORE: Build = SCALE.options("-O3 -DCOUNT");
const STATEFUL: Build = SCALE.options("-O3 -DSTATE");

const AN_HOUR: u64 = 3600;

fn decided(cache: &Cache, of: &Interface) -> Decision {
    cache.decide(of, &Hash::of(b"what runs"), Modules::default(), None, None)
}

fn chosen(cache: &Cache, of: &Interface) -> Choice {
    match decided(cache, of) {
        Decision::Swap { choice, .. } => *choice,
        other => panic!("expected a swap, found {other:?}"),
    }
}

/// How a file is replaced, and a function that does it.
type Way<'a> = (&'a str, &'a dyn Fn(&Path));

/// Two code objects of one kernel, of equal size.
fn pair() -> [Vec<u8>; 2] {
    let mut both = [SCALE.bytes(), FASTER.bytes()];
    let size = both.iter().map(Vec::len).max().expect("two");
    both.iter_mut().for_each(|bytes| bytes.resize(size, 0));
    both
}

#[test]
fn a_file_that_is_replaced_after_it_was_chosen_is_refused_also_if_its_size_and_time_are_the_same() {
    let kernel = SCALE.kernel("scale");
    let [old, new] = pair();
    let set_time = |path: &Path, time: SystemTime| {
        let file = fs::File::options().write(true).open(path).expect("the file is there");
        file.set_times(FileTimes::new().set_modified(time)).expect("its time can be set");
    };
    let renamed_over = |path: &Path| {
        let other = path.with_extension("new");
        fs::write(&other, &new).expect("it can be written");
        fs::rename(other, path).expect("it can be renamed");
    };
    let overwritten = |path: &Path| {
        let mut file = fs::File::options().write(true).open(path).expect("the file is there");
        file.write_all(&new).expect("it can be written");
    };
    let truncated = |path: &Path| {
        fs::File::options().write(true).open(path).and_then(|file| file.set_len(100)).expect("it can be cut");
    };
    let linked = |path: &Path| {
        let other = path.with_extension("new");
        fs::write(&other, &new).expect("it can be written");
        fs::remove_file(path).expect("it is there");
        std::os::unix::fs::symlink(other, path).expect("a link can be made");
    };
    let ways: [Way<'_>; 4] =
        [("renamed", &renamed_over), ("overwritten", &overwritten), ("truncated", &truncated), ("linked", &linked)];
    for (what, replace) in ways {
        let harness = Harness::new();
        let path = harness.put("scale.co", &old, AN_HOUR);
        let cache = harness.open();
        let choice = chosen(&cache, &kernel);
        assert_eq!(cache.read_chosen(&choice).expect("it is as it was"), old);
        let time = fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
        // The times of files have ticks: a change in the tick of the last one cannot be seen in them.
        std::thread::sleep(Duration::from_millis(20));
        replace(&path);
        set_time(&path, time);
        let found = cache.read_chosen(&choice);
        assert!(matches!(found, Err(Unavailable::Changed { .. })), "{what}: {found:?}");
    }
}

#[test]
fn bytes_that_look_the_same_and_have_another_hash_are_refused() {
    let harness = Harness::new();
    harness.put("scale.co", &SCALE.bytes(), AN_HOUR);
    let cache = harness.open();
    // As if the file had been another when it was chosen.
    let choice = Choice { hash: FASTER.hash(), ..chosen(&cache, &SCALE.kernel("scale")) };
    let found = cache.read_chosen(&choice);
    assert!(matches!(found, Err(Unavailable::Changed { .. })), "{found:?}");
}

#[test]
fn an_index_that_lies_about_a_kernel_or_its_place_prevents_a_swap_and_never_causes_one() {
    let harness = Harness::new();
    harness.put("scale.co", &MORE.bytes(), AN_HOUR);
    let kernel = SCALE.kernel("scale");
    assert!(matches!(decided(&harness.open(), &kernel), Decision::Refused(_)), "it has an argument more");
    let [candidate] = &harness.open().kernels()[..] else { panic!("one kernel") };
    let file = harness.index_file();
    let lie = |change: &dyn Fn(&mut logdur_kernel_cache::Candidate)| {
        let mut lying = candidate.clone();
        lying.interface = kernel.clone();
        change(&mut lying);
        fs::write(&file, index::made(&harness.root, &[lying])).expect("it can be written");
        let cache = harness.open();
        assert_eq!(cache.indexing().files_read, 0, "the index is believed: {:?}", cache.indexing());
        cache
    };
    let about_arguments = lie(&|_| ());
    let error = about_arguments.read_chosen(&chosen(&about_arguments, &kernel)).expect_err("it is another kernel");
    assert!(error.to_string().ends_with("expected kernel scale as in the index, found another"), "{error}");
    for (offset, length) in [(64, candidate.place.length - 64), (1 << 40, 5000), (u64::MAX - 8, 16), (0, u64::MAX)] {
        let about_its_place = lie(&|lying| (lying.place.offset, lying.place.length) = (offset, length));
        match decided(&about_its_place, &kernel) {
            Decision::Swap { choice, .. } => {
                let error = about_its_place.read_chosen(&choice).expect_err("there is none");
                assert!(!error.to_string().is_empty());
            }
            Decision::Refused(_) => {}
            other => panic!("{offset:#x}, {length:#x}: {other:?}"),
        }
    }
}

#[test]
fn hashes_that_lie_prevent_a_swap_and_never_cause_one() {
    for build in [SCALE, STATEFUL] {
        let harness = Harness::new();
        harness.put("scale.co", &build.bytes(), AN_HOUR);
        let cache = harness.open();
        let [candidate] = &cache.kernels()[..] else { panic!("one kernel") };
        cache.hash(candidate).expect("it can be read");
        cache.keep_hashes(&harness.index).expect("they can be written");
        let kept = fs::read_dir(&harness.index).expect("a folder").map(|entry| entry.expect("an entry").path());
        let kept = kept.into_iter().find(|path| path.extension().is_some_and(|e| e == "hashes")).expect("hashes");
        // The last byte of the last hash, and the checksum behind it.
        let mut bytes = fs::read(&kept).expect("they were kept");
        let body = bytes.len() - 32;
        bytes[body - 1] ^= 1;
        let checksum = *blake3::hash(&bytes[..body]).as_bytes();
        bytes[body..].copy_from_slice(&checksum);
        fs::write(&kept, bytes).expect("they can be written");
        let mut cache = harness.open();
        cache.take_hashes(&harness.index);
        assert_ne!(cache.hash(candidate).expect("one that was kept"), build.hash());
        let interface = build.kernel("scale");
        match decided(&cache, &interface) {
            Decision::Swap { choice, .. } => {
                let found = cache.read_chosen(&choice);
                assert!(matches!(found, Err(Unavailable::Changed { .. })), "{found:?}");
            }
            // Its variables are looked for in bytes of another hash.
            Decision::Refused(refused) => assert!(format!("{refused:?}").contains("changed"), "{refused:?}"),
            other => panic!("{other:?}"),
        }
    }
}
