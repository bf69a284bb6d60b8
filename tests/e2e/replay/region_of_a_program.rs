//! A captured stretch of a real program, replayed: with what it lacks or has changed, it does not pass.

use std::path::{Path, PathBuf};

use logdur_capture::{
    Checkpoint, CodeObject, Evidence, Id, Options, Placed, Reader, RegionEnd, Step, StepKind, Writer,
};

use super::region::{Bytes, memory, snapshot, text};
use super::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};

/// From the first kernel of the program `stretch` to its last one.
pub(crate) const STRETCH: &str = "kernel:^step$@1..kernel:^last$@2";

/// Writes a capture once more, with steps and their deltas changed, as if that were what the application had done.
pub(super) fn rewritten(reader: &Reader, path: &Path, change: impl Fn(&mut Step, &mut Bytes)) -> PathBuf {
    let change = |step: &mut Step, delta: &mut Bytes| {
        step.digest = Id::default();
        change(step, delta);
    };
    tampered(reader, path, None, true, change)
}

/// Writes a capture once more, without the record in a frame and with steps and their deltas changed. Steps behind one that is left out get
/// its number and those behind. Digests are as they were, but that of the end if it is to be renewed.
pub(super) fn tampered(
    reader: &Reader,
    path: &Path,
    without: Option<u64>,
    renews_end: bool,
    change: impl Fn(&mut Step, &mut Bytes),
) -> PathBuf {
    type Write<'a> = Box<dyn FnOnce(&mut Writer) + 'a>;
    let records = reader.records();
    let mut all: Vec<(u64, Write<'_>)> = Vec::new();
    macro_rules! kept {
        ($($list:ident $write:ident),*) => { $(
            for record in &records.$list {
                all.push((record.place.sequence, Box::new(move |writer: &mut Writer| writer.$write(record).unwrap())));
            }
        )* };
    }
    kept!(sessions session, agents agent, loaded loaded, kernels kernel, allocations allocation, globals global, queues queue);
    kept!(regions region, notes note);
    for freed in &records.freed {
        all.push((freed.place.sequence, Box::new(move |writer: &mut Writer| writer.freed(freed.base).unwrap())));
    }
    for code in &records.code_objects {
        let bytes = reader.code_object(code.id).unwrap();
        let about = CodeObject { extents: Vec::new(), ..code.value.clone() };
        let write = move |writer: &mut Writer| {
            writer.code_object(&about, &bytes).unwrap();
        };
        all.push((code.place.sequence, Box::new(write)));
    }
    let change = &change;
    let gone = records.steps.iter().find(|step| Some(step.place.sequence) == without).map(|step| step.sequence);
    let fewer = |sequence: u64| u64::from(gone.is_some_and(|gone| gone <= sequence));
    for step in &records.steps {
        let write = move |writer: &mut Writer| {
            let mut delta = step.delta.map_or_else(Vec::new, |id| memory(reader, id));
            let mut step = step.value.clone();
            step.sequence -= fewer(step.sequence);
            change(&mut step, &mut delta);
            delta.retain(|(_, bytes)| !bytes.is_empty());
            step.delta = (!delta.is_empty()).then(|| snapshot(writer, &delta));
            writer.step(&step).unwrap();
        };
        all.push((step.place.sequence, Box::new(write)));
    }
    for checkpoint in &records.checkpoints {
        let write = move |writer: &mut Writer| {
            let snapshot = snapshot(writer, &memory(reader, checkpoint.snapshot));
            let sequence = checkpoint.sequence - fewer(checkpoint.sequence);
            writer.checkpoint(&Checkpoint { snapshot, sequence, ..checkpoint.value.clone() }).unwrap();
        };
        all.push((checkpoint.place.sequence, Box::new(write)));
    }
    for end in &records.region_ends {
        let write = move |writer: &mut Writer| {
            let after = end.after.map(|after| snapshot(writer, &memory(reader, after)));
            let digest = if renews_end { Id::default() } else { end.digest };
            let steps = end.steps - fewer(end.steps);
            writer.region_end(&RegionEnd { after, steps, digest, ..end.value.clone() }).unwrap();
        };
        all.push((end.place.sequence, Box::new(write)));
    }
    all.retain(|(sequence, _)| Some(*sequence) != without);
    all.sort_by_key(|(sequence, _)| *sequence);
    let mut writer = Writer::create(path, &Options::default()).unwrap();
    all.into_iter().for_each(|(_, write)| write(&mut writer));
    writer.finish().unwrap();
    path.to_owned()
}

#[test]
fn a_stretch_of_a_program_is_replayed_and_a_write_of_the_host_that_is_lost_or_flipped_does_not_pass() {
    let run = Run::hip("stretch");
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", STRETCH, "--capture-checkpoints", "4"];
    run.probed(&[&options[..], &["-l", "/dev/null"]].concat()).passed();
    let verify = |file: &Path, options: &[&str]| {
        let run = Run::new(built("omniprobe"));
        on_file(run, "verify", file, &harness::arch(), &[&["--region"], options].concat())
    };
    for options in [&["--backend", "emu"][..], &[]] {
        let outcome = verify(&file, options);
        ended(&outcome, "PASS (qualified)", 0);
        assert!(outcome.stdout.matches("PASS").count() > 1, "{}", text(&outcome));
        assert!(!outcome.stdout.contains("relocated"), "{}", text(&outcome));
    }
    let reader = Reader::open(&file).unwrap();
    let emu = ["--backend", "emu"];
    let same = rewritten(&reader, &keep.file("same.ldcap"), |_, _| ());
    ended(&verify(&same, &emu), "PASS (qualified)", 0);
    // What the host has written into memory that the region had reached before, step by step.
    let mut reached: Vec<std::ops::Range<u64>> = Vec::new();
    let mut written = Vec::new();
    for step in &reader.records().steps {
        for (at, bytes) in step.delta.map_or_else(Vec::new, |id| memory(&reader, id)) {
            if reached.iter().any(|range| range.contains(&at)) {
                written.push((step.sequence, at));
            }
            reached.push(at..at + bytes.len() as u64);
        }
    }
    assert!(!written.is_empty(), "{reached:x?}");
    for (step, at) in written.into_iter().take(4) {
        let lost = rewritten(&reader, &keep.file("lost.ldcap"), |changed, delta| {
            delta.retain(|(start, _)| changed.sequence != step || *start != at);
        });
        let flipped = rewritten(&reader, &keep.file("flipped.ldcap"), |changed, delta| {
            let found = delta.iter_mut().find(|(start, _)| changed.sequence == step && *start == at);
            found.into_iter().for_each(|(_, bytes)| bytes[0] ^= 1);
        });
        for changed in [lost, flipped] {
            let outcome = verify(&changed, &emu);
            assert!(!outcome.status.success(), "step {step}, {at:#x}: {}", text(&outcome));
        }
    }
}

/// Captures a region of a program, and keeps its file.
pub(crate) fn captured(program: Run, trigger: &str, options: &[&str]) -> (Run, PathBuf) {
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let all = ["--capture", file.to_str().unwrap(), "--capture-region", trigger, "-l", "/dev/null"];
    program.probed(&[&all[..], options].concat()).passed();
    (keep, file)
}

pub(crate) fn verified(file: &Path, options: &[&str]) -> Outcome {
    let run = Run::new(built("omniprobe"));
    on_file(run, "verify", file, &harness::arch(), &[&["--region"], options].concat())
}

/// Replays a region in both orders, with the runtime and without.
fn passes(file: &Path, what: &str) {
    for options in [&["--backend", "emu"][..], &["--backend", "emu", "--concurrent"], &[], &["--concurrent"]] {
        let outcome = verified(file, options);
        assert!(outcome.status.success(), "{what} {options:?}: {}", text(&outcome));
    }
}

#[test]
fn streams_that_events_order_run_beside_each_other_again_and_wait_for_what_they_waited_for() {
    let (_keep, file) = captured(Run::hip("eight"), "kernel:mix@1..kernel:mix@96", &["--capture-checkpoints", "40"]);
    let reader = Reader::open(&file).unwrap();
    let steps = &reader.records().steps;
    let kernels = &reader.records().kernels;
    let is_mix = |step: &&Placed<Step>| {
        let dispatch = step.dispatch.as_ref();
        dispatch.is_some_and(|d| kernels.iter().any(|kernel| kernel.id == d.kernel && kernel.symbol.contains("mix")))
    };
    let mixes: Vec<_> = steps.iter().filter(is_mix).collect();
    assert_eq!(mixes.len(), 96);
    let queues: std::collections::BTreeSet<u64> = mixes.iter().map(|step| step.queue).collect();
    assert!(queues.len() > 1, "{queues:?}");
    // The host never waits, so that no doorbell was behind all that was held then: barriers say what was waited for.
    let waits = |step: &&Placed<Step>| step.kind == StepKind::Barrier && !step.waited.is_empty();
    assert!(steps.iter().filter(waits).count() > 40, "{steps:?}");
    let all = |step: &&&Placed<Step>| {
        let others = mixes.iter().filter(|other| other.sequence < step.sequence && other.queue != step.queue);
        let is_waited = |queue, index| step.waited.iter().any(|done| done.queue == queue && done.index > index);
        others.count() > 0 && mixes.iter().all(|o| o.sequence >= step.sequence || is_waited(o.queue, o.index))
    };
    assert!(mixes.iter().filter(all).count() < 48, "what was submitted looks as if it had been waited for");
    passes(&file, "eight");
    let outcome = verified(&file, &["--backend", "emu", "--concurrent", "--json"]);
    for line in outcome.stdout.lines() {
        let part: serde_json::Value = serde_json::from_str(line).unwrap();
        let concurrent = &part["concurrent"];
        assert_eq!(concurrent["queues"], queues.len(), "{part:#}");
        assert!(concurrent["most_in_flight"].as_u64().unwrap() > 1, "{part:#}");
    }
}

#[test]
fn random_programs_replay_in_both_orders_with_the_runtime_and_without() {
    // In two of them, words that do not change lead to memory that was allocated where other memory was before.
    for seed in (1..=harness::count(2, 1000)).chain([38, 139]) {
        let program = Run::hip("sequences").args([seed.to_string(), "40".to_owned()]);
        let (_keep, file) = captured(program, "dispatches:3+", &["--capture-checkpoints", "25"]);
        passes(&file, &format!("seed {seed}"));
    }
}

/// A region of a program whose host writes memory beside kernels that read other parts of it, and these writes: addresses and bytes.
fn beside(program: PathBuf, options: &[&str]) -> (Run, PathBuf, Vec<(u64, u64)>) {
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let all = ["--capture", file.to_str().unwrap(), "--capture-region", "kernel:^slow$@1+", "-l", "/dev/null"];
    let run = Run::new(program).probed(&[&all[..], options].concat()).passed();
    let beside = run.stdout.lines().filter_map(|line| line.strip_prefix("beside 0x"));
    let writes: Vec<(u64, u64)> = beside
        .map(|line| {
            let (address, bytes) = line.split_once(' ').unwrap();
            (u64::from_str_radix(address, 16).unwrap(), bytes.parse().unwrap())
        })
        .collect();
    (keep, file, writes)
}

/// Kernels that compute something else, or leave a store to memory of the host out, do not pass.
fn others_fail(file: &Path, options: &str) {
    for other in ["-O3 -DFACTOR=5", "-O3 -DSILENT"] {
        let object = harness::hip_object("beside", &harness::arch(), &format!("{other} {options}"));
        for way in [&["--backend", "emu"][..], &[]] {
            let other = ["--hsaco", object.to_str().unwrap()];
            let outcome = verified(file, &[way, &other].concat());
            assert_eq!(outcome.status.code(), Some(6), "{way:?} {other:?}: {}", text(&outcome));
        }
    }
}

#[test]
fn what_the_host_writes_beside_a_kernel_that_only_reads_there_is_no_result_of_the_kernel() {
    let (keep, file, writes) = beside(harness::hip("beside"), &[]);
    let reader = Reader::open(&file).unwrap();
    let has = |delta: &Bytes, (at, length): (u64, u64)| {
        delta.iter().any(|(start, bytes)| *start >= at && start + bytes.len() as u64 <= at + length)
    };
    let steps = &reader.records().steps;
    let deltas: Vec<(u64, Bytes)> =
        steps.iter().filter_map(|step| Some((step.sequence, memory(&reader, step.delta?)))).collect();
    let with_writes: Vec<u64> = deltas
        .iter()
        .filter(|(_, delta)| writes.iter().any(|write| has(delta, *write)))
        .map(|(step, _)| *step)
        .collect();
    assert_eq!(with_writes.len(), writes.len(), "{with_writes:?}: {writes:x?}");
    passes(&file, "beside");
    // The kernels behind read what the host wrote.
    for step in with_writes {
        let lost = rewritten(&reader, &keep.file("lost.ldcap"), |changed, delta| {
            delta.retain(|(start, _)| changed.sequence != step || *start != writes[0].0);
        });
        ended(&verified(&lost, &["--backend", "emu"]), "FAIL", 6);
    }
    others_fail(&file, "");
}

#[test]
fn what_the_host_writes_beside_a_kernel_that_may_write_there_is_told_apart_by_replays_and_qualifies_them() {
    let program = harness::hip_optimized("beside", "-O3 -DPLAIN");
    let (keep, file, writes) = beside(program, &["--capture-checkpoints", "3", "--region-hashes"]);
    let reader = Reader::open(&file).unwrap();
    let records = reader.records();
    let is_meanwhile = |step: &&Placed<Step>| step.evidence == Evidence::Either;
    // One has what the kernel wrote, and most have what the host wrote, too.
    let found = records.steps.iter().filter(is_meanwhile).count();
    assert!(found >= writes.len() && writes.len() == 3, "{found} {writes:x?}");
    let said = "and count as the host's: replays leave them alone. That was in ";
    for way in [&["--backend", "emu"][..], &["--backend", "emu", "--concurrent"], &[], &["--concurrent"]] {
        let outcome = verified(&file, way);
        ended(&outcome, "PASS (qualified)", 0);
        let text = text(&outcome);
        let counts = text.lines().filter_map(|line| line.split_once(said)?.1.split(' ').next()?.parse::<usize>().ok());
        assert_eq!(counts.sum::<usize>(), writes.len(), "{way:?}: {text}");
    }
    others_fail(&file, "-DPLAIN");
    // It is told apart by the application's own kernels, also where others that compute the same are looked at.
    let others = harness::hip_object("beside", &harness::arch(), "-O1 -DPLAIN");
    let bisect = ["--region", "--bisect", "--against", file.to_str().unwrap(), "--hsaco", others.to_str().unwrap()];
    let outcome =
        on_file(Run::new(built("omniprobe")), "verify", &file, "", &[&bisect[..], &["--backend", "emu"]].concat());
    assert!(
        outcome.status.success() && text(&outcome).contains("leaves the same as its partner"),
        "{}",
        text(&outcome)
    );
    // What the host wrote is needed: kernels behind it read it.
    let lost = rewritten(&reader, &keep.file("lost.ldcap"), |step, delta| {
        if step.evidence == Evidence::Either {
            delta.retain(|(start, _)| *start != writes[0].0);
        }
    });
    assert_eq!(verified(&lost, &["--backend", "emu"]).status.code(), Some(6));
    // One dispatch, a part of the region, and a program of it.
    let last = records.steps.iter().rposition(|step| is_meanwhile(&step)).unwrap();
    let last = records.steps[last - 1].dispatch.as_ref().unwrap().id;
    ended(&verified(&file, &["--dispatch", &last.to_string(), "--backend", "emu"]), "PASS (qualified)", 0);
    let trimmed = keep.file("trimmed.ldcap");
    let trim = ["--keep", "kernel:^slow$", "-o", trimmed.to_str().unwrap(), "--backend", "emu"];
    let outcome = on_file(Run::new(built("omniprobe")), "trim", &file, "", &trim);
    assert!(outcome.status.success(), "{}", text(&outcome));
    ended(&verified(&trimmed, &["--backend", "emu"]), "PASS (qualified)", 0);
    let info = on_file(Run::new(built("omniprobe")), "info", &file, "", &["--region"]);
    assert!(text(&info).contains("changed while the dispatch before it ran, by it or by the host"), "{}", text(&info));
    let folder = keep.file("program");
    let options = ["--region", "-o", folder.to_str().unwrap()];
    let outcome = on_file(Run::new(built("omniprobe")), "reproduce", &file, "", &options);
    assert!(text(&outcome).contains("the host may have changed meanwhile"), "{}", text(&outcome));
}

#[test]
fn graphs_that_are_changed_between_launches_are_replayed() {
    let (_keep, file) = captured(Run::hip("graphs"), "dispatches:0+", &[]);
    passes(&file, "graphs");
}

#[test]
fn target_regions_of_openmp_are_replayed() {
    let program = Run::new(harness::openmp("regions", "-O2")).env("OMP_TARGET_OFFLOAD", "MANDATORY");
    let arch = harness::arch();
    let program = if harness::on_hardware() { program } else { program.env("KFDEMU_GPUS", format!("{arch},{arch}")) };
    let (_keep, file) = captured(program, "dispatches:0..dispatches:4", &[]);
    passes(&file, "OpenMP");
}

#[test]
fn a_sort_of_rocprim_is_replayed_whose_kernels_feed_each_other() {
    let (_keep, file) = captured(Run::hip("primitives"), "dispatches:4..dispatches:12", &[]);
    passes(&file, "rocPRIM");
}

#[test]
fn copies_and_fills_are_steps_and_a_region_that_lacks_one_does_not_pass() {
    let (mut copies, mut lacking) = (0, 0);
    for seed in 1..=harness::count(3, 40) {
        let program = Run::hip("sequences").args([seed.to_string(), "40".to_owned()]);
        let (keep, file) = captured(program, "dispatches:3+", &["--capture-checkpoints", "1"]);
        let reader = Reader::open(&file).unwrap();
        let moves = |step: &&Placed<Step>| matches!(step.kind, StepKind::Copy | StepKind::Fill) && step.bytes > 0;
        let all: Vec<&Placed<Step>> = reader.records().steps.iter().filter(moves).collect();
        copies += all.len();
        let emu = ["--backend", "emu"];
        let outcome = verified(&file, &emu);
        assert!(outcome.status.success(), "seed {seed}: {}", text(&outcome));
        for step in all.into_iter().take(2) {
            let without = rewritten(&reader, &keep.file("without.ldcap"), |changed, _| {
                if changed.sequence == step.sequence {
                    changed.bytes = 0;
                }
            });
            lacking += usize::from(!verified(&without, &emu).status.success());
            // A record that is lost is told.
            let lost = rewritten(&reader, &keep.file("lost.ldcap"), |changed, _| {
                changed.sequence += u64::from(changed.sequence >= step.sequence);
            });
            let outcome = verified(&lost, &emu);
            let said = format!("expected step {}, found step {}", step.sequence, step.sequence + 1);
            assert!(outcome.status.code() == Some(2) && outcome.stderr.contains(&said), "{}", text(&outcome));
        }
    }
    assert!(copies > 0 && lacking > 0, "{copies} copies, {lacking} missed");
}

#[test]
fn the_first_dispatch_that_leaves_other_memory_than_in_the_application_is_named_by_hashes() {
    let (keep, file) = captured(Run::hip("stretch"), STRETCH, &["--region-hashes"]);
    let reader = Reader::open(&file).unwrap();
    let dispatches = reader.records().steps.iter().filter(|step| step.kind == StepKind::Dispatch);
    let count = dispatches.clone().count();
    assert!(dispatches.clone().all(|step| step.has_changed) && dispatches.clone().any(|step| !step.changed.is_empty()));
    for options in [&["--backend", "emu"][..], &[]] {
        let outcome = verified(&file, options);
        ended(&outcome, "PASS (qualified)", 0);
        let said = format!("each of {count} dispatches left what it left in the application, by hashes");
        assert!(outcome.stdout.contains(&said), "{}", text(&outcome));
    }
    // The third dispatch finds a byte that the application did not have.
    let third = dispatches.clone().find(|step| step.delta.is_some() && step.sequence > 1).unwrap();
    let flipped = rewritten(&reader, &keep.file("flipped.ldcap"), |changed, delta| {
        if changed.sequence == third.sequence {
            delta[0].1[0] ^= 1;
        }
    });
    let outcome = verified(&flipped, &["--backend", "emu", "--json"]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let said: serde_json::Value = serde_json::from_str(outcome.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(said["hashes"]["differs"]["step"], third.sequence, "{said:#}");
    assert_eq!((&said["reference"], &said["hashes"]["dispatches"]), (&"application".into(), &count.into()), "{said:#}");
    // One that is overwritten later is no less wrong.
    let wrong = rewritten(&reader, &keep.file("wrong.ldcap"), |changed, _| {
        changed
            .changed
            .iter_mut()
            .take(1)
            .filter(|_| changed.sequence == third.sequence)
            .for_each(|one| one.id.0[0] ^= 1);
    });
    ended(&verified(&wrong, &["--backend", "emu"]), "FAIL", 6);
}

#[test]
fn a_process_that_is_killed_leaves_a_region_that_replays_up_to_its_last_checkpoint() {
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let run = Run::hip("stretch").args(["killed", "5"]);
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", STRETCH, "--capture-checkpoints", "2"];
    let run = run.probed(&[&options[..], &["-l", "/dev/null"]].concat());
    assert!(!run.status.success());
    let reader = Reader::open(&file).unwrap();
    assert!(reader.records().region_ends.is_empty() && !reader.records().checkpoints.is_empty());
    let outcome = verified(&file, &["--backend", "emu", "--json"]);
    let parts: Vec<serde_json::Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, compared) = parts.split_last().unwrap();
    assert!(!compared.is_empty() && compared.iter().all(|part| part["result"] == "PASS (qualified)"), "{parts:#?}");
    assert!(last["qualified"].to_string().contains("region 1 has no end"), "{parts:#?}");
}

#[test]
fn where_the_host_could_decide_by_what_was_computed_is_told_and_nowhere_else() {
    for (arguments, expected) in [(&[][..], true), (&["waits"], false)] {
        let keep = Run::new(built("omniprobe"));
        let file = keep.file("run.ldcap");
        let options = ["--capture", file.to_str().unwrap(), "--capture-region", "kernel:^step$@1..kernel:^last$@1"];
        let run = Run::hip("decides").args(arguments).probed(&[&options[..], &["-l", "/dev/null"]].concat()).passed();
        // What the program says that it has copied before it went on.
        let words = run.stdout.lines().filter_map(|line| line.strip_prefix("brought "));
        let bytes: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        assert_eq!(!bytes.is_empty(), expected, "{}", run.stdout);
        let info = on_file(Run::new(built("omniprobe")), "info", &file, &harness::arch(), &["--region", "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        let said = info["brought_to_host"].as_array().unwrap();
        let found: Vec<u64> = said.iter().map(|one| one["bytes"].as_u64().unwrap()).collect();
        assert_eq!(found, bytes, "{info:#}");
        // The steps are those behind which the host went on: after the kernel whose result it had.
        let steps = info["steps"].as_array().unwrap();
        for one in said {
            let at = one["step"].as_u64().unwrap() as usize;
            let before = steps[..at - 1].iter().rev().find(|step| !step["dispatch"].is_null()).unwrap();
            assert!(before["what"].as_str().unwrap().ends_with(" step"), "{one}: {info:#}");
        }
        let outcome = verified(&file, &["--backend", "emu"]);
        ended(&outcome, "PASS (qualified)", 0);
        let total: u64 = bytes.iter().sum();
        let line = format!("host: copies had brought {total} bytes of GPUs to it before {} steps", bytes.len());
        assert_eq!(outcome.stdout.contains(&line), expected, "{}", text(&outcome));
        assert_eq!(outcome.stdout.contains("host:"), expected, "{}", text(&outcome));
    }
}
