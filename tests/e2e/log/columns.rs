//! Columns of rows against the code objects' metadata as LLVM prints it, and exported columns as others read them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::harness::{self, Run, built};
use crate::support::log::Row;
use crate::support::versions;

/// What llvm-readelf prints behind a key of a kernel's metadata.
fn of_metadata(notes: &str, kernel: &str, key: &str) -> u64 {
    let is_of_kernel = |map: &&str| map.lines().any(|line| line.trim() == format!(".name:           {kernel}"));
    let map = notes.split("\n  - .").find(is_of_kernel).unwrap_or_else(|| panic!("{kernel} in:\n{notes}"));
    // The first key of a map has lost its dot.
    let line = format!(".{map}").lines().find_map(|line| line.trim().strip_prefix(key).map(str::to_owned));
    line.unwrap().trim_start_matches(':').trim().parse().unwrap()
}

#[test]
fn a_row_names_its_process_and_the_registers_that_llvm_reads_in_the_code_object() {
    let arch = harness::arch();
    let notes = harness::notes(&harness::kernels(&arch));
    let run = Run::hsa("app_signals").args(["values", "3"]).env("SLURM_PROCID", "5").watched().passed();
    let log = run.log();
    assert!(!log.rows.is_empty());
    for row in &log.rows {
        let symbol = notes.lines().filter_map(|line| line.trim().strip_prefix(".name:           "));
        let function = row.kernel().split('(').next().unwrap();
        let symbol = symbol.into_iter().find(|symbol| symbol.contains(function)).unwrap();
        for (column, key) in [("vgprs", ".vgpr_count"), ("agprs", ".agpr_count"), ("sgprs", ".sgpr_count")] {
            assert_eq!(row.number(column), of_metadata(&notes, symbol, key), "{column} of {symbol}");
        }
        assert_eq!(["kind", "bytes", "rank"].map(|column| row.text(column)), ["dispatch", "", "5"]);
        assert_eq!(row.number("pid"), log.account()["pid"]);
    }
}

/// Prints the rows of a file of Parquet as three readers see them: a list of rows each.
const READ: &str = r#"
import json, sys
import duckdb, pandas, polars
path, columns = sys.argv[1], sys.argv[2].split(",")
def rows(cells):
    return [[None if cell is None or cell != cell else cell for cell in row] for row in cells]
frame = pandas.read_parquet(path, dtype_backend="pyarrow")[columns]
json.dump([
    rows(duckdb.sql(f"select {','.join(columns)} from '{path}'").fetchall()),
    rows(polars.read_parquet(path).select(columns).rows()),
    rows([[None if cell is pandas.NA else cell for cell in row] for row in frame.itertuples(index=False)]),
], sys.stdout)
"#;

/// Columns that are read, and where they are in a row.
const EXPORTED: [(&str, &str); 13] = [
    ("kernel", "kernel"),
    ("startNs", "startNs"),
    ("endNs", "endNs"),
    ("id", "id"),
    ("queue", "queue"),
    ("gridX", "grid"),
    ("workgroupX", "workgroup"),
    ("kernelObject", "kernelObject"),
    ("replaced", "replaced"),
    ("kind", "kind"),
    ("pid", "pid"),
    ("rank", "rank"),
    ("vgprs", "vgprs"),
];

/// A cell as Parquet has it.
fn typed(row: &Row, column: &str, from: &str) -> Value {
    let text = row.text(from);
    match column {
        _ if text.is_empty() => Value::Null,
        "kernel" | "kind" => text.into(),
        "kernelObject" => u64::from_str_radix(&text[2..], 16).unwrap().into(),
        _ => text.split('x').next().unwrap().parse::<u64>().unwrap().into(),
    }
}

#[test]
fn duckdb_polars_and_pandas_read_the_exported_columns_of_both_formats() {
    let csv = Run::hip("streams").watched().passed();
    let json = Run::hip("vectors").env("PMI_RANK", "3").env("LOGDUR_LOG_FORMAT", "json").watched().passed();
    let paths = [&csv, &json].map(|run| run.folder.path().join("log.csv"));
    let to = csv.folder.path().join("rows.parquet");
    let output =
        Command::new(built("omniprobe")).arg("export").args(&paths).arg("--parquet").arg(&to).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<Value> = json.read("log.csv").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_json = lines.iter().filter(|line| line.get("kernel").is_some());
    let rows = csv.log().rows;
    let mut expected: Vec<Vec<Value>> =
        rows.iter().map(|row| EXPORTED.iter().map(|(column, from)| typed(row, column, from)).collect()).collect();
    expected.extend(of_json.map(|row| {
        let cell = |&(column, from): &(&str, &str)| match (column, &row[from]) {
            ("kernelObject", value) => u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap().into(),
            ("replaced", _) => Value::Null,
            (_, Value::Array(sizes)) => sizes[0].clone(),
            (_, value) => value.clone(),
        };
        EXPORTED.iter().map(cell).collect()
    }));
    assert!(output.status.success() && said.contains(&format!(": {} rows", expected.len())), "{said}");
    for (reader, found) in ["DuckDB", "Polars", "pandas"].into_iter().zip(read(&to)) {
        assert_eq!(found, expected, "{reader}");
    }
}

#[test]
fn rows_of_several_logs_are_one_log_in_the_order_in_which_they_began() {
    let runs = ["csv", "json"].map(|format| Run::hip("streams").env("LOGDUR_LOG_FORMAT", format).watched().passed());
    let paths = runs.each_ref().map(|run| run.folder.path().join("log.csv"));
    let to = runs[0].folder.path().join("all.csv");
    // The later one first.
    let output =
        Command::new(built("omniprobe")).arg("export").args(paths.iter().rev()).arg("--csv").arg(&to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cells = |path: &Path| {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
        let rows: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        rows
    };
    let all = cells(&to);
    let starts: Vec<u64> = all.iter().map(|row| row[2].parse().unwrap()).collect();
    assert!(starts.is_sorted(), "{starts:?}");
    let pids = [&all[0][18], &all[all.len() - 1][18]];
    assert_ne!(pids[0], pids[1], "the first run is first");
    let mut of_first: Vec<Vec<String>> = all.iter().filter(|row| row[18] == *pids[0]).cloned().collect();
    let mut written = cells(&paths[0]);
    of_first.sort();
    written.sort();
    assert_eq!(of_first, written);
    let json = runs[1].read("log.csv").lines().filter(|line| line.contains("\"kernel\"")).count();
    assert_eq!(all.len(), written.len() + json);
}

fn read(parquet: &Path) -> Vec<Vec<Vec<Value>>> {
    let python = harness::root().join("target/xtask/columns/bin/python");
    let columns = EXPORTED.map(|(column, _)| column).join(",");
    let output = Command::new(python).args(["-c", READ]).arg(parquet).arg(columns).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_log_without_our_columns_is_exported_and_what_is_no_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (log, to) = (folder.path().join("log.csv"), folder.path().join("rows.parquet"));
    let text = "kernel,dispatch,startNs,endNs\n\"f\",1,2,5\n\"g\",1,2\nkernel,dispatch,startNs,endNs\n\"h\",1,,\n";
    std::fs::write(&log, text).unwrap();
    let export = |log: &Path, to: &Path| {
        let mut command = Command::new(built("omniprobe"));
        let output = command.arg("export").arg(log).arg("--parquet").arg(to).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = export(&log, &to);
    assert!(status == Some(0) && said.contains("1 lines are no rows") && said.contains(": 2 rows"), "{said}");
    for rows in read(&to) {
        let cells: Vec<_> = rows.iter().map(|row| (&row[0], &row[1], &row[3])).collect();
        let (none, start) = (Value::Null, Value::from(2));
        assert_eq!(cells, [(&"f".into(), &start, &none), (&"h".into(), &none, &none)]);
    }
    let (status, said) = export(&to, &folder.path().join("other.parquet"));
    assert!(status == Some(1) && said.contains("expected a header"), "{said}");
}

/// Asks a database of SQLite with Python, the rows as lists.
const ASK: &str =
    "import json, sqlite3, sys; print(json.dumps(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()))";

#[test]
fn the_views_of_rocpd_have_the_sums_of_two_ranks_and_summary_reads_the_database_as_the_logs() {
    let ranks = ["0", "1"].map(|rank| {
        let run = Run::hip("vectors").env("PMI_RANK", rank).env("LOGDUR_COPIES", "1").watched().passed();
        assert!(!run.log().rows.is_empty());
        run
    });
    let logs = ranks.each_ref().map(|run| run.folder.path().join("log.csv"));
    let to = ranks[0].folder.path().join("rows.db");
    let omniprobe = |args: &[&str], files: &[&Path]| {
        let output = Command::new(built("omniprobe")).args(args).args(files).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    omniprobe(&["export", "--rocpd", to.to_str().unwrap()], &[&logs[0], &logs[1]]);
    let ask = |sql: &str| -> Value {
        let output = Command::new("python3").args(["-c", ASK]).arg(&to).arg(sql).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(ask("PRAGMA foreign_key_check"), serde_json::json!([]));
    let rows: Vec<Row> = ranks.iter().flat_map(|run| run.log().rows).collect();
    let of = |kind: &str, name: &str| {
        rows.iter().filter(|row| row.text("kind") == kind).map(|row| row.number(name)).sum::<u64>()
    };
    let count = |kind: &str| rows.iter().filter(|row| row.text("kind") == kind).count();
    let [dispatches, copies] = ["dispatch", "copy"].map(count);
    assert!(dispatches > 0 && copies > 0);
    let found = ask("SELECT count(*), sum(duration), count(DISTINCT pid) FROM kernels");
    assert_eq!(found, serde_json::json!([[dispatches, of("dispatch", "durationNs"), 2]]));
    let found = ask("SELECT count(*), sum(duration), sum(size) FROM memory_copies");
    assert_eq!(found, serde_json::json!([[copies, of("copy", "durationNs"), of("copy", "bytes")]]));
    let names = ask("SELECT DISTINCT product_name FROM rocpd_info_agent WHERE type = 'GPU'");
    assert!(names[0][0].as_str().unwrap().ends_with("(emulated)") || harness::on_hardware(), "{names}");
    for by in ["kernel", "shape", "rank", "process"] {
        let groups = |files: &[&Path]| -> Value {
            let text = omniprobe(&["summary", "--json", "--by", by], files);
            serde_json::from_str::<Value>(&text).unwrap()["groups"].clone()
        };
        assert_eq!(groups(&[&to]), groups(&[&logs[0], &logs[1]]), "{by}");
    }
}

#[test]
fn a_run_makes_a_database_for_each_name_and_an_older_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let kernels = |name: &str| -> Value {
        let sql = "SELECT count(*), count(DISTINCT pid) FROM kernels";
        let output = Command::new("python3").args(["-c", ASK, &at(name), sql]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    std::fs::write(at("out.db"), b"no database").unwrap();
    let probed = |options: &[&str]| Run::hip("vectors").env("PMI_RANK", "3").probed(options).passed();
    let run = probed(&["-t", "rocpd", "-l", &at("out.db"), "--stats"]);
    let count = versions::kernels_of_vectors();
    assert_eq!(kernels("out.db"), serde_json::json!([[count, 1]]), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("{}: {count} rows", at("out.db"))), "{}", run.stderr);
    probed(&["-t", "rocpd", "-l", &at("%r.db"), "--log-filter", "^saxpy"]);
    assert_eq!(kernels("3.db"), serde_json::json!([[1, 1]]));
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["3.db", "out.db"], "and nothing else");
    for (options, said) in [
        (vec!["-t", "rocpd"], "-t rocpd writes a database at the end: expected -l FILE, found none"),
        (vec!["-t", "rocpd", "-l", "console"], "expected -l FILE, found console"),
        (vec!["-t", "rocpd", "-l", "/dev/null/x.db"], "expected a folder"),
        (vec!["-t", "rocpd", "-l", "x.db", "-e"], "-t rocpd has no variable"),
    ] {
        let output = Command::new(built("omniprobe")).args(&options).args(["--", "true"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains(said), "{options:?}: {stderr}");
    }
    let nothing = Command::new(built("omniprobe")).args(["-t", "rocpd", "-l", &at("no.db"), "--", "true"]).output();
    let stderr = String::from_utf8_lossy(&nothing.unwrap().stderr).into_owned();
    assert!(stderr.contains("no process has logged rows, no database is made"), "{stderr}");
    assert!(!Path::new(&at("no.db")).exists());
}

#[test]
fn a_table_of_rocprofv3_is_compared_with_a_log_and_one_of_sums_is_refused_by_name() {
    let run = Run::hip("vectors").watched().passed();
    let log = run.folder.path().join("log.csv");
    let table = run.folder.path().join("1_kernel_trace.csv");
    let header =
        "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Dispatch_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"";
    let lines = run.log().rows.iter().fold(format!("{header}\n"), |all, row| {
        let times = (row.number("startNs"), row.number("endNs"));
        format!("{all}\"KERNEL_DISPATCH\",\"Agent 1\",1,1,\"{}\",{},{}\n", row.text("kernel"), times.0, times.1)
    });
    std::fs::write(&table, lines).unwrap();
    let omniprobe = |args: &[&str]| {
        let output = Command::new(built("omniprobe")).args(args).current_dir(run.folder.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let totals = |file: &Path| {
        let (status, text, said) = omniprobe(&["summary", "--json", file.to_str().unwrap()]);
        assert_eq!(status, Some(0), "{said}");
        let groups = serde_json::from_str::<Value>(&text).unwrap()["groups"].clone();
        let one = |group: &Value| (group["name"].to_string(), group["calls"].clone(), group["totalNs"].clone());
        groups.as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(totals(&table), totals(&log));
    std::fs::write(run.folder.path().join("stats.csv"), "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"f\",1,2\n").unwrap();
    let (status, _, said) = omniprobe(&["summary", "stats.csv"]);
    assert!(status == Some(1) && said.contains("has sums") && said.contains("kernel_trace.csv"), "{said}");
}
