//! Measures how long all steps of a region take back to back.

use std::collections::BTreeMap;

use logdur_captured::region::CapturedPart;
use logdur_captured::verify::{BufferReport, Overall};

use super::run::{LoadedPart, Side};
use super::{Options, Replaced, Together, verify};
use crate::device::Description;
use crate::error::Result;
use crate::loaded::{COMPARED, Variant};
use crate::stats::Summary;

/// How long the launches of a kernel took, of all launches.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTimes {
    /// The symbol.
    pub kernel: String,
    /// Its launches in one replay.
    pub launches: u64,
    /// Nanoseconds on the GPU of all of them: the mean of the replays.
    pub gpu_ns: f64,
    /// Which part of the time of all launches that is, from 0 to 1.
    pub share: f64,
}

/// What was measured of a region.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The region.
    pub region: u64,
    /// How many steps it has.
    pub steps: u64,
    /// The device.
    pub device: Description,
    /// True if some memory or code is not at its captured address.
    pub relocated: bool,
    /// The kernels that others took the place of.
    pub replaced: Vec<Replaced>,
    /// Its verification before the measurement.
    pub overall: Overall,
    /// The verdict of each buffer.
    pub buffers: Vec<BufferReport>,
    /// Why the verification proves less than it could.
    pub qualified: Vec<String>,
    /// The time of all steps that the host sees, of each replay; none if the verification failed.
    pub host: Option<Summary>,
    /// The time of all launches on the GPU, of each replay.
    pub gpu: Option<Summary>,
    /// Each kernel, that with the largest share first; none where steps ran beside each other.
    pub kernels: Vec<KernelTimes>,
    /// How the steps ran beside each other.
    pub together: Option<Together>,
}

/// Measures a part of a region in this process, which has not started the runtime yet. It is verified first; what does not pass is measured
/// only if that is asked for.
///
/// # Errors
/// As for [`replay`](super::replay).
pub fn bench(part: &CapturedPart<'_>, options: &Options, warm_up: u32) -> Result<Bench> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let own = loaded.side(&Variant::default())?;
    let side = loaded.side(&options.variant)?;
    let judgement = verify(&mut loaded, [&own, &side], COMPARED)?.judgement;
    let (mut host, mut gpu, mut kernels) = (Vec::new(), Vec::new(), BTreeMap::<String, (u64, u64)>::new());
    if judgement.overall == Overall::Pass || !options.verified {
        for number in 0..warm_up.saturating_add(options.repetitions) {
            let times = measure(&mut loaded, &side, number >= warm_up, &mut kernels)?;
            if number >= warm_up {
                host.push(times.host_ns);
                gpu.push(times.gpu_ns);
            }
        }
    }
    let runs = gpu.len().max(1) as f64;
    let all = gpu.iter().sum::<u64>() as f64;
    let mut kernels: Vec<KernelTimes> = kernels
        .into_iter()
        .map(|(kernel, (launches, ns))| KernelTimes {
            kernel,
            launches: launches / gpu.len().max(1) as u64,
            gpu_ns: ns as f64 / runs,
            share: if all > 0.0 { ns as f64 / all } else { 0.0 },
        })
        .collect();
    kernels.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(Bench {
        region: part.region.record.id,
        steps: part.steps.len() as u64,
        device: loaded.loaded.device().description().clone(),
        relocated: loaded.loaded.is_relocated(),
        replaced: side.replaced,
        overall: judgement.overall,
        qualified: [part.qualified.clone(), loaded.loaded.qualified.clone(), judgement.qualified].concat(),
        buffers: judgement.buffers,
        host: Summary::of(&host),
        gpu: Summary::of(&gpu),
        kernels,
        together: loaded.together,
    })
}

/// Replays all steps once; the times of kernels are added up if they count.
fn measure(
    loaded: &mut LoadedPart<'_>,
    side: &Side,
    counts: bool,
    kernels: &mut BTreeMap<String, (u64, u64)>,
) -> Result<super::PartTimes> {
    loaded.restore()?;
    let part = loaded.part;
    let mut of_steps = Vec::with_capacity(part.steps.len());
    if loaded.is_concurrent {
        return loaded.run_all(side);
    }
    let times = loaded.run(side, part.steps.len(), &mut |_, number, took| {
        of_steps.push((number, took));
        Ok(())
    })?;
    for (number, took) in of_steps.into_iter().filter(|_| counts) {
        if let (Some(step), Some(took)) = (part.steps.get(number), took) {
            let (launches, ns) = kernels.entry(part.symbol(step).to_owned()).or_default();
            (*launches, *ns) = (*launches + 1, *ns + took);
        }
    }
    Ok(times)
}
