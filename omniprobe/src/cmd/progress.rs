//! How far a tool has come, on a terminal: nothing is shown anywhere else.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `length` of something; `counted` says in a template of `indicatif` how many of what are done, like
/// `{pos} of {len} dispatches`.
///
/// # Errors
/// When that is no template.
pub(crate) fn bar(counted: &str, length: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template(&format!("{{wide_bar}} {counted}, {{eta}} left"));
    Ok(ProgressBar::new(length).with_style(style.context("the progress bar")?))
}
