//! Instrumented mode: clones run in the place of kernels, and handlers get every message that was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::{Log, Row};

/// Work-items of a workgroup of `doubled`, and those of its grid that do nothing.
pub(crate) const GROUP: u64 = 256;
pub(crate) const IDLE: u64 = 100;
/// What address messages say of an access of 4 bytes to global memory.
const READ: u64 = 1 | 1 << 2 | 4 << 6;
const WRITE: u64 = 2 | 1 << 2 | 4 << 6;

/// What is done, workgroup, wave and lane, address.
pub(crate) type Access = (u64, [u64; 3], [u64; 2], u64);

/// What the handler `lister` writes.
pub(crate) struct Listed {
    /// By dispatch.
    pub(crate) addresses: Vec<(u64, Access)>,
    /// Kernel by dispatch.
    pub(crate) begun: BTreeMap<u64, String>,
    /// Messages, bytes, bytes sent, errors, and whether there is a duration, by dispatch.
    pub(crate) ended: BTreeMap<u64, [u64; 5]>,
    pub(crate) others: Vec<String>,
}

impl Listed {
    pub(crate) fn of(text: &str) -> Listed {
        let mut listed =
            Listed { addresses: Vec::new(), begun: BTreeMap::new(), ended: BTreeMap::new(), others: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |n: usize| words[n].parse::<u64>().unwrap_or_else(|e| panic!("{line}: {e}"));
            match words[0] {
                "address" => {
                    let group: Vec<u64> = words[3].split('.').map(|n| n.parse().unwrap()).collect();
                    let address = u64::from_str_radix(words[6], 16).unwrap();
                    let lane = [number(4), number(5)];
                    listed.addresses.push((number(1), (number(2), group.try_into().unwrap(), lane, address)));
                }
                "begin" => _ = listed.begun.insert(number(1), words[2..].join(" ")),
                "end" => {
                    let numbers = [number(3), number(5), number(7), number(9), number(11)];
                    assert!(listed.ended.insert(number(1), numbers).is_none(), "{line}: a second time");
                }
                _ => listed.others.push(line.to_owned()),
            }
        }
        listed
    }

    /// Of a dispatch.
    fn of_dispatch(&self, id: u64) -> Vec<Access> {
        self.addresses.iter().filter(|(of, _)| *of == id).map(|(_, access)| *access).collect()
    }

    /// How many there are, by dispatch.
    pub(crate) fn counts(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        self.addresses.iter().for_each(|(id, _)| *counts.entry(*id).or_default() += 1);
        counts
    }
}

pub(crate) fn lister() -> std::path::PathBuf {
    harness::handler("tests/programs/lister.c")
}

/// A run of `cloned`, instrumented, with a handler.
pub(crate) fn with_handler(program: &Path, arguments: &[&str], handler: &Path) -> Run {
    let run = Run::new(program.to_owned()).args(arguments);
    let output = run.file("handlers");
    let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLERS", handler);
    run.env("LOGDUR_HANDLER_OUTPUT", output)
}

/// The same with the handler that lists everything.
pub(crate) fn listed(arguments: &[&str]) -> Run {
    with_handler(&harness::hip("cloned"), arguments, &lister())
}

pub(crate) fn is_instrumented(row: &&&Row) -> bool {
    row.text("replaced").starts_with("instrumented:")
}

/// What the work-items of `doubled` access: each reads one element and writes another, at the same place of two buffers.
fn accesses_of_doubled(buffers: [u64; 2], n: u64) -> BTreeSet<Access> {
    let of = |item: u64| {
        let place = ([item / GROUP, 0, 0], [item % GROUP / 64, item % 64]);
        [(READ, buffers[0]), (WRITE, buffers[1])].map(|(what, base)| (what, place.0, place.1, base + 4 * item))
    };
    (0..n).flat_map(of).collect()
}

#[test]
fn the_messages_of_a_clone_are_the_addresses_that_its_lanes_access() {
    for (arch, mode) in harness::archs().iter().flat_map(|arch| ["inplace", "intercept"].map(|mode| (arch, mode))) {
        let outcome = listed(&["all"]).arch(arch).env("LOGDUR_QUEUE_MODE", mode).watched().passed();
        let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
        log.account();
        let shown = outcome.stdout.lines().find_map(|line| line.strip_prefix("doubled in 0x")).unwrap();
        let words: Vec<&str> = shown.split(' ').collect();
        let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        let (buffers, n) = ([address(words[0]), address(words[2])], words[4].parse().unwrap());
        assert_eq!(n, 3 * GROUP - IDLE);
        let own = log.of_program();
        let id = own.iter().find(|row| row.kernel() == "doubled").unwrap().number("id");
        let found = got.of_dispatch(id);
        assert_eq!(found.len() as u64, 2 * n, "{arch} {mode}: an address twice");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), accesses_of_doubled(buffers, n), "{arch} {mode}");
        // The rows say which dispatches are instrumented, and handlers know the same ones.
        let kernels: Vec<(&str, bool)> = own.iter().map(|row| (row.kernel(), is_instrumented(&row))).collect();
        let reversed = "reversed(char, int*, Packed, unsigned int*)";
        let expected = [
            ("doubled", true),
            (reversed, true),
            ("counted", true),
            ("counted", true),
            ("plain", false),
            ("refused", false),
        ];
        assert_eq!(kernels, expected, "{arch} {mode}");
        let ids: BTreeSet<u64> = own.iter().filter(is_instrumented).map(|row| row.number("id")).collect();
        assert_eq!(got.ended.keys().copied().collect::<BTreeSet<_>>(), ids);
        assert_eq!(got.begun.keys().copied().collect::<BTreeSet<_>>(), ids);
        for [messages, bytes, sent, errors, timed] in got.ended.values() {
            assert!(*messages > 0 && bytes == sent && *errors == 0 && *timed == 1, "{:?}", got.ended);
        }
        let about = &got.begun[&id];
        let expected = format!(
            "doubled mangled doubled clone __amd_crk_doubledPv grid 768x1x1 workgroup 256x1x1 on {arch} agent 0 elf 1"
        );
        assert_eq!(*about, expected);
        assert_eq!(got.others, ["closed"]);
        // Dynamic LDS is as large as the application asked for.
        assert_eq!(log.rows_of("reversed")[0].number("ldsBytes"), 96 * 4);
        let refused = log.notices.iter().filter(|notice| notice.contains("refused on agent 0 stays as it is")).count();
        assert_eq!(refused, 1, "{:?}", log.notices);
    }
}

#[test]
fn clones_run_in_the_window_only_and_the_applications_own_kernels_outside_of_it() {
    let all = listed(&["all"]).watched().passed();
    let id = all.log().rows_of("reversed")[0].number("id");
    let part = listed(&["all"]).env("LOGDUR_WHEN", format!("dispatches:{id}")).watched().passed();
    let (log, got) = (part.log(), Listed::of(&part.read("handlers")));
    assert_eq!(got.begun.keys().copied().collect::<Vec<_>>(), [id]);
    assert_eq!((log.rows.len(), log.account()["outside"] + 1), (1, log.account()["seen"]));
    assert!(is_instrumented(&&&log.rows[0]), "{:?}", log.rows[0]);
}

#[test]
fn a_cooperative_launch_is_instrumented_if_its_workgroups_can_meet_as_before() {
    for arch in harness::archs() {
        let outcome = listed(&["cooperative"]).arch(&arch).watched().passed();
        let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
        let row = log.rows_of("relayed_wide")[0];
        assert!(is_instrumented(&&row), "{arch}: {row:?} {:?}", log.notices);
        let found = got.of_dispatch(row.number("id"));
        let of = |what| found.iter().filter(|access| access.0 == what).count();
        assert_eq!((of(READ), of(WRITE), found.len()), (1024, 2048, 3072), "{arch}");
        // With more registers, fewer workgroups may run at once than the application was told.
        let row = log.rows_of("relayed")[0];
        assert_eq!((row.flags(), row.text("replaced")), ("not-instrumented", ""), "{arch}");
        let told = log.notices.iter().filter(|notice| notice.contains("relayed runs as it is where it has to"));
        assert!(told.filter(|notice| notice.contains("cooperative queue")).count() == 1, "{:?}", log.notices);
    }
}

#[test]
fn full_buffers_are_emptied_while_the_kernel_runs_and_dispatches_that_find_none_are_counted() {
    let run = listed(&["wide", "12"]).env("LOGDUR_INSTRUMENT_BUFFERS", "40K");
    let file = run.file("log.csv");
    let outcome = run.env("LOGDUR_LOG_LOCATION", &file).probed::<&str>(&[]).passed();
    let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
    let rows = log.rows_of("doubled");
    let (instrumented, skipped): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_instrumented);
    assert!(!instrumented.is_empty() && !skipped.is_empty(), "{} of {}", instrumented.len(), rows.len());
    assert!(skipped.iter().all(|row| row.flags() == "not-instrumented" && row.text("replaced").is_empty()));
    let n = 300 * GROUP - IDLE;
    for row in &instrumented {
        // 2 MB of messages went through buffers of 4 KiB.
        let id = row.number("id");
        let addresses: BTreeSet<_> = got.of_dispatch(id).into_iter().collect();
        assert_eq!(addresses.len() as u64, 2 * n, "dispatch {id}");
        assert_eq!((got.ended[&id][1], got.ended[&id][3]), (got.ended[&id][2], 0));
    }
    assert_eq!(got.ended.len(), instrumented.len());
    let told = format!("instrumented {} of {} dispatches: doubled: {0}", instrumented.len(), log.rows.len());
    assert!(outcome.stderr.contains(&told), "expected {told:?} in {}", outcome.stderr);
    let told = format!("not instrumented: {} (no message buffer was free)", skipped.len());
    assert!(outcome.stderr.contains(&told), "expected {told:?} in {}", outcome.stderr);
}

#[test]
fn threads_with_streams_on_two_gpus_are_instrumented_at_the_same_time() {
    let arch = harness::arch();
    let gpus = if harness::on_hardware() { arch } else { format!("{arch},{arch}") };
    let outcome = listed(&["streams", "6"]).arch(&gpus).watched().passed();
    let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
    let rows = log.rows_of("doubled");
    assert_eq!((rows.len(), rows.iter().filter(is_instrumented).count()), (4 * 6 * 8, 4 * 6 * 8));
    let counts = got.counts();
    for row in rows {
        let (id, grid) = (row.number("id"), row.text("grid").split('x').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(counts.get(&id), Some(&(2 * (grid - IDLE))), "dispatch {id}");
        assert!(got.begun[&id].contains(&format!("agent {}", row.number("agent"))), "{}", got.begun[&id]);
    }
    assert_eq!(got.ended.values().filter(|ended| ended[1] == ended[2] && ended[3] == 0).count(), counts.len());
}

#[test]
fn sizes_that_cannot_be_and_messages_that_are_too_large_are_told_and_the_next_dispatch_is_whole() {
    let outcome = listed(&["damaged"]).watched().passed();
    let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
    let ended: Vec<[u64; 5]> = got.ended.values().copied().collect();
    // LOGDUR_ERROR_CORRUPT, and the whole dispatch after it.
    assert_eq!((ended[0][0], ended[0][3], ended[1][3]), (0, 2, 0), "{ended:?}");
    assert_eq!(got.addresses.len() as u64, 2 * (3 * GROUP - IDLE));
    let notices = |about: &str| log.notices.iter().filter(|notice| notice.contains(about)).count();
    assert_eq!(notices("messages of damaged are lost, first in dispatch"), 1, "{:?}", log.notices);
    let outcome = listed(&["large"]).env("LOGDUR_INSTRUMENT_BUFFERS", "256K").watched().passed();
    let got = Listed::of(&outcome.read("handlers"));
    // LOGDUR_ERROR_TOO_LARGE; the small messages of both waves are there.
    assert_eq!(got.ended.values().map(|ended| [ended[0], ended[3]]).collect::<Vec<_>>(), [[2, 1]]);
    let log = outcome.log();
    assert!(
        log.notices.iter().any(|notice| notice.contains("larger than a buffer of 4096 bytes")),
        "{:?}",
        log.notices
    );
}

#[test]
fn a_handler_that_fails_is_missing_or_too_new_is_off_with_one_notice_and_the_application_goes_on() {
    let run = |handler: &Path, variable: (&str, &str)| {
        with_handler(&harness::hip("cloned"), &["doubled", "20"], handler).env(variable.0, variable.1)
    };
    let missing = Path::new("/nonexistent/handler.so");
    let cases = [
        (lister(), ("LOGDUR_HANDLER_OPTIONS", "fail=open"), "it is not used: as the option says, in open"),
        (lister(), ("LOGDUR_HANDLER_OPTIONS", "fail=begin"), "gets no more messages: as the option says, in begin"),
        (
            lister(),
            ("LOGDUR_HANDLER_OPTIONS", "fail=messages"),
            "gets no more messages: as the option says, in messages",
        ),
        (lister(), ("LOGDUR_HANDLER_OPTIONS", "fail=end"), "gets no more messages: as the option says, in end"),
        (missing.to_owned(), ("LISTER_NONE", "1"), "its library cannot be loaded"),
        (lister(), ("LISTER_NEWER", "1"), "it needs version 2 of the interface, expected at most 1"),
        (built("libkfdemu.so"), ("LISTER_NONE", "1"), "its library cannot be loaded"),
    ];
    for (handler, variable, said) in cases {
        // Buffers are full all the time: a wave would wait for ever if nothing emptied them.
        let outcome = run(&handler, variable).env("LOGDUR_INSTRUMENT_BUFFERS", "96K").watched().passed();
        let log = outcome.log();
        let notices: Vec<&String> = log.notices.iter().filter(|notice| notice.starts_with("handler ")).collect();
        assert!(notices.len() == 1 && notices[0].contains(said), "{variable:?}: {notices:?}");
        assert!(log.rows_of("doubled").iter().any(|row| is_instrumented(&row)), "{variable:?}");
    }
    // One of a time when tables were shorter gets messages, and is not called where it has no function.
    let outcome = run(&lister(), ("LISTER_OLDER", "1")).watched().passed();
    let got = Listed::of(&outcome.read("handlers"));
    assert_eq!(got.addresses.len() as u64, 20 * 2 * (3 * GROUP - IDLE));
    assert!(got.ended.is_empty() && got.others.is_empty(), "{:?}", got.others);
}

#[test]
fn a_handler_that_never_returns_is_named_and_the_process_ends_without_it() {
    let run = listed(&["doubled", "2"]);
    let log = run.file("log.csv");
    let run = run.env("LOGDUR_LOG_LOCATION", log).env("LOGDUR_HANDLER_OPTIONS", "fail=never");
    let outcome = run.probed::<&str>(&[]).passed();
    let log = outcome.log();
    log.account();
    let told = format!("handler {}: it did not return from a call", lister().display());
    let notices: Vec<&String> = log.notices.iter().filter(|notice| notice.starts_with(&told)).collect();
    assert!(notices.len() == 1 && outcome.stderr.matches(&told).count() == 1, "{:?}\n{}", log.notices, outcome.stderr);
    assert_eq!(log.rows_of("doubled").iter().filter(is_instrumented).count(), 2);
}

#[test]
fn dispatches_are_chosen_by_count_share_and_name() {
    for (dispatches, expected) in [("all", 1..=10), ("1", 1..=1), ("3", 1..=3), ("4-6", 4..=6), ("100%", 1..=10)] {
        let outcome = listed(&["doubled", "10"]).env("LOGDUR_DISPATCHES", dispatches).watched().passed();
        let log = outcome.log();
        let mut rows = log.rows_of("doubled");
        rows.sort_by_key(|row| row.number("id"));
        let chosen: Vec<usize> = (1..).zip(&rows).filter(|(_, row)| is_instrumented(row)).map(|(n, _)| n).collect();
        assert_eq!(chosen, expected.collect::<Vec<_>>(), "{dispatches}");
        let flagged = rows.iter().filter(|row| row.flags() == "not-instrumented").count();
        assert_eq!(flagged + chosen.len(), 10, "{dispatches}");
    }
    let outcome = listed(&["all"]).env("LOGDUR_FILTER", "^reversed$").watched().passed();
    let log = outcome.log();
    let names: Vec<&str> = log.rows.iter().filter(|row| is_instrumented(&row)).map(Row::kernel).collect();
    assert_eq!(names, ["reversed(char, int*, Packed, unsigned int*)"]);
    let half = listed(&["doubled", "400"]).env("LOGDUR_DISPATCHES", "50%").watched().passed();
    let count = half.log().rows.iter().filter(|row| is_instrumented(&row)).count();
    // Six standard deviations.
    assert!((140..=260).contains(&count), "{count} of 400");
}

#[test]
fn clones_of_the_cache_run_in_applications_without_clones_and_share_their_variables() {
    let program = harness::hip_optimized("cloned", "-O3 -DPLAIN");
    for (options, own) in [("-O3", true), ("-O3 -DSAME_NAME", false)] {
        let run = with_handler(&program, &["all"], &lister());
        let (cache, indexes) = (run.file("cache"), run.file("indexes"));
        fs::create_dir(&cache).unwrap();
        fs::copy(harness::hip_object("cloned", &harness::arch(), options), cache.join("clones.hsaco")).unwrap();
        let outcome = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).watched().passed();
        let (log, got) = (outcome.log(), Listed::of(&outcome.read("handlers")));
        let doubled = log.rows_of("doubled");
        assert!(is_instrumented(&&doubled[0]), "{options}: {:?}", log.notices);
        assert_eq!(got.of_dispatch(doubled[0].number("id")).len() as u64, 2 * (3 * GROUP - IDLE));
        let others = ["reversed", "counted"].map(|name| log.rows_of(name).iter().filter(is_instrumented).count());
        assert_eq!(others, if own { [1, 2] } else { [0, 0] }, "{options}: {:?}", log.notices);
        // The cache has a kernel of this name and these arguments, too, which is not swapped in.
        assert!(log.rows_of("plain").iter().all(|row| row.text("replaced").is_empty()));
    }
}

#[test]
fn a_captured_dispatch_is_not_instrumented_and_its_capture_replays() {
    let run = listed(&["doubled", "6"]);
    let (file, log) = (run.file("a.ldcap"), run.file("log.csv"));
    let run = run.env("LOGDUR_LOG_LOCATION", log);
    let options = ["--capture", file.to_str().unwrap(), "--capture-kernels", "doubled", "--capture-dispatches", "1"];
    let outcome = run.probed(&options).passed();
    let log = outcome.log();
    let mut rows = log.rows_of("doubled");
    rows.sort_by_key(|row| row.number("id"));
    let flags: Vec<&str> = rows.iter().map(|row| row.flags()).collect();
    assert_eq!(flags, ["not-instrumented", "", "", "", "", ""]);
    assert!(outcome.stderr.contains("not instrumented: 1 (a capture)"), "{}", outcome.stderr);
    let verify = Command::new(built("omniprobe")).args(["verify", "--backend", "emu"]).arg(&file).output().unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
}

#[test]
fn a_kernel_that_faults_has_sent_what_it_sent_and_its_row_is_recovered() {
    let run = listed(&["faulting"]);
    let (log, records) = (run.file("log.csv"), run.file("records"));
    fs::create_dir(&records).unwrap();
    let outcome = run.env("LOGDUR_LOG_LOCATION", &log).env("LOGDUR_RECORDS", &records).probed::<&str>(&[]);
    assert!(!outcome.status.success());
    let got = Listed::of(&outcome.read("handlers"));
    // Some runtimes end the process in order: then the handler learns that the second dispatch did not end.
    let whole: Vec<u64> = got.ended.iter().filter(|(_, ended)| ended[3] == 0).map(|(id, _)| *id).collect();
    assert!(whole.len() == 1 && got.ended.values().all(|ended| [0, 4].contains(&ended[3])), "{:?}", got.ended);
    assert_eq!(got.counts()[&whole[0]], 2 * (3 * GROUP - IDLE), "the dispatch before");
    let recovered = outcome.log();
    let row = recovered.rows_of("faulting")[0];
    // The GPU may have written an end after the fault, which no thread has read.
    assert!(is_instrumented(&&row) && ["in-flight", "times-lost", "incomplete"].contains(&row.flags()), "{row:?}");
}

#[test]
fn a_process_that_is_killed_leaves_reports_of_whole_messages_and_all_rows() {
    let run = listed(&["for-ever"]);
    let (log, records, handlers) = (run.file("log.csv"), run.file("records"), run.file("handlers"));
    fs::create_dir(&records).unwrap();
    let run = run.env("LOGDUR_LOG_LOCATION", &log).env("LOGDUR_RECORDS", &records);
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let wrote = || fs::metadata(&handlers).map_or(0, |file| file.len());
    while wrote() < 1 << 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "only {} bytes", wrote());
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(&handlers).unwrap();
    // The last line may be cut.
    let whole = &text[..=text.rfind('\n').unwrap()];
    let got = Listed::of(whole);
    let n = 40 * GROUP - IDLE;
    assert!(!got.ended.is_empty());
    let counts = got.counts();
    assert!(got.ended.keys().all(|id| counts[id] == 2 * n));
    let file = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    let recover = Command::new(built("omniprobe")).arg("log").arg(file).arg("-l").arg(&log).output().unwrap();
    assert!(recover.status.success(), "{}", String::from_utf8_lossy(&recover.stderr));
    let log = Log::parse(&fs::read_to_string(&log).unwrap());
    let ids: BTreeSet<u64> = log.rows.iter().map(|row| row.number("id")).collect();
    assert!(got.begun.keys().all(|id| ids.contains(id)), "a dispatch without a row");
}

/// What a run of the command line prints.
fn printed(outcome: &Outcome) -> String {
    format!("{}\n{}", outcome.stdout, outcome.stderr)
}

#[test]
fn the_examples_of_handlers_report_on_a_real_run() {
    let run = Run::hip("cloned").args(["doubled", "2"]);
    let [count, lanes] =
        ["count.c", "lanes.cpp"].map(|name| harness::handler(&format!("docs/example/handlers/{name}")));
    let both = format!("{},{}", count.display(), lanes.display());
    let file = run.file("log.csv");
    let run = run.env("LOGDUR_LOG_LOCATION", file);
    let outcome = run.probed(&["-i", "-a", &both, "-d", "1", "--copies"]).passed();
    let text = printed(&outcome);
    // 668 work-items in 11 waves, each of which reads and writes 4 bytes.
    let counted = "22 addresses, 0 blocks, 0 intervals, 0 others, 2672 bytes read, 2672 written, errors 0";
    assert!(text.contains(counted), "{text}");
    assert_eq!(text.matches(": 11 messages, 668 active lanes").count(), 2, "{text}");
    // Copies are rows, but no dispatches.
    let dispatches = outcome.log().rows.iter().filter(|row| row.text("kind") == "dispatch").count();
    assert!(text.contains(&format!("instrumented 1 of {dispatches} dispatches")), "{text}");
}

#[test]
fn libraries_are_searched_for_clones_and_excluded_ones_are_not() {
    let program = harness::hip_optimized("cloned", "-O3 -DPLAIN");
    let clones = harness::hip_object("cloned", &harness::arch(), "-O3");
    let instrumented = |program: &Path, filter: String| {
        let run = with_handler(program, &["doubled", "1"], &lister());
        let (file, indexes) = (run.file("filter.json"), run.file("indexes"));
        fs::write(&file, filter).unwrap();
        let outcome = run.env("LOGDUR_LIBRARY_FILTER", file).env("XDG_CACHE_HOME", indexes).watched().passed();
        is_instrumented(&&outcome.log().rows_of("doubled")[0])
    };
    let (all, name) = (clones.parent().unwrap().display(), clones.file_name().unwrap().display());
    assert!(instrumented(&program, format!(r#"{{"include": ["{all}/{name}"]}}"#)));
    assert!(!instrumented(&program, format!(r#"{{"include": ["{all}/{name}"], "exclude": ["**/{name}"]}}"#)));
    // The application's own code is searched, unless it is excluded.
    let own = harness::hip("cloned");
    assert!(instrumented(&own, "{}".to_owned()));
    assert!(!instrumented(&own, r#"{"exclude": ["**/cloned"]}"#.to_owned()));
}

#[test]
fn a_clone_that_is_loaded_after_its_kernel_runs_in_its_place_by_either_name() {
    let object = |cloned: u32| harness::hip_object("late_clone", &harness::arch(), &format!("-O2 -DCLONED={cloned}"));
    for cloned in [1, 2] {
        let run = Run::hip("late_clone").args([object(0), object(cloned)]).env("LOGDUR_INSTRUMENTED", "true");
        let log = run.watched().passed().log();
        let row = log.rows.iter().find(|row| row.kernel() == "tripled(int*)").unwrap();
        assert!(is_instrumented(&&row), "{cloned}: {row:?} {:?}", log.notices);
    }
}

#[test]
fn handlers_get_only_messages_of_the_workgroups_that_are_chosen() {
    for (wanted, groups) in [("1", 1..2), ("0:2", 0..2), (",0", 0..3), ("9", 0..0)] {
        let outcome = listed(&["doubled", "2"]).env("LOGDUR_WORKGROUPS", wanted).watched().passed();
        let got = Listed::of(&outcome.read("handlers"));
        let found: BTreeSet<u64> = got.addresses.iter().map(|(_, (_, group, ..))| group[0]).collect();
        assert_eq!(found, groups.clone().collect(), "{wanted}");
        // The last workgroup is not full.
        let each = |group| 2 * (GROUP - if group == 2 { IDLE } else { 0 });
        assert_eq!(got.addresses.len() as u64, 2 * groups.map(each).sum::<u64>(), "{wanted}");
        assert_eq!(got.ended.len(), 2, "{wanted}");
    }
    let run = listed(&["doubled", "1"]);
    let outcome = run.probed(&["-i", "--filter-x", "1", "--filter-y", "0:1", "-l", "/dev/null"]).passed();
    let found = Listed::of(&outcome.read("handlers"));
    assert!(found.addresses.iter().all(|(_, (_, group, ..))| *group == [1, 0, 0]), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(" messages of other workgroups were left out"), "{}", outcome.stderr);
    for (options, said) in [
        (&["--filter-x", "2:1"][..], "--filter-x 2:1: expected N or N:M"),
        (&["--instrumentation-scope", "a.hip:5"], "set INSTRUMENTATION_SCOPE=a.hip:5 for the compiler"),
    ] {
        let outcome = listed(&["doubled", "1"]).probed(options);
        assert!(!outcome.status.success() && outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}
