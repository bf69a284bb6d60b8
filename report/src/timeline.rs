//! Rows as slices of tracks: a track for each queue, and more for one that runs several kernels at a time; one for the copies of a
//! GPU, and one for the ranges and marks of a thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use crate::rows::{Kind, Line, Log, Process, ReadError, Row, size_text};

/// A row on a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Start and end, in nanoseconds.
    pub times: (u64, u64),
    /// When the doorbell was rung or the copy asked for, if that is known and was not later.
    pub dispatch: Option<u64>,
    /// Position among the names.
    pub kernel: u32,
    /// Position among the shapes.
    pub shape: u32,
    /// True if another kernel ran in place of the application's.
    pub replaced: bool,
    /// What it is of.
    pub kind: Kind,
}

/// What a group of tracks is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A GPU, by position.
    Gpu(u64),
    /// A process that marks ranges.
    Process(Process),
}

/// What a track is of, within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A queue, by the runtime's number.
    Queue(u64),
    /// The copies of a GPU.
    Copies,
    /// A thread, by the system's number.
    Thread(u64),
}

/// Slices in the order of their starts. Those of a thread are nested; others do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The log, by position.
    pub log: usize,
    /// The GPU or the process.
    pub owner: Owner,
    /// The queue or the thread.
    pub source: Source,
    /// 0 for the first track of a source.
    pub lane: usize,
    /// In the order of their starts.
    pub slices: Vec<Slice>,
}

/// What is shown of logs.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Kernels' names.
    pub kernels: Vec<String>,
    /// Grids and workgroups, as `4096x1x1 / 256x1x1`.
    pub shapes: Vec<String>,
    /// Logs, as they were named.
    pub logs: Vec<String>,
    /// Names of the GPUs by position, where the logs say.
    pub gpus: BTreeMap<u64, String>,
    /// Rows that have no times, or end before they start: they are not shown.
    pub without_times: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    numbers: HashMap<String, u32>,
    shape_numbers: HashMap<([u32; 3], [u32; 3]), u32>,
    sources: BTreeMap<(usize, Owner, Source), Vec<Slice>>,
}

/// A track that is being filled.
#[derive(Default)]
struct Lane {
    slices: Vec<Slice>,
    /// Ends of the slices that contain the last one, and its own.
    open: Vec<u64>,
}

impl Lane {
    /// True if a slice that does not begin before the others overlaps none of them, or lies within those that it overlaps.
    fn has_room(&mut self, (start, end): (u64, u64), is_nested: bool) -> bool {
        while self.open.last().is_some_and(|open| *open <= start) {
            self.open.pop();
        }
        self.open.last().is_none_or(|open| is_nested && end <= *open)
    }
}

impl Track {
    /// The name of the track, as people read it.
    pub fn name(&self) -> String {
        let what = match self.source {
            Source::Queue(queue) => format!("queue {queue}"),
            Source::Copies => "copies".to_owned(),
            Source::Thread(thread) => format!("thread {thread}"),
        };
        match self.lane {
            0 => what,
            lane => format!("{what} ({})", lane + 1),
        }
    }

    /// True if its slices are dispatches.
    pub(crate) fn is_of_queue(&self) -> bool {
        matches!(self.source, Source::Queue(_))
    }

    /// True for tracks of the same GPU or process.
    pub fn is_beside(&self, other: &Track) -> bool {
        (self.log, self.owner) == (other.log, other.owner)
    }
}

impl Timeline {
    /// The name of a track's GPU or process, with the log's if there are several.
    pub(crate) fn owner_name(&self, track: &Track) -> String {
        let name = match track.owner {
            Owner::Gpu(position) => {
                let product = self.gpus.get(&position).map(|name| format!(" {name}")).unwrap_or_default();
                format!("GPU {position}{product}")
            }
            Owner::Process(process) => process.name(),
        };
        let log = self.logs.get(track.log).filter(|_| self.logs.len() > 1);
        format!("{name}{}", log.map(|log| format!(", {log}")).unwrap_or_default())
    }

    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the file cannot be read, or is no log.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ReadError> {
        let number = self.begin(name);
        while let Some(line) = log.next_line()? {
            match line {
                Line::Row(row) => self.add(number, &row),
                Line::Agent { position, name } => _ = self.gpus.insert(position, name),
                Line::Unreadable(_) => self.unreadable += 1,
                Line::Account(_) | Line::Other => {}
            }
        }
        Ok(())
    }

    /// Begins a log; its number.
    pub fn begin(&mut self, name: &str) -> usize {
        self.logs.push(name.to_owned());
        self.logs.len() - 1
    }

    /// Adds a row of a log.
    pub fn add(&mut self, log: usize, row: &Row<'_>) {
        let Some((start, end)) = row.times.filter(|(start, end)| start <= end) else {
            self.without_times += 1;
            return;
        };
        let kernel = match self.numbers.get(row.kernel.as_ref()) {
            Some(number) => *number,
            None => {
                let number = self.kernels.len() as u32;
                let name = if row.kernel.is_empty() { "(unknown)".into() } else { row.kernel.clone().into_owned() };
                self.kernels.push(name);
                self.numbers.insert(row.kernel.clone().into_owned(), number);
                number
            }
        };
        let shapes = &mut self.shapes;
        let shape = *self.shape_numbers.entry((row.grid, row.workgroup)).or_insert_with(|| {
            shapes.push(format!("{} / {}", size_text(row.grid), size_text(row.workgroup)));
            shapes.len() as u32 - 1
        });
        let dispatch = row.dispatch.filter(|dispatch| *dispatch <= start);
        let slice = Slice { times: (start, end), dispatch, kernel, shape, replaced: row.replaced, kind: row.kind };
        let (owner, source) = match row.kind {
            Kind::Dispatch => (Owner::Gpu(row.agent), Source::Queue(row.queue)),
            Kind::Copy { .. } => (Owner::Gpu(row.agent), Source::Copies),
            Kind::Range { thread } | Kind::Mark { thread } => (Owner::Process(row.process), Source::Thread(thread)),
        };
        self.sources.entry((log, owner, source)).or_default().push(slice);
    }

    /// The tracks, by log, owner, source and lane. A slice goes onto the first lane that has room for it.
    pub fn tracks(&mut self) -> Vec<Track> {
        let mut all = Vec::new();
        for ((log, owner, source), mut slices) in std::mem::take(&mut self.sources) {
            // Of ranges that begin together, the longer one contains the other.
            slices.sort_by_key(|slice| (slice.times.0, Reverse(slice.times.1)));
            let is_nested = matches!(source, Source::Thread(_));
            let mut lanes: Vec<Lane> = Vec::new();
            for slice in slices {
                let free = lanes.iter_mut().position(|lane| lane.has_room(slice.times, is_nested));
                let at = free.unwrap_or(lanes.len());
                if at == lanes.len() {
                    lanes.push(Lane::default());
                }
                lanes[at].open.push(slice.times.1);
                lanes[at].slices.push(slice);
            }
            let numbered = lanes.into_iter().enumerate();
            all.extend(numbered.map(|(lane, Lane { slices, .. })| Track { log, owner, source, lane, slices }));
        }
        all
    }

    /// How many kernels run on some tracks, each time that it changes: time and number.
    pub fn running(tracks: &[Track]) -> Vec<(u64, u64)> {
        let slices = tracks.iter().filter(|track| track.is_of_queue()).flat_map(|track| &track.slices);
        let mut changes: Vec<(u64, i64)> = slices.flat_map(|s| [(s.times.0, 1), (s.times.1, -1)]).collect();
        changes.sort_unstable();
        let mut counts: Vec<(u64, u64)> = Vec::new();
        let mut now = 0i64;
        for (time, change) in changes {
            now += change;
            match counts.last_mut() {
                Some((last, count)) if *last == time => *count = now.unsigned_abs(),
                _ => counts.push((time, now.unsigned_abs())),
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::Source::{Queue, Thread};
    use super::*;

    const LOG: &str = "kernel,dispatch,startNs,endNs,agent,queue,grid,workgroup\n# agent 0: gfx90a, MI210\n\
        \"f\",5,30,40,0,1,64x1x1,64x1x1\n\
        \"g\",5,10,35,0,1,64x1x1,64x1x1\n\
        \"f\",5,40,50,0,1,128x1x1,64x1x1\n\
        \"f\",5,12,20,0,2,64x1x1,64x1x1\n\
        \"f\",5,,,0,2,64x1x1,64x1x1\n\
        \"f\",5,9,8,0,2,64x1x1,64x1x1\n";

    #[test]
    fn kernels_that_run_at_once_are_on_different_lanes_and_counted() {
        let mut timeline = Timeline::default();
        timeline.read("a.csv", &mut Log::new(LOG.as_bytes())).unwrap();
        let tracks = timeline.tracks();
        let short: Vec<_> =
            tracks.iter().map(|t| (t.source, t.lane, t.slices.iter().map(|s| s.times.0).collect())).collect();
        assert_eq!(short, [(Queue(1), 0, vec![10, 40]), (Queue(1), 1, vec![30]), (Queue(2), 0, vec![12])]);
        assert_eq!((timeline.without_times, timeline.kernels.len(), timeline.shapes.len()), (2, 2, 2));
        let running = Timeline::running(&tracks);
        assert_eq!(running, [(10, 1), (12, 2), (20, 1), (30, 2), (35, 1), (40, 1), (50, 0)]);
    }

    #[test]
    fn ranges_of_a_thread_are_nested_and_one_that_is_not_has_another_lane() {
        let mut text = "kernel,startNs,endNs,kind,pid,tid\n".to_owned();
        for (name, start, end, kind) in [
            ("outer", 10, 100, "range"),
            ("inner", 20, 60, "range"),
            ("crossing", 50, 120, "range"),
            ("moment", 55, 55, "mark"),
            ("last", 60, 100, "range"),
        ] {
            text += &format!("\"{name}\",{start},{end},{kind},7,9\n");
        }
        let mut timeline = Timeline::default();
        timeline.read("a.csv", &mut Log::new(text.as_bytes())).unwrap();
        let tracks = timeline.tracks();
        let starts = |track: &Track| track.slices.iter().map(|slice| slice.times.0).collect::<Vec<_>>();
        assert_eq!(tracks.iter().map(starts).collect::<Vec<_>>(), [vec![10, 20, 55, 60], vec![50]]);
        assert!(tracks.iter().all(|track| track.source == Thread(9) && timeline.owner_name(track) == "pid 7"));
        assert_eq!(Timeline::running(&tracks), []);
    }
}
