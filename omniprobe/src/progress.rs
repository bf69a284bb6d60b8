//! How far a tool has come: a bar on a terminal, a line each minute elsewhere, nothing with `--quiet` and of work that is done at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(60);
/// Of work that takes less, nothing is shown.
const SHORT: Duration = Duration::from_secs(1);
/// Between two looks whether the work has ended.
const LOOK: Duration = Duration::from_millis(500);

static QUIET: AtomicBool = AtomicBool::new(false);

/// Shows nothing from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// A bar for `length` of something; `counted` says in a template of `indicatif` how many of what are done, like
/// `{pos} of {len} dispatches`.
///
/// # Errors
/// When that is no template.
pub(crate) fn bar(counted: &str, length: u64) -> Result<ProgressBar> {
    if QUIET.load(Ordering::Relaxed) {
        return Ok(ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden()));
    }
    let style = ProgressStyle::with_template(&format!("{{wide_bar}} {counted}, {{eta}} left"));
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
    let bar = bar.with_style(style.context("the progress bar")?);
    show(&bar, counted);
    Ok(bar)
}

/// The same for what has no known end, from a position on: a rate instead of the time that is left. Its lines are of minutes in which
/// it went on.
pub(crate) fn growth(counted: &str, from: u64) -> ProgressBar {
    if QUIET.load(Ordering::Relaxed) {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_position(from);
    // The template is known to be one.
    let style = ProgressStyle::with_template(&format!("{{spinner}} {counted}, {{bytes_per_sec}}"));
    let bar = style.map(|style| bar.clone().with_style(style)).unwrap_or(bar);
    bar.reset_eta();
    if bar.is_hidden() {
        let (counted, weak) = (counted.to_owned(), bar.downgrade());
        let _ = std::thread::Builder::new().spawn(move || tell_each_minute(&counted, &weak));
    }
    bar
}

/// Shows a bar on a terminal or in lines, as long as it is not finished. Without a thread for that, nothing is shown.
fn show(bar: &ProgressBar, counted: &str) {
    let (counted, weak) = (counted.to_owned(), bar.downgrade());
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(SHORT);
        let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) else { return };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.tick();
        let is_hidden = bar.is_hidden();
        drop(bar);
        if is_hidden {
            tell_each_minute(&counted, &weak);
        }
    });
}

fn tell_each_minute(counted: &str, bar: &WeakProgressBar) {
    let (mut last, mut told) = (Instant::now(), None);
    loop {
        std::thread::sleep(LOOK);
        let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) else { return };
        if last.elapsed() >= EVERY {
            last = Instant::now();
            let (position, length) = (bar.position(), bar.length());
            if length.is_some() || told.replace(position) != Some(position) {
                super::output::tell(line(counted, position, length.unwrap_or(0)));
            }
        }
    }
}

/// The template with its numbers.
fn line(counted: &str, position: u64, length: u64) -> String {
    let values = [
        ("{pos}", HumanCount(position).to_string()),
        ("{len}", HumanCount(length).to_string()),
        ("{bytes}", HumanBytes(position).to_string()),
        ("{total_bytes}", HumanBytes(length).to_string()),
    ];
    values.into_iter().fold(counted.to_owned(), |text, (mark, value)| text.replace(mark, &value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_numbers_of_the_bar() {
        assert_eq!(line("{pos} of {len} dispatches", 3, 1200), "3 of 1,200 dispatches");
        assert_eq!(line("{bytes} of {total_bytes} of a.csv", 1 << 20, 3 << 20), "1.00 MiB of 3.00 MiB of a.csv");
    }
}
