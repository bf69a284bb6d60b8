//! Tries variants of a captured dispatch one after the other, on memory that stays in place.
//!
//! Each variant is judged before it is timed. All variants share the replays of the application's own kernel. All memory is compared
//! after the first replays; after later ones, only memory that is known to change. So the cost of a variant depends on what the kernel
//! changes, not on the memory of the application.

use std::collections::VecDeque;

use logdur_captured::CapturedDispatch;
use logdur_captured::verify::{BufferReport, Judged, Overall};

use crate::device::Description;
use crate::error::Result;
use crate::judge::{Judgement, KernelRuns, judge};
use crate::loaded::{COMPARED, Launch, LoadedDispatch, LoadedVariant, Variant};
use crate::setup::Setup;

/// What came of a variant.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What it computed.
    pub overall: Overall,
    /// What was found of each buffer, when that is something else.
    pub buffers: Vec<BufferReport>,
    /// Why a PASS says less than it could, or why nothing can be said; one line each.
    pub qualified: Vec<String>,
    /// Nanoseconds on the GPU of each repetition, all verified; none when it computed something else.
    pub gpu_ns: Vec<u64>,
}

/// What variants are tried of.
pub trait Trials {
    /// What it is on.
    fn device(&self) -> &Description;

    /// Why a result says less than it could, one line each.
    fn qualified(&self) -> &[String];

    /// Tries a variant.
    ///
    /// # Errors
    /// When it may not be launched; nothing is lost then. When it faults or does not end: the process is of no use then.
    fn run(&mut self, variant: &Variant, repetitions: u32) -> Result<Ran>;
}

/// A dispatch on a device, of which variants are tried.
pub struct Variants<'c> {
    loaded: LoadedDispatch<'c>,
    /// The application's own kernel, and what its replays left.
    own: Launch,
    of_own: KernelRuns,
    /// Of which all memory was looked at.
    seen: Vec<Variant>,
    /// What replays of the last two that passed left: two that take turns are judged once.
    recent: VecDeque<(Variant, KernelRuns)>,
}

impl<'c> Variants<'c> {
    /// Puts a dispatch on a device, in this process, which has not started the runtime yet.
    ///
    /// # Errors
    /// As for [`replay`](crate::replay()).
    pub fn set(captured: &'c CapturedDispatch<'c>, setup: &Setup) -> Result<Variants<'c>> {
        let mut loaded = LoadedDispatch::set(captured, setup)?;
        loaded.restore_all()?;
        let own = loaded.launch(&Variant::default())?;
        Ok(Variants { loaded, own, of_own: KernelRuns::default(), seen: Vec::new(), recent: VecDeque::new() })
    }

    /// Tries a variant.
    fn tried(&mut self, variant: &Variant, repetitions: u32) -> Result<Ran> {
        let launch = self.loaded.launch(variant)?;
        let recent = self.recent.iter().position(|(recent, _)| recent == variant);
        let recent = recent.and_then(|at| self.recent.remove(at));
        let is_recent = recent.is_some();
        let mut left = recent.map(|(_, left)| left).unwrap_or_default();
        let mut ran = Ran { overall: Overall::Pass, buffers: Vec::new(), qualified: Vec::new(), gpu_ns: Vec::new() };
        if !is_recent && !self.passes(variant, &launch, &mut left, &mut ran)? {
            return Ok(ran);
        }
        let judged = self.loaded.plan(&self.own, &launch, COMPARED).judged;
        for _ in 0..repetitions {
            self.loaded.restore()?;
            let times = self.loaded.run(&launch)?;
            let pages = self.loaded.changed_of_known()?;
            let runs = if judged == Judged::Own { &mut self.of_own } else { &mut left };
            if !runs.runs.contains(&pages) {
                runs.push(pages, None);
                if !self.passes(variant, &launch, &mut left, &mut ran)? {
                    return Ok(ran);
                }
            }
            ran.gpu_ns.push(times.gpu_ns);
        }
        self.recent.truncate(1);
        self.recent.push_front((variant.clone(), left));
        Ok(ran)
    }

    /// Judges a variant.
    fn passes(&mut self, variant: &Variant, launch: &Launch, left: &mut KernelRuns, ran: &mut Ran) -> Result<bool> {
        let plan = self.loaded.plan(&self.own, launch, COMPARED);
        let (own_known, known) = (!self.of_own.runs.is_empty(), self.seen.contains(variant));
        let mut replays = LoadedVariant::new(&mut self.loaded, &self.own, launch).known(own_known, known);
        let judgement = judge(&mut replays, &mut self.of_own, left, &plan)?;
        let Judgement { overall, buffers, qualified } = judgement;
        (ran.overall, ran.qualified) = (overall, [self.loaded.strayed(&buffers), qualified].concat());
        if !known {
            self.seen.push(variant.clone());
        }
        let passes = overall == Overall::Pass;
        if !passes {
            ran.gpu_ns.clear();
            ran.buffers = buffers;
        }
        Ok(passes)
    }
}

impl Trials for Variants<'_> {
    fn device(&self) -> &Description {
        self.loaded.device().description()
    }

    fn qualified(&self) -> &[String] {
        &self.loaded.qualified
    }

    fn run(&mut self, variant: &Variant, repetitions: u32) -> Result<Ran> {
        self.tried(variant, repetitions)
    }
}
