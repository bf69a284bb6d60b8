//! Searches for configurations, from their journals, and verifications, from what `verify --json` printed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Why a file is no journal of a search.
#[derive(Debug, thiserror::Error)]
#[error("expected the journal of a search, which begins with its capture and dispatch, found {found:?}")]
pub struct SearchError {
    /// The beginning of the file.
    found: String,
}

/// A configuration, over its rounds.
#[derive(Default)]
struct Trial {
    values: Value,
    gpu_ns: Vec<u64>,
    result: String,
    reason: String,
}

/// A search as the page has it, and how many lines could not be read.
pub(super) fn read(name: &str, text: &str) -> Result<(Value, usize), SearchError> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let identity: Value = serde_json::from_str(head).unwrap_or_default();
    let (Some(capture), Some(dispatch)) = (identity["capture"].as_str(), identity["dispatch"].as_u64()) else {
        return Err(SearchError { found: head.chars().take(80).collect() });
    };
    let mut trials: BTreeMap<u64, Trial> = BTreeMap::new();
    let mut unreadable = 0;
    for line in lines {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let (config, outcome) = (&line["config"], &line["outcome"]);
        let (Some(number), Some(result)) = (config["number"].as_u64(), outcome["result"].as_str()) else {
            unreadable += 1;
            continue;
        };
        let trial = trials.entry(number).or_default();
        trial.values = config["values"].clone();
        trial.gpu_ns.extend(outcome["gpu_ns"].as_array().into_iter().flatten().filter_map(Value::as_u64));
        trial.result = result.to_owned();
        if result != "measured" {
            let text = outcome["text"].as_str().unwrap_or_default();
            trial.reason = [result, text].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        }
    }
    let medians: BTreeMap<u64, Option<f64>> =
        trials.iter_mut().map(|(number, trial)| (*number, trial.median())).collect();
    let measured = medians.iter().filter_map(|(number, median)| Some((*number, (*median)?)));
    let best = measured.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number);
    let trial = |(number, trial): (&u64, &Trial)| {
        let median = medians.get(number).copied().flatten();
        json!({ "number": number, "values": trial.values, "medianNs": median, "result": trial.result, "reason": trial.reason })
    };
    let trials: Vec<Value> = trials.iter().map(trial).collect();
    let name = format!("{name}: dispatch {dispatch} of {capture}");
    Ok((json!({ "name": name, "best": best, "trials": trials }), unreadable))
}

impl Trial {
    /// Of all repetitions; `None` if the configuration failed in some round.
    fn median(&mut self) -> Option<f64> {
        if !self.reason.is_empty() {
            return None;
        }
        self.gpu_ns.sort_unstable();
        let middle = self.gpu_ns.len() / 2;
        let upper = *self.gpu_ns.get(middle)?;
        let lower = if self.gpu_ns.len().is_multiple_of(2) { *self.gpu_ns.get(middle - 1)? } else { upper };
        Some((lower as f64 + upper as f64) / 2.0)
    }
}

/// A dispatch that was verified: its result, and the buffers or the error that explain it.
pub(super) fn verified(object: &Value) -> Value {
    let buffers = object["buffers"].as_array().into_iter().flatten();
    let notable = buffers.filter(|buffer| buffer["mismatches"].as_u64().unwrap_or(0) > 0);
    let named = notable.map(|b| {
        let (name, mismatches) = (b["name"].as_str().unwrap_or_default(), &b["mismatches"]);
        format!("{name}: {} ({mismatches} differ)", b["verdict"].as_str().unwrap_or_default())
    });
    let qualified = object["qualified"].as_array().into_iter().flatten().filter_map(|q| q.as_str().map(str::to_owned));
    let why: Vec<String> = named.chain(object["error"].as_str().map(str::to_owned)).chain(qualified).collect();
    let kernel = object["demangled"].as_str().unwrap_or_default();
    json!({
        "dispatch": object["dispatch"], "kernel": kernel, "result": object["result"], "status": object["status"],
        "why": why.join("; "),
    })
}
