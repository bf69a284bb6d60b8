//! Times of dispatches: when they are written, for which queues, and by which clock.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::OwnSignal;
use hsa::sys::raw;

use crate::Site;
use crate::device::{Device, DeviceError, Dispatch, Queue, rearm, ticks};
use crate::finding::{CheckError, Findings};

type Result = std::result::Result<Findings, CheckError>;

/// How often the order is looked at, if that takes no longer than [`ORDER_LIMIT`].
const TRIES: usize = 100_000;
const ORDER_LIMIT: Duration = Duration::from_secs(2);
/// Signals that are used in turns: each rests for as many dispatches.
const TURNS: usize = 256;
/// After this time, times that were late have come.
const LATER: Duration = Duration::from_millis(20);
/// Kernels whose times are compared with the host's, how long each runs, and the pause between.
const KERNELS: usize = 20;
const RUNS: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(90);
/// How far the GPU's times may lie outside of the host's.
const SLACK_NS: u64 = 1_000_000;

/// Reads the times as soon as the value is 0, and again later.
pub(crate) fn order(_: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(64)?;
    queue.profile()?;
    let kernel = device.kernel("empty")?;
    let packet = |signal: OwnSignal| Dispatch { kernel, workgroups: 1, kernarg: 0, signal: signal.handle() };
    let start = Instant::now();
    let run = |signal: OwnSignal| -> std::result::Result<(u64, u64), DeviceError> {
        queue.dispatch(&packet(signal))?;
        queue.wait(signal)?;
        Ok(ticks(signal))
    };

    let mut turns = Vec::new();
    for _ in 0..TURNS {
        turns.push((device.signal(1)?, None));
    }
    let (mut tries, mut late, mut none) = (0usize, 0usize, 0usize);
    while tries < TRIES && start.elapsed() < ORDER_LIMIT {
        let (signal, at_once) = &mut turns[tries % TURNS];
        late += usize::from(at_once.is_some_and(|seen| seen != ticks(*signal)));
        rearm(*signal);
        let seen = run(*signal)?;
        none += usize::from(seen == (0, 0));
        *at_once = Some(seen);
        tries += 1;
    }
    std::thread::sleep(LATER);
    late += turns.iter().filter(|(signal, seen)| seen.is_some_and(|seen| seen != ticks(*signal))).count();

    // One signal, as the library uses its own: what comes late would be the next dispatch's.
    let reused = device.signal(1)?;
    let (mut before, mut strange) = (0, 0usize);
    for _ in 0..TURNS {
        rearm(reused);
        let (from, to) = run(reused)?;
        strange += usize::from(from != 0 && to != 0 && from.max(to) <= before);
        before = before.max(from.max(to));
    }
    let mut found = Findings::default();
    found.figure("tries", tries);
    found.figure("signals_without_times", none);
    found.expect(late == 0, || format!("{late} of {tries} signals got their times after their value"));
    found
        .expect(strange == 0, || format!("{strange} of {TURNS} dispatches on one signal carry an earlier one's times"));
    Ok(found)
}

/// Whether a dispatch on a queue gets times.
fn has_times(device: &Device, queue: &Queue<'_>, signal: OwnSignal) -> std::result::Result<bool, CheckError> {
    let kernel = device.kernel("empty")?;
    queue.dispatch(&Dispatch { kernel, workgroups: 1, kernarg: 0, signal: signal.handle() })?;
    queue.wait(signal)?;
    let (start, end) = ticks(signal);
    Ok(start != 0 && end != 0)
}

/// Queues and signals of every kind.
pub(crate) fn latch(_: &Site) -> Result {
    let device = Device::start()?;
    let mut found = Findings::default();
    let late = device.queue(64)?;
    has_times(&device, &late, device.signal(1)?)?;
    late.profile()?;
    let after = has_times(&device, &late, device.signal(1)?)?;
    found.figure("times_when_enabled_after_the_first_dispatch", after);

    let queue = device.queue(64)?;
    queue.profile()?;
    let must = |found: &mut Findings, holds: bool, what: &str| {
        found.expect(holds, || format!("a dispatch {what} has no times"));
    };
    must(&mut found, has_times(&device, &queue, device.signal(1)?)?, "on an ordinary queue");
    must(&mut found, has_times(&device, &queue, device.application_signal(1)?)?, "on an application's signal");
    for _ in 0..8 {
        device.queue(64)?.destroy()?;
    }
    must(&mut found, has_times(&device, &queue, device.signal(1)?)?, "after other queues were made and destroyed");

    type Prepare = fn(&Device) -> std::result::Result<Queue<'_>, DeviceError>;
    let kinds: [(&str, Prepare); 3] = [
        ("high_priority", |device| {
            let queue = device.queue(64)?;
            queue.set_priority(raw::HSA_AMD_QUEUE_PRIORITY_HIGH.0)?;
            Ok(queue)
        }),
        ("masked", |device| {
            let queue = device.queue(64)?;
            queue.set_mask()?;
            Ok(queue)
        }),
        ("cooperative", |device| device.queue_of(64, raw::HSA_QUEUE_TYPE_COOPERATIVE.0)),
    ];
    for (name, prepare) in kinds {
        match prepare(&device) {
            // Not every device and every user may have each.
            Err(error) => found.figure(name, error.to_string()),
            Ok(queue) => {
                queue.profile()?;
                let has = has_times(&device, &queue, device.signal(1)?)?;
                found.figure(name, has);
                must(&mut found, has, &format!("on a queue of the kind {name}"));
            }
        }
    }
    Ok(found)
}

/// Kernels that the host ends, by the GPU's clock and by the host's.
pub(crate) fn clocks(_: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(64)?;
    queue.profile()?;
    let kernel = device.kernel("wait")?;
    let mut found = Findings::default();
    let (mut outside, mut most_outside, mut reversed, mut ends) = (0usize, 0u64, 0u64, Vec::new());
    for _ in 0..KERNELS {
        let flag = &device.host(1)?[0];
        let kernarg = device.arguments(&[flag.as_ptr().expose_provenance() as u64])?;
        let signal = device.signal(1)?;
        let before = device.now_ns()?;
        queue.dispatch(&Dispatch { kernel, workgroups: 1, kernarg, signal: signal.handle() })?;
        std::thread::sleep(RUNS);
        let released = device.now_ns()?;
        flag.store(1, Ordering::Release);
        queue.wait(signal)?;
        let after = device.now_ns()?;
        let (start, end) = device.dispatch_ns(signal)?;
        reversed += u64::from(start > end);
        // It cannot begin before its doorbell, end before the host lets it, or end after the host has seen the end.
        let early = before.saturating_sub(start).max(released.saturating_sub(end));
        let late = end.saturating_sub(after);
        outside += usize::from(early.max(late) > SLACK_NS);
        most_outside = most_outside.max(early).max(late);
        ends.push((after, after as i64 - end as i64));
        std::thread::sleep(PAUSE);
    }
    // The least of several: what the host took to look is not the clock's.
    let least = |part: &[(u64, i64)]| part.iter().map(|(_, offset)| *offset).min().unwrap_or(0);
    let half = ends.len() / 2;
    let (first, last) = (least(&ends[..half]), least(&ends[half..]));
    let jump = ends.windows(2).map(|pair| (pair[1].1 - pair[0].1).unsigned_abs()).max().unwrap_or(0);
    found.figure("kernels", KERNELS);
    found.figure("end_to_host_ns", first.min(last));
    found.figure("drift_ns", last - first);
    found.figure("largest_jump_ns", jump);
    found.figure("outside_of_the_hosts_times_ns", most_outside);
    found.expect(reversed == 0, || format!("{reversed} kernels end before they start"));
    // One or two can be the host's: it reads both clocks one after the other, and may lose the processor between.
    found.expect(outside <= KERNELS / 4, || {
        format!("the times of {outside} of {KERNELS} kernels lie up to {most_outside} ns outside of what the host saw")
    });
    Ok(found)
}
