//! Signals as the packet processors and copy engines use them, through GPU memory.
//!
//! # Ordering
//! Timestamps are written before the value is decremented with release; the event is raised after it. Where the driver
//! wants it otherwise ([`Times`]), they come late, torn or never.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::signal::Signal;

use crate::driver::{Driver, Times};
use crate::memory::{Refused, View};

const VALUE: u64 = offset_of!(Signal, value) as u64;
const EVENT_MAILBOX: u64 = offset_of!(Signal, event_mailbox_ptr) as u64;
const EVENT_ID: u64 = offset_of!(Signal, event_id) as u64;
const START: u64 = offset_of!(Signal, start_ts) as u64;
const END: u64 = offset_of!(Signal, end_ts) as u64;

/// The value of a signal.
///
/// # Errors
/// When the handle is not that of a signal that the GPU can see.
pub(crate) fn value(view: &mut View, handle: u64) -> Result<i64, Refused> {
    Ok(view.word64(handle.wrapping_add(VALUE), false)?.load(Ordering::Acquire) as i64)
}

/// Completes a packet: timestamps if wanted, then the decrement, then the interrupt if the signal asks for one.
///
/// # Errors
/// When the handle is not that of a signal that the GPU can see.
pub(crate) fn complete(
    view: &mut View,
    driver: &dyn Driver,
    handle: u64,
    times: Option<(u64, u64)>,
) -> Result<(), Refused> {
    let how = driver.times();
    let shift = if how == Times::Ahead { AHEAD } else { 0 };
    let times = times.filter(|_| how != Times::Never).map(|(start, end)| (start + shift, end + shift));
    match times.filter(|_| how != Times::Late) {
        Some((start, end)) if how == Times::EndFirst => {
            write(view, handle, END, end)?;
            pass(TORN);
            write(view, handle, START, start)?;
        }
        Some((start, end)) => {
            let (start, end) = if how == Times::Swapped { (end, start) } else { (start, end) };
            write(view, handle, START, start)?;
            write(view, handle, END, end)?;
        }
        None => {}
    }
    // Read before the decrement: afterwards the signal belongs to the host, which may use it for something else.
    let mailbox = view.word64(handle.wrapping_add(EVENT_MAILBOX), false)?.load(Ordering::Relaxed);
    let event = view.word32(handle.wrapping_add(EVENT_ID), false)?.load(Ordering::Relaxed);
    view.word64(handle.wrapping_add(VALUE), true)?.fetch_sub(1, Ordering::Release);
    if mailbox != 0 {
        view.word64(mailbox, true)?.store(event.into(), Ordering::Release);
        driver.raise_event(event);
    }
    if let Some((start, end)) = times.filter(|_| how == Times::Late) {
        pass(LATE);
        write(view, handle, START, start)?;
        write(view, handle, END, end)?;
    }
    Ok(())
}

/// By how many ticks the clock of [`Times::Ahead`] is ahead.
const AHEAD: u64 = 500_000;
/// How long after the decrement late times come: the host has long seen it by then.
const LATE: Duration = Duration::from_millis(2);
/// How long an end time is there without its start.
const TORN: Duration = Duration::from_micros(50);

/// Lets time pass.
fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

fn write(view: &mut View, handle: u64, field: u64, ticks: u64) -> Result<(), Refused> {
    view.word64(handle.wrapping_add(field), true)?.store(ticks, Ordering::Relaxed);
    Ok(())
}
