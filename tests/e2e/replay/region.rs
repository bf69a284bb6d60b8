//! Captured regions: several dispatches with what the host and copies changed between them, replayed without a runtime. What the memory
//! is in the application is computed here, step by step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use logdur_capture::{
    Agent, Allocation, AllocationKind, Checkpoint, CodeObject, Completed, Dispatch, Evidence, Kernel, Loaded, Options,
    Packet, Reader, Region, RegionEnd, Scope, Session, SnapshotId, Step, StepKind, Storage, Writer,
};

use super::verify::{ended, json, on_file};
use crate::support::captures::{CODE, packet, places};
use crate::support::harness::{self, Outcome, Run, built};

/// Where the buffers are: words of 3 pages, of 1 page, and a count.
pub(crate) const A: u64 = 0x7f31_0020_3000;
pub(crate) const B: u64 = 0x7f31_0040_0000;
pub(crate) const C: u64 = 0x7f31_0060_0100;
/// Where the same code object was loaded once more.
const AGAIN: u64 = CODE + 0x20_0000;
/// Words that a grid of `increment` has.
const WORDS: usize = 256;

/// Bytes at addresses.
pub(crate) type Bytes = Vec<(u64, Vec<u8>)>;

/// What a step does.
#[derive(Clone)]
pub(crate) enum Does {
    /// Runs a kernel of the first or of the second code object in memory on an address.
    Kernel(&'static str, u64, u64),
    Barrier,
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Fill {
        to: u64,
        bytes: u64,
        value: u32,
    },
    /// Memory is freed, and there is some of another kind instead.
    Renewed(u64, u64, AllocationKind),
}

#[derive(Clone)]
pub(crate) struct StoryStep {
    pub(crate) does: Does,
    pub(crate) delta: Bytes,
    pub(crate) evidence: Evidence,
    pub(crate) queue: u64,
    /// Queues, and how far they had come.
    pub(crate) waited: Vec<(u64, u64)>,
}

/// A region as an application would have made it.
#[derive(Clone)]
pub(crate) struct Story {
    pub(crate) code: Vec<u8>,
    pub(crate) steps: Vec<StoryStep>,
    /// Behind which steps all memory is known, and what it is.
    pub(crate) checkpoints: BTreeMap<u64, Bytes>,
    pub(crate) after: Option<Bytes>,
    end: Option<bool>,
    pub(crate) has_dependencies: bool,
}

pub(crate) fn step(does: Does, delta: Bytes) -> StoryStep {
    StoryStep { does, delta, evidence: Evidence::Idle, queue: 1, waited: Vec::new() }
}

pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn incremented(words: &[u32]) -> Vec<u32> {
    let add = |(at, word): (usize, &u32)| word.wrapping_add(u32::from(at < WORDS));
    words.iter().enumerate().map(add).collect()
}

impl Story {
    /// Increments A, copies the beginning of it to B, increments B after the host has written into A, counts, and increments A.
    pub(crate) fn new() -> Story {
        let code = fs::read(harness::kernels(&harness::arch())).unwrap();
        let a: Vec<u32> = (0..3000u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let b = vec![7; 1024];
        let mut now = incremented(&a);
        let mut copied = b.clone();
        copied[1..513].copy_from_slice(&now[..512]);
        // Three bytes of the host's, across words.
        let host = vec![0xaa, 0xbb, 0xcc];
        let mut raw = bytes(&now);
        raw[403..406].copy_from_slice(&host);
        now = raw.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let b_now = incremented(&copied);
        let at_checkpoint = vec![(A, bytes(&now)), (B, bytes(&b_now))];
        let mut filled = b_now.clone();
        filled[100..104].fill(0x1234_5678);
        let after = vec![(A, bytes(&incremented(&now))), (B, bytes(&filled)), (C, bytes(&[42, 5]))];
        Story {
            code,
            steps: vec![
                step(Does::Kernel("increment", CODE, A), vec![(A, bytes(&a))]),
                step(Does::Barrier, Vec::new()),
                step(Does::Copy { to: B + 4, from: A, bytes: 2048 }, vec![(B, bytes(&b))]),
                step(Does::Kernel("increment", CODE, B), vec![(A + 403, host)]),
                step(Does::Kernel("tally", AGAIN, C), vec![(C, bytes(&[41, 5]))]),
                step(Does::Fill { to: B + 400, bytes: 16, value: 0x1234_5678 }, Vec::new()),
                step(Does::Kernel("increment", CODE, A), Vec::new()),
            ],
            checkpoints: BTreeMap::from([(4, at_checkpoint)]),
            after: Some(after),
            end: Some(true),
            has_dependencies: true,
        }
    }

    /// B at the end if nothing is filled there.
    fn unfilled() -> Vec<u8> {
        Story::new().checkpoints[&4][1].1.clone()
    }

    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        let mut writer = Writer::create(path, &Options::default()).unwrap();
        writer.session(&Session { pid: 1, exe: "/a/program".to_owned(), ..Session::default() }).unwrap();
        let isa = format!("amdgcn-amd-amdhsa--{}", harness::arch());
        writer.agent(&Agent { id: 1, isa: isa.clone(), ..Agent::default() }).unwrap();
        let about = CodeObject { isa, size: self.code.len() as u64, ..CodeObject::default() };
        let code_object = writer.code_object(&about, &self.code).unwrap();
        let mut kernels = BTreeMap::new();
        for (executable, base) in [(1, CODE), (2, AGAIN)] {
            let (_, size) = places(&self.code, "increment.kd");
            let loaded = Loaded { executable, code_object, agent: 1, base, size, delta: base, uri: String::new() };
            writer.loaded(&loaded).unwrap();
            for symbol in ["increment", "tally", "tell_time", "write_to", "wait_for", "meet"] {
                let id = kernels.len() as u64 + 1;
                let object = base + places(&self.code, &format!("{symbol}.kd")).0;
                let symbol = symbol.to_owned();
                let kernel = Kernel { id, symbol, code_object, executable, agent: 1, object, ..Kernel::default() };
                writer.kernel(&kernel).unwrap();
                kernels.insert((kernel.symbol, base), (id, object));
            }
        }
        let access = vec![1];
        let allocation = |base, size, kind| Allocation {
            base,
            size,
            kind,
            owner: 1,
            access: access.clone(),
            ..Allocation::default()
        };
        for (base, size) in [(A, 12000), (B, 4096), (C, 8)] {
            writer.allocation(&allocation(base, size, AllocationKind::DeviceCoarse)).unwrap();
        }
        writer
            .region(&Region {
                id: 1,
                trigger: "dispatch:1..".to_owned(),
                scope: Scope::All,
                agent: 1,
                has_dependencies: self.has_dependencies,
            })
            .unwrap();
        let mut sequence = 0;
        for StoryStep { does, delta, evidence, queue, waited } in &self.steps {
            let queue = *queue;
            let waited = waited.iter().map(|&(queue, index)| Completed { queue, index }).collect();
            if let Does::Renewed(base, size, kind) = *does {
                writer.freed(base).unwrap();
                writer.allocation(&allocation(base, size, kind)).unwrap();
                continue;
            }
            sequence += 1;
            let delta = (!delta.is_empty()).then(|| snapshot(&mut writer, delta));
            let mut step = Step {
                region: 1,
                sequence,
                delta,
                evidence: *evidence,
                queue,
                index: sequence,
                waited,
                ..Step::default()
            };
            match *does {
                Does::Kernel(name, base, address) => {
                    let (kernel, object) = kernels[&(name.to_owned(), base)];
                    step.kind = StepKind::Dispatch;
                    step.dispatch = Some(Dispatch {
                        id: 10 + sequence,
                        queue,
                        index: sequence,
                        packet: Packet(packet(object, WORDS as u32, 64, 0)),
                        kernarg: address.to_le_bytes().to_vec(),
                        kernel,
                        code_object,
                        scope: Scope::All,
                        start_ns: 1000,
                        end_ns: 2000,
                        ..Dispatch::default()
                    });
                }
                Does::Barrier => step.kind = StepKind::Barrier,
                Does::Copy { to, from, bytes } => {
                    step = Step { kind: StepKind::Copy, to, from, bytes, queue: 0, index: 0, ..step };
                }
                Does::Fill { to, bytes, value } => {
                    step = Step { kind: StepKind::Fill, to, bytes, value, queue: 0, index: 0, ..step };
                }
                Does::Renewed(..) => unreachable!("no step"),
            }
            writer.step(&step).unwrap();
            if let Some(memory) = self.checkpoints.get(&sequence) {
                let snapshot = snapshot(&mut writer, memory);
                writer.checkpoint(&Checkpoint { region: 1, sequence, snapshot }).unwrap();
            }
        }
        if let Some(is_complete) = self.end {
            let after = self.after.as_ref().map(|after| snapshot(&mut writer, after));
            let reason = if is_complete { String::new() } else { "the application ended".to_owned() };
            writer.region_end(&RegionEnd { region: 1, steps: sequence, after, is_complete, reason }).unwrap();
        }
        writer.finish().unwrap();
        path.to_owned()
    }

    /// Runs a tool of `omniprobe` on it.
    pub(crate) fn tool(&self, name: &str, options: &[&str]) -> Outcome {
        let run = Run::new(built("omniprobe"));
        let file = self.write(&run.file("a.ldcap"));
        on_file(run, name, &file, &harness::arch(), &[&["--region"], options].concat())
    }

    /// Replays it without a runtime, and compares.
    pub(crate) fn verify(&self, options: &[&str]) -> Outcome {
        self.tool("verify", &[&["--backend", "emu"], options].concat())
    }
}

/// Writes memory as a snapshot.
pub(crate) fn snapshot<S: Storage>(writer: &mut Writer<S>, memory: &Bytes) -> SnapshotId {
    let mut snapshot = writer.snapshot(None);
    memory.iter().for_each(|(at, bytes)| snapshot.bytes(*at, bytes).unwrap());
    snapshot.finish().unwrap()
}

/// The memory of a snapshot.
pub(crate) fn memory(reader: &Reader, id: SnapshotId) -> Bytes {
    let snapshot = reader.snapshot(id).unwrap();
    let read = |range: std::ops::Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        snapshot.read(range.start, &mut bytes).unwrap();
        (range.start, bytes)
    };
    snapshot.ranges().into_iter().map(read).collect()
}

/// What an outcome says, for messages.
pub(crate) fn text(outcome: &Outcome) -> String {
    format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr)
}

/// The JSON objects that a tool has printed.
pub(crate) fn objects(outcome: &Outcome) -> Vec<serde_json::Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn dispatches_copies_and_what_the_host_writes_between_them_are_replayed_in_their_order() {
    for options in [&["--backend", "emu"][..], &[]] {
        let outcome = Story::new().tool("verify", &[options, &["--json"]].concat());
        assert!(outcome.status.success(), "{}", text(&outcome));
        let parts = objects(&outcome);
        let of = |name: &str| parts.iter().map(|part| part[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("result"), ["PASS", "PASS"], "{}", text(&outcome));
        assert_eq!((of("first_step"), of("last_step")), (vec![1.into(), 5.into()], vec![4.into(), 7.into()]));
        assert_eq!(parts[1]["dispatches"], serde_json::json!({ "increment": 1, "tally": 1 }));
        let buffer = parts[0]["buffers"].as_array().unwrap().iter().find(|b| b["start"] == B).unwrap();
        assert_eq!((&buffer["verdict"], &buffer["mismatches"]), (&"MATCH".into(), &0.into()), "{}", text(&outcome));
    }
}

#[test]
fn without_checkpoints_all_steps_are_one_part() {
    let mut story = Story::new();
    story.checkpoints.clear();
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("region 1, steps 1 to 7 on"), "{}", text(&outcome));
    assert!(outcome.stdout.contains("dispatches: 3 of increment, 1 of tally"), "{}", text(&outcome));
}

#[test]
fn a_write_or_a_copy_that_is_lost_or_a_flipped_byte_fails_and_names_the_element() {
    let fails = |change: fn(&mut Story), said: &str| {
        let mut story = Story::new();
        story.checkpoints.clear();
        change(&mut story);
        let outcome = story.verify(&["--tol", "arg0=u32"]);
        ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains(said), "{said}: {}", text(&outcome));
    };
    fails(|story| story.steps[3].delta.clear(), "[100] at");
    fails(|story| story.steps[3].delta[0].1[1] ^= 1, "[101] at");
    fails(|story| story.steps[0].delta[0].1[40] ^= 1, "[10] at");
    fails(|story| story.steps[4].delta[0].1[0] ^= 1, "expected 42, found 41");
    fails(|story| story.steps[2].does = Does::Barrier, "[1] at");
    fails(|story| story.steps[2].does = Does::Copy { to: B + 4, from: A + 4, bytes: 2048 }, "508 elements differ");
    fails(|story| story.steps[5].does = Does::Fill { to: B + 400, bytes: 15, value: 0x1234_5678 }, "[103] at");
    fails(|story| story.steps[6].does = Does::Kernel("increment", CODE, B), "elements");
    let loses_the_copy = |story: &mut Story| {
        let lost = story.steps.remove(2);
        story.steps[2].delta.extend(lost.delta);
    };
    fails(loses_the_copy, "elements differ");
    // With the memory that it reaches, what writes there later has nowhere to.
    let mut story = Story::new();
    story.checkpoints.clear();
    story.steps.remove(2);
    let outcome = story.verify(&[]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    assert!(outcome.stderr.contains("step 5: it writes 16 bytes at"), "{}", text(&outcome));
}

#[test]
fn a_part_begins_with_its_checkpoint_whatever_was_before() {
    let mut story = Story::new();
    story.steps[0].delta[0].1[40] ^= 1;
    let parts = objects(&story.verify(&["--json"]));
    assert_eq!((&parts[0]["result"], &parts[1]["result"]), (&"FAIL".into(), &"PASS".into()), "{parts:#?}");
}

#[test]
fn a_region_without_its_end_or_without_memory_to_compare_with_never_passes() {
    let mut story = Story::new();
    story.after = None;
    story.checkpoints.clear();
    let outcome = story.verify(&[]);
    ended(&outcome, "NO_REFERENCE", 9);
    story.end = None;
    let outcome = story.verify(&[]);
    ended(&outcome, "NO_REFERENCE", 9);
    assert!(outcome.stdout.contains("region 1 has no end: its process ended"), "{}", text(&outcome));
    let mut incomplete = Story::new();
    incomplete.end = Some(false);
    let outcome = incomplete.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("region 1 is not complete: the application ended"), "{}", text(&outcome));
    incomplete.steps[3].evidence = Evidence::Either;
    incomplete.end = Some(true);
    let outcome = incomplete.verify(&["--strict"]);
    ended(&outcome, "PASS (qualified)", 9);
    assert!(outcome.stdout.contains("may hold bytes that a GPU wrote"), "{}", text(&outcome));
}

#[test]
fn what_replays_differ_in_is_masked_up_to_a_limit_and_the_dispatch_is_named_where_that_begins() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // The time of the application, which no replay has, goes from C to A.
    story.steps[4].does = Does::Kernel("tell_time", AGAIN, C);
    story.steps[5].does = Does::Copy { to: A + 2000, from: C, bytes: 4 };
    let after = story.after.as_mut().unwrap();
    after[2].1[..4].copy_from_slice(&77u32.to_le_bytes());
    after[0].1[2000..2004].copy_from_slice(&77u32.to_le_bytes());
    // That is behind what `increment` changes. B is not filled.
    after[1].1[400..416].copy_from_slice(&Story::unfilled()[400..416]);
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("the mask begins at step 5, dispatch 15, tell_time"), "{}", text(&outcome));
    assert!(outcome.stdout.contains("8 of "), "{}", text(&outcome));
    ended(&story.verify(&["--mask-limit", "0%"]), "INCONCLUSIVE", 10);
    // What is not masked is compared all the same: it does not pass, and where replays differ elsewhere it may be chance.
    story.after.as_mut().unwrap()[0].1[4] ^= 1;
    let outcome = story.verify(&[]);
    ended(&outcome, "INCONCLUSIVE", 10);
    assert!(outcome.stdout.contains("agree in 1 elements with each other and not with"), "{}", text(&outcome));
}

#[test]
fn another_kernel_in_the_place_of_the_applications_is_judged_in_all_its_dispatches() {
    let story = Story::new();
    let run = Run::new(built("omniprobe"));
    let same = run.file("same.hsaco");
    // `v_add_u32_e32 vD, 1, vS` becomes `v_add_u32_e32 vD, 2, vS`, as in the stories of single dispatches.
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = story.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    let mut code = story.code.clone();
    // Text that is loaded and that nothing reads: another file with the same kernels.
    let text = b"clang version";
    let comment = code.windows(text.len()).position(|window| window == text).unwrap();
    code[comment] = b'C';
    fs::write(&same, &code).unwrap();
    let hsaco = |path: &Path| ["--hsaco", path.to_str().unwrap()].map(str::to_owned);
    let verified = |path: &Path| {
        let options = hsaco(path);
        story.verify(&options.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let outcome = verified(&same);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("increment replaced by"), "{}", self::text(&outcome));
    code[4 * at] += 1;
    let other = run.file("other.hsaco");
    fs::write(&other, &code).unwrap();
    let outcome = verified(&other);
    assert_eq!(outcome.status.code(), Some(6), "{}", self::text(&outcome));
    assert!(outcome.stdout.contains("FAIL") && outcome.stdout.contains("elements differ"), "{}", self::text(&outcome));
}

#[test]
fn a_dispatch_of_a_region_is_written_as_a_capture_of_its_own_which_passes() {
    let story = Story::new();
    let run = Run::new(built("omniprobe"));
    let one = run.file("one.ldcap");
    let to = one.to_str().unwrap();
    let outcome = story.tool("extract", &["--dispatch", "17", "-o", to, "--backend", "emu"]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let reader = Reader::open(&one).unwrap();
    let [dispatch] = reader.dispatches() else { panic!("{:?}", reader.dispatches()) };
    assert_eq!(dispatch.id, 17);
    let after = reader.snapshot(dispatch.after.unwrap()).unwrap();
    for (at, expected) in story.after.as_ref().unwrap() {
        let mut found = vec![0; expected.len()];
        after.read(*at, &mut found).unwrap();
        assert_eq!(&found, expected, "{at:#x}");
    }
    let verified = on_file(run, "verify", &one, &harness::arch(), &["--backend", "emu"]);
    ended(&verified, "PASS", 0);
    assert!(reader.notes().iter().any(|note| note.text.contains("a replay of region 1, steps 5 to 7")));
}

#[test]
fn a_single_dispatch_is_replayed_from_the_nearest_checkpoint() {
    let outcome = Story::new().verify(&["--dispatch", "15"]);
    ended(&outcome, "NO_REFERENCE", 9);
    assert!(outcome.stdout.contains("region 1, step 5 on"), "{}", text(&outcome));
    // Another kernel has that of the application to be compared with.
    let run = Run::new(built("omniprobe"));
    let other = run.file("other.hsaco");
    let mut code = Story::new().code;
    let said = b"clang version";
    let comment = code.windows(said.len()).position(|window| window == said).unwrap();
    code[comment] = b'C';
    fs::write(&other, code).unwrap();
    let outcome = Story::new().verify(&["--dispatch", "15", "--hsaco", other.to_str().unwrap()]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("reference: replay"), "{}", text(&outcome));
    let last = Story::new().verify(&["--dispatch", "17"]);
    ended(&last, "PASS", 0);
    let none = Story::new().verify(&["--dispatch", "16"]);
    assert_eq!(none.status.code(), Some(1), "{}", text(&none));
    assert!(none.stderr.contains("expected a dispatch of it, from 11 to 17, found 16"), "{}", text(&none));
}

#[test]
fn memory_that_is_freed_and_allocated_again_as_another_kind_is_replayed() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // What the application wrote to the old B is gone; what it finds in the new one is of the host.
    let new = vec![3; 1024];
    story.steps.insert(6, step(Does::Renewed(B, 4096, AllocationKind::HostPool), Vec::new()));
    story.steps.insert(7, step(Does::Kernel("increment", CODE, B), vec![(B, bytes(&new))]));
    story.after.as_mut().unwrap()[1] = (B, bytes(&incremented(&new)));
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("memory of several kinds, one after the other"), "{}", text(&outcome));
    story.after.as_mut().unwrap()[1].1[0] ^= 1;
    ended(&story.verify(&[]), "FAIL", 6);
}

#[test]
fn a_damaged_region_is_told_by_its_step_and_bench_and_info_show_it() {
    let mut story = Story::new();
    story.steps[2].does = Does::Copy { to: B + 4, from: A + 10000, bytes: 2048 };
    let outcome = story.verify(&[]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    assert!(outcome.stderr.contains("step 3: it copies 2048 bytes at"), "{}", text(&outcome));
    let info = Story::new().tool("info", &[]);
    assert!(info.status.success(), "{}", text(&info));
    let copy = format!("copy of 2048 bytes from {A:#x} to {:#x}", B + 4);
    for said in [&copy, "checkpoint", "dispatch 15 tally", "7 steps, 4 dispatches, 1 checkpoints, complete"] {
        assert!(info.stdout.contains(said), "{said}: {}", text(&info));
    }
    let bench = Story::new().tool("bench", &["--backend", "emu", "--json", "--repetitions", "6"]);
    let said = json(&bench);
    assert_eq!((&said["result"], &said["steps"]), (&"PASS".into(), &7.into()), "{said:#}");
    let shares: f64 = said["kernels"].as_array().unwrap().iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9 && said["kernels"][0]["launches"] == 3, "{said:#}");
    assert_eq!(said["gpu"]["runs"], 6, "{said:#}");
}

#[test]
fn the_first_dispatch_whose_output_differs_is_named_with_its_argument_and_the_commands_that_show_it_alone() {
    let mut story = Story::new();
    story.checkpoints.clear();
    let run = Run::new(built("omniprobe"));
    let other = run.file("other.hsaco");
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = story.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    let mut code = story.code.clone();
    code[4 * at] += 1;
    fs::write(&other, &code).unwrap();
    let named = format!("increment={}", other.display());
    let file = story.write(&run.file("a.ldcap"));
    let options = ["--region", "--backend", "emu", "--bisect", "--hsaco", &named, "--json"];
    let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &options);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    let word = u32::from_le_bytes(story.steps[0].delta[0].1[..4].try_into().unwrap());
    let expected: [(&str, serde_json::Value); 4] =
        [("step", 1.into()), ("dispatch", 11.into()), ("argument", "arg0".into()), ("index", 0.into())];
    expected.iter().for_each(|(name, value)| assert_eq!(first[*name], *value, "{}", text(&outcome)));
    assert_eq!((word, &first["found"], &first["expected"]), (0, &"0x00000002".into(), &"0x00000001".into()));
    // A kernel that changes only what it reads of B: the first dispatch on A computes the same.
    let count = places(&code, "tally.kd").0;
    assert_ne!(count, 0);
    let tally = format!("tally={}", other.display());
    let same = story.verify(&["--bisect", "--hsaco", &tally]);
    assert!(same.status.success(), "{}", text(&same));
    assert!(same.stdout.contains("each of 4 dispatches leaves the memory"), "{}", text(&same));
    // The commands run, and show the same element.
    let commands = first["commands"].as_array().unwrap();
    let folder = run.file("alone");
    fs::create_dir(&folder).unwrap();
    let path = built("omniprobe").parent().unwrap().to_owned();
    let path =
        std::env::join_paths([path].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let path = path.unwrap();
    let mut said = Vec::new();
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command.as_str().unwrap()]).env("PATH", &path).current_dir(&folder);
        let ended = shell.output().unwrap();
        said.push((ended.status.code(), String::from_utf8(ended.stdout).unwrap()));
    }
    assert_eq!((said[0].0, said[1].0), (Some(0), Some(6)), "{said:?}");
    assert!(said[1].1.contains("arg0[0] at") && said[1].1.contains("found 0x00000002"), "{}", said[1].1);
    let none = story.verify(&["--bisect"]);
    assert!(none.status.code() == Some(1) && none.stderr.contains("other kernels to compare with"), "{}", text(&none));
}

#[test]
fn the_first_dispatch_that_writes_what_is_not_a_number_is_named() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // The largest bits of infinity: one more is not a number.
    story.steps[3].delta = vec![(A + 40, f32::INFINITY.to_le_bytes().to_vec())];
    let outcome = story.verify(&["--bisect", "nan", "--tol", "arg0=f32", "--json"]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    assert_eq!(
        (&first["step"], &first["index"], &first["expected"]),
        (&7.into(), &10.into(), &"inf".into()),
        "{first}"
    );
    // One that the host writes is no kernel's.
    story.steps[3].delta = vec![(A + 8000, f32::NAN.to_le_bytes().to_vec())];
    let outcome = story.verify(&["--bisect", "nan", "--tol", "arg0=f32"]);
    let word = |at: usize| f32::from_le_bytes(story.steps[0].delta[0].1[4 * at..][..4].try_into().unwrap());
    let already = (0..WORDS).any(|at| !word(at).is_nan() && f32::from_bits(word(at).to_bits() + 1).is_nan());
    assert_eq!(outcome.status.success(), !already, "{}", text(&outcome));
    let none = story.verify(&["--bisect", "nan"]);
    assert!(none.stderr.contains("expected a buffer of floats"), "{}", text(&none));
}

#[test]
fn a_dispatch_of_a_region_is_analysed_and_compared_without_a_capture_of_its_own() {
    let run = Run::new(built("omniprobe"));
    let file = Story::new().write(&run.file("a.ldcap"));
    let path = file.to_str().unwrap();
    let tool = |name: &str, options: &[&str]| {
        let mut command = Command::new(built("omniprobe"));
        command.arg(name).args(options);
        Run::new(built("omniprobe")).finish(command)
    };
    let analysed = tool("analyze", &[path, "--region", "--dispatch", "17", "--json", "--what", "all"]);
    assert!(analysed.status.success(), "{}", text(&analysed));
    assert_eq!(json(&analysed)["dispatch"], 17, "{}", text(&analysed));
    // The first and the last increment work on the same words, after each other.
    let differ = tool("diff", &[path, path, "--region", "--dispatch", "11", "--dispatch-b", "17"]);
    assert_eq!(differ.status.code(), Some(6), "{}", text(&differ));
    let same = tool("diff", &[path, path, "--region", "--dispatch", "11", "--dispatch-b", "11"]);
    assert!(same.status.success(), "{}", text(&same));
    for (name, more) in [("analyze", vec![]), ("diff", vec![path])] {
        let none = tool(name, &[&[path], &more[..], &["--region"]].concat());
        assert!(none.status.code() == Some(1) && none.stderr.contains("by --dispatch N"), "{}", text(&none));
        let unknown = tool(name, &[&[path], &more[..], &["--region", "--dispatch", "16"]].concat());
        assert!(!unknown.status.success() && unknown.stderr.contains("found 16"), "{}", text(&unknown));
    }
}
