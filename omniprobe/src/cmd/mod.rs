//! One file or folder for each subcommand, and one row for each in the table here.

mod analyze;
mod attach;
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
mod minimize;
mod replay;
mod report;
mod reproduce;
pub(crate) mod run;
mod store;
mod summary;
mod top;
mod trace;
mod trim;
mod tune;
mod verify;

use anyhow::Result;
use clap::Subcommand;
use omniprobe_exit::Exit;

/// A subcommand, what its example does, and the example.
pub(crate) type Example = (&'static str, &'static str, &'static str);

/// Makes the subcommands of clap, what runs them, their forms and their examples: a subcommand with a name is the module of that name,
/// which has `Options` and `run`.
macro_rules! subcommands {
    ($($(#[$doc:meta])* $name:ident = $module:ident $form:literal $what:literal $line:literal;)*) => {
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

        /// The forms of the command line.
        pub(crate) const USAGE: &str =
            concat!("omniprobe [OPTIONS] [--] APP [ARGS]...", $("\n       omniprobe ", $form),*);

        const EXAMPLES: &[Example] = &[$((stringify!($module), $what, $line),)*];
    };
}

subcommands! {
    /// List ROCm and GPUs, and check that the runtime loads the library.
    Doctor = doctor
        "doctor [--self-test] [--rocm DIR] [--emulate ARCH] [-- APP [ARGS]...]"
        "Would anything be logged on an emulated GPU?"
        "omniprobe doctor --emulate gfx90a";
    /// Write the rows of processes that were killed, from their files of records.
    Log = log
        "log FILE... [-l WHERE] [-t FORMAT], omniprobe log --list|--clean"
        "Append the rows that a killed process could not write"
        "omniprobe log /dev/shm/logdur.4711.records -l log.csv";
    /// Turn rows, captures, instrumented clones and swaps of running processes on and off.
    Attach = attach
        "attach PID...|--all [-f FEATURES] [-s SECONDS]"
        "Log what a running process dispatches in the next ten seconds"
        "omniprobe attach 4711 --seconds 10";
    /// Show the kernels of running processes that take longest, again and again.
    Top = top
        "top PID...|--all [-i SECONDS] [-n COUNT]"
        "What does a running process do?"
        "omniprobe top 4711";
    /// Add up the durations of logs by kernel, and compare two runs.
    Summary = summary
        "summary LOG... [--against BASELINE]"
        "Is a kernel slower than before?"
        "omniprobe summary new.csv --against old.csv --fail-above 5%";
    /// Write a timeline of logs for ui.perfetto.dev or Chrome.
    Trace = trace
        "trace LOG... -o FILE.pftrace"
        "Show a log in ui.perfetto.dev"
        "omniprobe trace log.csv -o log.pftrace";
    /// Write one HTML page about logs, searches and verifications: totals, timeline, plots.
    Report = report
        "report LOG|CAPTURE|DIR|FILE... -o FILE.html"
        "Look at a run and a search in a browser"
        "omniprobe report log.csv out -o report.html";
    /// Write the rows of logs as columns with types, in Apache Parquet's format.
    Export = export
        "export LOG... --parquet FILE|--csv FILE|--rocpd FILE|--into TRACE.json"
        "Read the rows in DuckDB or pandas"
        "omniprobe export log.csv --parquet log.parquet";
    /// List the content of a capture, and whether each dispatch can be replayed.
    Info = info
        "info CAPTURE [OPTIONS]"
        "List the dispatches of gemm kernels"
        "omniprobe info app.ldcap --kernel gemm";
    /// Print every record of a capture.
    Dump = dump
        "dump CAPTURE [OPTIONS]"
        "Print records and code"
        "omniprobe dump app.ldcap --disassemble";
    /// Write code objects and buffers of a capture to files.
    Extract = extract
        "extract CAPTURE -o DIR [OPTIONS]"
        "Write the buffer `out` as a NumPy file"
        "omniprobe extract app.ldcap -o files --type out=f32";
    /// Write some dispatches of a capture as a capture of their own: of a region, what is between them is replayed.
    Trim = trim
        "trim CAPTURE --keep WHICH -o FILE [OPTIONS]"
        "Keep ten dispatches of a region"
        "omniprobe trim app.ldcap --keep dispatches:10-19 -o small.ldcap";
    /// Write the fewest dispatches and bytes of a capture that still show a mismatch or a fault.
    Minimize = minimize
        "minimize CAPTURE -o FILE [OPTIONS] [-- OPTIONS OF VERIFY]"
        "Make a small capture for a bug report of new.hsaco"
        "omniprobe minimize app.ldcap -o small.ldcap -- --hsaco new.hsaco";
    /// Write a stand-alone HIP program that launches a captured dispatch and checks its results.
    Reproduce = reproduce
        "reproduce CAPTURE -o DIR [OPTIONS]"
        "Make a program for a bug report"
        "omniprobe reproduce app.ldcap --dispatch 7 -o bug";
    /// Check every byte of a capture, and copy the undamaged part.
    Fsck = fsck
        "fsck CAPTURE [--repair COPY]"
        "Copy the undamaged part"
        "omniprobe fsck app.ldcap --repair whole.ldcap";
    /// Move contents of captures into a folder that captures share, or out of it, and remove what none needs.
    Store = store
        "store embed|reference|remap|gc ..."
        "Make a capture that needs no store"
        "omniprobe store embed app.ldcap -o alone.ldcap";
    /// Run captured dispatches again, alone, at their captured addresses.
    Replay = replay
        "replay CAPTURE [OPTIONS]"
        "Run dispatch 7 twenty times"
        "omniprobe replay app.ldcap --dispatch 7 --repetitions 20";
    /// Replay captured dispatches, and compare every byte that they write with the captured results.
    Verify = verify
        "verify CAPTURE [OPTIONS]"
        "Does new.hsaco compute the same?"
        "omniprobe verify app.ldcap --hsaco new.hsaco --tol out=f16:rel=1e-2";
    /// Measure how long captured dispatches take, or compare two kernels.
    Bench = bench
        "bench CAPTURE [OPTIONS]"
        "Which of two kernels is faster?"
        "omniprobe bench app.ldcap --compare captured new.hsaco --target-ci 1%";
    /// Run a captured dispatch with other workgroups, grids and code, verify each, and find the best.
    Tune = tune
        "tune CAPTURE -o DIR [OPTIONS]"
        "Try five workgroups"
        "omniprobe tune app.ldcap --dispatch 7 -o out --param 'n=64..1024:*2' --workgroup '{n}'";
    /// Compare dispatches of two captures, or of one capture.
    Diff = diff
        "diff CAPTURE CAPTURE [OPTIONS]"
        "What changed between two runs?"
        "omniprobe diff app.ldcap later.ldcap";
    /// Run captured dispatches on the emulated GPU, and show what each instruction does: lanes, cache lines, bank conflicts, errors.
    Analyze = analyze
        "analyze CAPTURE [OPTIONS]"
        "Which lines waste cache lines, LDS cycles or lanes?"
        "omniprobe analyze app.ldcap -k gemm";
    /// Print the instructions of a kernel, with source lines if it was compiled with -g.
    Isa = isa
        "isa CODE-OBJECT [KERNEL] [OPTIONS]"
        "Print the code of a kernel of a program"
        "omniprobe isa ./app gemm --target gfx90a";
    /// List, check or fill folders of code objects for swapping.
    Cache = cache
        "cache ls|check|add ..."
        "Would kernels of a folder be swapped?"
        "omniprobe cache check faster ./app";
    /// Print the completions of a shell.
    Completions = completions
        "completions SHELL"
        "Complete the command line in bash"
        "omniprobe completions bash";
    /// Print the manual page, or write the pages of all subcommands into a folder.
    Man = man
        "man [DIR]"
        "Write all manual pages"
        "omniprobe man ~/.local/share/man/man1";
}

/// The examples of all subcommands, and of those below them.
pub(crate) fn examples() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().chain(cache::EXAMPLES).chain(store::EXAMPLES)
}
