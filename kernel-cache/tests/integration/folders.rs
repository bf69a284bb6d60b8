//! Folders of code objects: what is found in them, and how the index follows them.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use amdgpu_code_object::container::Kind;
use logdur_kernel_cache::{Cache, Candidate, Trust, Unavailable};
use tempfile::TempDir;

use crate::compiled::{Build, SCALE, SUM, run};

/// A folder, and one for its index.
pub(crate) struct Harness {
    pub(crate) root: PathBuf,
    pub(crate) index: PathBuf,
    _kept: TempDir,
}

impl Harness {
    pub(crate) fn new() -> Harness {
        let kept = tempfile::tempdir().expect("a folder for temporary files");
        let (root, index) = (kept.path().join("kernels"), kept.path().join("index"));
        fs::create_dir(&root).expect("the folder can be made");
        Harness { root, index, _kept: kept }
    }

    /// Puts a file there that was last changed so many seconds ago.
    pub(crate) fn put(&self, name: &str, bytes: &[u8], seconds_ago: u64) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("it is in the root")).expect("the folder can be made");
        fs::write(&path, bytes).expect("the file can be written");
        age(&path, seconds_ago);
        path
    }

    pub(crate) fn open(&self) -> Cache {
        Cache::open(std::slice::from_ref(&self.root), Some(&self.index), Trust::Everybody)
    }

    /// The only file of the index.
    pub(crate) fn index_file(&self) -> PathBuf {
        let mut files = fs::read_dir(&self.index).expect("the index was kept").map(|e| e.expect("an entry").path());
        let file = files.next().expect("an index file");
        assert_eq!(files.next(), None, "nothing else is left there");
        file
    }
}

pub(crate) fn age(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).expect("the file is there");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("its time can be set");
}

/// Long enough ago for a file system's clock.
const AN_HOUR: u64 = 3600;

fn names(cache: &Cache) -> Vec<(String, String)> {
    let name = |c: &Candidate| c.path.file_name().expect("a name").to_string_lossy().into_owned();
    cache.kernels().iter().map(|c| (name(c), c.interface.name.clone())).collect()
}

fn reasons(cache: &Cache) -> Vec<String> {
    cache.problems().iter().map(|p| p.reason.clone()).collect()
}

const SUM_NAME: &str = "_Z3sumPfPKfi";

#[test]
fn kernels_are_found_in_everything_that_code_objects_are_kept_in() {
    let harness = Harness::new();
    let objects = [SCALE.path(), SCALE.target("gfx906").path()];
    harness.put("bare.hsaco", &SCALE.bytes(), AN_HOUR);
    let host = harness.root.join("host");
    fs::write(&host, b"").expect("the file can be written");
    for (name, options) in [("raw.co", &[][..]), ("packed.co", &["--compress"])] {
        let mut command = Command::new("clang-offload-bundler-19");
        command.args([
            "--type=o",
            "--targets=host-x86_64-unknown-linux-gnu-,hipv4-amdgcn-amd-amdhsa--gfx90a,hipv4-amdgcn-amd-amdhsa--gfx906",
        ]);
        command.args(options).arg(format!("--input={}", host.display()));
        command.args(objects.iter().map(|path| format!("--input={}", path.display())));
        run(command.arg(format!("--output={}", harness.root.join(name).display())));
    }
    fs::remove_file(host).expect("it is there");
    let mut library = Command::new("hipcc");
    library.args(["-shared", "-fPIC", "--offload-arch=gfx90a", "-o"]).arg(harness.root.join("libsum.so"));
    run(library.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources/sum.hip")));
    let cache = harness.open();
    let found: Vec<(String, Kind, bool, String)> = cache
        .kernels()
        .iter()
        .map(|c| {
            let file = c.path.file_name().expect("a name").to_string_lossy().into_owned();
            (file, c.place.kind, c.place.in_host_elf, c.interface.target.to_string())
        })
        .collect();
    let expected = [
        ("bare.hsaco", Kind::Bare, false, "gfx90a"),
        ("libsum.so", Kind::Bundle, true, "gfx90a"),
        ("packed.co", Kind::CompressedBundle, false, "gfx90a"),
        ("packed.co", Kind::CompressedBundle, false, "gfx906"),
        ("raw.co", Kind::Bundle, false, "gfx90a"),
        ("raw.co", Kind::Bundle, false, "gfx906"),
    ];
    assert_eq!(found, expected.map(|(f, k, h, t)| (f.to_owned(), k, h, t.to_owned())));
    assert_eq!(reasons(&cache), [""; 0]);
    // Whatever they are kept in, what is read is the code object.
    for candidate in cache.candidates("scale") {
        let build = if candidate.interface.target.to_string() == "gfx906" { SCALE.target("gfx906") } else { SCALE };
        assert_eq!(cache.read(&candidate).expect("it is as it was"), build.bytes(), "{}", candidate.place);
        assert_eq!(cache.hash(&candidate).expect("it is as it was"), build.hash());
        assert_eq!(candidate.interface, build.kernel("scale"));
    }
}

#[test]
fn tritons_cache_is_read_past_what_else_is_in_it() {
    let harness = Harness::new();
    for (n, folder) in ["0a1b", "2c3d"].iter().enumerate() {
        let file = |name: &str| format!("{folder}/{name}");
        harness.put(&file("scale.hsaco"), &[SCALE.bytes(), vec![0; n]].concat(), AN_HOUR);
        harness.put(&file("scale.json"), br#"{"name": "scale", "shared": 0}"#, AN_HOUR);
        harness.put(&file("scale.amdgcn"), b"\t.text\n", AN_HOUR);
        harness.put(&file("empty"), b"", AN_HOUR);
        // The launcher: a library for the host without kernels.
        let library = harness.root.join(folder).join("launcher.so");
        run(Command::new("cc").args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(library));
    }
    let cache = harness.open();
    let scale = ("scale.hsaco".to_owned(), "scale".to_owned());
    assert_eq!((names(&cache), reasons(&cache)), (vec![scale.clone(), scale], Vec::new()));
    assert_eq!(cache.folders().count(), 3);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_found() {
    let harness = Harness::new();
    harness.put("good.co", &SCALE.bytes(), AN_HOUR);
    let whole = SCALE.bytes();
    harness.put("cut.co", &whole[..whole.len() / 2], AN_HOUR);
    harness.put("bundle.co", b"__CLANG_OFFLOAD_BUNDLE__\xff\xff\xff\xff\xff\xff\xff\xff", AN_HOUR);
    symlink("nowhere", harness.root.join("dangling")).expect("a link");
    symlink(".", harness.root.join("loop")).expect("a link");
    symlink("/", harness.root.join("everything")).expect("a link");
    run(Command::new("mkfifo").arg(harness.root.join("pipe")));
    let cache = harness.open();
    assert_eq!(names(&cache), [("good.co".to_owned(), "scale".to_owned())]);
    let mut problems: Vec<String> = cache
        .problems()
        .iter()
        .map(|p| format!("{}: {}", p.path.file_name().expect("a name").to_string_lossy(), p.reason))
        .collect();
    problems.sort();
    assert_eq!(problems.len(), 5, "{problems:?}");
    for (problem, words) in problems.iter().zip([
        "bundle.co: ",
        "cut.co: code object at 0x0: ",
        "dangling: No such file or directory",
        "everything: expected a folder below, found a link to one above: a loop",
        "loop: expected a folder below, found a link to one above: a loop",
    ]) {
        assert!(problem.starts_with(words), "{problem:?} does not begin with {words:?}");
    }
    // Told again when nothing is read.
    assert_eq!(harness.open().problems().len(), 5);
    let missing = Cache::open(&[harness.root.join("missing")], None, Trust::Everybody);
    assert_eq!(reasons(&missing), ["No such file or directory (os error 2)"]);
}

#[test]
fn a_second_start_reads_nothing_but_what_changed() {
    let harness = Harness::new();
    harness.put("a/scale.co", &SCALE.bytes(), AN_HOUR);
    harness.put("b/sum.co", &SUM.bytes(), AN_HOUR);
    harness.put("c/notes.txt", b"nothing", AN_HOUR);
    let effort = |cache: &Cache| (cache.indexing().files, cache.indexing().files_read, cache.indexing().bytes_read > 0);
    let first = harness.open();
    assert_eq!(effort(&first), (3, 3, true));
    let again = harness.open();
    assert_eq!(effort(&again), (3, 0, false));
    assert_eq!(again.kernels(), first.kernels());
    assert_eq!(again.candidates(SUM_NAME).len(), 1);

    // Other contents of the same size, and a file more.
    let other = SCALE.options("-O3 -DFACTOR=int");
    let mut bytes = other.bytes();
    bytes.resize(SCALE.bytes().len().max(bytes.len()), 0);
    harness.put("a/scale.co", &bytes, AN_HOUR / 2);
    harness.put("a/more.co", &SCALE.bytes(), AN_HOUR);
    let changed = harness.open();
    assert_eq!(effort(&changed), (4, 2, true));
    assert_eq!(
        changed.candidates("scale").iter().map(|c| &c.interface).collect::<Vec<_>>(),
        [&SCALE.kernel("scale"), &other.kernel("scale")]
    );
    fs::remove_dir_all(harness.root.join("a")).expect("it is there");
    let removed = harness.open();
    assert_eq!((effort(&removed), removed.candidates("scale").len()), ((2, 0, false), 0));
    assert_eq!(effort(&harness.open()), (2, 0, false));
}

#[test]
fn a_file_that_was_changed_just_now_is_read_again_since_the_next_change_may_look_the_same() {
    let harness = Harness::new();
    harness.put("scale.co", &SCALE.bytes(), 0);
    assert_eq!(harness.open().indexing().files_read, 1);
    assert_eq!(harness.open().indexing().files_read, 1);
    age(&harness.root.join("scale.co"), AN_HOUR);
    assert_eq!(harness.open().indexing().files_read, 1);
    assert_eq!(harness.open().indexing().files_read, 0);
}

#[test]
fn a_damaged_index_is_made_again_and_never_believed() {
    let harness = Harness::new();
    harness.put("scale.co", &SCALE.bytes(), AN_HOUR);
    harness.put("sum.co", &SUM.bytes(), AN_HOUR);
    let expected = harness.open().kernels();
    let file = harness.index_file();
    let whole = fs::read(&file).expect("the index was kept");
    let check = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).expect("it can be written");
        let cache = harness.open();
        assert_eq!(cache.kernels(), expected, "{what}");
        assert_eq!(cache.indexing().files_read, 2, "{what}");
        let problems = &cache.indexing().problems;
        assert!(
            problems.len() == 1 && problems[0].reason.starts_with("its index is made again: "),
            "{what}: {problems:?}"
        );
        assert_eq!(fs::read(&file).expect("it was kept again"), whole, "{what}");
    };
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        check(&bytes, &format!("byte {at:#x} is another"));
    }
    for length in [0, 1, 71, 72, whole.len() / 2, whole.len() - 1] {
        check(&whole[..length], &format!("{length} bytes are left"));
    }
    check(&[whole.clone(), vec![0]].concat(), "there is a byte more");
    // A whole index, but another root's.
    let other = Harness::new();
    other.put("other.co", &SCALE.bytes(), AN_HOUR);
    other.open();
    check(&fs::read(other.index_file()).expect("the index was kept"), "it is another folder's");
}

#[test]
fn an_index_that_cannot_be_kept_only_costs_time() {
    let harness = Harness::new();
    harness.put("scale.co", &SCALE.bytes(), AN_HOUR);
    fs::write(&harness.index, b"no folder").expect("the file can be written");
    for _ in 0..2 {
        let cache = harness.open();
        assert_eq!((names(&cache).len(), cache.indexing().files_read, reasons(&cache).len()), (1, 1, 0));
        let problems: Vec<&str> = cache.indexing().problems.iter().map(|p| p.reason.as_str()).collect();
        assert!(problems.iter().any(|reason| reason.contains("cannot be kept in")), "{problems:?}");
    }
    let without = Cache::open(std::slice::from_ref(&harness.root), None, Trust::Everybody);
    assert_eq!((names(&without).len(), without.indexing().problems.len()), (1, 0));
}

#[test]
fn instructions_are_not_read_for_the_index_and_nothing_is_missed_for_it() {
    const LONG: Build = SCALE.options("-O3 -DLONG -DTABLE -DSTATE");
    let harness = Harness::new();
    let builds = [LONG, LONG.abi(15, 4).options("-O0 -DLONG -DSTATE"), LONG.target("gfx900").abi(15, 3)];
    for (n, build) in builds.iter().enumerate() {
        harness.put(&format!("{n}.co"), &build.bytes(), AN_HOUR);
    }
    let sizes: u64 = builds.iter().map(|build| build.bytes().len() as u64).sum();
    let cache = harness.open();
    assert!(cache.indexing().bytes_read * 10 < sizes, "{} of {sizes} bytes", cache.indexing().bytes_read);
    let found: Vec<_> = cache.kernels().into_iter().map(|c| c.interface).collect();
    // Parsed from all of their bytes.
    assert_eq!(found, builds.map(|build| build.kernel("scale")));
    assert!(found.iter().all(|kernel| *kernel.variables == ["state"]));
    assert!(cache.kernels().iter().all(|candidate| cache.read(candidate).is_ok()));
    // Version 2 has what its descriptors are among the instructions.
    let old = LONG.target("gfx900").abi(15, 2);
    harness.put("0.co", &old.bytes(), AN_HOUR);
    assert_eq!(harness.open().kernels()[0].interface, old.kernel("scale"));
}

#[test]
fn what_changed_since_it_was_indexed_is_not_read_as_what_it_was() {
    let harness = Harness::new();
    let path = harness.put("scale.co", &SCALE.bytes(), AN_HOUR);
    let cache = harness.open();
    let [candidate] = &cache.candidates("scale")[..] else { panic!("one kernel") };
    harness.put("scale.co", &SCALE.bytes(), AN_HOUR / 2);
    assert!(matches!(cache.read(candidate), Err(Unavailable::Changed { .. })));
    assert!(matches!(cache.hash(candidate), Err(Unavailable::Changed { .. })));
    fs::remove_file(path).expect("it is there");
    let error = cache.read(candidate).expect_err("it is gone");
    assert!(error.to_string().ends_with("scale.co: No such file or directory (os error 2)"), "{error}");
}

#[test]
fn ten_thousand_small_files_are_indexed_once_and_every_one_is_found() {
    const FILES: usize = 10_000;
    let harness = Harness::new();
    let (scale, sum) = (SCALE.bytes(), SUM.bytes());
    for n in 0..FILES {
        let bytes = if n % 100 == 0 { &sum } else { &scale };
        // Contents that differ, as Triton's do.
        let tail = (n as u32).to_le_bytes();
        harness.put(&format!("{:02x}/{n}.hsaco", n % 256), &[bytes, &tail[..]].concat(), AN_HOUR);
    }
    let first = harness.open();
    assert_eq!((first.indexing().files_read, first.problems().len()), (FILES, 0));
    let second = harness.open();
    assert_eq!((second.indexing().files_read, second.indexing().bytes_read), (0, 0));
    for cache in [&first, &second] {
        assert_eq!(
            (cache.candidates(SUM_NAME).len(), cache.candidates("scale").len()),
            (FILES / 100, FILES - FILES / 100)
        );
        assert_eq!(cache.candidates("scal").len(), 0);
    }
}

#[test]
fn hashes_that_were_kept_are_taken_until_a_file_changes() {
    let harness = Harness::new();
    let old = harness.put("old.hsaco", &SUM.bytes(), AN_HOUR);
    let new = harness.put("new.hsaco", &SCALE.bytes(), 0);
    let hashes = |cache: &Cache| {
        cache.kernels().iter().map(|c| (c.path.clone(), cache.hash(c).expect("a hash"))).collect::<Vec<_>>()
    };
    let cache = harness.open();
    let expected = hashes(&cache);
    cache.keep_hashes(&harness.index).expect("they can be written");
    let whole = fs::read(&old).expect("it is there");
    let modified = fs::metadata(&old).expect("it is there").modified().expect("a time");
    let mut cache = harness.open();
    cache.take_hashes(&harness.index);
    assert_eq!(hashes(&cache), expected);
    let is_kept = |cache: &Cache, path: &Path| {
        let candidate = cache.kernels().into_iter().find(|c| c.path == path).expect("a kernel");
        fs::rename(path, path.with_extension("away")).expect("it can be renamed");
        let kept = cache.hash(&candidate).is_ok();
        fs::rename(path.with_extension("away"), path).expect("it can be renamed");
        kept
    };
    let opened = || {
        let mut cache = harness.open();
        cache.take_hashes(&harness.index);
        cache
    };
    assert!(is_kept(&opened(), &old), "of a file that was changed an hour ago");
    assert!(!is_kept(&opened(), &new), "of a file that may change without a trace");
    fs::write(&old, [whole, vec![0]].concat()).expect("it can be written");
    fs::File::options()
        .write(true)
        .open(&old)
        .expect("it is there")
        .set_modified(modified)
        .expect("its time can be set");
    assert!(!is_kept(&opened(), &old), "of a file that was changed");
}

/// A harness that other users of the machine can reach, and whose files are those of its user.
fn reachable() -> (Harness, Trust) {
    let kept = tempfile::tempdir_in("/tmp").expect("a folder for temporary files");
    allow(kept.path(), 0o755);
    let (root, index) = (kept.path().join("kernels"), kept.path().join("index"));
    fs::create_dir(&root).expect("the folder can be made");
    allow(&root, 0o755);
    let user = root.metadata().expect("it is there").uid();
    (Harness { root, index, _kept: kept }, Trust::of(user, false, "`X=1` uses it"))
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
}

#[test]
fn what_others_may_write_is_refused_with_its_owner_and_mode_unless_no_other_user_can_reach_it() {
    let (harness, trust) = reachable();
    let file = harness.put("bare.hsaco", &SCALE.bytes(), AN_HOUR);
    let open = |trust| Cache::open(std::slice::from_ref(&harness.root), Some(&harness.index), trust);
    let user = file.metadata().expect("it is there").uid();
    let refused = |what: &str, path: &Path, owner: u32, mode: &str| {
        let cache = open(trust);
        let [problem] = cache.problems() else { panic!("{:?}", cache.problems()) };
        let remedy = if owner == user { "`chmod go-w` it" } else { "copy what you trust into a folder of your own" };
        let found = format!("found one of user {owner} with mode {mode}: it is not used; {remedy}, or `X=1` uses it");
        assert!(problem.reason.starts_with(&format!("expected a {what} ")), "{}", problem.reason);
        assert!(problem.path == path && problem.reason.ends_with(&found), "{problem:?}");
        assert_eq!(cache.kernels().len(), 0);
        assert_eq!(open(Trust::Everybody).kernels().len(), 1);
    };
    let accepted = || {
        let cache = open(trust);
        assert_eq!((cache.kernels().len(), reasons(&cache)), (1, vec![]));
    };
    accepted();
    allow(&harness.root, 0o1777);
    refused("folder", &harness.root, user, "1777");
    allow(&harness.root, 0o755);
    allow(&file, 0o664);
    refused("file", &file, user, "0664");
    // No other user gets there.
    allow(harness.root.parent().expect("a folder"), 0o700);
    accepted();
    allow(harness.root.parent().expect("a folder"), 0o755);
    allow(&file, 0o644);
    accepted();
    if user == 0 {
        std::os::unix::fs::chown(&file, Some(12345), None).expect("root may do that");
        refused("file", &file, 12345, "0644");
    }
}

#[test]
fn an_index_that_others_may_write_is_made_again() {
    let (harness, trust) = reachable();
    harness.put("bare.hsaco", &SCALE.bytes(), AN_HOUR);
    let open = || Cache::open(std::slice::from_ref(&harness.root), Some(&harness.index), trust);
    assert_eq!((open().indexing().files_read, open().indexing().files_read), (1, 0));
    // Private, whatever the umask.
    let modes =
        [&harness.index, &harness.index_file()].map(|path| path.metadata().expect("it is there").mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600]);
    // Others get there.
    allow(&harness.index, 0o755);
    allow(&harness.index_file(), 0o666);
    let again = open();
    let [problem] = &again.indexing().problems[..] else { panic!("{:?}", again.indexing()) };
    assert!(
        problem.reason.starts_with("its index is made again: ") && problem.reason.contains("mode 0666"),
        "{problem:?}"
    );
    assert_eq!((again.indexing().files_read, open().indexing().files_read), (1, 0));
    // Another user's link in a folder that all may write, as `XDG_CACHE_HOME` in /tmp.
    let (link, elsewhere) = (harness.root.with_file_name("theirs"), harness.root.with_file_name("elsewhere"));
    symlink(&elsewhere, &link).expect("a link");
    let is_theirs = std::os::unix::fs::lchown(&link, Some(12345), None).is_ok();
    let cache = Cache::open(std::slice::from_ref(&harness.root), Some(&link.join("logdur")), trust);
    assert_eq!((cache.kernels().len(), elsewhere.exists()), (1, !is_theirs));
    let told = cache.indexing().problems.iter().any(|problem| problem.reason.contains("theirs of user 12345"));
    assert_eq!(told, is_theirs);
}

#[test]
fn what_the_kernels_of_a_code_object_have_in_common_is_read_once() {
    let harness = Harness::new();
    harness.put("k.co", &SCALE.options("-O3 -DLONG -DSTATE").bytes(), AN_HOUR);
    let cache = harness.open();
    let [first, second] = [0, 1].map(|_| cache.candidates("scale").remove(0).interface);
    assert_eq!(*first.variables, ["state"]);
    // A list for each kernel would take time and memory by the square of their number.
    for [one, other] in [
        [&first.variables, &second.variables],
        [&first.stored_functions, &second.stored_functions],
        [&first.initialisers, &second.initialisers],
    ] {
        assert!(std::sync::Arc::ptr_eq(one, other));
    }
}
