//! `--stacks`: which place of the application a kernel is launched from.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::support::harness::{self, Outcome, Run, built};

/// As applications are compiled: no frame pointers, calls inlined, with lines.
fn program() -> Run {
    Run::new(harness::hip_optimized("call_sites", "-O3 -g -fomit-frame-pointer"))
}

/// What the program prints of its places: function, line and launches.
fn places(stdout: &str) -> Vec<(String, u64, u64)> {
    let place = |line: &str| {
        let mut words = line.strip_prefix("place ")?.split(' ');
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    stdout.lines().filter_map(place).collect()
}

fn summary(run: &Outcome, options: &[&str]) -> String {
    let mut command = Command::new(built("omniprobe"));
    command.args(["summary", "log.csv", "--by", "site"]).args(options).current_dir(run.folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn groups(run: &Outcome) -> Vec<Value> {
    let all: Value = serde_json::from_str(&summary(run, &["--json"])).unwrap();
    all["groups"].as_array().unwrap().clone()
}

/// The frame of the program's source that launches: behind the function that the compiler makes for the kernel.
fn launcher(group: &Value) -> Option<&Value> {
    let is_source = |frame: &&Value| frame["file"].as_str().is_some_and(|file| file.ends_with("call_sites.hip"));
    let is_stub = |frame: &&Value| frame["function"].as_str().unwrap_or_default().contains("__device_stub__");
    group["stack"].as_array()?.iter().find(|frame| is_source(frame) && !is_stub(frame))
}

#[test]
fn launches_are_told_apart_by_function_and_line_without_frame_pointers_and_while_libraries_come_and_go() {
    for format in ["csv", "json"] {
        let run = program().env("LOGDUR_LOG_FORMAT", format).env("LOGDUR_STACKS", "kernel=^marked$").watched().passed();
        let mut found: Vec<(String, u64, u64)> = Vec::new();
        for group in groups(&run).iter().filter(|group| group["name"].as_str().unwrap().starts_with("marked")) {
            let Some(frame) = launcher(group) else {
                assert!(group["site"].is_null(), "{group:#}");
                continue;
            };
            let function = frame["function"].as_str().unwrap();
            let function = function.split(['(', '<']).next().unwrap().rsplit(':').next().unwrap();
            found.push((function.to_owned(), frame["line"].as_u64().unwrap(), group["calls"].as_u64().unwrap()));
        }
        let mut expected = places(&run.stdout);
        assert_eq!(expected.len(), 5);
        found.sort();
        expected.sort();
        assert_eq!(found.len(), 5, "{format}: {}", summary(&run, &[]));
        // The reaper may publish a packet before its doorbell is rung.
        let few = |(ours, theirs): (&(String, u64, u64), &(String, u64, u64))| {
            (&ours.0, ours.1) == (&theirs.0, theirs.1) && ours.2 <= theirs.2 && theirs.2 - ours.2 <= theirs.2 / 10
        };
        assert!(found.iter().zip(&expected).all(few), "{format}: {found:?} {expected:?}");
        // Kernels that are not wanted have no site, and all that is said is shown to people, too.
        let others: Vec<Value> = groups(&run).into_iter().filter(|group| group["site"].is_null()).collect();
        assert!(others.iter().any(|group| group["name"].as_str().unwrap().starts_with("other")), "{others:?}");
        let table = summary(&run, &[]);
        for (function, line, _) in &expected {
            assert!(
                table
                    .lines()
                    .any(|row| row.contains(function.as_str()) && row.contains(&format!("call_sites.hip:{line}"))),
                "{table}"
            );
        }
    }
}

#[test]
fn addresses_of_sites_lie_in_the_functions_that_another_symboliser_names() {
    let run = program().env("LOGDUR_STACKS", "kernel=^marked$").watched().passed();
    let text = run.read("log.csv");
    let sites: Vec<(u64, Vec<String>)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# site ")?.split_once(": pid="))
        .map(|(number, rest)| {
            (number.parse().unwrap(), serde_json::from_str(rest.split_once(" frames=").unwrap().1).unwrap())
        })
        .collect();
    assert_eq!(sites.len(), 5, "{text}");
    let of_groups: BTreeMap<u64, Value> =
        groups(&run).into_iter().filter_map(|group| Some((group["site"].as_u64()?, group))).collect();
    for (number, frames) in &sites {
        assert!(!frames[0].contains("liblogdur") && frames.len() < 64, "{frames:?}");
        let own = frames.iter().filter(|frame| frame.contains("call_sites"));
        for (path, offset) in own.map(|frame| frame.rsplit_once("+0x").unwrap()) {
            // The program's code is mapped at the offsets of its file, but for whole pages.
            let address = u64::from_str_radix(offset, 16).unwrap() - 1;
            let address = address + text_distance(path);
            let output = Command::new("llvm-symbolizer-19")
                .args(["--functions=linkage", "--demangle", "--inlines", "-e", path, &format!("{address:#x}")])
                .output()
                .unwrap();
            let named = String::from_utf8(output.stdout).unwrap();
            let ours = of_groups[number]["stack"].as_array().unwrap();
            let at = format!("{path}+0x{offset}");
            let ours: Vec<&str> =
                ours.iter().filter(|f| f["at"] == at.as_str()).map(|f| f["function"].as_str().unwrap()).collect();
            let theirs: Vec<&str> = named.lines().step_by(2).filter(|line| !line.is_empty()).collect();
            // One that calls itself is there several times.
            let are_same = ours.chunks(theirs.len()).all(|chunk| chunk == theirs);
            assert!(are_same && !ours.is_empty(), "{at}: {ours:?} {named}");
        }
    }
}

/// How far the addresses of a program's code are from its places in the file.
fn text_distance(path: &str) -> u64 {
    let output = Command::new("llvm-readelf-19").args(["-lW", path]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
    let code = text.lines().find(|line| line.trim_start().starts_with("LOAD") && line.contains(" R E ")).unwrap();
    let words: Vec<&str> = code.split_whitespace().collect();
    hex(words[2]) - hex(words[1])
}

#[test]
fn what_is_no_choice_of_kernels_is_said_and_without_one_no_row_has_a_site() {
    for (value, said) in [
        ("marked", "expected kernel="),
        ("kernel=", "expected kernel="),
        ("kernel=(", "expected kernel= and a regular"),
    ] {
        let log = program().env("LOGDUR_STACKS", value).watched().passed().log();
        assert!(
            log.notices.iter().any(|notice| notice.contains("LOGDUR_STACKS") && notice.contains(said)),
            "{:?}",
            log.notices
        );
        assert!(log.rows.iter().all(|row| row.text("site").is_empty()));
    }
    let run = program().watched().passed();
    assert!(run.log().rows.iter().all(|row| row.text("site").is_empty()) && !run.read("log.csv").contains("# site"));
}

#[test]
fn threads_that_share_queues_have_their_own_sites_or_none() {
    let run = Run::new(harness::hip_optimized("launched_by", "-O2 -g"))
        .args(["8", "40"])
        .env("LOGDUR_STACKS", "kernel=marked");
    let run = run.watched().passed();
    let all: Vec<Value> =
        groups(&run).into_iter().filter(|group| group["name"].as_str().unwrap().starts_with("marked")).collect();
    let calls = |group: &Value| group["calls"].as_u64().unwrap();
    assert_eq!(all.iter().map(calls).sum::<u64>(), 320);
    let known: Vec<&Value> = all.iter().filter(|group| !group["site"].is_null()).collect();
    assert!(known.iter().map(|group| calls(group)).sum::<u64>() > 0, "{all:?}");
    for group in known {
        let names = group["stack"].as_array().unwrap().iter().filter_map(|frame| frame["function"].as_str());
        assert!(names.clone().any(|name| name.starts_with("launch(")), "{group:#}");
    }
}

#[test]
fn threads_with_small_stacks_have_room_for_their_sites() {
    let run = Run::hsa("small_stacks").env("LOGDUR_STACKS", "kernel=.").watched().passed();
    let log = run.log();
    assert!(log.rows.iter().any(|row| !row.text("site").is_empty()), "{:?}", log.rows.first());
}
