//! One file or folder for each subcommand, and one row for each in the table here.

mod analyze;
mod bench;
mod cache;
mod completions;
mod diff;
mod doctor;
mod dump;
mod export;
mod extract;
mod fsck;
mod info;
mod isa;
mod log;
mod man;
mod replay;
mod report;
pub(crate) mod run;
mod summary;
mod trace;
mod tune;
mod verify;

use anyhow::Result;
use clap::Subcommand;
use omniprobe_exit::Exit;

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

/// A subcommand, what its example does, and the example.
pub(crate) type Example = (&'static str, &'static str, &'static str);

/// Makes the subcommands of clap, what runs them, and their examples: a subcommand with a name is the module of that name, which has
/// `Options` and `run`.
macro_rules! subcommands {
    ($($(#[$doc:meta])* $name:ident = $module:ident $what:literal $line:literal;)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($(#[$doc])* $name(Box<$module::Options>),)*
            /// What `doctor` runs in a process of its own.
            #[command(hide = true)]
            Probe(doctor::ProbeOptions),
        }

        impl Command {
            /// Runs it.
            ///
            /// # Errors
            /// Those of the subcommand.
            pub(crate) fn run(&self) -> Result<Exit> {
                match self {
                    $(Command::$name(options) => $module::run(options),)*
                    Command::Probe(options) => doctor::probe(options),
                }
            }
        }

        const EXAMPLES: &[Example] = &[$((stringify!($module), $what, $line),)*];
    };
}

subcommands! {
    /// List ROCm and GPUs, and check that the runtime loads the library.
    Doctor = doctor
        "Would anything be logged on an emulated GPU?"
        "omniprobe doctor --emulate gfx90a";
    /// Write the rows of processes that were killed, from their files of records.
    Log = log
        "Append the rows that a killed process could not write"
        "omniprobe log /dev/shm/logdur.4711.records -l log.csv";
    /// Add up the durations of logs by kernel, and compare two runs.
    Summary = summary
        "Is a kernel slower than before?"
        "omniprobe summary new.csv --against old.csv --fail-above 5%";
    /// Write a timeline of logs for ui.perfetto.dev or Chrome.
    Trace = trace
        "Show a log in ui.perfetto.dev"
        "omniprobe trace log.csv -o log.pftrace";
    /// Write one HTML page about logs, searches and verifications: totals, timeline, plots.
    Report = report
        "Look at a run and a search in a browser"
        "omniprobe report log.csv out -o report.html";
    /// Write the rows of logs as columns with types, in Apache Parquet's format.
    Export = export
        "Read the rows in DuckDB or pandas"
        "omniprobe export log.csv --parquet log.parquet";
    /// List the content of a capture, and whether each dispatch can be replayed.
    Info = info
        "List the dispatches of gemm kernels"
        "omniprobe info app.ldcap --kernel gemm";
    /// Print every record of a capture.
    Dump = dump
        "Print records and code"
        "omniprobe dump app.ldcap --disassemble";
    /// Write code objects and buffers of a capture to files.
    Extract = extract
        "Write the buffer `out` as a NumPy file"
        "omniprobe extract app.ldcap -o files --type out=f32";
    /// Check every byte of a capture, and copy the undamaged part.
    Fsck = fsck
        "Copy the undamaged part"
        "omniprobe fsck app.ldcap --repair whole.ldcap";
    /// Run captured dispatches again, alone, at their captured addresses.
    Replay = replay
        "Run dispatch 7 twenty times"
        "omniprobe replay app.ldcap --dispatch 7 --repetitions 20";
    /// Replay captured dispatches, and compare every byte that they write with the captured results.
    Verify = verify
        "Does new.hsaco compute the same?"
        "omniprobe verify app.ldcap --hsaco new.hsaco --tol out=f16:rel=1e-2";
    /// Measure how long captured dispatches take, or compare two kernels.
    Bench = bench
        "Which of two kernels is faster?"
        "omniprobe bench app.ldcap --compare captured new.hsaco --target-ci 1%";
    /// Run a captured dispatch with other workgroups, grids and code, verify each, and find the best.
    Tune = tune
        "Try five workgroups"
        "omniprobe tune app.ldcap --dispatch 7 -o out --param 'n=64..1024:*2' --workgroup '{n}'";
    /// Compare dispatches of two captures, or of one capture.
    Diff = diff
        "What changed between two runs?"
        "omniprobe diff app.ldcap later.ldcap";
    /// Run captured dispatches on the emulated GPU, and show what each instruction does: lanes, cache lines, bank conflicts, errors.
    Analyze = analyze
        "Which lines waste cache lines, LDS cycles or lanes?"
        "omniprobe analyze app.ldcap -k gemm";
    /// Print the instructions of a kernel, with source lines if it was compiled with -g.
    Isa = isa
        "Print the code of a kernel of a program"
        "omniprobe isa ./app gemm --target gfx90a";
    /// List, check or fill folders of code objects for swapping.
    Cache = cache
        "Would kernels of a folder be swapped?"
        "omniprobe cache check faster ./app";
    /// Print the completions of a shell.
    Completions = completions
        "Complete the command line in bash"
        "omniprobe completions bash";
    /// Print the manual page, or write the pages of all subcommands into a folder.
    Man = man
        "Write all manual pages"
        "omniprobe man ~/.local/share/man/man1";
}

/// The examples of all subcommands, and of those below them.
pub(crate) fn examples() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().chain(cache::EXAMPLES)
}
