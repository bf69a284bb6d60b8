//! Captures of a region: a stretch of the application, with what the host and copies change between its dispatches.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use logdur_capture::{End, Evidence, Placed, Reader, Severity, SnapshotId, Step, StepKind};

use crate::support::harness::{self, Outcome, Run};

/// From the first kernel of the program `stretch` to its last one.
const STRETCH: &str = "kernel:^step$@1..kernel:^last$@2";
/// From the kernel that reaches the second buffer of the program `untouched` to its last one.
const UNTOUCHED: &str = "kernel:^write_to$@1..kernel:^increment$@2";
/// Bytes of each of the buffers of `stretch`.
const BYTES: u64 = 3072 * 4;

/// A program with a region that is captured.
fn region(run: Run, trigger: &str) -> (Outcome, Reader) {
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_REGION", trigger);
    // HIP copies by calls of the runtime then, as under `omniprobe`.
    let run = run.env("ROC_ENABLE_LARGE_BAR", "0").watched();
    let reader = Reader::open(&file).unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr));
    let report = reader.check();
    assert!(report.is_clean(), "{report:?}");
    (run, reader)
}

fn stretch(arguments: &[&str]) -> (Outcome, Reader) {
    region(Run::hip("stretch").args(arguments), STRETCH)
}

/// The names of the kernels of the steps; empty for what is no dispatch.
fn kernels(reader: &Reader) -> Vec<&str> {
    let all = &reader.records().kernels;
    let name = |step: &Placed<Step>| {
        let dispatch = step.dispatch.as_ref()?;
        all.iter().find(|kernel| kernel.id == dispatch.kernel).map(|kernel| kernel.symbol.as_str())
    };
    reader.records().steps.iter().map(|step| name(step).unwrap_or_default()).collect()
}

fn ranges(reader: &Reader, delta: Option<SnapshotId>) -> Vec<Range<u64>> {
    delta.map_or_else(Vec::new, |id| reader.snapshot(id).unwrap().ranges())
}

fn bytes(reader: &Reader, id: SnapshotId, range: Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    reader.snapshot(id).unwrap().read(range.start, &mut bytes).unwrap();
    bytes
}

fn address(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

fn digits(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What the program says that the host has written before each of its steps, from the first to the second one on: addresses, bytes.
fn journal(run: &Outcome, word: &str) -> Vec<Vec<(u64, Vec<u8>)>> {
    let mut steps: Vec<Vec<(u64, Vec<u8>)>> = Vec::new();
    for line in run.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["step", _] => steps.push(Vec::new()),
            [said, at, bytes] if said == word => {
                steps.last_mut().unwrap().push((address(at), digits(bytes)));
            }
            _ => {}
        }
    }
    steps
}

/// The buffers of the program: device, device, pinned, pinned, managed.
fn buffers(run: &Outcome) -> [Range<u64>; 5] {
    let line = run.stdout.lines().find(|line| line.starts_with("memory ")).unwrap();
    let all: Vec<Range<u64>> = line.split(' ').skip(1).map(address).map(|at| at..at + BYTES).collect();
    all.try_into().unwrap()
}

#[test]
fn a_region_has_its_dispatches_in_order_and_deltas_with_exactly_the_bytes_that_the_host_has_written() {
    for arch in harness::archs() {
        let (run, reader) = region(Run::hip("stretch").arch(&arch), STRETCH);
        let run = run.passed();
        let records = reader.records();
        let [region] = &records.regions[..] else { panic!("{:?}", records.regions) };
        assert_eq!((region.id, region.trigger.as_str()), (1, STRETCH));
        let [end] = &records.region_ends[..] else { panic!("{:?}", records.region_ends) };
        assert!(end.is_complete && end.reason.is_empty() && end.steps == records.steps.len() as u64, "{end:?}");
        assert!(records.steps.iter().map(|step| step.sequence).eq(1..=end.steps));
        assert!(records.steps.iter().all(|step| step.region == 1 && step.evidence == Evidence::Idle));
        assert!(records.dispatches.is_empty() && records.begun.is_empty());
        let kernels = kernels(&reader);
        let ours: Vec<&str> =
            kernels.iter().copied().filter(|name| ["step", "last", "prepare"].contains(name)).collect();
        assert_eq!(ours, ["step", "step", "step", "step", "last", "step", "step", "step", "last"], "{kernels:?}");
        assert_eq!((kernels[0], kernels[kernels.len() - 1]), ("step", "last"), "both ends are included");

        let [a, b, pinned, _, managed] = buffers(&run);
        let at: Vec<usize> = (0..kernels.len()).filter(|at| kernels[*at] == "step").collect();
        let touched = |between: Range<usize>, inside: &Range<u64>| {
            let deltas = records.steps[between].iter().filter_map(|step| step.delta);
            let all = deltas.flat_map(|id| ranges(&reader, Some(id)).into_iter().map(move |range| (id, range)));
            // Memory of two allocations that touch is one range.
            let parts = all.map(|(id, range)| (id, range.start.max(inside.start)..range.end.min(inside.end)));
            parts.filter(|(_, part)| !part.is_empty()).collect::<Vec<_>>()
        };
        // What the first step reaches is there as it was, and what it does not is not.
        for buffer in [&a, &pinned] {
            assert!(touched(0..1, buffer).iter().map(|(_, range)| range).eq([buffer]));
        }
        for buffer in [&b, &managed] {
            assert!(touched(0..1, buffer).is_empty());
        }
        assert_eq!(records.steps[at[1]].delta, None, "nothing was written, and nothing is new");
        // The fourth step reaches the managed memory.
        assert_eq!(touched(at[2] + 1..at[3] + 1, &managed).len(), 1);
        for (step, written) in journal(&run, "write").into_iter().enumerate().take(at.len() - 1) {
            let deltas = at[step] + 1..at[step + 1] + 1;
            for buffer in [&pinned, &managed] {
                let expected: Vec<_> = written.iter().filter(|(address, _)| buffer.contains(address)).collect();
                let found = touched(deltas.clone(), buffer);
                if step == 2 && buffer == &managed {
                    // It is new with this step, as the host has left it.
                    let (id, _) = found[0];
                    for (address, wanted) in expected {
                        assert_eq!(bytes(&reader, id, *address..address + wanted.len() as u64), *wanted);
                    }
                    continue;
                }
                let found: Vec<(u64, Vec<u8>)> =
                    found.into_iter().map(|(id, range)| (range.start, bytes(&reader, id, range))).collect();
                let mut expected: Vec<(u64, Vec<u8>)> = expected.into_iter().cloned().collect();
                expected.sort();
                assert_eq!(found, expected, "between the steps {} and {} on {arch}", step + 1, step + 2);
            }
        }
        // No step writes a second time what a kernel has written.
        assert!(touched(1..at[4] + 1, &a).is_empty(), "{:?}", touched(1..at[4] + 1, &a));
        // A copy to the device is a kernel of the runtime, or content.
        let copied = &journal(&run, "copy")[4][0];
        let between = at[4] + 1..at[5] + 1;
        let inside = copied.0..copied.0 + copied.1.len() as u64;
        match touched(between.clone(), &inside)[..] {
            [(id, ref range)] => assert_eq!(bytes(&reader, id, range.clone()), copied.1),
            [] => assert!(
                kernels[between.clone()].iter().any(|name| name.to_lowercase().contains("copy"))
                    || records.steps[between].iter().any(|step| step.kind == StepKind::Copy && step.to == copied.0),
                "{kernels:?}"
            ),
            ref others => panic!("{others:?}"),
        }
        // Memory that was freed and allocated again is new memory, also at the same address.
        let line = run.stdout.lines().find_map(|line| line.strip_prefix("again ")).unwrap();
        let again = address(line)..address(line) + BYTES;
        assert!(records.freed.iter().any(|freed| freed.base == b.start));
        assert!(touched(at[5] + 1..at[6] + 1, &again).iter().any(|(_, range)| *range == again));
        let gone = records.freed.iter().find(|freed| freed.base == b.start).unwrap().place;
        assert!(records.allocations.iter().any(|new| new.base == again.start && new.place > gone));
        // Memory after the last step is what the program has found.
        let words: Vec<&str> = run.stdout.lines().find(|line| line.starts_with("end ")).unwrap().split(' ').collect();
        assert_eq!(bytes(&reader, end.after.unwrap(), address(words[1])..address(words[1]) + BYTES), digits(words[2]));
        let last = records.steps.last().unwrap();
        assert!(!last.waited.is_empty() && last.waited.iter().all(|other| other.queue != last.queue));
        assert!(run.log().notices.iter().any(|notice| notice.contains("the region is complete")));
    }
}

#[test]
fn what_is_written_between_two_dispatches_of_a_region_is_there_whatever_wrote_it() {
    const WORDS: u64 = 1 << 18;
    for story in [
        "nothing",
        "barrier",
        "kernel",
        "other queue",
        "queue that goes",
        "waiting kernel",
        "waiting copy",
        "copy",
        "memory copy",
        "fill",
    ] {
        let run = Run::hsa("untouched").args([story, "reached"]).env("LOGDUR_CAPTURE_CHECKPOINTS", "1");
        let (run, reader) = region(run.env("KFDEMU_BAR", "small"), UNTOUCHED);
        let run = run.passed();
        let records = reader.records();
        let last = records.steps.last().unwrap();
        assert!(records.region_ends[0].is_complete, "{story}: {:?}", records.region_ends);
        // The memory before the last dispatch: what the last checkpoint has, under what its delta has.
        let checkpoint = records.checkpoints.iter().rfind(|at| at.sequence < last.sequence).unwrap();
        let line = run.stdout.lines().next().unwrap();
        let mut numbers = line.split(' ');
        let start = address(numbers.next().unwrap());
        let expected: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
        let mut memory = Layers(vec![Bytes::of(&reader, checkpoint.snapshot)]);
        let between = &records.steps[checkpoint.sequence as usize..];
        between.iter().for_each(|step| memory.step(&reader, step));
        let found = [0, 1, WORDS - 1].map(|word| {
            let bytes: Vec<u8> = memory.read(start + 4 * word, 4).into_iter().map(Option::unwrap).collect();
            u32::from_le_bytes(bytes.try_into().unwrap())
        });
        let is_step =
            between.iter().any(|step| [StepKind::Copy, StepKind::Fill].contains(&step.kind) && step.to == start);
        assert_eq!(is_step, story == "fill", "{story}: of copies, the source is not reached");
        assert_eq!(found.as_slice(), expected, "{story}: {line}");
        let barriers = records.steps.iter().filter(|step| step.kind == StepKind::Barrier).count();
        assert_eq!(barriers > 0, ["barrier", "waiting kernel"].contains(&story), "{story}: {barriers} barriers");
    }
}

#[test]
fn kernels_that_wait_for_each_other_end_the_region_with_the_reason_and_the_application_goes_on() {
    let run = Run::hsa("untouched").args(["failed", "reached"]).env("LOGDUR_CAPTURE_MAX_STALL", "1");
    let (run, reader) = region(run, UNTOUCHED);
    let run = run.passed();
    let end = &reader.records().region_ends[0];
    assert!(!end.is_complete && end.after.is_none(), "{end:?}");
    assert!(end.reason.contains("it may wait for work that was held for the capture"), "{end:?}");
    assert_eq!(kernels(&reader).iter().filter(|name| !name.is_empty()).count(), 2, "{:?}", kernels(&reader));
    let notices = run.log().notices;
    assert!(notices.iter().any(|notice| notice.contains("the region has ended: ")), "{notices:?}");
}

#[test]
fn a_barrier_whose_signal_nobody_sets_ends_the_region_in_bounded_time_and_is_told() {
    let run = Run::hsa("untouched").args(["signal that never comes", "reached"]).env("LOGDUR_CAPTURE_MAX_STALL", "1");
    let start = Instant::now();
    let (run, reader) = region(run, UNTOUCHED);
    let took = start.elapsed();
    let run = run.passed();
    assert!(took < Duration::from_secs(25), "{took:?}");
    let end = &reader.records().region_ends[0];
    assert!(!end.is_complete && end.after.is_none(), "{end:?}");
    assert!(end.reason.contains("earlier work had not ended, and made no progress for 1 s"), "{end:?}");
    // What came before is there: the kernel behind the barrier is not.
    let names: Vec<&str> = kernels(&reader).into_iter().filter(|name| !name.is_empty()).collect();
    assert_eq!(names.iter().filter(|name| **name == "increment").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "write_to").count(), 1, "{names:?}");
    let notices = run.log().notices;
    assert!(notices.iter().any(|notice| notice.contains("the region has ended: ")), "{notices:?}");
}

/// Memory as bytes by ranges.
#[derive(Clone, Default)]
struct Bytes(BTreeMap<u64, Vec<u8>>);

impl Bytes {
    fn of(reader: &Reader, id: SnapshotId) -> Bytes {
        let ranges = reader.snapshot(id).unwrap().ranges().into_iter();
        Bytes(ranges.map(|range| (range.start, bytes(reader, id, range))).collect())
    }

    /// Puts what is there into the bytes from an address on.
    fn put(&self, start: u64, to: &mut [Option<u8>]) {
        for (&at, bytes) in &self.0 {
            let (from, end) = (at.max(start), (at + bytes.len() as u64).min(start + to.len() as u64));
            if from < end {
                let places = to[(from - start) as usize..(end - start) as usize].iter_mut();
                places.zip(&bytes[(from - at) as usize..]).for_each(|(place, byte)| *place = Some(*byte));
            }
        }
    }
}

/// Memory as it becomes step by step: later layers are on top.
struct Layers(Vec<Bytes>);

impl Layers {
    fn read(&self, at: u64, bytes: u64) -> Vec<Option<u8>> {
        let mut found = vec![None; bytes as usize];
        self.0.iter().for_each(|layer| layer.put(at, &mut found));
        found
    }

    /// What is before a step, and what it does if it is a copy or a fill.
    fn step(&mut self, reader: &Reader, step: &Step) {
        self.0.extend(step.delta.map(|id| Bytes::of(reader, id)));
        let written = match step.kind {
            StepKind::Copy => self.read(step.from, step.bytes).into_iter().map(Option::unwrap).collect(),
            StepKind::Fill => step.value.to_le_bytes().into_iter().cycle().take(step.bytes as usize).collect(),
            _ => return,
        };
        self.0.push(Bytes(BTreeMap::from([(step.to, written)])));
    }
}

/// The first argument of a kernel that writes nothing but what that points to.
fn written_by(name: &str, step: &Step) -> Option<u64> {
    let kernarg = &step.dispatch.as_ref()?.kernarg;
    let writes_one = ["scale", "gather", "sums"].iter().any(|kernel| name.contains(kernel));
    writes_one.then(|| u64::from_le_bytes(kernarg[..8].try_into().unwrap()))
}

#[test]
fn what_differs_between_two_steps_of_a_random_program_is_in_a_delta_or_was_written_by_the_kernel() {
    let mut looked_at = 0;
    for seed in 1..=harness::count(3, 40) {
        let run = Run::hip("sequences").args([seed.to_string(), "40".to_owned()]);
        let (run, reader) = region(run.env("LOGDUR_CAPTURE_CHECKPOINTS", "1"), "dispatches:3+");
        run.passed();
        let records = reader.records();
        assert!(records.region_ends[0].is_complete, "seed {seed}: {:?}", records.region_ends);
        assert!(!records.notes.iter().any(|note| note.severity == Severity::Loss), "seed {seed}: {:?}", reader.notes());
        let kernels = kernels(&reader);
        let mut before: Option<(u64, Bytes)> = None;
        for checkpoint in &records.checkpoints {
            let now = Bytes::of(&reader, checkpoint.snapshot);
            let Some((sequence, before)) = before.replace((checkpoint.sequence, now.clone())) else { continue };
            let steps = sequence as usize..checkpoint.sequence as usize;
            let between = &records.steps[steps.clone()];
            let mut memory = Layers(vec![before]);
            between.iter().for_each(|step| memory.step(&reader, step));
            let last = between.last().unwrap();
            let Some(to) = written_by(kernels[steps.end - 1], last) else { continue };
            // What was freed meanwhile is not compared: it is in none of them.
            let all = reader.allocations_at(last.place);
            let written = all.iter().find(|one| (one.base..one.base + one.size).contains(&to)).unwrap();
            let written = written.base..written.base + written.size;
            for (start, now) in &now.0 {
                let expected = memory.read(*start, now.len() as u64);
                let differs = |n: &usize| expected[*n] != Some(now[*n]) && !written.contains(&(start + *n as u64));
                let wrong: Vec<u64> = (0..now.len()).filter(differs).map(|n| start + n as u64).collect();
                assert!(
                    wrong.is_empty(),
                    "seed {seed}, step {}: {} bytes from {:#x} on",
                    last.sequence,
                    wrong.len(),
                    wrong[0]
                );
                looked_at += now.len();
            }
        }
    }
    assert!(looked_at > 100_000, "{looked_at}");
}

#[test]
fn a_process_that_is_killed_in_a_region_leaves_the_steps_until_then() {
    let (run, reader) = stretch(&["killed", "5"]);
    assert_eq!(run.status.signal(), Some(9));
    assert!(matches!(reader.end(), End::Unfinished { .. }));
    let kernels = kernels(&reader);
    assert_eq!(kernels.iter().filter(|name| **name == "step").count(), 4, "{kernels:?}");
    let records = reader.records();
    assert!(records.steps.iter().map(|step| step.sequence).eq(1..=kernels.len() as u64));
    assert!(records.regions.len() == 1 && records.region_ends.is_empty());
    let [_, _, pinned, ..] = buffers(&run);
    let third = records.steps.iter().zip(&kernels).filter(|(_, name)| **name == "step").nth(2).unwrap().0;
    let written = &journal(&run, "write")[1];
    let expected: Vec<Range<u64>> = written.iter().map(|(at, bytes)| *at..at + bytes.len() as u64).collect();
    let found = ranges(&reader, third.delta);
    assert!(expected.iter().all(|range| pinned.contains(&range.start) && found.contains(range)), "{found:?}");
}

/// A program whose region is captured under `omniprobe`.
fn probed(run: Run, trigger: &str) -> (Outcome, Reader) {
    let file = run.file("run.ldcap");
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", trigger, "-l", "/dev/null"];
    let run = run.probed(&options).passed();
    let reader = Reader::open(&file).unwrap();
    assert!(reader.check().is_clean());
    (run, reader)
}

#[test]
fn a_region_that_the_process_ends_before_its_last_dispatch_is_not_complete_and_one_that_never_began_is_told() {
    let (run, reader) = probed(Run::hip("stretch").args(["left"]), STRETCH);
    let end = &reader.records().region_ends[0];
    assert!(!end.is_complete && end.reason.contains("the process has ended before the last dispatch"), "{end:?}");
    assert!(end.after.is_some());
    assert!(run.stderr.contains(&end.reason), "{}", run.stderr);
    let (run, reader) = probed(Run::hip("stretch"), "kernel:^nobody$@1..dispatches:9");
    assert!(reader.records().regions.is_empty() && reader.records().steps.is_empty());
    let told = "kernel:^nobody$@1: no kernel with a name like ^nobody$ was dispatched";
    assert!(run.stderr.contains(told), "{}", run.stderr);
}

#[test]
fn a_region_by_a_single_trigger_has_what_that_selects() {
    let (run, reader) = probed(Run::hip("stretch"), "kernel:^step$@2-3");
    let end = &reader.records().region_ends[0];
    assert!(end.is_complete, "{end:?}");
    // It is the second and the third: their arguments say so.
    let dispatches = reader.records().steps.iter().filter_map(|step| step.dispatch.as_ref());
    assert_eq!(dispatches.map(|dispatch| dispatch.kernarg[16]).collect::<Vec<_>>(), [2, 3]);
    assert!(run.stderr.contains(&format!(", a region of {} steps", end.steps)), "{}", run.stderr);
}

#[test]
fn a_range_of_roctx_is_a_region_that_no_later_dispatch_has_to_end() {
    let (_, reader) = probed(Run::hip("regions"), "range:step@5");
    let end = &reader.records().region_ends[0];
    assert!(end.is_complete && end.after.is_some(), "{end:?}");
    let kernels: Vec<&str> = kernels(&reader).into_iter().filter(|name| !name.is_empty()).collect();
    assert_eq!(kernels, ["_Z7in_stepPi"; 2]);
    // The kernels behind the range are not in it.
    let (_, reader) = probed(Run::hip("regions"), "kernel:between@1..range:step@4");
    assert!(reader.records().region_ends[0].is_complete);
    let kernels: Vec<&str> = self::kernels(&reader).into_iter().filter(|name| !name.is_empty()).collect();
    let (step, between) = ("_Z7in_stepPi", "_Z7betweenPi");
    assert_eq!(kernels, [between, step, step, between, step, step, between, step]);
}

#[test]
fn what_is_no_region_is_told_with_the_option_or_the_variable_and_what_was_expected() {
    let run = Run::hip("stretch");
    let file = run.file("run.ldcap").display().to_string();
    let run = run.probed(&["--capture", &file, "--capture-region", "1..2"]);
    assert!(!run.status.success());
    assert!(run.stderr.contains("--capture-region: expected TRIGGER or TRIGGER..TRIGGER"), "{}", run.stderr);
    let run = Run::hip("stretch").probed(&["--capture", &file, "--capture-region", "kernel:(@1..kernel:b@1"]);
    assert!(run.stderr.contains("--capture-region: kernel:(@1: "), "{}", run.stderr);
    let run = Run::hip("stretch").env("LOGDUR_CAPTURE_REGION", "1..2").watched().passed();
    let notices = run.log().notices;
    assert!(notices.iter().any(|notice| notice.contains("LOGDUR_CAPTURE_REGION: expected TRIGGER")), "{notices:?}");
}

#[test]
fn a_region_that_reaches_a_limit_ends_with_the_reason_and_eight_streams_go_on() {
    for (limit, value, reason) in [
        ("--capture-max-bytes", "3000000", "the file has 3000000 bytes"),
        ("--capture-max-seconds", "1", "1 s were spent on it"),
    ] {
        let run = Run::hip("eight").args(["1250"]);
        let file = run.file("run.ldcap");
        let region = ["--capture-region", "dispatches:1..dispatches:99999", "-l", "/dev/null"];
        let outcome =
            run.probed(&[&["--capture", file.to_str().unwrap(), limit, value], &region[..]].concat()).passed();
        assert!(outcome.stdout.contains("PASS"), "{}", outcome.stdout);
        assert!(outcome.stderr.contains(&format!("the region has ended: {reason}")), "{}", outcome.stderr);
        let reader = Reader::open(&file).unwrap();
        assert_eq!(reader.records().region_ends[0].reason, reason);
    }
}

#[test]
fn options_of_single_dispatches_are_refused_beside_a_region_and_their_variables_are_told() {
    let run = Run::hip("stretch");
    let file = run.file("run.ldcap").display().to_string();
    let region = ["--capture", &file, "--capture-region", "dispatches:1..dispatches:2"];
    let refused = run.probed(&[&region[..], &["--capture-scope", "all"]].concat());
    assert_eq!(refused.status.code(), Some(1));
    let said =
        "--capture-scope: expected a capture of single dispatches, found --capture-region, which takes all of them";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let run = Run::hip("stretch");
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_REGION", region[3]);
    let run = run.env("LOGDUR_CAPTURE_KERNELS", "nothing").watched().passed();
    let notices = run.log().notices;
    assert!(notices.iter().any(|notice| notice.starts_with("LOGDUR_CAPTURE_KERNELS: expected")), "{notices:?}");
    assert!(!Reader::open(&file).unwrap().records().regions.is_empty());
}

#[test]
fn what_a_region_has_after_a_gpu_fault_is_told_and_the_application_ends_as_without_it() {
    if harness::on_hardware() {
        return;
    }
    let run = || Run::new(harness::hip_optimized("places", "-O3 -g")).args(["2"]);
    let bare = run().bare();
    let run = run();
    let file = run.file("run.ldcap");
    let run =
        run.probed(&["-l", "/dev/null", "--capture", file.to_str().unwrap(), "--capture-region", "dispatches:0-99"]);
    let signal_or_status = |outcome: &Outcome| outcome.status.signal().or(outcome.status.code());
    assert!(!bare.status.success(), "{}", bare.stdout);
    assert_eq!(signal_or_status(&run), signal_or_status(&bare), "{}", run.stderr);
    let told = ["a region that ended after ", "run.ldcap: not finished"];
    assert!(told.iter().any(|words| run.stderr.contains(words)), "{}", run.stderr);
    let reader = Reader::open(&file).unwrap();
    let kernels = kernels(&reader);
    assert!(kernels.iter().any(|name| name.contains("with_much_lds")), "{kernels:?}");
    assert!(!kernels.iter().any(|name| name.contains("wild")), "{kernels:?}");
}

#[test]
fn a_region_that_ends_among_streams_that_wait_for_each_other_has_what_its_dispatches_wait_for_and_each_step_once() {
    for (program, arguments) in [("sequences", &["7", "300"][..]), ("eight", &["300"])] {
        let (run, reader) = region(Run::hip(program).args(arguments), "dispatches:100-199");
        assert!(run.status.success(), "{program}: {}", run.stderr);
        let records = reader.records();
        let end = &records.region_ends[0];
        assert!(end.is_complete, "{program}: {end:?}");
        let dispatches = records.steps.iter().filter(|step| step.dispatch.is_some()).count();
        assert!(dispatches >= 100, "{program}: {dispatches}");
        // Copies and fills are in no queue.
        let packets = records.steps.iter().filter(|step| step.queue != 0);
        let mut places: Vec<(u64, u64)> = packets.map(|step| (step.queue, step.index)).collect();
        places.sort_unstable();
        let twice = places.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(twice.is_none(), "{program}: queue and packet {twice:?}");
    }
}

#[test]
fn barriers_before_a_dispatch_behind_the_end_of_a_region_that_one_of_it_waits_for_are_steps() {
    // By its kernel: the queues may be looked at in either order, so that the dispatches' numbers are not the same in each run.
    let (run, reader) = region(Run::hsa("barriers"), "dispatches:0..kernel:tally");
    run.passed();
    let records = reader.records();
    assert!(records.region_ends[0].is_complete, "{:?}", records.region_ends);
    // What the kernels write is memory of the host.
    let packets = records.steps.iter().filter(|step| step.kind != StepKind::Copy);
    let steps: Vec<(StepKind, u64)> = packets.map(|step| (step.kind, step.index)).collect();
    // The dispatch of the second queue waits for one of the first.
    let [first, .., last] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((first, last), (&(StepKind::Dispatch, 1), &(StepKind::Dispatch, 1)), "{steps:?}");
    assert!(steps.contains(&(StepKind::Barrier, 2)) && steps.contains(&(StepKind::Dispatch, 3)), "{steps:?}");
    assert_eq!(steps.len(), 5, "{steps:?}");
}
