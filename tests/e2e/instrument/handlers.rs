//! Handlers of messages: where they find code; slow handlers, handlers with too many notices, and two handlers of which one fails.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::instrument::kernels;
use crate::instrument::kernels::by_llvm_19;
use crate::instrument::mode::{GROUP, IDLE, Listed, is_instrumented, lister, with_handler};
use crate::support::harness::{self, Outcome, Run};
use crate::support::launch;

/// A run whose handler looks for the code of each dispatch where its URI says.
fn with_origins(run: Run) -> Run {
    let output = run.file("handlers");
    let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLER_OUTPUT", output);
    run.env("LOGDUR_HANDLERS", harness::handler("tests/programs/origin.c"))
}

/// Fails unless the code of each dispatch is where its URI says, and there is the kernel, as binutils read ELF files. Returns the
/// URIs.
fn expect_found(outcome: &Outcome) -> Vec<String> {
    let text = outcome.read("handlers");
    let uri = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [id, same, clone, uri] = words[..] else { panic!("{line}") };
        assert_eq!(same, "1", "the handler's code is not where {uri} says");
        let elf = outcome.folder.path().join(format!("handlers.{id}.elf"));
        let symbols = Command::new("readelf").args(["--symbols", "--wide"]).arg(&elf).output().unwrap();
        let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
        let descriptor = format!("{clone}.kd");
        assert!(symbols.lines().any(|line| line.ends_with(&format!(" {descriptor}"))), "{uri}: {symbols}");
        uri.to_owned()
    };
    let uris: Vec<String> = text.lines().map(uri).collect();
    assert!(!uris.is_empty());
    uris
}

#[test]
fn a_handler_finds_the_code_of_an_application_where_its_uri_says() {
    // Of a program whose path a URI has to encode.
    let run = Run::hip("cloned");
    let folder = run.file("a folder, 100%");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("clöned #1");
    harness::copy_program(&harness::hip("cloned"), &program);
    let outcome = with_origins(Run::new(program).args(["doubled", "2"])).watched().passed();
    assert_eq!(expect_found(&outcome).len(), 2);
    // Of a file that the application opens, and of memory.
    let arch = harness::arch();
    let run = launch::launcher(&arch);
    let folder = run.file("a folder");
    fs::create_dir(&folder).unwrap();
    let object = folder.join("cloned.hsaco");
    fs::rename(by_llvm_19(&run, &arch), &object).unwrap();
    let launch = kernels::scattered();
    let launched = launch::launched_by(with_origins(run), &object, &[launch], true);
    let (_, outcome) = launched.unwrap_or_else(|outcome| panic!("{}{}", outcome.stdout, outcome.stderr));
    let uris = expect_found(&outcome);
    assert!(uris.iter().all(|uri| uri.starts_with("file://") && uri.contains("/a%20folder/cloned.hsaco")), "{uris:?}");
    let object = |cloned: u32| harness::hip_object("late_clone", &arch, &format!("-O2 -DCLONED={cloned}"));
    let run = Run::hip("late_clone").args([object(0), object(2)]).args(["memory"]);
    let uris = expect_found(&with_origins(run).watched().passed());
    assert!(uris.iter().all(|uri| uri.starts_with("memory://")), "{uris:?}");
}

#[test]
fn a_handler_finds_a_clone_of_the_cache_in_its_file_or_where_it_was_decompressed_to() {
    let arch = harness::arch();
    let object = harness::hip_object("cloned", &arch, "-O3");
    let program = harness::hip_optimized("cloned", "-O3 -DPLAIN");
    let bundle = |file: &Path, option: Option<&str>| {
        let mut command = Command::new("clang-offload-bundler-19");
        command.args(["--type=o", "--bundle-align=4096"]).args(option);
        command.arg(format!("--targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--{arch}"));
        command.arg("--input=/dev/null").arg(format!("--input={}", object.display()));
        let output = command.arg(format!("--output={}", file.display())).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let copy = |of: &Path, file: &Path| _ = fs::copy(of, file).unwrap();
    for (name, scheme) in [("bare", "file"), ("bundle", "file"), ("compressed", "memory"), ("program", "file")] {
        let run = with_origins(Run::new(program.clone()).args(["all"]));
        let cache = run.file("a cache");
        fs::create_dir(&cache).unwrap();
        let file = cache.join(format!("{name}.hsaco"));
        match name {
            "bare" => copy(&object, &file),
            "bundle" => bundle(&file, None),
            "compressed" => bundle(&file, Some("--compress")),
            _ => copy(&harness::hip("cloned"), &file),
        }
        let indexes = run.file("indexes");
        let outcome = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).watched().passed();
        let uris = expect_found(&outcome);
        assert_eq!(uris.len(), 4, "{name}: {uris:?} {:?}", outcome.log().notices);
        assert!(uris.iter().all(|uri| uri.starts_with(&format!("{scheme}://"))), "{name}: {uris:?}");
    }
}

/// The handler that takes its time, with some options.
fn with_slow(arguments: &[&str], options: &str) -> Run {
    let run = with_handler(&harness::hip("cloned"), arguments, &harness::handler("tests/programs/slow.c"));
    run.env("LOGDUR_HANDLER_OPTIONS", options).env("LOGDUR_INSTRUMENT_BUFFERS", "256K")
}

/// What it has written last: addresses, and kilobytes that the process has needed meanwhile.
fn counted(outcome: &Outcome) -> [u64; 2] {
    let text = outcome.read("handlers");
    let words: Vec<&str> = text.lines().last().unwrap().split(' ').collect();
    let ["addresses", addresses, "more-kilobytes", kilobytes] = words[..] else { panic!("{text}") };
    [addresses, kilobytes].map(|word| word.parse().unwrap())
}

/// Kilobytes that the runtime and the emulated GPU may need while dispatches run.
const OTHERS: u64 = 24 << 10;

#[test]
fn a_slow_handler_gets_every_message_in_bounded_memory() {
    let outcome = with_slow(&["one-by-one", "24"], "").watched().passed();
    let log = outcome.log();
    log.account();
    assert_eq!(log.rows_of("doubled").iter().filter(is_instrumented).count(), 24);
    let [addresses, kilobytes] = counted(&outcome);
    assert_eq!(addresses, 24 * 2 * (300 * GROUP - IDLE));
    // 48 MB of messages.
    assert!(kilobytes < OTHERS, "{kilobytes} KB");
}

#[test]
fn notices_that_come_faster_than_the_log_is_written_need_bounded_memory_and_are_counted() {
    const SAID: usize = 1_000_000;
    let outcome = with_slow(&["one-by-one", "3"], &format!("notices={SAID}")).watched().passed();
    let log = outcome.log();
    log.account();
    let written = log.notices.iter().filter(|notice| notice.ends_with("a line that needs some memory")).count();
    let lost =
        |notice: &String| notice.split_once(" notices are lost").map(|(count, _)| count.parse::<usize>().unwrap());
    let lost: usize = log.notices.iter().filter_map(lost).sum();
    assert_eq!(written + lost, SAID, "{written} written, {lost} counted");
    let [addresses, kilobytes] = counted(&outcome);
    assert_eq!(addresses, 3 * 2 * (300 * GROUP - IDLE));
    assert!(kilobytes < OTHERS, "{kilobytes} KB for {SAID} notices");
}

#[test]
fn a_handler_that_takes_the_librarys_descriptors_gets_nothing_in_its_own_files() {
    let outcome = with_slow(&["doubled", "12"], "closes=1").watched().passed();
    let log = outcome.log();
    log.account();
    assert_eq!(log.rows_of("doubled").len(), 12);
    let report = outcome.read("handlers");
    assert!(report.lines().filter(|line| *line == "batch").count() >= 12, "{report}");
    assert_eq!(counted(&outcome)[0], 12 * 2 * (3 * GROUP - IDLE));
    let own: Vec<_> = fs::read_dir(outcome.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let own: Vec<_> = own.iter().filter(|path| path.to_string_lossy().contains("handlers.own.")).collect();
    assert!(own.len() >= 2, "{own:?}");
    assert!(own.iter().all(|path| fs::read_to_string(path).unwrap() == "mine\n"));
}

#[test]
fn of_two_handlers_one_fails_in_the_middle_and_the_other_gets_everything() {
    let run = with_handler(&harness::hip("cloned"), &["doubled", "8"], &lister());
    let both = std::env::join_paths([lister(), harness::handler("docs/example/handlers/count.c")]).unwrap();
    for fails in ["begin", "messages", "end"] {
        let output = run.file(fails);
        let again = Run::hip("cloned").args(["doubled", "8"]).env("LOGDUR_INSTRUMENTED", "true");
        let again = again.env("LOGDUR_HANDLERS", &both).env("LOGDUR_HANDLER_OUTPUT", &output);
        let outcome = again.env("LOGDUR_HANDLER_OPTIONS", format!("fail={fails}")).watched().passed();
        let text = fs::read_to_string(&output).unwrap();
        let (counted, of_lister): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains(": dispatch "));
        let all = "22 addresses, 0 blocks, 0 intervals, 0 others, 2672 bytes read, 2672 written, errors 0";
        assert!(counted.len() == 8 && counted.iter().all(|line| line.contains(all)), "{fails}: {text}");
        // It failed in its first call of this kind, and was closed then.
        let listed = Listed::of(&of_lister.join("\n"));
        let found = (listed.ended.len(), listed.others.as_slice(), of_lister.last());
        assert_eq!(
            found,
            (usize::from(fails == "end"), &["closed".to_owned()][..], Some(&"closed")),
            "{fails}: {text}"
        );
        let log = outcome.log();
        let told =
            log.notices.iter().filter(|notice| notice.contains(&format!("as the option says, in {fails}"))).count();
        assert_eq!((told, log.rows_of("doubled").iter().filter(is_instrumented).count()), (1, 8), "{:?}", log.notices);
    }
}

#[test]
fn static_objects_of_a_handler_live_until_it_is_closed() {
    let handler = harness::handler("tests/programs/statics.cpp");
    for (arguments, dispatches) in [(&["doubled", "3"][..], 3), (&["doubled", "3", "another-thread-ends-it"], 4)] {
        let outcome = with_handler(&harness::hip("cloned"), arguments, &handler).watched().passed();
        let said: Vec<&str> = outcome.stderr.lines().collect();
        assert!(said.iter().all(|line| !line.ends_with(", destroyed")), "{said:?}");
        let last = said.iter().rposition(|line| line.starts_with("close uses ")).unwrap();
        let ended = said.iter().filter(|line| line.starts_with("dispatch_end uses made-by-messages")).count();
        let destroyed = said.iter().skip(last).filter(|line| line.starts_with("destroyed ")).count();
        assert_eq!((ended, destroyed), (dispatches, 3), "{said:?}");
        assert_eq!(outcome.log().account()["logged"], outcome.log().rows.len() as u64);
    }
}

#[test]
fn loads_that_the_compiler_merges_are_judged_by_the_size_of_the_machine_instruction() {
    let run = Run::new(harness::hip_optimized("cloned", "-O3 -g")).args(["mixed"]);
    let report = run.file("report.json");
    let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLERS", "MemoryAnalysis");
    let run = run.env("LOGDUR_HANDLER_FORMAT", "json").env("LOGDUR_HANDLER_OUTPUT", report);
    let outcome = run.watched().passed();
    let report: Value = serde_json::from_str(&outcome.read("report.json")).unwrap();
    let all = report["kernel_analysis"]["cache_analysis"]["accesses"].as_array().unwrap();
    let accesses: Vec<&Value> = all.iter().filter(|access| access["access_info"]["type"] == "read").collect();
    let texts: Vec<&str> = accesses.iter().map(|access| access["code_context"].as_str().unwrap()).collect();
    let named =
        ["first", "second", "third", "fourth"].iter().zip(&texts).filter(|(mark, text)| text.ends_with(**mark)).count();
    assert_eq!((accesses.len(), named), (4, 4), "{report}");
    for access in accesses {
        let info = &access["access_info"];
        assert_eq!((&info["ir_bytes"], &info["isa_bytes"]), (&4.into(), &16.into()), "{report}");
        // 64 lanes of 16 bytes are 1024.
        let lines = 1024 / report["metadata"]["gpu_info"]["cache_line_size"].as_u64().unwrap();
        assert_eq!(info["cache_lines"], serde_json::json!({ "needed": lines, "used": lines }), "{report}");
    }
}
