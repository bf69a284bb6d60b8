//! Turns rows and features on and off while the process runs, as `omniprobe attach` asks.
//!
//! Nothing listens unless [`LOGDUR_START`](logdur_settings::Interceptor::start) is set. What a connection turns on ends with it.
//!
//! # Threads
//! One thread listens, reads requests and answers them. It waits for no client: one that does not read its answers is dropped.

mod socket;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logdur_intercept::Interceptor;
use logdur_intercept::lifetime::Access;
use logdur_journal::account::Event;
use logdur_settings as settings;
use logdur_settings::{Answer, Feature, LONGEST_REQUEST, Request, Start, Switched, Turn};
use logdur_system::lock;
use logdur_system::text::one_line;

use crate::guarded::Guarded;
use crate::kernels::Kernels;
use crate::log::{Log, Place};
use crate::ports::Switch;

/// The most connections. Another one is closed.
const MOST_CONNECTIONS: usize = 16;
/// How often a socket is made again.
const MOST_LISTENERS: u32 = 100;
/// After a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The most kernels in an answer.
const MOST_KERNELS: usize = 100;

/// Features, and what turns each of them.
type Switches = [(Feature, Option<&'static dyn Switch>); Feature::ALL.len()];

/// What is wanted: rows, and the features that are on with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    rows: bool,
    features: Vec<Feature>,
}

impl Wanted {
    fn add(&mut self, features: &[Feature]) {
        self.rows = true;
        let new = features.iter().filter(|feature| !self.features.contains(feature)).copied().collect::<Vec<_>>();
        self.features.extend(new);
    }
}

/// The feature.
pub(crate) struct Control {
    /// Turns rows.
    rows: &'static dyn Switch,
    switches: Switches,
    log: &'static Log,
    kernels: &'static Kernels,
    /// Something was turned on at some time.
    was_on: AtomicBool,
    /// What is on at the start, until the thread is started with it.
    begin: Mutex<Option<Wanted>>,
    /// Where it listens.
    path: Mutex<Option<PathBuf>>,
}

/// A client.
struct Connection {
    number: u64,
    socket: Guarded,
    request: Vec<u8>,
    /// What is on for as long as it lasts.
    wanted: Wanted,
}

/// Takes out of the settings what cannot be turned on. A line for each feature that was asked for and is off.
pub(crate) fn limit(settings: &mut settings::Interceptor) -> Vec<String> {
    let Some(start @ Start::Off(_)) = settings.start.clone() else { return Vec::new() };
    let mut off = Vec::new();
    for feature in Feature::ALL {
        let (variable, is_set) = match feature {
            Feature::Capture => (settings::Interceptor::capture, settings.capture.is_some()),
            Feature::Instrument => (settings::Interceptor::instrumented, settings.instrumented.0),
            Feature::Swap => {
                let is_for_clones = settings.instrumented.0 || start.has(Feature::Instrument);
                (settings::Interceptor::kernel_cache, !settings.kernel_cache.0.is_empty() && !is_for_clones)
            }
        };
        let (name, word) = (settings::Interceptor::start, feature.name());
        match (start.has(feature), is_set) {
            (true, false) => off.push(format!("{name}: {word} cannot be turned on without {variable}")),
            (false, true) => {
                off.push(format!("{variable} has no effect: {name} does not name {word}, so it cannot be turned on"));
                match feature {
                    Feature::Capture => settings.capture = None,
                    // The cache has clones for it.
                    Feature::Instrument => {
                        settings.instrumented.0 = false;
                        settings.kernel_cache.0.clear();
                    }
                    Feature::Swap => settings.kernel_cache.0.clear(),
                }
            }
            (true, true) | (false, false) => {}
        }
    }
    off
}

impl Control {
    /// Turns everything off, if that is how the process starts.
    pub(crate) fn new(
        start: &Start,
        rows: &'static dyn Switch,
        switches: Switches,
        log: &'static Log,
        kernels: &'static Kernels,
    ) -> Control {
        let is_on = *start == Start::On;
        let control = Control {
            rows,
            switches,
            log,
            kernels,
            was_on: AtomicBool::new(is_on),
            begin: Mutex::default(),
            path: Mutex::default(),
        };
        let begin = match start {
            Start::Off(_) => Wanted::default(),
            Start::On => Wanted { rows: true, features: control.possible().collect() },
        };
        control.turn(&begin);
        *lock(&control.begin) = Some(begin);
        control
    }

    fn possible(&self) -> impl Iterator<Item = Feature> {
        self.switches.iter().filter(|(_, switch)| switch.is_some()).map(|(feature, _)| *feature)
    }

    /// Turns everything as it is wanted. What runs beside rows is on before the first of them, and off after the last.
    fn turn(&self, wanted: &Wanted) {
        if !wanted.rows {
            self.rows.turn(false);
        }
        for (feature, switch) in &self.switches {
            switch.iter().for_each(|switch| switch.turn(wanted.features.contains(feature)));
        }
        if wanted.rows {
            self.was_on.store(true, Ordering::Relaxed);
            self.rows.turn(true);
        }
    }

    /// Starts the thread, if it does not run yet.
    pub(crate) fn start(&'static self, interceptor: &'static Interceptor) {
        if let Some(begin) = lock(&self.begin).take() {
            let without = "the process cannot be controlled";
            interceptor.spawn("logdur-control", without, move || self.run(begin, interceptor));
        }
    }

    fn run(&self, begin: Wanted, interceptor: &Interceptor) {
        let mut base = begin;
        // The application may close every descriptor.
        for _ in 0..MOST_LISTENERS {
            match socket::listen() {
                Ok((listener, path)) => {
                    *lock(&self.path) = Some(path);
                    self.serve(&listener, &mut base, interceptor);
                    self.turn(&base);
                    self.forget();
                }
                Err(error) => return interceptor.off(format!("the process cannot be controlled: {error}")),
            }
        }
        interceptor.off("the process cannot be controlled any more: the application has closed each socket");
    }

    /// Answers clients for as long as the socket is ours.
    fn serve(&self, listener: &Guarded, base: &mut Wanted, interceptor: &Interceptor) {
        let (mut connections, mut numbers) = (Vec::<Connection>::new(), 0..);
        while listener.is_ours() {
            let ready = socket::wait(listener, connections.iter().map(|connection| &connection.socket));
            let mut at = 0;
            for is_ready in ready.iter().skip(1) {
                if *is_ready {
                    let mut client = connections.remove(at);
                    if self.read(&mut client, &connections, base, interceptor).is_none() {
                        self.log.totals().forget(client.number);
                        continue;
                    }
                    connections.insert(at, client);
                }
                at += 1;
            }
            if ready.first() == Some(&true) {
                match (socket::accept(listener), numbers.next()) {
                    (Some(socket), Some(number)) if connections.len() < MOST_CONNECTIONS => {
                        connections.push(Connection { number, socket, request: Vec::new(), wanted: Wanted::default() });
                    }
                    (Some(_), _) => {}
                    // Without a descriptor the client goes on waiting, and the socket stays ready.
                    (None, _) => std::thread::sleep(PAUSE),
                }
            }
            self.turn(&all(base, &connections));
        }
        connections.iter().for_each(|client| self.log.totals().forget(client.number));
    }

    /// Takes what a client has sent, and answers whole requests; `None` when it is to go.
    fn read(
        &self,
        client: &mut Connection,
        others: &[Connection],
        base: &mut Wanted,
        interceptor: &Interceptor,
    ) -> Option<()> {
        let mut bytes = [0; LONGEST_REQUEST];
        let count = client.socket.is_ours().then(|| client.socket.read(&mut bytes).ok())?.filter(|count| *count > 0)?;
        client.request.extend_from_slice(bytes.get(..count)?);
        while let Some(end) = client.request.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = client.request.drain(..=end).collect();
            let request = Request::read(line.get(..end)?);
            let answers = match request.and_then(|request| self.done(request, client, others, base, interceptor)) {
                Ok(answers) => answers,
                Err(error) => vec![Answer::Error(one_line(&error))],
            };
            let mut text: Vec<u8> = answers.iter().flat_map(Answer::to_bytes).collect();
            text.push(b'\n');
            // It does not block: a client that leaves so much unread is none.
            client.socket.write_all(&text).ok()?;
        }
        (client.request.len() <= LONGEST_REQUEST).then_some(())
    }

    fn done(
        &self,
        request: Request,
        client: &mut Connection,
        others: &[Connection],
        base: &mut Wanted,
        interceptor: &Interceptor,
    ) -> Result<Vec<Answer>, String> {
        match request {
            Request::Status => {}
            Request::Totals => return Ok(self.totals(client.number, interceptor)),
            Request::Turn(Turn::Off, features) if features.is_empty() => *base = Wanted::default(),
            Request::Turn(Turn::Off, features) => base.features.retain(|feature| !features.contains(feature)),
            Request::Turn(turn, features) => {
                if let Some(missing) = features.iter().find(|feature| !self.possible().any(|one| one == **feature)) {
                    return Err(self.refusal(*missing));
                }
                let wanted = if turn == Turn::Attach { &mut client.wanted } else { &mut *base };
                wanted.add(&features);
            }
        }
        let now = all(base, others.iter().chain([&*client]));
        self.turn(&now);
        Ok(self.status(&now, interceptor))
    }

    fn refusal(&self, feature: Feature) -> String {
        let (name, all) = (settings::Interceptor::start, self.possible().map(Feature::name).collect::<Vec<_>>());
        let possible = if all.is_empty() { "no feature but rows".to_owned() } else { all.join(", ") };
        format!("{} cannot be turned on: {name} and the feature's own variable allow {possible}", feature.name())
    }

    fn status(&self, now: &Wanted, interceptor: &Interceptor) -> Vec<Answer> {
        let header = interceptor.records.header();
        let place = match self.log.place() {
            Place::Console => None,
            Place::File(path) => Some(Answer::Log(path)),
            Place::Nowhere => Some(Answer::Nowhere),
        };
        let features = self.switches.iter().map(|(feature, switch)| {
            let switched = match switch {
                None => Switched::Impossible,
                Some(_) if now.features.contains(feature) => Switched::On,
                Some(_) => Switched::Off,
            };
            Answer::Feature(*feature, switched)
        });
        let outside = header.events()[Event::DispatchOutside as usize];
        std::env::current_exe()
            .ok()
            .map(Answer::Program)
            .into_iter()
            .chain(place)
            .chain([Answer::Rows(now.rows)])
            .chain(features)
            .chain([Answer::Seen { all: interceptor.numbered(), outside }])
            .collect()
    }

    fn totals(&self, asker: u64, interceptor: &Interceptor) -> Vec<Answer> {
        if *interceptor.may_use_runtime() {
            self.log.write_at_once(interceptor, Access::Full);
        }
        let told = self.log.totals().told(asker);
        let name = |number| self.kernels.by_number(number).map_or("", |known| known.name());
        let kernels = told.kernels.iter().take(MOST_KERNELS).map(|(number, sum)| Answer::Kernel {
            count: sum.count,
            total: sum.total,
            longest: sum.longest,
            name: one_line(name(*number)),
        });
        let totals = Answer::Totals {
            count: told.kernels.iter().map(|(_, sum)| sum.count).sum(),
            total: told.kernels.iter().map(|(_, sum)| sum.total).sum(),
            elapsed: told.elapsed,
            busy: told.busy,
            gpus: told.gpus,
        };
        [totals].into_iter().chain(kernels).collect()
    }

    /// Removes the socket, since the process ends. Says so if no client has turned anything on.
    pub(crate) fn end(&self, interceptor: &Interceptor) {
        let seen = interceptor.numbered();
        if !self.was_on.load(Ordering::Relaxed) && seen > 0 {
            let name = settings::Interceptor::start;
            self.log.off(format!("{name}: no client has turned anything on: all {seen} dispatches were outside"));
        }
        self.forget();
    }

    /// Removes the socket. If that fails, the next process of this number replaces it.
    fn forget(&self) {
        if let Some(path) = lock(&self.path).take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What is wanted by all together.
fn all<'c>(base: &Wanted, connections: impl IntoIterator<Item = &'c Connection>) -> Wanted {
    let mut all = base.clone();
    for Connection { wanted, .. } in connections.into_iter().filter(|client| client.wanted.rows) {
        all.add(&wanted.features);
    }
    all
}
