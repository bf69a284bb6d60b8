//! Where kernels are launched from, as functions and source lines.

use std::collections::HashMap;

use anyhow::{Context, Result};
use logdur_report::summary::{Group, Totals};
use serde_json::{Value, json};

use crate::symbols::{Frame, Symbols};

/// Callers that the name of a group has.
const CALLERS: usize = 3;

/// The frames of the stacks of groups, by process and number of the site.
pub(super) struct Stacks(HashMap<(Option<u64>, Option<u64>), Vec<Frame>>);

impl Stacks {
    /// Of all groups that have some.
    pub(super) fn of(groups: &[Group]) -> Stacks {
        let mut symbols = Symbols::default();
        let known = groups.iter().filter_map(|group| Some(((group.pid, group.site), group.stack.as_deref()?)));
        Stacks(known.map(|(place, stack)| (place, symbols.frames(stack))).collect())
    }

    /// The kernel of a group, and the innermost functions of the application that it is launched from.
    pub(super) fn named(&self, group: &Group) -> String {
        let kernel = group.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("(unknown)");
        let Some(site) = group.site else { return format!("{kernel} <- (not known)") };
        let frames = self.0.get(&(group.pid, group.site)).map(Vec::as_slice).unwrap_or_default();
        let callers: Vec<String> = frames.iter().filter(|frame| is_of_application(frame)).map(Frame::shown).collect();
        match callers.get(..CALLERS.min(callers.len())) {
            None | Some([]) => format!("{kernel} <- site {site}"),
            Some(first) => format!("{kernel} <- {}", first.join(" <- ")),
        }
    }

    /// The totals with the frames in place of return addresses.
    ///
    /// # Errors
    /// When a total is no JSON.
    pub(super) fn in_json(&self, totals: &Totals) -> Result<Value> {
        let mut value = serde_json::to_value(totals).context("the summary as JSON")?;
        let groups = value.get_mut("groups").and_then(Value::as_array_mut).into_iter().flatten();
        for (to, group) in groups.zip(&totals.groups) {
            if let Some(frames) = self.0.get(&(group.pid, group.site)).filter(|_| group.stack.is_some()) {
                to["stack"] = json!(frames);
            }
        }
        Ok(value)
    }
}

/// False for the runtime, and for the function that the compiler makes for each kernel.
fn is_of_application(frame: &Frame) -> bool {
    let is_stub = frame.function.as_deref().is_some_and(|function| function.contains("__device_stub__"));
    !is_stub && !frame.is_of_the_runtime()
}
