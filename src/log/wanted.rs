//! Which dispatches the log wants, and what is said if a filter kept no row, or all rows, out of it.

use std::collections::BTreeSet;

use logdur_journal::{Filter, Operation, RowFilter};
use logdur_settings::Interceptor;
use logdur_system::text::one_line;

use crate::kernels::KnownKernel;

/// What the filters did to the dispatches whose records became rows.
#[derive(Default)]
pub(super) struct Filtered {
    /// Those that have no row.
    pub(super) dispatches: u64,
    /// Those of kernels with a wanted name.
    included: u64,
    /// Those of kernels with an unwanted name.
    excluded: u64,
    /// The agents that got dispatches, if rows are limited to agents.
    agents: BTreeSet<usize>,
}

impl Filtered {
    /// True if so many records of a kernel get rows.
    pub(super) fn wants(&mut self, filter: &Filter, kernel: Option<&KnownKernel>, agent: usize, records: u64) -> bool {
        if kernel.is_some_and(|kernel| kernel.kernel.operation != Operation::Dispatch) {
            return true;
        }
        let choice = kernel.map_or_else(|| filter.choice(None), |kernel| kernel.choice(filter));
        self.included += records * u64::from(choice.included);
        self.excluded += records * u64::from(choice.excluded);
        if filter.limits_agents() {
            self.agents.insert(agent);
        }
        let wants = choice.has_rows() && filter.wants_agent(agent);
        self.dispatches += records * u64::from(!wants);
        wants
    }

    /// Filters that matched nothing, or left nothing, of so many dispatches: a line for each.
    pub(super) fn unmatched(&self, filter: &Filter, dispatches: u64) -> Vec<String> {
        if dispatches == 0 {
            return Vec::new();
        }
        let names = [
            (Interceptor::log_filter, filter.only(), self.included),
            (Interceptor::log_exclude, filter.except(), self.excluded),
        ];
        let unmatched =
            names.iter().filter_map(|(name, regex, count)| regex.filter(|_| *count == 0).map(|r| (name, r)));
        let line =
            |(name, regex)| format!("{name}: none of {dispatches} dispatches is of a kernel with a name like {regex}");
        let mut lines: Vec<String> = unmatched.map(line).collect();
        if filter.limits_agents() && !self.agents.iter().any(|agent| filter.wants_agent(*agent)) {
            let others: Vec<String> = self.agents.iter().map(|agent| format!("GPU {agent}")).collect();
            lines.push(format!(
                "{}: none of {dispatches} dispatches was to these GPUs, but to {}",
                Interceptor::log_devices,
                others.join(", ")
            ));
        }
        if self.dispatches == dispatches && lines.is_empty() {
            let devices = filter.limits_agents().then_some(Interceptor::log_devices);
            let by: Vec<&str> =
                names.iter().filter_map(|(name, regex, _)| regex.map(|_| *name)).chain(devices).collect();
            lines.push(format!("{}: none of {dispatches} dispatches is left for the log", by.join(", ")));
        }
        lines
    }
}

/// Which dispatches have rows, for the log and for the records.
pub(crate) fn row_filter(settings: &Interceptor) -> RowFilter {
    RowFilter {
        only: settings.log_filter.clone(),
        except: settings.log_exclude.clone(),
        agents: settings.log_devices.as_ref().map_or(Vec::new(), |devices| devices.0.clone()),
    }
}

/// The filter of rows, and a line for each expression that is none.
pub(super) fn filter(settings: &Interceptor) -> (Filter, Vec<String>) {
    let (filter, bad) = Filter::new(&row_filter(settings));
    let instead =
        [(Interceptor::log_filter, "every kernel is logged"), (Interceptor::log_exclude, "no kernel is left out")];
    let lines = instead.into_iter().zip(bad).filter_map(|((name, instead), bad)| {
        let error = one_line(&bad?.to_string());
        Some(format!("{name}: expected a regular expression, {instead}: {error}"))
    });
    (filter, lines.collect())
}
