//! Regions in which a kernel has other grids and workgroups than in the application.

use std::path::PathBuf;

use super::{Story, text};
use crate::replay::verify::{ended, json, on_file};
use crate::support::harness::{self, Outcome, Run, built};

/// The four kernels of the program `reused`, whose work-items are numbered by the size of their workgroups.
fn reused() -> (Run, PathBuf) {
    let run = Run::new(built("omniprobe"));
    let file = run.file("run.ldcap");
    let region = "kernel:^pack@1..kernel:^sum@1";
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", region, "-l", "/dev/null"];
    Run::hip("reused").probed(&options).passed();
    (run, file)
}

#[test]
fn a_kernel_of_a_region_is_right_with_another_workgroup_and_what_it_does_not_allow_is_refused_by_its_name() {
    let (_run, file) = reused();
    let tool = |name: &str, options: &[&str]| {
        let options = [&["--region", "--backend", "emu"], options].concat();
        on_file(Run::new(built("omniprobe")), name, &file, &harness::arch(), &options)
    };
    let reshaped = |outcome: &Outcome| {
        assert!(outcome.status.success(), "{}", text(outcome));
        json(outcome)["reshaped"].clone()
    };
    let of = |kernel: &str| serde_json::json!({ "kernel": kernel, "dispatches": 1, "grid": null, "workgroup": [128, 1, 1], "lds": null });
    let outcome = tool("verify", &["--kernel", "^sum$", "--workgroup", "128", "--json"]);
    assert_eq!(reshaped(&outcome), serde_json::json!([of("sum")]), "{}", text(&outcome));
    // Each of several kernels of a name.
    let outcome = tool("verify", &["--kernel", "^scale", "--workgroup", "128", "--json"]);
    assert_eq!(reshaped(&outcome).as_array().unwrap().len(), 2, "{}", text(&outcome));
    let outcome = tool("bench", &["--kernel", "^sum$", "--workgroup", "128", "--repetitions", "3", "--json"]);
    assert_eq!(reshaped(&outcome), serde_json::json!([of("sum")]), "{}", text(&outcome));
    let said = json(&outcome);
    assert_eq!((&said["own"]["gaps"]["runs"], &said["gaps"]["runs"]), (&3.into(), &3.into()), "{said:#}");
    assert_eq!(said["ratio"]["pairs"], 3, "{said:#}");
    let shown = tool("verify", &["--kernel", "^sum$", "--workgroup", "128"]);
    assert!(shown.stdout.contains("  1 dispatches of sum have workgroup 128,1,1"), "{}", text(&shown));
    // Half of the elements are not computed.
    ended(&tool("verify", &["--kernel", "^sum$", "--grid", "256"]), "FAIL", 6);
    for (options, said) in [
        (&["--workgroup", "128"][..], "--grid, --workgroup and --lds: expected a kernel for them, by --kernel, found"),
        (&["--kernel", "product", "--workgroup", "128"], "expected a kernel that these steps launch, found none among"),
        (&["--kernel", "^sum$", "--workgroup", "2048"], "--workgroup of sum: expected 1 to 1024 work-items"),
        (&["--kernel", "^sum$"], "expected no --kernel: a region is replayed as a whole"),
    ] {
        let outcome = tool("verify", options);
        assert!(outcome.status.code() == Some(1) && outcome.stderr.contains(said), "{said}: {}", text(&outcome));
    }
}

#[test]
fn a_kernel_of_a_region_that_counts_on_its_workgroup_is_wrong_with_another_and_its_first_dispatch_is_named() {
    let mut story = Story::new();
    let with = ["--kernel", "^increment$", "--workgroup", "32"];
    // Of the part behind the checkpoint, too.
    let outcome = story.verify(&with);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    assert_eq!(outcome.stdout.matches("FAIL").count(), 2, "{}", text(&outcome));
    assert!(outcome.stdout.contains("  2 dispatches of increment have workgroup 32,1,1"), "{}", text(&outcome));
    let outcome = story.verify(&["--kernel", "^increment$", "--workgroup", "128"]);
    let said = "dispatch 11, increment: --workgroup of increment: expected 1 to 64 work-items, found 128,1,1";
    assert!(outcome.status.code() == Some(1) && outcome.stderr.contains(said), "{}", text(&outcome));
    // The steps up to this dispatch have no other kernel.
    let outcome = story.verify(&[&["--dispatch", "15"], &with[..]].concat());
    let said = "--kernel: expected a kernel that these steps launch, found none among tally";
    assert!(outcome.status.code() == Some(1) && outcome.stderr.contains(said), "{}", text(&outcome));
    story.checkpoints.clear();
    let outcome = story.verify(&[&["--bisect", "--json"], &with[..]].concat());
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    // The second half of the first workgroup is not incremented.
    assert_eq!((&first["dispatch"], &first["index"]), (&11.into(), &32.into()), "{first:#}");
    let alone = first["commands"][1].as_str().unwrap();
    assert!(alone.contains("--workgroup 32,1,1"), "{alone}");
}
