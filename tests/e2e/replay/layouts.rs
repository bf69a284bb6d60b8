//! Captures and replays in processes whose addresses are laid out otherwise: under a debugger, on clusters that limit memory or do not
//! limit the stack.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::support::harness::{self, Run, built};

/// Runs the words behind it as they are; without random addresses; with addresses from below; with a stack of any size, for which
/// addresses are laid out from below, too; with fewer addresses than a replay would fill.
const LAYOUTS: [&str; 5] = [
    "exec \"$@\"",
    "exec setarch -R \"$@\"",
    "exec setarch -L \"$@\"",
    "ulimit -s unlimited; exec \"$@\"",
    "ulimit -v 40000000; exec \"$@\"",
];

#[test]
fn a_replay_in_any_layout_is_exact_or_says_that_it_is_not_and_no_relocate_keeps_its_word() {
    if harness::on_hardware() {
        return;
    }
    let arch = harness::arch();
    for of_capture in &LAYOUTS[..4] {
        let program = harness::hip("swaps");
        let words =
            [OsStr::new("-c"), OsStr::new(of_capture), OsStr::new("sh"), program.as_os_str(), OsStr::new("plain")];
        let run = Run::new("sh".into()).args(words);
        let file = run.file("run.ldcap");
        let outcome = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", "plain").watched().passed();
        for of_replay in LAYOUTS {
            for no_relocate in [false, true] {
                let replay = Run::new(built("omniprobe"));
                let options: &[&str] = if no_relocate { &["--no-relocate"] } else { &[] };
                let rocm: Vec<OsString> = harness::rocm_option();
                let mut command = Command::new("sh");
                command.args(["-c", of_replay, "sh"]).arg(built("omniprobe")).args(["verify", "--emulate", &arch]);
                command.args(rocm).args(options).arg(&file);
                let verified = replay.finish(command);
                let is = |word: &str| verified.stdout.contains(word);
                let all =
                    format!("{of_capture}, {of_replay}: {:?} {}{}", verified.status, verified.stdout, verified.stderr);
                match verified.status.code() {
                    Some(0) if is("placed: relocated") => assert!(!no_relocate && is("PASS (qualified)"), "{all}"),
                    Some(0) => assert!(is("placed: exact") && is("PASS"), "{all}"),
                    status => {
                        let is_named =
                            verified.stderr.contains("the runtime gave") || verified.stderr.contains("ulimit -v");
                        assert!(no_relocate && status == Some(4) && is_named, "{all}");
                    }
                }
            }
        }
        drop(outcome);
    }
}
