//! Measures how long all steps of a region take back to back, with the application's own kernels and with others, in alternation.

use std::collections::BTreeMap;

use logdur_captured::region::CapturedPart;
use logdur_captured::verify::{BufferReport, Overall};

use super::run::{LoadedPart, Side};
use super::together::Order;
use super::{Options, Replaced, Reshaped, Together, verify};
use crate::device::Description;
use crate::error::Result;
use crate::loaded::{COMPARED, Variant};
use crate::placed::Pages;
use crate::stats::{Pairs, Summary, pairs};

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

/// How long replays took.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The time of all steps that the host sees, of each replay.
    pub host: Option<Summary>,
    /// The time of all launches on the GPU, of each replay.
    pub gpu: Option<Summary>,
    /// The rest of the time: between launches, and what the host writes there. None where steps ran beside each other.
    pub gaps: Option<Summary>,
    /// Each kernel, that with the largest share first; none where steps ran beside each other.
    pub kernels: Vec<KernelTimes>,
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
    /// Those whose dispatches had another geometry.
    pub reshaped: Vec<Reshaped>,
    /// Its verification before the measurement.
    pub overall: Overall,
    /// The verdict of each buffer.
    pub buffers: Vec<BufferReport>,
    /// Why the verification proves less than it could.
    pub qualified: Vec<String>,
    /// The times; nothing if the verification failed.
    pub measured: Measured,
    /// The same of the application's own kernels, if others take the place of some.
    pub own: Option<Measured>,
    /// The time that the host sees with others by that with the application's own, pair by pair.
    pub ratio: Option<Pairs>,
    /// How the steps ran beside each other.
    pub together: Option<Together>,
}

/// The replays of a side.
#[derive(Default)]
struct Runs {
    host: Vec<u64>,
    gpu: Vec<u64>,
    kernels: BTreeMap<String, (u64, u64)>,
    /// What they left: each once.
    ends: Vec<Pages>,
}

impl Runs {
    fn measured(self, is_concurrent: bool) -> Measured {
        let count = self.gpu.len().max(1);
        let all = self.gpu.iter().sum::<u64>() as f64;
        let of = |(kernel, (launches, ns)): (String, (u64, u64))| KernelTimes {
            kernel,
            launches: launches / count as u64,
            gpu_ns: ns as f64 / count as f64,
            share: if all > 0.0 { ns as f64 / all } else { 0.0 },
        };
        let mut kernels: Vec<KernelTimes> = self.kernels.into_iter().map(of).collect();
        kernels.sort_by(|a, b| b.share.total_cmp(&a.share));
        let gaps: Vec<u64> = self.host.iter().zip(&self.gpu).map(|(host, gpu)| host.saturating_sub(*gpu)).collect();
        let gaps = Summary::of(&gaps).filter(|_| !is_concurrent);
        Measured { host: Summary::of(&self.host), gpu: Summary::of(&self.gpu), gaps, kernels }
    }
}

/// Measures a part of a region in this process, which has not started the runtime yet. It is verified first; what does not pass is measured
/// only if that is asked for. Other kernels and the application's own take turns.
///
/// # Errors
/// As for [`replay`](super::replay).
pub fn bench(part: &CapturedPart<'_>, options: &Options, warm_up: u32) -> Result<Bench> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let own = loaded.side(&Variant::default())?;
    let side = loaded.side_with_memory(&options.variant)?;
    let [own, side] = [loaded.with_arguments(own)?, loaded.with_arguments(side)?];
    let judgement = verify(&mut loaded, [&own, &side], COMPARED)?.judgement;
    let sides = if side.is_like(&own) { vec![&side] } else { vec![&side, &own] };
    let mut runs: Vec<Runs> = sides.iter().map(|_| Runs::default()).collect();
    if judgement.overall == Overall::Pass || !options.verified {
        for number in 0..warm_up.saturating_add(options.repetitions) {
            let mut turns: Vec<_> = sides.iter().zip(&mut runs).collect();
            if number % 2 == 1 {
                turns.reverse();
            }
            for (side, runs) in turns {
                measure(&mut loaded, side, number >= warm_up, runs)?;
            }
        }
    }
    let mut qualified = [loaded.qualified(), judgement.qualified].concat();
    let ends = runs.first().map_or(0, |runs| runs.ends.len());
    if ends > 1 {
        qualified.push(format!("the measured replays left {ends} different memories"));
    }
    let mut runs = runs.into_iter();
    let (of_side, of_own) = (runs.next().unwrap_or_default(), runs.next());
    let both =
        of_own.as_ref().map(|own| own.host.iter().copied().zip(of_side.host.iter().copied()).collect::<Vec<_>>());
    Ok(Bench {
        region: part.region.record.id,
        steps: part.steps.len() as u64,
        device: loaded.loaded.device().description().clone(),
        relocated: loaded.loaded.is_relocated(),
        replaced: side.replaced,
        reshaped: side.reshaped,
        overall: judgement.overall,
        qualified,
        buffers: judgement.buffers,
        measured: of_side.measured(loaded.is_concurrent),
        own: of_own.map(|own| own.measured(loaded.is_concurrent)),
        ratio: both.and_then(|both| pairs(&both)),
        together: loaded.together,
    })
}

/// Replays all steps once, if that counts into the times, and looks at what they left.
fn measure(loaded: &mut LoadedPart<'_>, side: &Side, counts: bool, runs: &mut Runs) -> Result<()> {
    loaded.restore()?;
    let part = loaded.part;
    let mut of_steps = Vec::with_capacity(part.steps.len());
    let order = if loaded.is_concurrent { Order::Dependencies } else { Order::Submitted };
    let times = loaded.run_queued(side, order, &mut |number, took| of_steps.push((number, took)))?;
    if !counts {
        return Ok(());
    }
    // Kernels beside each other share the GPU.
    let of_steps = if order == Order::Submitted { of_steps } else { Vec::new() };
    for (number, took) in of_steps {
        if let Some(step) = part.steps.get(number) {
            let (launches, ns) = runs.kernels.entry(part.symbol(step).to_owned()).or_default();
            (*launches, *ns) = (*launches + 1, *ns + took);
        }
    }
    runs.host.push(times.host_ns);
    runs.gpu.push(times.gpu_ns);
    let end = loaded.loaded.changed_of_known()?;
    if !runs.ends.contains(&end) {
        runs.ends.push(end);
    }
    Ok(())
}
