//! All configurations and their times, as a table for spreadsheets (RFC 4180).

use std::io::Write;
use std::path::Path;

use logdur_system::output::{Output, Readers};
use logdur_system::text::{cell, escaped};

use super::{Subject, Trial};
use crate::error::{ReplayError, Result};

/// Writes the table: a header, and a row for each configuration. What is not known is empty. `inputs` are what the search read.
///
/// # Errors
/// When it is one of them, or cannot be written.
pub fn write_csv(path: &Path, subject: &Subject<'_>, trials: &[Trial], inputs: &[&Path]) -> Result<()> {
    let failed = |source| ReplayError::File { path: path.display().to_string(), source };
    let mut file = Output::begin(path, Readers::Owner, inputs)?;
    file.write_all(table(&subject.kernel, trials).as_bytes()).map_err(failed)?;
    Ok(file.finish()?)
}

fn table(kernel: &str, trials: &[Trial]) -> String {
    let parameters = trials.iter().map(|trial| &trial.config.values).max_by_key(|values| values.len());
    let parameters: Vec<&str> = parameters.into_iter().flatten().map(|(name, _)| &**name).collect();
    let mut header = vec!["config", "kernel"];
    header.extend(&parameters);
    header.extend(["grid-x", "grid-y", "grid-z", "workgroup-x", "workgroup-y", "workgroup-z"]);
    header.extend(["code", "result", "median-ns", "mad-ns", "min-ns", "runs", "verified", "reason"]);
    let rows = trials.iter().map(|trial| row(kernel, &parameters, trial));
    let header = header.into_iter().map(str::to_owned).collect();
    std::iter::once(header).chain(rows).map(|cells| line(&cells)).collect()
}

fn row(kernel: &str, parameters: &[&str], trial: &Trial) -> Vec<String> {
    let config = &trial.config;
    let value = |name: &&str| config.values.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value).to_owned();
    let mut cells = vec![config.number.to_string(), kernel.to_owned()];
    cells.extend(parameters.iter().map(value));
    match config.sizes {
        Some(sizes) => cells.extend(sizes.grid.iter().chain(&sizes.workgroup).map(ToString::to_string)),
        None => cells.extend(std::iter::repeat_n(String::new(), 6)),
    }
    let code = config.code.as_ref().map(|path| path.display().to_string());
    cells.push(code.or_else(|| config.command.clone()).unwrap_or_else(|| "captured".to_owned()));
    cells.push(trial.outcome.as_ref().map_or("not-run", |outcome| outcome.word()).to_owned());
    let number = |of: fn(&crate::stats::Summary) -> String| trial.summary().map_or_else(String::new, of);
    cells.push(number(|s| s.median_ns.to_string()));
    cells.push(number(|s| s.mad_ns.to_string()));
    cells.push(number(|s| s.min_ns.to_string()));
    cells.push(number(|s| s.runs.to_string()));
    let verified = match &trial.outcome {
        Some(super::Outcome::Measured { .. }) => "yes",
        Some(super::Outcome::Mismatch { .. }) => "no",
        _ => "",
    };
    cells.push(verified.to_owned());
    cells.push(match (&trial.outcome, trial.given_up) {
        (_, Some(round)) => format!("dropped after round {round}"),
        (Some(outcome), None) => outcome.reason(),
        (None, None) => String::new(),
    });
    cells
}

fn line(cells: &[String]) -> String {
    // Names and paths are others' data: they command no terminal, and begin no row.
    let cells: Vec<String> = cells.iter().map(|text| cell(&escaped(text)).into_owned()).collect();
    cells.join(",") + "\r\n"
}
