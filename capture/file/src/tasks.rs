//! Work that other threads may take over: hashing and compressing.
//!
//! # Threads
//! The writing thread shares tasks, and takes results in its own order. It does a task itself if no other thread has begun it, so it never
//! waits for a thread that was not started or that no processor runs.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use logdur_system::lock;

/// Starts a thread that runs a body to its end; false if that is impossible.
pub type Spawn = fn(Box<dyn FnOnce() + Send>) -> bool;

/// Threads that work beside the one that writes. They are started when there is first work for them, sleep without work, and end
/// with the writer.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// How many are started.
    pub count: usize,
    /// How.
    pub spawn: Spawn,
}

/// Tasks of a writer.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// Those to be started.
    threads: Option<Threads>,
    /// Those that were started.
    started: usize,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Arc<dyn Run>>,
    closed: bool,
}

/// Work on an input, which one thread does.
#[derive(Debug)]
pub(crate) struct Task<I, O> {
    work: fn(I) -> O,
    progress: Mutex<Progress<I, O>>,
    ended: Condvar,
}

#[derive(Debug)]
enum Progress<I, O> {
    Waiting(I),
    Begun,
    Done(O),
    /// The work has panicked, or its result was taken.
    Gone,
}

trait Run: Send + Sync + std::fmt::Debug {
    /// Does the work, unless a thread has begun it.
    fn run(&self);
}

impl<I: Send + std::fmt::Debug, O: Send + std::fmt::Debug> Run for Task<I, O> {
    fn run(&self) {
        let mut progress = lock(&self.progress);
        if !matches!(*progress, Progress::Waiting(_)) {
            return;
        }
        let Progress::Waiting(input) = mem::replace(&mut *progress, Progress::Begun) else { return };
        drop(progress);
        let mut end = End { task: self, result: Progress::Gone };
        end.result = Progress::Done((self.work)(input));
    }
}

/// Ends a task with a result, also if its work panics.
struct End<'a, I, O> {
    task: &'a Task<I, O>,
    result: Progress<I, O>,
}

impl<I, O> Drop for End<'_, I, O> {
    fn drop(&mut self) {
        *lock(&self.task.progress) = mem::replace(&mut self.result, Progress::Gone);
        self.task.ended.notify_all();
    }
}

impl Shared {
    /// What each thread does.
    fn work(&self) {
        let mut queue = lock(&self.queue);
        while !queue.closed {
            queue = match queue.tasks.pop_front() {
                Some(task) => {
                    drop(queue);
                    task.run();
                    lock(&self.queue)
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Tasks {
    pub(crate) fn new(threads: Option<Threads>) -> Tasks {
        Tasks { threads, started: 0, shared: Arc::default() }
    }

    /// How many threads there are, or are going to be, beside the one that writes.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or(self.started, |threads| threads.count)
    }

    /// A task that is not shared: [`Tasks::take`] does its work.
    pub(crate) fn keep<I, O>(work: fn(I) -> O, input: I) -> Arc<Task<I, O>> {
        Arc::new(Task { work, progress: Mutex::new(Progress::Waiting(input)), ended: Condvar::new() })
    }

    /// A task that other threads may do.
    pub(crate) fn share<I, O>(&mut self, work: fn(I) -> O, input: I) -> Arc<Task<I, O>>
    where
        I: Send + std::fmt::Debug + 'static,
        O: Send + std::fmt::Debug + 'static,
    {
        self.start();
        let task = Tasks::keep(work, input);
        if self.started > 0 {
            lock(&self.shared.queue).tasks.push_back(Arc::<Task<I, O>>::clone(&task));
            self.shared.changed.notify_one();
        }
        task
    }

    /// Starts the threads, once.
    fn start(&mut self) {
        let Some(Threads { count, spawn }) = self.threads.take() else { return };
        let spawned = (0..count).take_while(|_| {
            let shared = Arc::clone(&self.shared);
            spawn(Box::new(move || shared.work()))
        });
        self.started = spawned.count();
    }

    /// The result of a task; `None` if its work has panicked. Does the work if no thread has begun it, and other work while a
    /// thread does it.
    pub(crate) fn take<I, O>(&self, task: &Task<I, O>) -> Option<O>
    where
        I: Send + std::fmt::Debug,
        O: Send + std::fmt::Debug,
    {
        loop {
            task.run();
            let mut progress = lock(&task.progress);
            match mem::replace(&mut *progress, Progress::Gone) {
                Progress::Done(result) => return Some(result),
                Progress::Gone => return None,
                begun => *progress = begun,
            }
            drop(progress);
            let other = lock(&self.shared.queue).tasks.pop_front();
            if let Some(other) = other {
                other.run();
                continue;
            }
            let progress = lock(&task.progress);
            drop(task.ended.wait_while(progress, |progress| matches!(progress, Progress::Begun)));
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn thread(body: Box<dyn FnOnce() + Send>) -> bool {
        std::thread::Builder::new().spawn(body).is_ok()
    }

    fn double(n: u64) -> u64 {
        assert_ne!(n, 13, "as ordered");
        2 * n
    }

    #[test]
    fn results_are_those_of_their_tasks_with_and_without_threads() {
        for count in [0, 1, 3] {
            let mut tasks = Tasks::new(Some(Threads { count, spawn: thread }));
            let shared: Vec<_> = (100..400).map(|n| tasks.share(double, n)).collect();
            let kept = Tasks::keep(double, 5);
            assert_eq!(tasks.take(&kept), Some(10));
            let results: Vec<_> = shared.iter().map(|task| tasks.take(task)).collect();
            assert_eq!(results, (100..400).map(|n| Some(2 * n)).collect::<Vec<_>>(), "{count} threads");
        }
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_not_waited_for() {
        let mut tasks = Tasks::new(Some(Threads { count: 2, spawn: |_| false }));
        let task = tasks.share(double, 4);
        assert_eq!((tasks.threads(), tasks.take(&task)), (0, Some(8)));
    }

    #[test]
    fn work_that_panics_in_a_thread_has_no_result_and_ends_no_wait() {
        // Only the other thread does work: this one waits until it has begun.
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let work: fn(u64) -> u64 = |n| {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            double(n)
        };
        let mut tasks = Tasks::new(Some(Threads { count: 1, spawn: thread }));
        let panics = tasks.share(work, 13);
        while BEGUN.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(tasks.take(&panics), None);
        let next = tasks.share(work, 14);
        assert_eq!(tasks.take(&next), Some(28));
    }
}
