//! `omniprobe trace LOG... -o FILE`: a timeline for ui.perfetto.dev or Chrome.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use logdur_report::timeline::Timeline;
use logdur_report::wall::to_wall;
use logdur_report::{chrome, perfetto};
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use crate::input::{self, Position, Which, Wholeness};
use crate::output::{file, tell};

/// Which logs, and where the timeline goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; `-` is the standard input.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// The file: NAME.pftrace for ui.perfetto.dev, NAME.json for Chrome's trace viewer.
    #[arg(short, long, value_name = "FILE", value_parser = output)]
    output: PathBuf,
    /// The clock of the times: `gpu`, the runtime's as in the log, or `wall`, nanoseconds since 1970.
    #[arg(long, value_enum, value_name = "CLOCK", default_value = "gpu")]
    clock: Clock,
}

/// What times are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Clock {
    /// The runtime's system clock.
    Gpu,
    /// The time of day.
    Wall,
}

/// How a timeline is written.
#[derive(Clone, Copy)]
enum Format {
    Perfetto,
    Chrome,
}

fn format(path: &Path) -> Option<Format> {
    match path.extension().and_then(OsStr::to_str)? {
        "pftrace" | "perfetto-trace" => Some(Format::Perfetto),
        "json" => Some(Format::Chrome),
        _ => None,
    }
}

/// A path whose name says how the timeline is written.
pub(crate) fn output(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    format(&path).map(|_| path).ok_or_else(|| "expected a name that ends with .pftrace or .json".to_owned())
}

/// Writes the timeline of logs.
///
/// # Errors
/// When a file cannot be read or written, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let logs = options.which.of_all(input::logs(&options.logs)?)?;
    write(&logs, &options.output, options.clock)
}

/// Writes the timeline of what logs have from some byte on.
///
/// # Errors
/// As above.
pub(crate) fn write(logs: &[Position], output: &Path, clock: Clock) -> Result<Exit> {
    let made = Output::begin(output, Readers::Those, &input::paths(logs))?;
    let mut timeline = Timeline::default();
    let mut whole = Wholeness::default();
    for log in logs {
        whole.read(log, |name, log| timeline.read(name, log))?;
    }
    let mut tracks = timeline.tracks();
    if timeline.without_times + timeline.unreadable > 0 {
        tell(format_args!(
            "{} rows without times and {} lines that are no rows are not in the timeline",
            timeline.without_times, timeline.unreadable
        ));
    }
    let slices: usize = tracks.iter().map(|track| track.slices.len()).sum();
    if slices == 0 {
        if timeline.without_times > 0 {
            tell(format_args!("no row with times, no timeline: {}", file(output)));
            return Ok(whole.status(Exit::NothingToCompare));
        }
        return Ok(whole.status(input::nothing(logs)));
    }
    if clock == Clock::Wall {
        to_wall(&mut tracks, &timeline.logs, &timeline.clocks)?;
    }
    let context = || format!("writing {}", output.display());
    let mut to = BufWriter::new(made.file());
    match format(output) {
        Some(Format::Chrome) => chrome::write(&timeline, &tracks, clock == Clock::Wall, &mut to),
        _ => perfetto::write(&timeline, &tracks, &mut to),
    }
    .with_context(context)?;
    to.flush().with_context(context)?;
    drop(to);
    made.finish()?;
    tell(format_args!("{}: {slices} rows on {} tracks", output.display(), tracks.len()));
    Ok(whole.status(Exit::Success))
}
