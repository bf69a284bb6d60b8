//! Rows as slices of tracks: a track for each queue, and more for one that runs several kernels at a time; one for the copies of a
//! GPU, and one for the ranges and marks of a thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;

use crate::gpus::{Gpu, Gpus};
use crate::rows::{Kind, Line, Log, Process, ReadError, Row, UNKNOWN, size_text};
use crate::twins::{Names, merged};
use crate::wall::WallClock;

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
    /// The thread that asked for it, if that is known.
    pub thread: Option<u64>,
    /// What it is of.
    pub kind: Kind,
}

/// What a group of tracks is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A GPU, by its place among [`Timeline::gpus`].
    Gpu(usize),
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
    /// The process, where several share a GPU: each numbers its queues.
    pub process: Option<Process>,
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
    /// Kernels' names, once [`tracks`](Self::tracks) has made the tracks.
    pub kernels: Vec<String>,
    /// Grids and workgroups, as `4096x1x1 / 256x1x1`; empty if the log does not say.
    pub shapes: Vec<String>,
    /// Logs, as they were named.
    pub logs: Vec<String>,
    /// Of each log, readings of the clocks.
    pub clocks: Vec<WallClock>,
    /// The GPUs.
    pub gpus: Gpus,
    /// Rows that have no times, or end before they start: they are not shown.
    pub without_times: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// Of each GPU, once all logs are read.
    gpu_names: Vec<GpuNames>,
    names: Names,
    shape_numbers: HashMap<([u32; 3], [u32; 3]), u32>,
    sources: BTreeMap<(usize, Owner, Process, Source), Vec<Slice>>,
}

/// What a GPU is called.
#[derive(Debug)]
struct GpuNames {
    short: String,
    long: String,
}

impl GpuNames {
    /// Of each GPU, in the order of their places.
    fn of(gpus: &Gpus) -> Vec<GpuNames> {
        let gpus = gpus.numbered();
        let names = |(number, gpu): &(u64, &Gpu)| {
            // The place on the bus tells GPUs of one kind apart.
            let about = [gpu.name.as_str(), gpu.bdf.as_str()].into_iter().take(gpus.len().min(2));
            let about: Vec<&str> = about.filter(|text| !text.is_empty()).collect();
            let short = format!("GPU {number}");
            GpuNames { long: format!("{short} {}", about.join(", ")).trim_end().to_owned(), short }
        };
        gpus.iter().map(names).collect()
    }
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
        let what = self.process.map(|process| format!("{}, ", process.name())).unwrap_or_default() + &what;
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
            Owner::Gpu(place) => self.gpu_names.get(place).map(|names| names.long.clone()).unwrap_or_default(),
            Owner::Process(process) => process.name(),
        };
        let log = self.logs.get(track.log).filter(|_| self.logs.len() > 1);
        format!("{name}{}", log.map(|log| format!(", {log}")).unwrap_or_default())
    }

    /// The short name of a GPU, by its place.
    pub(crate) fn gpu_name(&self, place: usize) -> &str {
        self.gpu_names.get(place).map_or("GPU", |names| &names.short)
    }

    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the file cannot be read, or is no log.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ReadError> {
        self.read_of(name, log, |_| true)
    }

    /// Adds the rows of some processes of a log.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn read_of<R: BufRead>(
        &mut self,
        name: &str,
        log: &mut Log<R>,
        is_wanted: impl Fn(Process) -> bool,
    ) -> Result<(), ReadError> {
        let number = self.begin(name);
        self.gpus.begin();
        while let Some(line) = log.next_line()? {
            match line {
                Line::Row(row) if !is_wanted(row.process) => {}
                Line::Row(row) => {
                    let gpu = self.gpus.of(row.process.pid, row.agent);
                    self.add(number, &row, gpu);
                }
                Line::Agent { position, name, device } => self.gpus.learn(position, name, device.as_ref()),
                Line::Unreadable(_) => self.unreadable += 1,
                Line::Clocks { system_ns, wall_ns } => {
                    self.clocks.iter_mut().last().into_iter().for_each(|clock| clock.learn(system_ns, wall_ns));
                }
                Line::Account(_) | Line::Run { .. } | Line::Site { .. } | Line::Other => {}
            }
        }
        self.gpus.end();
        Ok(())
    }

    /// Begins a log; its number.
    pub fn begin(&mut self, name: &str) -> usize {
        self.logs.push(name.to_owned());
        self.clocks.push(WallClock::default());
        self.logs.len() - 1
    }

    /// Adds a row of a log, with its GPU's place among [`gpus`](Self::gpus).
    pub fn add(&mut self, log: usize, row: &Row<'_>, gpu: usize) {
        let Some((start, end)) = row.times.filter(|(start, end)| start <= end) else {
            self.without_times += 1;
            return;
        };
        let name = if row.kernel.is_empty() { "(unknown)" } else { row.kernel.as_ref() };
        let kernel = self.names.number(name, &row.code, row.process) as u32;
        let shapes = &mut self.shapes;
        let shape = *self.shape_numbers.entry((row.grid, row.workgroup)).or_insert_with(|| {
            let [grid, workgroup] = [row.grid, row.workgroup].map(size_text);
            shapes.push(if grid == workgroup && grid == UNKNOWN {
                String::new()
            } else {
                format!("{grid} / {workgroup}")
            });
            shapes.len() as u32 - 1
        });
        let dispatch = row.dispatch.filter(|dispatch| *dispatch <= start);
        let Row { thread, replaced, kind, .. } = *row;
        let slice = Slice { times: (start, end), dispatch, kernel, shape, replaced, thread, kind };
        let (owner, source) = match kind {
            Kind::Dispatch => (Owner::Gpu(gpu), Source::Queue(row.queue)),
            Kind::Copy { .. } => (Owner::Gpu(gpu), Source::Copies),
            Kind::Range | Kind::Mark => (Owner::Process(row.process), Source::Thread(thread.unwrap_or(0))),
        };
        self.sources.entry((log, owner, row.process, source)).or_default().push(slice);
    }

    /// The tracks, by log, owner, process, source and lane. A slice goes onto the first lane that has room for it.
    pub fn tracks(&mut self) -> Vec<Track> {
        self.gpu_names = GpuNames::of(&self.gpus);
        let mut all = Vec::new();
        let mut sources = std::mem::take(&mut self.sources);
        let (names, places) = merged(self.names.shown());
        self.kernels = names.into_iter().map(|shown| shown.name).collect();
        for slice in sources.values_mut().flatten() {
            slice.kernel = places.get(slice.kernel as usize).map_or(slice.kernel, |place| *place as u32);
        }
        let mut processes: BTreeMap<(usize, Owner), BTreeSet<Process>> = BTreeMap::new();
        for (log, owner, process, _) in sources.keys() {
            processes.entry((*log, *owner)).or_default().insert(*process);
        }
        for ((log, owner, process, source), mut slices) in sources {
            let is_shared = processes.get(&(log, owner)).is_some_and(|processes| processes.len() > 1);
            let process = is_shared.then_some(process);
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
            all.extend(numbered.map(|(lane, Lane { slices, .. })| Track { log, owner, process, source, lane, slices }));
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

    #[test]
    fn queues_of_processes_that_share_a_log_are_tracks_of_their_own_on_the_gpu_that_each_uses() {
        let mut text = "kernel,startNs,endNs,agent,queue,pid,rank\n".to_owned();
        for (pid, uuid) in [(7, "GPU-a"), (8, "GPU-b"), (9, "GPU-b")] {
            text += &format!("# agent 0: gfx90a, MI210\n# device 0: uuid={uuid} bdf={uuid} pid={pid}\n");
            text += &format!("\"f\",{pid},{},0,1,{pid},\n", pid + 5);
        }
        let mut timeline = Timeline::default();
        timeline.read("a.csv", &mut Log::new(text.as_bytes())).unwrap();
        let tracks = timeline.tracks();
        let names: Vec<_> = tracks.iter().map(|track| (timeline.owner_name(track), track.name())).collect();
        let expected = [
            ("GPU 0 gfx90a, MI210, GPU-a", "queue 1"),
            ("GPU 1 gfx90a, MI210, GPU-b", "pid 8, queue 1"),
            ("GPU 1 gfx90a, MI210, GPU-b", "pid 9, queue 1"),
        ];
        assert_eq!(names, expected.map(|(owner, track)| (owner.to_owned(), track.to_owned())));
    }
}
