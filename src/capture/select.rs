//! Selects the dispatches that are captured.
//!
//! # Threads
//! Publishers, one at a time for each queue.

use std::collections::HashMap;
use std::sync::Mutex;

use hsa_sys::abi::aql::Packet;
use logdur_intercept::lock;
use logdur_journal::names::is_named;
use logdur_settings::{Grid, Interceptor, Occurrences};
use regex::Regex;

use crate::kernels::Kernels;

/// What the settings select.
pub(super) struct Selection {
    kernels: Option<Regex>,
    occurrences: Occurrences,
    grid: Option<Grid>,
    device: Option<usize>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Dispatches of each kernel and geometry.
    counts: HashMap<(u32, usize, [u32; 3], [u16; 3]), u64>,
    /// Whether a kernel's name matches, by the kernel's number.
    named: HashMap<u32, bool>,
    random: u64,
}

impl Selection {
    /// The selection that the settings describe.
    ///
    /// # Errors
    /// When the regular expression is invalid.
    pub(super) fn new(settings: &Interceptor) -> Result<Selection, regex::Error> {
        Ok(Selection {
            kernels: settings.capture_kernels.as_deref().map(Regex::new).transpose()?,
            occurrences: settings.capture_dispatches.clone(),
            grid: settings.capture_grid,
            device: settings.capture_device.map(|n| n as usize),
            // The seed only has to differ between runs.
            seen: Mutex::new(Seen { random: u64::from(std::process::id()) | 1 << 40, ..Seen::default() }),
        })
    }

    /// The expression for names, if there were dispatches and no name matched.
    pub(super) fn unmatched(&self) -> Option<&Regex> {
        let seen = lock(&self.seen);
        self.kernels.as_ref().filter(|_| !seen.named.is_empty() && seen.named.values().all(|named| !named))
    }

    /// Counts a dispatch. If it is captured: its number among those of its kernel and geometry.
    pub(super) fn wants(&self, kernels: &Kernels, agent: usize, packet: &Packet) -> Option<u64> {
        if self.device.is_some_and(|device| device != agent) {
            return None;
        }
        let (grid, workgroup) = (packet.grid_size(), packet.workgroup_size());
        if self.grid.is_some_and(|wanted| wanted.0 != grid) {
            return None;
        }
        let number = kernels.number(packet.kernel_object());
        let mut seen = lock(&self.seen);
        let Seen { counts, named, random } = &mut *seen;
        let is_named = |regex: &Regex| kernels.by_number(number).is_some_and(|k| is_named(&k.kernel.symbol, regex));
        if !*named.entry(number).or_insert_with(|| self.kernels.as_ref().is_none_or(is_named)) {
            return None;
        }
        let count = counts.entry((number, agent, grid, workgroup)).or_default();
        *count += 1;
        let wanted = match &self.occurrences {
            Occurrences::Ranges(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(count)),
            Occurrences::Every(step) => (*count - 1).is_multiple_of(*step),
            Occurrences::Random(share) => next(random) < *share,
        };
        wanted.then_some(*count)
    }
}

/// A number from 0 to 1: xorshift.
fn next(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1u64 << 53) as f64
}
