//! Features that were asked for and are off: `omniprobe` says it on standard error, with the reason.

use std::fs;
use std::process::Command;

use crate::support::harness::{self, Outcome, Run, built};

/// Runs a program by `omniprobe` in a shell, after `before`.
fn told(before: &str, options: &str) -> Outcome {
    let run = Run::hip("vectors");
    fs::write(run.file("filter"), "not json").unwrap();
    let device = if harness::on_hardware() { String::new() } else { format!("--emulate {}", harness::arch()) };
    let program = run.command().get_program().to_owned();
    let line = format!(
        "{before} exec '{}' {device} -l log.csv {options} -- '{}'",
        built("omniprobe").display(),
        program.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(run.file(""));
    run.finish(command).passed()
}

#[test]
fn features_that_are_off_for_want_of_descriptors_time_or_a_filter_that_can_be_read_are_told_with_the_reason() {
    let cases = [
        ("ulimit -n 24;", "--capture c.ldcap", "descriptors are in use"),
        ("", "--capture c.ldcap --capture-max-seconds 0", "nothing more is captured: 0 s were spent on it"),
        ("", "-i -c . --library-filter filter", "filter: expected JSON: "),
    ];
    for (before, options, why) in cases {
        let outcome = told(before, options);
        let said = outcome.stderr.lines().any(|line| line.starts_with("omniprobe: ") && line.contains(why));
        // Some runtimes leave descriptors enough.
        let is_captured = !before.is_empty() && outcome.stderr.contains(" 0 not captured");
        assert!(said || is_captured, "{options}: {}", outcome.stderr);
        // The rest goes on.
        assert!(!outcome.log().rows.is_empty(), "{options}");
    }
}
