//! What a page has of each kernel: totals, a histogram of its durations, durations over time, and how a replacement compares.

use std::collections::BTreeMap;

use logdur_journal::compare::{Ratio, Samples};
use serde_json::{Value, json};

use crate::summary::Group;
use crate::timeline::{Slice, Timeline, Track};

/// Kernels with plots.
const PLOTTED: usize = 100;
/// Bins of a histogram.
const BINS: usize = 48;
/// Points of durations over time.
const POINTS: usize = 240;

/// The kernels, longest first.
pub(super) fn of(groups: &[Group], timeline: &Timeline, tracks: &[Track], first: u64, emulated: bool) -> Vec<Value> {
    let wanted: BTreeMap<&str, usize> = groups
        .iter()
        .take(PLOTTED)
        .enumerate()
        .map(|(at, group)| (group.name.as_deref().unwrap_or_default(), at))
        .collect();
    let name = |kernel: u32| timeline.kernels.get(kernel as usize).map_or("", String::as_str);
    // A name that is not known is empty in groups.
    let place =
        |kernel: u32| wanted.get(name(kernel)).or_else(|| wanted.get("").filter(|_| name(kernel) == "(unknown)"));
    let places: Vec<Option<&usize>> = (0..timeline.kernels.len() as u32).map(place).collect();
    let mut slices: Vec<Vec<&Slice>> = vec![Vec::new(); wanted.len()];
    for slice in tracks.iter().filter(|track| track.is_of_queue()).flat_map(|track| &track.slices) {
        let of_kernel = places.get(slice.kernel as usize).copied().flatten().and_then(|at| slices.get_mut(*at));
        of_kernel.into_iter().for_each(|all| all.push(slice));
    }
    let mut all: Vec<Value> = groups.iter().map(|group| json!(group)).collect();
    for (kernel, mut slices) in all.iter_mut().zip(slices) {
        slices.sort_unstable_by_key(|slice| slice.times);
        if slices.is_empty() {
            continue;
        }
        kernel["histogram"] = histogram(&slices);
        let (points, bucketed) = points(&slices, first);
        kernel["points"] = points;
        kernel["bucketed"] = bucketed;
        kernel["swap"] = swap(&slices, emulated);
    }
    for kernel in &mut all {
        if kernel["name"] == "" {
            kernel["name"] = "(unknown)".into();
        }
    }
    all
}

fn duration(slice: &Slice) -> u64 {
    slice.times.1 - slice.times.0
}

/// Counts in bins of a logarithmic scale, of the application's kernel and of what replaced it.
fn histogram(slices: &[&Slice]) -> Value {
    let durations = || slices.iter().map(|slice| duration(slice).max(1));
    let lo = durations().min().unwrap_or(1) as f64;
    // One bin more than the longest.
    let hi = (durations().max().unwrap_or(1) as f64 * 1.01).max(lo * 1.02);
    let mut counts = [[0u64; BINS]; 2];
    for slice in slices {
        let part = (duration(slice).max(1) as f64 / lo).ln() / (hi / lo).ln();
        let bin = ((part * BINS as f64) as usize).min(BINS - 1);
        if let Some(count) = counts.get_mut(usize::from(slice.replaced)).and_then(|side| side.get_mut(bin)) {
            *count += 1;
        }
    }
    let [own, other] = counts.map(|side| side.to_vec());
    json!({ "lo": lo, "hi": hi, "own": own, "other": other })
}

/// Start, shortest, middle and longest duration, and 1 for replacements: of each dispatch, or of so many together as the second
/// value says.
fn points(slices: &[&Slice], first: u64) -> (Value, Value) {
    let each = slices.len().div_ceil(POINTS);
    let point = |some: &[&Slice]| -> Option<Value> {
        let mut durations: Vec<u64> = some.iter().map(|slice| duration(slice)).collect();
        durations.sort_unstable();
        let (start, replaced) = some.first().map(|slice| (slice.times.0 - first, u8::from(slice.replaced)))?;
        Some(json!([start, durations.first()?, durations.get(durations.len() / 2)?, durations.last()?, replaced]))
    };
    let mut all = Vec::new();
    for side in [false, true] {
        let of_side: Vec<&Slice> = slices.iter().copied().filter(|slice| slice.replaced == side).collect();
        all.extend(of_side.chunks(each).filter_map(point));
    }
    (all.into(), if each == 1 { Value::Null } else { each.into() })
}

/// How a replacement compares, if both have run.
fn swap(slices: &[&Slice], emulated: bool) -> Value {
    let mut sides = [Samples::default(), Samples::default()];
    for slice in slices {
        if let Some(side) = sides.get_mut(usize::from(slice.replaced)) {
            side.add(duration(slice));
        }
    }
    let [own, other] = &sides;
    let Some(compared) = Ratio::of(own, other) else { return Value::Null };
    json!({
        "counts": [own.count(), other.count()], "medians": compared.medians, "ratio": compared.ratio,
        "interval": compared.interval.map(|(low, high)| [low, high]), "verdict": compared.verdict(emulated),
    })
}
