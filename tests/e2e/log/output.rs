//! Where the log goes and what it looks like.

use std::fs;
use std::process::Command;

use crate::support::harness::{self, Run, built};
use crate::support::log::Log;
use crate::support::versions;

#[test]
fn without_a_location_whole_lines_go_to_standard_output() {
    let run = Run::hip("vectors");
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    let run = run.finish(command).passed();
    let (ours, apps): (Vec<&str>, Vec<&str>) =
        run.stdout.lines().partition(|l| l.starts_with(['#', '"']) || l.starts_with("kernel,"));
    assert_eq!(Log::parse(&(ours.join("\n") + "\n")).account()["logged"], versions::kernels_of_vectors());
    let bare = Run::hip("vectors").bare().passed();
    assert_eq!(apps, bare.stdout.lines().collect::<Vec<_>>());
}

#[test]
fn a_log_that_goes_nowhere_leaves_no_trace() {
    let bare = Run::hip("vectors").bare().passed();
    for nowhere in ["", "/dev/null"] {
        let run = Run::hip("vectors").env("LOGDUR_LOG_LOCATION", nowhere).watched().passed();
        assert_eq!((&run.stdout, &run.stderr), (&bare.stdout, &bare.stderr));
        assert!(!run.folder.path().join("log.csv").exists());
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_disturb_the_application() {
    let bare = Run::hip("vectors").bare().passed();
    // Where the rows are in no file of records either, a line on standard error says how many are lost.
    for (location, lost) in [("/nonexistent/folder/log.csv", 1), ("/dev/full", 0), ("/", 1)] {
        let run = Run::hip("vectors").env("LOGDUR_LOG_LOCATION", location).watched().passed();
        assert_eq!(run.stdout, bare.stdout, "{location}");
        let (own, others): (Vec<&str>, Vec<&str>) = run.stderr.lines().partition(|line| line.starts_with("logdur: "));
        assert_eq!(others, bare.stderr.lines().collect::<Vec<_>>(), "{location}");
        let counted = own.iter().filter(|line| line.contains(" rows are lost: ")).count();
        assert_eq!((own.len(), counted), (lost, lost), "{location}: {own:?}");
    }
}

#[test]
fn percent_p_is_the_process_and_files_are_appended_to() {
    let run = Run::hip("vectors");
    let location = run.file("log.%p.csv");
    let run = run.env("LOGDUR_LOG_LOCATION", location).watched().passed();
    let names: Vec<String> =
        fs::read_dir(run.folder.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    let name = names.iter().find(|n| n.starts_with("log.")).unwrap();
    let pid = name.strip_prefix("log.").and_then(|n| n.strip_suffix(".csv")).unwrap();
    assert!(pid.parse::<u32>().is_ok(), "{name}");

    let first = run.folder.path().join(name);
    Run::hip("vectors").env("LOGDUR_LOG_LOCATION", &first).watched().passed();
    let log = Log::parse(&fs::read_to_string(&first).unwrap());
    assert_eq!((log.rows.len() as u64, log.accounts.len()), (2 * versions::kernels_of_vectors(), 2));
}

#[test]
fn several_processes_share_a_file_with_one_header_and_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared.csv");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                Run::hsa("signals").args(["none", "800"]).env("LOGDUR_LOG_LOCATION", &shared).watched().passed();
            });
        }
    });
    let log = Log::parse(&fs::read_to_string(&shared).unwrap());
    assert_eq!((log.rows.len(), log.accounts.len(), log.agents.len()), (4800, 6, 6));
    assert!(log.accounts.iter().all(|a| a["logged"] == 800));
}

#[test]
fn json_lines_say_the_same_as_csv_rows() {
    let run = Run::hip("vectors").env("LOGDUR_LOG_FORMAT", "json").watched().passed();
    let lines: Vec<serde_json::Value> = run
        .read("log.csv")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let rows: Vec<_> = lines.iter().filter(|l| l.get("kernel").is_some()).collect();
    assert_eq!(rows.len() as u64, versions::kernels_of_vectors());
    for row in &rows {
        assert!(crate::support::log::COLUMNS.iter().all(|c| row.get(c).is_some()), "{row}");
        assert_eq!(
            row["endNs"].as_u64().unwrap() - row["startNs"].as_u64().unwrap(),
            row["durationNs"].as_u64().unwrap()
        );
    }
    let reduce = rows.iter().find(|r| r["kernel"].as_str().unwrap().starts_with("reduce(")).unwrap();
    assert_eq!((&reduce["grid"], &reduce["flags"]), (&serde_json::json!([100096, 1, 1]), &serde_json::json!([])));
    assert_eq!(lines.last().unwrap()["account"]["seen"], versions::kernels_of_vectors());
}

#[test]
fn a_filter_limits_rows_and_counts_the_others() {
    let run = Run::hip("vectors").env("LOGDUR_LOG_FILTER", "^(reduce|saxpy)").watched().passed();
    let log = run.log();
    assert_eq!((log.rows.len(), log.account()["filtered"]), (2, versions::kernels_of_vectors() - 2));
}

#[test]
fn kernels_that_are_excluded_have_no_row_and_are_counted_whatever_else_is_wanted() {
    let all = versions::kernels_of_vectors();
    let of = |variables: &[(&str, &str)]| {
        let run = variables.iter().fold(Run::hip("vectors"), |run, (name, value)| run.env(name, value));
        let log = run.watched().passed().log();
        (log.rows.len() as u64, log.account()["filtered"])
    };
    assert_eq!(of(&[("LOGDUR_LOG_EXCLUDE", "^(reduce|saxpy)")]), (all - 2, 2));
    assert_eq!(of(&[("LOGDUR_LOG_FILTER", "^(reduce|saxpy)"), ("LOGDUR_LOG_EXCLUDE", "^saxpy")]), (1, all - 1));
    let (rows, filtered) = of(&[("LOGDUR_LOG_EXCLUDE", "."), ("LOGDUR_COPIES", "1")]);
    assert!(rows > 0 && filtered == all, "copies have rows all the same: {rows}, {filtered}");
}

#[test]
fn dispatches_to_other_gpus_have_no_row_and_are_counted() {
    if harness::on_hardware() {
        return;
    }
    let gpus = |devices: &str| {
        let run = Run::hip("many_gpus").env("KFDEMU_GPUS", format!("3*{}", harness::arch()));
        let log = run.env("LOGDUR_LOG_DEVICES", devices).watched().passed().log();
        let mut agents: Vec<String> = log.rows.iter().map(|row| row.text("agent").to_owned()).collect();
        agents.dedup();
        (agents, log.rows.len() as u64, log.account().get("filtered").copied().unwrap_or(0))
    };
    let (every, rows, none) = gpus("");
    assert!(every.len() == 3 && none == 0, "{every:?}");
    let (some, logged, filtered) = gpus("1-2");
    assert_eq!((&some[..], logged + filtered), (&every[1..], rows));
    assert!(logged > 0 && filtered > 0, "{logged} {filtered}");
}

#[test]
fn what_is_not_understood_is_one_notice_each() {
    let run = Run::hip("vectors")
        .env("LOGDUR_LOG_FILTER", "(")
        .env("LOGDUR_LOG_FORMAT", "xml")
        .env("LOGDUR_DISPATCHES", "sometimes")
        .env("LOGDUR_INSTRUMENTED", "perhaps")
        .watched()
        .passed();
    let log = run.log();
    assert_eq!(log.account()["logged"], versions::kernels_of_vectors(), "rows are written all the same");
    for name in ["LOGDUR_LOG_FILTER", "LOGDUR_LOG_FORMAT", "LOGDUR_DISPATCHES", "LOGDUR_INSTRUMENTED"] {
        assert_eq!(log.notices.iter().filter(|n| n.contains(name)).count(), 1, "{name} in {:?}", log.notices);
    }
}

#[test]
fn a_reader_of_standard_output_that_goes_away_does_not_kill_the_application() {
    if harness::on_hardware() {
        return;
    }
    // The program writes nothing itself before its end; what kills it would be our rows.
    let program = harness::hsa("signals");
    let script = format!("{{ '{}' none 800 >&3; echo status=$? >&2; }} 3>&1 1>/dev/null | true", program.display());
    let run = Run::hsa("signals");
    let bare = run.command();
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("HSA_TOOLS_LIB", built("liblogdur.so"));
    command.envs(bare.get_envs().filter_map(|(n, v)| Some((n, v?))));
    let run = run.finish(command);
    // 141 would be a death by SIGPIPE; the program's own last line may fail without a reader, which printf does not report.
    assert!(run.stderr.contains("status=0") || run.stderr.contains("status=141"), "{}", run.stderr);
}
