//! Processes that replay a dispatch each: this program with two more options. What they run on, and how they end.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use logdur_capture::{Dispatch, Placed, Reader};
use logdur_captured::region::CapturedPart;
use logdur_captured::verify::Rule;
use logdur_captured::{CapturedDispatch, CapturedError, symbol};
use logdur_replay::{Geometry, MASK_LIMIT, Replacement, STUCK_SECONDS, Setup, Variant, Which};
use logdur_settings::Emulator;
use omniprobe_exit::Exit;

use super::captured::{Backend, Captured, part, seconds, taken};
use super::environment::{Environment, PlaceOptions};
use super::exit;
use super::find;
use super::output::{demangled, lines, tell};
use super::progress;
use super::results;
use crate::headings;

/// With which glibc's dynamic loader ends a process: where a library is missing, and where there is no memory for the data of a thread,
/// as a layout may leave none (`_dl_fatal_printf`).
const ENDED_BY_LOADER: u8 = 127;

/// On what dispatches are replayed, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    place: PlaceOptions,
    /// Where dispatches are replayed.
    #[arg(long, value_name = "WHERE", value_enum, default_value = "rocm", conflicts_with_all = ["emulate", "rocm"], help_heading = headings::PLACE)]
    backend: Backend,
    /// The position of the GPU [default: the first GPU like the captured one].
    #[arg(long, value_name = "N", help_heading = headings::PLACE)]
    device: Option<usize>,
    /// Seconds that a launch may take [default: 100 times as long as in the application, and at least 10; on an emulated GPU at least 60,
    /// or 5 without progress].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = headings::REPLAY)]
    timeout: Option<Duration>,
    /// How many other address layouts are tried.
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = headings::REPLAY)]
    place_retries: u32,
    /// If no layout fits, fail. Without it, memory is placed elsewhere, and addresses of it are rewritten.
    #[arg(long, help_heading = headings::REPLAY)]
    no_relocate: bool,
    /// The dispatch that this process runs.
    #[arg(long, hide = true)]
    worker: Option<u64>,
    /// How often its placement has failed.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) attempt: u32,
}

/// Which dispatches are replayed, and on what: the options of every tool that does.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(crate) captured: Captured,
    /// Print one JSON object for each dispatch, one a line.
    #[arg(long, help_heading = headings::GENERAL)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Element type and tolerance of a buffer, like `out=f16:rel=1e-2,abs=1e-6,ulp=4`. Repeat it for more buffers.
    #[arg(long, value_name = "NAME=TYPE[:LIMITS]", help_heading = headings::COMPARISON)]
    tol: Vec<Rule>,
    /// How much of the written memory may be masked because replays of the application's own kernel differ there. More is
    /// INCONCLUSIVE [default: 1%, of a region 10%].
    #[arg(long, value_name = "P%", value_parser = part, help_heading = headings::COMPARISON)]
    mask_limit: Option<f64>,
}

/// What of a dispatch is other than it was.
#[derive(Args, Clone, Debug)]
pub(crate) struct VariantArgs {
    /// Another grid, in work-items; of the steps of a region, for the kernels that --kernel names.
    #[arg(long, value_name = "X,Y,Z", value_parser = shape, help_heading = headings::VARIANT)]
    grid: Option<Shape>,
    /// Another workgroup, in work-items; of a region as --grid.
    #[arg(long, value_name = "X,Y,Z", value_parser = shape, help_heading = headings::VARIANT)]
    workgroup: Option<Shape>,
    /// Other dynamic LDS: bytes that a launch adds to those that the code declares.
    #[arg(long, value_name = "BYTES", help_heading = headings::VARIANT)]
    lds: Option<u32>,
    /// Run the kernel of a file, for all dispatches, for the code object with this hash, or for the kernel with this name. `captured`
    /// means the kernel that ran, `original` the application's own, if another kernel ran in its place. Repeat it for more kernels.
    #[arg(long, value_name = "[HASH=|NAME=]PATH|captured|original", help_heading = headings::VARIANT)]
    hsaco: Vec<Replacement>,
    /// Run the kernels of this folder that fit. Repeat it for more folders.
    #[arg(long, value_name = "DIR", help_heading = headings::VARIANT)]
    cache: Vec<PathBuf>,
}

impl VariantArgs {
    /// For the library.
    pub(crate) fn variant(&self) -> Variant {
        let mut replacements = self.hsaco.clone();
        if !self.cache.is_empty() {
            replacements.push(Replacement::Cache(self.cache.clone()));
        }
        let geometry = Geometry { grid: self.grid, workgroup: self.workgroup, lds: self.lds };
        Variant { geometry, reshaped: None, replacements }
    }

    /// For the library, of a part of a region: the kernels that are asked for by name have the geometry.
    pub(crate) fn of_part(&self, captured: &Captured, part: &CapturedPart<'_>) -> Variant {
        let names = part.kernels.iter().map(|kernel| &kernel.original.kernel.name);
        let reshaped = names.filter(|name| captured.is_named(name)).cloned().collect();
        Variant { reshaped: Some(reshaped), ..self.variant() }
    }

    /// As options again.
    pub(crate) fn words(&self) -> Vec<String> {
        let shape = |[x, y, z]: Shape| format!("{x},{y},{z}");
        let geometry = [
            one("--grid", self.grid.map(shape)),
            one("--workgroup", self.workgroup.map(shape)),
            one("--lds", self.lds.map(|bytes| bytes.to_string())),
        ];
        let folders = self.cache.iter().map(|folder| ["--cache".to_owned(), folder.display().to_string()]);
        let files = self.hsaco.iter().map(|replacement| ["--hsaco".to_owned(), replacement.to_string()]);
        geometry.into_iter().flatten().chain(files).chain(folders).flatten().collect()
    }

    /// The files that have other kernels.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.hsaco.iter().filter_map(|replacement| match replacement {
            Replacement::File { path, .. } => Some(path.as_path()),
            _ => None,
        })
    }

    /// The folders in which other kernels are looked for.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.cache
    }

    /// True when a dispatch has another geometry.
    pub(crate) fn has_geometry(&self) -> bool {
        self.grid.is_some() || self.workgroup.is_some() || self.lds.is_some()
    }

    /// The geometry is for kernels that are asked for by name, or for the only one; `kernels` are those that are launched.
    ///
    /// # Errors
    /// When there is none of the name, or there are several and no name is given.
    pub(crate) fn reshapes(&self, captured: &Captured, kernels: &BTreeSet<&str>) -> Result<()> {
        let all = || kernels.iter().map(|kernel| demangled(kernel)).collect::<Vec<_>>().join(", ");
        let refused = |what: &str, expected: &str, found: String| {
            Err(CapturedError::Usage { what: what.to_owned(), expected: expected.to_owned(), found }.into())
        };
        let named = kernels.iter().filter(|kernel| captured.is_named(kernel)).count();
        match (captured.has_name(), named) {
            (true, 0) => refused("--kernel", "a kernel that these steps launch", format!("none among {}", all())),
            (false, 2..) => refused("--grid, --workgroup and --lds", "a kernel for them, by --kernel", all()),
            _ => Ok(()),
        }
    }

    /// Every file is for one of the dispatches: else a misspelt name would have the application's own kernel verified.
    pub(crate) fn is_used(&self, file: &Path, reader: &Reader, dispatches: &[&Placed<Dispatch>]) -> Result<()> {
        let name = |dispatch: &&Placed<Dispatch>| symbol(reader, dispatch).to_owned();
        for replacement in &self.hsaco {
            let mut used = false;
            for dispatch in dispatches {
                let number = dispatch.replaced_kernel.unwrap_or(dispatch.kernel);
                let Some(kernel) = reader.records().kernels.iter().find(|k| k.id == number) else { continue };
                // What cannot be read is told by the replay.
                let code = reader.code_object(kernel.code_object).unwrap_or_default();
                used |= replacement.is_for(&kernel.symbol, &code);
            }
            if let (false, Replacement::File { of: Which::Named(found), .. }) = (used, replacement) {
                let names: BTreeSet<String> = dispatches.iter().map(name).collect();
                let names: Vec<String> = names.into_iter().collect();
                return Err(CapturedError::Usage {
                    what: format!("{}: --hsaco", file.display()),
                    expected: format!("all, the hash of a code object, or a name: {}", names.join(", ")),
                    found: found.clone(),
                }
                .into());
            }
        }
        Ok(())
    }
}

/// A size in three dimensions.
type Shape = [u32; 3];

fn shape(text: &str) -> Result<Shape, String> {
    let refuse = || format!("expected one to three numbers, found {text:?}");
    let mut shape = [1; 3];
    let mut numbers = text.split(',');
    for (to, number) in shape.iter_mut().zip(&mut numbers) {
        *to = number.parse().map_err(|_| refuse())?;
    }
    if numbers.next().is_some() { Err(refuse()) } else { Ok(shape) }
}

impl DeviceArgs {
    /// For the library.
    pub(crate) fn setup(&self) -> Setup {
        let backend = match self.backend {
            Backend::Rocm => logdur_captured::Backend::Rocm,
            Backend::Emu => logdur_captured::Backend::Emulated,
        };
        Setup {
            backend,
            relocate: self.attempt > self.place_retries,
            exact: self.no_relocate,
            device: self.device,
            limit: self.timeout,
            ..Setup::default()
        }
    }

    /// Where dispatches are replayed, as options again.
    pub(crate) fn place_words(&self) -> Vec<String> {
        self.words().into_iter().flatten().flatten().collect()
    }

    /// As options again.
    fn words(&self) -> Vec<Option<[String; 2]>> {
        vec![
            one("--backend", (self.backend == Backend::Emu).then(|| "emu".to_owned())),
            one("--emulate", self.place.emulate.clone()),
            one("--rocm", self.place.rocm.as_ref().map(|rocm| rocm.display().to_string())),
            one("--device", self.device.map(|device| device.to_string())),
            one("--timeout", self.timeout.map(|timeout| timeout.as_secs_f64().to_string())),
        ]
    }

    /// The number of what this process runs, if it is one of those that do.
    pub(crate) fn worker(&self) -> Option<u64> {
        self.worker
    }

    /// True when dispatches run on an emulated GPU.
    pub(crate) fn is_emulated(&self) -> bool {
        self.backend == Backend::Emu || self.place.emulate.is_some()
    }

    /// True when dispatches run on the emulated GPU alone, without a runtime.
    pub(crate) fn is_without_runtime(&self) -> bool {
        self.backend == Backend::Emu
    }

    /// The folder of the ROCm that is asked for.
    pub(crate) fn rocm(&self) -> Option<&Path> {
        self.place.rocm.as_deref()
    }

    /// The layouts of addresses that are tried, at last one in which memory may be elsewhere. The emulated GPU alone has its own.
    pub(crate) fn attempts(&self) -> std::ops::RangeInclusive<u32> {
        0..=match self.backend {
            Backend::Emu => 0,
            Backend::Rocm => self.place_retries.saturating_add(u32::from(!self.no_relocate)),
        }
    }

    /// A command that replays a dispatch in a process of its own.
    ///
    /// # Errors
    /// When it is not known where this program is, or what it has to be run by.
    pub(crate) fn command(&self, environment: &Environment, dispatch: u64, attempt: u32) -> Result<Command> {
        let mut command = self.process(attempt)?;
        command
            .args(std::env::args_os().skip(1))
            .args([format!("--worker={dispatch}"), format!("--attempt={attempt}")]);
        command.envs(environment.iter());
        Ok(command)
    }

    /// Says once that the runtime is another than that of the capture: what it refuses, it refuses of every dispatch.
    ///
    /// # Errors
    /// As for [`command`](DeviceArgs::command).
    pub(crate) fn tell_runtime<'d>(
        &self,
        environment: &Environment,
        reader: &Reader,
        dispatches: impl IntoIterator<Item = &'d Placed<Dispatch>>,
    ) -> Result<()> {
        let captured: BTreeSet<&str> =
            dispatches.into_iter().map(|dispatch| logdur_captured::runtime(reader, dispatch)).collect();
        let captured: Vec<&str> = captured.into_iter().filter(|runtime| !runtime.is_empty()).collect();
        if self.backend != Backend::Rocm || captured.is_empty() {
            return Ok(());
        }
        let output = self.process(1)?.args(["probe", "--runtime"]).envs(environment.iter()).output();
        let output = output.context("starting the process that asks for the runtime's version")?;
        let runtime = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        // Where the runtime cannot be used, each dispatch says why.
        if output.status.success() && !runtime.is_empty() && captured != [runtime.as_str()] {
            tell(format_args!(
                "{}: captured under runtime {}, replayed under runtime {runtime}; --rocm DIR chooses another ROCm",
                reader.path().display(),
                captured.join(", ")
            ));
        }
        Ok(())
    }

    /// This program, run as the processes of dispatches are.
    fn process(&self, attempt: u32) -> Result<Command> {
        let program = std::env::current_exe().context("where this program is")?;
        let loader = self.place.rocm.as_deref().map(find::loader).transpose()?.flatten();
        let loader = loader.as_ref().map(|(loader, libraries)| (loader.as_path(), libraries.as_os_str()));
        Ok(logdur_replay::worker(&program, loader, attempt))
    }

    /// The variables that such processes need.
    pub(crate) fn environment(&self) -> Result<Environment> {
        let mut environment = Environment::default();
        if self.backend == Backend::Rocm {
            environment.place(&self.place, None)?;
            // An emulated GPU shows reads of unwritten memory.
            environment.set(Emulator::fill, "1");
            if std::env::var_os(Emulator::stuck_seconds).is_none() {
                environment.set(Emulator::stuck_seconds, STUCK_SECONDS.to_string());
            }
        }
        Ok(environment)
    }

    /// Runs a process for each of some numbers, until its memory is placed; how they have ended. `name` says what a number is of.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub(crate) fn each(
        &self,
        environment: &Environment,
        numbers: &[u64],
        of: &str,
        name: impl Fn(u64) -> String,
    ) -> Result<Vec<u8>> {
        let mut ends = Vec::new();
        let bar = progress::bar(&format!("{{pos}} of {{len}} {of}"), numbers.len() as u64)?;
        for &number in numbers {
            bar.tick();
            let mut ended = Exit::Placement as u8;
            for attempt in self.attempts() {
                let ran = run(self.command(environment, number, attempt)?, &bar)?;
                ended = status_of(ran, &name(number));
                if ended != Exit::Placement as u8 && ended != ENDED_BY_LOADER {
                    break;
                }
            }
            if ended == ENDED_BY_LOADER {
                ended = Exit::Environment as u8;
            }
            bar.inc(1);
            ends.push(ended);
        }
        bar.finish_and_clear();
        Ok(ends)
    }

    /// Ends this process, which has done its work: `said` is what programs are told of an error.
    pub(crate) fn leave(
        &self,
        name: &str,
        done: Result<Exit>,
        said: impl Fn(&anyhow::Error, Exit) -> Option<String>,
    ) -> ! {
        let status = done.unwrap_or_else(|error| {
            let status = exit::of(&error);
            // Another layout of addresses is tried; of the last one it is said what was in the way.
            if status != Exit::Placement || self.attempt == *self.attempts().end() {
                // A parent that does not read has the status.
                let _ = lines(said(&error, status));
                tell(format_args!("{name}: {error:#}"));
            }
            status
        });
        logdur_replay::leave(status as u8)
    }
}

/// An option with its value.
fn one(option: &str, value: Option<String>) -> Option<[String; 2]> {
    value.map(|value| [option.to_owned(), value])
}

impl TargetArgs {
    /// For the library.
    pub(crate) fn setup(&self) -> Setup {
        Setup { rules: self.tol.clone(), mask_limit: self.mask_limit, ..self.device.setup() }
    }

    /// As options again: for a command line to copy, and to tell one search from another.
    pub(crate) fn words(&self) -> Vec<String> {
        let limit = self.mask_limit.filter(|limit| *limit != MASK_LIMIT);
        let limit = one("--mask-limit", limit.map(|limit| limit.to_string()));
        let rules = self.tol.iter().map(|rule| one("--tol", Some(rule.to_string())));
        self.device.words().into_iter().chain([limit]).chain(rules).flatten().flatten().collect()
    }
}

/// Does a dispatch's work in this process and ends it, if this is a worker.
pub(crate) fn work(target: &TargetArgs, work: impl FnOnce(&CapturedDispatch<'_>) -> Result<Exit>) {
    let Some(dispatch) = target.device.worker() else { return };
    let said = |error: &anyhow::Error, status| target.json.then(|| results::error(dispatch, error, status).to_string());
    target.device.leave(&format!("dispatch {dispatch}"), with_case(&target.captured, dispatch, work), said)
}

/// Does work for each dispatch, in a process of its own, and ends with the status of all ([`Exit::of_all`]).
///
/// # Errors
/// When the capture cannot be read, when a file is for none of the dispatches, or this program cannot be started again.
pub(crate) fn each(
    target: &TargetArgs,
    variant: &VariantArgs,
    of_one: impl FnOnce(&CapturedDispatch<'_>) -> Result<Exit>,
) -> Result<Exit> {
    work(target, of_one);
    let reader = target.captured.open()?;
    let environment = target.device.environment()?;
    let dispatches = target.captured.dispatches(&reader)?;
    variant.is_used(&target.captured.file, &reader, &dispatches)?;
    target.device.tell_runtime(&environment, &reader, dispatches.iter().copied())?;
    let numbers: Vec<u64> = dispatches.iter().map(|dispatch| dispatch.id).collect();
    let mut ends = target.device.each(&environment, &numbers, "dispatches", |number| format!("dispatch {number}"))?;
    ends.extend(target.captured.damage(&reader).map(|exit| exit as u8));
    // Statuses of workers are passed on as they are.
    std::process::exit(Exit::of_all(ends).into())
}

/// Runs a command; what it says does not get into the bar.
fn run(mut command: Command, bar: &ProgressBar) -> Result<ExitStatus> {
    let starting = "starting the process of a dispatch";
    if bar.is_hidden() {
        return command.status().context(starting);
    }
    let output = command.stdin(Stdio::inherit()).output().context(starting)?;
    bar.suspend(|| {
        super::output::aside(&output.stderr);
        super::output::bytes(&output.stdout)
    })?;
    Ok(output.status)
}

/// The status of a worker's end.
fn status_of(ended: ExitStatus, name: &str) -> u8 {
    if let Some(signal) = ended.signal() {
        let said = format!("{name}: the process of the replay was ended by signal {signal}");
        // The runtime aborts where it cannot have addresses.
        let limit = logdur_replay::address_limit().filter(|_| signal == libc::SIGABRT);
        let Some(limit) = limit else {
            tell(said);
            return Exit::Fault as u8;
        };
        tell(format_args!(
            "{said}; the limit of its addresses (ulimit -v) is {limit} bytes, which may be too few for the runtime"
        ));
        return Exit::Environment as u8;
    }
    ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Environment as u8)
}

fn with_case(
    captured: &Captured,
    dispatch: u64,
    work: impl FnOnce(&CapturedDispatch<'_>) -> Result<Exit>,
) -> Result<Exit> {
    // What is wrong with it was told by the process that started this one.
    let reader: Reader = captured.reopened()?;
    let found = reader.dispatches().iter().find(|d| d.id == dispatch);
    work(&taken(&reader, found.context("the dispatch is no longer there")?)?)
}
