//! What is said of replacements: in notices, and when the process ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use logdur_intercept::Interceptor;
use logdur_kernel_cache::{Choice, Problem, Swap};
use logdur_settings as settings;
use logdur_settings::CacheMode;

use super::{Asked, State, Swapper};
use crate::ports::DescribeSwaps;

impl DescribeSwaps for Swapper {
    fn report(&self, interceptor: &Interceptor) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let State { running, said, .. } = &mut *state;
        for (replacement, name) in running.values() {
            if let Some(refusal) = replacement.refusal.get() {
                let subject = if self.instrument.is_some() { "instrumented" } else { "cache" };
                let text = format!("{subject}: {name} runs as it is where it has to: {refusal}");
                say(interceptor, said, format!("packets of {name}"), text);
            }
            if replacement.was_full.swap(false, Ordering::Relaxed) {
                interceptor.notice_once(
                    "kernargs",
                    format!("{name} ran as it is when more dispatches were in flight than there is memory for arguments that are laid out anew"),
                );
            }
        }
    }

    fn compares(&self, number: u32) -> bool {
        self.mode != CacheMode::Swap && self.compared.read().unwrap_or_else(|e| e.into_inner()).contains(&number)
    }

    fn end(&self, dispatches: u64, swapped: &BTreeMap<u32, u64>) -> Vec<String> {
        const SHOWN: usize = 8;
        // A thread that the end of the process has stopped may hold it for ever.
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        if let Some(instrument) = self.instrument {
            return self.end_of_clones(&state, instrument, dispatches, swapped);
        }
        let name = settings::Interceptor::kernel_cache;
        let empty = state.cache.empty_roots();
        let why = |p: &Problem| format!("; {}: {}", p.path.display(), p.reason);
        let why = |problem: Option<&Problem>| problem.map(why).unwrap_or_default();
        let mut lines: Vec<String> = empty
            .map(|(root, problem)| format!("{name}: {}: no kernels are in it{}", root.display(), why(problem)))
            .collect();
        if lines.len() == self.roots.len() {
            return lines;
        }
        let Asked { had_another, was_named, refused } = &state.asked;
        if !had_another {
            lines.push(format!("{name}: it has none of the kernels that the application has loaded"));
        } else if !was_named {
            lines.extend(self.filters.none_of("could be swapped"));
        }
        let listed = |all: Vec<String>| {
            let more = all.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!("; {more} more") } else { String::new() };
            all.into_iter().take(SHOWN).collect::<Vec<_>>().join("; ") + &more
        };
        let ran = swapped.iter().filter_map(|(number, count)| {
            let kernel = self.kernels.by_number(*number)?;
            Some(format!("{} by {}: {count}", kernel.name(), kernel.kernel.replaced))
        });
        let count: u64 = swapped.values().sum();
        let mut line = format!("swapped {count} of {dispatches} dispatches");
        if count > 0 {
            line += &format!(": {}", listed(ran.collect()));
        }
        if !refused.is_empty() {
            let refused: BTreeSet<String> =
                refused.iter().map(|((name, _), reason)| format!("{name}: {reason}")).collect();
            line += &format!("; refused: {}", listed(refused.into_iter().collect()));
        }
        lines.push(line);
        lines
    }
}

/// Which variables a replacement has of its own, and which are the application's.
pub(super) fn variables_told(swap: &Swap) -> String {
    let lists = [("shared", &swap.binding.shared), ("its own", &swap.binding.own)];
    let told = lists.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> = told.map(|(what, names)| format!("{what} {}", names.join(" "))).collect();
    if told.is_empty() { String::new() } else { format!(", variables: {}", told.join("; ")) }
}

pub(super) fn listed(choices: &[Choice]) -> String {
    let all = choices.iter().map(|c| format!("{} {}", c.hash.short(), c.candidate.path.display()));
    all.collect::<Vec<_>>().join(", ")
}

/// Says something, unless it was the last that was said of the same.
pub(super) fn say(interceptor: &Interceptor, said: &mut HashMap<String, String>, of: String, text: String) {
    let last = said.entry(of).or_default();
    if *last != text {
        interceptor.notice(&text);
        *last = text;
    }
}
