//! The emulated machine under the real runtime: faults on order, the deterministic clock.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use serde_json::Value;

use crate::support::harness::{self, Outcome, Run};
use crate::support::versions;

/// What `injected` told: start and end ticks of each completed packet, and the lines that tell an error.
struct Told {
    complete: BTreeMap<String, [i128; 2]>,
    ran: [u64; 2],
    errors: Vec<String>,
}

fn told(outcome: &Outcome) -> Told {
    let mut told = Told { complete: BTreeMap::new(), ran: [0; 2], errors: Vec::new() };
    for line in outcome.stdout.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [packet, "complete", start, end] => {
                _ = told.complete.insert(packet.to_owned(), [start, end].map(|t| t.parse().unwrap()));
            }
            ["A", "ran", n] => told.ran[0] = n.parse().unwrap(),
            ["B", "ran", n] => told.ran[1] = n.parse().unwrap(),
            ["PASS"] => {}
            _ => told.errors.push(line.to_owned()),
        }
    }
    told
}

/// The packets of queue A and of queue B that are complete.
fn complete(told: &Told) -> [String; 2] {
    ["A", "B"].map(|queue| told.complete.keys().filter_map(|name| name.strip_prefix(queue)).collect())
}

/// The number of the queue whose kernels have one workgroup: queue A of `injected`.
fn queue_a(outcome: &Outcome) -> u64 {
    let trace = outcome.trace();
    let of_a = |p: &&Value| p["grid"][0] == 64;
    trace.iter().find(of_a).and_then(|p| p["queue"].as_u64()).expect("kernels of queue A")
}

/// Runs `injected` until so many packets of A and B are complete, or there is an error, with an order for queue A.
fn injected(order: &str, until: &[&str]) -> Outcome {
    let number = queue_a(&Run::hsa("injected").args(["6", "6"]).bare().passed());
    let order = order.replace("queueA", &format!("queue{number}"));
    Run::hsa("injected").args(until).env("KFDEMU_INJECT", order).bare().passed()
}

#[test]
fn an_error_on_order_reaches_the_application_and_everything_before_it_is_complete() {
    if harness::on_hardware() {
        return;
    }
    for (kind, error) in [
        ("memory-fault", "memory fault at 0xbad00000000"),
        ("illegal-instruction", "queue A error 0x2a"),
        ("aperture-violation", "queue A error 0x29"),
        ("wave-abort", "queue A error 0x1016"),
        ("invalid-packet", "queue A error 0x1009"),
    ] {
        let outcome = injected(&format!("{kind}@queueA:3"), &["3", "6", "error"]);
        let told = told(&outcome);
        assert_eq!(told.errors, [error], "{kind}");
        assert_eq!((complete(&told)[0].as_str(), told.ran[0]), ("012", 3), "{kind}");
        assert!(outcome.read("kfdemu.log").contains("injected"), "{kind}");
    }
}

#[test]
fn an_order_for_one_gpu_leaves_the_others_alone() {
    if harness::on_hardware() {
        return;
    }
    let run = || Run::hsa("injected").args(["6", "6"]).env("KFDEMU_GPUS", "2*gfx90a");
    let number = queue_a(&run().bare().passed());
    // The program uses the first GPU only.
    let elsewhere = run().env("KFDEMU_INJECT", "memory-fault@gpu1:0+").bare().passed();
    assert_eq!((told(&elsewhere).ran, told(&elsewhere).errors), ([6, 6], vec![]));
    let order = format!("invalid-packet@gpu0:queue{number}:3");
    let here =
        Run::hsa("injected").args(["3", "6", "error"]).env("KFDEMU_GPUS", "2*gfx90a").env("KFDEMU_INJECT", order);
    assert_eq!(told(&here.bare().passed()).errors, ["queue A error 0x1009"]);
}

#[test]
fn a_stalled_queue_stands_still_for_as_long_as_ordered_and_others_go_on() {
    if harness::on_hardware() {
        return;
    }
    let for_ever = told(&injected("stall@queueA:3", &["3", "6"]));
    assert_eq!((complete(&for_ever), for_ever.ran), (["012".to_owned(), "012345".to_owned()], [3, 6]));
    let a_while = told(&injected("stall:50ms@queueA:3", &["6", "6"]));
    assert_eq!(a_while.ran, [6, 6]);
    let [before, after] = ["A2", "A3"].map(|name| a_while.complete[name]);
    assert!(after[0] - before[1] >= 50 * TICKS_PER_MS, "{before:?} {after:?}");
}

const TICKS_PER_MS: i128 = 100_000;

#[test]
fn a_late_completion_has_its_true_times_and_holds_up_what_waits_for_it() {
    if harness::on_hardware() {
        return;
    }
    let told = told(&injected("delay:50ms@queueA:3", &["6", "6"]));
    let [late, next] = ["A3", "A4"].map(|name| told.complete[name]);
    // The packet after it has the barrier bit.
    assert!(next[0] - late[1] >= 50 * TICKS_PER_MS, "{late:?} {next:?}");
}

#[test]
fn a_lost_completion_is_never_seen_though_its_kernel_ran() {
    if harness::on_hardware() {
        return;
    }
    let told = told(&injected("lose@queueA:3", &["5", "6"]));
    assert_eq!((complete(&told), told.ran), (["01245".to_owned(), "012345".to_owned()], [6, 6]));
}

#[test]
fn a_slow_queue_is_overtaken_by_another() {
    if harness::on_hardware() {
        return;
    }
    let told = told(&injected("delay:20ms@queueA:0+", &["6", "6"]));
    let end = |name: &str| told.complete[name][1];
    assert!(end("B5") < end("A5"), "B was submitted after A: {:?}", told.complete);
    assert!(end("A5") - end("A0") >= 100 * TICKS_PER_MS, "five late completions in between: {:?}", told.complete);
}

#[test]
fn an_order_that_is_not_understood_is_named_and_ignored() {
    if harness::on_hardware() {
        return;
    }
    let outcome = Run::hsa("injected").args(["6", "6"]).env("KFDEMU_INJECT", "hang@3").bare().passed();
    assert_eq!(told(&outcome).ran, [6, 6]);
    let log = outcome.read("kfdemu.log");
    assert!(
        log.contains("KFDEMU_INJECT: expected a kind out of memory-fault, ") && log.contains("\"hang@3\""),
        "{log}"
    );
}

#[test]
fn the_log_says_which_dispatches_never_completed_when_a_completion_is_lost() {
    if harness::on_hardware() {
        return;
    }
    let number = queue_a(&Run::hsa("injected").args(["6", "6"]).watched().passed());
    let order = format!("stall@queue{number}:3");
    let outcome = Run::hsa("injected").args(["3", "6"]).env("KFDEMU_INJECT", order).watched().passed();
    assert_eq!(complete(&told(&outcome))[0], "012");
}

/// The dispatches of a trace, without what differs from run to run.
fn ticks(outcome: &Outcome) -> Vec<[u64; 5]> {
    let numbers =
        |p: &Value| ["queue", "packet", "startTicks", "endTicks", "instructions"].map(|n| p[n].as_u64().unwrap_or(0));
    outcome.trace().iter().filter(|p| p["type"] == "KernelDispatch").map(numbers).collect()
}

#[test]
fn on_the_deterministic_clock_two_runs_have_the_same_ticks() {
    if harness::on_hardware() {
        return;
    }
    // Without events: HIP gives some of them the host's time, which is not the GPU's here.
    for (program, arguments) in [("vectors", [].as_slice()), ("timed", &["kernels"])] {
        let run = || Run::hip(program).args(arguments).env("KFDEMU_CLOCK", "deterministic").watched().passed();
        let [one, two] = [run(), run()];
        assert_eq!(ticks(&one), ticks(&two), "{program}");
        assert_eq!(one.stdout, two.stdout, "{program}");
        for [_, _, start, end, instructions] in ticks(&one) {
            assert_eq!(end - start, instructions, "{program}: a tick for each wave instruction");
        }
        // Ten nanoseconds a tick, in the log too.
        let log = one.log();
        let kernels: Vec<_> = one.trace().into_iter().filter(|p| p["type"] == "KernelDispatch").collect();
        for row in &log.rows {
            let object = row.text("kernelObject").to_owned();
            let of_row = |p: &&Value| {
                p["kernelObject"].as_u64().is_some_and(|o| object == format!("{o:#x}") || object == o.to_string())
                    && (p["endTicks"].as_u64().unwrap() - p["startTicks"].as_u64().unwrap()) * 10
                        == row.number("durationNs")
            };
            assert!(kernels.iter().any(|p| of_row(&p)), "{program}: no packet is like {row:?}");
        }
        assert!(!log.rows.is_empty());
    }
}

/// Pairs of GPUs that tests run on.
fn pairs() -> Vec<String> {
    let archs = harness::archs();
    let different = (archs.len() > 1).then(|| archs[..2].join(","));
    [format!("2*{}", archs[0])].into_iter().chain(different).collect()
}

#[test]
fn two_gpus_work_side_by_side_and_on_each_others_memory() {
    if harness::on_hardware() {
        return;
    }
    for gpus in pairs() {
        for (bar, access) in [("small", "peer access 0 0"), ("large", "peer access 1 1")] {
            let run = Run::hip("two_gpus").env("KFDEMU_GPUS", &gpus).env("KFDEMU_BAR", bar).bare().passed();
            assert!(run.stdout.lines().any(|line| line == access), "{gpus}, {bar}: {}", run.stdout);
        }
    }
}

#[test]
fn memory_that_only_another_gpu_has_mapped_faults_and_the_emulator_says_whose_it_is() {
    if harness::on_hardware() {
        return;
    }
    for gpus in pairs() {
        let run = Run::hip("two_gpus").args(["foreign"]).env("KFDEMU_GPUS", &gpus).env("KFDEMU_BAR", "large");
        let outcome = run.bare();
        // HIP 7 makes a status of the device of what goes wrong on it.
        if versions::hip() >= (7, 0) {
            assert!(outcome.stdout.contains("\nhipDeviceSynchronize: hipErrorIllegalAddress\n"), "{}", outcome.stdout);
        } else {
            assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{gpus}: {}", outcome.stdout);
        }
        let log = outcome.read("kfdemu.log");
        let parts = ["memory fault on gpu 0x4d01", "global_load_dword", "gpu 0x4d12 has it mapped"];
        assert!(log.lines().any(|line| parts.iter().all(|part| line.contains(part))), "{gpus}: {log}");
    }
}
