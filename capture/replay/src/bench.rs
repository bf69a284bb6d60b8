//! Measures how long a captured dispatch takes: with one kernel, or with two in alternation.
//!
//! Each kernel is verified before and after it is timed: the speed of a kernel with wrong results means nothing.

use std::str::FromStr;
use std::time::Instant;

use logdur_captured::CapturedDispatch;
use logdur_captured::verify::{BufferReport, Judged, Overall};

use crate::device::Description;
use crate::error::Result;
use crate::judge::{Judgement, KernelRuns, judge};
use crate::loaded::{COMPARED, Launch, LoadedDispatch, LoadedVariant, Variant};
use crate::setup::Setup;
use crate::stats::{Pairs, Summary, pairs};

/// The least runs of each kernel before a target can end the measurement: fewer tell nothing about their spread.
pub const LEAST: u32 = 10;

/// What is put back between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restore {
    /// What the kernel changes.
    #[default]
    Dirty,
    /// All memory.
    Full,
    /// Nothing: the kernel works on the memory that the last run left, and only the first run was verified.
    None,
}

impl FromStr for Restore {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Restore, String> {
        match text {
            "dirty" => Ok(Restore::Dirty),
            "full" => Ok(Restore::Full),
            "none" => Ok(Restore::None),
            _ => Err(format!("expected dirty, full or none, found {text:?}")),
        }
    }
}

/// How a dispatch is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it runs on.
    pub setup: Setup,
    /// One kernel, or two that are compared.
    pub variants: Vec<Variant>,
    /// Warm-up runs before the measured ones.
    pub warm_up: u32,
    /// Measured runs of each kernel; with a target, the most.
    pub repetitions: u32,
    /// The relative half-width of the median's confidence interval that ends the measurement.
    pub target: Option<f64>,
    /// What is put back between runs.
    pub restore: Restore,
    /// Flush the caches before each run.
    pub cold: bool,
    /// Also measure a kernel with wrong results.
    pub allow_mismatch: bool,
}

/// What was measured of a kernel.
#[derive(Clone, Debug)]
pub struct Side {
    /// The code object that ran instead of the application's, and where it came from.
    pub replaced: Option<(logdur_capture::Id, String)>,
    /// Its verification, before and after the measurement.
    pub overall: Overall,
    /// The verdict of each buffer.
    pub buffers: Vec<BufferReport>,
    /// True for another kernel that passed on the captured bytes alone: see [`Report::one_pattern`](crate::Report::one_pattern).
    pub one_pattern: bool,
    /// Why the verification proves less than it could.
    pub qualified: Vec<String>,
    /// Nanoseconds on the GPU, in the order of the runs; none if the verification failed.
    pub gpu_ns: Vec<u64>,
    /// Nanoseconds from before the packet was written until the host saw its completion.
    pub host_ns: Vec<u64>,
    /// Statistics of `gpu_ns`.
    pub summary: Option<Summary>,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// The dispatch's number in its process.
    pub dispatch: u64,
    /// The kernel's symbol.
    pub kernel: String,
    /// The device.
    pub device: Description,
    /// True if some memory or code is not at its captured address.
    pub relocated: bool,
    /// How long the application's dispatch took.
    pub recorded_ns: Option<u64>,
    /// Bytes of all captured memory.
    pub bytes: u64,
    /// Bytes that were restored before each run.
    pub restored: u64,
    /// How long the restore took: the median in nanoseconds.
    pub restore_ns: Option<f64>,
    /// Each kernel.
    pub sides: Vec<Side>,
    /// Ratios of the second kernel's durations to the first's, of adjacent runs.
    pub pairs: Option<Pairs>,
}

/// Measures a dispatch in this process, which has not started the runtime yet.
///
/// # Errors
/// As for [`replay`](crate::replay()).
pub fn bench(captured: &CapturedDispatch<'_>, options: &Options) -> Result<Report> {
    let mut loaded = LoadedDispatch::set(captured, &options.setup)?;
    let mut launches = Vec::new();
    for variant in &options.variants {
        launches.push(loaded.launch(variant)?);
    }
    let own = loaded.launch(&Variant::default())?;
    let mut of_own = KernelRuns::default();
    let mut sides = Vec::new();
    for launch in &launches {
        sides.push(verified(&mut loaded, &own, launch, &mut of_own)?);
    }
    let mut restores = Vec::new();
    if options.allow_mismatch || sides.iter().all(|side| side.overall == Overall::Pass) {
        let mut runs = Runs { loaded: &mut loaded, options, restores: &mut restores };
        runs.all(&launches, &mut sides)?;
        if options.restore != Restore::None {
            for (launch, side) in launches.iter().zip(&mut sides) {
                let last = verified(&mut loaded, &own, launch, &mut of_own)?;
                if last.overall != Overall::Pass {
                    (side.overall, side.buffers, side.qualified) = (last.overall, last.buffers, last.qualified);
                }
            }
        }
    }
    for side in &mut sides {
        side.summary = Summary::of(&side.gpu_ns);
    }
    let pairs = match sides.as_slice() {
        [a, b] => pairs(&a.gpu_ns.iter().copied().zip(b.gpu_ns.iter().copied()).collect::<Vec<_>>()),
        _ => None,
    };
    let (bytes, dirty) = loaded.bytes();
    Ok(Report {
        dispatch: captured.dispatch.id,
        kernel: captured.original.kernel.name.clone(),
        device: loaded.device().description().clone(),
        relocated: loaded.is_relocated(),
        recorded_ns: captured.duration_ns(),
        bytes,
        restored: match options.restore {
            Restore::Dirty => dirty,
            Restore::Full => bytes,
            Restore::None => 0,
        },
        restore_ns: Summary::of(&restores).map(|summary| summary.median_ns),
        sides,
        pairs,
    })
}

/// Launches that [`counted`] makes before those that count.
pub fn before_counted(options: &Options) -> u32 {
    options.warm_up.saturating_add(1)
}

/// Runs one of the variants for a profiler that watches this process, which has not started the runtime yet: the launches of
/// [`before_counted`], then [`Options::repetitions`]. Each is on restored memory. Nothing is compared.
///
/// # Errors
/// As for [`replay`](crate::replay()).
pub fn counted(captured: &CapturedDispatch<'_>, options: &Options, variant: &Variant) -> Result<()> {
    let mut loaded = LoadedDispatch::set(captured, &options.setup)?;
    let launch = loaded.launch(variant)?;
    loaded.restore_all()?;
    loaded.run(&launch)?;
    // What another kernel changes is put back from now on, too.
    loaded.changed()?;
    let mut runs = Runs { loaded: &mut loaded, options, restores: &mut Vec::new() };
    for _ in 1..before_counted(options) + options.repetitions {
        runs.run(&launch)?;
    }
    Ok(())
}

/// Replays a launch on restored memory, in turns with the application's own, and judges it.
fn verified(loaded: &mut LoadedDispatch<'_>, own: &Launch, launch: &Launch, of_own: &mut KernelRuns) -> Result<Side> {
    let plan = loaded.plan(own, launch, COMPARED);
    let mut replays = LoadedVariant::new(loaded, own, launch);
    let Judgement { overall, buffers, qualified } = judge(&mut replays, of_own, &mut KernelRuns::default(), &plan)?;
    let qualified = [loaded.qualified.clone(), loaded.strayed(&buffers), qualified].concat();
    Ok(Side {
        replaced: launch.replaced.clone(),
        overall,
        buffers,
        one_pattern: plan.judged == Judged::Other && overall == Overall::Pass,
        qualified,
        gpu_ns: Vec::new(),
        host_ns: Vec::new(),
        summary: None,
    })
}

/// The runs that are timed.
struct Runs<'a, 'c> {
    loaded: &'a mut LoadedDispatch<'c>,
    options: &'a Options,
    restores: &'a mut Vec<u64>,
}

impl Runs<'_, '_> {
    fn all(&mut self, launches: &[Launch], sides: &mut [Side]) -> Result<()> {
        for launch in launches.iter().cycle().take(launches.len() * self.options.warm_up as usize) {
            self.run(launch)?;
        }
        self.restores.clear();
        for number in 0..self.options.repetitions.max(1) {
            // A B, then B A: what drifts, drifts for both.
            let mut order: Vec<(&Launch, &mut Side)> = launches.iter().zip(&mut *sides).collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for (launch, side) in order {
                let times = self.run(launch)?;
                side.gpu_ns.push(times.gpu_ns);
                side.host_ns.push(times.host_ns);
            }
            let sure = |target| sides.iter().all(|s| Summary::of(&s.gpu_ns).is_some_and(|s| s.is_as_sure_as(target)));
            // Whether it is enough is asked seldom: the answer takes longer than a short kernel.
            let runs = number + 1;
            if runs >= LEAST && runs.is_multiple_of(LEAST / 2) && self.options.target.is_some_and(sure) {
                break;
            }
        }
        Ok(())
    }

    fn run(&mut self, launch: &Launch) -> Result<crate::Times> {
        let start = Instant::now();
        match self.options.restore {
            Restore::Dirty => self.loaded.restore()?,
            Restore::Full => self.loaded.restore_all()?,
            Restore::None => {}
        }
        self.restores.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if self.options.cold {
            self.loaded.flush_caches()?;
        }
        self.loaded.run(launch)
    }
}
