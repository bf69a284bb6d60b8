//! Variants of a captured dispatch, tried one after the other on memory that stays where it is.
//!
//! Each is verified before it is timed: all memory is looked at after its first run, and what is known to change after every
//! other one. So a variant costs what the kernel changes, not what the application had.

use std::collections::VecDeque;

use crate::case::Case;
use crate::device::Description;
use crate::error::Result;
use crate::memory::Pages;
use crate::stage::{Setup, Stage, Variant};
use crate::verify::{BufferReport, Overall};

/// What came of a variant.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What it computed.
    pub overall: Overall,
    /// What was found of each buffer, when that is something else.
    pub buffers: Vec<BufferReport>,
    /// Nanoseconds on the GPU of each repetition, all verified; none when it computed something else.
    pub gpu_ns: Vec<u64>,
}

/// A dispatch on a device, of which variants are tried.
pub struct Variants<'c> {
    stage: Stage<'c>,
    /// Of which all memory was looked at.
    seen: Vec<Variant>,
    /// What the first runs of the last two that passed changed: two that take turns are looked at once.
    recent: VecDeque<(Variant, Vec<Pages>)>,
}

impl<'c> Variants<'c> {
    /// Puts a dispatch on a device, in this process, which has not started the runtime yet.
    ///
    /// # Errors
    /// As for [`replay`](crate::replay()).
    pub fn set(case: &'c Case<'c>, setup: &Setup) -> Result<Variants<'c>> {
        let mut stage = Stage::set(case, setup)?;
        stage.restore_all()?;
        Ok(Variants { stage, seen: Vec::new(), recent: VecDeque::new() })
    }

    /// What it is on.
    pub fn device(&self) -> &Description {
        self.stage.device().description()
    }

    /// Why a result says less than it could, one line each.
    pub fn weaknesses(&self) -> &[String] {
        &self.stage.weaknesses
    }

    /// Tries a variant.
    ///
    /// # Errors
    /// When it may not be launched; nothing is lost then. When it faults or does not end: the process is of no use then.
    pub fn run(&mut self, variant: &Variant, repetitions: u32) -> Result<Ran> {
        let launch = self.stage.launch(variant)?;
        let mut ran = Ran { overall: Overall::Pass, buffers: Vec::new(), gpu_ns: Vec::new() };
        let recent = self.recent.iter().position(|(recent, _)| recent == variant);
        let first = match recent.and_then(|at| self.recent.remove(at)) {
            Some((_, first)) => first,
            None => {
                let all = !self.seen.contains(variant);
                let first = self.stage.look(&launch, all)?;
                if all {
                    self.seen.push(variant.clone());
                }
                if !self.passes(&first, &mut ran)? {
                    return Ok(ran);
                }
                first
            }
        };
        let is_deterministic = first.windows(2).all(|pair| matches!(pair, [a, b] if a == b));
        for _ in 0..repetitions {
            self.stage.restore()?;
            let times = self.stage.run(&launch)?;
            let pages = self.stage.changed_of_known()?;
            if !first.contains(&pages) {
                // What differs among runs is masked where the first ones did: one that was always the same has to stay so.
                let runs = if is_deterministic { vec![pages] } else { [&first[..], &[pages]].concat() };
                if !self.passes(&runs, &mut ran)? {
                    return Ok(ran);
                }
            }
            ran.gpu_ns.push(times.gpu_ns);
        }
        self.recent.truncate(1);
        self.recent.push_front((variant.clone(), first));
        Ok(ran)
    }

    /// Compares what runs changed with what the application's kernel changed.
    fn passes(&mut self, runs: &[Pages], ran: &mut Ran) -> Result<bool> {
        let buffers = self.stage.compare(runs)?;
        ran.overall = Overall::of(&buffers);
        let passes = ran.overall == Overall::Pass;
        if !passes {
            ran.gpu_ns.clear();
            ran.buffers = buffers;
        }
        Ok(passes)
    }
}
