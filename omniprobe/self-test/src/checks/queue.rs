//! Queues: rows of dispatches, packets that are held, slots that are consumed, packets that are written around us.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::sys::abi::aql::PacketType;

use crate::Site;
use crate::device::{Device, Dispatch};
use crate::finding::{CheckError, Findings};

/// Dispatches of the check of rows.
const DISPATCHES: u64 = 10_000;
/// Packets of the rings of these checks.
const RING: u32 = 1024;
/// How far the GPU's start may lie before the host's doorbell: the clocks are compared that exactly at least.
const SLACK_NS: u64 = 1_000_000;
/// How long a held packet is watched.
const HELD: Duration = Duration::from_millis(200);
/// After this time a packet is taken for lost.
const LOST: Duration = Duration::from_secs(10);
/// Queues that are made and destroyed meanwhile: each makes the driver map the process's queues anew.
const REMAPS: usize = 40;

type Result = std::result::Result<Findings, CheckError>;

/// Rows of many small dispatches. Also says in which way the library sees packets.
pub(crate) fn rows(site: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(RING)?;
    let empty = Dispatch { kernel: device.kernel("empty")?, workgroups: 1, kernarg: 0, signal: 0 };
    let real = || queue.memory().write_dispatch_id.load(Ordering::Acquire);
    let before = real();
    let first = queue.reserve(1)?;
    // In place, a reservation moves the library's own index only.
    let in_place = real() == before;
    queue.write(first, &empty)?;
    queue.ring(first)?;
    for _ in 1..DISPATCHES {
        queue.dispatch(&empty)?;
    }
    queue.drain()?;
    device.api.shut_down()?;
    let log = site.log()?;

    let mut found = Findings::default();
    let mut with_times: Vec<(u64, u64, u64)> = Vec::new();
    let mut without = 0;
    for row in &log.rows {
        match row.ran {
            Some((start, end)) => with_times.push((row.dispatch, start, end)),
            None => without += 1,
        }
    }
    let reversed = log.rows.iter().filter(|row| row.flags.iter().any(|flag| flag == "end-before-start")).count();
    let reversed = reversed.max(with_times.iter().filter(|(_, start, end)| start > end).count());
    let early = with_times.iter().filter(|(dispatch, start, _)| start + SLACK_NS < *dispatch).count();
    // Ties are no error: some clocks are coarser than a short dispatch.
    let tied = with_times.iter().filter(|(_, start, end)| start == end).count();
    let starts = with_times.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    let shown = log.rows.len();
    found.figure("dispatches", DISPATCHES);
    found.figure("rows", shown);
    found.figure("rows_without_times", without);
    found.figure("rows_that_end_when_they_start", tied);
    found.figure("rows_that_start_before_their_predecessor", starts);
    found.figure("rows_that_start_before_their_doorbell", early);
    found.figure(
        "way",
        if shown == 0 {
            "off"
        } else if in_place {
            "in place"
        } else {
            "fallback"
        },
    );
    found.expect(shown as u64 == DISPATCHES, || format!("{DISPATCHES} dispatches have {shown} rows"));
    found.expect(without == 0, || format!("{without} rows have no times"));
    found.expect(reversed == 0, || format!("{reversed} rows end before they start"));
    found.expect(early as u64 <= DISPATCHES / 100, || {
        format!("{early} rows start more than 1 ms before their doorbell")
    });
    for notice in log.notices.iter().filter(|notice| notice.contains("pass unseen")) {
        found.broken.push(notice.clone());
    }
    Ok(found)
}

/// Two valid packets of which one is published.
pub(crate) fn hold(_: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(64)?;
    let kernel = device.kernel("empty")?;
    let (first, second) = (device.signal(1)?, device.signal(1)?);
    let packet = |signal: hsa::OwnSignal| Dispatch { kernel, workgroups: 1, kernarg: 0, signal: signal.handle() };
    let index = queue.reserve(1)?;
    // The second one is valid before the doorbell is rung for the first, and behind the write index.
    queue.write(index + 1, &packet(second))?;
    queue.write(index, &packet(first))?;
    queue.ring(index)?;
    queue.wait(first)?;

    let mut found = Findings::default();
    let has_run = || second.memory().value.load(Ordering::Acquire) <= 0;
    let start = Instant::now();
    while start.elapsed() < HELD && !has_run() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let waited = !has_run();
    found.expect(waited, || format!("the packet behind the write index ran within {} ms", start.elapsed().as_millis()));
    if waited {
        let mut made = 0;
        while made < REMAPS && !has_run() {
            device.queue(64)?.destroy()?;
            made += 1;
        }
        found.figure("queues_made_meanwhile", made);
        found.expect(!has_run(), || format!("the packet behind the write index ran when {made} queues had been made"));
    }
    let next = queue.reserve(1)?;
    queue.ring(next)?;
    // If it never runs, the time limit says so.
    queue.wait(second)?;
    Ok(found)
}

/// The headers of consumed slots, and how late the read index is.
pub(crate) fn read_index(_: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(64)?;
    let kernel = device.kernel("empty")?;
    let size = queue.size();
    let (mut valid, mut looked, mut busy_lag, mut written) = (0u64, 0u64, 0u64, 0u64);
    for _ in 0..16 * size {
        let signal = device.signal(1)?;
        let index = queue.dispatch(&Dispatch { kernel, workgroups: 1, kernarg: 0, signal: signal.handle() })?;
        written = index + 1;
        queue.wait(signal)?;
        let read = queue.read_index();
        busy_lag = busy_lag.max(written.saturating_sub(read));
        // The slots that no later packet is in.
        for passed in written.saturating_sub(size)..read {
            looked += 1;
            valid += u64::from(PacketType::of(queue.header(passed)) != PacketType::Invalid);
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let mut found = Findings::default();
    found.figure("slots_looked_at", looked);
    found.figure("packets_behind_when_busy", busy_lag);
    found.figure("packets_behind_when_idle", written.saturating_sub(queue.read_index()));
    found.expect(valid == 0, || format!("{valid} of {looked} slots that the read index has passed are valid"));
    Ok(found)
}

/// A write index that is moved without the runtime's functions.
pub(crate) fn bypass(site: &Site) -> Result {
    let device = Device::start()?;
    let queue = device.queue(RING)?;
    let empty = Dispatch { kernel: device.kernel("empty")?, workgroups: 1, kernarg: 0, signal: 0 };
    for _ in 0..10 {
        queue.dispatch(&empty)?;
    }
    queue.drain()?;
    let done = device.signal(1)?;
    let index = queue.memory().write_dispatch_id.fetch_add(1, Ordering::AcqRel);
    queue.write(index, &Dispatch { signal: done.handle(), ..empty })?;
    queue.ring(index)?;
    let mut found = Findings::default();
    if !queue.wait_for(done, LOST)? {
        found.broken.push(format!("a packet that is written around the runtime's functions does not run in {LOST:?}"));
        return Ok(found);
    }
    // The library goes on, or leaves the queue alone: the application's dispatches run either way.
    for _ in 0..10 {
        queue.dispatch(&empty)?;
    }
    queue.drain()?;
    device.api.shut_down()?;
    let log = site.log()?;
    found.figure("rows", log.rows.len());
    found.expect(log.has_notice("written around"), || {
        "no notice says that packets were written around the runtime's functions".to_owned()
    });
    Ok(found)
}
