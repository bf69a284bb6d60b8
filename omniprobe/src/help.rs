//! The pages of `--help`: headings of options, an example for each subcommand, and the exit statuses.

use clap::CommandFactory;
use logdur_replay::Exit;

use crate::Cli;

/// Headings of the options.
pub(crate) const LOG: &str = "Log";
pub(crate) const SWAP: &str = "Swap kernels";
pub(crate) const CAPTURE: &str = "Capture dispatches";
pub(crate) const DISPATCHES: &str = "Dispatches";
pub(crate) const SELF_TEST: &str = "Self-test";
pub(crate) const PLACE: &str = "Device and runtime";
pub(crate) const VARIANT: &str = "Other kernels and geometries";
pub(crate) const REPLAY: &str = "Replay";
pub(crate) const COMPARISON: &str = "Comparison";
pub(crate) const MEASUREMENT: &str = "Measurement";
pub(crate) const ANALYSIS: &str = "Analysis";
pub(crate) const GENERAL: &str = "General";
pub(crate) const INSTRUMENTED: &str = "Instrumented kernels";

/// The forms of the command line.
pub(crate) const USAGE: &str = "omniprobe [OPTIONS] [--] APP [ARGS]...
       omniprobe doctor [--self-test] [--rocm DIR] [--emulate ARCH]
       omniprobe log FILE... [-l WHERE] [-t FORMAT], omniprobe log --list|--clean
       omniprobe summary LOG... [--against BASELINE]
       omniprobe trace LOG... -o FILE.pftrace
       omniprobe report LOG|CAPTURE|DIR|FILE... -o FILE.html
       omniprobe export LOG... --parquet FILE
       omniprobe cache ls|check|add ...
       omniprobe info|dump|extract|fsck|replay|verify|bench|tune CAPTURE [OPTIONS]
       omniprobe diff CAPTURE CAPTURE [OPTIONS]
       omniprobe analyze CAPTURE [OPTIONS]
       omniprobe isa CODE-OBJECT [KERNEL] [OPTIONS]
       omniprobe completions SHELL, omniprobe man [DIR]";

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

/// A subcommand, what its example does, and the example.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("doctor", "Would anything be logged on an emulated GPU?", "omniprobe doctor --emulate gfx90a"),
    (
        "log",
        "Append the rows that a killed process could not write",
        "omniprobe log /dev/shm/logdur.4711.records -l log.csv",
    ),
    ("summary", "Is a kernel slower than before?", "omniprobe summary new.csv --against old.csv --fail-above 5%"),
    ("trace", "Show a log in ui.perfetto.dev", "omniprobe trace log.csv -o log.pftrace"),
    ("report", "Look at a run and a search in a browser", "omniprobe report log.csv out -o report.html"),
    ("export", "Read the rows in DuckDB or pandas", "omniprobe export log.csv --parquet log.parquet"),
    ("info", "List the dispatches of gemm kernels", "omniprobe info app.ldcap --kernel gemm"),
    ("dump", "Print records and code", "omniprobe dump app.ldcap --disassemble"),
    ("extract", "Write the buffer `out` as a NumPy file", "omniprobe extract app.ldcap -o files --type out=f32"),
    ("fsck", "Copy the undamaged part", "omniprobe fsck app.ldcap --repair whole.ldcap"),
    ("replay", "Run dispatch 7 twenty times", "omniprobe replay app.ldcap --dispatch 7 --repetitions 20"),
    (
        "verify",
        "Does new.hsaco compute the same?",
        "omniprobe verify app.ldcap --hsaco all=new.hsaco --tol out=f16:rel=1e-2",
    ),
    (
        "bench",
        "Which of two kernels is faster?",
        "omniprobe bench app.ldcap --compare captured new.hsaco --target-ci 1%",
    ),
    (
        "tune",
        "Try five workgroups",
        "omniprobe tune app.ldcap --dispatch 7 -o out --param 'n=64..1024:*2' --workgroup '{n}'",
    ),
    ("diff", "What changed between two runs?", "omniprobe diff app.ldcap later.ldcap"),
    ("analyze", "Which lines waste cache lines, LDS cycles or lanes?", "omniprobe analyze app.ldcap -k gemm"),
    ("isa", "Print the code of a kernel of a program", "omniprobe isa ./app gemm --target gfx90a"),
    ("completions", "Complete the command line in bash", "omniprobe completions bash"),
    ("man", "Write all manual pages", "omniprobe man ~/.local/share/man/man1"),
    ("cache", "Would kernels of a folder be swapped?", "omniprobe cache check faster ./app"),
    ("ls", "List the kernels of a program and of a folder", "omniprobe cache ls ./app faster"),
    ("check", "Would gemm kernels of a folder be swapped, and why not?", "omniprobe cache check faster ./app -k gemm"),
    ("add", "Take the code objects out of a program", "omniprobe cache add faster ./app"),
];

/// The command line as clap knows it, with examples and statuses at the end of each page of help.
pub(crate) fn command() -> clap::Command {
    fn with_ends(command: clap::Command) -> clap::Command {
        let example = EXAMPLES.iter().find(|(name, ..)| *name == command.get_name());
        let example = example.map_or(String::new(), |(_, what, line)| format!("Example: {what}\n  {line}\n\n"));
        command.after_help(format!("{example}{}", Exit::help())).mut_subcommands(with_ends)
    }
    let own = format!(
        "{RUNNING}\nThe status of `omniprobe APP` is the application's, if it was started.\n\n{}",
        Exit::help()
    );
    Cli::command().mut_subcommands(with_ends).after_help(own)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;
    use logdur_settings::Interceptor;

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
            let found: Vec<_> = EXAMPLES.iter().filter(|(of, ..)| *of == name).collect();
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

    #[test]
    fn the_help_names_the_variable_of_every_option() {
        /// Variables without an option.
        const OTHERS: &[&str] = &[
            Interceptor::queue_mode,
            Interceptor::records,
            Interceptor::records_max,
            Interceptor::log,
            Interceptor::hello,
        ];
        let help = command().render_long_help().to_string();
        let named = |name: &str| help.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|word| word == name);
        for variable in Interceptor::VARIABLES.iter().filter(|variable| variable.built) {
            assert_eq!(named(variable.name), !OTHERS.contains(&variable.name), "{}", variable.name);
        }
    }
}
