//! `omniprobe doctor --self-test`: starts the processes of the checks, and shows the report.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use logdur_self_test::{CAPTURE, Check, CheckProcess, HELLO, LOG, Launch, Site, Way, selection};
use logdur_settings::Interceptor;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;
use serde_json::Map;

use crate::captured::seconds;
use crate::cmd::run::{CaptureOptions, RunOptions};
use crate::environment::{Environment, PlaceOptions};
use crate::find;
use crate::headings;
use crate::output::{lines, tell};
use crate::private_folder::PrivateFolder;

/// Which checks, and where the report goes.
#[derive(Args, Clone, Debug)]
pub(super) struct SelfTest {
    /// Check on the GPU what the library relies on, and say what the library will do here.
    #[arg(long, help_heading = headings::SELF_TEST)]
    self_test: bool,
    /// Only these checks and those that they need, by name.
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',', requires = "self_test", help_heading = headings::SELF_TEST)]
    checks: Vec<String>,
    /// Write the report of the checks as JSON.
    #[arg(long, requires = "self_test", help_heading = headings::SELF_TEST)]
    json: bool,
    /// Write the report into this folder too: report.json and report.txt.
    #[arg(long, value_name = "DIR", requires = "self_test", help_heading = headings::SELF_TEST)]
    report: Option<PathBuf>,
    /// How many seconds each process of a check may take.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds, requires = "self_test", help_heading = headings::SELF_TEST)]
    time_limit: Duration,
}

impl SelfTest {
    /// True if the checks are to run.
    pub(super) fn is_wanted(&self) -> bool {
        self.self_test
    }
}

/// The part of a check that this process runs.
#[derive(Args, Clone, Debug)]
pub(super) struct PartOptions {
    /// The check.
    #[arg(long, requires_all = ["part", "folder"])]
    check: Option<String>,
    /// Its part.
    #[arg(long)]
    part: Option<String>,
    /// The folder of the check.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Starts the processes: this program, in the environment that each is to have.
struct Starter<'a> {
    place: &'a PlaceOptions,
}

/// Runs the checks and shows what they found.
///
/// # Errors
/// When no process can be started, or no report be written.
pub(super) fn run(place: &PlaceOptions, options: &SelfTest) -> Result<Exit> {
    let checks = selection(&options.checks).map_err(|error| anyhow!("--checks: {error}"))?;
    let folder = PrivateFolder::new()?;
    let starter = Starter { place };
    // What is wrong with the options is told before any check.
    starter.environment(Way::Watched, folder.path())?;
    let mut progress = |check: &Check| tell(format_args!("check {:>2}: {}", check.number, check.name));
    let report = logdur_self_test::run(&checks, &starter, folder.path(), options.time_limit, &mut progress)
        .context("the processes of the checks")?;
    let mut about = Map::new();
    about.insert("omniprobe".to_owned(), env!("CARGO_PKG_VERSION").into());
    let (text, json) = (report.text(), report.json(about).to_string() + "\n");
    if let Some(to) = &options.report {
        fs::create_dir_all(to).with_context(|| format!("--report {}", to.display()))?;
        for (name, content) in [("report.txt", &text), ("report.json", &json)] {
            let path = to.join(name);
            let mut report = Output::begin_in(to, name, Readers::Those, &[])?;
            report.write_all(content.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
            report.finish()?;
        }
    }
    lines(if options.json { &json } else { &text }.lines().map(str::to_owned))?;
    Ok(if report.is_clean() { Exit::Success } else { Exit::Environment })
}

/// Runs a part of a check, if this process is there for one.
///
/// # Errors
/// When the part could not be made.
pub(super) fn part(options: &PartOptions) -> Result<Option<Exit>> {
    let (Some(check), Some(part), Some(folder)) = (&options.check, &options.part, &options.folder) else {
        return Ok(None);
    };
    let findings = logdur_self_test::part(check, part, &Site::of(folder))?;
    lines([serde_json::to_string(&findings)?])?;
    Ok(Some(Exit::Success))
}

impl Starter<'_> {
    /// The variables of a process.
    fn environment(&self, way: Way, folder: &Path) -> Result<Environment> {
        if matches!(way, Way::Bare | Way::Verify) {
            let mut environment = Environment::default();
            environment.place(self.place, None)?;
            return Ok(environment);
        }
        let capture = CaptureOptions {
            capture: (way == Way::Captured).then(|| folder.join(CAPTURE).into()),
            capture_kernels: (way == Way::Captured).then(|| "^add$".into()),
            ..CaptureOptions::default()
        };
        let options = RunOptions {
            place: self.place.clone(),
            log_location: Some(folder.join(LOG).into()),
            log_format: Some("json".to_owned()),
            capture,
            ..RunOptions::default()
        };
        let mut environment = if way == Way::Variable {
            let mut environment = Environment::default();
            environment.place(self.place, None)?;
            environment.set("HSA_TOOLS_LIB", options.environment()?.get("HSA_TOOLS_LIB").unwrap_or_default());
            environment
        } else {
            options.environment()?
        };
        environment.set(Interceptor::hello, folder.join(HELLO));
        Ok(environment)
    }
}

/// Variables of others that would change what is checked.
fn is_in_the_way(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("LOGDUR_") || name.starts_with("HSA_TOOLS_")
}

impl Launch for Starter<'_> {
    fn command(&self, check: &Check, part: &CheckProcess, folder: &Path) -> io::Result<Command> {
        // `verify` chooses libraries by its own options.
        let rocm = self.place.rocm.as_deref().filter(|_| part.way != Way::Verify);
        let mut command = find::this_program(rocm).map_err(io::Error::other)?;
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_in_the_way(name)) {
            command.env_remove(name);
        }
        if part.way == Way::Verify {
            command.arg("verify").arg(folder.join(CAPTURE)).arg("--json");
            for (option, value) in [
                ("--emulate", self.place.emulate.as_deref().map(OsStr::new)),
                ("--rocm", self.place.rocm.as_deref().map(Path::as_os_str)),
            ] {
                if let Some(value) = value {
                    command.arg(option).arg(value);
                }
            }
            return Ok(command);
        }
        let environment = self.environment(part.way, folder).map_err(io::Error::other)?;
        if part.way != Way::Bare {
            // The library writes to a file that is there.
            fs::write(folder.join(HELLO), b"")?;
        }
        command.args(["probe", "--check", check.name, "--part", part.name, "--folder"]).arg(folder);
        command.envs(environment.iter());
        Ok(command)
    }
}
