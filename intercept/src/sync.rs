//! Atomics and locks of the structures whose interleavings are modelled: the processor's, or loom's.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now as pause,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Mutex, atomic},
    thread::yield_now as pause,
};

#[cfg(not(loom))]
pub(crate) use logdur_system::lock;

/// The standard library's, with the functions of loom's.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Has `with` use the contents.
    pub(crate) fn with_mut<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
        with(self.0.get())
    }
}

/// Locks. A panic in a model ends the model.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Explores the interleavings of a model's threads, with at most `preemptions` that no thread asked for.
#[cfg(all(test, loom))]
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
