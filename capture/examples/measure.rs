//! What writing and opening captures costs, beside copying the same bytes: `cargo xtask bench capture-format`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use logdur_capture::{Compress, Dispatch, FileStorage, Note, Options, Reader, SnapshotId, Storage, Writer};

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

fn speeds(folder: &Path) -> Result<()> {
    let noise = noise();
    let ramp: Vec<u8> = (0..1_u32 << 18).flat_map(|i| (i / 16).to_le_bytes()).collect();
    let options = Options::default();
    let copy = |content: &[u8], changed| -> Result<()> {
        let (mut read, mut to) = (made(content, changed), vec![0; 1 << 20]);
        for at in (0..GIB).step_by(1 << 20) {
            read(at, std::hint::black_box(&mut to))?;
        }
        Ok(())
    };
    println!("{:<44} {:>8}", "GB/s of 1 GiB", "");
    println!("{:<44} {:>8.2}", "copied, which the others do too", rate(GIB, || copy(&noise, (0, 0)))?);
    let new = |content: &[u8]| -> Result<()> {
        let mut writer = Writer::new(Nowhere, &options)?;
        captured(&mut writer, None, GIB, made(content, (0, 0))).map(|_| ())
    };
    println!("{:<44} {:>8.2}", "new, noise, written nowhere", rate(GIB, || new(&noise))?);
    println!("{:<44} {:>8.2}", "new, ramps, compressed, written nowhere", rate(GIB, || new(&ramp))?);
    let path = folder.join("speed.ldcap");
    let to_file = rate(GIB, || {
        let mut writer = Writer::create(&path, &options)?;
        captured(&mut writer, None, GIB, made(&noise, (0, 0))).map(|_| ())
    })?;
    println!("{:<44} {to_file:>8.2}", "new, noise, written to a file");
    let plain = rate(GIB, || {
        let mut file = FileStorage::create(&path)?;
        (0..GIB >> 20).try_for_each(|_| Ok(file.append(&noise)?))
    })?;
    println!("{:<44} {plain:>8.2}", "nothing but writing as much to a file");
    std::fs::remove_file(&path)?;
    let mut writer = Writer::new(Nowhere, &options)?;
    let mut parent = captured(&mut writer, None, GIB, made(&noise, (0, 0)))?;
    let unchanged = rate(GIB, || {
        parent = captured(&mut writer, Some(parent), GIB, made(&noise, (0, 0)))?;
        Ok(())
    })?;
    println!("{:<44} {unchanged:>8.2}", "unchanged");
    let zeros = rate(GIB, || {
        parent = captured(&mut writer, Some(parent), GIB, |_, to| {
            to.fill(0);
            Ok(())
        })?;
        Ok(())
    })?;
    println!("{:<44} {zeros:>8.2}", "zeros");
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
    // First, since the peak of memory is the process's.
    large(&folder)?;
    second_capture()?;
    speeds(&folder)
}
