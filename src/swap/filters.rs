//! Which kernels the user wants to have swapped or instrumented.

use logdur_journal::names::is_named;
use logdur_settings::Interceptor;
use logdur_system::text::one_line;
use regex::Regex;

/// The expressions of the settings.
pub(super) struct Filters {
    wanted: Option<Regex>,
    unwanted: Option<Regex>,
}

impl Filters {
    /// Those of the settings.
    ///
    /// # Errors
    /// That one is no expression: only some kernels were to be replaced, not all.
    pub(super) fn new(settings: &Interceptor) -> Result<Filters, String> {
        let compiled = |name: &str, text: &Option<String>| {
            text.as_deref().map(Regex::new).transpose().map_err(|error| {
                let error = one_line(&error.to_string());
                format!("{name}: expected a regular expression, no kernel is swapped or instrumented: {error}")
            })
        };
        Ok(Filters {
            wanted: compiled(Interceptor::filter, &settings.filter)?,
            unwanted: compiled(Interceptor::filter_exclude, &settings.filter_exclude)?,
        })
    }

    /// True for a kernel that may be replaced.
    pub(super) fn want(&self, symbol: &str) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| is_named(symbol, wanted))
            && !self.unwanted.as_ref().is_some_and(|unwanted| is_named(symbol, unwanted))
    }

    /// What is said when they want none of some kernels; `None` if they want all.
    pub(super) fn none_of(&self, kernels: &str) -> Option<String> {
        match (&self.wanted, &self.unwanted) {
            (None, None) => None,
            (Some(wanted), None) => {
                Some(format!("{}: none of the kernels that {kernels} has a name like {wanted}", Interceptor::filter))
            }
            (None, Some(unwanted)) => Some(format!(
                "{}: all of the kernels that {kernels} have a name like {unwanted}",
                Interceptor::filter_exclude
            )),
            (Some(wanted), Some(unwanted)) => Some(format!(
                "{}, {}: none of the kernels that {kernels} has a name like {wanted} and not like {unwanted}",
                Interceptor::filter,
                Interceptor::filter_exclude
            )),
        }
    }
}
