//! Another user of the machine who plants links and files where ours are expected to be made.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bed::{self, Outcome, Run, built};
use crate::log::Log;

/// A run of `signals` by a shell that first plants a link under a name that has the process's number.
fn with_a_planted_link(name: &str, variables: &[(&str, &Path)]) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious\n").unwrap();
    let script = format!("ln -s {} \"{name}\"; exec {} none 20", victim.display(), bed::hsa("signals").display());
    let run = Run::new("/bin/sh".into()).args(["-c", &script]);
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.envs(variables.iter().copied()).env("LOGDUR_LOG", "debug");
    let run = run.finish(command).passed();
    (folder, victim, run.stdout)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn diagnostics_do_not_follow_a_link_that_was_planted_under_their_name() {
    let temporary = tempfile::tempdir().unwrap();
    let link = format!("{}/logdur.$$.log", temporary.path().display());
    let (_folder, victim, _) = with_a_planted_link(&link, &[("TMPDIR", temporary.path())]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    let names = names(temporary.path());
    let own = names.iter().find(|name| name.ends_with(".1.log")).unwrap_or_else(|| panic!("{names:?}"));
    let own = temporary.path().join(own).metadata().unwrap();
    assert!(own.is_file() && own.len() > 0 && own.mode() & 0o777 == 0o600, "{own:?}");
}

#[test]
fn records_do_not_follow_a_link_that_was_planted_under_their_name() {
    let records = tempfile::tempdir().unwrap();
    let link = format!("{}/logdur.$$.records", records.path().display());
    let (_folder, victim, stdout) = with_a_planted_link(&link, &[("LOGDUR_RECORDS", records.path())]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    let rows = stdout.lines().filter(|line| line.starts_with('"')).count();
    assert_eq!(rows, 20, "{stdout}");
}

#[test]
fn what_passes_between_omniprobe_and_applications_is_in_a_folder_that_no_other_user_may_enter() {
    let temporary = tempfile::tempdir().unwrap();
    let seen: Vec<String> = (0..2)
        .map(|_| {
            let mut command = Command::new(built("omniprobe"));
            command.args(["-l", "/dev/null", "--", "sh", "-c", "ls -l \"$TMPDIR\"; ls -l \"$LOGDUR_HELLO\""]);
            command.env("TMPDIR", temporary.path()).env_remove("XDG_RUNTIME_DIR").stderr(Stdio::null());
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        })
        .collect();
    for text in &seen {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("total")).collect();
        let [folder, hello] = lines[..] else { panic!("{text}") };
        assert!(folder.starts_with("drwx------") && hello.starts_with("-rw-------"), "{text}");
    }
    let name = |text: &str| text.lines().last().unwrap().rsplit_once(' ').unwrap().1.to_owned();
    assert_ne!(name(&seen[0]), name(&seen[1]));
    assert_eq!(names(temporary.path()), Vec::<String>::new());
}

#[test]
fn records_that_others_may_write_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::hsa("signals").args(["none", "20", "noshutdown"]);
    let run = run.env("LOGDUR_RECORDS", folder.path()).env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    drop(run);
    let [name] = &names(folder.path())[..] else { panic!("{:?}", names(folder.path())) };
    let records = folder.path().join(name);
    let log = || Command::new(built("omniprobe")).arg("log").arg(&records).output().unwrap();
    fs::set_permissions(&records, fs::Permissions::from_mode(0o622)).unwrap();
    let output = log();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(name) && stderr.contains("mode 0622"), "{stderr}");
    fs::set_permissions(&records, fs::Permissions::from_mode(0o600)).unwrap();
    let output = log();
    assert!(output.status.success());
    assert_eq!(Log::parse(&String::from_utf8(output.stdout).unwrap()).rows.len(), 20);
}

/// Stages of `overwritten`, and dispatches of each.
const STAGES: usize = 12;
const DISPATCHES: usize = 6 + 700 + 1;

/// Set at the end of a scope, whether or not that is a panic.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A program whose records a neighbour overwrites all the time, from the first byte to the last, and wholly at least once
/// in each stage of the program: while kernels are in flight, and after they are complete.
fn overwritten_with(bytes: impl Fn(usize) -> Vec<u8> + Sync) -> Outcome {
    let run = Run::hsa("overwritten").args([STAGES.to_string()]);
    let (records, stdout) = (run.file("records"), run.file("stdout"));
    fs::create_dir(&records).unwrap();
    let (input, mut answers) = std::io::pipe().unwrap();
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("LOGDUR_LOG_LOCATION", run.file("log.csv")).env("LOGDUR_RECORDS", &records).stdin(input);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut answered = 0;
            while !ended.load(Ordering::Relaxed) {
                let reached = fs::read_to_string(&stdout).unwrap_or_default().matches("stage\n").count();
                for name in names(&records) {
                    // It may be gone, when the process has ended.
                    let Ok(file) = File::options().write(true).open(records.join(name)) else { continue };
                    file.write_all_at(&bytes(file.metadata().unwrap().len() as usize), 0).unwrap();
                }
                for _ in answered..reached {
                    // Nobody reads it any more when the program has failed.
                    let _ = answers.write_all(b"\n");
                }
                answered = reached;
            }
        });
        let _ends = SetWhenDropped(&ended);
        run.finish(command)
    })
}

#[test]
fn a_neighbour_who_overwrites_the_records_of_a_process_changes_its_rows_and_nothing_else() {
    let random = |length: usize| {
        // xorshift
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
        let mut words = Vec::with_capacity(length);
        while words.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            words.extend_from_slice(&state.to_ne_bytes());
        }
        words
    };
    let ways: [fn(usize) -> Vec<u8>; 3] = [|length| vec![0; length], |length| vec![0xff; length], random];
    for (number, bytes) in ways.into_iter().enumerate() {
        let run = overwritten_with(bytes).passed();
        assert_eq!(run.stderr, "", "{number}");
        assert_eq!(run.log().rows.len(), STAGES * DISPATCHES, "{number}");
        assert_eq!(names(&run.folder.path().join("records")), Vec::<String>::new(), "{number}");
    }
}
