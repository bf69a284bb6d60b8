//! Captures whose contents are in a store: shared, moved, damaged, lost, removed, and brought back.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logdur_capture::{
    CaptureError, Collected, Compress, Contents, End, Id, Options, Reader, Shown, SnapshotId, Store, StorePath, Writer,
    decode_chunk,
};

use crate::harness::{self, Numbers};

const DAY: Duration = Duration::from_secs(86_400);

/// The files of chunks of a store, and those that are being written.
fn files(store: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn bytes_of(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

/// Writes a shared capture of a seed; its path.
fn shared(folder: &Path, name: &str, seed: u64) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, harness::shared(&harness::options(seed), 3, 200_000, folder)).unwrap();
    path
}

/// The memory of each snapshot, and the bytes of each code object.
fn contents(reader: &Reader) -> Result<Vec<Vec<u8>>, CaptureError> {
    let mut all = Vec::new();
    for snapshot in &reader.records().snapshots {
        let memory = reader.snapshot(snapshot.id)?;
        for range in memory.ranges() {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            memory.read(range.start, &mut bytes)?;
            all.push(bytes);
        }
    }
    for object in &reader.records().code_objects {
        all.push(reader.code_object(object.id)?);
    }
    Ok(all)
}

/// Every record but those that say where contents are.
fn records(reader: &Reader) -> Vec<(&'static str, Vec<(&'static str, Shown)>)> {
    let all = reader.records().shown().into_iter().filter(|(_, name, _)| *name != "StorePath");
    let fields = |fields: Vec<(&'static str, Shown)>| fields.into_iter().filter(|field| field.0 != "extents").collect();
    all.map(|(_, name, shown)| (name, fields(shown))).collect()
}

fn rewritten(reader: &Reader, contents: &Contents, to: &Path) -> Reader {
    fs::write(to, reader.rewrite(Vec::new(), contents, &harness::options(3), &mut |_| ()).unwrap()).unwrap();
    Reader::open(to).unwrap()
}

fn make_old(file: &Path, by: Duration) {
    fs::File::options().write(true).open(file).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

#[test]
fn captures_with_a_store_have_what_those_without_one_have_and_share_each_content() {
    let folder = tempfile::tempdir().unwrap();
    let alone = harness::capture(&harness::options(7), 3, 200_000);
    let first = shared(folder.path(), "rank-0.ldcap", 7);
    let chunks = files(&folder.path().join("store"));
    let reader = Reader::open(&first).unwrap();
    assert!(reader.header().is_shared());
    assert_eq!((reader.problems(), reader.check().findings), (&[][..], vec![]));
    let expected = Reader::new(alone.clone()).unwrap();
    assert_eq!(contents(&reader).unwrap(), contents(&expected).unwrap());
    assert_eq!(records(&reader), records(&expected));
    let (in_store, in_file) = (bytes_of(&chunks), fs::metadata(&first).unwrap().len());
    assert!(in_store > in_file && in_file < alone.len() as u64 / 2, "{in_store} in the store, {in_file} in the file");
    // Seven more processes with the same memory add nothing to the store.
    for rank in 1..8 {
        let other = shared(folder.path(), &format!("rank-{rank}.ldcap"), 7);
        assert_eq!(contents(&Reader::open(&other).unwrap()).unwrap(), contents(&expected).unwrap());
    }
    assert_eq!(files(&folder.path().join("store")), chunks);
    println!("1 rank: {} bytes, 8 ranks: {} bytes", in_store + in_file, in_store + 8 * in_file);
}

#[test]
fn a_capture_is_made_stand_alone_and_is_put_into_a_store_again_and_nothing_of_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = shared(folder.path(), "a.ldcap", 7);
    let reader = Reader::open(&path).unwrap();
    let expected = (contents(&reader).unwrap(), records(&reader));
    let alone = rewritten(&reader, &Contents::Embedded, &folder.path().join("alone.ldcap"));
    fs::rename(folder.path().join("store"), folder.path().join("elsewhere")).unwrap();
    assert!(!alone.header().is_shared() && alone.records().stores.is_empty());
    assert_eq!((alone.end(), alone.check().findings), (&End::Finished, vec![]));
    assert_eq!((contents(&alone).unwrap(), records(&alone)), expected);

    let other = Arc::new(Store::create(&folder.path().join("other"), 0o600).unwrap());
    let back_path = folder.path().join("back.ldcap");
    let named = StorePath::of(&other, &back_path);
    assert_eq!(named.relative, "other");
    let back = rewritten(&alone, &Contents::Shared(other, named), &back_path);
    assert_eq!((back.check().findings, contents(&back).unwrap(), records(&back)), (vec![], expected.0, expected.1));
    let names = |store: &str| -> HashSet<_> {
        files(&folder.path().join(store)).iter().map(|file| file.file_name().unwrap().to_owned()).collect()
    };
    assert_eq!(names("other"), names("elsewhere"));

    // The first one is told where its store is now.
    assert!(contents(&Reader::open(&path).unwrap()).is_err());
    let old = StorePath { relative: String::new(), absolute: folder.path().join("store").display().to_string() };
    let to = folder.path().join("moved.ldcap");
    assert_eq!(old.remapped(Path::new("/no/such"), Path::new("/x"), &to), None);
    let new = old.remapped(&folder.path().join("store"), &folder.path().join("elsewhere"), &to).unwrap();
    let moved = rewritten(&Reader::open(&path).unwrap(), &Contents::Renamed(new), &to);
    assert_eq!((moved.check().findings, contents(&moved).unwrap()), (vec![], expected_of(&back)));
}

fn expected_of(reader: &Reader) -> Vec<Vec<u8>> {
    contents(reader).unwrap()
}

#[test]
fn a_store_that_is_not_there_is_named_once_and_another_one_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = shared(folder.path(), "a.ldcap", 7);
    let expected = contents(&Reader::open(&path).unwrap()).unwrap();
    let (store, moved) = (folder.path().join("store"), folder.path().join("moved"));
    fs::rename(&store, &moved).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let error = contents(&reader).unwrap_err().to_string();
    assert!(error.contains(&format!("{}/", store.display())) && error.contains("No such file"), "{error}");
    let findings: Vec<String> = reader.check().findings.iter().map(ToString::to_string).collect();
    assert!(findings[0].contains("the store of its chunks") && findings[0].contains("store not there"), "{findings:?}");
    let dispatches = findings.iter().filter(|text| text.contains(": dispatch ")).count();
    assert_eq!(
        dispatches + 1 + usize::from(findings.iter().any(|text| text.contains("code object"))),
        findings.len(),
        "{findings:?}"
    );
    assert!(dispatches > 0);
    reader.look_in(&moved);
    assert_eq!(contents(&reader).unwrap(), expected);
    // Records are there without it.
    assert_eq!(Reader::open(&path).unwrap().dispatches().len(), 3);
}

#[test]
fn a_chunk_with_anything_changed_is_refused_by_its_name_and_written_again_where_its_length_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = shared(folder.path(), "a.ldcap", 7);
    let store = folder.path().join("store");
    let expected = contents(&Reader::open(&path).unwrap()).unwrap();
    let chunks = files(&store);
    let mut numbers = Numbers(99);
    for (number, file) in chunks.iter().enumerate() {
        let (whole, other) = (fs::read(file).unwrap(), fs::read(&chunks[(number + 1) % chunks.len()]).unwrap());
        let id = file.file_name().unwrap().to_str().unwrap();
        let mut flipped = whole.clone();
        let at = numbers.below(whole.len());
        flipped[at] ^= 1 << numbers.below(8);
        let longer = [whole.clone(), vec![0; 8]].concat();
        let damages =
            [&flipped, &other, &whole[..whole.len() - 1].to_vec(), &whole[..20].to_vec(), &Vec::new(), &longer];
        for damage in damages {
            fs::write(file, damage).unwrap();
            let reader = Reader::open(&path).unwrap();
            let error = contents(&reader).unwrap_err().to_string();
            assert!(error.contains(id) && error.contains(&file.display().to_string()), "{error}");
            let findings: Vec<String> = reader.check().findings.iter().map(ToString::to_string).collect();
            assert!(findings.iter().any(|text| text.contains(id)), "{findings:?}");
            assert!(
                findings.iter().any(|text| text.contains(": dispatch ") || text.contains("code object")),
                "{findings:?}"
            );
        }
        // The next capture finds that it is not whole.
        fs::write(file, &whole[..whole.len() - 1]).unwrap();
        shared(folder.path(), "again.ldcap", 7);
        assert_eq!(fs::read(file).unwrap(), whole);
        fs::remove_file(file).unwrap();
        let error = contents(&Reader::open(&path).unwrap()).unwrap_err();
        assert!(matches!(&error, CaptureError::NoChunk { id: of, .. } if of.to_string() == id), "{error}");
        shared(folder.path(), "again.ldcap", 7);
    }
    assert_eq!(contents(&Reader::open(&path).unwrap()).unwrap(), expected);
}

#[test]
fn a_capture_with_a_lost_chunk_is_repaired_to_one_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = shared(folder.path(), "a.ldcap", 7);
    fs::remove_file(&files(&folder.path().join("store"))[0]).unwrap();
    let repaired = folder.path().join("repaired.ldcap");
    let lost = Reader::open(&path).unwrap().repair(&repaired).unwrap();
    assert!(lost.iter().any(|finding| finding.text.contains("in no store")), "{lost:?}");
    let repaired = Reader::open(&repaired).unwrap();
    assert_eq!((repaired.check().findings, repaired.header().is_shared()), (vec![], true));
    assert_eq!(repaired.dispatches().len(), 3);
}

#[test]
fn what_no_capture_needs_is_removed_once_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (kept, gone) = (shared(folder.path(), "kept.ldcap", 7), shared(folder.path(), "gone.ldcap", 8));
    let mut needed = HashSet::new();
    Reader::open(&kept).unwrap().shared(&mut needed).unwrap();
    let mut of_gone = HashSet::new();
    Reader::open(&gone).unwrap().shared(&mut of_gone).unwrap();
    // Both have some contents, which have to stay.
    assert!(of_gone.len() < of_gone.difference(&needed).count() + needed.len());
    of_gone.retain(|id| !needed.contains(id));
    assert!(!of_gone.is_empty());
    let opened = Store::open(&store);
    let part = files(&store)[0].with_file_name(".0123456789abcdef-4.part");
    fs::write(&part, b"half a chu").unwrap();
    let foreign = files(&store)[0].with_file_name("README");
    fs::write(&foreign, b"not ours").unwrap();

    let young = opened.collect(&needed, DAY, true).unwrap();
    assert_eq!((young.needed.0, young.young.0), (needed.len() as u64, of_gone.len() as u64));
    assert_eq!((young.removed, young.parts, young.missing), ((0, 0), (0, 0), 0));
    for file in files(&store) {
        make_old(&file, 2 * DAY);
    }
    // A capture that uses a chunk again makes it young.
    let again = shared(folder.path(), "again.ldcap", 8);
    fs::remove_file(again).unwrap();
    let reused = opened.collect(&needed, DAY, true).unwrap();
    assert_eq!((reused.young.0, reused.removed.0, reused.parts.0), (of_gone.len() as u64, 0, 1));
    assert!(!part.exists());
    files(&store).iter().for_each(|file| make_old(file, 2 * DAY));
    let dry = opened.collect(&needed, DAY, false).unwrap();
    assert_eq!(dry.removed.0, of_gone.len() as u64);
    assert_eq!(files(&store).len(), needed.len() + of_gone.len() + 1);
    assert_eq!(opened.collect(&needed, DAY, true).unwrap(), dry);
    assert_eq!(files(&store).len(), needed.len() + 1);
    assert!(foreign.exists());
    assert_eq!(Reader::open(&kept).unwrap().check().findings, []);
    let none = Collected { needed: dry.needed, ..Collected::default() };
    assert_eq!(opened.collect(&needed, DAY, true).unwrap(), none);
    needed.insert(Id::of(b"lost"));
    assert_eq!(opened.collect(&needed, DAY, true).unwrap().missing, 1);
}

#[test]
fn threads_that_write_the_same_chunks_at_once_do_not_harm_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<PathBuf> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..6)
            .map(|number| {
                let folder = folder.path();
                scope.spawn(move || {
                    let path = folder.join(format!("{number}.ldcap"));
                    fs::write(&path, harness::shared(&harness::options(7), 3, 400_000, folder)).unwrap();
                    path
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for name in names {
        assert_eq!(Reader::open(&name).unwrap().check().findings, []);
    }
    assert!(files(&folder.path().join("store")).iter().all(|file| file.extension().is_none()));
}

#[test]
fn a_store_that_cannot_be_written_stops_the_capture_and_what_was_committed_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let error = Store::create(Path::new("/dev/null/store"), 0o600).unwrap_err();
    assert!(error.to_string().contains("/dev/null/store"), "{error}");
    let store = folder.path().join("store");
    let made = Arc::new(Store::create(&store, 0o600).unwrap());
    let file = folder.path().join("a.ldcap");
    let path = StorePath::of(&made, &file);
    let storage = logdur_capture::FileStorage::create(&file).unwrap();
    let mut writer = Writer::sharing(storage, &harness::options(3), made, &path).unwrap();
    let code = harness::introduce(&mut writer, &Numbers(1).bytes(300));
    let mut numbers = Numbers(5);
    let mut committed = 0;
    let error = loop {
        let mut snapshot = writer.snapshot(None);
        let written = snapshot
            .bytes(0x1000_0000, &numbers.bytes(3 * 65536))
            .and_then(|()| snapshot.finish())
            .and_then(|id| writer.dispatch(&harness::dispatch(committed, code, id, id)));
        if let Err(error) = written {
            break error;
        }
        committed += 1;
        if committed == 3 {
            // Folders of chunks that are not there yet cannot be made any more; each is a file.
            for number in 0..256 {
                let _ = fs::write(store.join(format!("{number:02x}")), b"");
            }
        }
    };
    let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains(&store.display().to_string()), "{error}: {why}");
    assert!(matches!(
        writer.dispatch(&harness::dispatch(9, code, SnapshotId(1), SnapshotId(1))),
        Err(CaptureError::Stopped)
    ));
    drop(writer);
    let reader = Reader::open(&file).unwrap();
    assert_eq!((reader.dispatches().len() as u64, reader.check().findings), (committed, vec![]));
    assert!(reader.notes().iter().any(|note| note.code == "write-failed" && note.text.contains("store")));
}

/// Set in the process that is to be killed: the folder that it captures to.
const ROLE: &str = "LOGDUR_TEST_STORE_IN";

/// Captures until it is killed; says so when the first capture is whole.
fn capture_for_ever(folder: &Path) -> ! {
    for seed in 0.. {
        let path = shared(folder, &format!("{}-{seed}.ldcap", std::process::id()), seed % 200);
        println!("\nwhole {}", path.display());
    }
    unreachable!("there are more numbers than time");
}

#[test]
fn whenever_writers_are_killed_the_chunks_that_have_their_names_are_whole() {
    if let Some(folder) = std::env::var_os(ROLE) {
        capture_for_ever(folder.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut instants = Numbers(4242);
    let story = "store::whenever_writers_are_killed_the_chunks_that_have_their_names_are_whole";
    let mut left = 0;
    for _ in 0..harness::count(10, 200) {
        let mut children: Vec<_> = (0..2)
            .map(|_| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", story, "--nocapture"]).env(ROLE, folder.path());
                command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for child in &mut children {
            let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
            assert!(lines.any(|line| line.starts_with("whole ")), "nothing was captured");
        }
        std::thread::sleep(Duration::from_micros(instants.below(20_000) as u64));
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for file in files(&folder.path().join("store")) {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".part") {
                left += 1;
                fs::remove_file(file).unwrap();
                continue;
            }
            let bytes = fs::read(&file).unwrap();
            let is = decode_chunk(
                bytes.clone(),
                &Id(std::array::from_fn(|at| u8::from_str_radix(&name[2 * at..2 * at + 2], 16).unwrap())),
            );
            assert!(is.is_ok(), "{name}: {is:?}");
        }
        for file in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "ldcap") {
                // One that was not written to its end is no capture yet: it is written at once here.
                if let Ok(reader) = Reader::open(&file) {
                    assert!(contents(&reader).is_ok());
                }
                fs::remove_file(file).unwrap();
            }
        }
    }
    println!("{left} files of chunks were left half-written");
}

#[test]
fn each_way_to_compress_is_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let expected = contents(&Reader::new(harness::capture(&harness::options(7), 3, 200_000)).unwrap()).unwrap();
    for compress in [Compress::None, Compress::Auto, Compress::Lz4, Compress::Zstd] {
        let place = folder.path().join(format!("{compress:?}"));
        fs::create_dir(&place).unwrap();
        let options = Options { compress, ..harness::options(7) };
        let file = place.join("a.ldcap");
        fs::write(&file, harness::shared(&options, 3, 200_000, &place)).unwrap();
        assert_eq!(contents(&Reader::open(&file).unwrap()).unwrap(), expected, "{compress:?}");
        println!("{compress:?}: {} bytes", bytes_of(&files(&place.join("store"))));
    }
}
