//! `omniprobe top`: what kernels of running processes take, again and again.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use logdur_system::signals::{Blocked, SignalSet};
use omniprobe_exit::Exit;

use super::attach::{ENDS, attach, seconds};
use super::summary::width;
use crate::attached::ProcessArgs;
use crate::output::{bytes, lines};

/// Brings the cursor of a terminal to its first place, and erases what is behind it. Source: ECMA-48, CUP and ED.
const ANEW: &[u8] = b"\x1b[H\x1b[J";

/// Which processes, and how often.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    processes: ProcessArgs,
    /// Seconds between two tables.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// End after so many tables [default: at Ctrl-C, or when the processes have ended].
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Print an object of JSON for each table.
    #[arg(long)]
    json: bool,
}

/// Shows it. Rows are on meanwhile, and are written where the processes write them.
///
/// # Errors
/// When a process cannot be controlled.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut processes = options.processes.connect()?;
    let signals: SignalSet = ENDS.into_iter().collect();
    let _blocked = Blocked::these(&signals);
    let mut before = attach(&mut processes, Vec::new(), |_| {})?;
    let is_terminal = io::stdout().is_terminal() && !options.json;
    for _ in 0..options.count.unwrap_or(u32::MAX) {
        if signals.wait_for(options.interval).is_some() {
            break;
        }
        let mut now = before.clone();
        now.refresh(&mut processes)?;
        if is_terminal {
            bytes(ANEW)?;
        }
        lines(now.since(&before).shown(options.json, width(&io::stdout())))?;
        if processes.is_empty() {
            break;
        }
        before = now;
    }
    Ok(Exit::Success)
}
