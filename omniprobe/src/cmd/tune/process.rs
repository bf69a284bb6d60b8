//! What runs the trials of `omniprobe tune`: a process that has the captured memory on a device, and is asked for one
//! configuration after the other. Whatever a kernel does to it, it is a result; the next trial has a new one.
//!
//! Both sides speak lines of JSON, over standard input and output.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use logdur_captured::verify::{BufferReport, Overall};
use logdur_replay::tune::{Config, Outcome, Runner};
use logdur_replay::{Ran, Replacement, ReplayError, Trials, Variant, Which};
use omniprobe_exit::Exit;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::exit;
use crate::exit::Failure;
use crate::results;
use crate::worker::TargetArgs;

/// What a process may need besides its launches: to look at all memory, twice.
const SLACK: Duration = Duration::from_secs(120);
/// Launches besides those that are asked for, at most: a configuration is judged.
const JUDGED: u32 = 96;
/// Lines that are shown of what a process said before it ended.
const LAST: usize = 3;

/// A configuration that is asked for.
#[derive(Serialize, Deserialize)]
struct Request {
    config: Config,
    repetitions: u32,
}

/// What a process says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// The memory is on the device.
    Ready {
        /// That is not hardware.
        emulated: bool,
        /// Why a result says less than it could.
        qualified: Vec<String>,
    },
    /// It could not be put there: the status, and why.
    NotReady(Exit, String),
    /// What came of a request, and why that says less than it could.
    Done(Outcome, Vec<String>),
    /// What came of it, and the device is of no use any more.
    Last(Outcome),
}

/// Answers requests in this process, until there are no more.
///
/// # Errors
/// When the other process has closed the pipe.
pub(super) fn serve<T: Trials>(set: logdur_replay::Result<T>) -> Result<Exit> {
    let mut output = io::stdout().lock();
    let mut say = |answer: &Answer| -> Result<()> {
        writeln!(output, "{}", serde_json::to_string(answer)?)?;
        Ok(output.flush()?)
    };
    let mut variants = match set {
        Ok(variants) => variants,
        Err(error) => {
            let error = anyhow::Error::from(error);
            let status = exit::of(&error);
            say(&Answer::NotReady(status, format!("{error:#}")))?;
            return Ok(status);
        }
    };
    say(&Answer::Ready { emulated: variants.device().emulated, qualified: variants.qualified().to_vec() })?;
    for line in io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).context("a request")?;
        let Config { geometry, code, code_hash, .. } = request.config;
        let file = code.map(|path| Replacement::File { of: Which::All, path, checked: code_hash });
        let variant = Variant { geometry, reshaped: None, replacements: file.into_iter().collect() };
        let answer = match variants.run(&variant, request.repetitions) {
            Ok(ran) => Answer::Done(judged(&ran), ran.qualified),
            Err(error) => failed(error),
        };
        say(&answer)?;
        if matches!(answer, Answer::Last(_)) {
            break;
        }
    }
    Ok(Exit::Success)
}

/// What came of a configuration that ran.
fn judged(ran: &Ran) -> Outcome {
    match ran.overall {
        Overall::Pass => Outcome::measured(ran.gpu_ns.clone()),
        Overall::Inconclusive => Outcome::Inconclusive { text: ran.qualified.join("; ") },
        Overall::Fail | Overall::NotReproduced => Outcome::Mismatch { text: mismatch(ran) },
        Overall::NothingWritten => Outcome::NothingWritten { text: mismatch(ran) },
        Overall::NoReference => Outcome::NoReference { text: mismatch(ran) },
    }
}

/// Why a configuration does not pass, in one line.
fn mismatch(ran: &Ran) -> String {
    let failing = |b: &&BufferReport| b.verdict.is_failure();
    let lines: Vec<String> = ran.buffers.iter().filter(failing).take(1).flat_map(results::buffer).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    if lines.is_empty() { ran.overall.to_string() } else { lines.join("; ") }
}

/// What an error is: a result of the configuration's.
fn failed(error: ReplayError) -> Answer {
    let exit = exit::of_replay(&error);
    let seconds = match error {
        ReplayError::Timeout { seconds } | ReplayError::Stuck { seconds, .. } | ReplayError::Copy { seconds } => {
            seconds
        }
        _ => 0.0,
    };
    let text = format!("{:#}", anyhow::Error::from(error));
    match exit {
        Exit::Usage => Answer::Done(Outcome::Invalid { text }, Vec::new()),
        Exit::Unsupported | Exit::Corrupt => Answer::Done(Outcome::Refused { text }, Vec::new()),
        Exit::Fault => Answer::Last(Outcome::Fault { text }),
        Exit::Timeout => Answer::Last(Outcome::Hang { seconds }),
        _ => Answer::Last(Outcome::Crash { text }),
    }
}

/// A process that answers.
struct Server {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    /// What it says on its standard error, known when that is closed.
    said: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts one.
    ///
    /// # Errors
    /// When this program cannot be started again.
    fn start(target: &TargetArgs, environment: &Environment, dispatch: u64, attempt: u32) -> Result<Server> {
        let mut command = target.device.command(environment, dispatch, attempt)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting the process of trials")?;
        let requests = child.stdin.take().context("its standard input")?;
        let output = child.stdout.take().context("its standard output")?;
        let mut errors = child.stderr.take().context("its standard error")?;
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(io::Result::ok);
            // A receiver that is gone needs no answer.
            lines.take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
        });
        let said = thread::spawn(move || {
            let mut text = Vec::new();
            // What could be read is shown.
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Server { child, requests, answers, said: Some(said) })
    }

    /// What it says next.
    ///
    /// # Errors
    /// [`RecvTimeoutError`], or that it is not to be understood.
    fn answer(&mut self, limit: Duration) -> Result<Answer> {
        let line = self.answers.recv_timeout(limit)?;
        serde_json::from_str(&line).with_context(|| format!("expected an answer, found {line:?}"))
    }

    /// Asks for a configuration.
    ///
    /// # Errors
    /// As for [`Server::answer`], and when it has ended.
    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer> {
        writeln!(self.requests, "{}", serde_json::to_string(request)?)?;
        self.answer(limit)
    }

    /// Ends it, if it has not; how it ended, and what it said last.
    fn end(&mut self) -> String {
        // It may have ended meanwhile.
        let _ = self.child.kill();
        let status = self.child.wait();
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().rev().take(LAST).collect();
        let said: String = lines.iter().rev().map(|line| format!(": {line}")).collect();
        match status {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("ended by signal {signal}{said}"),
                (None, code) => format!("ended with status {}{said}", code.unwrap_or_default()),
            },
            Err(error) => format!("{error}{said}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Processes that run trials, one after the other.
pub(super) struct Processes<'a> {
    target: &'a TargetArgs,
    environment: Environment,
    dispatch: u64,
    /// How long a launch may take.
    limit: Duration,
    server: Option<Server>,
    emulated: bool,
    qualified: Vec<String>,
    /// What the last configuration was qualified by that was.
    masked: Vec<String>,
}

impl<'a> Processes<'a> {
    /// The first of them, with the memory on the device.
    ///
    /// # Errors
    /// What keeps the dispatch from being replayed.
    pub(super) fn start(target: &'a TargetArgs, dispatch: u64, limit: Duration) -> Result<Processes<'a>> {
        let environment = target.device.environment()?;
        let (emulated, qualified, masked) = (false, Vec::new(), Vec::new());
        let mut processes =
            Processes { target, environment, dispatch, limit, server: None, emulated, qualified, masked };
        processes.renew()?;
        Ok(processes)
    }

    /// Starts a process, and waits until it has the memory on the device.
    fn renew(&mut self) -> Result<()> {
        for attempt in self.target.device.attempts() {
            let mut server = Server::start(self.target, &self.environment, self.dispatch, attempt)?;
            match server.answer(SLACK) {
                Ok(Answer::Ready { emulated, qualified }) => {
                    (self.emulated, self.qualified) = (emulated, qualified);
                    self.server = Some(server);
                    return Ok(());
                }
                Ok(Answer::NotReady(Exit::Placement, _)) if attempt != *self.target.device.attempts().end() => {}
                Ok(Answer::NotReady(exit, text)) => return Err(Failure { exit, text }.into()),
                Ok(Answer::Done(..) | Answer::Last(_)) => bail!("the process of trials answered before it was asked"),
                Err(error) => bail!("the process of trials: {error}: {}", server.end()),
            }
        }
        bail!("no layout of addresses was tried")
    }

    fn run_one(&mut self, request: &Request) -> Result<Outcome> {
        if self.server.is_none() {
            self.renew()?;
        }
        let Some(mut server) = self.server.take() else { bail!("no process of trials") };
        // It looks after its launches itself, unless it cannot.
        let limit = self.limit.saturating_mul(request.repetitions.saturating_add(JUDGED)).saturating_add(SLACK);
        match server.ask(request, limit) {
            Ok(Answer::Done(outcome, qualified)) => {
                self.server = Some(server);
                if !qualified.is_empty() {
                    self.masked = qualified;
                }
                Ok(outcome)
            }
            Ok(Answer::Last(outcome)) => Ok(outcome),
            Ok(_) => bail!("the process of trials answered something else"),
            Err(error) if error.downcast_ref() == Some(&RecvTimeoutError::Timeout) => {
                Ok(Outcome::Hang { seconds: limit.as_secs_f64() })
            }
            Err(_) => Ok(Outcome::Crash { text: format!("the process {}", server.end()) }),
        }
    }
}

impl Runner for Processes<'_> {
    fn run(&mut self, config: &Config, repetitions: u32) -> Outcome {
        let request = Request { config: config.clone(), repetitions };
        self.run_one(&request).unwrap_or_else(|error| Outcome::Crash { text: format!("{error:#}") })
    }

    fn emulated(&self) -> bool {
        self.emulated
    }

    fn qualified(&self) -> Vec<String> {
        [self.qualified.clone(), self.masked.clone()].concat()
    }
}
