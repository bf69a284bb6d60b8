//! A captured dispatch and its replays, and a fault.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::device::{Device, Dispatch, WORKGROUP};
use crate::finding::{CheckError, Findings};
use crate::{CAPTURE, Site};

type Result = std::result::Result<Findings, CheckError>;

/// Workgroups of the captured kernel.
const WORKGROUPS: u32 = 16;
/// How long a fault may take to be reported.
const REPORTED: Duration = Duration::from_secs(10);
/// Dispatches on another queue that are in flight when the capture begins.
const BESIDE: usize = 200;

/// Adds two vectors in the GPU's memory, and compares the sums. The library captures the dispatch.
pub(crate) fn add(site: &Site) -> Result {
    let device = Device::start()?;
    let (queue, other) = (device.queue(64)?, device.queue(1024)?);
    let items = (WORKGROUPS * WORKGROUP) as usize;
    let bytes = 4 * items;
    let (input, output) = (device.host(2 * items)?, device.host(items)?);
    for (word, n) in input.iter().zip(0u32..) {
        word.store(n.wrapping_mul(2_654_435_761), Ordering::Relaxed);
    }
    let vram = [device.vram(2 * bytes)?, device.vram(bytes)?];
    let copied = |to: (*mut u8, bool), from: (*const u8, bool), bytes: usize| -> std::result::Result<(), CheckError> {
        let done = device.signal(1)?;
        // SAFETY: both places have so many bytes and are never given back.
        unsafe { device.copy(to, from, bytes, done) }?;
        device.wait_for_copy(done)?;
        Ok(())
    };
    copied((vram[0].as_ptr(), true), (input.as_ptr().cast(), false), 2 * bytes)?;
    let empty = Dispatch { kernel: device.kernel("empty")?, workgroups: 1, kernarg: 0, signal: 0 };
    for _ in 0..BESIDE {
        other.dispatch(&empty)?;
    }
    let address = |memory: std::ptr::NonNull<u8>| memory.as_ptr().expose_provenance() as u64;
    let (a, sum) = (address(vram[0]), address(vram[1]));
    let kernarg = device.arguments(&[a, a + bytes as u64, sum])?;
    let done = device.signal(1)?;
    let kernel = device.kernel("add")?;
    queue.dispatch(&Dispatch { kernel, workgroups: WORKGROUPS, kernarg, signal: done.handle() })?;
    queue.wait(done)?;
    copied((output.as_ptr().cast::<u8>().cast_mut(), false), (vram[1].as_ptr(), true), bytes)?;
    other.drain()?;
    let load = |n: usize| input[n].load(Ordering::Relaxed);
    let wrong =
        (0..items).filter(|&n| output[n].load(Ordering::Relaxed) != load(n).wrapping_add(load(items + n))).count();
    device.api.shut_down()?;
    let log = site.log()?;
    let mut found = Findings::default();
    found.expect(wrong == 0, || format!("{wrong} of {items} sums are wrong"));
    let size = std::fs::metadata(site.folder.join(CAPTURE)).map_or(0, |data| data.len());
    found.figure("capture_bytes", size);
    let taken = log.notices.iter().any(|notice| notice.contains(": 1 dispatches of 1 kernels"));
    found.expect(taken && size > 0, || format!("the dispatch was not captured: {}", last_about_capture(&log.notices)));
    Ok(found)
}

/// What the library says of the capture, without the names of folders.
fn last_about_capture(notices: &[String]) -> String {
    let about = notices.iter().rev().find(|notice| notice.contains("captur"));
    about.map_or("no notice says why".to_owned(), |notice| {
        notice.split_once(CAPTURE).map_or(notice.clone(), |(_, rest)| rest.trim_start_matches([':', ' ']).to_owned())
    })
}

/// What `omniprobe verify` has written, in the file `verify.json` of the folder.
fn verdicts(site: &Site) -> std::result::Result<Vec<Value>, CheckError> {
    let text = std::fs::read_to_string(site.folder.join("verify.json"));
    let text = text.map_err(|error| CheckError::File { what: "the output of omniprobe verify", error })?;
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|v: &Value| v.get("result").is_some())
        .collect())
}

/// The replay gave what the application got.
pub(crate) fn verified(site: &Site) -> Result {
    let mut found = Findings::default();
    let verdicts = verdicts(site)?;
    let results: Vec<&str> = verdicts.iter().filter_map(|v| v["result"].as_str()).collect();
    found.figure("result", results.join(", "));
    found.expect(!results.is_empty() && results.iter().all(|result| result.starts_with("PASS")), || {
        format!("the replay of a captured dispatch is {}", if results.is_empty() { "missing" } else { results[0] })
    });
    Ok(found)
}

/// The replay had its memory at the captured addresses.
pub(crate) fn placed(site: &Site) -> Result {
    let mut found = verified(site)?;
    let placed = verdicts(site)?.iter().filter_map(|v| v["placed"].as_str().map(str::to_owned)).next();
    found.figure("placed", placed.clone().unwrap_or_default());
    found.expect(placed.as_deref() == Some("exact"), || {
        format!("the memory of a replay is not at the captured addresses: {}", placed.unwrap_or("unknown".to_owned()))
    });
    Ok(found)
}

/// A kernel that reads address 0: the runtime reports it, and the process can go on.
pub(crate) fn fault(_: &Site) -> Result {
    let device = Device::start()?;
    device.api.watch_faults()?;
    let queue = device.queue(64)?;
    let kernarg = device.arguments(&[0, 0, 0])?;
    let done = device.signal(1)?;
    queue.dispatch(&Dispatch { kernel: device.kernel("add")?, workgroups: 1, kernarg, signal: done.handle() })?;
    let mut found = Findings::default();
    let start = Instant::now();
    let fault = loop {
        if let Some(fault) = hsa::fault() {
            break fault;
        }
        if done.memory().value.load(Ordering::Acquire) <= 0 {
            found.broken.push("a kernel that reads address 0 completed".to_owned());
            return Ok(found);
        }
        if start.elapsed() > REPORTED {
            found.broken.push(format!("a read of address 0 is not reported in {REPORTED:?}"));
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    found.figure("fault_page", fault.address >> 12);
    found.expect(fault.address >> 12 == 0, || format!("a fault at address 0 is reported at {:#x}", fault.address));
    Ok(found)
}
