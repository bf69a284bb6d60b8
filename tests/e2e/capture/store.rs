//! Contents of captures in a store: shared by the ranks of a job, lost, moved, damaged, brought back, and removed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use logdur_capture::Reader;
use serde_json::Value;

use crate::support::harness::{Run, built};

/// Mebibytes of memory of the GPU that a process has, other ones in each 64 KiB.
const MIB: u64 = 16;
/// Ranks of a job.
const RANKS: u64 = 8;

/// A program that changes one of its mebibytes.
fn program() -> Run {
    Run::hip("captured_costs").args([&MIB.to_string(), "1"])
}

/// Begins a rank of a job.
fn rank(run: &Run, rank: u64, variables: &[(&str, &Path)]) -> Child {
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command
        .envs(variables.iter().copied())
        .env("SLURM_PROCID", rank.to_string())
        .env("LOGDUR_LOG_LOCATION", "/dev/null");
    // Files of the emulated device are each process's own.
    command.env_remove("KFDEMU_TRACE").env_remove("KFDEMU_LOG");
    command.stdout(Stdio::null()).spawn().unwrap()
}

fn ended(mut child: Child) {
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

fn omniprobe(words: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(built("omniprobe"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOGDUR_")) {
        command.env_remove(name);
    }
    command.args(words.iter().map(AsRef::as_ref)).stdin(Stdio::null()).output().unwrap()
}

/// Runs it, and expects a status.
#[track_caller]
fn says(status: i32, words: &[&dyn AsRef<std::ffi::OsStr>]) -> (String, String) {
    let output = omniprobe(words);
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(status), "{out}{err}");
    (out, err)
}

/// What `verify` says on the emulated GPU, but for times.
fn verified(file: &Path, options: &[&dyn AsRef<std::ffi::OsStr>]) -> Value {
    let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"verify", &file, &"--backend", &"emu", &"--json"];
    words.extend(options);
    let mut said: Value = serde_json::from_str(&says(0, &words).0).unwrap();
    for name in ["repetitions", "replays"] {
        said.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(said["result"], "PASS", "{said:#}");
    said
}

/// The chunks of a store.
fn chunks(store: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(store).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut all: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn bytes(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// Captures one dispatch of the program into `one.ldcap`, with the store `store` beside it.
fn captured(run: &Run) -> (PathBuf, PathBuf) {
    let (file, store) = (run.file("one.ldcap"), run.file("store"));
    let variables = [("LOGDUR_CAPTURE", &*file), ("LOGDUR_CAPTURE_STORE", &*store)];
    ended(rank(run, 0, &variables));
    (file, store)
}

#[test]
fn eight_ranks_of_a_job_have_their_memory_once() {
    let run = program();
    let (alone, one, eight) = (run.file("alone.ldcap"), run.file("one"), run.file("eight"));
    ended(rank(&run, 0, &[("LOGDUR_CAPTURE", &alone)]));
    ended(rank(&run, 0, &[("LOGDUR_CAPTURE", &run.file("first.ldcap")), ("LOGDUR_CAPTURE_STORE", &one)]));
    let (of_one, of_alone) = (bytes(&chunks(&one)), bytes(std::slice::from_ref(&alone)));
    assert!(of_one >= MIB << 20 && of_alone >= MIB << 20, "{of_one} in the store, {of_alone} in a file");
    let captures = run.file("%r.ldcap");
    let variables = [("LOGDUR_CAPTURE", &*captures), ("LOGDUR_CAPTURE_STORE", &*eight)];
    for pair in (0..RANKS).collect::<Vec<_>>().chunks(2) {
        let both: Vec<Child> = pair.iter().map(|number| rank(&run, *number, &variables)).collect();
        both.into_iter().for_each(ended);
    }
    let files: Vec<PathBuf> = (0..RANKS).map(|number| run.file(&format!("{number}.ldcap"))).collect();
    let (in_store, in_files) = (bytes(&chunks(&eight)), bytes(&files));
    println!("a file alone {of_alone}, a store of 1 rank {of_one}, of 8 ranks {in_store}, their files {in_files}");
    // What differs is what each process has of its own: addresses, arguments.
    assert!(in_store < of_one + of_one / 4, "{in_store} of 8 ranks, {of_one} of one");
    for file in &files {
        let reader = Reader::open(file).unwrap();
        assert!(reader.header().is_shared() && reader.dispatches().len() == 1);
        says(0, &[&"fsck", file]);
        verified(file, &[]);
    }
    let (said, _) = says(0, &[&"info", &files[3]]);
    assert!(said.contains("1 of 1 dispatches have all that a replay needs"), "{said}");
}

#[test]
fn a_capture_is_replayed_alike_from_a_store_without_it_and_from_one_that_was_moved() {
    let run = program();
    let (file, store) = captured(&run);
    let expected = verified(&file, &[]);
    let alone = run.file("alone.ldcap");
    let (said, _) = says(0, &[&"store", &"embed", &file, &"-o", &alone]);
    assert!(said.contains("1 dispatches"), "{said}");
    let moved = run.file("moved");
    fs::rename(&store, &moved).unwrap();
    assert_eq!(verified(&alone, &[]), expected);

    // Without its store, the error names the file, the dispatch, the chunk and where it should be.
    let (out, err) = says(9, &[&"verify", &file, &"--backend", &"emu"]);
    let text = out + &err;
    for part in
        [file.display().to_string(), "dispatch ".to_owned(), format!("{}/", store.display()), "chunk ".to_owned()]
    {
        assert!(text.contains(&part), "{part}: {text}");
    }
    let (out, _) = says(2, &[&"fsck", &file]);
    assert!(out.contains("the store of its chunks") && out.contains("dispatch "), "{out}");
    says(9, &[&"extract", &file, &"-o", &run.file("lost")]);
    says(9, &[&"store", &"embed", &file, &"-o", &run.file("none.ldcap")]);
    assert!(!run.file("none.ldcap").exists());
    assert_eq!(verified(&file, &[&"--capture-store", &moved]), expected);
    says(0, &[&"fsck", &file, &"--capture-store", &moved]);
    says(0, &[&"extract", &file, &"-o", &run.file("files"), &"--capture-store", &moved]);
    says(0, &[&"diff", &file, &alone, &"--capture-store", &moved]);
    let (_, err) = says(1, &[&"info", &file, &"--capture-store", &run.file("nowhere")]);
    assert!(err.contains("nowhere"), "{err}");

    let remapped = run.file("remapped.ldcap");
    let folders = format!("{}={}", store.display(), moved.display());
    says(0, &[&"store", &"remap", &folders, &file, &"-o", &remapped]);
    assert_eq!(verified(&remapped, &[]), expected);
    let wrong = format!("{}={}", store.display(), run.file("empty").display());
    says(2, &[&"store", &"remap", &wrong, &file, &"-o", &run.file("wrong.ldcap")]);
    let foreign = format!("/elsewhere={}", moved.display());
    says(1, &[&"store", &"remap", &foreign, &file, &"-o", &run.file("wrong.ldcap")]);
    assert!(!run.file("wrong.ldcap").exists());

    // Back into another store: the same chunks.
    let back = run.file("back.ldcap");
    says(0, &[&"store", &"reference", &alone, &run.file("other"), &"-o", &back]);
    assert_eq!(verified(&back, &[]), expected);
    let names =
        |store: &Path| chunks(store).iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&run.file("other")), names(&moved));
}

#[test]
fn a_chunk_that_is_not_what_its_name_says_is_refused_by_hash_and_file() {
    let run = program();
    let (file, store) = captured(&run);
    let all = chunks(&store);
    let chunk = all.iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut damaged = fs::read(chunk).unwrap();
    damaged[1000] ^= 4;
    fs::write(chunk, damaged).unwrap();
    let id = chunk.file_name().unwrap().to_str().unwrap();
    let (out, err) = says(2, &[&"verify", &file, &"--backend", &"emu"]);
    let text = out + &err;
    assert!(text.contains(id) && text.contains(chunk.to_str().unwrap()) && text.contains("dispatch "), "{text}");
    let (out, _) = says(2, &[&"fsck", &file]);
    assert!(out.contains(id) && out.contains("dispatch "), "{out}");
    says(2, &[&"store", &"embed", &file, &"-o", &run.file("alone.ldcap")]);
    assert!(!run.file("alone.ldcap").exists());
    let whole = run.file("whole.ldcap");
    says(2, &[&"fsck", &file, &"--repair", &whole]);
    assert!(Reader::open(&whole).unwrap().check().is_clean());
}

#[test]
fn a_collector_keeps_what_a_capture_needs_and_removes_the_rest_once_it_is_old() {
    let run = program();
    let (file, store) = captured(&run);
    let needed = chunks(&store);
    let other = Run::hip("vectors");
    let gone = run.file("gone.ldcap");
    ended(rank(&other, 1, &[("LOGDUR_CAPTURE", &gone), ("LOGDUR_CAPTURE_STORE", &store)]));
    let all = chunks(&store);
    assert!(all.len() > needed.len());
    fs::create_dir_all(run.file("captures")).unwrap();
    let kept = run.file("captures/kept.ldcap");
    // It names the store as seen from its folder, and from the root.
    fs::rename(&file, &kept).unwrap();
    fs::remove_file(&gone).unwrap();
    let collect = |status, options: &[&dyn AsRef<std::ffi::OsStr>]| {
        let captures = run.file("captures");
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"store", &"gc", &store, &captures, &"--json"];
        words.extend(options);
        let (out, err) = says(status, &words);
        (serde_json::from_str::<Value>(&out).unwrap_or_default(), err)
    };
    let (said, _) = collect(0, &[&"--remove"]);
    assert_eq!((&said["removed"]["files"], &said["needed"]["files"]), (&0.into(), &needed.len().into()), "{said}");
    let old = SystemTime::now() - Duration::from_secs(90_000);
    let age = |files: &[PathBuf]| {
        files.iter().for_each(|file| fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap());
    };
    age(&all);
    let (said, _) = collect(0, &[]);
    assert_eq!(said["removed"]["files"], all.len() - needed.len(), "{said}");
    assert_eq!(chunks(&store), all);
    // A capture that cannot be read may need anything.
    let broken = run.file("captures/broken.ldcap");
    fs::write(&broken, b"no capture at all, which is long enough to be looked at").unwrap();
    let (_, err) = collect(2, &[&"--remove"]);
    assert!(err.contains("broken.ldcap"), "{err}");
    assert_eq!(chunks(&store), all);
    fs::remove_file(&broken).unwrap();
    let (_, err) = says(1, &[&"store", &"gc", &store, &run.file("store"), &"--remove"]);
    assert!(err.contains("everything would be removed"), "{err}");
    says(1, &[&"store", &"gc", &store, &run.file("captures"), &"--older-than", &"5m"]);
    collect(0, &[&"--remove"]);
    assert_eq!(chunks(&store), needed);
    verified(&kept, &[]);
    fs::remove_file(&needed[0]).unwrap();
    let (said, _) = collect(9, &[]);
    assert_eq!(said["missing"], 1, "{said}");
}

#[test]
fn writers_that_are_killed_leave_whole_chunks_and_a_capture_that_is_read() {
    let run = Run::hip("captured_costs").args([&MIB.to_string(), "100000"]);
    let (file, store) = (run.file("%r.ldcap"), run.file("store"));
    let every = Path::new("every:1");
    let variables =
        [("LOGDUR_CAPTURE", &*file), ("LOGDUR_CAPTURE_STORE", &*store), ("LOGDUR_CAPTURE_DISPATCHES", every)];
    let children: Vec<Child> = (0..2).map(|number| rank(&run, number, &variables)).collect();
    // More than the memory of the first dispatch has.
    while chunks(&store).len() < (MIB * 16) as usize + 40 {
        std::thread::yield_now();
    }
    for mut child in children {
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
    for number in 0..2 {
        let file = run.file(&format!("{number}.ldcap"));
        let reader = Reader::open(&file).unwrap();
        assert_eq!(reader.check().findings, [], "{}", file.display());
    }
    // Of a file that a writer has left half-written, the collector says so; a chunk has its name once it is whole.
    let (out, _) = says(0, &[&"store", &"gc", &store, &run.file("0.ldcap"), &run.file("1.ldcap")]);
    assert!(out.contains("files of killed writers"), "{out}");
    for chunk in chunks(&store).iter().filter(|chunk| !chunk.to_string_lossy().ends_with(".part")) {
        let name = chunk.file_name().unwrap().to_str().unwrap();
        let digits = |at: usize| u8::from_str_radix(&name[2 * at..2 * at + 2], 16).unwrap();
        let id = logdur_capture::Id(std::array::from_fn(digits));
        assert!(logdur_capture::decode_chunk(fs::read(chunk).unwrap(), &id).is_ok(), "{name}");
    }
}

#[test]
fn a_store_that_cannot_be_written_costs_the_capture_and_nothing_else() {
    // No folder can be there.
    let run = Run::hip("vectors");
    let file = run.file("one.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_STORE", "/dev/null/store").watched().passed();
    let log = run.log();
    assert!(!file.exists() && log.account()["logged"] == log.rows.len() as u64);
    assert!(
        log.notices.iter().any(|notice| notice.contains("/dev/null/store") && notice.contains("nothing is captured"))
    );

    // It is a folder until the first chunk goes into it.
    let run = Run::hip("vectors");
    let (file, store) = (run.file("one.ldcap"), run.file("store"));
    fs::create_dir(&store).unwrap();
    for number in 0..256 {
        fs::write(store.join(format!("{number:02x}")), b"").unwrap();
    }
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_STORE", &store).watched().passed();
    let log = run.log();
    assert_eq!(log.account()["logged"], log.rows.len() as u64);
    let said = log.notices.iter().any(|notice| notice.contains(store.to_str().unwrap()) && notice.contains("captured"));
    assert!(said, "{:?}", log.notices);
    let reader = Reader::open(&file).unwrap();
    assert!(reader.check().is_clean() && reader.notes().iter().any(|note| note.code == "write-failed"));
}
