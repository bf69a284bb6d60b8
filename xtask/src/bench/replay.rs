//! `cargo xtask bench replay`: what trials of a captured dispatch cost: putting memory back, verified replays, a search, and a
//! kernel that does not end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::median;
use crate::{demo, dist, setup, shell};

/// Memory of which a hundredth is changed, in MiB.
const MIB: &str = "256";
/// Interleaved measurements of each.
const REPEATS: usize = 5;
/// Runs of each measurement.
const RUNS: &str = "20";
/// Replays of the same configuration, in two searches: the difference is what replays cost, without a process's start.
const REPLAYS: [u32; 2] = [100, 2100];
/// Seconds that a kernel may take which does not end.
const WATCHDOG: f64 = 1.0;

/// Where tools are run: a GPU under the runtime, or the emulated one alone.
const WHERE: [(&str, &[&str]); 2] =
    [("HSA runtime, emulated GPU", &["--emulate", "gfx90a"]), ("emulated GPU alone", &["--backend", "emu"])];

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let programs = shell::root().join("tests/programs");
    let folder = shell::cache().join("bench-replay");
    std::fs::create_dir_all(&folder)?;
    let share = demo::compile(&rocm, &programs.join("share.hip"))?;
    let app = demo::compile(&rocm, &shell::root().join("docs/example/app.hip"))?;
    restoring(&folder, &share)?;
    let small = capture(&folder.join("app.ldcap"), "smooth", &app, &[])?;
    replays(&folder, &small)?;
    search(&folder, &small)?;
    hung(&folder, &rocm, &programs)
}

/// Captures the kernels of a name that a program dispatches.
fn capture(file: &Path, kernel: &str, program: &Path, arguments: &[&str]) -> Result<PathBuf> {
    // A file of an earlier run.
    let _ = std::fs::remove_file(file);
    let mut command = Command::new(shell::built("omniprobe"));
    command.args(["--emulate", "gfx90a", "-l", "/dev/null", "--capture"]).arg(file).args(["--capture-kernels", kernel]);
    shell::output(command.arg("--").arg(program).args(arguments))?;
    Ok(file.to_owned())
}

/// What a tool says of a capture.
fn tool(name: &str, file: &Path, options: &[&str]) -> Result<Value> {
    let mut command = Command::new(shell::built("omniprobe"));
    let text = shell::output(command.arg(name).arg(file).arg("--json").args(options))?;
    serde_json::from_str(text.trim()).with_context(|| format!("what omniprobe {name} says: {text}"))
}

/// Putting back what was changed, beside putting back everything.
fn restoring(folder: &Path, share: &Path) -> Result<()> {
    println!("\na hundredth of {MIB} MiB is changed, and put back");
    println!("{:<28} {:<10} {:>12} {:>12} {:>8}", "", "pages", "changed ms", "all ms", "ratio");
    for pages in ["together", "apart"] {
        let file = capture(&folder.join(format!("{pages}.ldcap")), "change", share, &[MIB, pages])?;
        for (place, options) in WHERE {
            let mut samples = [Vec::new(), Vec::new()];
            for _ in 0..REPEATS {
                for (what, samples) in ["dirty", "full"].into_iter().zip(&mut samples) {
                    let options = [options, &["--restore", what, "-r", RUNS]].concat();
                    let said = tool("bench", &file, &options)?;
                    samples.push(said["restore_ns"].as_f64().context("no restore_ns")? / 1e6);
                }
            }
            let [dirty, full] = samples.map(|samples| median(samples.into_iter()));
            println!("{place:<28} {pages:<10} {dirty:>12.3} {full:>12.3} {:>8.1}", full / dirty);
        }
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// Seconds that a search takes; each begins anew.
fn tuned(folder: &Path, file: &Path, options: &[&str]) -> Result<(f64, Value)> {
    let found = folder.join("found");
    // Of an earlier search.
    let _ = std::fs::remove_dir_all(&found);
    let found = found.to_str().context("a folder's name")?;
    let began = Instant::now();
    let said = tool("tune", file, &[&["-o", found], options].concat())?;
    Ok((began.elapsed().as_secs_f64(), said))
}

/// Verified replays a second, in one process.
fn replays(folder: &Path, file: &Path) -> Result<()> {
    println!("\nverified replays of a small kernel, in one process");
    println!("{:<28} {:>12}", "", "a second");
    for (place, options) in WHERE {
        let mut rates = Vec::new();
        for _ in 0..REPEATS {
            let mut seconds = [0.0; 2];
            for (count, seconds) in REPLAYS.iter().zip(&mut seconds) {
                let count = count.to_string();
                // The last one of a search is measured to its end.
                let search = ["--workgroup", "256", "--first", &count, "-r", &count, "--no-halving"];
                *seconds = tuned(folder, file, &[options, &search].concat())?.0;
            }
            rates.push(f64::from(REPLAYS[1] - REPLAYS[0]) / (seconds[1] - seconds[0]));
        }
        println!("{place:<28} {:>12.0}", median(rates.into_iter()));
    }
    Ok(())
}

/// The 80 configurations of 7 repetitions that Mneme's documentation has (`docs/usage/tune.md`: 7.09 s on its authors' machine).
fn search(folder: &Path, file: &Path) -> Result<()> {
    println!("\n80 configurations, 7 repetitions each, from the command's start to its end");
    println!("{:<28} {:>12} {:>12} {:>20}", "", "seconds", "measured", "Mneme's docs' 7.09 s");
    let grids = "n=1280..21248:256";
    for (place, options) in WHERE {
        let (mut all, mut measured) = (Vec::new(), Value::Null);
        for _ in 0..REPEATS {
            let search = ["--param", grids, "--grid", "{n}", "--first", "7", "-r", "7", "--no-halving"];
            let (seconds, said) = tuned(folder, file, &[options, &search].concat())?;
            measured = said["results"]["measured"].clone();
            all.push(seconds);
        }
        let seconds = median(all.into_iter());
        println!("{place:<28} {seconds:>12.2} {measured:>12} {:>20.1}", 7.09 / seconds);
    }
    Ok(())
}

/// What a kernel that does not end costs a search, beside its watchdog.
fn hung(folder: &Path, rocm: &setup::Rocm, programs: &Path) -> Result<()> {
    let spins = demo::compile(rocm, &programs.join("spins.hip"))?;
    let file = capture(&folder.join("spins.ldcap"), "spin", &spins, &[])?;
    println!("\na configuration that does not end, with a watchdog of {WATCHDOG} s");
    println!("{:<28} {:>12} {:>12} {:>12} {:>12}", "", "without s", "with it s", "its cost s", "hung");
    let limit = WATCHDOG.to_string();
    for (place, options) in WHERE {
        let mut samples = [Vec::new(), Vec::new()];
        let mut hung = Value::Null;
        for _ in 0..REPEATS {
            for (grids, samples) in ["n=64,128", "n=64,128,192"].into_iter().zip(&mut samples) {
                let search = ["--param", grids, "--grid", "{n}", "--timeout", &limit, "-r", "7", "--no-halving"];
                let (seconds, said) = tuned(folder, &file, &[options, &search].concat())?;
                samples.push(seconds);
                hung = said["results"]["hang"].clone();
            }
        }
        if hung != 1 {
            bail!("expected one configuration that hangs, found {hung}");
        }
        let [without, with] = samples.map(|samples| median(samples.into_iter()));
        println!("{place:<28} {without:>12.2} {with:>12.2} {:>12.2} {hung:>12}", with - without);
    }
    Ok(())
}
