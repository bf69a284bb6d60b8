//! Which dispatches have rows.

use std::ops::RangeInclusive;

use regex::Regex;

use crate::names::{Kernel, Operation, is_named};

/// What the log is asked for, as texts: the records keep it, so that recovery chooses the same rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Only kernels with a name that matches this regular expression.
    pub only: Option<String>,
    /// No kernel with a name that matches this regular expression.
    pub except: Option<String>,
    /// Only dispatches to agents at these positions; any agent if there are none.
    pub agents: Vec<RangeInclusive<u32>>,
}

/// What the names of a kernel say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// One of them is asked for, or all are.
    pub included: bool,
    /// One of them is not wanted.
    pub excluded: bool,
}

impl Choice {
    /// True if the kernel has rows.
    pub fn has_rows(self) -> bool {
        self.included && !self.excluded
    }
}

/// A [`RowFilter`] that can be asked.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    only: Option<Regex>,
    except: Option<Regex>,
    agents: Vec<RangeInclusive<u32>>,
}

impl Filter {
    /// The filter, without the expressions that are invalid; their errors are those of `only` and of `except`.
    pub fn new(texts: &RowFilter) -> (Filter, [Option<regex::Error>; 2]) {
        let compiled = |text: &Option<String>| match text.as_deref().map(Regex::new).transpose() {
            Ok(regex) => (regex, None),
            Err(error) => (None, Some(error)),
        };
        let ((only, bad_only), (except, bad_except)) = (compiled(&texts.only), compiled(&texts.except));
        (Filter { only, except, agents: texts.agents.clone() }, [bad_only, bad_except])
    }

    /// What a kernel's names say; `None` is a kernel without a known name. Copies, ranges and marks have rows whatever they are called.
    pub fn choice(&self, kernel: Option<&Kernel>) -> Choice {
        let matches = |regex: &Regex| kernel.map_or_else(|| regex.is_match(""), |k| is_named(&k.symbol, regex));
        if kernel.is_some_and(|kernel| kernel.operation != Operation::Dispatch) {
            return Choice { included: true, excluded: false };
        }
        Choice { included: self.only.as_ref().is_none_or(matches), excluded: self.except.as_ref().is_some_and(matches) }
    }

    /// True if rows are limited to agents.
    pub fn limits_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// True if the agent at a position keeps no row of a kernel out; `None` is a kernel without a known name.
    pub fn is_of(&self, kernel: Option<&Kernel>, agent: usize) -> bool {
        kernel.is_some_and(|kernel| kernel.operation != Operation::Dispatch) || self.wants_agent(agent)
    }

    /// True if dispatches to the agent at a position have rows.
    pub fn wants_agent(&self, agent: usize) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|range| u32::try_from(agent).is_ok_and(|n| range.contains(&n)))
    }

    /// The expression of wanted names, if it is valid.
    pub fn only(&self) -> Option<&Regex> {
        self.only.as_ref()
    }

    /// The expression of unwanted names, if it is valid.
    pub fn except(&self) -> Option<&Regex> {
        self.except.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_rows_if_a_name_is_wanted_and_none_is_unwanted() {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let says = |only: &str, except: &str, symbol: &str, operation| {
            let (filter, _) = Filter::new(&RowFilter { only: text(only), except: text(except), agents: Vec::new() });
            filter.choice(Some(&Kernel { symbol: symbol.to_owned(), operation, ..Kernel::default() })).has_rows()
        };
        for (only, except, rows) in [
            ("", "", true),
            ("^add", "", true),
            ("^sub", "", false),
            ("", r"^add\(float\*\)$", false),
            ("", "^_Z3add", false),
            ("", "^add$", false),
            ("", "^sub", true),
            ("^add", "float", false),
            ("(", "", true),
            ("", "(", true),
        ] {
            assert_eq!(says(only, except, "_Z3addPf", Operation::Dispatch), rows, "{only:?} {except:?}");
            assert!(says(only, except, "_Z3addPf", Operation::Copy), "{only:?} {except:?}");
        }
        let (unknown, bad) = Filter::new(&RowFilter { only: text("("), except: text("^$"), agents: Vec::new() });
        assert!(unknown.choice(None).excluded && bad[0].is_some() && bad[1].is_none());
    }

    #[test]
    fn agents_are_chosen_by_ranges() {
        let of = |agents| Filter::new(&RowFilter { agents, ..RowFilter::default() }).0;
        let chosen = |filter: &Filter| (0..8).filter(|agent| filter.wants_agent(*agent)).collect::<Vec<_>>();
        assert_eq!(chosen(&of(vec![0..=0, 3..=5])), [0, 3, 4, 5]);
        assert_eq!(chosen(&of(Vec::new())).len(), 8);
    }
}
