//! Parallel jobs: many processes, each with a rank, and what they write.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use logdur_capture::Reader;
use serde_json::Value;

use crate::support::harness::{Run, built, count, handler};
use crate::support::log::Log;

/// How many processes run at once.
const AT_ONCE: usize = 4;

/// Runs a process of a program for each rank, as Slurm starts them, to its end.
fn job(run: &Run, ranks: impl IntoIterator<Item = usize>, variables: &[(&str, &Path)]) {
    let finish = |(mut child, rank): (Child, usize)| {
        let status = child.wait().unwrap();
        assert!(status.success(), "rank {rank}: {status}");
    };
    let mut running = Vec::new();
    for rank in ranks {
        let mut command: Command = run.command();
        command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        command.envs(variables.iter().copied()).env("SLURM_PROCID", rank.to_string()).stdout(Stdio::null());
        running.push((command.spawn().unwrap(), rank));
        if running.len() == AT_ONCE {
            finish(running.remove(0));
        }
    }
    running.into_iter().for_each(finish);
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

#[test]
fn each_rank_has_files_of_its_own_and_all_of_them_are_added_up() {
    let run = Run::hip("vectors");
    let (log, capture) = (run.file("log.%r.%h.csv"), run.file("rank-%r-%h.ldcap"));
    job(&run, [0, 3], &[("LOGDUR_LOG_LOCATION", &log), ("LOGDUR_CAPTURE", &capture)]);
    let host = host();
    let mut rows = BTreeMap::new();
    for rank in [0, 3] {
        let reader = Reader::open(&run.file(&format!("rank-{rank}-{host}.ldcap"))).unwrap();
        assert!(reader.check().is_clean() && !reader.dispatches().is_empty());
        let log = fs::read_to_string(run.file(&format!("log.{rank}.{host}.csv"))).unwrap();
        rows.insert(rank, Log::parse(&log).rows.len() as u64);
    }
    let mut summary = Command::new(built("omniprobe"));
    let output = summary.arg("summary").arg(&log).args(["--by", "process", "--json"]).output().unwrap();
    let totals: Value = serde_json::from_slice(&output.stdout).unwrap();
    let group = |group: &Value| (group["rank"].as_u64().unwrap(), group["calls"].as_u64().unwrap());
    let found: BTreeMap<u64, u64> = totals["groups"].as_array().unwrap().iter().map(group).collect();
    assert_eq!(found, rows, "{totals:#}");
}

#[test]
fn ranks_that_each_see_one_gpu_are_two_gpus_in_totals_and_timelines() {
    let run = Run::hip("vectors").env("KFDEMU_GPUS", "2*gfx90a");
    let omniprobe = |arguments: &[&str], log: &Path| {
        let output = Command::new(built("omniprobe")).args(arguments).arg(log).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    // A log for each rank, and one that they share.
    for name in ["log.%r.csv", "shared.csv"] {
        let log = run.file(name);
        for gpu in ["0", "1"] {
            let visible = Path::new(gpu);
            job(&run, [gpu.parse().unwrap()], &[("LOGDUR_LOG_LOCATION", &log), ("ROCR_VISIBLE_DEVICES", visible)]);
        }
        let totals: Value = serde_json::from_slice(&omniprobe(&["summary", "--json", "--by", "gpu"], &log)).unwrap();
        let gpus: Vec<_> = totals["gpus"].as_array().unwrap().iter().map(|gpu| (&gpu["bdf"], &gpu["calls"])).collect();
        assert!(gpus.len() == 2 && gpus[0].0 != gpus[1].0 && gpus[0].1 == gpus[1].1, "{name}: {gpus:?}");
        assert_eq!(totals["groups"].as_array().unwrap().len(), 2, "{name}");
        let timeline = run.file("trace.json");
        omniprobe(&["trace", "-o", timeline.to_str().unwrap()], &log);
        let timeline: Value = serde_json::from_str(&fs::read_to_string(timeline).unwrap()).unwrap();
        let events = timeline["traceEvents"].as_array().unwrap().iter();
        let names: Vec<_> =
            events.filter(|event| event["name"] == "process_name").map(|e| &e["args"]["name"]).collect();
        assert!(names.len() == 2 && names[0] != names[1], "{name}: {names:?}");
    }
}

#[test]
fn ranks_that_are_not_wanted_write_nothing() {
    let run = Run::hip("vectors");
    let (log, capture) = (run.file("log.%r.csv"), run.file("%r.ldcap"));
    let variables =
        [("LOGDUR_LOG_LOCATION", &*log), ("LOGDUR_CAPTURE", &*capture), ("LOGDUR_RANKS", Path::new("1,3-7"))];
    job(&run, 0..4, &variables);
    let written = |name: &str| run.file(name).exists();
    for (rank, wanted) in [(0, false), (1, true), (2, false), (3, true)] {
        let found = [written(&format!("log.{rank}.csv")), written(&format!("{rank}.ldcap"))];
        assert_eq!(found, [wanted; 2], "rank {rank}");
    }
    // Such a rank runs no clones.
    let handlers = run.file("handlers-%r");
    let library = handler("docs/example/handlers/count.c");
    let variables = [
        ("LOGDUR_LOG_LOCATION", Path::new("/dev/null")),
        ("LOGDUR_INSTRUMENTED", Path::new("true")),
        ("LOGDUR_HANDLERS", &library),
        ("LOGDUR_HANDLER_OUTPUT", &handlers),
        ("LOGDUR_RANKS", Path::new("1")),
    ];
    let cloned = Run::hip("cloned").args(["all"]);
    job(&cloned, 0..2, &variables);
    assert_eq!([0, 1].map(|rank| run.file(&format!("handlers-{rank}")).exists()), [false, true]);
    // A value that is not understood limits no rank, and a notice says so.
    job(&run, [5], &[("LOGDUR_LOG_LOCATION", &log), ("LOGDUR_RANKS", Path::new("five"))]);
    let log = fs::read_to_string(run.file("log.5.csv")).unwrap();
    assert!(log.contains("LOGDUR_RANKS: expected ranks and ranges of ranks, like 0,8-15, found \"five\""), "{log}");
}

#[test]
fn totals_of_a_run_are_of_the_files_that_its_ranks_wrote_in_this_run() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = folder.path().join("log.%r.csv");
    for _ in 0..2 {
        let run =
            Run::hip("vectors").env("PMI_RANK", "7").probed(&["--stats", "-l", pattern.to_str().unwrap()]).passed();
        let log = fs::read_to_string(folder.path().join("log.7.csv")).unwrap();
        let of_one = log.matches("reduce(").count() / log.matches("# account").count();
        assert_eq!(of_one, 1);
        let dispatches = log.lines().filter(|line| line.starts_with('"')).count() / log.matches("# account").count();
        assert!(run.stderr.contains(&format!(": {dispatches} dispatches in ")), "{}", run.stderr);
    }
}

#[test]
fn a_file_that_a_thousand_processes_append_to_has_whole_lines() {
    let run = Run::hip("vectors");
    let log = run.file("log.csv");
    let processes = count(12, 1000);
    job(&run, 0..processes, &[("LOGDUR_LOG_LOCATION", &log)]);
    let text = fs::read_to_string(&log).unwrap();
    let mut table = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let heads = table.headers().unwrap().clone();
    let rank = heads.iter().position(|head| head == "rank").unwrap();
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    for row in table.records() {
        // A reader for which rows of other lengths are errors.
        *rows.entry(row.unwrap()[rank].parse().unwrap()).or_default() += 1;
    }
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (0..processes).collect::<Vec<_>>());
    assert!(rows.values().all(|&count| count == rows[&0]), "{rows:?}");
    let accounts: Vec<&str> = text.lines().filter(|line| line.starts_with("# account: ")).collect();
    assert_eq!(accounts.len(), processes);
    assert!(
        accounts.iter().all(|line| line.ends_with(&format!("seen={} logged={}", rows[&0], rows[&0]))),
        "{accounts:?}"
    );
}
