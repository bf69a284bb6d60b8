//! `omniprobe`: the command line around `liblogdur.so`. Arguments, a library call, printing; no algorithms.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` writes: a stream that is closed or full ends no run"
)]

mod alone;
mod application;
mod attached;
mod captured;
mod cmd;
mod environment;
mod exit;
mod find;
mod foreign;
mod headings;
mod hello;
mod help;
mod input;
mod keep;
mod kind;
mod listing;
mod output;
mod preload;
mod private_folder;
mod program;
mod progress;
mod region;
mod results;
mod symbols;
mod worker;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser};
use logdur_system::text;
use omniprobe_exit::Exit;

use crate::output::{aside, lines, tell};

use cmd::run::{self, RunOptions};

/// Log, swap and capture the kernels that an application dispatches to AMD GPUs, and replay captured dispatches.
#[derive(Parser)]
#[command(name = "omniprobe", version, override_usage = cmd::USAGE)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<cmd::Command>,
    #[command(flatten)]
    run: RunOptions,
    /// Print a page for scripts and agents.
    #[arg(long, global = true, help_heading = headings::GENERAL)]
    agents_md: bool,
    /// Show no progress: neither a bar nor a line each minute.
    #[arg(short, long, global = true, help_heading = headings::GENERAL)]
    quiet: bool,
    /// The application and its arguments.
    #[arg(last = true, value_name = "APP", help_heading = "Arguments")]
    app: Vec<OsString>,
}

/// What `--agents-md` prints.
const AGENTS_MD: &str = include_str!("../../docs/agents.md");

/// True for `--agents-md` anywhere but among the application's arguments, also where something is missing that a command needs.
fn wants_agents_md(words: &[OsString]) -> bool {
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--agents-md")
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.len() < 2 {
        aside(help::SHORT.as_bytes());
        return Exit::Usage.into();
    }
    let mut command = help::command();
    let has_dashes = words.iter().any(|word| word == "--");
    let words = application::separated(&mut command, words);
    if wants_agents_md(&words) {
        return exit::end(lines(AGENTS_MD.lines().map(str::to_owned)).map(|()| Exit::Success));
    }
    let parsed = command.try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    if cli.quiet {
        progress::be_quiet();
    }
    exit::end(match cli.command {
        Some(command) => command.run(),
        None => {
            if !has_dashes {
                run::behind_the_application(&cli.app).iter().for_each(tell);
            }
            match run::run(&cli.run, &cli.app) {
                Ok(application) => return application,
                Err(error) => Err(error),
            }
        }
    })
}

/// Prints the text of clap.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        if let Some(instead) = foreign::instead(error) {
            tell(instead);
            return Exit::Usage.into();
        }
        // It repeats words of the command line, which may be names of files that others have chosen.
        let words = std::env::args_os().map(|word| text::escaped(&word.to_string_lossy()).into()).collect();
        let words = application::separated(&mut help::command(), words);
        let escaped = Cli::try_parse_from(words).err().filter(clap::Error::use_stderr);
        let _ = escaped.as_ref().unwrap_or(error).print();
        return Exit::Usage.into();
    }
    // Help and version are no errors, unless they cannot be printed.
    match error.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            exit::end(Err(anyhow::Error::new(error).context("writing to standard output")))
        }
        _ => Exit::Success.into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_the_dashes_are_the_applications() {
        let cli = Cli::parse_from(["omniprobe", "-l", "a.csv", "--", "./app", "-l", "b"]);
        assert_eq!(cli.run.log_location, Some("a.csv".into()));
        assert_eq!(cli.app, ["./app", "-l", "b"]);
    }

    #[test]
    fn options_of_rocprofv3_mean_the_same_here() {
        let line = "omniprobe --kernel-trace --memory-copy-trace --marker-trace --summary --kernel-include-regex f.* \
                    --kernel-exclude-regex g.* --output-file a.csv -- ./app";
        let run = Cli::parse_from(line.split_whitespace()).run;
        assert!(run.copies && run.markers && run.stats && run.kernel_trace);
        let names = (run.log_filter.as_deref(), run.log_exclude.as_deref());
        assert_eq!((names, run.log_location), ((Some("f.*"), Some("g.*")), Some("a.csv".into())));
    }

    #[test]
    fn the_page_for_agents_is_printed_for_every_command_and_not_for_the_application() {
        let wants = |line: &str| wants_agents_md(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(wants("omniprobe --agents-md") && wants("omniprobe verify --agents-md"));
        assert!(!wants("omniprobe -v -- ./app --agents-md"));
        let tools: Vec<String> = help::tests::shown().map(|tool| tool.get_name().to_owned()).collect();
        let unknown = tools.iter().filter(|tool| !AGENTS_MD.contains(&format!("omniprobe {tool}")));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    }

    #[test]
    fn analyzers_are_given_together_apart_or_with_commas() {
        let all = |line: &str| Cli::parse_from(line.split(' ')).run.analyzers;
        let expected = ["Heatmap", "./b.so"].map(OsString::from);
        for line in
            ["-a Heatmap ./b.so --", "-a Heatmap,./b.so", "-a Heatmap -a ./b.so --", "--analyzers=Heatmap,./b.so"]
        {
            let line = format!("omniprobe -i {line} {}x", if line.ends_with("--") { "" } else { "-- " });
            assert_eq!(all(&line), expected, "{line}");
        }
    }
}
