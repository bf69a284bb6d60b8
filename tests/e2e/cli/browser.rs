//! `omniprobe report`: the page as a browser shows it, against the rows of the log.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::harness::{Run, built};

fn report(inputs: &[&Path], page: &Path) -> Output {
    Command::new(built("omniprobe")).arg("report").args(inputs).arg("-o").arg(page).output().unwrap()
}

fn written(inputs: &[&Path], page: &Path) -> String {
    let output = report(inputs, page);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// The document after its scripts have run, in a browser without a window or network.
fn shown(page: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Command::new("chromium-headless-shell");
    browser.args([
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=5000",
        "--dump-dom",
        "--enable-logging=stderr",
    ]);
    browser.arg(format!("--user-data-dir={}", folder.path().display())).arg(format!("file://{}", page.display()));
    let output = browser.output().unwrap_or_else(|error| panic!("chromium-headless-shell: {error}"));
    let (dom, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(dom.contains("data-errors=\"0\"") && !said.contains("Uncaught"), "{said}\n{dom}");
    dom
}

/// The values of an attribute, in the order of the document.
fn attributes<'a>(dom: &'a str, name: &str) -> Vec<&'a str> {
    let mark = format!(" {name}=\"");
    dom.split(&mark).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn a_browser_runs_the_page_without_errors_and_shows_the_totals_of_the_log() {
    let run = Run::hip("streams").env("LOGDUR_COPIES", "1").watched().passed();
    let log = run.folder.path().join("log.csv");
    let page = run.folder.path().join("page.html");
    let rows = run.log().rows;
    assert!(written(&[&log], &page).contains(&format!(": {} rows", rows.len())));
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        !text.contains("http://")
            || text.matches("http://").count() == text.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!text.contains("https://"), "the page refers to the network");
    let dom = shown(&page);
    let kernels = attributes(&dom, "data-kernel");
    let number = |name| attributes(&dom, name).into_iter().map(|text| text.parse::<u64>().unwrap());
    let found: BTreeMap<String, (u64, u64)> = kernels
        .into_iter()
        .map(|name| name.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        .zip(number("data-calls").zip(number("data-total-ns")))
        .collect();
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.text("kind") == "dispatch") {
        let (calls, total) = expected.entry(row.kernel().to_owned()).or_default();
        (*calls, *total) = (*calls + 1, *total + row.number("durationNs"));
    }
    assert_eq!(found, expected);
    assert!(dom.contains("Timeline") && dom.contains("<canvas") && dom.contains("Durations, logarithmic"));
}

#[test]
fn a_capture_is_shown_with_what_each_dispatch_has_and_lacks() {
    let run = Run::hip("vectors").env("LOGDUR_CAPTURE", "app.ldcap").watched().passed();
    let (capture, page) = (run.folder.path().join("app.ldcap"), run.folder.path().join("page.html"));
    written(&[&capture], &page);
    let dom = shown(&page);
    let mut shown: Vec<u64> = attributes(&dom, "data-captured").iter().map(|id| id.parse().unwrap()).collect();
    shown.sort_unstable();
    let mut expected: Vec<u64> = run.log().rows.iter().map(|row| row.number("id")).collect();
    expected.sort_unstable();
    assert_eq!(shown, expected);
    let said = format!("{0} of {0} dispatches have all that a replay needs", expected.len());
    assert!(dom.contains(&said) && dom.contains("reduce("), "{dom}");
}

#[test]
fn a_search_and_a_verification_are_shown_and_other_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let trial = |number: u64, values: Value, outcome: Value| {
        json!({ "round": 0, "config": { "number": number, "values": values }, "outcome": outcome }).to_string()
    };
    let head =
        json!({ "capture": "app.ldcap", "dispatch": 7, "kernel": "ab", "options": "cd", "sources": [] }).to_string();
    let measured = |ns: u64| json!({ "result": "measured", "gpu_ns": [ns, ns + 20, ns + 10] });
    let mut lines = vec![head, trial(0, json!([]), measured(1000))];
    for (number, (tile, unroll)) in [(8, 1), (8, 2), (16, 1), (16, 2)].into_iter().enumerate() {
        let values = json!([["tile", tile.to_string()], ["unroll", unroll.to_string()]]);
        let outcome = if unroll == 2 && tile == 16 {
            json!({ "result": "mismatch", "text": "out: element 3 differs" })
        } else {
            measured(900 - 10 * tile * unroll)
        };
        lines.push(trial(number as u64 + 1, values, outcome));
    }
    fs::create_dir(path("out")).unwrap();
    fs::write(path("out/trials.jsonl"), lines.join("\n") + "\n").unwrap();
    let verified = [
        json!({ "dispatch": 7, "demangled": "f(int)", "result": "PASS", "status": 0, "buffers": [], "qualified": [] }),
        json!({ "dispatch": 8, "demangled": "g(int)", "result": "MISMATCH", "status": 6, "qualified": [],
                "buffers": [{ "name": "arg1", "verdict": "MISMATCH", "mismatches": 5 }] }),
    ];
    fs::write(path("verified.jsonl"), verified.map(|object| object.to_string() + "\n").concat()).unwrap();
    written(&[&path("out"), &path("verified.jsonl")], &path("page.html"));
    let dom = shown(&path("page.html"));
    assert_eq!(attributes(&dom, "data-trial"), ["0", "1", "2", "3", "4"]);
    assert_eq!(attributes(&dom, "data-median-ns"), ["1010", "830", "750", "750"]);
    assert!(dom.contains("mismatch: out: element 3 differs") && dom.contains("Best median by two parameters"), "{dom}");
    assert!(dom.contains("1 of 2 dispatches pass") && dom.contains("arg1: MISMATCH (5 differ)"), "{dom}");

    fs::write(path("foreign.csv"), "Name,Calls\nf,1\n").unwrap();
    fs::create_dir(path("empty")).unwrap();
    for (input, reason) in [("foreign.csv", "expected a header"), ("empty", "trials.jsonl"), ("absent", "No such file")]
    {
        let output = report(&[&path(input)], &path("other.html"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(reason) && said.contains(input), "{said}");
        assert!(!path("other.html").exists(), "{input}");
    }
}
