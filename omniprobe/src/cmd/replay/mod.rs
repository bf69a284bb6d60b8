//! `omniprobe replay` and `omniprobe verify`: captured dispatches, alone and again.
//!
//! Each dispatch runs in a process of its own, which is this program with two more options.

mod show;

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use logdur_replay::verify::Rule;
use logdur_replay::{Case, Exit, Geometry, Replacement};

use super::captured::{self, Captured};
use super::{lines, progress};
use crate::environment::Environment;
use crate::{PlaceOptions, find};

/// Repetitions that are compared, unless something else is asked for: fewer do not show what is not deterministic.
const COMPARED: u32 = 3;

/// How dispatches are replayed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    place: PlaceOptions,
    /// How often each is run.
    #[arg(short, long, value_name = "N", default_value_t = COMPARED, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Do not compare what is written.
    #[arg(long)]
    no_verify: bool,
    /// What a buffer's elements are and what is near enough, like `out=f16:rel=1e-2,abs=1e-6,ulp=4`; may be given several
    /// times.
    #[arg(long, value_name = "NAME=TYPE[:LIMITS]")]
    tol: Vec<Rule>,
    /// Another grid, in work-items.
    #[arg(long, value_name = "X,Y,Z", value_parser = shape)]
    grid: Option<Shape>,
    /// Another workgroup, in work-items.
    #[arg(long, value_name = "X,Y,Z", value_parser = shape)]
    workgroup: Option<Shape>,
    /// The position of the GPU; by default the first like the captured one.
    #[arg(long, value_name = "N")]
    device: Option<usize>,
    /// Run the kernel of a file instead: for a code object's hash, a kernel's name, or all; may be given several times.
    #[arg(long, value_name = "HASH|NAME|all=PATH")]
    hsaco: Vec<Replacement>,
    /// Run the kernels of this folder instead, where they fit; may be given several times.
    #[arg(long, value_name = "DIR")]
    cache: Vec<PathBuf>,
    /// How many seconds a repetition may take; by default 1000 times the application's, and 10 at least.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How often other layouts of addresses are tried.
    #[arg(long, value_name = "N", default_value_t = 8)]
    place_retries: u32,
    /// Write what the first repetition left in each buffer that it changed.
    #[arg(long, value_name = "DIR")]
    save_output: Option<PathBuf>,
    /// A PASS that is qualified is none.
    #[arg(long)]
    strict: bool,
    /// A JSON object for each dispatch, one a line.
    #[arg(long)]
    json: bool,
    /// Every repetition is compared, not only the first.
    #[arg(skip)]
    compare_all: bool,
    /// The dispatch that this process runs.
    #[arg(long, hide = true)]
    worker: Option<u64>,
    /// How often its placement has failed.
    #[arg(long, hide = true, default_value_t = 0)]
    attempt: u32,
}

impl Options {
    /// The same for `verify`, which compares every repetition.
    pub(crate) fn verifying(self) -> Options {
        Options { no_verify: false, compare_all: true, ..self }
    }
}

/// A size in three dimensions.
type Shape = [u32; 3];

fn shape(text: &str) -> Result<Shape, String> {
    let refuse = || format!("expected one to three numbers, found {text:?}");
    let mut shape = [1; 3];
    let mut numbers = text.split(',');
    for (to, number) in shape.iter_mut().zip(&mut numbers) {
        *to = number.parse().map_err(|_| refuse())?;
    }
    if numbers.next().is_some() { Err(refuse()) } else { Ok(shape) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let refuse = || format!("expected a number of seconds, found {text:?}");
    text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(refuse)
}

/// Replays dispatches.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    if let Some(dispatch) = options.worker {
        work(options, dispatch);
    }
    let reader = options.captured.open()?;
    let mut environment = Environment::default();
    environment.place(&options.place, None)?;
    let mut status = Exit::Success as u8;
    let dispatches = options.captured.dispatches(&reader)?;
    let bar = progress::bar("{pos} of {len} dispatches", dispatches.len() as u64)?;
    for dispatch in dispatches {
        bar.tick();
        let mut ended = Exit::Placement as u8;
        for attempt in 0..=options.place_retries {
            ended = start(options, &environment, dispatch.id, attempt, &bar)?;
            if ended != Exit::Placement as u8 {
                break;
            }
        }
        bar.inc(1);
        if status == Exit::Success as u8 {
            status = ended;
        }
    }
    bar.finish_and_clear();
    // Statuses of workers are passed on as they are.
    std::process::exit(status.into())
}

/// Runs a dispatch in a process of its own; its status.
fn start(options: &Options, environment: &Environment, dispatch: u64, attempt: u32, bar: &ProgressBar) -> Result<u8> {
    let program = std::env::current_exe().context("where this program is")?;
    let loader = options.place.rocm.as_deref().map(find::loader).transpose()?.flatten();
    let loader = loader.as_ref().map(|(loader, libraries)| (loader.as_path(), libraries.as_os_str()));
    let mut command: Command = logdur_replay::worker(&program, loader, attempt);
    command.args(std::env::args_os().skip(1)).args([format!("--worker={dispatch}"), format!("--attempt={attempt}")]);
    command.envs(environment.iter());
    let starting = "starting the process of a dispatch";
    let ended = if bar.is_hidden() {
        command.status().context(starting)?
    } else {
        // What it says must not be written into the bar.
        let output = command.stdin(Stdio::inherit()).output().context(starting)?;
        bar.suspend(|| {
            io::stdout().write_all(&output.stdout)?;
            io::stderr().write_all(&output.stderr)
        })
        .context("writing what the process of a dispatch said")?;
        output.status
    };
    if let Some(signal) = ended.signal() {
        eprintln!("omniprobe: dispatch {dispatch}: the process of the replay was ended by signal {signal}");
        return Ok(Exit::Fault as u8);
    }
    Ok(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Environment as u8))
}

/// Replays a dispatch in this process and ends it.
fn work(options: &Options, dispatch: u64) -> ! {
    let status = match replay(options, dispatch) {
        Ok(status) => status,
        Err(error) => {
            let status = captured::status(&error);
            // Another layout of addresses is tried; of the last one it is said what was in the way.
            if status != Exit::Placement || options.attempt == options.place_retries {
                if options.json {
                    let said = show::error(dispatch, &error, status).to_string();
                    // Whoever does not listen has the status.
                    let _ = lines([said]);
                }
                eprintln!("omniprobe: dispatch {dispatch}: {error:#}");
            }
            status
        }
    };
    logdur_replay::leave(status as u8)
}

fn replay(options: &Options, dispatch: u64) -> Result<Exit> {
    let reader = options.captured.open()?;
    let found = reader.dispatches().iter().find(|d| d.id == dispatch);
    let case = Case::of(&reader, found.context("the dispatch is no longer there")?)?;
    let mut replacements = options.hsaco.clone();
    if !options.cache.is_empty() {
        replacements.push(Replacement::Cache(options.cache.clone()));
    }
    let how = logdur_replay::Options {
        repetitions: options.repetitions,
        verified: match options.no_verify {
            true => 0,
            false if options.compare_all => options.repetitions,
            false => options.repetitions.min(COMPARED),
        },
        device: options.device,
        limit: options.timeout,
        geometry: Geometry { grid: options.grid, workgroup: options.workgroup },
        rules: options.tol.clone(),
        replacements,
        save: options.save_output.clone(),
    };
    let report = logdur_replay::replay(&case, &how)?;
    let status = report.exit(options.strict);
    if options.json {
        lines([show::json(&report, options.attempt, status).to_string()])?;
    } else {
        lines(show::text(&report, options.attempt))?;
    }
    Ok(status)
}
