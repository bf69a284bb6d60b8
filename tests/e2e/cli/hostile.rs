//! Another user of the machine who plants links and files where ours are expected to be made.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use logdur_capture::{Id, Reader, Session};

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::Log;

/// A run of `signals` by a shell that first plants a link under a name that has the process's number.
fn with_a_planted_link(name: &str, variables: &[(&str, &Path)]) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious\n").unwrap();
    let script = format!("ln -s {} \"{name}\"; exec {} none 20", victim.display(), harness::hsa("signals").display());
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
        assert!(folder.starts_with("drwx------") && hello.starts_with("prw-------"), "{text}");
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
                    // It has no reader any more when the program has failed.
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
        assert_eq!(run.log().rows.len(), STAGES * DISPATCHES, "{number}");
        assert_eq!(names(&run.folder.path().join("records")), Vec::<String>::new(), "{number}");
    }
}

/// A capture of a program under a umask: its mode, and what it says of the process.
fn captured_under(umask: &str, options: &[&str]) -> (u32, Session) {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("one.ldcap");
    let script = format!("umask {umask}; exec {} none 2", harness::hsa("signals").display());
    let run = Run::new("/bin/sh".into()).args(["-c", &script]).env("OMP_NUM_THREADS", "3");
    run.probed(&[&["-l", "/dev/null", "--capture", capture.to_str().unwrap()], options].concat()).passed();
    let reader = Reader::open(&capture).unwrap();
    assert_eq!(reader.dispatches().len(), 1, "{options:?}");
    let [session] = reader.sessions() else { panic!("{} sessions", reader.sessions().len()) };
    (capture.metadata().unwrap().mode() & 0o7777, Session::clone(session))
}

#[test]
fn a_capture_is_for_its_owner_alone_and_tells_of_the_process_what_the_user_lets_it_tell() {
    let tells_variable = |session: &Session| session.environment.iter().any(|v| v.name == "OMP_NUM_THREADS");
    let (mode, session) = captured_under("0", &[]);
    assert_eq!((mode, session.arguments.len(), tells_variable(&session)), (0o600, 3, true));
    let (mode, session) = captured_under("077", &["--capture-mode", "640", "--capture-tell", "command"]);
    assert!(session.exe.ends_with("signals"), "{session:?}");
    assert_eq!((mode, session.arguments.len(), session.environment.len()), (0o640, 3, 0));
    let (mode, session) = captured_under("0", &["--capture-mode", "0600", "--capture-tell", "none"]);
    assert_eq!((mode, session.exe.as_str(), session.arguments.len(), session.environment.len()), (0o600, "", 0, 0));
}

#[test]
fn kernels_of_a_folder_that_others_may_write_are_not_loaded_unless_the_user_trusts_it() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |mode: u32, options: &[&str]| {
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        let run = Run::hsa("endless").args(["again", "40"]);
        let (log, indexes) = (run.file("log.csv"), run.file("indexes"));
        let run = run.env("XDG_CACHE_HOME", indexes);
        let usual = ["-l", log.to_str().unwrap(), "-c", cache.to_str().unwrap(), "-k", "^increment$"];
        let log = run.probed(&[&usual, options].concat()).passed().log();
        let swapped = log.rows.iter().filter(|row| !row.text("replaced").is_empty()).count();
        let refusal = log.notices.iter().find(|notice| notice.contains("mode 0777")).cloned();
        (swapped, refusal)
    };
    assert_eq!(run(0o755, &[]), (40, None));
    let (swapped, refusal) = run(0o777, &[]);
    let refusal = refusal.expect("a notice with the mode");
    assert_eq!(swapped, 0, "{refusal}");
    assert!(refusal.contains(cache.to_str().unwrap()) && refusal.contains("LOGDUR_KERNEL_CACHE_TRUST=1"), "{refusal}");
    assert_eq!(run(0o777, &["--cache-trust"]), (40, None));
}

#[test]
fn pipes_in_place_of_files_are_refused_and_folders_that_cannot_be_written_are_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let shown = pipe.to_str().unwrap();
    for arguments in
        [&["info", shown][..], &["fsck", shown], &["diff", shown, shown], &["log", shown], &["verify", shown]]
    {
        let run = Run::new("/bin/true".into());
        let mut command = run.omniprobe();
        command.args(arguments);
        let outcome = run.finish(command);
        assert!(!outcome.status.success() && outcome.stderr.contains(shown), "{arguments:?}: {}", outcome.stderr);
    }
    let nowhere = folder.path().join("nowhere");
    // No HIP program: its compiler needs temporary files.
    let run = Run::hsa("signals").args(["none", "40"]).env("TMPDIR", &nowhere).env("XDG_RUNTIME_DIR", &nowhere);
    let log = run.file("log.csv");
    let outcome = run.probed(&["-l", log.to_str().unwrap()]).passed();
    assert_eq!(outcome.log().account()["logged"], 40);
    assert!(!outcome.stderr.contains("nowhere"), "{}", outcome.stderr);
}

/// Two code objects of one kernel and of one size, cut ones, and none, all of one time, as fast as files can be renamed.
#[test]
fn files_of_a_cache_that_are_replaced_all_the_time_are_loaded_as_one_of_them_or_not_at_all() {
    let (threads, rounds) = (4, harness::count(20, 500));
    let run = Run::hsa("loaders").args([threads.to_string(), rounds.to_string()]);
    let run = run.env("TEST_OTHER", harness::hip_object("swaps", &harness::arch(), "-O2"));
    let [cache, indexes, next, log] = ["cache", "indexes", "next", "log.csv"].map(|name| run.file(name));
    fs::create_dir(&cache).unwrap();
    let object = fs::read(harness::hip_object("kernels", &harness::arch(), "-O1")).unwrap();
    let whole = [0, 1].map(|end| [&object[..], &[end; 8]].concat());
    let cut = [&object[..object.len() / 2], &object[..100], &[]].map(<[u8]>::to_vec);
    let contents = [&whole[0], &cut[0], &whole[1], &cut[1], &whole[0], &whole[1], &cut[2]];
    let file = cache.join("kernels.hsaco");
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let replace = |bytes: &[u8]| {
        fs::write(&next, bytes).unwrap();
        fs::File::options().write(true).open(&next).unwrap().set_modified(an_hour_ago).unwrap();
        fs::rename(&next, &file).unwrap();
    };
    replace(contents[0]);
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
    let ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_running = || !ended.load(Ordering::Relaxed);
            // The first is loaded before the others come.
            while is_running() && !fs::read_to_string(&log).is_ok_and(|text| text.contains(" active: ")) {
                std::thread::yield_now();
            }
            for bytes in contents.iter().cycle().take_while(|_| is_running()) {
                replace(bytes);
                if bytes.is_empty() {
                    fs::remove_file(&file).unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.watched()));
        ended.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let log = outcome.passed().log();
    log.account();
    assert_eq!(log.rows.len(), threads * rounds + 1);
    let known: Vec<String> = whole.iter().map(|bytes| Id::of(bytes).to_string()[..12].to_owned()).collect();
    assert!(log.notices.iter().any(|notice| notice.contains(" active: ")), "{:#?}", log.notices);
    for row in &log.rows {
        let replaced = row.text("replaced");
        assert!(replaced.is_empty() || known.iter().any(|hash| hash == replaced), "{replaced}: {known:?}");
    }
}

/// A group that a file of this user's may be given, so that a program runs with rights that its user does not have.
fn another_group() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ids = |name: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|id| id.parse().unwrap()).collect()
    };
    let (users, own, others) = (ids("Uid:"), ids("Gid:"), ids("Groups:"));
    if users[1] == 0 { Some(own[1] + 12345) } else { others.into_iter().find(|group| *group != own[1]) }
}

#[test]
fn a_program_with_raised_privileges_runs_as_if_the_library_were_not_there() {
    // A user without a second group has no such program.
    let (false, Some(group)) = (harness::on_hardware(), another_group()) else { return };
    let program = harness::hsa_with_device("signals");
    let run = |privileges: bool| {
        let raised = program.with_extension("raised");
        let _ = fs::remove_file(&raised);
        harness::copy_program(&program, &raised);
        if privileges {
            std::os::unix::fs::chown(&raised, None, Some(group)).unwrap();
            fs::set_permissions(&raised, fs::Permissions::from_mode(0o2755)).unwrap();
        }
        let run = Run::new(raised).args(["none", "20"]);
        let log = run.file("log.csv");
        let mut command = run.command();
        command.env_remove("LD_PRELOAD").env("HSA_TOOLS_LIB", built("liblogdur.so"));
        command.env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1").env("LOGDUR_LOG_LOCATION", &log);
        command.env("LOGDUR_LOG", "trace");
        let run = run.finish(command).passed();
        let diagnostics = names(run.folder.path()).into_iter().filter(|name| name.starts_with("logdur.")).count();
        (log.exists(), diagnostics)
    };
    assert_eq!(run(false), (true, 1));
    assert_eq!(run(true), (false, 0));
}
