//! Files of every minor version there was are read for ever, and a reader that was written from the documentation alone
//! reads the same.
//!
//! The files are in `tests/golden`, as text: `MINOR-NAME.hex`, and in `MINOR-NAME.json` what they say. Those of a new
//! version are written by `LOGDUR_WRITE_GOLDEN=1 cargo test -p logdur-capture --test integration old_versions`; files that are
//! there are never written again.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use logdur_capture::{Begun, Compress, Dispatch, End, MAJOR, MINOR, Options, Reader, Shown, Writer};
use serde_json::{Map, Value, json};

use crate::harness::{self, Numbers};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn value(shown: &Shown) -> Value {
    match shown {
        Shown::Number(number) => json!(number),
        Shown::Text(text) => json!(text),
        Shown::Bytes(bytes) => json!(hex(bytes)),
        Shown::Record(fields) => {
            fields.iter().map(|(name, shown)| ((*name).to_owned(), value(shown))).collect::<Map<_, _>>().into()
        }
        Shown::List(values) => values.iter().map(value).collect(),
    }
}

/// A file of chunks of its store: paths below the store's folder, contents.
type Chunks = Vec<(PathBuf, Vec<u8>)>;

/// The files of a folder and those below it.
fn files_of(folder: &Path) -> Chunks {
    let mut all = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            all.extend(files_of(&path).into_iter().map(|(below, bytes)| (name.join(below), bytes)));
        } else {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// Writes a file, and its store beside it; the file's path.
fn put(folder: &Path, bytes: &[u8], chunks: &Chunks) -> PathBuf {
    let (file, store) = (folder.join("file.ldcap"), folder.join("store"));
    let _ = fs::remove_dir_all(&store);
    for (path, bytes) in chunks {
        fs::create_dir_all(store.join(path).parent().unwrap()).unwrap();
        fs::write(store.join(path), bytes).unwrap();
    }
    fs::write(&file, bytes).unwrap();
    file
}

/// Everything that a file says, as `read_ldcap.py` prints it.
fn everything(file: &Path) -> Value {
    let reader = Reader::open(file).unwrap();
    assert_eq!(reader.problems(), []);
    let records = reader.records().shown().into_iter().map(|(_, name, fields)| {
        let fields = Shown::Record(fields);
        let Value::Object(mut fields) = value(&fields) else { unreachable!("a record is an object") };
        fields.insert("record".to_owned(), json!(name));
        Value::Object(fields)
    });
    let snapshots: Map<String, Value> = reader
        .records()
        .snapshots
        .iter()
        .map(|snapshot| {
            let memory = reader.snapshot(snapshot.id).unwrap();
            let ranges = memory.ranges().into_iter().map(|range| {
                let (address, length) = (range.start, range.end - range.start);
                let mut bytes = vec![0; length as usize];
                memory.read(address, &mut bytes).unwrap();
                json!([address, length, crc32fast::hash(&bytes)])
            });
            (snapshot.id.0.to_string(), ranges.collect())
        })
        .collect();
    let objects = reader.records().code_objects.iter();
    let contents: Map<String, Value> =
        objects.map(|o| (o.id.to_string(), json!(crc32fast::hash(&reader.code_object(o.id).unwrap())))).collect();
    json!({
        "version": reader.header().version,
        "finished": *reader.end() == End::Finished,
        "records": records.collect::<Vec<_>>(),
        "snapshots": snapshots,
        "code_objects": contents,
    })
}

/// What the files of this version have in them: name, bytes, files of the store.
fn examples() -> Vec<(&'static str, Vec<u8>, Chunks)> {
    let options = |compress| Options { compress, ..harness::options(20) };
    let finished = harness::capture(&options(Compress::Auto), 2, 3000);
    // Killed in the middle of a frame behind the first dispatch.
    let second = Reader::new(finished.clone()).unwrap().dispatches()[1].place.offset as usize;
    let killed = finished[..second + 20].to_vec();

    // Packs of LZ4, chunks across boundaries, fills, dropped memory, memory that is there twice, allocations that go.
    let mut writer = Writer::new(Vec::new(), &options(Compress::Lz4)).unwrap();
    let code = harness::introduce(&mut writer, &Numbers(3).bytes(40).repeat(5));
    let ramp: Vec<u8> = (0..20_000_u32).flat_map(|i| (i / 500).to_le_bytes()).collect();
    writer.allocation(&harness::allocation(0xfff0, 80_000)).unwrap();
    writer.allocation(&harness::allocation(0x40_0003, 1000)).unwrap();
    let mut snapshot = writer.snapshot(None);
    snapshot.bytes(0xfff0, &ramp).unwrap();
    snapshot.bytes(0x40_0003, &[1, 2, 3, 4, 5, 6, 7, 8, 9].repeat(100)).unwrap();
    snapshot.bytes(0x50_0001, &[7; 333]).unwrap();
    let before = snapshot.finish().unwrap();
    let mut snapshot = writer.snapshot(Some(before));
    let mut changed = ramp;
    changed[70_000..70_010].fill(0xee);
    snapshot.bytes(0xfff0, &changed).unwrap();
    snapshot.unchanged(0x50_0011, 100).unwrap();
    snapshot.bytes(0x60_0000, &[1, 2, 3, 4, 5, 6, 7, 8, 9].repeat(100)).unwrap();
    snapshot.incomplete();
    let after = snapshot.finish().unwrap();
    writer.dispatch(&harness::dispatch(7, code, before, after)).unwrap();
    writer.freed(0x40_0003).unwrap();
    // One that is not finished.
    let _ = writer.snapshot(Some(after)).bytes(0x70_0000, b"lost, and nobody misses it");
    let alone = writer.snapshot(Some(after)).finish().unwrap();
    writer.dispatch(&harness::dispatch(8, code, after, alone)).unwrap();
    let dispatch = Dispatch { after: None, ..harness::dispatch(9, code, alone, alone) };
    writer.begun(&Begun { dispatch }).unwrap();
    let region = harness::region(&options(Compress::Auto));
    let folder = tempfile::tempdir().unwrap();
    let shared = harness::shared(&options(Compress::Auto), 2, 20_000, folder.path());
    let chunks = files_of(&folder.path().join("store"));
    assert!(!chunks.is_empty());
    let memory = writer.finish().unwrap();
    let alone = [("finished", finished), ("killed", killed), ("memory", memory), ("region", region)];
    alone.into_iter().map(|(name, bytes)| (name, bytes, Vec::new())).chain([("shared", shared, chunks)]).collect()
}

fn write_missing(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let place = tempfile::tempdir().unwrap();
    for (name, bytes, chunks) in examples() {
        let path = folder.join(format!("{MAJOR}.{MINOR}-{name}.hex"));
        if path.exists() {
            continue;
        }
        let mut text = format!(
            "# A capture file of version {MAJOR}.{MINOR}, made by this crate's writer: `examples` in tests/integration/old_versions.rs.\n"
        );
        bytes.chunks(60).for_each(|line| text += &format!("{}\n", hex(line)));
        fs::write(&path, text).unwrap();
        for (number, (file, bytes)) in chunks.iter().enumerate() {
            // A line each: the path in the store, its bytes.
            let line = format!("{} {}\n", file.display(), hex(bytes));
            let all =
                if number == 0 { String::new() } else { fs::read_to_string(path.with_extension("store")).unwrap() };
            fs::write(path.with_extension("store"), all + &line).unwrap();
        }
        let said = serde_json::to_string_pretty(&everything(&put(place.path(), &bytes, &chunks))).unwrap();
        fs::write(path.with_extension("json"), said + "\n").unwrap();
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::chars);
    let digits: Vec<u8> = digits.map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The files of a store, a line each.
fn chunks_of(path: &Path) -> Chunks {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(path, bytes)| (path.into(), unhex(bytes))).collect()
}

/// What the reader in Python says of a file.
fn read_by_python(file: &Path) -> Value {
    let page = root().join("../../../docs/capture-format.md");
    let output = Command::new("python3").arg(root().join("read_ldcap.py")).arg(file).arg(page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn files_of_every_version_are_read_as_ever_by_us_and_by_a_reader_made_from_the_documentation() {
    let golden = root().join("golden");
    if std::env::var_os("LOGDUR_WRITE_GOLDEN").is_some() {
        write_missing(&golden);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut versions = Vec::new();
    for file in fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let bytes = unhex(&fs::read_to_string(&file).unwrap());
        let expected: Value = serde_json::from_str(&fs::read_to_string(file.with_extension("json")).unwrap()).unwrap();
        let put = put(folder.path(), &bytes, &chunks_of(&file.with_extension("store")));
        assert_eq!(everything(&put), expected, "{}", file.display());
        assert_eq!(read_by_python(&put), expected, "{}", file.display());
        let name = file.file_name().unwrap().to_str().unwrap();
        versions.push(name.split_once('-').unwrap().0.to_owned());
    }
    for minor in 0..=MINOR {
        let version = format!("{MAJOR}.{minor}");
        assert!(versions.iter().filter(|v| **v == version).count() >= 3, "no files of version {version}: {versions:?}");
    }
}

#[test]
fn what_is_written_today_is_read_alike_by_a_reader_made_from_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, chunks) in examples() {
        let file = put(folder.path(), &bytes, &chunks);
        assert_eq!(read_by_python(&file), everything(&file), "{name}");
    }
    assert!(fs::read_to_string(root().join("read_ldcap.py")).unwrap().lines().count() <= 165);
}
