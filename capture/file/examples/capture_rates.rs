//! What writing and opening captures costs, beside copying the same bytes: `cargo xtask bench capture-format`. With `rates` behind the
//! folder, only what others are compared with; with `ranks`, only the captures of a job that share a store.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use logdur_capture::{
    Compress, Dispatch, FileStorage, Id, Note, Options, Reader, SnapshotId, Storage, Store, StorePath, Threads, Writer,
};

const GIB: u64 = 1 << 30;
const BASE: u64 = 0x7f00_0000_0000;

/// Takes everything and keeps nothing.
#[derive(Debug)]
struct Nowhere;

impl Storage for Nowhere {
    fn append(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, _length: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file in which the bodies of large frames are holes: as long as a real one, and no disk is needed.
#[derive(Debug)]
struct Sparse {
    file: File,
    length: u64,
}

impl Storage for Sparse {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let kept = if bytes.len() > 512 << 10 { 48 } else { bytes.len() };
        self.file.write_all_at(bytes.get(..kept).unwrap_or(bytes), self.length)?;
        self.length += bytes.len() as u64;
        self.file.set_len(self.length)
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.length = length;
        self.file.set_len(length)
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory of any size: what repeats is 1 MiB, with its own address in each 64 KiB.
fn made<'n>(content: &'n [u8], changed: (u64, u64)) -> impl FnMut(u64, &mut [u8]) -> io::Result<()> + 'n {
    move |offset, to| {
        to.copy_from_slice(content.get(..to.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        for (i, chunk) in to.chunks_mut(64 << 10).enumerate() {
            let at = offset + ((i as u64) << 16);
            let again = u64::from(at >= changed.0 && at < changed.1) << 63;
            if let Some(word) = chunk.first_chunk_mut::<8>() {
                *word = (at | again).to_le_bytes();
            }
        }
        Ok(())
    }
}

fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..1 << 17).flat_map(|_| next()).collect()
}

/// GB/s of the best of three times.
fn rate(bytes: u64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let start = Instant::now();
        work()?;
        best = best.max(bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    Ok(best)
}

fn captured<S: Storage>(
    writer: &mut Writer<S>,
    parent: Option<SnapshotId>,
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<SnapshotId> {
    let mut snapshot = writer.snapshot(parent);
    snapshot.range(BASE, bytes, &mut read)?;
    Ok(snapshot.finish()?)
}

/// As many threads beside the one that writes.
fn options(threads: usize) -> Options {
    let spawn = |body| std::thread::Builder::new().spawn(body).is_ok();
    Options { threads: (threads > 0).then_some(Threads { count: threads, spawn }), ..Options::default() }
}

/// A line of rates, one for each number of threads.
fn line(what: &str, rates: &[f64]) {
    let rates: String = rates.iter().map(|rate| format!(" {rate:>10.2}")).collect();
    println!("{what:<44}{rates}");
}

/// What the others are compared with.
fn rates(noise: &[u8], folder: &Path) -> Result<()> {
    let copy = || {
        let (mut read, mut to) = (made(noise, (0, 0)), vec![0; 1 << 20]);
        (0..GIB).step_by(1 << 20).try_for_each(|at| Ok(read(at, std::hint::black_box(&mut to))?))
    };
    line("copied, which the others do too", &[rate(GIB, copy)?]);
    let hash = || {
        for chunk in (0..GIB >> 20).flat_map(|_| noise.chunks(64 << 10)) {
            std::hint::black_box(Id::of(std::hint::black_box(chunk)));
        }
        Ok(())
    };
    line("hashed by one thread, not copied", &[rate(GIB, hash)?]);
    let path = folder.join(format!("logdur-rates.{}", std::process::id()));
    let plain = rate(GIB, || {
        let mut file = FileStorage::create(&path)?;
        (0..GIB >> 20).try_for_each(|_| Ok(file.append(noise)?))
    })?;
    line("nothing but writing as much to a file", &[plain]);
    Ok(std::fs::remove_file(&path)?)
}

fn speeds(folder: &Path) -> Result<()> {
    let noise = noise();
    let ramp: Vec<u8> = (0..1_u32 << 18).flat_map(|i| (i / 16).to_le_bytes()).collect();
    let idle = std::thread::available_parallelism()?.get() - 1;
    let threads: Vec<usize> = [0, 1, 2, 4].into_iter().filter(|n| *n <= idle.max(1)).collect();
    let each = |work: &mut dyn FnMut(&Options) -> Result<f64>| -> Result<Vec<f64>> {
        threads.iter().map(|n| work(&options(*n))).collect()
    };
    let heads: String = threads.iter().map(|n| format!(" {:>10}", format!("+{n} threads"))).collect();
    println!("{:<44}{heads}", "GB/s of 1 GiB");
    rates(&noise, folder)?;
    let new = |content: &[u8], options: &Options| -> Result<()> {
        let mut writer = Writer::new(Nowhere, options)?;
        captured(&mut writer, None, GIB, made(content, (0, 0))).map(|_| ())
    };
    line("new, noise, written nowhere", &each(&mut |options| rate(GIB, || new(&noise, options)))?);
    line("new, ramps, compressed, written nowhere", &each(&mut |options| rate(GIB, || new(&ramp, options)))?);
    let path = folder.join("speed.ldcap");
    let to_file = |options: &Options| {
        rate(GIB, || {
            let mut writer = Writer::create(&path, options)?;
            captured(&mut writer, None, GIB, made(&noise, (0, 0))).map(|_| ())
        })
    };
    line("new, noise, written to a file", &each(&mut |options| to_file(options))?);
    let store = folder.join("speed.store");
    let to_store = |options: &Options| -> Result<f64> {
        let shared = Arc::new(Store::create(&store, 0o600)?);
        let named = StorePath::of(&shared, &path);
        let start = Instant::now();
        let mut writer = Writer::sharing(FileStorage::create(&path)?, options, shared, &named)?;
        captured(&mut writer, None, GIB, made(&noise, (0, 0)))?;
        Ok(GIB as f64 / start.elapsed().as_secs_f64() / 1e9)
    };
    let new_store = |options: &Options| -> Result<f64> {
        let rate = to_store(options);
        std::fs::remove_dir_all(&store)?;
        rate
    };
    line("new, noise, written to a new store, once", &each(&mut |options| new_store(options))?);
    to_store(&options(0))?;
    line("new, noise, already in the store, once", &each(&mut |options| to_store(options))?);
    std::fs::remove_dir_all(&store)?;
    std::fs::remove_file(&path)?;
    let again = |options: &Options, read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>| {
        let mut writer = Writer::new(Nowhere, options)?;
        let mut parent = captured(&mut writer, None, GIB, &mut *read)?;
        rate(GIB, || {
            parent = captured(&mut writer, Some(parent), GIB, &mut *read)?;
            Ok(())
        })
    };
    line("unchanged", &each(&mut |options| again(options, &mut made(&noise, (0, 0))))?);
    let mut zeros = |_: u64, to: &mut [u8]| {
        to.fill(0);
        Ok(())
    };
    line("zeros", &each(&mut |options| again(options, &mut zeros))?);
    Ok(())
}

/// Bytes that each rank of a job captures.
const OF_RANK: u64 = 128 << 20;

/// Bytes of the files of a folder and of those below it.
fn bytes_in(folder: &Path) -> Result<u64> {
    let mut all = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        all += if about.is_dir() { bytes_in(&entry.path())? } else { about.len() };
    }
    Ok(all)
}

/// Seconds and bytes of so many ranks that capture at a time: the same weights, and an eighth of its own each. Each has a file of its
/// own, and shares a store with the others if there is one.
fn of_ranks(folder: &Path, noise: &[u8], count: u64, shares: bool) -> Result<(f64, u64)> {
    let job = folder.join("ranks");
    std::fs::create_dir_all(&job)?;
    let rank = |rank: u64| -> Result<()> {
        let path = job.join(format!("rank-{rank}.ldcap"));
        let storage = FileStorage::create(&path)?;
        let options = options(0);
        let mut writer = if shares {
            let store = Arc::new(Store::create(&job.join("store"), 0o600)?);
            let named = StorePath::of(&store, &path);
            Writer::sharing(storage, &options, store, &named)?
        } else {
            Writer::new(storage, &options)?
        };
        let mut weights = made(noise, (0, 0));
        captured(&mut writer, None, OF_RANK, |offset, to| {
            // What is a rank's own is at addresses that no other has.
            let own = if offset >= OF_RANK / 8 * 7 { (rank + 1) << 40 } else { 0 };
            weights(offset + own, to)
        })?;
        writer.finish()?;
        Ok(())
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..count).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().try_for_each(|rank| rank.join().map_err(|_| anyhow::anyhow!("a rank has panicked"))?)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = bytes_in(&job)?;
    std::fs::remove_dir_all(&job)?;
    Ok((seconds, bytes))
}

/// What a job's captures take, with a store and without: of one rank, and of eight.
fn ranks(folder: &Path) -> Result<()> {
    let noise = noise();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{:<44} {:>10} {:>10} {:>10}", "128 MiB of each rank, 7/8 of them the same", "seconds", "MiB", "GB/s");
    for (count, shares) in [(1, false), (1, true), (8, false), (8, true)] {
        let mut best = (f64::INFINITY, 0);
        for _ in 0..3 {
            let (seconds, bytes) = of_ranks(folder, &noise, count, shares)?;
            best = if seconds < best.0 { (seconds, bytes) } else { best };
        }
        let what = format!("{count} ranks, {}", if shares { "one store" } else { "no store" });
        let rate = (count * OF_RANK) as f64 / best.0 / 1e9;
        println!("{what:<44} {:>10.2} {:>10.1} {rate:>10.2}", best.0, mib(best.1));
    }
    Ok(())
}

/// Bytes of a second capture when 1 MiB of 2 GiB changed.
fn second_capture() -> Result<()> {
    let noise = noise();
    let mut writer = Writer::new(Nowhere, &Options { compress: Compress::None, ..Options::default() })?;
    let first = captured(&mut writer, None, 2 * GIB, made(&noise, (0, 0)))?;
    let before = writer.bytes();
    captured(&mut writer, Some(first), 2 * GIB, made(&noise, (GIB, GIB + (1 << 20))))?;
    let cost = writer.bytes() - before;
    let percent = (cost as f64 / f64::from(1 << 20) - 1.0) * 100.0;
    println!(
        "first capture of 2 GiB: {before} bytes; second, 1 MiB changed: {cost} bytes, {percent:.3} % more than changed"
    );
    ensure!(percent <= 1.0, "a second capture may cost what changed and 1 %");
    Ok(())
}

/// Peak memory of this process, in MiB (proc(5): VmHWM).
fn peak() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

/// A capture of 30 GB of noise and 220 GiB of zeros: peak memory of the writer, and how long opening it takes.
fn large(folder: &Path) -> Result<()> {
    let path = folder.join("large.ldcap");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    let before = peak()?;
    let mut writer =
        Writer::new(Sparse { file, length: 0 }, &Options { compress: Compress::None, ..Options::default() })?;
    let noise = noise();
    let mut parent = None;
    // Once more the zeros: what is remembered of them is not there twice.
    for noisy in [28 * GIB, GIB] {
        let mut snapshot = writer.snapshot(parent);
        snapshot.range(BASE, noisy, &mut made(&noise, (0, 0)))?;
        snapshot.range(BASE + 1024 * GIB, 220 * GIB, &mut |_, to| {
            to.fill(0);
            Ok(())
        })?;
        parent = Some(snapshot.finish()?);
    }
    writer.dispatch(&Dispatch { id: 1, before: parent, after: parent, ..Dispatch::default() })?;
    writer.note(&Note::default())?;
    let remembered = writer.remembered_bytes() as f64 / f64::from(1 << 20);
    writer.finish()?;
    println!("writer: peak {:.1} MiB, of which {before:.1} were there before; {remembered:.1} MiB remembered", peak()?);
    let length = std::fs::metadata(&path)?.len();
    for how in ["with its footer", "without"] {
        if how == "without" {
            OpenOptions::new().write(true).open(&path)?.set_len(length - 8)?;
        }
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let reader = Reader::open(&path)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            ensure!(reader.dispatches().len() == 1, "the dispatch is not there");
        }
        times.sort_by(f64::total_cmp);
        println!("opening {:.1} GB {how}: {:.2} ms", length as f64 / 1e9, times.get(2).copied().unwrap_or_default());
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    if std::env::args().nth(2).is_some_and(|what| what == "rates") {
        println!("{:<44} {:>10}", "GB/s of 1 GiB", "");
        return rates(&noise(), &folder);
    }
    if std::env::args().nth(2).is_some_and(|what| what == "ranks") {
        return ranks(&folder);
    }
    // First, since the peak of memory is the process's.
    large(&folder)?;
    second_capture()?;
    speeds(&folder)?;
    ranks(&folder)
}
