//! The border between C callers and this library: no panic passes it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// What a panic is reported to.
static REPORT: OnceLock<fn(&str)> = OnceLock::new();

/// From now on, `report` gets the message of each panic. The first call counts.
pub(crate) fn report_panics_to(report: fn(&str)) {
    let _ = REPORT.set(report);
}

/// Runs code of ours for a C caller: a panic does not leave it, but turns the interceptor passive.
pub fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            // What follows a panic must not panic either; if it does, the application still goes on.
            let report = || REPORT.get().into_iter().for_each(|report| report(&message(panic.as_ref())));
            let _ = catch_unwind(AssertUnwindSafe(report));
            fallback
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}
