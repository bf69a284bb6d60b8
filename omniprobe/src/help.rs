//! The pages of `--help`: the whole command, the example of each subcommand, and the exit statuses.

use clap::CommandFactory;
use omniprobe_exit::Exit;

use crate::cmd::run::with_variables;
use crate::{Cli, cmd};

/// What is printed without arguments.
pub(crate) const SHORT: &str = "\
Log, swap and capture the kernels that an application dispatches to AMD GPUs.

  omniprobe ./app                          Log each dispatch on the standard output
  omniprobe --stats ./app                  Print totals per kernel at the end
  omniprobe --capture app.ldcap ./app      Capture dispatches; `omniprobe verify app.ldcap` replays them

`omniprobe doctor` checks this machine, and `--emulate gfx90a` needs no GPU.
`omniprobe --help` lists all options and subcommands.
";

/// Examples of running an application.
const RUNNING: &str = "\
Examples:
  omniprobe -l log.csv -- ./app                              Log each dispatch into a file
  omniprobe --stats -- ./app                                 Print totals per kernel at the end
  omniprobe --emulate gfx90a -- ./app                        Run without a GPU
  omniprobe -c faster --cache-mode alternate -- ./app        Compare swapped kernels with the application's
  omniprobe -i -a Heatmap -- ./app                           Analyze what instrumented kernels send
  omniprobe --capture app.ldcap --capture-kernels gemm -- ./app   Capture the first dispatch of each gemm kernel
";

/// The command line as clap knows it, with examples and statuses at the end of each page of help.
pub(crate) fn command() -> clap::Command {
    fn with_ends(command: clap::Command) -> clap::Command {
        let example = cmd::examples().find(|(name, ..)| *name == command.get_name());
        let example = example.map_or(String::new(), |(_, what, line)| format!("Example: {what}\n  {line}\n\n"));
        command.after_help(format!("{example}{}", Exit::help())).mut_subcommands(with_ends)
    }
    let own = format!(
        "{RUNNING}\nThe status of `omniprobe APP` is the application's, if it was started.\n\n{}",
        Exit::help()
    );
    with_variables(Cli::command()).mut_subcommands(with_ends).after_help(own)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    /// The subcommands that are not hidden.
    pub(crate) fn shown() -> impl Iterator<Item = clap::Command> {
        let all: Vec<clap::Command> = command().get_subcommands().filter(|tool| !tool.is_hide_set()).cloned().collect();
        all.into_iter()
    }

    /// These and the subcommands below them.
    fn with_nested() -> Vec<clap::Command> {
        let nested = |tool: clap::Command| {
            let below: Vec<clap::Command> = tool.get_subcommands().cloned().collect();
            std::iter::once(tool).chain(below)
        };
        shown().flat_map(nested).collect()
    }

    #[test]
    fn the_help_of_every_subcommand_has_every_status() {
        let all: Vec<clap::Command> = std::iter::once(command()).chain(with_nested()).collect();
        assert!(all.len() > 15, "only {}", all.len());
        for mut tool in all {
            let help = tool.render_long_help().to_string();
            for status in Exit::ALL {
                let line = format!("  {:>2}  {}", *status as u8, status.means());
                assert!(help.contains(&line.replace('`', "")), "{}: {line} is not in\n{help}", tool.get_name());
            }
        }
    }

    #[test]
    fn every_subcommand_has_an_example_that_its_options_allow() {
        for tool in with_nested() {
            let name = tool.get_name();
            let found: Vec<_> = cmd::examples().filter(|(of, ..)| *of == name).collect();
            let [(_, _, line)] = found.as_slice() else {
                panic!("{name}: expected one example, found {}", found.len())
            };
            assert!(line.split(' ').any(|word| word == name), "{name}: {line}");
            if let Err(error) = Cli::try_parse_from(line.replace('\'', "").split(' ')) {
                panic!("{line}: {error}");
            }
        }
        for line in RUNNING.lines().filter_map(|line| line.strip_prefix("  ")) {
            let words = line.split("  ").next().unwrap_or_default();
            assert!(Cli::try_parse_from(words.split(' ')).is_ok(), "{words}");
        }
    }
}
