//! Memory: scratch while a queue is held, and the GPU's memory read by its copy engines and by the host.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hsa::KernelSymbol;
use hsa::sys::raw::{hsa_agent_t, hsa_signal_t};

use crate::Site;
use crate::device::{Device, DeviceError, Dispatch, WORKGROUP};
use crate::finding::{CheckError, Findings};

type Result = std::result::Result<Findings, CheckError>;

/// Workgroups of the kernels that use scratch.
const WORKGROUPS: u32 = 64;
/// Bytes that are copied.
const COPIED: usize = 16 << 20;
/// How long a copy may take that nothing should block.
const COPY_LIMIT: Duration = Duration::from_secs(2);

/// How many of a kernel's work-items did not store their number.
fn wrong(
    device: &Device,
    queue: &crate::device::Queue<'_>,
    kernel: &KernelSymbol,
) -> std::result::Result<u64, CheckError> {
    let items = WORKGROUPS * WORKGROUP;
    let out = device.host(items as usize)?;
    out.iter().for_each(|word| word.store(u32::MAX, Ordering::Relaxed));
    let kernarg = device.arguments(&[out.as_ptr().expose_provenance() as u64])?;
    let done = device.signal(1)?;
    queue.dispatch(&Dispatch { kernel, workgroups: WORKGROUPS, kernarg, signal: done.handle() })?;
    queue.wait(done)?;
    Ok(out.iter().zip(0..).filter(|(word, n): &(&AtomicU32, u32)| word.load(Ordering::Relaxed) != *n).count() as u64)
}

/// Kernels with little and much scratch in turns, and code that is loaded while a kernel runs.
pub(crate) fn scratch(_: &Site) -> Result {
    let device = Device::start()?;
    let (queue, held) = (device.queue(64)?, device.queue(64)?);
    let mut found = Findings::default();
    // A packet that is reserved and not written yet: its queue stands.
    let waiting = held.reserve(1)?;
    for name in ["scratch_small", "scratch_large", "scratch_small", "scratch_large"] {
        let wrong = wrong(&device, &queue, device.kernel(name)?)?;
        found.expect(wrong == 0, || {
            format!("{wrong} work-items of {name} read something else from scratch than they wrote")
        });
    }
    let flag = &device.host(1)?[0];
    let kernarg = device.arguments(&[flag.as_ptr().expose_provenance() as u64])?;
    let done = device.signal(1)?;
    held.write(waiting, &Dispatch { kernel: device.kernel("wait")?, workgroups: 1, kernarg, signal: done.handle() })?;
    held.ring(waiting)?;
    let kernels = device.load_again()?;
    let wrong = wrong(&device, &queue, Device::named(&kernels, "scratch_small")?)?;
    found.expect(wrong == 0, || format!("{wrong} work-items of code that was loaded while a kernel ran are wrong"));
    flag.store(1, Ordering::Release);
    held.wait(done)?;
    Ok(found)
}

/// Copies out of the GPU's memory, compared with what was copied in.
pub(crate) fn reading(_: &Site) -> Result {
    let device = Device::start()?;
    let mut found = Findings::default();
    let words = COPIED / 4;
    let (source, back) = (device.host(words)?, device.host(words)?);
    for (word, n) in source.iter().zip(0u32..) {
        word.store(n.wrapping_mul(0x9e37_79b9), Ordering::Relaxed);
    }
    let vram = device.vram(COPIED)?;
    let (from, to) = (source.as_ptr().cast::<u8>(), back.as_ptr().cast::<u8>().cast_mut());
    let copied = |to: (*mut u8, bool), from: (*const u8, bool)| -> std::result::Result<f64, DeviceError> {
        let done = device.signal(1)?;
        let start = Instant::now();
        // SAFETY: both places have so many bytes and are never given back.
        unsafe { device.copy(to, from, COPIED, done) }?;
        device.wait_for_copy(done)?;
        Ok(COPIED as f64 / start.elapsed().as_secs_f64() / 1e9)
    };
    let differing =
        || back.iter().zip(source).filter(|(a, b)| a.load(Ordering::Relaxed) != b.load(Ordering::Relaxed)).count();
    found.figure("to_gpu_gb_per_s", rounded(copied((vram.as_ptr(), true), (from, false))?));
    found.figure("from_gpu_gb_per_s", rounded(copied((to, false), (vram.as_ptr(), true))?));
    let wrong = differing();
    found.expect(wrong == 0, || format!("{wrong} words that a copy engine read differ from what was written"));

    // As a program with double buffering leaves them when a capture begins: copies that wait, in both directions.
    let gate = device.signal(1)?;
    let ends = [device.signal(1)?, device.signal(1)?];
    let small = 4096;
    let gpu = |is_gpu: bool| hsa_agent_t { handle: if is_gpu { device.gpu.handle } else { device.host_agent() } };
    let copy = device.api.amd.hsa_amd_memory_async_copy_fn.ok_or(DeviceError::Missing("hsa_amd_memory_async_copy"))?;
    let waits = [hsa_signal_t { handle: gate.handle() }];
    let (in_vram, in_host) = (vram.as_ptr(), source.as_ptr().cast::<u8>().cast_mut());
    for (to_gpu, end) in [(true, ends[0]), (false, ends[1])] {
        let (to, from) = if to_gpu { (in_vram, in_host) } else { (in_host, in_vram) };
        let end = hsa_signal_t { handle: end.handle() };
        // SAFETY: both places have so many bytes, the signals are not destroyed, and one signal is waited for.
        let status = unsafe { copy(to.cast(), gpu(to_gpu), from.cast(), gpu(!to_gpu), small, 1, waits.as_ptr(), end) };
        found.expect(status.0 == 0, || format!("a copy that waits was refused with status {:#x}", status.0));
    }
    let read = device.signal(1)?;
    // SAFETY: both places have so many bytes and are never given back.
    unsafe { device.copy((to, false), (vram.as_ptr(), true), small, read) }?;
    let start = Instant::now();
    let is_read = || read.memory().value.load(Ordering::Acquire) <= 0;
    while !is_read() && start.elapsed() < COPY_LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
    found.figure("copy_behind_waiting_copies", if is_read() { "completes" } else { "waits with them" });
    gate.memory().value.store(0, Ordering::Release);
    for end in ends.into_iter().chain([read]) {
        device.wait_for_copy(end)?;
    }

    // By the host itself, where the aperture shows this memory.
    let visible = device.share_with_host(vram);
    found.figure("host_reads_gpu_memory", visible);
    if visible {
        let start = Instant::now();
        let shown = vram.cast::<AtomicU32>();
        let part = words / 16;
        // SAFETY: the runtime has given the host access to this memory, which has more words.
        let shown = unsafe { std::slice::from_raw_parts(shown.as_ptr(), part) };
        let wrong =
            shown.iter().zip(source).filter(|(a, b)| a.load(Ordering::Relaxed) != b.load(Ordering::Relaxed)).count();
        found.figure("host_gb_per_s", rounded(4.0 * part as f64 / start.elapsed().as_secs_f64() / 1e9));
        found.expect(wrong == 0, || format!("{wrong} words that the host read differ from what was written"));
    }
    Ok(found)
}

/// With two digits behind the point: more are noise.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
