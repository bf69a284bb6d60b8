//! Instrumented mode: clones of kernels run in their place, and send messages to handlers.
//!
//! [`Swapper`](crate::swap::Swapper) decides which clone runs. This module decides whether a dispatch is instrumented. It has the memory
//! for messages ([`buffers`]), the thread that receives them ([`drain`]), and the handlers ([`handlers`]).
//!
//! # Threads
//! Publishers select dispatches and take memory without waiting for a lock. The drain thread does everything else.

mod buffers;
mod drain;
mod end;
mod handlers;
mod output;
mod workgroups;

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa::Api;
use hsa_sys::abi::aql::Packet;
use logdur_handler::abi;
use logdur_intercept::ports::Changed;
use logdur_journal::flag;
use logdur_settings::{DRAWN_FROM, Dispatches, HandlerFormat, Interceptor, Workgroups};
use logdur_system::lock;

use crate::ports::Switch;

pub(crate) use buffers::NoBuffers;

use buffers::{Pool, Taken};
use drain::{Total, Waiting};
use output::OutputTarget;

/// What instruments kernels.
pub(crate) struct Instrument {
    dispatches: Dispatches,
    /// Those whose messages handlers get.
    workgroups: Workgroups,
    handlers: Vec<OsString>,
    options: Vec<(String, String)>,
    /// `LOGDUR_FORMAT_*`.
    format: u32,
    output: OutputTarget,
    /// Bytes of all pools.
    limit: u64,
    /// By the handle of the agent.
    pools: Mutex<HashMap<u64, &'static Pool>>,
    /// By the name of the clone: code that is loaded again is mostly where it was.
    probes: Mutex<HashMap<CString, Vec<&'static Probe>>>,
    waiting: &'static Waiting,
    random: AtomicU64,
    /// True while the packet of a captured dispatch is being published.
    captures: &'static AtomicBool,
    is_on: AtomicBool,
    counts: Counts,
}

/// What became of the dispatches of kernels that have a clone, and of messages.
#[derive(Default)]
struct Counts {
    off: AtomicU64,
    unselected: AtomicU64,
    closed: AtomicU64,
    no_buffer: AtomicU64,
    no_arguments: AtomicU64,
    refused: AtomicU64,
    captured: AtomicU64,
    ended: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    sent: AtomicU64,
    others: AtomicU64,
    too_large: AtomicU64,
    corrupt: AtomicU64,
    not_ended: AtomicU64,
}

/// What a kernel with a clone needs to be instrumented. Never freed: publishers refer to it.
pub(crate) struct Probe {
    instrument: &'static Instrument,
    pool: &'static Pool,
    /// Where the clone takes the address of the descriptor, in its kernarg segment.
    added: u32,
    /// The number of the application's kernel.
    own: u32,
    /// The position of the agent.
    agent: usize,
    /// Its name, for people.
    kernel: String,
    texts: Texts,
    /// The code object of the clone, if its bytes are known.
    code: Option<&'static [u8]>,
    load_delta: u64,
    /// Dispatches of the kernel.
    seen: AtomicU64,
    /// Which of them is instrumented, if it is one of each kernel.
    drawn: u64,
}

/// Names for handlers.
#[derive(PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) kernel: CString,
    pub(crate) mangled: CString,
    pub(crate) clone: CString,
    pub(crate) processor: CString,
    pub(crate) uri: CString,
}

/// What is known of a clone when it is chosen.
pub(crate) struct Clone {
    pub(crate) added: u32,
    pub(crate) own: u32,
    pub(crate) agent: (usize, u64),
    pub(crate) kernel: String,
    pub(crate) mangled: String,
    pub(crate) clone: String,
    pub(crate) processor: String,
    pub(crate) uri: String,
    pub(crate) code: Option<&'static [u8]>,
    pub(crate) load_delta: u64,
}

/// Why a dispatch is not instrumented although its kernel has a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// It was turned off.
    Off,
    /// `LOGDUR_DISPATCHES`.
    Unselected,
    /// Handlers are closed, because the process ends, or one does not return.
    Closed,
    /// All sub-buffers are in use.
    NoBuffer,
    /// All memory for arguments is in use.
    NoArguments,
    /// A rule of the kernel cache.
    Refused,
    /// Its memory is captured: that of the clone would be other memory.
    Captured,
}

impl Switch for Instrument {
    fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }
}

impl Instrument {
    /// What the settings ask for; `None` if nothing is to be instrumented. `captures` is true while the packet of a captured dispatch
    /// is being published.
    pub(crate) fn new(settings: &Interceptor, captures: &'static AtomicBool) -> Option<Instrument> {
        settings.instrumented.0.then(|| Instrument {
            dispatches: settings.dispatches,
            workgroups: settings.workgroups,
            handlers: settings.handlers.0.clone(),
            options: settings.handler_options.0.clone(),
            format: match settings.handler_format {
                HandlerFormat::Text => abi::LOGDUR_FORMAT_TEXT,
                HandlerFormat::Csv => abi::LOGDUR_FORMAT_CSV,
                HandlerFormat::Json => abi::LOGDUR_FORMAT_JSON,
            },
            output: OutputTarget::new(&settings.handler_output),
            limit: settings.instrument_buffers.0,
            pools: Mutex::default(),
            probes: Mutex::default(),
            waiting: Box::leak(Box::default()),
            // Runs differ; what is random about a share needs no better beginning.
            random: AtomicU64::new(u64::from(std::process::id()) | 1 << 40),
            captures,
            is_on: AtomicBool::new(true),
            counts: Counts::default(),
        })
    }

    /// What a kernel with a clone needs. `agents` is how many GPUs share the memory.
    ///
    /// # Errors
    /// When the runtime has no memory for messages.
    pub(crate) fn probe(&'static self, api: &Api, agents: usize, of: Clone) -> Result<&'static Probe, NoBuffers> {
        let agent = of.agent.1;
        let mut pools = lock(&self.pools);
        let pool = match pools.get(&agent) {
            Some(pool) => *pool,
            None => Pool::new(api, agent, self.limit / agents.max(1) as u64, self.waiting)?,
        };
        pools.insert(agent, pool);
        drop(pools);
        // A name with a byte 0 is none.
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let new = Probe {
            instrument: self,
            pool,
            added: of.added,
            own: of.own,
            agent: of.agent.0,
            texts: Texts {
                kernel: text(&of.kernel),
                mangled: text(&of.mangled),
                clone: text(&of.clone),
                processor: text(&of.processor),
                uri: text(&of.uri),
            },
            kernel: of.kernel,
            code: of.code,
            load_delta: of.load_delta,
            seen: AtomicU64::new(0),
            drawn: 1 + (self.random() * DRAWN_FROM as f64) as u64,
        };
        let mut probes = lock(&self.probes);
        let known = probes.entry(new.texts.clone.clone()).or_default();
        if let Some(same) = known.iter().find(|known| known.is_like(&new)) {
            return Ok(same);
        }
        let leaked: &'static Probe = Box::leak(Box::new(new));
        known.push(leaked);
        Ok(leaked)
    }

    /// A number from 0 to 1: SplitMix64.
    fn random(&self) -> f64 {
        let state = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Kernels that were dispatched less often than the number that was drawn for them.
    fn not_drawn(&self) -> Option<String> {
        if self.dispatches != Dispatches::OneOfEach {
            return None;
        }
        let probes = lock(&self.probes);
        let missed = probes.values().flatten().filter_map(|probe| {
            let seen = probe.seen.load(Ordering::Relaxed);
            (1..probe.drawn).contains(&seen).then(|| format!("{} ({} of {seen})", probe.kernel, probe.drawn))
        });
        let mut missed: Vec<String> = missed.collect();
        missed.sort_unstable();
        (!missed.is_empty())
            .then(|| format!("a dispatch was drawn that did not come, so `-d 1` may be better: {}", missed.join("; ")))
    }

    /// What there is to tell when the process ends: what became of dispatches and messages. `ran` has numbers of dispatches by the
    /// name of their kernel.
    pub(crate) fn report(&self, dispatches: u64, ran: &[(String, u64)]) -> Vec<String> {
        const SHOWN: usize = 8;
        let counts = &self.counts;
        let count: u64 = ran.iter().map(|(_, count)| count).sum();
        let mut line = format!("instrumented {count} of {dispatches} dispatches");
        let shown: Vec<String> = ran.iter().take(SHOWN).map(|(name, count)| format!("{name}: {count}")).collect();
        if !shown.is_empty() {
            line += &format!(": {}", shown.join("; "));
        }
        if ran.len() > SHOWN {
            line += &format!("; {} more", ran.len() - SHOWN);
        }
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let why = [
            (&counts.off, "it was turned off"),
            (&counts.unselected, Interceptor::dispatches),
            (&counts.closed, "the handlers were closed already"),
            (&counts.no_buffer, "no message buffer was free"),
            (&counts.no_arguments, "no memory for arguments was free"),
            (&counts.refused, "the clone does not fit the packet"),
            (&counts.captured, "a capture"),
        ];
        let why: Vec<String> = why
            .iter()
            .filter(|(count, _)| of(count) > 0)
            .map(|(count, reason)| format!("{} ({reason})", of(count)))
            .collect();
        if !why.is_empty() {
            line += &format!("; not instrumented: {}", why.join(", "));
        }
        let mut lines = vec![line];
        lines.extend(self.not_drawn());
        if count > 0 {
            let mut line = format!(
                "{} messages received of {} dispatches, {} of {} bytes",
                of(&counts.messages),
                of(&counts.ended),
                of(&counts.bytes),
                of(&counts.sent)
            );
            let wrong = [
                (&counts.others, "messages of other workgroups were left out"),
                (&counts.corrupt, "dispatches had bytes that were no messages"),
                (&counts.too_large, "dispatches dropped messages that were larger than a buffer"),
                (&counts.not_ended, "dispatches did not end"),
            ];
            wrong.iter().filter(|(n, _)| of(n) > 0).for_each(|(n, what)| line += &format!("; {} {what}", of(n)));
            lines.push(line);
        }
        lines
    }
}

impl Counts {
    /// A dispatch has ended.
    fn ended(&self, total: &Total) {
        let add = |to: &AtomicU64, count: u64| _ = to.fetch_add(count, Ordering::Relaxed);
        let has = |bit: u32| u64::from(total.errors & bit != 0);
        add(&self.ended, 1);
        add(&self.messages, total.messages);
        add(&self.bytes, total.bytes);
        add(&self.sent, total.sent);
        add(&self.too_large, has(abi::LOGDUR_ERROR_TOO_LARGE));
        add(&self.corrupt, has(abi::LOGDUR_ERROR_CORRUPT));
        add(&self.not_ended, has(abi::LOGDUR_ERROR_NOT_ENDED));
    }
}

impl Probe {
    /// True for one that does the same.
    fn is_like(&self, other: &Probe) -> bool {
        let what = |one: &Probe| (one.added, one.own, one.agent, one.load_delta, one.code.map(<[u8]>::as_ptr));
        what(self) == what(other) && ptr::eq(self.pool, other.pool) && self.texts == other.texts
    }

    /// Whether the next dispatch of the kernel is instrumented.
    pub(crate) fn select(&self) -> Result<(), Skipped> {
        let instrument = self.instrument;
        if !instrument.is_on.load(Ordering::Relaxed) {
            return Err(Skipped::Off);
        }
        if instrument.captures.load(Ordering::Relaxed) {
            return Err(Skipped::Captured);
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let is_selected = match instrument.dispatches {
            Dispatches::All => true,
            Dispatches::Range(first, last) => (first..=last).contains(&number),
            Dispatches::Random(share) => instrument.random() < share,
            Dispatches::OneOfEach => number == self.drawn,
        };
        match is_selected {
            false => Err(Skipped::Unselected),
            true if instrument.waiting.is_closing() => Err(Skipped::Closed),
            true => Ok(()),
        }
    }

    /// The memory for a dispatch's messages.
    pub(crate) fn take(&'static self, packet: &Packet) -> Result<Taken, Skipped> {
        self.instrument.is_awaited();
        self.pool.take(packet, self).ok_or(Skipped::NoBuffer)
    }

    /// Where the address of the descriptor goes.
    pub(crate) fn added(&self) -> u32 {
        self.added
    }

    /// The dispatch runs as it is, and its row says so.
    pub(crate) fn skip(&self, packet: &Packet, why: Skipped) -> Changed {
        let counts = &self.instrument.counts;
        let count = match why {
            Skipped::Off => &counts.off,
            Skipped::Unselected => &counts.unselected,
            Skipped::Closed => &counts.closed,
            Skipped::NoBuffer => &counts.no_buffer,
            Skipped::NoArguments => &counts.no_arguments,
            Skipped::Refused => &counts.refused,
            Skipped::Captured => &counts.captured,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Changed { flags: flag::NOT_INSTRUMENTED, ..Changed::of(*packet, self.own) }
    }
}
