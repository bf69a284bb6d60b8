//! Locks that a panic elsewhere does not take away.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not a panic has left the lock poisoned: what it guards is whole between two statements.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
