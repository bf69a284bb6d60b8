//! What to do instead of something that this command line does not have: options of rocprof and rocprofv3, and words that are nearly a
//! subcommand.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of rocprofv3 that have no counterpart of the same meaning here, and what to do instead. Those that have one are
/// aliases of it. Source: `rocprofv3 --help` and `rocprofv2 --help` of ROCm 6.4 and 7.
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["-o", "--output-directory"],
        "the rows of a run go to one place: -l FILE, for example -l 'DIR/%p.csv' with the number of the process",
    ),
    (
        &["-f", "--output-format"],
        "-t csv, -t json or -t rocpd chooses the form of the rows; --trace FILE.pftrace writes a timeline, `omniprobe export` Parquet",
    ),
    (&["--kernel-iteration-range"], "all dispatches are logged; --capture-dispatches chooses those of a capture"),
    (
        &["-T", "--truncate-kernels", "--basenames"],
        "names are whole in the log; the tables of --stats and `omniprobe summary` shorten them",
    ),
    (
        &["-M", "--mangled-kernels"],
        "--names mangled writes the symbols of kernels, --names both the demangled names, too",
    ),
    (&["--kernel-rename"], "--markers logs the ranges of ROCTx as rows of their own"),
    (&["-S", "--summary-per-domain", "-D"], "--stats prints the totals of each kernel"),
    (
        &["--summary-output-file"],
        "--stats prints to standard error; `omniprobe summary LOG --csv` prints to standard output",
    ),
    (&["-u", "--summary-units"], "`omniprobe summary LOG --csv` or --json has nanoseconds"),
    (
        &[
            "--hip-trace",
            "--hip-api",
            "--hip-runtime-trace",
            "--hip-compiler-trace",
            "--hsa-trace",
            "--hsa-core-trace",
            "--hsa-amd-trace",
            "--hsa-image-trace",
            "--hsa-finalizer-trace",
            "--rccl-trace",
            "--kokkos-trace",
            "--rocdecode-trace",
            "--rocjpeg-trace",
            "--roctx-trace",
        ],
        "calls of the host are not logged; --markers has the ranges of ROCTx, --copies the copies, and kernels are always logged",
    ),
    (
        &["-r", "--runtime-trace", "-s", "--sys-trace"],
        "kernels are always logged; --copies adds the copies, --markers the ranges of ROCTx. Calls of the host are not logged",
    ),
    (
        &["--memory-allocation-trace", "--scratch-memory-trace"],
        "allocations are not logged; the column scratchBytes of a row has a kernel's scratch",
    ),
    (
        &["--pmc", "--input", "-L", "--list-avail", "--list-basic", "--list-derived", "--extra-counters", "-E"],
        "there are no hardware counters here; `omniprobe analyze` counts cache lines, bank conflicts and instructions of a captured \
         dispatch",
    ),
    (
        &[
            "--att",
            "--pc-sampling-beta-enabled",
            "--pc-sampling-unit",
            "--pc-sampling-method",
            "--pc-sampling-interval",
        ],
        "the hardware is not sampled here; `omniprobe analyze` counts the instructions of a captured dispatch",
    ),
    (
        &["-p", "--pid", "--attach"],
        "omniprobe attach PID logs a running process that was started with --attachable, or with LOGDUR_START",
    ),
    (&["--timestamp"], "start and end of each kernel are always logged"),
    (&["--preload"], "the application's own LD_PRELOAD is kept"),
    (&["--collection-period", "-P"], "--when seconds:A-B logs what is dispatched in that time"),
    (
        &["--selected-regions"],
        "--when profiler logs what is dispatched between roctxProfilerResume and roctxProfilerPause",
    ),
    (
        &["--group-by-queue"],
        "the timeline of --trace has a track for each queue; `omniprobe summary LOG --by queue` the totals",
    ),
    (&["--log-level"], "LOGDUR_LOG=info writes diagnostics of the library into a file"),
];

/// What to do instead of an option that is unknown here and known elsewhere.
pub(crate) fn instead(error: &clap::Error) -> Option<String> {
    let option = unknown(error)?;
    let (_, instead) = OPTIONS.iter().find(|(names, _)| names.contains(&option))?;
    Some(format!("{option} is an option of rocprofv3 or rocprof, not of omniprobe: {instead}"))
}

/// The option that clap does not know.
fn unknown(error: &clap::Error) -> Option<&str> {
    let found = error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    match found {
        ContextValue::String(option) => Some(option.split('=').next().unwrap_or(option)),
        _ => None,
    }
}

/// The name among `names` that differs least from a word that is none of them, if it is near.
pub(crate) fn near<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Two letters that changed places are two changes.
    let most = 2.min(word.chars().count() / 2);
    let distances = names.map(|name| (distance(word, name), name)).filter(|(distance, _)| *distance <= most);
    distances.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many letters have to be inserted, removed or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{application, help};

    fn error(line: &str) -> clap::Error {
        let mut command = help::command();
        let words = application::separated(&mut command, line.split(' ').map(Into::into).collect());
        command.try_get_matches_from(words).unwrap_err()
    }

    #[test]
    fn an_option_of_rocprofv3_that_is_unknown_here_says_what_to_do_instead() {
        for (names, what) in OPTIONS {
            for name in *names {
                let said = instead(&error(&format!("omniprobe {name} x -- ./app")));
                assert!(said.as_ref().is_some_and(|said| said.contains(what)), "{name}: {said:?}");
            }
        }
        let said = instead(&error("omniprobe --output-format=csv ./app")).unwrap();
        assert!(said.starts_with("--output-format is an option of rocprofv3"), "{said}");
        assert_eq!(instead(&error("omniprobe --nonsense -- ./app")), None);
        assert_eq!(instead(&error("omniprobe -t xml -- ./app")), None);
    }

    #[test]
    fn a_word_that_is_nearly_a_subcommand_is_recognised() {
        let names = || ["verify", "summary", "doctor", "log", "isa", "man"].into_iter();
        assert_eq!(near("verfy", names()), Some("verify"));
        assert_eq!(near("sumamry", names()), Some("summary"));
        assert_eq!(near("docter", names()), Some("doctor"));
        for word in ["ls", "app", "python", "nbody", "x"] {
            assert_eq!(near(word, names()), None, "{word}");
        }
    }
}
