//! What real GPUs and drivers do that the emulated one shows on request: what the library does then.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use logdur_capture::{Change, Reader};

use crate::support::harness::{self, Outcome, Run};
use crate::support::log::Log;
use crate::support::versions;

/// Dispatches of a run of `signals`.
const COUNT: u64 = 40;

fn signals(mode: &str) -> Run {
    Run::hsa("signals").args([mode, &COUNT.to_string()])
}

/// The rows of a run whose times come in some way. The program may fail because of its own times.
fn rows(run: Run, times: &str) -> Log {
    let outcome = run.env("KFDEMU_TIMES", times).watched();
    let log = outcome.log();
    assert_eq!(log.account()["logged"], COUNT, "{times}: {}", outcome.stdout);
    log
}

/// True of a row that says that it has no times, and has none.
fn is_without_times(row: &crate::support::log::Row) -> bool {
    matches!(row.flags(), "no-times" | "incomplete") && row.text("startNs").is_empty() && row.text("endNs").is_empty()
}

#[test]
fn dispatches_whose_times_never_come_are_rows_that_say_so() {
    if harness::on_hardware() {
        return;
    }
    for mode in ["none", "own", "rearm"] {
        let log = rows(signals(mode), "none");
        for row in &log.rows {
            assert!(is_without_times(row), "{mode}: {row:?}");
        }
    }
    // The GPU decrements, so the program goes on as without the library.
    Run::hip("vectors").env("KFDEMU_TIMES", "none").watched().passed();
}

#[test]
fn times_that_come_after_the_decrement_are_waited_for() {
    if harness::on_hardware() {
        return;
    }
    let log = rows(signals("none"), "late");
    let right =
        |row: &&crate::support::log::Row| row.flags().is_empty() && row.number("dispatch") <= row.number("startNs");
    // On a machine that stands still in between, some come too late, and their rows say so.
    let waited_for = log.rows.iter().filter(right).count();
    assert!(log.rows.iter().all(|row| is_without_times(row) || right(&row)), "{:?}", log.rows);
    assert!(waited_for > log.rows.len() / 2, "{waited_for}: {:?}", log.rows);
}

#[test]
fn times_that_come_after_the_decrement_are_never_another_rows() {
    if harness::on_hardware() {
        return;
    }
    for mode in ["own", "rearm"] {
        for row in &rows(signals(mode), "late").rows {
            let right = || row.flags().is_empty() && row.number("dispatch") <= row.number("startNs");
            assert!(is_without_times(row) || right(), "{mode}: {row:?}");
        }
    }
}

#[test]
fn an_end_that_is_seen_before_its_start_waits_for_it() {
    if harness::on_hardware() {
        return;
    }
    for mode in ["none", "own", "rearm"] {
        for row in &rows(signals(mode), "end-first").rows {
            assert_eq!(row.flags(), "", "{mode}: {row:?}");
            assert!(row.number("dispatch") <= row.number("startNs") && row.number("startNs") < row.number("endNs"));
        }
    }
}

#[test]
fn an_end_before_its_start_is_flagged() {
    if harness::on_hardware() {
        return;
    }
    for mode in ["none", "own", "rearm"] {
        for row in &rows(signals(mode), "swapped").rows {
            assert_eq!(row.flags(), "end-before-start", "{mode}: {row:?}");
        }
    }
}

#[test]
fn a_read_index_that_lags_loses_no_row_and_hangs_no_program() {
    if harness::on_hardware() {
        return;
    }
    for mode in ["none", "own", "shared"] {
        let log = signals(mode).env("KFDEMU_READ_INDEX", "lazy").watched().passed().log();
        assert_eq!(log.account()["logged"], COUNT, "{mode}");
        assert!(log.rows.iter().all(|row| row.flags().is_empty()), "{mode}");
    }
    Run::hsa("packets").args(["all"]).env("KFDEMU_READ_INDEX", "lazy").watched().passed();
    Run::hip("streams").env("KFDEMU_READ_INDEX", "lazy").watched().passed();
}

#[test]
fn dispatches_are_captured_though_the_read_index_lags() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("swaps").args(["plain", "placed", "tiled"]).env("KFDEMU_READ_INDEX", "lazy");
    let (outcome, reader) = captured(run);
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
    assert!(reader.dispatches().len() >= 3, "{notices:?}");
}

#[test]
fn captures_read_memory_although_copy_engines_lose_their_completions() {
    if harness::on_hardware() {
        return;
    }
    let run = || Run::hsa("in_vram").args(["3"]).env("LOGDUR_CAPTURE_DISPATCHES", "1-3").env("KFDEMU_SDMA", "lose:1");
    // Through the aperture.
    let (outcome, reader) = captured(run());
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
    for dispatch in reader.dispatches() {
        let address = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
        let [before, after] = [dispatch.before, dispatch.after].map(|snapshot| {
            let mut bytes = vec![0; 256];
            reader.snapshot(snapshot.unwrap()).unwrap().read(address, &mut bytes).unwrap();
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>()
        });
        assert_eq!(after, before.iter().map(|word| word + 1).collect::<Vec<_>>());
    }
    // Where there is none, the loss is named, with what helps.
    let (outcome, reader) = captured(run().env("KFDEMU_BAR", "small").env("LOGDUR_CAPTURE_DISPATCHES", "1"));
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with("HSA_ENABLE_SDMA=0 has kernels copy")), "{notices:?}");
    assert_eq!(reader.dispatches().len(), 1);
    let (outcome, _) = captured(run().env("KFDEMU_BAR", "small").env("HSA_ENABLE_SDMA", "0"));
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
}

#[test]
fn a_replay_whose_copies_lose_their_completions_names_what_helps() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hsa("in_vram").args(["1"]).env("LOGDUR_CAPTURE_DISPATCHES", "1");
    let (outcome, _) = captured(run);
    let verify = || {
        let mut command = std::process::Command::new(harness::built("omniprobe"));
        command.args(["verify", "--emulate", &harness::arch()]).args(harness::rocm_option());
        command.arg(outcome.folder.path().join("run.ldcap")).env("KFDEMU_SDMA", "lose:1");
        command
    };
    let lost = verify().output().unwrap();
    let said = String::from_utf8_lossy(&lost.stderr);
    assert!(!lost.status.success() && said.contains("HSA_ENABLE_SDMA=0 has kernels copy"), "{said}");
    let passed = verify().env("HSA_ENABLE_SDMA", "0").output().unwrap();
    assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stdout));
}

#[test]
fn a_clock_of_another_rate_that_runs_ahead_gives_the_same_nanoseconds() {
    if harness::on_hardware() {
        return;
    }
    for clock in ["25MHz", "25MHz+200ppm", "100MHz-200ppm"] {
        let log = signals("none").env("KFDEMU_CLOCK", clock).watched().passed().log();
        assert_eq!(log.account()["logged"], COUNT);
        for row in &log.rows {
            // A tick is up to 40 ns, and a dispatch takes longer than the clocks' relation is wrong by.
            let late = row.number("dispatch").saturating_sub(row.number("startNs"));
            assert!(row.flags().is_empty() && late < 50_000, "{clock}: started {late} ns too early: {row:?}");
        }
    }
}

#[test]
fn a_driver_that_is_interrupted_between_its_two_clocks_moves_no_row() {
    if harness::on_hardware() {
        return;
    }
    const DISPATCHES: usize = 300;
    let run = Run::hsa("paced").args([DISPATCHES.to_string(), "10".to_owned()]).env("KFDEMU_CLOCK", "100MHz~2000us");
    let outcome = run.watched().passed();
    let log = outcome.log();
    assert!(
        log.notices.iter().any(|notice| notice.contains("of the clock of agent 0 and the host's jumped by")),
        "{log:?}"
    );
    // The clock that the packets were stamped with is the system's, in ticks of 10 ns.
    let ran: BTreeSet<u64> = outcome.trace().iter().map(|packet| 10 * packet["startTicks"].as_u64().unwrap()).collect();
    assert_eq!(log.rows.len(), DISPATCHES);
    for row in &log.rows {
        let start = row.number("startNs");
        let near = ran.range(start.saturating_sub(100_000)..start + 100_000).next();
        assert!(near.is_some() && row.flags().is_empty(), "no packet started within 100 us of {start}: {row:?}");
    }
}

/// A run that is captured, and its file.
fn captured(run: Run) -> (Outcome, Reader) {
    let file = run.file("run.ldcap");
    let outcome = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let reader = Reader::open(&file).unwrap_or_else(|e| panic!("{e}: {:?}", outcome.log().notices));
    assert!(reader.check().is_clean());
    (outcome, reader)
}

#[test]
fn managed_memory_works_and_is_captured_until_it_is_freed() {
    if harness::on_hardware() {
        return;
    }
    for xnack in ["none", "off", "on"] {
        Run::hip("pageable").args(["managed"]).env("KFDEMU_XNACK", xnack).bare().passed();
        // Freed by nothing but unmapping it.
        let run =
            Run::hip("pageable").args(["gone"]).env("KFDEMU_XNACK", xnack).env("LOGDUR_CAPTURE_DISPATCHES", "1-9");
        let (outcome, reader) = captured(run);
        let notices = outcome.log().notices;
        assert!(!notices.iter().any(|notice| notice.contains("not mapped")), "{xnack}: {notices:?}");
        assert_eq!(reader.dispatches().len(), outcome.log().rows.len(), "{xnack}: {notices:?}");
    }
}

#[test]
fn memory_that_no_call_announces_is_reached_where_faults_are_retried_and_a_fault_elsewhere() {
    if harness::on_hardware() {
        return;
    }
    Run::hip("pageable").args(["all"]).env("KFDEMU_XNACK", "on").bare().passed();
    Run::hip("pageable").args(["all"]).env("KFDEMU_XNACK", "on").watched().passed();
    let outcome = Run::hip("pageable").args(["all"]).env("KFDEMU_XNACK", "off").bare();
    assert!(outcome.stdout.contains("\nadvised\n") && !outcome.stdout.contains("malloc\n"), "{}", outcome.stdout);
    let aborted = outcome.status.signal() == Some(libc::SIGABRT);
    assert!(aborted || versions::hip() >= (7, 0), "{}", outcome.stdout);
}

#[test]
fn the_library_hardly_uses_the_processor_while_a_long_kernel_runs_on_a_shared_signal() {
    const LONG: u64 = 1000;
    let outcome = Run::hsa("long_kernel").args([LONG.to_string()]).watched().passed();
    let used = outcome.stdout.lines().find_map(|line| line.strip_prefix("used ")?.strip_suffix(" ms")).unwrap();
    let used: u64 = used.parse().unwrap();
    // It used to be all of the time.
    assert!(used < LONG / 2, "{used} of {LONG} ms");
}

#[test]
fn vendor_packets_of_an_unknown_format_are_a_notice() {
    let run = Run::hsa("errors").args(["vendor"]).watched();
    let notices = run.log().notices;
    assert!(notices.iter().any(|notice| notice.contains("AMD's format 9 are not known")), "{notices:?}");
    assert!(run.stdout.contains("queue error"), "{}", run.stdout);
}

#[test]
fn dispatches_in_the_extended_format_of_amd_are_rows_and_are_neither_replaced_nor_captured() {
    if harness::on_hardware() {
        return;
    }
    let run = || Run::hsa("clustered").args(["6"]).env("KFDEMU_PACKETS", "extended");
    run().bare().passed();
    let run = run();
    let (cache, file) = (tempfile::tempdir().unwrap(), run.file("run.ldcap"));
    std::fs::copy(harness::kernels(&harness::arch()), cache.path().join("kernels.hsaco")).unwrap();
    let run = run.env("LOGDUR_KERNEL_CACHE", cache.path()).env("XDG_CACHE_HOME", cache.path());
    let log = run.env("LOGDUR_CAPTURE", &file).watched().passed().log();
    let rows = log.rows_of("increment");
    assert_eq!((rows.len(), log.account()["seen"], log.account()["logged"]), (6, 6, 6), "{:?}", log.notices);
    for row in rows {
        let grid = [row.text("grid"), row.text("workgroup")];
        assert_eq!((row.flags().replace("barrier", ""), grid), (String::new(), ["384x1x1", "64x1x1"]), "{row:?}");
        assert!(row.number("dispatch") <= row.number("startNs") && row.number("startNs") <= row.number("endNs"));
    }
    for said in
        ["cache: kernels of dispatches in AMD's extended format", "capture: dispatches in AMD's extended format"]
    {
        assert_eq!(log.notices.iter().filter(|n| n.starts_with(said)).count(), 1, "{:?}", log.notices);
    }
}

#[test]
fn memory_that_no_call_announces_is_captured_and_the_replay_is_qualified_by_name() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("pageable").args(["all"]).env("KFDEMU_XNACK", "on").env("LOGDUR_CAPTURE_DISPATCHES", "1-9");
    let (outcome, reader) = captured(run.env("LOGDUR_CAPTURE_KERNELS", "twice"));
    assert_eq!(reader.dispatches().len(), 5, "{:?}", outcome.log().notices);
    let told: Vec<_> = reader.notes().iter().filter(|note| note.code == "unannounced").collect();
    assert!(!told.is_empty(), "{:?}", reader.notes());
    assert!(told.iter().all(|note| note.text.contains("that no call has announced") && note.dispatch.is_some()));
    for dispatch in reader.dispatches() {
        let words = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
        for (snapshot, factor) in [(dispatch.before, 1), (dispatch.after, 2)] {
            let mut bytes = vec![0; 1024];
            reader.snapshot(snapshot.unwrap()).unwrap().read(words, &mut bytes).unwrap();
            let words: Vec<u32> =
                bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
            assert_eq!(words, (0..256).map(|i| factor * i).collect::<Vec<_>>(), "dispatch {}", dispatch.id);
        }
    }
}

#[test]
fn of_memory_that_is_unmapped_in_part_the_rest_is_captured() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("pageable").args(["half"]).env("KFDEMU_XNACK", "on").env("LOGDUR_CAPTURE_DISPATCHES", "3");
    let (outcome, reader) = captured(run.env("LOGDUR_CAPTURE_KERNELS", "twice"));
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
    let dispatch = &reader.dispatches()[0];
    let words = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
    let after = reader.snapshot(dispatch.after.unwrap()).unwrap();
    let mut half = vec![0; 1 << 19];
    after.read(words, &mut half).unwrap();
    let found = half.chunks_exact(4).take(256).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    assert!(found.eq((0..256).map(|i| 2 * i)));
    after.read(words + (1 << 19), &mut [0]).unwrap_err();
    let expected = format!("{} bytes at {:#x}: ", 1 << 19, words + (1 << 19));
    let mut freed = reader.notes().iter().filter(|note| note.code == "freed" && note.text.starts_with(&expected));
    assert!(freed.next().is_some(), "{:?}", reader.notes());
}

#[test]
fn batches_of_copies_of_a_later_runtime_are_held_and_ordered_by_captures() {
    // Older layouts have other entries there.
    if versions::hip() < (5, 6) {
        return;
    }
    const DISPATCHES: u64 = 6;
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    let run = || Run::hsa("batch_copies").args([DISPATCHES.to_string()]).env("TEST_LATER", &tool);
    run().env("HSA_TOOLS_LIB", &tool).bare().passed();
    let watched = run().env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()));
    let (outcome, reader) = captured(watched.env("LOGDUR_CAPTURE_DISPATCHES", format!("1-{DISPATCHES}")));
    let notices = outcome.log().notices;
    assert!(notices.iter().any(|notice| notice.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
    assert_eq!(reader.dispatches().len() as u64, DISPATCHES);
    for dispatch in reader.dispatches() {
        let [before, after] =
            [dispatch.before, dispatch.after].map(|snapshot| reader.snapshot(snapshot.unwrap()).unwrap());
        let changes = after.changed_since(&before).unwrap();
        let words = u64::from_le_bytes(dispatch.kernarg[..8].try_into().unwrap());
        let of_kernel = |change: &Change| (words..words + 256).contains(&change.address) && change.length <= 256;
        assert!(!changes.is_empty() && changes.iter().all(of_kernel), "{words:#x}: {changes:?}");
    }
}

#[test]
fn each_agents_device_is_named_in_the_log_and_in_the_capture() {
    if harness::on_hardware() {
        return;
    }
    let gpus = [harness::arch(), harness::arch()].join(",");
    let run = Run::hip("swaps").args(["plain"]).env("KFDEMU_GPUS", gpus).env("ROCR_VISIBLE_DEVICES", "1,0");
    let (outcome, reader) = captured(run);
    let agents = &reader.records().agents;
    assert_eq!(agents.len(), 2);
    let log = std::fs::read_to_string(outcome.folder.path().join("log.csv")).unwrap();
    for agent in agents {
        assert!(agent.uuid.starts_with("GPU-") && agent.bdf.len() == "0000:03:00.0".len(), "{agent:?}");
        assert_eq!(agent.visible, "ROCR_VISIBLE_DEVICES=1,0");
        let line = format!("# device {}: uuid={} bdf={} partition=0", agent.position, agent.uuid, agent.bdf);
        let line = log.lines().find(|l| l.starts_with(&line)).unwrap_or_else(|| panic!("{line}: {log}"));
        assert!(line.contains(&format!(" node={}", agent.driver_node.unwrap())), "{line}");
        assert!(line.ends_with("ROCR_VISIBLE_DEVICES=1,0"), "{line}");
    }
    assert_ne!((&agents[0].uuid, &agents[0].bdf), (&agents[1].uuid, &agents[1].bdf));
    assert!(agents[0].driver_node > agents[1].driver_node, "the order is the variable's");
}

#[test]
fn each_gpu_of_a_large_node_has_a_device_of_its_own_rows_and_captured_dispatches() {
    if harness::on_hardware() {
        return;
    }
    let gpus = harness::count(18, 64);
    let run = Run::hip("many_gpus").env("KFDEMU_GPUS", format!("{gpus}*{}", harness::arch()));
    let (outcome, reader) = captured(run);
    assert!(outcome.stdout.starts_with(&format!("{gpus} GPUs\n")), "{}", outcome.stdout);
    let log = outcome.log();
    for gpu in 0..gpus {
        let (number, agent) = (gpu.to_string(), &reader.records().agents[gpu]);
        assert_eq!(log.rows_of("number(").iter().filter(|row| row.text("agent") == number).count(), 1, "{gpu}");
        // HIP names the place on the bus that the log names.
        assert!(outcome.stdout.contains(&format!("gpu {gpu} at {}\n", agent.bdf)), "{agent:?}: {}", outcome.stdout);
    }
    let uuids: BTreeSet<&str> = reader.records().agents.iter().map(|agent| &*agent.uuid).collect();
    assert_eq!((uuids.len(), reader.dispatches().len()), (gpus, log.rows.len()));
}
