//! Which dispatches of a capture are kept: the triggers of `--when` that a capture can answer.

use std::ffi::OsStr;

use anyhow::Result;
use logdur_captured::CapturedError;
use logdur_journal::names;
use logdur_settings::{Trigger, Value, When};
use regex::Regex;

/// How a rule looks.
const FORMS: &str =
    "expected dispatches:N-M, kernel:REGEX or kernel:REGEX@N-M, with commas between what all has to be so";

/// Dispatches that all triggers of a rule select.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    /// As it was given.
    pub(crate) text: String,
    triggers: Vec<Trigger>,
}

/// Reads a rule: one of `--when`, in which kernels may stand without numbers.
pub(crate) fn keep(text: &str) -> Result<Keep, String> {
    let refuse = || format!("{FORMS}, found {text:?}");
    let read = |text: &str| When::parse(OsStr::new(text)).ok().filter(|When(triggers)| !triggers.is_empty());
    let all = format!("{text}@1+");
    let When(triggers) = read(text).or_else(|| read(&all)).ok_or_else(refuse)?;
    for trigger in &triggers {
        match trigger {
            Trigger::Dispatches(_) => {}
            Trigger::Kernel(regex, _) => {
                Regex::new(regex).map_err(|error| error.to_string())?;
            }
            Trigger::Seconds(..)
            | Trigger::Count(_)
            | Trigger::Range(..)
            | Trigger::Profiler
            | Trigger::File(_)
            | Trigger::Signal => return Err(format!("{FORMS}, found {trigger}, of which a capture says nothing")),
        }
    }
    Ok(Keep { text: text.to_owned(), triggers })
}

/// The dispatches that one of some rules selects, of all in their order: each is a number and a symbol. Dispatches of kernels are counted
/// from 1, those whose names match alone.
///
/// # Errors
/// When a rule selects none.
pub(crate) fn kept(rules: &[Keep], dispatches: &[(u64, &str)]) -> Result<Vec<bool>> {
    let mut all = vec![false; dispatches.len()];
    for rule in rules {
        let mut found = false;
        let mut tests = Vec::new();
        for trigger in &rule.triggers {
            tests.push(match trigger {
                Trigger::Kernel(regex, span) => (Some(Regex::new(regex)?), *span, 0u64),
                Trigger::Dispatches(span) => (None, *span, 0),
                _ => continue,
            });
        }
        for (kept, (number, symbol)) in all.iter_mut().zip(dispatches) {
            let mut selects = true;
            for (regex, span, count) in &mut tests {
                selects &= match regex {
                    Some(regex) if names::is_named(symbol, regex) => {
                        *count += 1;
                        span.has(*count)
                    }
                    Some(_) => false,
                    None => span.has(*number),
                };
            }
            *kept |= selects;
            found |= selects;
        }
        if !found {
            let first = dispatches.first().map_or(0, |(number, _)| *number);
            let last = dispatches.last().map_or(0, |(number, _)| *number);
            return Err(CapturedError::Usage {
                what: format!("--keep {}", rule.text),
                expected: "a rule that a dispatch meets".to_owned(),
                found: format!("none among {} dispatches, from {first} to {last}", dispatches.len()),
            }
            .into());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rules: &[&str]) -> Result<Vec<bool>> {
        let rules: Vec<Keep> = rules.iter().map(|rule| keep(rule).unwrap()).collect();
        kept(&rules, &[(3, "gemm"), (5, "add"), (7, "gemm"), (9, "_Z3addPf")])
    }

    #[test]
    fn rules_are_triggers_of_which_all_have_to_be_met_and_one_of_several_rules() {
        assert_eq!(of(&["dispatches:5-7"]).unwrap(), [false, true, true, false]);
        assert_eq!(of(&["kernel:^add"]).unwrap(), [false, true, false, true]);
        assert_eq!(of(&["kernel:^add@2"]).unwrap(), [false, false, false, true]);
        assert_eq!(of(&["kernel:gemm@1+,dispatches:4+"]).unwrap(), [false, false, true, false]);
        assert_eq!(of(&["dispatch:3", "kernel:add@2"]).unwrap(), [true, false, false, true]);
        let none = of(&["dispatches:4"]).unwrap_err().to_string();
        assert_eq!(
            none,
            "--keep dispatches:4: expected a rule that a dispatch meets, found none among 4 dispatches, from 3 to 9"
        );
        for wrong in ["", "kernel:(", "seconds:1-2", "range:a", "5-7"] {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }
}
