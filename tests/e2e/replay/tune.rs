//! `omniprobe tune`: each configuration is verified before it is timed, and all that a kernel does is a result.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use logdur_capture::Id;
use serde_json::{Value, json};

use crate::replay::verify::{increment, json, on_file};
use crate::support::harness::{self, Outcome, Run, built};

/// Tunes a dispatch of `increment`; `folder` is for what is found.
fn tune(folder: &Path, options: &[&str]) -> Outcome {
    let run = Run::new(built("omniprobe"));
    let arch = harness::arch();
    let file = folder.with_extension("ldcap");
    if !file.exists() {
        increment(&arch).write(&file);
    }
    on_file(run, "tune", &file, &arch, &[&["-o", folder.to_str().unwrap(), "--json"], options].concat())
}

/// A command that compiles a candidate in a way.
fn template() -> String {
    let source = harness::root().join("tests/programs/candidates.hip");
    let hipcc = harness::hipcc().get_program().to_owned();
    let options = "--cuda-device-only --no-gpu-bundle-output -std=c++17 -O3 -c";
    let (hipcc, arch, source) = (hipcc.display(), harness::arch(), source.display());
    format!("{hipcc} {options} --offload-arch={arch} -DWAY={{way}} {source} -o {{out}}")
}

/// What came of each configuration, by the value of a parameter; the captured one has none.
fn results(folder: &Path) -> Vec<(String, String, String)> {
    let mut table = csv::Reader::from_path(folder.join("trials.csv")).unwrap();
    let heads = table.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap_or_else(|| panic!("no {name}"));
    let columns = ["way", "result", "reason"].map(column);
    let rows = table.records().map(Result::unwrap);
    rows.map(|row| columns.map(|column| row[column].to_owned()).into()).collect()
}

#[test]
fn candidates_that_hang_fault_or_compute_something_else_are_results_and_not_the_end() {
    let run = Run::new(built("omniprobe"));
    let folder = run.file("found");
    let ways = "way=0..6";
    let options = ["--compile", &template(), "--param", ways, "--timeout", "0.7", "-r", "6", "--no-halving"];
    let outcome = tune(&folder, &options);
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let results = results(&folder);
    let result = |way: &str| results.iter().find(|r| r.0 == way).unwrap_or_else(|| panic!("{way}: {results:#?}"));
    assert_eq!(results[0].1, "measured", "{results:#?}");
    let expected = [("1", "hang"), ("2", "fault"), ("3", "mismatch"), ("4", "mismatch"), ("5", "measured")];
    for (way, word) in expected {
        assert_eq!(result(way).1, word, "{results:#?}");
    }
    assert!(result("6").1 == "compile-failed" && result("6").2.contains("does not compile"), "{results:#?}");
    assert!(result("1").2.contains("within 0.7 s") && result("2").2.contains("GPU fault"), "{results:#?}");
    assert!(result("3").2.contains("[77]") && result("4").2.contains("TOUCHED_OUTSIDE"), "{results:#?}");
    // Kernel 0 is the captured one, or at least as good; the one that takes its time is not the best.
    let said = json(&outcome);
    assert_ne!(said["best"]["config"], results.iter().position(|r| r.0 == "5").unwrap(), "{said:#}");
    assert_eq!(said["emulated"], !harness::on_hardware(), "{said:#}");
}

#[test]
fn of_several_dispatches_of_a_name_the_first_is_tuned_and_the_others_are_told() {
    let run = Run::hip("vectors");
    let file = run.file("app.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let folder = run.folder.path().join("found");
    let tune = |options: &[&str]| {
        let omniprobe = Run::new(built("omniprobe"));
        let options = [&["--backend", "emu", "-r", "3", "--workgroup", "64", "-o", folder.to_str().unwrap()], options];
        on_file(omniprobe, "tune", run.folder.path().join("app.ldcap").as_path(), &harness::arch(), &options.concat())
    };
    let outcome = tune(&["-k", "vector_add|saxpy_loop"]);
    assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    let said = outcome.stderr.lines().find(|line| line.contains("takes dispatch ")).unwrap_or_default();
    let (taken, others) = said.split_once("among others of the name: ").unwrap_or_default();
    assert!(taken.contains("(vector_add(") && others.contains("(saxpy_loop("), "{}", outcome.stderr);
    // Without a name, it is a matter of chance which one would be meant.
    let outcome = tune(&[]);
    assert_eq!(outcome.status.code(), Some(1), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("one dispatch, by --dispatch N or -k NAME"), "{}", outcome.stderr);
}

#[test]
fn parts_of_a_search_that_are_put_together_find_what_one_search_finds() {
    let run = Run::new(built("omniprobe"));
    let ways = ["--compile", &template(), "--param", "way=0,2..6", "-r", "6", "--backend", "emu"];
    let search = |name: &str, options: &[&str]| {
        let folder = run.file(name);
        let capture = run.file("all.ldcap");
        if !capture.exists() {
            increment(&harness::arch()).write(&capture);
        }
        let outcome = on_file(
            Run::new(built("omniprobe")),
            "tune",
            &capture,
            &harness::arch(),
            &[&["-o", folder.to_str().unwrap(), "--json"], &ways[..], options].concat(),
        );
        assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
        // Reasons have addresses, which depend on the code that was loaded before.
        let results: Vec<_> = results(&folder).into_iter().map(|(way, result, _)| (way, result)).collect();
        (json(&outcome).to_string().replace(folder.to_str().unwrap(), "FOLDER"), results)
    };
    let whole = search("whole", &[]);
    for (name, shard) in [("first", "1/2"), ("second", "2/2")] {
        let (said, _) = search(name, &["--shard", shard]);
        assert!(said.contains(&format!("\"shard\":\"{shard}\"")) && said.contains("\"best\":null"), "{said}");
    }
    let [first, second] = ["first", "second"].map(|name| run.file(name).to_str().unwrap().to_owned());
    assert_eq!(search("together", &["--merge", &first, &second]), whole);
    // The parts compiled different code, and nothing was compiled again.
    let code = fs::read_dir(run.file("together/code")).unwrap().count();
    let parts = [&first, &second].map(|folder| fs::read_dir(Path::new(folder).join("code")).unwrap().count());
    assert_eq!(code, parts.iter().sum::<usize>());
}

#[test]
fn workgroups_are_as_large_as_the_kernel_that_runs_allows() {
    let run = Run::new(built("omniprobe"));
    let folder = run.file("found");
    let template = template().replace("-DWAY={way}", "-DBOUNDS={way}");
    let options = ["--compile", &template, "--param", "way=64,256", "--workgroup", "{way}", "--backend", "emu"];
    let outcome = tune(&folder, &options);
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(results(&folder).iter().all(|r| r.1 == "measured"), "{:#?}", results(&folder));
    // The captured kernel itself allows 64.
    let folder = run.file("original");
    let outcome = tune(&folder, &["--param", "way=64,256", "--workgroup", "{way}", "--backend", "emu"]);
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let invalid = results(&folder).into_iter().find(|r| r.0 == "256").unwrap();
    assert!(invalid.1 == "invalid" && invalid.2.contains("expected 1 to 64 work-items"), "{invalid:?}");
}

#[test]
fn a_search_that_was_killed_goes_on_where_it_was() {
    let run = Run::hip("example/app").arch(&harness::arch());
    let folder = run.file("found");
    let run = run.env("LOGDUR_CAPTURE", folder.with_extension("ldcap")).env("LOGDUR_CAPTURE_KERNELS", "smooth");
    let _run = run.watched();
    // Work-items that have no element of their own do nothing: 32 other grids compute the same.
    let options = ["--param", "n=1280..9216:256", "--grid", "{n}", "--no-halving", "-r", "40", "--backend", "emu"];
    let mut command = Command::new(built("omniprobe"));
    command.arg("tune").arg(folder.with_extension("ldcap")).arg("-o").arg(&folder).args(options);
    let mut search = command.stdout(Stdio::null()).spawn().unwrap();
    let journal = folder.join("trials.jsonl");
    let lines = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    let deadline = Instant::now() + Duration::from_secs(60);
    while lines() < 5 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    search.kill().unwrap();
    search.wait().unwrap();
    let before = fs::read_to_string(&journal).unwrap();
    assert!(before.lines().count() >= 5, "{before}");
    // Without --resume what is there is not overwritten; with other options it is not gone on with.
    let refused = tune(&folder, &options);
    assert_eq!(refused.status.code(), Some(1), "{}{}", refused.stdout, refused.stderr);
    let other = tune(&folder, &[&options[..], &["--resume", "--seed", "3", "--random", "4"]].concat());
    assert_eq!(other.status.code(), Some(1), "{}{}", other.stdout, other.stderr);
    let outcome = tune(&folder, &[&options[..], &["--resume"]].concat());
    let said = json(&outcome);
    assert_eq!((outcome.status.code(), &said["results"]["measured"]), (Some(0), &33.into()), "{said:#}");
    // What was whole is still there, and each configuration was measured once.
    let after = fs::read_to_string(&journal).unwrap();
    let whole = before.rfind('\n').map_or(0, |end| end + 1);
    assert!(after.starts_with(&before[..whole]), "{before}\n{after}");
    let numbers: Vec<Value> = after.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(numbers.len(), 33, "{after}");
}

#[test]
fn the_worked_example_goes_as_its_page_says() {
    let arch = harness::arch();
    let run = Run::hip("example/tiled");
    let (file, folder, cache) = (run.file("tiled.ldcap"), run.file("found"), run.file("cache"));
    let run = run.arch(&arch).env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", "multiply").watched();
    assert!(run.status.success() && run.stdout.ends_with("379 375 376\n"), "{}{}", run.stdout, run.stderr);
    let template =
        template().replace("-DWAY={way}", "-DTILE={tile}").replace("programs/candidates", "../docs/example/tiled");
    let options = ["-o", folder.to_str().unwrap(), "--compile", &template, "--param", "tile=1,4,16", "--json"];
    let options = [&options[..], &["--backend", "emu"]].concat();
    let outcome = on_file(Run::new(built("omniprobe")), "tune", &file, &arch, &options);
    let said = json(&outcome);
    // Fewer barriers are fewer instructions, on any device.
    let best = &said["trials"][0];
    assert_eq!((outcome.status.code(), &best["values"]["tile"]), (Some(0), &"16".into()), "{said:#}");
    // Once more, in turns with the captured one: only hardware has it that one is faster.
    let turns = &said["best"]["paired_rerun"];
    let ratio = turns["ratio"].as_f64().unwrap();
    assert!(ratio < 1.0 && turns["pairs"] == 20 && turns["verdict"] == "no verdict, it is emulated", "{said:#}");
    fs::create_dir(&cache).unwrap();
    fs::copy(best["code"].as_str().unwrap(), cache.join("tiled.hsaco")).unwrap();
    let run = Run::hip("example/tiled").arch(&arch).env("LOGDUR_KERNEL_CACHE", &cache).watched();
    assert!(run.status.success() && run.stdout.ends_with("379 375 376\n"), "{}{}", run.stdout, run.stderr);
    let rows = run.log().rows;
    let hash = logdur_capture::Id::of(&fs::read(cache.join("tiled.hsaco")).unwrap()).to_string();
    let replaced = rows.iter().find(|row| row.kernel() == "multiply").unwrap().text("replaced").to_owned();
    assert!(!replaced.is_empty() && hash.starts_with(&replaced), "{replaced} {hash}");
}

#[test]
fn a_captured_configuration_that_cannot_be_compared_ends_with_the_status_of_the_reason() {
    let arch = harness::arch();
    let mut idle = increment(&arch);
    idle.kernel = "empty";
    idle.buffers[0].after = idle.buffers[0].before.clone();
    let mut unknown = increment(&arch);
    unknown.after = false;
    for (captured, result, status) in [(idle, "nothing-written", 11), (unknown, "no-reference", 9)] {
        let run = Run::new(built("omniprobe"));
        let folder = run.file("found");
        captured.write(&folder.with_extension("ldcap"));
        let outcome = tune(&folder, &["--workgroup", "{size}", "--param", "size=64,128", "-r", "4"]);
        assert_eq!(outcome.status.code(), Some(status), "{}{}", outcome.stdout, outcome.stderr);
        let said = json(&outcome);
        assert_eq!((&said["status"], &said["results"][result]), (&status.into(), &1.into()), "{said:#}");
    }
}

#[test]
fn a_process_of_a_search_runs_the_code_that_was_checked_or_says_that_it_is_other_code() {
    let run = Run::new(built("omniprobe"));
    let [file, code] = ["a.ldcap", "kernels.hsaco"].map(|name| run.file(name));
    increment(&harness::arch()).write(&file);
    let objects =
        ["-O1", "-O2 -g"].map(|options| fs::read(harness::hip_object("kernels", &harness::arch(), options)).unwrap());
    let captured = fs::read(harness::kernels(&harness::arch())).unwrap();
    let checked = Id::of(&objects[0]).to_string();
    let mut command = Command::new(built("omniprobe"));
    command.arg("tune").arg(&file).arg("-o").arg(run.file("found")).args(["--backend", "emu", "--worker=7"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut requests, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    let mut answers =
        BufReader::new(answers).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert!(answers.next().unwrap()["ready"].is_object());
    let config = json!({
        "number": 1, "values": [], "geometry": { "grid": null, "workgroup": null }, "sizes": null,
        "code": code, "code_hash": checked, "command": null,
    });
    // Twice: what is known of the file's path is not taken for the file.
    for (bytes, is_checked) in [(&objects[0], true), (&objects[1], false), (&objects[0], true), (&captured, false)] {
        let next = run.file("next");
        fs::write(&next, bytes).unwrap();
        fs::rename(next, &code).unwrap();
        writeln!(requests, "{}", json!({ "config": config, "repetitions": 2 })).unwrap();
        let answer = answers.next().unwrap();
        let outcome = &answer["done"][0];
        if is_checked {
            assert_eq!(outcome["result"], "measured", "{answer:#}");
        } else {
            let text = outcome["text"].as_str().unwrap_or_default();
            let expected = format!("expected the code object that was checked, {checked}, found {}", Id::of(bytes));
            assert!(outcome["result"] == "invalid" && text.contains(&expected), "{answer:#}");
        }
    }
    drop(requests);
    assert!(process.wait().unwrap().success());
}
