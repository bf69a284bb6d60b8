//! Kernels of a cache that fit by their arguments, and would compute something else in the original's place.

use std::fs;
use std::path::{Path, PathBuf};

use logdur_kernel_cache::Hash;

use crate::replay::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::launch::{self, Arg, Launch};

fn opencl(name: &str, options: &str) -> PathBuf {
    let source = harness::root().join(format!("tests/programs/opencl/{name}.cl"));
    harness::opencl_object(&source, &harness::arch(), 19, 2, 4, options)
}

/// A run with one file in its cache.
fn with_cache(run: Run, file: &Path) -> Run {
    let cache = run.file("cache");
    fs::create_dir(&cache).unwrap();
    fs::copy(file, cache.join("o.hsaco")).unwrap();
    let indexes = run.file("indexes");
    run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes)
}

/// Launches of kernels of a code object with 64 work-items, with another code object as the cache: what they wrote.
fn launched(run: Run, object: &Path, launches: &[Launch]) -> (Vec<Vec<u32>>, Outcome) {
    let launched = launch::launched_by(run, object, launches, true);
    let (buffers, outcome) = launched.unwrap_or_else(|run| panic!("{}{}", run.stdout, run.stderr));
    let words = |bytes: &[u8]| bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    (buffers.iter().map(|of| words(of.last().unwrap())).collect(), outcome)
}

fn launch(kernel: &str, args: Vec<Arg>) -> Launch {
    Launch { kernel: kernel.to_owned(), grid: vec![64], workgroup: vec![64], lds: 0, args }
}

fn out() -> Arg {
    Arg::Buffer(vec![0; 256])
}

/// The kernels of the rows, and whether another ran in their place.
fn rows(run: &Outcome) -> Vec<(String, bool)> {
    let log = run.log();
    log.of_program().iter().map(|row| (row.kernel().to_owned(), !row.text("replaced").is_empty())).collect()
}

#[test]
fn local_pointers_move_with_the_lds_that_a_replacement_declares_in_the_application_and_in_replays() {
    let input: Vec<u8> = (0..64_u32).flat_map(|n| (n * n + 7).to_le_bytes()).collect();
    let launches = [launch("turn", vec![Arg::Buffer(input), out(), Arg::Local(256), Arg::Local(256)])];
    let builds = ["", "-DOWN=64", "-DOWN=5"].map(|options| opencl("local_argument", options));
    let expected = launched(launch::launcher(&harness::arch()), &builds[0], &launches).0;
    for (original, other) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
        let run = with_cache(launch::launcher(&harness::arch()), &builds[other]);
        let capture = run.file("a.ldcap");
        let (found, outcome) = launched(run.env("LOGDUR_CAPTURE", &capture), &builds[original], &launches);
        assert_eq!(found, expected, "{original}, {other}");
        assert_eq!(rows(&outcome), [("turn".to_owned(), true)], "{original}, {other}: {:#?}", outcome.log().notices);
        for hsaco in [None, Some("original".to_owned()), Some(format!("all={}", builds[other].display()))] {
            let options: Vec<&str> = hsaco.iter().flat_map(|hsaco| ["--hsaco", hsaco]).collect();
            let options = [&options[..], &["--backend", "emu"]].concat();
            let verified = on_file(Run::new(built("omniprobe")), "verify", &capture, &harness::arch(), &options);
            ended(&verified, "PASS", 0);
        }
        // Less LDS than that to which the second pointer leads.
        let benched = on_file(
            Run::new(built("omniprobe")),
            "bench",
            &capture,
            &harness::arch(),
            &["--hsaco", "original", "--lds", "256", "--backend", "emu"],
        );
        let said = format!("{}{}", benched.stdout, benched.stderr);
        assert!(!benched.status.success() && said.contains("--lds of turn: expected more than "), "{said}");
    }
}

#[test]
fn what_only_an_initialiser_fills_is_not_read_by_a_replacement() {
    let (original, other) = (opencl("initialised", "-DPLUS=1"), opencl("initialised", "-DPLUS=9 -DINIT"));
    let launches = ["lookup", "plain"].map(|kernel| launch(kernel, vec![out()]));
    let (found, outcome) = launched(with_cache(launch::launcher(&harness::arch()), &other), &original, &launches);
    assert_eq!([found[0][5], found[1][5]], [16, 14], "{:#?}", outcome.log().notices);
    assert_eq!(rows(&outcome), [("lookup".to_owned(), false), ("plain".to_owned(), true)]);
    let notices = outcome.log().notices.join("\n");
    assert!(notices.contains("initialiser: expected variables that no initialiser or finaliser uses"), "{notices}");
}

#[test]
fn a_name_with_colons_is_whole_in_rows_filters_captures_and_swaps() {
    let original = opencl("colons", "-DFIRST=1 -DSECOND=2");
    let launches = ["a:b", "b"].map(|kernel| launch(kernel, vec![out()]));
    let swapped = |other: &Path, more: &[(&str, &str)]| {
        let run = with_cache(launch::launcher(&harness::arch()), other);
        let capture = run.file("a.ldcap");
        let run = more.iter().fold(run.env("LOGDUR_CAPTURE", &capture), |run, (name, value)| run.env(name, value));
        let (found, outcome) = launched(run, &original, &launches);
        let verified = on_file(Run::new(built("omniprobe")), "verify", &capture, &harness::arch(), &[]);
        ended(&verified, "PASS", 0);
        assert!(verified.stdout.contains("a:b"), "{}", verified.stdout);
        (found[0][0], found[1][0], rows(&outcome))
    };
    let named = |first: bool, second: bool| vec![("a:b".to_owned(), first), ("b".to_owned(), second)];
    assert_eq!(swapped(&opencl("colons", "-DONE -DSECOND=12"), &[]), (1, 12, named(false, true)));
    let both = opencl("colons", "-DFIRST=11 -DSECOND=12");
    assert_eq!(swapped(&both, &[]), (11, 12, named(true, true)));
    assert_eq!(swapped(&both, &[("LOGDUR_FILTER", "^a:b$")]), (11, 2, named(true, false)));
}

#[test]
fn of_different_kernels_of_one_name_only_the_one_that_a_replacement_was_made_for_is_swapped() {
    // Code that calls functions has their distances in it, which other kernels of the file change.
    let object = |options: &str| harness::hip_object("twin_kernel", &harness::arch(), &format!("-O2 {options}"));
    let (three, five) = (object("-DN=3"), object("-DN=5"));
    let twins = |cache: &Path, files: &[&Path], wanted: Option<&str>| {
        let run = with_cache(Run::hip("twins").args(files), cache);
        let run = wanted.iter().fold(run, |run, wanted| run.env("LOGDUR_KERNEL_CACHE_ORIGINAL", wanted)).watched();
        let notices = run.log().notices.join("\n");
        assert!(run.status.success(), "{}{}{notices}", run.stdout, run.stderr);
        let last = run.stdout.lines().nth(1).unwrap_or_default().to_owned();
        (last, notices)
    };
    let other = object("-DN=3 -DPLUS=1000");
    let (own, doubt) = ("21 155", "the application has 2 different kernels of this name");
    // The first one's own code object; one that was made for the first one, loaded before or after the other.
    let (found, notices) = twins(&three, &[&three, &five], None);
    assert_eq!(found, own, "{notices}");
    assert!(notices.contains(doubt) && notices.contains("LOGDUR_KERNEL_CACHE_ORIGINAL chooses"), "{notices}");
    let (found, notices) = twins(&other, &[&three, &five], None);
    assert_eq!(found, "1021 155", "{notices}");
    assert!(notices.contains(doubt) && notices.contains("in doubt"), "{notices}");
    assert_eq!(twins(&other, &[&five, &three], None).0, "155 1021");
    // The user knows better.
    let hash = Hash::of(&fs::read(&five).unwrap()).short();
    assert_eq!(twins(&other, &[&three, &five], Some(&hash)).0, "21 1021");
    assert_eq!(twins(&other, &[&three, &five], Some("all")).0, "1021 1021");
    // The same kernel in two files is no doubt.
    let again = object("-DN=3 -DUNUSED");
    let (found, notices) = twins(&other, &[&three, &again], None);
    assert_eq!(found, "1021 1021", "{notices}");
    assert!(!notices.contains("in doubt"), "{notices}");
}
