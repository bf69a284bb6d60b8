//! `cargo xtask bench dispatch` and `producer`: what it costs to be watched, dispatch by dispatch.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{LIBRARY, Variant, emulated, parsed, table, variant, watched};
use crate::setup::{self, Rocm};
use crate::{demo, dist, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 20;

/// HIP programs that launch: host nanoseconds of a launch, and of a launch and its completion.
pub(super) fn hip() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/launch.hip"))?;
    for (title, arguments) in [
        ("2000 launches on one stream, the first time and the median of 7", ["2000", "1", "7"]),
        ("8 threads with 2000 launches, each on a stream of its own", ["2000", "8", "7"]),
    ] {
        let columns = ["first ns", "+ sync", "launch ns", "+ sync"];
        table(title, columns, &LIBRARY, REPEATS, |variant| numbers(&program, &arguments, variant))?;
    }
    // A ratio says little on a machine that others use, too: processor time says more.
    for (title, threads, launches) in [
        ("one thread and the emulated GPU on two processors; processor time for a launch", "1", 70_000.0),
        ("8 threads and the emulated GPU on two processors; processor time for a launch", "8", 560_000.0),
    ] {
        let columns = ["launch ns", "+ sync", "app", "GPU", "reaper", "log", "process"];
        table(title, columns, &LIBRARY, REPEATS, |variant| {
            let before = processor_time_of_children();
            let [launch, sync, app, gpu, reaper, log] = numbers(&program, &["2000", threads, "35", "pinned"], variant)?;
            // With its start, and until it has exited.
            let process = (processor_time_of_children() - before) / launches;
            Ok([launch, sync, app, gpu, reaper, log, process])
        })?;
    }
    stats(&program)
}

/// What `omniprobe --stats` costs the application that it runs: the totals are made from the log when it has ended.
fn stats(program: &Path) -> Result<()> {
    const VARIANTS: [Variant; 3] =
        [variant("omniprobe", logged), variant("--stats", with_totals), variant("omniprobe, again", logged)];
    fn logged(command: &mut Command) {
        command.arg("-l").arg(super::log());
    }
    fn with_totals(command: &mut Command) {
        logged(command);
        command.arg("--stats");
    }
    let columns = ["first ns", "+ sync", "launch ns", "+ sync"];
    table("2000 launches on one stream, run by omniprobe", columns, &VARIANTS, REPEATS, |variant| {
        let mut command = Command::new(shell::built("omniprobe"));
        (variant.command)(command.args(["-q", "--emulate", "gfx90a"]));
        let printed = shell::output(command.arg("--").arg(program).args(["2000", "1", "7"]))?;
        // The application's line is the first one; totals follow.
        parsed(printed.lines().next().unwrap_or_default())
    })
}

/// Nanoseconds of processor time of the processes that have been waited for.
pub(super) fn processor_time_of_children() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes the structure.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: zeros are a value of the structure, and so is what the kernel wrote.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// The library, also where none of its dispatches is recorded.
const WINDOW: [Variant; 4] =
    [LIBRARY[0], LIBRARY[1], variant("outside of --when", outside), variant("without, again", emulated)];

fn outside(command: &mut Command) {
    watched(command);
    command.env("LOGDUR_WHEN", "file:/nowhere");
}

/// Programs without HIP between them and the queue.
pub(super) fn hsa() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile_hsa(&rocm, &shell::root().join("tests/programs/rate.c"))?;
    let kernels = demo::kernels(&rocm)?;
    let run = |arguments: &[&str], variant: &Variant| {
        let mut command = Command::new(&program);
        (variant.command)(command.args(arguments).env("TEST_KERNELS", &kernels));
        shell::output(&mut command)
    };
    for (title, arguments) in [
        ("a held queue, one producer, packet by packet", ["held", "1", "1", "11"]),
        ("a held queue, eight producers, packet by packet", ["held", "8", "1", "11"]),
        ("a held queue, one producer, batches of 64", ["held", "1", "64", "11"]),
        ("a held queue, one producer, batches of 4096", ["held", "1", "4096", "11"]),
    ] {
        table(title, ["ns a packet", "p99 ns"], &WINDOW, REPEATS, |v| parsed(&run(&arguments, v)?))?;
    }
    swapped(&rocm, &program, &kernels)?;
    let title = "from a doorbell to the end of the wait on the kernel's own signal";
    table(title, ["ns"], &LIBRARY, REPEATS, |v| parsed(&run(&["latency", "2000"], v)?))?;
    let title = "resident memory before and after 1,000,000 dispatches";
    table(title, ["KiB before", "KiB after"], &LIBRARY, 1, |v| parsed(&run(&["memory", "1000000"], v)?))?;
    const FORMATS: [Variant; 2] = [variant("csv", watched), variant("records", in_records)];
    fn in_records(command: &mut Command) {
        watched(command);
        command.env("LOGDUR_LOG_FORMAT", "records");
    }
    let title = "processor time of the library's threads for each of 200,000 dispatches, by the format of the log";
    table(title, ["reaper ns", "log ns"], &FORMATS, REPEATS, |v| parsed(&run(&["threads", "200000"], v)?))
}

/// Threads whose dispatches complete on one signal; and, beside it, on none.
pub(super) fn shared() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile_hsa(&rocm, &shell::root().join("tests/programs/shared_signal.c"))?;
    let kernels = demo::kernels(&rocm)?;
    for (title, arguments) in [
        ("16 threads on one queue, one signal", ["rush", "16", "1", "5000", "blocked"]),
        ("16 threads on one queue, no signals", ["lone", "16", "1", "5000", "blocked"]),
        ("16 threads with a queue each, one signal", ["rush", "16", "16", "5000", "blocked"]),
        ("2 threads on one queue, one signal", ["rush", "2", "1", "30000", "blocked"]),
        ("64 threads on 4 queues, one signal", ["rush", "64", "4", "1500", "blocked"]),
        ("16 threads that wait for one signal after each dispatch", ["rounds", "16", "16", "10", "blocked"]),
        ("4 threads, a new signal for each round", ["fresh", "4", "4", "20", "blocked"]),
    ] {
        table(title, ["ns", "processor ns"], &LIBRARY, REPEATS, |variant| {
            let mut command = Command::new(&program);
            (variant.command)(command.args(arguments).env("TEST_KERNELS", &kernels));
            parsed(shell::output(&mut command)?.trim_end().trim_end_matches("PASS"))
        })?;
    }
    Ok(())
}

/// What it costs to look for a replacement, and to put it into the packet.
fn swapped(rocm: &Rocm, program: &Path, kernels: &Path) -> Result<()> {
    const VARIANTS: [Variant; 4] = [
        variant("without", emulated),
        variant("no cache", watched),
        variant("none fits", |command| with_cache(command, OTHERS)),
        variant("swapped", |command| with_cache(command, REPLACEMENTS)),
    ];
    const OTHERS: &str = "others";
    const REPLACEMENTS: &str = "replacements";
    fn with_cache(command: &mut Command, name: &str) {
        watched(command);
        command.env("LOGDUR_KERNEL_CACHE", caches().join(name)).env("XDG_CACHE_HOME", caches());
    }
    fn caches() -> PathBuf {
        shell::cache().join("bench-caches")
    }
    let source = |name: &str| shell::root().join("tests/programs").join(name);
    demo::code_object(rocm, &source("throughput.hip"), "-O2", &caches().join(OTHERS))?;
    demo::code_object(rocm, &source("kernels.hip"), "-O1", &caches().join(REPLACEMENTS))?;
    let title = "a held queue, one producer, packet by packet, with a kernel cache";
    table(title, ["ns a packet", "p99 ns"], &VARIANTS, REPEATS, |variant| {
        let mut command = Command::new(program);
        (variant.command)(command.args(["held", "1", "1", "11"]).env("TEST_KERNELS", kernels));
        parsed(&shell::output(&mut command)?)
    })
}

fn numbers<const N: usize>(program: &Path, arguments: &[&str], variant: &Variant) -> Result<[f64; N]> {
    let mut command = Command::new(program);
    (variant.command)(command.args(arguments));
    parsed(&shell::output(&mut command)?)
}
