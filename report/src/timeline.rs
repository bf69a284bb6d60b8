//! Dispatches as slices of tracks: a track for each queue, and more for one that runs several kernels at a time.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use crate::rows::{Line, Log, ReadError, Row, size_text};

/// A dispatch on a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Start and end, in nanoseconds.
    pub times: (u64, u64),
    /// When the doorbell was rung, if that is known and was not later.
    pub dispatch: Option<u64>,
    /// Position among the names.
    pub kernel: u32,
    /// Position among the shapes.
    pub shape: u32,
    /// True if another kernel ran in place of the application's.
    pub replaced: bool,
    /// The bytes of a copy; `None` for a dispatch.
    pub copied: Option<u64>,
}

/// Slices in the order of their starts, none of which overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Position of the GPU.
    pub agent: u64,
    /// The log, by position.
    pub log: usize,
    /// The runtime's number of the queue; `None` for copies.
    pub queue: Option<u64>,
    /// 0 for the first track of a queue.
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
    /// By log, GPU and queue.
    queues: BTreeMap<(usize, u64, Option<u64>), Vec<Slice>>,
}

impl Track {
    /// The name of the track, as people read it.
    pub fn name(&self) -> String {
        let what = self.queue.map_or("copies".to_owned(), |queue| format!("queue {queue}"));
        match self.lane {
            0 => what,
            lane => format!("{what} ({})", lane + 1),
        }
    }
}

impl Timeline {
    /// The name of a track's GPU, with the log's if there are several.
    pub fn gpu_name(&self, track: &Track) -> String {
        let product = self.gpus.get(&track.agent).map(|name| format!(" {name}")).unwrap_or_default();
        let log = self.logs.get(track.log).filter(|_| self.logs.len() > 1);
        format!("GPU {}{product}{}", track.agent, log.map(|log| format!(", {log}")).unwrap_or_default())
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
        let copied = row.copied;
        let slice = Slice { times: (start, end), dispatch, kernel, shape, replaced: row.replaced, copied };
        let queue = Some(row.queue).filter(|_| copied.is_none());
        self.queues.entry((log, row.agent, queue)).or_default().push(slice);
    }

    /// The tracks, by log, GPU, queue and lane. A slice goes onto the first lane that is free when it starts.
    pub fn tracks(&mut self) -> Vec<Track> {
        let mut all = Vec::new();
        for ((log, agent, queue), mut slices) in std::mem::take(&mut self.queues) {
            slices.sort_by_key(|slice| slice.times);
            let mut lanes: Vec<Track> = Vec::new();
            for slice in slices {
                let is_free = |lane: &Track| lane.slices.last().is_none_or(|last| last.times.1 <= slice.times.0);
                match lanes.iter_mut().find(|lane| is_free(lane)) {
                    Some(lane) => lane.slices.push(slice),
                    None => lanes.push(Track { agent, log, queue, lane: lanes.len(), slices: vec![slice] }),
                }
            }
            all.append(&mut lanes);
        }
        all
    }

    /// How many kernels run on some tracks, each time that it changes: time and number.
    pub fn running(tracks: &[Track]) -> Vec<(u64, u64)> {
        let slices = tracks.iter().filter(|track| track.queue.is_some()).flat_map(|track| &track.slices);
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
            tracks.iter().map(|t| (t.queue, t.lane, t.slices.iter().map(|s| s.times.0).collect())).collect();
        assert_eq!(short, [(Some(1), 0, vec![10, 40]), (Some(1), 1, vec![30]), (Some(2), 0, vec![12])]);
        assert_eq!((timeline.without_times, timeline.kernels.len(), timeline.shapes.len()), (2, 2, 2));
        let running = Timeline::running(&tracks);
        assert_eq!(running, [(10, 1), (12, 2), (20, 1), (30, 2), (35, 1), (40, 1), (50, 0)]);
    }
}
