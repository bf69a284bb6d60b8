//! A kernel in its chain: what is best alone may be worse for those behind it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::region::text;
use super::verify::{json, on_file};
use crate::support::harness::{self, Outcome, Run, built};

fn tool(name: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), name, file, &harness::arch(), options)
}

/// The command that compiles a tile; `of` and `to` are its size and its file.
fn compiler(of: &str, to: &str) -> String {
    let source = harness::root().join("tests/programs/chain.hip");
    let hipcc = harness::hipcc().get_program().to_owned();
    let options = "--cuda-device-only --no-gpu-bundle-output -std=c++17 -O3 -c";
    let (hipcc, arch, source) = (hipcc.display(), harness::arch(), source.display());
    format!("{hipcc} {options} --offload-arch={arch} -DTILE={of} {source} -o {to}")
}

/// A code object with tiles of a size.
fn tile(run: &Run, size: u32) -> PathBuf {
    let path = run.file(&format!("tile-{size}.hsaco"));
    let command = compiler(&size.to_string(), &path.display().to_string());
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
    path
}

fn median(said: &Value) -> f64 {
    said["median_ns"].as_f64().unwrap_or_else(|| panic!("{said:#}"))
}

#[test]
fn the_tile_that_is_best_alone_is_not_the_one_that_makes_the_chain_fastest() {
    let program = Run::hip("chain");
    let run = Run::new(built("omniprobe"));
    let file = run.file("run.ldcap");
    let region = ["--capture-region", "kernel:^partial$@1..kernel:^gather$@3", "-l", "/dev/null"];
    program.probed(&[&["--capture", file.to_str().unwrap()][..], &region].concat()).passed();
    let tiles = [2, 16].map(|size| tile(&run, size));
    // Alone, by the counted instructions of the emulated GPU.
    let reader = logdur_capture::Reader::open(&file).unwrap();
    let records = reader.records();
    let partial = records.kernels.iter().find(|kernel| kernel.symbol == "partial").unwrap().id;
    let dispatches = records.steps.iter().filter_map(|step| step.dispatch.as_ref());
    let first = dispatches.clone().find(|dispatch| dispatch.kernel == partial).unwrap().id.to_string();
    let one = run.file("one.ldcap");
    let extract = ["--region", "--dispatch", &first, "-o", one.to_str().unwrap(), "--backend", "emu"];
    let outcome = tool("extract", &file, &extract);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let alone = tiles.each_ref().map(|tile| {
        let options = ["--backend", "emu", "--json", "--no-verify", "-r", "3", "--hsaco", tile.to_str().unwrap()];
        median(&json(&tool("bench", &one, &options))["sides"][0]["gpu"])
    });
    assert!(alone[0] < alone[1], "{alone:?}");
    // In the region, with the memory at its end compared.
    let found = run.file("found");
    let (out, compile) = (found.to_str().unwrap(), compiler("{tile}", "{out}"));
    let options = ["--region", "-k", "^partial$", "--backend", "emu", "-o", out, "--json", "-r", "3"];
    let search = ["--compile", &compile, "--param", "tile=2,16", "--no-halving"];
    let outcome = tool("tune", &file, &[&options[..], &search].concat());
    assert!(outcome.status.success(), "{}", text(&outcome));
    let said = json(&outcome);
    let mut table = csv::Reader::from_path(found.join("trials.csv")).unwrap();
    let heads = table.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap_or_else(|| panic!("{heads:?}"));
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert!(rows.iter().all(|row| &row[column("result")] == "measured"), "{rows:?}");
    let best = said["best"]["config"].as_u64().unwrap() as usize;
    assert_ne!(&rows[best][column("tile")], "2", "{said:#}");
    // Both in alternation, from the beginning to the end.
    let other = format!("partial={}", tiles[1].display());
    let outcome = tool("bench", &file, &["--region", "--backend", "emu", "--json", "-r", "6", "--hsaco", &other]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let said = json(&outcome);
    for times in [&said, &said["own"]] {
        for of in ["host", "gpu", "gaps"] {
            assert_eq!(times[of]["runs"], 6, "{said:#}");
        }
        let launches: u64 = times["kernels"].as_array().unwrap().iter().map(|k| k["launches"].as_u64().unwrap()).sum();
        assert!(launches >= 6, "{said:#}");
    }
    assert_eq!(said["ratio"]["pairs"], 6, "{said:#}");
    // Of the application's own kernels there is one side.
    let outcome = tool("bench", &file, &["--region", "--backend", "emu", "--json", "-r", "2"]);
    assert_eq!(json(&outcome)["own"], Value::Null);
    // A name that is none of a kernel of the region.
    let none = run.file("none");
    let options = ["--region", "-k", "^other$", "--backend", "emu", "-o", none.to_str().unwrap(), "--param", "tile=2"];
    let outcome = tool("tune", &file, &options);
    assert!(
        outcome.status.code() == Some(1) && outcome.stderr.contains("one kernel of the region"),
        "{}",
        text(&outcome)
    );
}
