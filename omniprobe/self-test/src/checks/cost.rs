//! The cost of dispatches and signals. Only very late completions are a failure.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::Site;
use crate::device::{Device, Dispatch, ticks};
use crate::finding::{CheckError, Findings, median_and_99th};

type Result = std::result::Result<Findings, CheckError>;

/// Dispatches of each measurement.
const DISPATCHES: u64 = 4000;
/// Kernels whose end the host waits for.
const RELEASED: usize = 32;
/// Later than this the host must not see half of the ends. The interceptor needs microseconds; a busy machine takes milliseconds.
const SEEN_NS: u64 = 100_000_000;
/// Packets of a ring.
const RING: u32 = 1024;

/// Empty kernels on one queue and on four.
pub(crate) fn dispatches(_: &Site) -> Result {
    let device = Device::start()?;
    let kernel = device.kernel("empty")?;
    let empty = Dispatch { kernel, workgroups: 1, kernarg: 0, signal: 0 };
    let mut found = Findings::default();
    for count in [1usize, 4] {
        let mut queues = Vec::new();
        for _ in 0..count {
            let queue = device.queue(RING)?;
            queue.dispatch(&empty)?;
            queue.drain()?;
            queues.push(queue);
        }
        let start = Instant::now();
        for n in 0..DISPATCHES as usize {
            queues[n % count].dispatch(&empty)?;
        }
        let submitted = start.elapsed();
        for queue in &queues {
            queue.drain()?;
        }
        let all = start.elapsed();
        found.figure(&format!("submit_ns_queues_{count}"), submitted.as_nanos() as u64 / DISPATCHES);
        found.figure(&format!("complete_ns_queues_{count}"), all.as_nanos() as u64 / DISPATCHES);
    }
    // Between the end of a dispatch and the start of the next, by the GPU's own times.
    let queue = device.queue(RING)?;
    queue.profile()?;
    let mut signals = Vec::new();
    for _ in 0..RING / 2 {
        let signal = device.signal(1)?;
        signals.push(signal);
        let index = queue.reserve(1)?;
        queue.write(index, &Dispatch { signal: signal.handle(), ..empty })?;
        queue.ring(index)?;
    }
    for signal in &signals {
        queue.wait(*signal)?;
    }
    let mut gaps: Vec<u64> = signals.windows(2).map(|pair| ticks(pair[1]).0.saturating_sub(ticks(pair[0]).1)).collect();
    found.figure("gap_median_ticks", median_and_99th(&mut gaps).0);
    Ok(found)
}

/// Making signals, and seeing them.
pub(crate) fn signals(_: &Site) -> Result {
    let device = Device::start()?;
    let mut found = Findings::default();
    for count in [64u32, 4096, 32768] {
        let start = Instant::now();
        for _ in 0..count {
            device.signal(1)?;
        }
        found.figure(&format!("create_ns_of_{count}"), start.elapsed().as_nanos() as u64 / u64::from(count));
    }
    let queue = device.queue(64)?;
    let kernel = device.kernel("wait")?;
    let mut seen = Vec::new();
    for _ in 0..RELEASED {
        let flag = &device.host(1)?[0];
        let kernarg = device.arguments(&[flag.as_ptr().expose_provenance() as u64])?;
        let signal = device.signal(1)?;
        queue.dispatch(&Dispatch { kernel, workgroups: 1, kernarg, signal: signal.handle() })?;
        std::thread::sleep(std::time::Duration::from_millis(1));
        let start = Instant::now();
        flag.store(1, Ordering::Release);
        queue.wait(signal)?;
        seen.push(start.elapsed().as_nanos() as u64);
    }
    let (median, most) = median_and_99th(&mut seen);
    found.figure("release_to_seen_median_ns", median);
    found.figure("release_to_seen_99th_ns", most);
    found.expect(median <= SEEN_NS, || {
        format!("the host sees the end of a kernel {} ms after the kernel may end", median / 1_000_000)
    });
    Ok(found)
}
