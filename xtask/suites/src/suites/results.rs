//! What became of a suite's sample, kept in the cache so that a page can be made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::shell;

use super::emulated::Outcome;
use super::forms::Judged;
use super::regions::Stretched;

/// A run of a suite.
#[derive(Default)]
pub(crate) struct Results {
    /// Why it was not run; empty when it was.
    pub(crate) not_run: String,
    pub(crate) made_of: String,
    pub(crate) seed: u64,
    /// How many tests the suite has.
    pub(crate) tests: usize,
    pub(crate) outcomes: Vec<Outcome>,
}

fn file(suite: &str) -> PathBuf {
    shell::cache().join("suites-results").join(suite).with_extension("json")
}

impl Results {
    /// Keeps the results in place of the suite's last ones.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, suite: &str) -> Result<()> {
        let outcome = |o: &Outcome| {
            json!({
                "test": o.test, "passed": o.judged.passed, "skipped": o.judged.skipped, "failed": o.judged.failed,
                "dispatches": o.dispatches, "seconds": o.seconds, "processor": o.processor, "captured": o.captured, "verified": o.verified,
                "analyzed": o.analyzed, "found": o.found, "complaints": o.complaints,
                "stretched": o.stretched.as_ref().map(Stretched::as_json), "measured": o.measured,
            })
        };
        let outcomes: Vec<Value> = self.outcomes.iter().map(outcome).collect();
        let value = json!({ "not_run": self.not_run, "made_of": self.made_of, "seed": self.seed, "tests": self.tests, "outcomes": outcomes });
        let file = file(suite);
        fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
        fs::write(&file, format!("{value:#}\n")).with_context(|| format!("writing {}", file.display()))
    }

    /// The results of the suite's last run; `None` when there was none.
    ///
    /// # Errors
    /// When the file is not what [`Results::write`] writes.
    pub(crate) fn read(suite: &str) -> Result<Option<Results>> {
        let file = file(suite);
        let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
        let value: Value = serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
        let outcomes = value["outcomes"].as_array().into_iter().flatten().map(outcome).collect();
        Ok(Some(Results {
            not_run: value["not_run"].as_str().unwrap_or_default().to_owned(),
            made_of: value["made_of"].as_str().unwrap_or_default().to_owned(),
            seed: value["seed"].as_u64().unwrap_or(0),
            tests: usize::try_from(value["tests"].as_u64().unwrap_or(0))?,
            outcomes,
        }))
    }
}

fn outcome(value: &Value) -> Outcome {
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let lines = |key: &str| -> Vec<String> {
        value[key].as_array().into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect()
    };
    let counts = |key: &str| -> BTreeMap<String, u64> {
        let words = value[key].as_object().into_iter().flatten();
        words.map(|(word, count)| (word.clone(), count.as_u64().unwrap_or(0))).collect()
    };
    Outcome {
        test: value["test"].as_str().unwrap_or_default().to_owned(),
        judged: Judged { passed: number("passed"), skipped: number("skipped"), failed: lines("failed") },
        dispatches: number("dispatches"),
        seconds: value["seconds"].as_f64().unwrap_or(0.0),
        processor: value["processor"].as_f64().unwrap_or(0.0),
        captured: number("captured"),
        verified: counts("verified"),
        analyzed: number("analyzed"),
        found: counts("found"),
        complaints: lines("complaints"),
        stretched: Stretched::read(&value["stretched"]),
        measured: lines("measured"),
    }
}
