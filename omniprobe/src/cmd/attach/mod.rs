//! `omniprobe attach`: turns rows and features of running processes on and off.

mod status;
mod totals;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use logdur_settings::{Feature, Request, Turn};
use logdur_system::signals::{Blocked, SignalSet};
use omniprobe_exit::Exit;

use crate::attached::{Attached, ProcessArgs, ask_each};
use crate::output::{lines, tell};

use status::Status;
use totals::Totals;

/// The signals that detach.
pub(super) const ENDS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// How often the processes are asked.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Which processes, and what is turned.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    processes: ProcessArgs,
    /// Turn these on, besides rows: capture, instrument, swap.
    #[arg(short, long, value_name = "FEATURE[,FEATURE...]", value_parser = Feature::list)]
    features: Option<Features>,
    /// Detach after so many seconds [default: at Ctrl-C, or when the processes have ended].
    #[arg(short, long, value_parser = seconds, conflicts_with_all = ["on", "off", "status"])]
    seconds: Option<Duration>,
    /// Turn on, and leave it on.
    #[arg(long, conflicts_with_all = ["off", "status"])]
    on: bool,
    /// Turn off what was left on: all of it, or these features.
    #[arg(long, conflicts_with = "status")]
    off: bool,
    /// Print what is on.
    #[arg(long, conflicts_with = "features")]
    status: bool,
    /// Print objects of JSON.
    #[arg(long)]
    json: bool,
}

/// What a list of features is read into: clap takes a vector for repeated values.
type Features = Vec<Feature>;

/// A positive number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "expected a number of seconds above 0".to_owned())
}

/// Does it.
///
/// # Errors
/// When a process cannot be controlled, or refuses.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut processes = options.processes.connect()?;
    let features = options.features.clone().unwrap_or_default();
    let request = match (options.on, options.off, options.status) {
        (true, ..) => Request::Turn(Turn::On, features),
        (_, true, _) => Request::Turn(Turn::Off, features),
        (.., true) => Request::Status,
        _ => return stay(processes, features, options),
    };
    ask_each(&mut processes, &request, |pid, answers| {
        let status = Status::of(pid, answers);
        lines([if options.json { status.json().to_string() } else { status.to_string() }])
    })?;
    if processes.is_empty() {
        bail!("no process has done it");
    }
    Ok(Exit::Success)
}

/// Turns rows and features on for as long as the connections last. The totals from then on; `said` gets what is on in each process.
///
/// # Errors
/// When no process does it.
pub(super) fn attach(
    processes: &mut Vec<Attached>,
    features: Features,
    mut said: impl FnMut(Status),
) -> Result<Totals> {
    let mut totals = Totals::default();
    totals.refresh(processes)?;
    ask_each(processes, &Request::Turn(Turn::Attach, features), |pid, answers| {
        said(Status::of(pid, answers));
        Ok(())
    })?;
    if processes.is_empty() {
        bail!("attached to no process");
    }
    Ok(totals)
}

/// Attaches, waits, and prints the totals.
fn stay(mut processes: Vec<Attached>, features: Features, options: &Options) -> Result<Exit> {
    let signals: SignalSet = ENDS.into_iter().collect();
    let _blocked = Blocked::these(&signals);
    let mut totals = attach(&mut processes, features, |status| tell(format_args!("attached to {status}")))?;
    if options.seconds.is_none() {
        tell("Ctrl-C detaches");
    }
    let end = options.seconds.map(|time| Instant::now() + time);
    loop {
        let left = end.map_or(ASK_EVERY, |end| ASK_EVERY.min(end.saturating_duration_since(Instant::now())));
        let is_over = signals.wait_for(left).is_some() || end.is_some_and(|end| Instant::now() >= end);
        totals.refresh(&mut processes)?;
        if is_over || processes.is_empty() {
            break;
        }
    }
    drop(processes);
    lines(totals.shown(options.json, usize::MAX))?;
    Ok(Exit::Success)
}
