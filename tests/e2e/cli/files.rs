//! Files that commands write: never what they read, whole or not at all, and where their names were typed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::harness::{self, Run, built};
use crate::support::versions;

/// A log of four rows, by two runs.
const LOG: &str = "kernel,dispatch,startNs,endNs,agent,queue,pid\n# run: pid=1 id=a\n\"f(int)\",1,2,3,0,1,1\n\"f(int)\",2,4,5,0,1,1\n\
    # account: pid=1 seen=2 logged=2\n# run: pid=2 id=b\n\"g\",1,12,13,0,1,2\n\"g\",2,14,15,0,1,2\n# account: pid=2 seen=3 logged=3\n";

fn omniprobe(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(built("omniprobe"));
    command.args(line.split(' ')).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// The options that choose the device.
fn device() -> Vec<String> {
    if harness::on_hardware() { Vec::new() } else { vec!["--emulate".to_owned(), harness::arch()] }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn no_subcommand_writes_over_what_it_reads_or_through_a_link_that_others_may_have_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("log.json"), LOG).unwrap();
    symlink("log.json", at("link.json")).unwrap();
    fs::hard_link(at("log.json"), at("hard.json")).unwrap();
    for name in ["log.json", "link.json", "hard.json"] {
        for line in [
            "report log.json -o",
            "trace log.json -o",
            "export log.json --parquet",
            "export log.json --csv",
            "export log.json --rocpd",
        ] {
            let output = omniprobe(folder.path(), &format!("{line} {name}"));
            assert!(
                output.status.code() == Some(1) && said(&output).contains("log.json, which is read"),
                "{line} {name}"
            );
        }
    }
    let output = omniprobe(folder.path(), "-l same --capture same -- /bin/true");
    assert!(output.status.code() == Some(1) && said(&output).contains("expected another file than that of -l"));
    fs::write(at("source.hip"), "#include <hip/hip_runtime.h>\n").unwrap();
    let output = omniprobe(folder.path(), "-l source.hip -- /bin/true");
    assert!(
        output.status.code() == Some(1) && said(&output).contains("nothing is appended to it"),
        "{}",
        said(&output)
    );
    fs::create_dir(at("shared")).unwrap();
    fs::set_permissions(at("shared"), Permissions::from_mode(0o1777)).unwrap();
    fs::write(at("mine"), "mine").unwrap();
    symlink(at("mine"), at("shared/x.json")).unwrap();
    for line in ["trace log.json -o shared/x.json", "report log.json -o shared/x.json", "-l shared/x.json -- /bin/true"]
    {
        let output = omniprobe(folder.path(), line);
        assert!(
            output.status.code() == Some(1) && said(&output).contains("is not followed"),
            "{line}: {}",
            said(&output)
        );
    }
    assert_eq!(fs::read_to_string(at("mine")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(at("log.json")).unwrap(), LOG);
    assert_eq!(omniprobe(folder.path(), "report log.json -o /dev/null").status.code(), Some(2));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(omniprobe(folder.path(), "report log.json -o /dev/full").status.code(), Some(1));
}

#[test]
fn each_reader_tells_of_missing_rows_and_several_runs_and_takes_the_last_one_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.csv"), LOG).unwrap();
    fs::write(folder.path().join("empty.csv"), "").unwrap();
    let lines = [
        "summary IN --json",
        "trace IN -o t.json",
        "report IN -o t.html",
        "export IN --parquet t.parquet",
        "export IN --csv t.csv",
        "export IN --rocpd t.db",
    ];
    for line in lines {
        let both = omniprobe(folder.path(), &line.replace("IN", "log.csv"));
        let text = said(&both);
        // What it lacks is damage, and what is there is shown.
        assert!(both.status.code() == Some(2) && text.contains("log.csv: 2 runs in this log"), "{line}: {text}");
        assert!(text.contains("1 rows are missing"), "{line}: {text}");
        let last = omniprobe(folder.path(), &line.replace("IN", "log.csv --last"));
        let text = said(&last);
        assert!(last.status.code() == Some(2) && !text.contains("runs in this log"), "{line}: {text}");
        let is_one = text.contains(": 2 rows") || String::from_utf8_lossy(&last.stdout).contains("\"rows\":2,");
        assert!(is_one && text.contains("1 rows are missing"), "{line}: {text}");
        let empty = omniprobe(folder.path(), &line.replace("IN", "empty.csv"));
        assert!(empty.status.code() == Some(11) && said(&empty).contains("empty.csv: no rows"), "{line}");
    }
}

#[test]
fn two_runs_into_one_log_are_told_apart_and_names_belong_to_the_folder_where_they_were_typed() {
    let run = Run::hip("vectors");
    let program = run.command().get_program().to_owned();
    let [log, capture] = ["log.csv", "c.ldcap"].map(|name| run.file(name));
    fs::create_dir(run.file("elsewhere")).unwrap();
    let script = format!("cd elsewhere && {}", program.display());
    for options in [["--stats", "-q"], ["--capture", "c.ldcap"]] {
        let mut command = run.omniprobe();
        command.args(options).args(["-l", "log.csv"]).args(device()).args(["--", "sh", "-c", &script]);
        let output = command.current_dir(run.file("")).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    assert!(Path::new(&log).exists() && Path::new(&capture).exists());
    assert_eq!(fs::read_dir(run.file("elsewhere")).unwrap().count(), 0);
    let rows = |line: &str| {
        let output = omniprobe(&run.file(""), line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split("\"rows\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok()).unwrap()
    };
    let kernels = versions::kernels_of_vectors();
    assert_eq!((rows("summary log.csv --json"), rows("summary log.csv --last --json")), (2 * kernels, kernels));
}

#[test]
fn rows_on_the_console_begin_a_line_and_are_written_where_an_open_descriptor_is() {
    let run = Run::hip("vectors");
    let script = format!("printf 'prompt...'; {}; echo last", run.command().get_program().display());
    for location in ["console", "/dev/stdout", "/dev/stderr"] {
        let out = fs::File::create(run.file("out")).unwrap();
        let mut command = run.omniprobe();
        command.args(["-l", location]).args(device()).args(["--", "sh", "-c", &script]);
        let status = command.stdout(out.try_clone().unwrap()).stderr(out).status().unwrap();
        assert!(status.success());
        let text = fs::read_to_string(run.file("out")).unwrap();
        let rows = text.lines().filter(|line| line.starts_with('"') && line.contains(",dispatch,,")).count() as u64;
        assert_eq!(rows, versions::kernels_of_vectors(), "{location}: {text}");
        assert!(text.starts_with("prompt...\n") && text.ends_with("last\n"), "{location}: {text}");
        assert!(text.lines().any(|line| line.starts_with("kernel,dispatch,")), "{location}: {text}");
    }
}
