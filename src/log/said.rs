//! What is said in lines that are no rows: to readers of the log, and to `omniprobe`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use hsa::Agent;
use logdur_intercept::host_clock::ClockPair;
use logdur_journal::lines::Lines;
use logdur_settings::HelloLine;
use logdur_system::lock;
use logdur_system::text::one_line;

use super::{Log, MOST_LINES, handshake};
use crate::ports::Site;
use crate::process;

/// A line that is no row.
pub(super) enum Line {
    Notice(String),
    /// Which run this process belongs to.
    Run(String),
    /// Where the records are.
    Records(PathBuf),
    Clocks(ClockPair),
    Agent {
        position: usize,
        name: String,
        product: String,
        /// Which device it is, as [`hsa::Identity`] shows it, and the variables that chose it.
        identity: String,
    },
    /// A place that kernels are launched from.
    Site(Site),
}

impl Line {
    /// True for what a log says again that others have deleted: rows are read by it.
    pub(super) fn repeats(&self) -> bool {
        !matches!(self, Line::Notice(_))
    }

    /// Writes it.
    pub(super) fn write(self, lines: Lines, to: &mut Vec<u8>) {
        let pid = std::process::id();
        match self {
            Line::Notice(text) => lines.notice(to, &one_line(&text)),
            Line::Run(run) => lines.run(to, pid, &run),
            Line::Records(path) => lines.records(to, pid, &path),
            Line::Clocks(ClockPair { system_ns, wall_ns }) => lines.clocks(to, system_ns, wall_ns),
            Line::Agent { position, name, product, identity } => lines.agent(to, position, &name, &product, &identity),
            Line::Site(Site { number, frames }) => lines.site(to, pid.into(), number.into(), &frames),
        }
    }
}

impl Log {
    /// Hands a line to the writer without waiting. If the log cannot be written, later lines are lost and counted.
    pub(super) fn add(&self, line: Line) {
        let has_room = self.lines_waiting.fetch_add(1, Ordering::Relaxed) < MOST_LINES;
        if !has_room || self.lines.send(line).is_err() {
            self.lines_waiting.fetch_sub(1, Ordering::Relaxed);
            self.lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A line that says something to people.
    pub(crate) fn notice(&self, text: String) {
        self.add(Line::Notice(text));
        self.wake();
    }

    /// A line for `omniprobe`, which prints it on stderr when the application has ended.
    pub(crate) fn tell(&self, text: &str) {
        self.say(HelloLine::Notice(one_line(text)));
    }

    pub(super) fn say(&self, line: HelloLine) {
        if let Some(path) = &self.handshake {
            handshake::add(path, &[line]);
        }
    }

    /// Something that was asked for is off, or ends: a notice, and a line for `omniprobe`. Without `omniprobe` and a log it is said
    /// on standard error when the process ends.
    pub(crate) fn off(&self, text: String) {
        if self.handshake.is_some() {
            self.tell(&text);
        } else {
            lock(&self.off).push(text.clone());
        }
        self.notice(text);
    }

    /// A line that says what the runtime's clock is as wall time.
    pub(crate) fn clocks(&self, pair: ClockPair) {
        self.add(Line::Clocks(pair));
    }

    /// A line that names a GPU.
    pub(crate) fn agent(&self, position: usize, agent: &Agent) {
        let visible = process::visible_agents();
        // Processes that share a log number their GPUs each for itself.
        let identity = format!("{} pid={} {visible}", agent.identity, std::process::id()).trim_end().to_owned();
        self.add(Line::Agent { position, name: agent.name.clone(), product: agent.product.clone(), identity });
    }
}
