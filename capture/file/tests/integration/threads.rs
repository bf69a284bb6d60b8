//! Writing with threads: the file is the same as without.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use logdur_capture::{CaptureError, CodeObject, Compress, Options, Reader, Severity, Storage, Threads, Writer};

use crate::harness::{self, Numbers};

fn options(threads: usize, compress: Compress) -> Options {
    let spawn = |body| std::thread::Builder::new().spawn(body).is_ok();
    Options { threads: Some(Threads { count: threads, spawn }), compress, ..harness::options(7) }
}

/// Memory of several kinds from an address on: noise, what compresses, what repeats. Some of it depends on a round.
fn memory(noise: &[u8], round: u64) -> impl FnMut(u64, &mut [u8]) -> io::Result<()> {
    move |offset, to| {
        for (i, piece) in to.chunks_mut(64 << 10).enumerate() {
            let at = (offset >> 16) + i as u64;
            match at % 4 {
                0 => piece.fill(0),
                1 => piece.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 64) as u8),
                _ => piece.copy_from_slice(&noise[..piece.len()]),
            }
            let number = at + if at.is_multiple_of(5) { round << 32 } else { 0 };
            if let Some(word) = piece.first_chunk_mut::<8>().filter(|_| !at.is_multiple_of(4)) {
                *word = number.to_le_bytes();
            }
        }
        Ok(())
    }
}

/// Snapshots of large and small ranges, and code objects between them, until a write fails.
fn capture(writer: &mut Writer<impl Storage>) -> Result<(), CaptureError> {
    let mut numbers = Numbers(5);
    let noise = numbers.bytes(64 << 10);
    let mut parent = None;
    for round in 0..3 {
        writer.code_object(&CodeObject::default(), &numbers.bytes(300_000))?;
        let mut snapshot = writer.snapshot(parent);
        snapshot.range(0x10_0000_0100, (20 << 20) + 77, &mut memory(&noise, round))?;
        for small in 0..50 {
            snapshot.range(0x20_0000_0000 + small * 0x1_0000, 9000, &mut memory(&noise, round + small))?;
        }
        snapshot.bytes(0x30_0000_0000, &noise[..5000])?;
        let id = snapshot.finish()?;
        writer.dispatch(&harness::dispatch(round, logdur_capture::Id::default(), id, id))?;
        parent = Some(id);
    }
    Ok(())
}

#[test]
fn a_file_has_the_same_bytes_with_any_number_of_threads() {
    for compress in [Compress::Auto, Compress::Lz4, Compress::None] {
        let written = [0, 1, 4].map(|threads| {
            let mut writer = Writer::new(Vec::new(), &options(threads, compress)).unwrap();
            capture(&mut writer).unwrap();
            writer.finish().unwrap()
        });
        assert!(written[0].len() > 10 << 20);
        assert!(written[1..].iter().all(|other| *other == written[0]), "{compress:?}");
    }
}

/// A disk with so much room.
#[derive(Debug)]
struct Small(Vec<u8>, usize);

impl Storage for &mut Small {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.len() + bytes.len() > self.1 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fills_while_packs_wait_for_their_threads_leaves_the_same_file() {
    for room in [1 << 20, 5 << 20, (11 << 20) + 12345] {
        let written = [0, 3].map(|threads| {
            let mut disk = Small(Vec::new(), room);
            let mut writer = Writer::new(&mut disk, &options(threads, Compress::Auto)).unwrap();
            assert!(matches!(capture(&mut writer), Err(CaptureError::Write { .. })));
            assert!(matches!(capture(&mut writer), Err(CaptureError::Stopped)));
            drop(writer);
            disk.0
        });
        assert_eq!(written[0].len(), written[1].len());
        assert!(written[0] == written[1], "{room} bytes of room");
        let reader = Reader::new(written.into_iter().next().unwrap()).unwrap();
        assert!(reader.notes().iter().any(|note| note.severity == Severity::Stop));
    }
}

/// Bytes of which it is known how many are lent.
#[derive(Debug)]
struct Lent(Vec<u8>, Arc<AtomicUsize>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Captures 20 MiB, every other step of which is lent; how many were lent at a time, at most, and how many when it ends.
fn lend(writer: &mut Writer<impl Storage>) -> (Result<(), CaptureError>, usize, usize) {
    let noise = Numbers(5).bytes(64 << 10);
    let (mut made, lent, mut most) = (memory(&noise, 1), Arc::new(AtomicUsize::new(0)), 0);
    let mut snapshot = writer.snapshot(None);
    let outcome = snapshot.range_of(0x10_0000_0100, (20 << 20) + 77, &mut |offset, step| {
        if offset.is_multiple_of(3) && offset > 0 {
            return made(offset, step.room());
        }
        let mut bytes = vec![0; step.length()];
        made(offset, &mut bytes)?;
        most = most.max(lent.fetch_add(1, Ordering::Relaxed) + 1);
        step.lend(Box::new(Lent(bytes, Arc::clone(&lent))))?;
        Ok(())
    });
    let outcome = outcome.and_then(|()| snapshot.finish().map(|_| ()));
    (outcome, most, lent.load(Ordering::Relaxed))
}

#[test]
fn bytes_that_are_lent_are_written_as_those_that_are_copied_and_given_back_whatever_happens() {
    let mut copied = Writer::new(Vec::new(), &options(0, Compress::Auto)).unwrap();
    let noise = Numbers(5).bytes(64 << 10);
    let mut snapshot = copied.snapshot(None);
    snapshot.range(0x10_0000_0100, (20 << 20) + 77, &mut memory(&noise, 1)).unwrap();
    snapshot.finish().unwrap();
    let copied = copied.finish().unwrap();
    for threads in [0, 1, 4] {
        let mut writer = Writer::new(Vec::new(), &options(threads, Compress::Auto)).unwrap();
        let (outcome, most, left) = lend(&mut writer);
        outcome.unwrap();
        assert!(most > 0 && most <= 1 + 2 * threads, "{most} lent, {threads} threads");
        assert_eq!(left, 0, "{threads} threads");
        assert!(writer.finish().unwrap() == copied, "{threads} threads");
        // Other threads still hash what was read when a write fails.
        let mut disk = Small(Vec::new(), 5 << 20);
        let (outcome, _, left) = lend(&mut Writer::new(&mut disk, &options(threads, Compress::Auto)).unwrap());
        assert!(matches!(outcome, Err(CaptureError::Write { .. })), "{outcome:?}");
        assert_eq!(left, 0, "{threads} threads, and a full disk");
    }
}

#[test]
fn steps_that_are_not_filled_or_get_another_number_of_bytes_are_errors_of_memory() {
    let mut writer = Writer::new(Vec::new(), &options(1, Compress::Auto)).unwrap();
    let mut snapshot = writer.snapshot(None);
    let error = snapshot.range_of(0x1000, 100, &mut |_, step| step.lend(Box::new(vec![1; 99]))).unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "expected 100 bytes of memory, found 99");
    let error = snapshot.range_of(0x1000, 100, &mut |_, _| Ok(())).unwrap_err();
    assert!(matches!(&error, CaptureError::Memory { address: 0x1000, length: 100, .. }), "{error:?}");
    snapshot.range_of(0x1000, 100, &mut |_, step| step.lend(Box::new(vec![1; 100]))).unwrap();
    let id = snapshot.finish().unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    assert!(!reader.snapshot(id).unwrap().is_complete());
    assert_eq!(reader.snapshot(id).unwrap().ranges(), std::slice::from_ref(&(0x1000..0x1064)));
}

#[test]
fn memory_that_cannot_be_read_keeps_what_was_read_before_it() {
    for threads in [0, 3] {
        let mut writer = Writer::new(Vec::new(), &options(threads, Compress::Auto)).unwrap();
        let base = 0x10_0000_0000_u64;
        let mut snapshot = writer.snapshot(None);
        let error = snapshot.range(base, 16 << 20, &mut |offset, to| {
            to.fill((offset >> 20) as u8 + 1);
            if offset < 9 << 20 { Ok(()) } else { Err(io::Error::other("gone")) }
        });
        assert!(matches!(error, Err(CaptureError::Memory { address, .. }) if address == base + (9 << 20)), "{error:?}");
        let id = snapshot.finish().unwrap();
        writer.dispatch(&harness::dispatch(1, logdur_capture::Id::default(), id, id)).unwrap();
        let reader = Reader::new(writer.finish().unwrap()).unwrap();
        let memory = reader.snapshot(id).unwrap();
        let mut last = [0; 8];
        memory.read(base + (9 << 20) - 8, &mut last).unwrap();
        assert_eq!(last, [9; 8], "{threads} threads");
        assert!(memory.read(base + (9 << 20), &mut last).is_err());
    }
}
