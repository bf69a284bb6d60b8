//! Searches from end to end, on a device whose times are computed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use amdgpu_code_object::Target;
use hsa::sys::abi::aql::Packet;
use logdur_kernel_cache::Interface;
use tempfile::TempDir;

use super::*;
use crate::error::ReplayError;
use crate::stats::Random;

/// A device whose kernel takes `cost` nanoseconds, and up to a fiftieth more.
struct Computed<'c> {
    cost: Box<Cost<'c>>,
    /// Repetitions, by configuration.
    runs: BTreeMap<usize, u32>,
}

type Cost<'c> = dyn Fn(&Config) -> Result<u64, Outcome> + 'c;

impl Runner for Computed<'_> {
    fn run(&mut self, config: &Config, repetitions: u32) -> Outcome {
        *self.runs.entry(config.number).or_default() += repetitions;
        // A search that goes on finds the same times.
        let mut random = Random::new((config.number as u64) << 32 | u64::from(repetitions));
        match (self.cost)(config) {
            Ok(cost) => Outcome::measured((0..repetitions).map(|_| cost + random.below(cost / 50 + 1)).collect()),
            Err(outcome) => outcome,
        }
    }

    fn qualified(&self) -> Vec<String> {
        Vec::new()
    }

    fn emulated(&self) -> bool {
        true
    }
}

fn computed<'c>(cost: impl Fn(&Config) -> Result<u64, Outcome> + 'c) -> Computed<'c> {
    Computed { cost: Box::new(cost), runs: BTreeMap::new() }
}

fn total(runner: &Computed<'_>) -> u32 {
    runner.runs.values().sum()
}

fn plain() -> Interface {
    Interface::plain("k", Target::parse("gfx90a").unwrap())
}

/// A kernel with 1024 work-items in workgroups of 64. What a file's kernel is, its text says.
fn subject() -> Subject<'static> {
    let mut packet = Packet([0; 16]);
    packet.0[..6].copy_from_slice(&[0x0001_0b02, 64 | 1 << 16, 1, 1024, 1, 1]);
    let fits = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let mut kernel = plain();
        match text.trim().split_once(' ') {
            None if text.trim() == "same" => return Ok(None),
            Some(("limit", most)) => kernel.max_flat_workgroup_size = most.parse().unwrap(),
            Some(("refuse", reason)) => {
                let refusals = vec![reason.to_owned()];
                return Err(ReplayError::Refused { kernel: "k".to_owned(), refusals });
            }
            _ => {}
        }
        Ok(Some((kernel, format!("hash of {}", text.trim()))))
    };
    Subject::new(packet, plain(), Box::new(fits))
}

fn space(parameters: &[&str], workgroups: &[&str]) -> Space {
    Space {
        parameters: parameters.iter().map(|p| p.parse().unwrap()).collect(),
        workgroups: workgroups.iter().map(|w| w.parse().unwrap()).collect(),
        ..Space::default()
    }
}

fn identity(options: &str) -> Identity {
    Identity {
        capture: "a.ldcap".into(),
        dispatch: 7,
        kernel: "k0".to_owned(),
        options: options.to_owned(),
        shard: None,
    }
}

fn journal(folder: &TempDir, resume: bool) -> Journal {
    Journal::open(folder.path(), &identity("o"), &Sources::default(), resume).unwrap()
}

fn prepared(folder: &TempDir, space: &Space, journal: &Journal) -> Prepared {
    let limit = Duration::from_secs(60);
    let compiling = Compiling { folder: folder.path().join("code"), jobs: 2, limit, keep: false };
    prepare(&subject(), space, space.choices().unwrap(), &compiling, journal, &|_| (), &|| ()).unwrap()
}

const PLAN: Plan = Plan { first: 3, repetitions: 20, halving: true, target: None, part: false };

fn searched(folder: &TempDir, resume: bool, space: &Space, plan: &Plan, runner: &mut Computed<'_>) -> Searched {
    let mut journal = journal(folder, resume);
    let prepared = prepared(folder, space, &journal);
    search(prepared.configs, plan, runner, &mut journal, &mut |_| ()).unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Of a configuration that is fastest in workgroups of 256.
fn cost(config: &Config) -> Result<u64, Outcome> {
    let [x, ..] = config.sizes.unwrap().workgroup;
    Ok(10_000 + 40 * u64::from(x.abs_diff(256)))
}

#[test]
fn the_optimum_is_found_and_halving_takes_fewer_repetitions_than_measuring_all() {
    let space = space(&["n=16..1024:16"], &["{n}"]);
    let (mut all, mut halved) = (computed(cost), computed(cost));
    let every = searched(&folder(), false, &space, &Plan { halving: false, ..PLAN }, &mut all);
    let some = searched(&folder(), false, &space, &PLAN, &mut halved);
    for found in [&every, &some] {
        let best = found.best.unwrap();
        let config = &found.trials[best.number].config;
        assert_eq!(config.values, [("n".to_owned(), "256".to_owned())]);
        let ratio = best.ratio.unwrap();
        assert!(ratio.high < 1.0 && (ratio.value - 10_000.0 / 17_680.0).abs() < 0.02, "{ratio:?}");
        // And in turns with the captured one.
        let turns = best.turns.unwrap();
        assert!((turns.ratio - ratio.value).abs() < 0.02 && turns.count == 20 && turns.p < 1e-5, "{turns:?}");
    }
    assert_eq!(total(&all), 64 * 20 + 2 * 20);
    assert!(total(&halved) < 64 * 10, "{}", total(&halved));
    assert!(some.trials.iter().filter(|t| t.given_up.is_some()).count() > 32);
    let runs = [0, some.best.unwrap().number].map(|number| some.trials[number].summary().unwrap().runs);
    assert_eq!(runs, [20; 2]);
}

#[test]
fn those_that_cannot_be_told_apart_are_all_measured_to_the_end() {
    let space = space(&["n=1..9"], &["{n}"]);
    // So little that there is no noise.
    let mut runner = computed(|_| Ok(10));
    searched(&folder(), false, &space, &PLAN, &mut runner);
    assert_eq!(total(&runner), 10 * 20);
}

#[test]
fn what_is_as_sure_as_asked_is_not_measured_again() {
    let space = space(&["n=64..256:64"], &["{n}"]);
    let plan = Plan { halving: false, target: Some(0.02), ..PLAN };
    let mut runner = computed(|_| Ok(10_000));
    let trials = searched(&folder(), false, &space, &plan, &mut runner).trials;
    assert!(trials.iter().all(|t| t.summary().unwrap().runs == 6), "{:?}", runner.runs);
}

#[test]
fn failures_are_results_that_drop_out_and_are_in_the_journal() {
    let space = space(&["n=32,96,128,160,192"], &["{n}"]);
    let mut runner = computed(|config| match config.sizes.unwrap().workgroup[0] {
        32 => Err(Outcome::Mismatch { text: "out[0]".to_owned() }),
        96 => Err(Outcome::Hang { seconds: 2.5 }),
        128 => Err(Outcome::Crash { text: "signal 11".to_owned() }),
        160 => Err(Outcome::Fault { text: "at 0x10".to_owned() }),
        192 => Ok(500),
        _ => Ok(1000),
    });
    let folder = folder();
    let Searched { trials, best } = searched(&folder, false, &space, &PLAN, &mut runner);
    let words: Vec<&str> = trials.iter().map(|t| t.outcome.as_ref().unwrap().word()).collect();
    assert_eq!(words, ["measured", "mismatch", "hang", "crash", "fault", "measured"]);
    assert_eq!(best.unwrap().number, 5);
    assert_eq!(runner.runs[&1], 3);
    let text = fs::read_to_string(folder.path().join("trials.jsonl")).unwrap();
    for failure in ["\"result\":\"hang\",\"seconds\":2.5", "signal 11", "out[0]", "at 0x10"] {
        assert_eq!(text.matches(failure).count(), 1, "{failure}");
    }
}

#[test]
fn a_captured_configuration_that_fails_ends_the_search() {
    let mut runner = computed(|_| Err(Outcome::Mismatch { text: "out[0]".to_owned() }));
    let Searched { trials, best } = searched(&folder(), false, &space(&[], &["128"]), &PLAN, &mut runner);
    assert_eq!((trials[0].outcome.as_ref().unwrap().word(), &trials[1].outcome), ("mismatch", &None));
    assert_eq!((total(&runner), best), (3, None));
}

#[test]
fn one_that_fails_in_its_turns_is_not_the_best_and_the_next_one_has_its_turns() {
    let space = space(&["n=128,256"], &["{n}"]);
    // Right in the search and wrong ever after.
    let left = Cell::new(1);
    let flaky = |config: &Config| match config.sizes.unwrap().workgroup[0] {
        256 if left.replace(left.get() - 1) <= 0 => Err(Outcome::Mismatch { text: "out[0]".to_owned() }),
        _ => cost(config),
    };
    let (folder, plan) = (folder(), Plan { halving: false, ..PLAN });
    let mut runner = computed(flaky);
    let found = searched(&folder, false, &space, &plan, &mut runner);
    assert_eq!(found.trials[2].outcome.as_ref().unwrap().word(), "mismatch");
    let best = found.best.unwrap();
    assert_eq!((best.number, best.turns.unwrap().count), (1, 20));
    // Who goes on knows it.
    let mut again = computed(flaky);
    assert_eq!((searched(&folder, true, &space, &plan, &mut again), total(&again)), (found, 0));
}

#[test]
fn a_search_that_was_killed_goes_on_with_what_is_missing_and_finds_the_same() {
    let space = space(&["n=16..512:16"], &["{n}"]);
    let (whole, mut runner) = (folder(), computed(cost));
    let expected = searched(&whole, false, &space, &PLAN, &mut runner);
    let text = fs::read_to_string(whole.path().join("trials.jsonl")).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    // After the first line, in the first round, in later ones, in the middle of a line, at the very end.
    for cut in [ends[0], ends[10], ends[40], ends[40] + 5, ends[41] - 1, 10, text.len()] {
        let folder = folder();
        fs::write(folder.path().join("trials.jsonl"), &text[..cut]).unwrap();
        let mut again = computed(cost);
        assert_eq!(searched(&folder, true, &space, &PLAN, &mut again), expected, "{cut}");
        let known = text[..cut].split_inclusive('\n').skip(1).filter(|line| line.ends_with('\n'));
        let times = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["outcome"]["gpu_ns"].as_array().unwrap().len()
        };
        assert_eq!(total(&again) as usize + known.map(times).sum::<usize>(), total(&runner) as usize, "{cut}");
        assert_eq!(fs::read_to_string(folder.path().join("trials.jsonl")).unwrap(), text, "{cut}");
    }
}

#[test]
fn a_journal_is_used_only_for_what_it_is_about() {
    let (folder, space) = (folder(), space(&[], &["128"]));
    searched(&folder, false, &space, &PLAN, &mut computed(cost));
    // It has a command line.
    let mode = fs::metadata(folder.path().join("trials.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let open =
        |identity: &Identity, resume| Journal::open(folder.path(), identity, &Sources::default(), resume).map(|_| ());
    let error = open(&identity("o"), false).unwrap_err().to_string();
    assert!(error.ends_with("trials.jsonl: expected no such file, or --resume, found one"), "{error}");
    let error = open(&identity("p"), true).unwrap_err().to_string();
    assert!(error.contains("line 1: expected the journal of a.ldcap, dispatch 7, kernel k0, options p"), "{error}");
    // Another configuration of the same number.
    let mut journal = journal(&folder, true);
    let other = prepared(&folder, &self::space(&[], &["256"]), &journal);
    let error = search(other.configs, &PLAN, &mut computed(cost), &mut journal, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("configuration 1: expected"), "{error}");
    let error = open(&identity("o"), true).unwrap_err().to_string();
    assert!(error.ends_with("expected a journal that no process writes, found one in use"), "{error}");
    drop(journal);
    let path = folder.path().join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"round\"", "\"rounds\"", 1)).unwrap();
    assert!(open(&identity("o"), true).unwrap_err().to_string().contains("line 2: expected a round"));
}

#[test]
fn configurations_that_the_kernel_does_not_allow_are_results_with_their_reason() {
    let folder = folder();
    let space = space(&["n=64,100,2048", "m=1,3"], &["{n}/{m}"]);
    let journal = journal(&folder, false);
    let prepared = prepared(&folder, &space, &journal);
    let reasons: Vec<String> = prepared
        .configs
        .iter()
        .map(|(_, outcome)| outcome.as_ref().map_or("runs".to_owned(), Outcome::reason))
        .collect();
    assert_eq!(
        reasons,
        [
            "runs",
            "--workgroup {n}/{m}: 64 / 3 leaves a remainder",
            "runs",
            "--workgroup {n}/{m}: 100 / 3 leaves a remainder",
            "--workgroup of k: expected 1 to 1024 work-items, found 2048,1,1",
            "--workgroup {n}/{m}: 2048 / 3 leaves a remainder",
        ]
    );
    // 64 by 1 is what the application did.
    assert_eq!(prepared.same, 1);
    let captured = &prepared.configs[0].0;
    assert_eq!(captured.values, [("n".to_owned(), "64".to_owned()), ("m".to_owned(), "1".to_owned())]);
    assert_eq!(captured.geometry, Geometry::default());
}

#[test]
fn code_is_compiled_for_each_configuration_and_has_limits_of_its_own() {
    let folder = folder();
    let mut space = space(&["n=32,128,256,512", "bounds=limit 128,limit 1024,refuse: LDS"], &["{n}"]);
    let count = folder.path().join("count");
    let template = format!("echo {{bounds}} >> {}; test {{n}} != 512; echo {{bounds}} > {{out}}", count.display());
    space.compile = Some(format!("set -e; {template}").parse().unwrap());
    space.parameters[1].values[2] = "refuse LDS".to_owned();
    let journal = journal(&folder, false);
    let prepared = prepared(&folder, &space, &journal);
    let words: Vec<&str> =
        prepared.configs.iter().map(|(_, outcome)| outcome.as_ref().map_or("runs", Outcome::word)).collect();
    let expected = ["runs", "runs", "runs", "refused", "runs", "runs", "refused", "invalid", "runs", "refused"];
    assert_eq!(words[..10], expected);
    assert_eq!(words[10..], ["compile-failed"; 3]);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 12);
    let (config, _) = &prepared.configs[1];
    assert_eq!(config.code_hash.as_deref(), Some("hash of limit 128"));
    assert!(config.command.as_ref().unwrap().ends_with("echo 'limit 128' > {out}"));
    let (_, refused) = &prepared.configs[3];
    assert_eq!(refused.as_ref().unwrap().reason(), "k is not replaced: LDS");
}

#[test]
fn what_failed_to_compile_is_not_compiled_again_when_a_search_goes_on() {
    let folder = folder();
    let count = folder.path().join("count");
    let mut space = space(&["n=1,2"], &[]);
    space.compile = Some(format!("echo >> {}; test {{n}} = 1 && echo x > {{out}}", count.display()).parse().unwrap());
    let first = searched(&folder, false, &space, &PLAN, &mut computed(cost));
    assert_eq!(fs::read_to_string(&count).unwrap().len(), 2);
    let mut runner = computed(cost);
    let again = searched(&folder, true, &space, &PLAN, &mut runner);
    assert_eq!((fs::read_to_string(&count).unwrap().len(), total(&runner)), (3, 0));
    assert_eq!(first, again);
}

#[test]
fn a_search_that_goes_on_knows_which_of_its_sources_have_changed() {
    let (folder, mut space) = (folder(), space(&["name=a,b,none"], &[]));
    let file = |name: &str| folder.path().join(name);
    let paths = ["tool", "a", "b", "log"].map(|name| file(name).display().to_string());
    paths[..3].iter().for_each(|path| fs::write(path, "before").unwrap());
    // The log is written by the command, and there only afterwards.
    let [tool, first, second, log] = &paths;
    space.compile = Some(format!("'{tool}' -i={first} {{name}} <{second} 2>{log} > {{out}}").parse().unwrap());
    let changed = |resume| {
        let found = sources(&subject(), &space, &space.choices().unwrap());
        Journal::open(folder.path(), &identity("o"), &found, resume).unwrap().changed().to_vec()
    };
    assert!(changed(false).is_empty());
    fs::write(log, "said").unwrap();
    assert!(changed(true).is_empty());
    fs::write(first, "after").unwrap();
    fs::remove_file(tool).unwrap();
    assert_eq!(changed(true), [file("a"), file("tool")]);
}

#[test]
fn files_stand_beside_the_captured_code_and_the_same_code_is_not_run_twice() {
    let folder = folder();
    let (same, other) = (folder.path().join("same"), folder.path().join("other"));
    fs::write(&same, "same").unwrap();
    fs::write(&other, "other").unwrap();
    let space = Space { files: vec![same, other.clone()], ..Space::default() };
    let journal = journal(&folder, false);
    let prepared = prepared(&folder, &space, &journal);
    let codes: Vec<_> = prepared.configs.iter().map(|(config, _)| config.code.clone()).collect();
    assert_eq!((codes, prepared.same), (vec![None, Some(other)], 2));
}

#[test]
fn the_table_has_a_row_for_every_configuration_and_quotes_what_needs_it() {
    let folder = folder();
    let mut space = space(&["n=32,128", "flags=-O3 \"x\"\\,y"], &["{n}"]);
    space.compile = Some("test {n} = 32 && echo {flags} > {out}".parse().unwrap());
    let trials = searched(&folder, false, &space, &PLAN, &mut computed(|_| Ok(10))).trials;
    let path = folder.path().join("trials.csv");
    write_csv(&path, &subject(), &trials, &[]).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = text.split_terminator("\r\n").collect();
    let header = "config,kernel,n,flags,grid-x,grid-y,grid-z,workgroup-x,workgroup-y,workgroup-z,code,result,median-ns,\
                  mad-ns,min-ns,runs,verified,reason";
    assert_eq!(rows[0], header);
    assert!(rows[1].starts_with("0,k,,,1024,1,1,64,1,1,captured,measured,"), "{}", rows[1]);
    assert!(
        rows[2].starts_with("1,k,32,\"-O3 \"\"x\"\",y\",1024,1,1,32,1,1,") && rows[2].ends_with(",20,yes,"),
        "{}",
        rows[2]
    );
    assert!(rows[3].starts_with("2,k,128,\"-O3 \"\"x\"\",y\",1024,1,1,128,1,1,"), "{}", rows[3]);
    assert!(rows[3].ends_with(",compile-failed,,,,,,exit status: 1"), "{}", rows[3]);
    assert_eq!(rows.len(), 4);
}

#[test]
fn commands_run_the_best_again_and_in_the_application() {
    let place = ConfiguredDispatch {
        file: "my app.ldcap".into(),
        dispatch: 7,
        region: None,
        options: vec!["--emulate".to_owned(), "2*gfx90a".to_owned()],
    };
    let mut config = Config {
        number: 1,
        values: Vec::new(),
        geometry: Geometry { workgroup: Some([16, 16, 1]), ..Geometry::default() },
        sizes: None,
        code: None,
        code_hash: None,
        command: None,
    };
    assert_eq!(
        place.replay(&config),
        "omniprobe replay 'my app.ldcap' --dispatch 7 --workgroup 16,16,1 --emulate '2*gfx90a'"
    );
    assert_eq!(place.application(&config), Vec::<String>::new());
    config.geometry.grid = Some([512, 1, 1]);
    config.code = Some("out/code/a.hsaco".into());
    let replay = "omniprobe replay 'my app.ldcap' --dispatch 7 --grid 512,1,1 --workgroup 16,16,1 --hsaco all=out/code/a.hsaco --emulate '2*gfx90a'";
    assert_eq!(place.replay(&config), replay);
    let expected = ["mkdir -p CACHE && cp out/code/a.hsaco CACHE/", "omniprobe -c CACHE -- APP"];
    assert_eq!(place.application(&config), expected);
}

/// A device that is as fast each time.
struct Exact {
    runs: u32,
}

impl Runner for Exact {
    fn run(&mut self, config: &Config, repetitions: u32) -> Outcome {
        self.runs += repetitions;
        let [x, ..] = config.sizes.unwrap().workgroup;
        match x {
            48 => Outcome::Hang { seconds: 2.0 },
            _ => Outcome::measured(vec![cost(config).unwrap(); repetitions as usize]),
        }
    }

    fn qualified(&self) -> Vec<String> {
        Vec::new()
    }

    fn emulated(&self) -> bool {
        true
    }
}

#[test]
fn parts_that_are_put_together_have_the_verdict_of_one_search() {
    // Some are the same as others, one hangs, and sizes above 1024 are refused before they run.
    let space = space(&["n=16..1056:16", "m=1,2"], &["{n}", "{n}*{m}"]);
    let part = |folder: &TempDir, shard: Option<&str>, merged: &[&TempDir], runner: &mut Exact| {
        let shard: Option<Shard> = shard.map(|text| text.parse().unwrap());
        let identity = Identity { shard, ..identity("o") };
        let mut journal = Journal::open(folder.path(), &identity, &Sources::default(), false)?;
        let code = folder.path().join("code");
        if !merged.is_empty() {
            let folders: Vec<_> = merged.iter().map(|folder| folder.path().to_owned()).collect();
            journal.merge(Merged::read(&folders, &identity, &code)?, &Sources::default());
        }
        let choices = space.choices().unwrap();
        let choices = shard.map_or_else(|| choices.clone(), |shard| shard.of(choices.clone()));
        let compiling = Compiling { folder: code, jobs: 2, limit: Duration::from_secs(60), keep: true };
        let prepared = prepare(&subject(), &space, choices, &compiling, &journal, &|_| (), &|| ())?;
        search(prepared.configs, &Plan { part: shard.is_some(), ..PLAN }, runner, &mut journal, &mut |_| ())
    };
    let mut alone = Exact { runs: 0 };
    let whole = part(&folder(), None, &[], &mut alone).unwrap();
    let parts = [folder(), folder(), folder()];
    for (folder, shard) in parts.iter().zip(["1/3", "2/3", "3/3"]) {
        let found = part(folder, Some(shard), &[], &mut Exact { runs: 0 }).unwrap();
        assert!(found.best.is_none() && found.trials.len() < whole.trials.len());
    }
    let [first, second, third] = &parts;
    let mut last = Exact { runs: 0 };
    let together = part(&folder(), None, &[first, second, third], &mut last).unwrap();
    assert_eq!(together, whole);
    // Only the best one and the captured one run again, in turns.
    assert_eq!(last.runs, 2 * PLAN.repetitions);
    // What a part has that was lost is measured.
    let mut more = Exact { runs: 0 };
    assert_eq!(part(&folder(), None, &[first, third], &mut more).unwrap(), whole);
    assert!(last.runs < more.runs && more.runs < alone.runs, "{} {} {}", last.runs, more.runs, alone.runs);
    // The same part twice, and what is no part, are errors.
    let twice = part(&folder(), None, &[first, first], &mut last).unwrap_err().to_string();
    assert!(twice.ends_with("expected each part once, found part 1/3 twice"), "{twice}");
    let complete = folder();
    part(&complete, None, &[], &mut last).unwrap();
    let whole = part(&folder(), None, &[&complete], &mut last).unwrap_err().to_string();
    assert!(whole.ends_with("expected a part of a search, by --shard, found a whole one"), "{whole}");
}
