//! Stacks of threads that lie in memory of the GPU, as GCC's do, and the reasons for masked elements.

use std::fs;
use std::path::PathBuf;

use crate::capture::content::{loads, with_few_arguments};
use crate::replay::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};

/// The code object of `stacks.hip`, without what GCC's metadata lacks.
fn object(options: &str) -> PathBuf {
    let arch = harness::arch();
    let made = with_few_arguments(&harness::hip_object("stacks", &arch, options));
    let path = harness::programs().join(format!("stacks{}.{arch}.few.hsaco", options.replace(' ', "")));
    fs::write(&path, made).unwrap();
    path
}

#[test]
fn stacks_of_threads_are_left_out_and_named_only_where_every_other_byte_is_equal() {
    let verify = |options: &str, other: Option<&str>| -> Outcome {
        let (_run, _reader, file) = loads(&["agent-memory"], Some(&object(options)));
        let others = other.map(|other| format!("all={}", object(other).display()));
        let mut all = vec!["--backend", "emu"];
        all.extend(others.iter().flat_map(|other| ["--hsaco", other.as_str()]));
        on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &all)
    };
    let says = |outcome: &Outcome, parts: &[&str]| {
        for part in parts {
            assert!(outcome.stdout.contains(part), "{part:?} in {}{}", outcome.stdout, outcome.stderr);
        }
    };
    let undefined = "1024 masked bytes are undefined data: they differ only as registers, LDS or scratch do that nothing was written to; \
                     stored by ";
    let own = verify("-O2 -DSIGNED", None);
    ended(&own, "PASS (qualified)", 0);
    let left_out = "4096 bytes, left out: dead memory once the kernel has ended; 1024 of 1024 written bytes are masked";
    says(&own, &["  STACKS           stacks b32: ", left_out, &format!("stacks: {undefined}"), "at increment+0x"]);
    // Nothing says that these are stacks.
    let unsigned = verify("-O2", None);
    ended(&unsigned, "INCONCLUSIVE", 10);
    says(&unsigned, &["MATCH_MASKED     0x", undefined]);
    // A result is undefined data as well.
    let garbage = verify("-O2 -DSIGNED -DGARBAGE", None);
    ended(&garbage, "INCONCLUSIVE", 10);
    says(&garbage, &["MATCH_MASKED     stacks b32", "2048 of 3072 written bytes are masked", undefined]);
    // Another kernel may have other stacks, and no other results.
    ended(&verify("-O2 -DSIGNED", Some("-O2 -DSIGNED -DOTHER")), "PASS (qualified)", 0);
    ended(&verify("-O2 -DSIGNED", Some("-O2 -DSIGNED -DOTHER -DWRONG")), "FAIL", 6);
}
