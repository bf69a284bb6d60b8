//! Selects the dispatches that are captured.
//!
//! # Threads
//! Publishers, one at a time for each queue.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use hsa_sys::abi::aql::Packet;
use logdur_journal::names::{is_named, names};
use logdur_settings::{Grid, Interceptor, Occurrences};
use logdur_system::lock;
use logdur_system::text::one_line;
use regex::Regex;

use crate::kernels::Kernels;

/// Most geometries and kernels that are remembered and named, of those that were dispatched and not asked for.
const NAMED: usize = 5;

/// What the settings select.
pub(super) struct Selection {
    kernels: Option<Regex>,
    exclude: Option<Regex>,
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
    /// GPUs that got dispatches, if one is asked for.
    devices: BTreeSet<usize>,
    /// The first grids of that GPU, if one is asked for.
    grids: BTreeSet<[u32; 3]>,
    /// Whether the grid that is asked for was dispatched.
    has_grid: bool,
    random: u64,
}

impl Selection {
    /// The selection that the settings describe.
    ///
    /// # Errors
    /// The variable of a regular expression that is invalid, and why.
    pub(super) fn new(settings: &Interceptor) -> Result<Selection, (&'static str, regex::Error)> {
        let compiled =
            |name, text: &Option<String>| text.as_deref().map(Regex::new).transpose().map_err(|error| (name, error));
        Ok(Selection {
            kernels: compiled(Interceptor::capture_kernels, &settings.capture_kernels)?,
            exclude: compiled(Interceptor::capture_exclude, &settings.capture_exclude)?,
            occurrences: settings.capture_dispatches.clone(),
            grid: settings.capture_grid,
            device: settings.capture_device.map(|n| n as usize),
            // The seed only has to differ between runs.
            seen: Mutex::new(Seen { random: u64::from(std::process::id()) | 1 << 40, ..Seen::default() }),
        })
    }

    /// What is asked for and was not among the dispatches that were looked at, in a line that names what was among them.
    pub(super) fn unmatched(&self, kernels: &Kernels) -> Option<String> {
        let seen = lock(&self.seen);
        if let Some(device) = self.device.filter(|device| !seen.devices.is_empty() && !seen.devices.contains(device)) {
            let others: Vec<String> = seen.devices.iter().map(|device| format!("GPU {device}")).collect();
            let name = Interceptor::capture_device;
            return Some(format!("{name}: no dispatch was to GPU {device}, but to {}", others.join(", ")));
        }
        let shown = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        if let Some(grid) = self.grid.filter(|_| !seen.grids.is_empty() && !seen.has_grid) {
            let others: Vec<String> = seen.grids.iter().copied().map(shown).collect();
            let name = Interceptor::capture_grid;
            return Some(format!("{name}: no dispatch had the grid {}, but {}", shown(grid.0), others.join(", ")));
        }
        if seen.named.is_empty() {
            return None;
        }
        let known = || seen.named.keys().filter_map(|number| kernels.by_number(*number));
        let is_none = |regex: &Regex| !known().any(|kernel| is_named(&kernel.kernel.symbol, regex));
        let filters = [(Interceptor::capture_kernels, &self.kernels), (Interceptor::capture_exclude, &self.exclude)];
        let others: BTreeSet<String> = known().filter_map(|kernel| names(&kernel.kernel.symbol).pop()).collect();
        let others = one_line(&listed(&others));
        for (name, filter) in filters {
            if let Some(filter) = filter.as_ref().filter(|filter| is_none(filter)) {
                return Some(format!("{name}: no kernel that was dispatched has a name like {filter}{others}"));
            }
        }
        let exclude = self.exclude.as_ref().filter(|_| !seen.named.values().any(|named| *named))?;
        let name = Interceptor::capture_exclude;
        Some(format!("{name}: every kernel that is asked for and was dispatched has a name like {exclude}{others}"))
    }

    /// Counts a dispatch of a region: its number among those of its kernel and geometry.
    pub(super) fn count(&self, kernels: &Kernels, agent: usize, packet: &Packet) -> u64 {
        let kernel = kernels.number(packet.kernel_object());
        let mut seen = lock(&self.seen);
        let count = seen.counts.entry((kernel, agent, packet.grid_size(), packet.workgroup_size())).or_default();
        *count += 1;
        *count
    }

    /// Counts a dispatch. If it is captured: its number among those of its kernel and geometry.
    pub(super) fn wants(&self, kernels: &Kernels, agent: usize, packet: &Packet) -> Option<u64> {
        let mut seen = lock(&self.seen);
        let Seen { counts, named, devices, grids, has_grid, random } = &mut *seen;
        if let Some(device) = self.device {
            devices.insert(agent);
            if device != agent {
                return None;
            }
        }
        let (grid, workgroup) = (packet.grid_size(), packet.workgroup_size());
        if let Some(wanted) = self.grid {
            *has_grid |= wanted.0 == grid;
            if grids.len() < NAMED {
                grids.insert(grid);
            }
            if wanted.0 != grid {
                return None;
            }
        }
        let number = kernels.number(packet.kernel_object());
        let is_named = |regex: &Regex| kernels.by_number(number).is_some_and(|k| is_named(&k.kernel.symbol, regex));
        let is_wanted = || self.kernels.as_ref().is_none_or(is_named) && !self.exclude.as_ref().is_some_and(is_named);
        if !*named.entry(number).or_insert_with(is_wanted) {
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

/// The first names, and how many others there are.
fn listed(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len().saturating_sub(NAMED) {
        _ if first.is_empty() => String::new(),
        0 => format!("; dispatched were {}", first.join(", ")),
        others => format!("; dispatched were {} and {others} others", first.join(", ")),
    }
}

/// A number from 0 to 1: xorshift.
fn next(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1u64 << 53) as f64
}
