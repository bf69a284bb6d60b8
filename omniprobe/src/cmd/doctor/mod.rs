//! `omniprobe doctor`: what there is, and whether the library is loaded, in a process of its own or in an application.

mod glibc;
mod self_test;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use hsa::{AgentKind, Api};
use logdur_settings::Interceptor;
use omniprobe_exit::Exit;

use super::run::RunOptions;
use crate::environment::PlaceOptions;
use crate::exit::Failure;
use crate::find;
use crate::hello::Channel;
use crate::output::{aside, bytes, file, lines};
use crate::program;

/// What is asked of the doctor.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    self_test: self_test::SelfTest,
    /// An application, which is run to its end: whether its runtime loads the library, and what prevents it.
    #[arg(last = true, value_name = "APP", conflicts_with = "self_test")]
    app: Vec<OsString>,
}

/// Prints the findings; fails when nothing could be logged.
///
/// # Errors
/// When the libraries of this project are not there.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let (place, app) = (&options.place, &options.app);
    if options.self_test.is_wanted() {
        return self_test::run(place, &options.self_test);
    }
    let options = RunOptions { place: place.clone(), log_location: Some("/dev/null".into()), ..Default::default() };
    let mut environment = options.environment()?;
    let channel = Channel::open(&mut environment)?;
    environment.set(Interceptor::hello, channel.name());
    // In a process of its own: it gets the environment that applications get, and may crash.
    let output = find::this_program(place.rocm.as_deref())?
        .arg("probe")
        .envs(environment.iter())
        .output()
        .context("starting the probe")?;
    bytes(&output.stdout)?;
    if !output.status.success() {
        aside(&output.stderr);
        let text = format!("the HSA runtime cannot be used here ({})", output.status);
        return Err(Failure { exit: Exit::Environment, text }.into());
    }
    let loaded = !channel.finish().is_empty();
    let tool =
        if loaded { "liblogdur.so is loaded by the runtime" } else { "liblogdur.so is NOT loaded by the runtime" };
    lines([finding("tool", tool)])?;
    let enough = glibc_is_enough()?;
    let in_app = is_loaded_in(app, &options)?;
    Ok(if loaded && in_app && enough { Exit::Success } else { Exit::Environment })
}

/// Runs an application, if there is one, and says whether its runtime loads the library; what prevents it goes to stderr.
fn is_loaded_in(app: &[OsString], options: &RunOptions) -> Result<bool> {
    let Some((name, arguments)) = app.split_first() else { return Ok(true) };
    let program = program::find(name)?;
    let mut environment = options.environment()?;
    environment.start_sanitized(&program);
    let channel = Channel::open(&mut environment)?;
    environment.set(Interceptor::hello, channel.name());
    let mut command = Command::new(&program);
    let status = command.arg0(name).args(arguments).envs(environment.iter()).status();
    let status = status.with_context(|| format!("the application {} could not be started", program.display()))?;
    let hello = channel.finish();
    let loaded = hello.is_loaded();
    let found = if loaded { "liblogdur.so is loaded by its runtime" } else { "liblogdur.so is NOT loaded" };
    lines([finding("app", format_args!("{}: {found} ({status})", program.display()))])?;
    hello.check(&environment, None);
    Ok(loaded)
}

/// Says which glibc the library needs and which one is here; false when it is too old.
fn glibc_is_enough() -> Result<bool> {
    let library = find::library("liblogdur.so")?;
    let bytes = fs::read(&library).with_context(|| library.display().to_string())?;
    let (Some(needed), Some(here)) = (glibc::Version::needed(&bytes), glibc::Version::here()) else { return Ok(true) };
    let (line, enough) = glibc::compared(needed, here);
    lines([finding("glibc", line)])?;
    Ok(enough)
}

/// A line of the doctor's list: a name, and what was found for it.
fn finding(what: &str, found: impl Display) -> String {
    format!("{what:<10} {found}")
}

/// What is asked of the process of its own.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProbeOptions {
    /// Print the version of the runtime, and nothing else.
    #[arg(long)]
    runtime: bool,
    #[command(flatten)]
    part: self_test::PartOptions,
}

/// What runs in the process of its own: starts the runtime and says what it finds.
///
/// # Errors
/// When the runtime cannot be opened or started.
pub(crate) fn probe(options: &ProbeOptions) -> Result<Exit> {
    if let Some(exit) = self_test::part(&options.part)? {
        return Ok(exit);
    }
    let api = Api::open(None).context("opening the HSA runtime")?;
    if options.runtime {
        api.init().context("starting the HSA runtime")?;
        lines([api.build_version().to_owned()])?;
        return Ok(Exit::Success);
    }
    let runtime = mapped("libhsa-runtime64.so")?;
    let hip = hip(&runtime).map_or("not found".to_owned(), |path| described(&path));
    lines([finding("rocm", rocm_of(&runtime)), finding("runtime", described(&runtime)), finding("hip", hip)])?;
    api.init().context(
        "starting the HSA runtime; is the driver loaded, and may this user open /dev/kfd? (or try --emulate gfx90a)",
    )?;
    let (major, minor) = api.version()?;
    lines([finding("hsa", format_args!("{major}.{minor}, build {}", api.build_version()))])?;
    lines(release(&runtime).and_then(untested))?;
    let agents = api.agents()?;
    let gpus = agents.iter().filter(|agent| agent.kind == AgentKind::Gpu).map(|gpu| {
        let nature = if gpu.is_emulated() { "emulated" } else { "real" };
        finding("gpu", format_args!("{} {} [{nature}]", gpu.name, gpu.product))
    });
    let gpus: Vec<String> = gpus.collect();
    lines(if gpus.is_empty() { vec![finding("gpu", "none")] } else { gpus })?;
    api.shut_down()?;
    Ok(Exit::Success)
}

/// The file behind a library that is in this process.
fn mapped(name: &str) -> Result<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let path = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find(|path| path.contains(name));
    path.map(PathBuf::from).with_context(|| format!("{name} is not in the process that opened it"))
}

/// The ROCm that a library is of, as the files have it: 50203 for `libhsa-runtime64.so.1.5.50203` of ROCm 5.2.3.
fn release(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    name.rsplit('.').next().and_then(|digits| digits.parse().ok()).filter(|&n| n >= 50_000)
}

fn version(release: u32) -> String {
    format!("ROCm {}.{}.{}", release / 10_000, release / 100 % 100, release % 100)
}

/// A library's name, with its version.
fn described(path: &Path) -> String {
    let release = release(path).map_or(String::new(), |release| format!(" ({})", version(release)));
    format!("{}{release}", file(path))
}

/// The newest HSA runtime that the project is tested with (`docs/rocm.md`).
const NEWEST_TESTED: u32 = 70_204;

/// A line about a runtime that is newer than all that were tested.
fn untested(release: u32) -> Option<String> {
    let text = format!(
        "{} is newer than every runtime that omniprobe was tested with (up to {}); the log says what was not seen",
        version(release),
        version(NEWEST_TESTED)
    );
    (release > NEWEST_TESTED).then(|| finding("untested", text))
}

fn rocm_of(runtime: &Path) -> String {
    let folder = runtime.parent().unwrap_or(runtime);
    let root =
        folder.ancestors().find(|f| !f.ends_with("x86_64-linux-gnu") && !f.ends_with("lib") && !f.ends_with("lib64"));
    file(root.unwrap_or(folder))
}

/// HIP's library beside the runtime's.
fn hip(runtime: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(runtime.parent()?).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    found.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libamdhip64.so")));
    found.into_iter().filter_map(|p| p.canonicalize().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_is_newer_than_all_tested_ones_is_named() {
        assert_eq!(release(Path::new("/x/libhsa-runtime64.so.1.21.100000")), Some(100_000));
        let line = untested(100_000).unwrap();
        assert!(
            line.starts_with("untested   ROCm 10.0.0 is newer than") && line.contains("up to ROCm 7.2.4"),
            "{line}"
        );
        assert_eq!([50_203, NEWEST_TESTED].map(untested), [None, None]);
    }

    #[test]
    fn versions_are_read_from_file_names() {
        assert!(described(Path::new("/x/libhsa-runtime64.so.1.5.50203")).ends_with("(ROCm 5.2.3)"));
        assert!(described(Path::new("/x/libamdhip64.so.7.2.70204")).ends_with("(ROCm 7.2.4)"));
        assert_eq!(described(Path::new("/x/libhsa-runtime64.so.1")), "/x/libhsa-runtime64.so.1");
        assert_eq!(rocm_of(Path::new("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1")), "/usr");
        assert_eq!(rocm_of(Path::new("/opt/rocm-6.2.0/lib/libhsa-runtime64.so.1")), "/opt/rocm-6.2.0");
    }
}
