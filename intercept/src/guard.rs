//! The border between C callers and this library: no panic passes it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::interceptor;

/// Runs code of ours for a C caller: a panic does not leave it, but turns the interceptor passive.
pub fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            // What follows a panic must not panic either; if it does, the application still goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| interceptor::panicked(&message(panic.as_ref()))));
            fallback
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}
