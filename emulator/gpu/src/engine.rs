//! The threads that make the machine go: one looks after the queues, all run workgroups.
//!
//! # Threads
//! The first thread polls doorbells, takes packets and completes them, and runs workgroups in short slices in between.
//! The others sleep until a dispatch has more workgroups than one thread should run. No thread takes part in the
//! application's signals. Locks are held for list operations only, except that the list of queues is locked while they
//! are looked after: removing a queue waits for that, and for the queue's workgroups to stop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use logdur_system::signals::Blocked;

use crate::code::Fetch;
use crate::dispatch::{Dispatch, Moment, Work};
use crate::driver::{CompletedPacket, MemoryFault, QueueError};
use crate::fill::Fill;
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::{Refusal, View};
use crate::queue::aql::{AqlQueue, AqlQueueInfo};
use crate::queue::pm4::Pm4Queue;
use crate::queue::sdma::SdmaQueue;
use crate::queue::{Progress, Queue, RingInfo};
use crate::signal;
use crate::spread::{Place, Places};
use crate::symbol;
use crate::watch::Verdict;
use crate::workgroup::{ExecContext, SliceOutcome, Spares, Workgroup};

/// The most instructions of a workgroup's slice. With the number of resident workgroups, this bounds how long one of them waits for its
/// next slice. Workgroups that only poll give their slice up after some hundred instructions.
const GROUP_SLICE: u64 = 1 << 15;
/// The time between two checks whether dispatches make progress.
const WATCH: Duration = Duration::from_millis(100);
/// How long the first thread runs workgroups before it looks at the queues again.
const SLICE: Duration = Duration::from_micros(500);
/// How long it polls idle queues without a pause.
const SPIN: Duration = Duration::from_micros(100);

/// A dispatch that workers may take workgroups from.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) queue: u32,
    pub(crate) profiling: bool,
    /// Performance counters count its waves while they run.
    pub(crate) counted: bool,
    pub(crate) dispatch: Arc<Dispatch>,
}

/// What the threads share.
struct Shared {
    queues: Mutex<Vec<Box<dyn Queue>>>,
    /// Threads that want to change the list of queues. The first thread, which nearly always holds its lock, makes way for them.
    changing: AtomicUsize,
    jobs: Mutex<Vec<Job>>,
    job_added: Condvar,
    sleeping_helpers: AtomicUsize,
    bell: Bell,
    stop: AtomicBool,
    helpers: usize,
    /// Where the threads work: the first one, then the helpers.
    places: Places,
    /// How long no wave of a dispatch may end before its progress is checked.
    stuck_after: Option<Duration>,
}

impl Shared {
    fn new(helpers: usize, stuck_after: Option<Duration>) -> Shared {
        Shared {
            queues: Mutex::new(Vec::new()),
            changing: AtomicUsize::new(0),
            jobs: Mutex::new(Vec::new()),
            job_added: Condvar::new(),
            sleeping_helpers: AtomicUsize::new(0),
            bell: Bell::default(),
            stop: AtomicBool::new(false),
            helpers,
            places: Places::new(helpers + 1),
            stuck_after,
        }
    }
}

/// Wakes the thread that looks after the queues.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    /// The thread is about to wait, or does.
    waits: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        // Sequentially consistent with `wait`: either this thread sees that one waits, or that one sees the bell.
        if !self.rung.swap(true, Ordering::SeqCst) && self.waits.load(Ordering::SeqCst) {
            drop(lock(&self.lock));
            self.changed.notify_one();
        }
    }

    fn wait(&self, at_most: Duration) {
        let guard = lock(&self.lock);
        self.waits.store(true, Ordering::SeqCst);
        let silent = |(): &mut ()| !self.rung.load(Ordering::SeqCst);
        drop(self.changed.wait_timeout_while(guard, at_most, silent));
        self.waits.store(false, Ordering::Relaxed);
        self.rung.swap(false, Ordering::SeqCst);
    }
}

/// The engine: queues are added to it and removed from it.
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts an engine of so many threads, at least one. The driver is told once of a dispatch that makes no progress for
    /// `stuck_after`, if that is given.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(threads: usize, stuck_after: Option<Duration>) -> std::io::Result<Engine> {
        let shared = Arc::new(Shared::new(threads.saturating_sub(1), stuck_after));
        let keeper = shared.clone();
        spawn("kfdemu-queues", move || look_after_queues(&keeper))?;
        for n in 0..shared.helpers {
            let helper = shared.clone();
            spawn(&format!("kfdemu-cu{n}"), move || help(&helper, Place::new(n + 1)))?;
        }
        Ok(Engine { shared })
    }

    /// Adds an AQL queue.
    pub fn add_aql(&self, info: AqlQueueInfo, gpu: Arc<Gpu>) {
        gpu.remaps.fetch_add(1, Ordering::Relaxed);
        self.add(Box::new(AqlQueue::new(info, gpu)));
    }

    /// Adds a queue of PM4 commands.
    pub fn add_pm4(&self, info: RingInfo, gpu: Arc<Gpu>) {
        gpu.remaps.fetch_add(1, Ordering::Relaxed);
        self.add(Box::new(Pm4Queue::new(info, gpu)));
    }

    /// Adds an SDMA queue.
    pub fn add_sdma(&self, info: RingInfo, gpu: Arc<Gpu>) {
        self.add(Box::new(SdmaQueue::new(info, gpu)));
    }

    fn change<T>(&self, f: impl FnOnce(&mut Vec<Box<dyn Queue>>) -> T) -> T {
        self.shared.changing.fetch_add(1, Ordering::Relaxed);
        let mut queues = lock(&self.shared.queues);
        self.shared.changing.fetch_sub(1, Ordering::Relaxed);
        f(&mut queues)
    }

    fn add(&self, queue: Box<dyn Queue>) {
        self.change(|queues| queues.push(queue));
        self.wake();
    }

    /// Removes a queue; what it was doing is given up. No wave of it runs when this returns.
    pub fn remove(&self, id: u32) {
        let under_way: Vec<Arc<Dispatch>> = self.change(|queues| {
            let gone = queues.extract_if(.., |queue| queue.id() == id);
            gone.flat_map(|mut queue| queue.abandon()).collect()
        });
        for dispatch in under_way {
            // No longer than a wave's slice.
            while dispatch.is_running() {
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Stops or restarts a queue.
    pub fn set_active(&self, id: u32, active: bool) {
        self.change(|queues| queues.iter_mut().filter(|q| q.id() == id).for_each(|q| q.set_active(active)));
        self.wake();
    }

    /// Lets the workgroups of an AQL queue's next dispatches run only on compute units whose bits are set; see `Units::masked`.
    pub fn set_compute_units(&self, id: u32, mask: &[u32]) {
        self.change(|queues| queues.iter_mut().filter(|q| q.id() == id).for_each(|q| q.set_compute_units(mask)));
        self.wake();
    }

    /// Looks at the queues now: a thread is about to wait for them.
    pub fn wake(&self) {
        self.shared.bell.ring();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        self.shared.job_added.notify_all();
    }
}

/// Bytes of a thread's stack.
const STACK: usize = 2 << 20;

/// Bytes that glibc takes out of each thread's stack: the application's static thread-local storage, and what it needs itself.
fn taken_by_the_c_library() -> usize {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    // SAFETY: glibc's function of this name has this type, and null is `None`.
    let least = unsafe { std::mem::transmute::<*mut libc::c_void, Option<Least>>(found) };
    // SAFETY: the attributes are not looked at. Source: glibc's `nptl/nptl-stack.c`.
    least.map_or(0, |least| unsafe { least(std::ptr::null()) })
}

/// Starts a thread that gets none of the process's signals and has the default floating-point environment.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // The new thread inherits this thread's mask.
    let blocked = Blocked::all();
    let stack = STACK + taken_by_the_c_library();
    let started = thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(move || {
        reset_floating_point();
        // Without the thread the GPU would stand still, and its user wait for ever. The panic has said what is wrong.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
            std::process::abort();
        }
    });
    drop(blocked);
    started.map(drop)
}

/// Undoes rounding and flush modes that were inherited from the thread that made the first queue.
fn reset_floating_point() {
    #[cfg(target_arch = "x86_64")]
    {
        let default: u32 = 0x1f80;
        // SAFETY: loads the default MXCSR value from a valid place; Rust code expects exactly this value.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const default, options(nostack, readonly, preserves_flags))
        };
    }
}

/// One thread's tools for one GPU.
struct Tools {
    gpu: Arc<Gpu>,
    view: View,
    fetch: Fetch,
    /// The serial number of the dispatch that `fetch` has pages of.
    current: u64,
    /// Since when `view` trusts registered memory.
    looked: Moment,
}

/// A thread that runs workgroups.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    tools: Vec<Tools>,
    spares: Spares,
    /// When this thread last checked whether dispatches make progress.
    watched: Instant,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Worker {
        Worker { shared, tools: Vec::new(), spares: Spares::default(), watched: Instant::now() }
    }

    /// Runs a new dispatch as far as one slice goes, and hands the rest to everybody.
    pub(crate) fn begin(&mut self, job: Job) {
        if job.dispatch.fresh() > 1 {
            self.share(job.clone());
            self.work_on(&job, SLICE);
        } else {
            self.work_on(&job, SLICE);
            if job.dispatch.has_work() {
                self.share(job);
            }
        }
    }

    fn share(&self, job: Job) {
        lock(&self.shared.jobs).push(job);
        if self.shared.sleeping_helpers.load(Ordering::Relaxed) > 0 {
            self.shared.job_added.notify_all();
        }
    }

    /// Runs workgroups of a job for about this time, or until it has none.
    fn work_on(&mut self, job: &Job, at_most: Duration) {
        let began = Instant::now();
        while self.run_one(job) && began.elapsed() < at_most {}
    }

    /// Runs one workgroup for one slice; false if there was none, or if it only waits.
    fn run_one(&mut self, job: &Job) -> bool {
        // Before it is taken, so that `remove` either sees it run or prevents it.
        let _running = job.dispatch.run();
        let work = job.dispatch.take();
        if matches!(work, Work::Nothing) {
            return false;
        }
        let dispatch = &job.dispatch;
        let slot = self.tools_for(&job.gpu);
        let tools = &mut self.tools[slot];
        if tools.current != dispatch.serial {
            tools.current = dispatch.serial;
            tools.fetch.restart();
        }
        if tools.looked < dispatch.published {
            tools.looked = Moment::now();
            tools.view.distrust();
        }
        tools.view.refresh();
        let mut observer = job.gpu.observe.get().map(|observe| dispatch.observer(&**observe));
        let mut context = ExecContext {
            view: &mut tools.view,
            fetch: &mut tools.fetch,
            spares: &mut self.spares,
            shape: job.gpu.shape,
            gws: &job.gpu.gws,
            driver: &job.gpu.driver,
            clock: &job.gpu.clock,
            start: dispatch.start,
            cancelled: dispatch.cancelled(),
            watched: dispatch.watchdog.epoch(),
            observer: observer.as_deref_mut(),
            counters: job.counted.then_some(&job.gpu.counters),
        };
        let mut workgroup = match work {
            Work::Start(n) => {
                let fill =
                    job.gpu.fill.get().map(|seed| {
                        [Fill::new(*seed, dispatch.contents, n), Fill::of_place(*seed, dispatch.serial, n)]
                    });
                Box::new(Workgroup::start(&dispatch.launch, n, &dispatch.units, fill, &mut context))
            }
            Work::Resume(workgroup) => workgroup,
            Work::Nothing => return false,
        };
        let outcome = workgroup.run(&dispatch.launch, &mut context, GROUP_SLICE);
        let executed = workgroup.take_executed();
        dispatch.executed(executed);
        dispatch.watchdog.ended(workgroup.take_ended());
        match outcome {
            SliceOutcome::Preempted => {
                if context.watched != 0 {
                    judge(job, self.shared.stuck_after.unwrap_or_default(), &mut workgroup, &mut context);
                }
                dispatch.give_back(observer);
                dispatch.suspend(workgroup);
                return executed >= GROUP_SLICE;
            }
            SliceOutcome::Finished => {
                workgroup.retire(&mut self.spares, observer.as_deref_mut());
                dispatch.give_back(observer);
                if dispatch.finish() && !dispatch.has_failed() {
                    complete(job, &mut self.tools[slot].view);
                    self.shared.bell.ring();
                }
            }
            SliceOutcome::Failed(error) => {
                workgroup.retire(&mut self.spares, observer.as_deref_mut());
                dispatch.give_back(observer);
                report(job, QueueError::Wave(error));
            }
        }
        true
    }

    fn tools_for(&mut self, gpu: &Arc<Gpu>) -> usize {
        match self.tools.iter().position(|t| Arc::ptr_eq(&t.gpu, gpu)) {
            Some(n) => n,
            None => {
                self.tools.push(Tools {
                    gpu: gpu.clone(),
                    view: View::new(gpu.space.clone()),
                    fetch: Fetch::new(gpu.code.clone()),
                    current: 0,
                    looked: Moment::default(),
                });
                self.tools.len() - 1
            }
        }
    }

    /// Watches dispatches that may make no progress.
    fn watch(&mut self) {
        let Some(limit) = self.shared.stuck_after else { return };
        if self.watched.elapsed() < WATCH {
            return;
        }
        self.watched = Instant::now();
        for job in lock(&self.shared.jobs).iter().filter(|job| !job.dispatch.is_complete()) {
            job.dispatch.watchdog.look(limit);
        }
    }

    /// The first job that has workgroups to give.
    fn next_job(&self) -> Option<Job> {
        let mut jobs = lock(&self.shared.jobs);
        jobs.retain(|job| !job.dispatch.is_complete() && !job.dispatch.has_failed());
        let found = jobs.iter().position(|job| job.dispatch.has_work())?;
        // The next thread that asks begins with another job.
        jobs.rotate_left(found);
        let job = jobs.first().cloned();
        jobs.rotate_left(1);
        job
    }
}

/// Tells who observes the dispatch that there is nothing more to see.
fn observation_ended(job: &Job) {
    if let Some(observe) = job.gpu.observe.get() {
        observe.ended(&job.dispatch.launch, job.dispatch.observers());
    }
}

/// The last workgroup has finished: the completion signal gets its times and its decrement.
fn complete(job: &Job, view: &mut View) {
    let dispatch = &job.dispatch;
    observation_ended(job);
    let handle = dispatch.launch.completion_signal;
    let end = job.gpu.clock.end(dispatch.start, dispatch.instructions());
    dispatch.set_end(end);
    if job.gpu.driver.wants_trace() {
        job.gpu.driver.trace(&CompletedPacket {
            queue: job.queue,
            id: dispatch.launch.packet_id,
            packet: dispatch.launch.packet,
            start: dispatch.start,
            end,
            instructions: dispatch.instructions(),
        });
    }
    if handle != 0 {
        let times = job.profiling.then_some((dispatch.start, end));
        if let Err(at) = signal::complete(view, &*job.gpu.driver, handle, times) {
            let doing = format!("the completion signal of packet {}", dispatch.launch.packet_id);
            job.gpu.driver.memory_fault(&MemoryFault::new(job.queue, at, &doing, &job.gpu.space));
        }
    }
    dispatch.set_complete();
}

/// What a watched workgroup did is counted; when no workgroup of the dispatch does anything new, the driver is told.
fn judge(job: &Job, stuck_after: Duration, workgroup: &mut Workgroup, context: &mut ExecContext<'_>) {
    let (dispatch, epoch) = (&job.dispatch, context.watched);
    match workgroup.verdict() {
        Verdict::Open => {}
        Verdict::Progress => dispatch.watchdog.progress(epoch),
        Verdict::Quiet => {
            let Some(places) = dispatch.watchdog.quiet(epoch, workgroup.places(context), dispatch.resident()) else {
                return;
            };
            let launch = &dispatch.launch;
            let seconds = stuck_after.as_secs();
            let what = format!(
                "queue {}, packet {}: the kernel makes no progress: {}. In the last {seconds} seconds no wave of it ended; \
                 now its waves change nothing and find nothing new. {} of {} workgroups unfinished, {} wave instructions \
                 so far",
                job.queue,
                launch.packet_id,
                symbol::kernel(launch.kernel_object, context.view),
                dispatch.unfinished(),
                launch.total(),
                dispatch.instructions(),
            );
            job.gpu.driver.no_progress(&what, &places);
        }
    }
}

/// A wave failed: the first report of a dispatch goes to the driver.
fn report(job: &Job, error: QueueError) {
    if !job.dispatch.fail(error.clone()) {
        return;
    }
    observation_ended(job);
    // An atomic that is not aligned is the wave's own exception; the page tables refuse the rest.
    if let QueueError::Wave(wave) = &error
        && let Some(refused) = wave.refused.filter(|r| r.why != Refusal::Misaligned)
    {
        job.gpu.driver.memory_fault(&MemoryFault::new(job.queue, refused, &wave.to_string(), &job.gpu.space));
        return;
    }
    job.gpu.driver.queue_error(job.queue, &error);
}

/// Looks at every queue once, then runs workgroups for a slice. Returns the progress of the queues, and whether work was done.
fn round(worker: &mut Worker) -> (Progress, bool) {
    let shared = worker.shared.clone();
    let mut progress = Progress::Idle;
    while shared.changing.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
    for queue in lock(&shared.queues).iter_mut() {
        progress = progress.max(queue.pump(worker));
    }
    worker.watch();
    let Some(job) = worker.next_job() else { return (progress, false) };
    let before = job.dispatch.instructions();
    worker.work_on(&job, SLICE);
    (progress, job.dispatch.instructions() > before + GROUP_SLICE / 2 || job.dispatch.is_complete())
}

/// The first thread: queues, and workgroups in between.
fn look_after_queues(shared: &Arc<Shared>) {
    let mut worker = Worker::new(shared.clone());
    let mut place = Place::new(0);
    let mut idle_since = Instant::now();
    let mut waiting_since: Option<Instant> = None;
    while !shared.stop.load(Ordering::Acquire) {
        let (progress, worked) = round(&mut worker);
        if progress == Progress::Done || worked {
            place.work(&shared.places);
            idle_since = Instant::now();
            waiting_since = None;
            continue;
        }
        place.pause(&shared.places);
        let since =
            if progress == Progress::Waiting { *waiting_since.get_or_insert_with(Instant::now) } else { idle_since };
        pause(shared, since.elapsed(), progress);
    }
}

/// An engine without threads, whose queues are looked after when it is told to.
pub struct Stepped {
    engine: Engine,
    worker: Worker,
}

impl Default for Stepped {
    fn default() -> Stepped {
        let engine = Engine { shared: Arc::new(Shared::new(0, None)) };
        let worker = Worker::new(engine.shared.clone());
        Stepped { engine, worker }
    }
}

impl Stepped {
    /// To add queues and to remove them.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Looks at every queue once and runs workgroups for a while. False if nothing was done.
    pub fn step(&mut self) -> bool {
        let (progress, worked) = round(&mut self.worker);
        progress == Progress::Done || worked
    }
}

/// Pauses: not at all at first, and longer the longer nothing has happened. A waiting queue is polled more often than an idle one.
fn pause(shared: &Shared, quiet: Duration, progress: Progress) {
    if quiet < SPIN {
        std::hint::spin_loop();
        return;
    }
    if quiet < 4 * SPIN {
        thread::yield_now();
        return;
    }
    let most = if progress == Progress::Waiting { Duration::from_micros(50) } else { Duration::from_millis(1) };
    shared.bell.wait((quiet / 8).clamp(Duration::from_micros(20), most));
}

/// The other threads: workgroups only.
fn help(shared: &Arc<Shared>, mut place: Place) {
    let mut worker = Worker::new(shared.clone());
    while !shared.stop.load(Ordering::Acquire) {
        if let Some(job) = worker.next_job() {
            place.work(&shared.places);
            if !worker.run_one(&job) {
                thread::yield_now();
            }
            continue;
        }
        place.pause(&shared.places);
        let jobs = lock(&shared.jobs);
        shared.sleeping_helpers.fetch_add(1, Ordering::Relaxed);
        // A job that was added just before is noticed at the latest after this time.
        drop(shared.job_added.wait_timeout(jobs, Duration::from_millis(100)));
        shared.sleeping_helpers.fetch_sub(1, Ordering::Relaxed);
    }
}
