//! `omniprobe tune`: a captured dispatch with other workgroups, grids and code.

mod process;
mod region;
mod show;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::Reader;
use logdur_captured::CapturedDispatch;
use logdur_kernel_cache::Hash;
use logdur_replay::Setup;
use logdur_replay::tune::{
    Compiling, ConfiguredDispatch, Identity, Journal, Keep, Merged, Parameter, Plan, Runner, Shape, Shard, Space,
    Subject, Template, prepare, search, sources, write_csv,
};
use omniprobe_exit::Exit;

use crate::captured::{seconds, share, taken};
use crate::headings;
use crate::output::lines;
use crate::progress;
use crate::worker::{self, TargetArgs};

use process::Processes;

/// What is tried, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    target: TargetArgs,
    /// Tune the kernel of --kernel in all its dispatches of a region of the capture, by its number or as the only one: the time of all
    /// launches of the region decides, and its memory at the end is compared.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0", requires = "kernel", help_heading = headings::DISPATCHES)]
    region: Option<u64>,
    /// Folder for the results: trials.jsonl, trials.csv and code.
    #[arg(short, long, value_name = "DIR", help_heading = headings::GENERAL)]
    output: PathBuf,
    /// Continue the search in the folder. Files of the compile command that have changed are named.
    #[arg(long, help_heading = headings::GENERAL)]
    resume: bool,
    /// Measure only part I of N parts, from 1, and choose nothing: for N machines, each with a folder of its own.
    #[arg(long, value_name = "I/N", conflicts_with = "merge", help_heading = headings::GENERAL)]
    shard: Option<Shard>,
    /// Put the parts in these folders together, and choose the best. The other options are those of the parts. What no part has
    /// measured is measured.
    #[arg(long, value_name = "DIR", num_args = 1.., help_heading = headings::GENERAL)]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    choices: Choices,
    #[command(flatten)]
    effort: Effort,
}

/// What may be chosen.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What is tried")]
struct Choices {
    /// A parameter and its values. A value may be a range: `lo..hi` (inclusive), `lo..hi:step`, `lo..hi:*factor`. `\,` is a comma
    /// in a value. Repeat it for more parameters.
    #[arg(long, value_name = "NAME=V1,V2,...")]
    param: Vec<Parameter>,
    /// A workgroup, in work-items. Sizes are expressions of numbers, `{param}`, the captured `{grid_x}` to `{workgroup_z}`, + - *
    /// / and parentheses. Repeat it for more workgroups.
    #[arg(long, value_name = "X[,Y[,Z]]")]
    workgroup: Vec<Shape>,
    /// A grid, in work-items, written like a workgroup. Repeat it for more grids.
    #[arg(long, value_name = "X[,Y[,Z]]")]
    grid: Vec<Shape>,
    /// What stays when only the workgroup changes: the number of work-items, or the number of workgroups. Use groups for kernels
    /// with a grid-stride loop.
    #[arg(long, value_name = "items|groups", default_value = "items", value_parser = str::parse::<Keep>)]
    keep: Keep,
    /// Try each code object of this folder that has a kernel of this name, and the captured code.
    #[arg(long, value_name = "DIR")]
    hsaco_dir: Option<PathBuf>,
    /// Do not try other workgroups and grids with the captured code.
    #[arg(long)]
    no_original: bool,
    /// Compile code with this command of `sh -c`. `{param}` is a value as one quoted word, `{param*}` its words, `{out}` the file
    /// to write.
    #[arg(long, value_name = "COMMAND")]
    compile: Option<Template>,
    /// Compilers that run at once [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds that a compiler may take.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    compile_timeout: Duration,
    /// Try only this many random configurations.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// Seed of the random configurations: the same seed gives the same ones.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// How much is measured.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "How much is measured")]
struct Effort {
    /// Repetitions of each configuration at first.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    first: u32,
    /// Repetitions of each configuration that is not dropped.
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Drop no configuration before it has all repetitions.
    #[arg(long)]
    no_halving: bool,
    /// Stop measuring a configuration when half of the 95 % confidence interval of its median is at most this part of the median,
    /// like 1%.
    #[arg(long, value_name = "P%", value_parser = share)]
    target_ci: Option<f64>,
}

/// Tunes a dispatch.
///
/// # Errors
/// When the capture cannot be read, there is nothing to choose, or what is found cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let setup = || Setup { counted: true, ..options.target.setup() };
    if let Some(number) = options.region {
        return region::run(options, Some(number).filter(|number| *number > 0), &setup());
    }
    worker::work(&options.target, |captured| process::serve(logdur_replay::Variants::set(captured, &setup())));
    let reader = options.target.captured.open()?;
    let dispatch = options.target.captured.one(&reader)?;
    options.target.device.tell_runtime(&options.target.device.environment()?, &reader, [dispatch])?;
    let captured = taken(&reader, dispatch)?;
    let limit = captured.limit(options.target.setup().limit, true);
    tuned(options, &reader, &captured, (dispatch.id, limit))
}

/// Searches for a kernel: with one process for the trials, which is told the number and may take so long for a launch.
fn tuned(
    options: &Options,
    reader: &Reader,
    captured: &CapturedDispatch<'_>,
    (number, limit): (u64, Duration),
) -> Result<Exit> {
    let subject = Subject::of(captured);
    let space = options.space(&subject)?;
    let choices = space.choices()?;
    let choices = options.shard.map_or_else(|| choices.clone(), |shard| shard.of(choices.clone()));
    let plan = options.plan();
    let mut runner = Processes::start(&options.target, number, limit)?;
    let identity = options.identity(captured, &space, &plan)?;
    let sources = sources(&subject, &space, &choices);
    let mut journal = Journal::open(&options.output, &identity, &sources, options.resume)?;
    if !options.merge.is_empty() {
        journal.merge(Merged::read(&options.merge, &identity, &options.code())?, &sources);
    }

    let bar = progress::bar("{pos} of {len} compiled", choices.len() as u64)?;
    let compiling = options.compiling();
    let counted = |jobs: usize| bar.set_length(jobs as u64);
    let prepared = prepare(&subject, &space, choices, &compiling, &journal, &counted, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let bar = progress::bar("{pos} of {len} repetitions", 0)?;
    let searched = search(prepared.configs, &plan, &mut runner, &mut journal, &mut |progress| {
        bar.set_length(progress.expected);
        bar.set_position(progress.done);
    })?;
    bar.finish_and_clear();

    let table = options.output.join("trials.csv");
    write_csv(&table, &subject, &searched.trials, &[reader.path()])?;
    let found = show::SearchResult {
        kernel: &subject.kernel,
        sizes: subject.sizes,
        keep: space.keep,
        searched: &searched,
        shard: options.shard,
        same: prepared.same,
        changed: journal.changed(),
        qualified: runner.qualified(),
        emulated: runner.emulated(),
        place: options.place_of(captured.dispatch.id, &subject.kernel),
        table: &table,
    };
    if options.target.json {
        lines([found.json().to_string()])?;
    } else {
        lines(found.text())?;
    }
    Ok(options.target.captured.status(reader, found.exit()))
}

impl Options {
    fn space(&self, subject: &Subject<'_>) -> Result<Space> {
        let choices = &self.choices;
        Ok(Space {
            parameters: choices.param.clone(),
            workgroups: choices.workgroup.clone(),
            grids: choices.grid.clone(),
            keep: choices.keep,
            files: choices.hsaco_dir.as_ref().map(|folder| subject.files(folder)).transpose()?.unwrap_or_default(),
            no_original: choices.no_original,
            compile: choices.compile.clone(),
            random: choices.random,
            seed: choices.seed,
        })
    }

    fn plan(&self) -> Plan {
        let Effort { first, repetitions, no_halving, target_ci } = self.effort;
        Plan { first, repetitions, halving: !no_halving, target: target_ci, part: self.shard.is_some() }
    }

    /// The folder of what is compiled.
    fn code(&self) -> PathBuf {
        self.output.join("code")
    }

    fn compiling(&self) -> Compiling {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        Compiling {
            folder: self.code(),
            jobs: self.choices.jobs.map_or_else(processors, usize::from),
            limit: self.choices.compile_timeout,
            keep: self.resume || !self.merge.is_empty(),
        }
    }

    /// What a journal has to be about to be gone on with.
    fn identity(&self, captured: &CapturedDispatch<'_>, space: &Space, plan: &Plan) -> Result<Identity> {
        let file = &self.target.captured.file;
        let whole = Plan { part: false, ..*plan };
        let region = self.region.map(|number| format!("--region={number}"));
        let options = format!("{space:?} {whole:?} {:?} {region:?}", self.target.words());
        Ok(Identity {
            capture: file.canonicalize().with_context(|| file.display().to_string())?,
            dispatch: captured.dispatch.id,
            kernel: captured.original.id.to_string(),
            options: Hash::of(options.as_bytes()).to_string(),
            shard: self.shard,
        })
    }

    fn place_of(&self, dispatch: u64, kernel: &str) -> ConfiguredDispatch {
        let option = |number: u64| if number > 0 { format!("--region={number}") } else { "--region".to_owned() };
        ConfiguredDispatch {
            file: self.target.captured.file.clone(),
            dispatch,
            region: self.region.map(|number| (option(number), kernel.to_owned())),
            options: self.target.words(),
        }
    }
}
