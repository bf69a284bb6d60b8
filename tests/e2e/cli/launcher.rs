//! `omniprobe`, the command.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::harness::{self, Run, built};
use crate::support::log::Log;
use crate::support::versions;

fn omniprobe(arguments: &[&str]) -> std::process::Output {
    Command::new(built("omniprobe")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_runs_an_application_and_its_rows_are_logged() {
    let run = Run::hip("vectors");
    let log = run.file("log.csv");
    let run = run.probed(&["-l", log.to_str().unwrap()]).passed();
    assert_eq!(run.log().account()["logged"], versions::kernels_of_vectors());
    assert_eq!(run.stderr, Run::hip("vectors").bare().passed().stderr);
}

#[test]
fn options_become_variables() {
    let run = Run::hip("vectors");
    let log = run.file("log.json");
    let run = run.probed(&["-l", log.to_str().unwrap(), "-t", "json", "--log-filter", "^reduce"]).passed();
    let lines = run.read("log.json");
    assert_eq!(lines.lines().filter(|l| l.starts_with("{\"kernel\":\"reduce(")).count(), 1);
    let filtered = format!("\"filtered\":{}", versions::kernels_of_vectors() - 1);
    assert!(lines.contains(&filtered), "{lines}");
}

#[test]
fn the_environment_is_printed_and_nothing_is_run() {
    let output = omniprobe(&["-e", "-l", "two words.csv", "--", "/bin/false"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("/two words.csv'\n") && text.contains("LOGDUR_LOG_LOCATION='/"), "{text}");
    assert!(text.contains(&format!("HSA_TOOLS_LIB={}\n", built("liblogdur.so").display())), "{text}");
}

#[test]
fn status_and_signals_of_the_application_are_passed_on() {
    let run = |script: &str| omniprobe(&["--", "bash", "-c", script]).status;
    assert_eq!(run("exit 0").code(), Some(0));
    assert_eq!(run("exit 77").code(), Some(77));
    assert_eq!(run("kill -SEGV $$").signal(), Some(libc::SIGSEGV));
    assert_eq!(run("kill -KILL $$").signal(), Some(libc::SIGKILL));
}

#[test]
fn signals_to_omniprobe_reach_the_application() {
    let script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let mut child = Command::new(built("omniprobe"))
        .args(["--", "bash", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    // SAFETY: the child has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the signal did not arrive");
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!((rest.as_str(), status.code()), ("got it\n", Some(5)));
}

#[test]
fn the_applications_streams_are_its_own() {
    let script = "cat; printf 'out\\n\\n  x'; printf 'err' >&2";
    let mut child = Command::new(built("omniprobe"))
        .args(["--", "bash", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "in\nout\n\n  x");
    assert!(stderr(&output).starts_with("err"), "{}", stderr(&output));
}

#[test]
fn what_is_missing_is_named() {
    let data = tempfile::NamedTempFile::new().unwrap();
    for (arguments, said) in [
        (["--", "no-such-program"].as_slice(), "no-such-program"),
        (&["--", data.path().to_str().unwrap()], "is not an executable file"),
        (&["./no-such-program"], "./no-such-program"),
        (&["verfy", "a.ldcap"], "no such program in the folders of PATH, and no subcommand"),
        (&["--"], "expected an application"),
        (&[], "omniprobe ./app"),
        (&["--rocm", "/nonexistent", "--", "true"], "--rocm /nonexistent"),
        (&["-t", "xml", "--", "true"], "xml"),
        (&["--emulate", "gfx1100", "true"], "gfx1100 cannot be emulated, expected one of gfx900"),
        (&["--emulate", "gfx90a,,", "true"], "names of processors like gfx90a"),
    ] {
        let output = omniprobe(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn an_application_needs_no_dashes_before_it() {
    let output = omniprobe(&["-l", "/dev/null", "sh", "-c", "echo $0 $1; exit 9", "-l", "verify"]);
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"-l verify\n".as_slice(), Some(9)));
}

#[test]
fn a_processor_that_the_runtime_does_not_know_is_named_instead_of_a_crash() {
    let gfx950 = versions::knows_gfx950();
    for (gpu, is_known) in [("gfx942", versions::knows_gfx942()), ("gfx950", gfx950), ("gfx950:mi355x", gfx950)] {
        let run = Run::hip("vectors").env("KFDEMU_GPUS", gpu).bare();
        let said = run.read("kfdemu.log");
        let refused = format!("{gpu:?} is unknown to the HSA runtime");
        if is_known {
            assert!(!said.contains(&refused), "{said}");
        } else {
            assert!(said.contains(&refused) && said.contains("gfx90a"), "{said}");
            // The application says itself that there is no GPU.
            assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
        }
    }
}

#[test]
fn a_wrong_command_line_has_status_1_in_every_subcommand() {
    for (arguments, said) in [
        (["verify", "a.ldcap", "--nonsense"].as_slice(), "unexpected argument '--nonsense'"),
        (&["verify", "a.ldcap", "--timeout", "-1"], "unexpected argument '-1'"),
        (&["verify", "a.ldcap", "--no-verify"], "unexpected argument '--no-verify'"),
        (&["doctor", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["log"], "required arguments were not provided"),
        (&["cache", "ls"], "required arguments were not provided"),
        (&["cache", "nonsense"], "unrecognized subcommand 'nonsense'"),
        (&["isa", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["-l"], "a value is required"),
    ] {
        let output = omniprobe(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_cannot_work_is_refused_before_the_application_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (old, ran) = (folder.path().join("old.ldcap"), folder.path().join("ran"));
    std::fs::write(&old, b"mine").unwrap();
    let [old, ran] = [&old, &ran].map(|path| path.to_str().unwrap());
    for (options, said) in [
        (
            ["--capture", "/nonexistent/a.ldcap"].as_slice(),
            "--capture /nonexistent/a.ldcap: expected a folder /nonexistent, found none",
        ),
        (&["--capture", old], "the file exists; --force replaces it"),
        (&["--log-filter", "("], "--log-filter: expected a regular expression"),
        (&["-k", "("], "-k: expected a regular expression, found \"(\": "),
        (&["--capture", "new.ldcap", "--capture-kernels", "("], "--capture-kernels: expected a regular expression"),
        (&["--capture", "new.ldcap", "--capture-grid", "0"], "--capture-grid: expected"),
        (&["-d", "folder"], "-d: expected all, random, N, N% or N-M, found \"folder\""),
        (&["-l", "/nonexistent/a.csv"], "-l /nonexistent/a.csv: expected a folder /nonexistent, found none"),
        (&["-l", "/"], "-l /: expected a file, found a folder"),
        (
            &["--trace", "/nonexistent/a.json"],
            "--trace /nonexistent/a.json: expected a folder /nonexistent, found none",
        ),
        (&["-i", "-a", "Heat"], "--analyzers Heat: expected MemoryAnalysis, Heatmap"),
        (
            &["--hip-trace"],
            "--hip-trace is an option of rocprofv3 or rocprof, not of omniprobe: calls of the host are not logged",
        ),
    ] {
        let output = omniprobe(&[options, &["--", "touch", ran]].concat());
        assert_eq!(output.status.code(), Some(1), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{options:?}: {}", stderr(&output));
        assert!(!Path::new(ran).exists(), "{options:?}");
    }
    assert_eq!(std::fs::read(old).unwrap(), b"mine");
}

#[test]
fn what_was_swapped_and_captured_is_told_once_at_the_end() {
    let cache = harness::hip_optimized("swaps", "-DOTHER -O3");
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("run.ldcap");
    std::fs::write(&old, b"old").unwrap();
    let [cache, old, empty] = [cache.as_path(), &old, folder.path()].map(|path| path.to_str().unwrap().to_owned());
    let probed = |options: &[&str]| Run::hip("swaps").args(["plain", "placed"]).probed(options).passed();
    let run = probed(&["-c", &cache, "-k", "^plain$", "--capture", &old, "--force", "--capture-kernels", "^plain"]);
    let lines = |text: &str| run.stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("omniprobe: swapped "), 1, "{}", run.stderr);
    assert!(run.stderr.contains(" dispatches: plain by "), "{}", run.stderr);
    assert_eq!(lines(&format!("omniprobe: {old}: 1 dispatches of 1 kernels captured")), 1, "{}", run.stderr);
    let none = probed(&["-c", &cache, "-k", "^no such kernel$", "--log-filter", "^no such kernel$"]);
    for said in [
        "LOGDUR_FILTER: none of the kernels that could be swapped has a name like ^no such kernel$",
        "LOGDUR_LOG_FILTER: none of ",
        "swapped 0 of ",
    ] {
        assert!(none.stderr.contains(said), "{said}: {}", none.stderr);
    }
    let no_effect = ["--log-exclude", "^no such kernel$", "--log-devices", "7", "--capture-exclude", "^none$"];
    let capture = ["--capture", &old, "--force", "--capture-kernels", "^plain"];
    let none = probed(&[&no_effect[..], &capture[..]].concat());
    for said in [
        "LOGDUR_LOG_EXCLUDE: none of ",
        "LOGDUR_LOG_DEVICES: none of ",
        " dispatches was to these GPUs, but to GPU 0",
        "LOGDUR_CAPTURE_EXCLUDE: no kernel that was dispatched has a name like ^none$",
    ] {
        assert!(none.stderr.contains(said), "{said}: {}", none.stderr);
    }
    let all = probed(&["--log-exclude", ".", "--log-filter", "."]);
    let said = "LOGDUR_LOG_FILTER, LOGDUR_LOG_EXCLUDE: none of ";
    assert!(all.stderr.contains(said) && all.stderr.contains("is left for the log"), "{}", all.stderr);
    std::fs::remove_file(&old).unwrap();
    let nothing = probed(&["-c", &empty]);
    let said = format!("LOGDUR_KERNEL_CACHE: {empty}: no kernels are in it");
    assert!(nothing.stderr.contains(&said), "{}", nothing.stderr);
}

#[test]
fn a_cache_without_clones_is_told_of_although_it_has_kernels_of_the_same_names() {
    let cache = harness::hip_optimized("swaps", "-DOTHER -O3");
    let options = ["-i", "-c", cache.to_str().unwrap(), "-k", "^plain$"];
    let run = Run::hip("swaps").args(["plain"]).probed(&options).passed();
    let said = "LOGDUR_INSTRUMENTED: neither the application's code nor the cache has a clone of a kernel";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn a_library_that_was_not_loaded_is_noticed() {
    let output = omniprobe(&["--", "true"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("liblogdur.so was not loaded"), "{}", stderr(&output));
}

#[test]
fn an_application_that_overwrites_the_variable_of_tools_is_watched_or_told_what_decided_it() {
    let run = Run::hsa("unwatched");
    let log = run.file("log.csv");
    let run = run.probed(&["-l", log.to_str().unwrap()]).passed();
    if versions::hip() >= (5, 3) {
        assert_eq!(run.log().account()["logged"], 1);
        return;
    }
    // Before, the runtime looks at the variable only.
    for said in [
        "omniprobe: nothing was logged: in process ",
        "libhsa-runtime64.so.1 did not load liblogdur.so. At its end the process had \
         HSA_TOOLS_LIB=/opt/rocm/lib/librocprofiler-sdk-tool.so, HSA_TOOLS_ROCPROFILER_V1_TOOLS=1, no ROCP_TOOL_LIBRARIES",
        "`omniprobe -e` prints what the variables have to be",
    ] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
}

#[test]
fn the_doctor_runs_an_application_and_says_whether_its_runtime_loads_the_library() {
    let run = Run::hsa("unwatched");
    let program = run.command().get_program().to_owned();
    let outcome = run.probed(&["doctor"]);
    // It overwrites the variable of tools, which runtimes before 5.3 obey.
    let is_loaded = versions::hip() >= (5, 3);
    let found = if is_loaded { "liblogdur.so is loaded by its runtime" } else { "liblogdur.so is NOT loaded" };
    let line = format!("app        {}: {found} (exit status: 0)", program.display());
    assert!(outcome.stdout.lines().any(|found| found == line), "{}", outcome.stdout);
    assert_eq!(outcome.status.code(), Some(if is_loaded { 0 } else { 3 }));
    assert_eq!(outcome.stderr.contains("HSA_TOOLS_LIB=/opt/rocm/lib/librocprofiler-sdk-tool.so"), !is_loaded);
    assert_eq!(outcome.stderr.contains("ROCPROFILER_REGISTER_ENABLED=0"), !is_loaded, "{}", outcome.stderr);
}

#[test]
fn a_log_that_cannot_be_written_is_noticed() {
    let run =
        Run::hip("vectors").env("LOGDUR_LOG_LOCATION", "/nonexistent/folder/log.csv").probed::<&str>(&[]).passed();
    assert!(run.stderr.contains("/nonexistent/folder/log.csv cannot be written"), "{}", run.stderr);
}

#[test]
fn an_application_without_a_gpu_is_told_that_there_is_none() {
    if harness::on_hardware() || Path::new("/dev/kfd").exists() {
        return;
    }
    let run = Run::hip("vectors");
    let mut command = run.command();
    let program = command.get_program().to_owned();
    command = Command::new(built("omniprobe"));
    command.arg("--").arg(program);
    let stderr = run.finish(command).stderr;
    for said in
        ["did not load liblogdur.so; no GPU can be used: /dev/kfd: No such file", "`--emulate gfx90a` needs no GPU"]
    {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
}

#[test]
fn options_and_variables_without_an_effect_are_named_before_the_application_starts() {
    let mut command = Command::new(built("omniprobe"));
    command.args(["-k", "x", "--cache-mode", "alternate", "--", "true"]);
    command.env("LOGDUR_KERNEL_CACH", "x").env("HSA_TOOLS_LIB", "/opt/other.so");
    let output = command.output().unwrap();
    assert!(output.status.success());
    for said in [
        "omniprobe: -k has no effect without -c DIR or -i; --log-filter chooses the kernels that are logged\n",
        "omniprobe: --cache-mode has no effect without -c DIR\n",
        "omniprobe: LOGDUR_KERNEL_CACH is set, and has no effect: there is LOGDUR_KERNEL_CACHE\n",
        "omniprobe: HSA_TOOLS_LIB names /opt/other.so, which is not loaded: liblogdur.so takes its place\n",
    ] {
        assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
    }
}

#[test]
fn a_capture_of_nothing_names_the_option_that_no_dispatch_matched() {
    let captured = |options: &[&str]| {
        let run = Run::hip("vectors");
        let file = run.file("run.ldcap");
        run.probed(&[&["--capture", file.to_str().unwrap()], options].concat()).passed().stderr
    };
    let none = captured(&["--capture-kernels", "redoce"]);
    assert!(
        none.contains("LOGDUR_CAPTURE_KERNELS: no kernel that was dispatched has a name like redoce; dispatched were "),
        "{none}"
    );
    assert!(none.contains("reduce"), "{none}");
    let none = captured(&["--capture-device", "7"]);
    assert!(none.contains("LOGDUR_CAPTURE_DEVICE: no dispatch was to GPU 7, but to GPU 0\n"), "{none}");
    let none = captured(&["--capture-grid", "3x5"]);
    assert!(none.contains("LOGDUR_CAPTURE_GRID: no dispatch had the grid 3x5x1, but "), "{none}");
}

#[test]
fn a_replay_is_logged_and_captured_like_any_application() {
    let folder = tempfile::tempdir().unwrap();
    let [first, again] = ["first.ldcap", "again.%p.ldcap"].map(|name| folder.path().join(name));
    let [first, again] = [&first, &again].map(|path| path.to_str().unwrap());
    Run::hip("swaps").args(["plain"]).probed(&["--capture", first, "--capture-kernels", "^plain$"]).passed();
    let run = Run::new(built("omniprobe")).args(["verify", first]).args(harness::rocm_option());
    let log = run.file("log.csv");
    let run = run.probed(&["-l", log.to_str().unwrap(), "--capture", again, "--capture-kernels", "^plain$"]);
    // Packets are compared only where no tool changes them.
    assert!(run.status.success() && run.stdout.ends_with("PASS (qualified)\n"), "{}{}", run.stdout, run.stderr);
    let rows = std::fs::read_to_string(&log).unwrap();
    assert!(!rows.contains("around the runtime's functions") && !rows.contains("bypassed-queues"), "{rows}");
    // Three repetitions.
    assert_eq!(rows.lines().filter(|row| row.starts_with("\"plain\"")).count(), 3, "{rows}");
    let whole = run.stderr.lines().filter(|line| line.contains("1 dispatches are whole"));
    assert_eq!(whole.count(), 1, "{}", run.stderr);
}

#[test]
fn it_works_from_a_folder_with_a_space() {
    let run = Run::hip("vectors");
    let folder = run.file("two words");
    std::fs::create_dir(&folder).unwrap();
    for name in ["omniprobe", "liblogdur.so", "libkfdemu.so"] {
        harness::copy_program(&built(name), &folder.join(name));
    }
    let mut command = Command::new(folder.join("omniprobe"));
    if !harness::on_hardware() {
        command.args(["--emulate", &harness::arch()]);
    }
    command.arg("-l").arg(run.file("log.csv")).arg("--").arg(harness::hip("vectors"));
    let run = run.finish(command).passed();
    assert_eq!(run.log().account()["logged"], versions::kernels_of_vectors());
}

#[test]
fn the_doctor_sees_the_device_and_that_the_library_loads() {
    let arguments = if harness::on_hardware() { vec!["doctor"] } else { vec!["doctor", "--emulate", "gfx906"] };
    let output = omniprobe(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.contains("liblogdur.so is loaded by the runtime"), "{text}");
    let glibc = text.lines().find_map(|line| line.strip_prefix("glibc      liblogdur.so needs 2.")).unwrap_or_default();
    assert!(glibc.contains(", here is 2.") && !glibc.contains("build logdur"), "{text}");
    if !harness::on_hardware() {
        assert!(text.contains("gfx906 AMD Radeon Instinct MI60 (emulated) [emulated]"), "{text}");
    }
}

#[test]
fn the_doctor_says_when_there_is_no_device() {
    if harness::on_hardware() {
        return;
    }
    let output = omniprobe(&["doctor"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("--emulate gfx90a"), "{}", stderr(&output));
}

#[test]
fn rows_on_the_console_are_those_of_the_application_alone() {
    let run = Run::hip("vectors").probed::<&str>(&[]).passed();
    let ours: String =
        run.stdout.lines().filter(|l| l.starts_with(['#', '"', 'k'])).map(|l| format!("{l}\n")).collect();
    assert_eq!(Log::parse(&ours).account()["logged"], versions::kernels_of_vectors());
}

#[test]
fn an_output_that_is_closed_ends_nothing_and_a_full_one_has_a_status() {
    let run = Run::hip("vectors");
    let log = run.file("log.csv");
    let run = run.env("LOGDUR_LOG_LOCATION", &log).watched().passed();
    let log = run.folder.path().join("log.csv").into_os_string().into_string().unwrap();
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let status = |arguments: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut command = Command::new(built("omniprobe"));
        command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).status().unwrap().code().unwrap()
    };
    for tool in [
        "--help",
        "--version",
        "--agents-md",
        "verify --help",
        "completions bash",
        "man",
        "-e",
        "doctor --emulate gfx90a",
        "summary LOG",
        "summary --csv LOG",
    ] {
        let arguments: Vec<&str> = tool.split(' ').map(|word| if word == "LOG" { &log } else { word }).collect();
        assert_eq!(status(&arguments, closed(), closed()), 0, "{tool}");
        assert_eq!(status(&arguments, full(), full()), 1, "{tool}");
    }
    // What an application's status is does not depend on what can be said of it.
    for stream in [closed, full] {
        assert_eq!(status(&["verify", "--nonsense"], Stdio::null(), stream()), 1);
        assert_eq!(status(&["-v", "-l", "/dev/null", "--", "sh", "-c", "exit 7"], stream(), stream()), 7);
        assert_eq!(status(&["--emulate", "gfx90a", "--stats", "sh", "-c", "exit 7"], stream(), stream()), 7);
    }
}
