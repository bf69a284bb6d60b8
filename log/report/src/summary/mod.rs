//! Totals of rows: by kernel or something else, and of each GPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;

use serde::Serialize;

use crate::busy::{Busy, Usage};
use crate::durations::{Durations, Statistics};
use crate::gpus::{Gpu, Gpus};
use crate::rows::{Kind, Line, Log, Process, ReadError, Row};
use crate::twins::{Names, Shown, merged};

/// The most shapes that a group lists.
pub const MOST_SHAPES: usize = 64;

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kernel's name.
    Kernel,
    /// The kernel's name, the grid and the workgroup.
    Shape,
    /// The GPU and the queue.
    Queue,
    /// The GPU.
    Gpu,
    /// The process.
    Process,
    /// The rank of a parallel job; the process, where it has none.
    Rank,
    /// The process, the kernel's name and the place that it was launched from.
    Site,
    /// The file.
    Log,
}

/// Work-items of a grid and of a workgroup.
pub type Shape = ([u32; 3], [u32; 3]);

/// What the rows of a group have in common; empty or zero where they are not grouped by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    /// Its number among the names: of kernels, or of logs.
    name: usize,
    shape: Shape,
    /// Place among the GPUs.
    gpu: usize,
    queue: u64,
    process: Process,
    site: Option<u64>,
}

#[derive(Debug, Default)]
struct Gathered {
    calls: u64,
    replaced: u64,
    shapes: BTreeSet<Shape>,
    durations: Durations,
}

impl Gathered {
    fn merge(&mut self, other: Gathered) {
        self.calls += other.calls;
        self.replaced += other.replaced;
        self.shapes.extend(other.shapes);
        while self.shapes.len() > MOST_SHAPES {
            self.shapes.pop_last();
        }
        self.durations.merge(other.durations);
    }
}

/// What ran on a GPU.
#[derive(Debug, Default)]
struct Ran {
    calls: u64,
    busy: Busy,
    /// From the doorbell to the start.
    delays: Durations,
}

/// Copies from somewhere to somewhere.
#[derive(Debug, Default)]
struct Copied {
    calls: u64,
    bytes: u64,
    /// Bytes of those that have times.
    timed_bytes: u64,
    durations: Durations,
}

/// Ranges of one name.
#[derive(Debug, Default)]
struct Ranges {
    calls: u64,
    durations: Durations,
}

/// Adds rows up.
#[derive(Debug)]
pub struct Summary {
    by: By,
    /// Of kernels, or of logs.
    names: Names,
    groups: HashMap<Key, Gathered>,
    gpus: Gpus,
    /// By place among the GPUs.
    ran: Vec<Ran>,
    copies: BTreeMap<String, Copied>,
    ranges: BTreeMap<String, Ranges>,
    /// Return addresses of places, by process and number.
    sites: HashMap<(u64, u64), Vec<String>>,
    rows: Rows,
    /// Counters of the accounts at the end of logs.
    accounts: BTreeMap<String, u64>,
}

/// How many rows there were, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rows {
    /// All of them.
    pub rows: u64,
    /// Those without start or end: they count as calls, and add no time.
    pub without_times: u64,
    /// Those that end before they start: they count as calls, and add no time.
    pub reversed: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// The first of them: file, line and reason.
    pub first_unreadable: Option<String>,
    /// Rows that the accounts of the logs have and the logs have not.
    pub missing: u64,
}

/// Rows that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The kernel or the log; `None` if rows are grouped by something else. Of kernels of one process that share a name, it has the
    /// code object in brackets.
    pub name: Option<String>,
    /// The code object of such a kernel, as the log calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The GPU's number among [`Totals::gpus`].
    pub agent: Option<u64>,
    /// The runtime's number of the queue.
    pub queue: Option<u64>,
    /// The number of the process.
    pub pid: Option<u64>,
    /// Its rank in a parallel job.
    pub rank: Option<u64>,
    /// The number of the place that the kernel was launched from, in its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// Its return addresses, the innermost first, if the log has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// Dispatches.
    pub calls: u64,
    /// Those for which another kernel ran.
    pub replaced: u64,
    /// Different pairs of grid and workgroup, at most [`MOST_SHAPES`].
    pub shapes: Vec<Shape>,
    /// Part of the sum of all durations, from 0 to 1.
    pub share: f64,
    /// Of those that have times, in nanoseconds.
    #[serde(flatten)]
    pub durations: Nanoseconds,
}

/// [`Statistics`] as JSON and CSV name them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "they are those of `Statistics`")]
pub struct Nanoseconds {
    pub timed: u64,
    pub total_ns: u64,
    pub mean_ns: f64,
    pub median_ns: f64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub p95_ns: u64,
    pub stddev_ns: f64,
}

/// A GPU's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuTime {
    /// Its position; its place in the list, if two processes number different GPUs alike.
    pub agent: u64,
    /// Its name and its product's; empty if the log does not say.
    pub name: String,
    /// Its number for life; empty if the log does not say.
    pub uuid: String,
    /// Its place on the bus; empty if the log does not say.
    pub bdf: String,
    /// Dispatches.
    pub calls: u64,
    /// From the first start to the last end.
    pub span_ns: u64,
    /// When at least one kernel ran.
    pub busy_ns: u64,
    /// Times between kernels.
    pub gaps: u64,
    /// Their sum.
    pub idle_ns: u64,
    /// The longest.
    pub longest_gap_ns: u64,
    /// Kernels that ran at once, on average of the time in which some did.
    pub concurrency: f64,
    /// From doorbell to start: the median; `None` where no row has the time of its doorbell.
    pub delay_median_ns: Option<f64>,
    /// The 95th percentile of the same.
    pub delay_p95_ns: Option<u64>,
}

/// Copies from somewhere to somewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyGroup {
    /// As rows name them.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes in a second, of those that have times; 0 if none has.
    pub bytes_per_second: f64,
    /// Of those that have times, in nanoseconds.
    #[serde(flatten)]
    pub durations: Nanoseconds,
}

/// Ranges of one name that the application marked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeGroup {
    /// Its text.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// Of those that have times, in nanoseconds.
    #[serde(flatten)]
    pub durations: Nanoseconds,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Longest first.
    pub groups: Vec<Group>,
    /// By number.
    pub gpus: Vec<GpuTime>,
    /// By name.
    pub copies: Vec<CopyGroup>,
    /// Longest first.
    pub ranges: Vec<RangeGroup>,
    /// How many rows there were.
    #[serde(flatten)]
    pub rows: Rows,
    /// What the processes say became of their dispatches, added up: `seen`, `logged` and others.
    pub accounts: BTreeMap<String, u64>,
}

impl Summary {
    /// Of no rows yet.
    pub fn new(by: By) -> Summary {
        Summary {
            by,
            names: Names::default(),
            groups: HashMap::new(),
            gpus: Gpus::default(),
            ran: Vec::new(),
            copies: BTreeMap::new(),
            ranges: BTreeMap::new(),
            sites: HashMap::new(),
            rows: Rows::default(),
            accounts: BTreeMap::new(),
        }
    }

    /// The GPUs of the rows so far.
    pub fn gpus(&self) -> &Gpus {
        &self.gpus
    }

    /// Adds the lines of a log; `also` sees each row, and its GPU's place among [`gpus`](Self::gpus).
    ///
    /// # Errors
    /// When the file cannot be read, or is no log.
    pub fn read<R: BufRead>(
        &mut self,
        name: &str,
        log: &mut Log<R>,
        mut also: impl FnMut(&Row<'_>, usize),
    ) -> Result<(), ReadError> {
        self.gpus.begin();
        loop {
            let number = log.number() + 1;
            match log.next_line()? {
                None => {
                    self.gpus.end();
                    self.rows.missing = self.rows.missing.saturating_add(log.missing());
                    return Ok(());
                }
                Some(Line::Row(row)) => {
                    let gpu = self.gpus.of(row.process.pid, row.agent);
                    also(&row, gpu);
                    self.add(name, &row, gpu);
                }
                Some(Line::Agent { position, name, device }) => self.gpus.learn(position, name, device.as_ref()),
                Some(Line::Account(counters)) => {
                    for (name, count) in counters.into_iter().filter(|(name, _)| name != "pid") {
                        let sum = self.accounts.entry(name).or_default();
                        *sum = sum.saturating_add(count);
                    }
                }
                Some(Line::Site { number, pid, frames }) => _ = self.sites.insert((pid, number), frames),
                Some(Line::Run { .. } | Line::Clocks { .. } | Line::Other) => {}
                Some(Line::Unreadable(why)) => {
                    self.rows.unreadable += 1;
                    self.rows.first_unreadable.get_or_insert_with(|| format!("{name}:{number}: {why}"));
                }
            }
        }
    }

    /// Adds a range that the application marked.
    fn add_range(&mut self, row: &Row<'_>) {
        self.rows.rows += 1;
        let ranges = self.ranges.entry(row.kernel.clone().into_owned()).or_default();
        ranges.calls += 1;
        match row.times.map(|(start, end)| end.checked_sub(start)) {
            None => self.rows.without_times += 1,
            Some(None) => self.rows.reversed += 1,
            Some(Some(duration)) => ranges.durations.add(duration),
        }
    }

    /// Adds a copy.
    fn add_copy(&mut self, row: &Row<'_>, bytes: u64) {
        self.rows.rows += 1;
        let copies = self.copies.entry(row.kernel.clone().into_owned()).or_default();
        copies.calls += 1;
        copies.bytes = copies.bytes.saturating_add(bytes);
        match row.times.map(|(start, end)| end.checked_sub(start)) {
            None => self.rows.without_times += 1,
            Some(None) => self.rows.reversed += 1,
            Some(Some(duration)) => {
                copies.timed_bytes = copies.timed_bytes.saturating_add(bytes);
                copies.durations.add(duration);
            }
        }
    }

    fn add(&mut self, log: &str, row: &Row<'_>, gpu: usize) {
        match row.kind {
            Kind::Dispatch => {}
            Kind::Copy { bytes } => return self.add_copy(row, bytes),
            Kind::Range => return self.add_range(row),
            // It takes no time.
            Kind::Mark => return self.rows.rows += 1,
        }
        let shape = (row.grid, row.workgroup);
        let kernel = |names: &mut Names| names.number(&row.kernel, &row.code, row.process);
        let key = match self.by {
            By::Kernel => Key { name: kernel(&mut self.names), ..Key::default() },
            By::Shape => Key { name: kernel(&mut self.names), shape, ..Key::default() },
            // Each process numbers its queues.
            By::Queue => Key { gpu, queue: row.queue, process: row.process, ..Key::default() },
            By::Gpu => Key { gpu, ..Key::default() },
            By::Process => Key { process: row.process, ..Key::default() },
            By::Rank => Key { process: row.process.rank_alone(), ..Key::default() },
            By::Site => Key { name: kernel(&mut self.names), process: row.process, site: row.site, ..Key::default() },
            By::Log => Key { name: self.names.number(log, "", Process::default()), ..Key::default() },
        };
        let group = self.groups.entry(key).or_default();
        if self.ran.len() <= gpu {
            self.ran.resize_with(gpu + 1, Ran::default);
        }
        let gpu = &mut self.ran[gpu];
        self.rows.rows += 1;
        (group.calls, gpu.calls) = (group.calls + 1, gpu.calls + 1);
        group.replaced += u64::from(row.replaced);
        let is_known = shape != Shape::default();
        if is_known && group.shapes.len() < MOST_SHAPES && !group.shapes.contains(&shape) {
            group.shapes.insert(shape);
        }
        let Some((start, end)) = row.times else {
            self.rows.without_times += 1;
            return;
        };
        let Some(duration) = end.checked_sub(start) else {
            self.rows.reversed += 1;
            return;
        };
        group.durations.add(duration);
        gpu.busy.add(start, end);
        if let Some(delay) = row.dispatch.and_then(|dispatch| start.checked_sub(dispatch)) {
            gpu.delays.add(delay);
        }
    }

    /// Merges groups of kernels that nothing tells apart; the names.
    fn merge(&mut self) -> Vec<Shown> {
        let (names, places) = merged(self.names.shown());
        if names.len() < places.len() {
            for (key, gathered) in std::mem::take(&mut self.groups) {
                let name = places.get(key.name).copied().unwrap_or(key.name);
                self.groups.entry(Key { name, ..key }).or_default().merge(gathered);
            }
        }
        names
    }

    /// What it comes to.
    pub fn totals(mut self) -> Totals {
        let names = self.merge();
        let statistics: Vec<_> =
            self.groups.iter_mut().map(|(key, group)| (key.clone(), group.durations.statistics())).collect();
        let numbers: Vec<u64> = self.gpus.numbered().into_iter().map(|(number, _)| number).collect();
        let sum: u64 = statistics.iter().fold(0, |sum, (_, s)| sum.saturating_add(s.total));
        let mut groups: Vec<Group> = statistics
            .into_iter()
            .filter_map(|(key, statistics)| {
                let group = self.groups.remove(&key)?;
                let by_agent = matches!(self.by, By::Queue | By::Gpu);
                let is_named = !by_agent && !matches!(self.by, By::Process | By::Rank);
                Some(Group {
                    name: names.get(key.name).filter(|_| is_named).map(|shown| shown.name.clone()),
                    code: names.get(key.name).filter(|_| is_named).and_then(|shown| shown.code.clone()),
                    agent: numbers.get(key.gpu).copied().filter(|_| by_agent),
                    queue: (self.by == By::Queue).then_some(key.queue),
                    pid: key.process.pid,
                    rank: key.process.rank,
                    site: key.site,
                    stack: key.process.pid.zip(key.site).and_then(|place| self.sites.get(&place).cloned()),
                    calls: group.calls,
                    replaced: group.replaced,
                    shapes: group.shapes.into_iter().collect(),
                    share: if sum == 0 { 0.0 } else { statistics.total as f64 / sum as f64 },
                    durations: statistics.into(),
                })
            })
            .collect();
        groups.sort_by(|a, b| {
            let by_time = b.durations.total_ns.cmp(&a.durations.total_ns);
            by_time.then_with(|| a.order().cmp(&b.order()))
        });
        let ran = self.ran.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let gpus = self.gpus.numbered().into_iter().zip(ran);
        let mut gpus: Vec<GpuTime> =
            gpus.map(|((number, gpu), ran)| ran.unwrap_or_default().time(number, gpu)).collect();
        gpus.sort_by_key(|gpu| gpu.agent);
        let copies = self.copies.into_iter().map(|(name, copies)| copies.group(name)).collect();
        let ranges = self.ranges.into_iter().map(|(name, mut ranges)| RangeGroup {
            name,
            calls: ranges.calls,
            durations: ranges.durations.statistics().into(),
        });
        let mut ranges: Vec<RangeGroup> = ranges.collect();
        ranges.sort_by_key(|group| Reverse(group.durations.total_ns));
        Totals { groups, gpus, copies, ranges, rows: self.rows, accounts: self.accounts }
    }
}

impl Group {
    /// What groups of equal time are sorted by.
    fn order(&self) -> impl Ord + '_ {
        (&self.name, self.agent, self.queue, self.rank, self.pid, self.site, &self.shapes)
    }
}

impl Copied {
    fn group(mut self, name: String) -> CopyGroup {
        let durations: Nanoseconds = self.durations.statistics().into();
        let seconds = durations.total_ns as f64 / 1e9;
        let bytes_per_second = if seconds == 0.0 { 0.0 } else { self.timed_bytes as f64 / seconds };
        CopyGroup { name, calls: self.calls, bytes: self.bytes, bytes_per_second, durations }
    }
}

impl Ran {
    fn time(mut self, agent: u64, gpu: &Gpu) -> GpuTime {
        let Usage { span, busy, sum, gaps, longest_gap } = self.busy.usage();
        let delays = Some(self.delays.statistics()).filter(|delays| delays.count > 0);
        GpuTime {
            agent,
            name: gpu.name.clone(),
            uuid: gpu.uuid.clone(),
            bdf: gpu.bdf.clone(),
            calls: self.calls,
            span_ns: span,
            busy_ns: busy,
            gaps,
            idle_ns: span - busy,
            longest_gap_ns: longest_gap,
            concurrency: if busy == 0 { 0.0 } else { sum as f64 / busy as f64 },
            delay_median_ns: delays.map(|delays| delays.median),
            delay_p95_ns: delays.map(|delays| delays.p95),
        }
    }
}

impl From<Statistics> for Nanoseconds {
    fn from(s: Statistics) -> Nanoseconds {
        Nanoseconds {
            timed: s.count,
            total_ns: s.total,
            mean_ns: s.mean,
            median_ns: s.median,
            min_ns: s.min,
            max_ns: s.max,
            p95_ns: s.p95,
            stddev_ns: s.stddev,
        }
    }
}

#[cfg(test)]
mod tests;
