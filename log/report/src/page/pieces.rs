//! The timeline of a page: each dispatch, or, if there are too many, pieces of several that are near to each other.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::timeline::{Owner, Slice, Timeline, Track};

/// The most pieces of all tracks.
const MOST: usize = 20_000;
/// The most tracks; a program may have thousands of queues.
const TRACKS: usize = 200;

/// Tracks with their pieces as a flat list of numbers: from the start of the one before to its start, its length and the
/// kernel's number; of merged ones also the number of dispatches and the sum of their durations.
pub(super) fn of(timeline: &Timeline, tracks: &[Track], first: u64) -> Value {
    let slices: usize = tracks.iter().map(|track| track.slices.len()).sum();
    let end = tracks.iter().flat_map(|track| &track.slices).map(|slice| slice.times.1).max().unwrap_or(first);
    let span = end - first;
    let shown = tracks.len().min(TRACKS);
    // Each piece but the last of a track is at least as far from the next as this.
    let resolution = (slices > MOST).then(|| (span / (MOST / shown.max(1)).max(1) as u64).max(1));
    let mut pieces = 0;
    let several = tracks.iter().any(|track| tracks.first().is_some_and(|first| !track.is_beside(first)));
    let track = |track: &Track| {
        let numbers = match resolution {
            None => each(&track.slices, first),
            Some(resolution) => merged(&track.slices, first, resolution),
        };
        pieces += numbers.len() / if resolution.is_some() { 5 } else { 3 };
        let owner = if several { format!("{} ", short(timeline, track.owner)) } else { String::new() };
        let log = timeline.logs.get(track.log).filter(|_| timeline.logs.len() > 1);
        let log = log.map(|log| format!(" ({log})")).unwrap_or_default();
        json!({ "name": format!("{owner}{}{log}", track.name()), "slices": numbers })
    };
    let all: Vec<Value> = tracks.iter().take(TRACKS).map(track).collect();
    json!({
        "tracks": all, "spanNs": span, "slices": slices, "pieces": pieces, "resolutionNs": resolution,
        "leftOut": tracks.len() - shown,
    })
}

fn short(timeline: &Timeline, owner: Owner) -> String {
    match owner {
        Owner::Gpu(place) => timeline.gpu_name(place).to_owned(),
        Owner::Process(process) => process.name(),
    }
}

fn each(slices: &[Slice], first: u64) -> Vec<u64> {
    let mut before = first;
    let mut all = Vec::with_capacity(slices.len() * 3);
    for slice in slices {
        let (start, end) = slice.times;
        all.extend([start - before, end - start, slice.kernel.into()]);
        before = start;
    }
    all
}

fn merged(slices: &[Slice], first: u64, resolution: u64) -> Vec<u64> {
    let (mut all, mut before, mut rest) = (Vec::new(), first, slices);
    while let Some(begin) = rest.first() {
        let start = begin.times.0;
        let count = rest.iter().take_while(|slice| slice.times.0 - start < resolution).count().max(1);
        let (piece, after) = rest.split_at(count);
        let mut by_kernel: BTreeMap<u32, u64> = BTreeMap::new();
        piece.iter().for_each(|slice| *by_kernel.entry(slice.kernel).or_default() += slice.times.1 - slice.times.0);
        let busy: u64 = by_kernel.values().sum();
        let longest = by_kernel.into_iter().max_by_key(|(_, time)| *time).map_or(0, |(kernel, _)| kernel);
        let end = piece.iter().map(|slice| slice.times.1).max().unwrap_or(start);
        all.extend([start - before, end - start, longest.into(), count as u64, busy]);
        before = start;
        rest = after;
    }
    all
}
