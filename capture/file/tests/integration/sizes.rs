//! What a capture costs: bytes of the file, bytes of the writer's memory.

use std::io;

use logdur_capture::{Compress, Options, Reader, Storage, Writer};

use crate::harness::{self, Numbers};

/// Counts, and keeps nothing.
#[derive(Debug, Default)]
struct Scale;

impl Storage for Scale {
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

/// Memory of any size: noise, with its own address in each 64 KiB.
fn read(noise: &[u8], changed: Option<(u64, u64)>) -> impl FnMut(u64, &mut [u8]) -> io::Result<()> {
    move |offset, to| {
        for (i, chunk) in to.chunks_mut(noise.len()).enumerate() {
            let at = offset + (i * noise.len()) as u64;
            chunk.copy_from_slice(&noise[..chunk.len()]);
            let again = changed.is_some_and(|(from, to)| at >= from && at < to);
            chunk[..8].copy_from_slice(&(at | u64::from(again) << 63).to_le_bytes());
        }
        Ok(())
    }
}

#[test]
fn a_second_capture_costs_what_changed_and_a_hundredth_of_it() {
    let noise = Numbers(3).bytes(64 << 10);
    let (base, size, changed) = (0x7f00_0000_0000, 128 << 20, 64 << 10);
    let mut writer = Writer::new(Scale, &Options { compress: Compress::None, ..harness::options(1) }).unwrap();
    let mut snapshot = writer.snapshot(None);
    snapshot.range(base, size, &mut read(&noise, None)).unwrap();
    let first = snapshot.finish().unwrap();
    let before = writer.bytes();
    assert!(before < size + size / 100, "{before}");
    let mut snapshot = writer.snapshot(Some(first));
    let at = 40 << 20;
    snapshot.range(base, size, &mut read(&noise, Some((at, at + changed)))).unwrap();
    let second = snapshot.finish().unwrap();
    let cost = writer.bytes() - before;
    assert!(cost <= changed + changed / 100, "{cost} bytes for {changed} that changed");
    // Unchanged, it costs a head and a record.
    let before = writer.bytes();
    let mut snapshot = writer.snapshot(Some(second));
    snapshot.range(base, size, &mut read(&noise, Some((at, at + changed)))).unwrap();
    snapshot.finish().unwrap();
    assert!(writer.bytes() - before < 200, "{}", writer.bytes() - before);
}

#[test]
fn zeros_patterns_and_what_is_there_already_cost_nothing() {
    let noise = Numbers(3).bytes(64 << 10);
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let mut snapshot = writer.snapshot(None);
    let mut fill = |_: u64, to: &mut [u8]| {
        to.chunks_mut(4).for_each(|word| word.copy_from_slice(&1.5_f32.to_le_bytes()[..word.len()]));
        Ok(())
    };
    snapshot
        .range(0x10_0000_0000, 64 << 20, &mut |_, to| {
            to.fill(0);
            Ok(())
        })
        .unwrap();
    snapshot.range(0x20_0000_0000, 64 << 20, &mut fill).unwrap();
    // The same 64 KiB in 64 places.
    for i in 0..64 {
        snapshot.bytes(0x30_0000_0000 + (i << 16), &noise).unwrap();
    }
    let id = snapshot.finish().unwrap();
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < (64 << 10) + 4096, "{}", bytes.len());
    let reader = Reader::new(bytes).unwrap();
    assert_eq!(reader.check().chunks, 1);
    let mut read = vec![0; 64 << 10];
    reader.snapshot(id).unwrap().read(0x30_0000_0000 + (63 << 16), &mut read).unwrap();
    assert_eq!(read, noise);
    let mut word = [0; 4];
    reader.snapshot(id).unwrap().read(0x20_0000_0000 + (5 << 20), &mut word).unwrap();
    assert_eq!(f32::from_le_bytes(word), 1.5);
}

#[test]
fn what_is_remembered_stays_within_its_limit_and_forgetting_is_told_once() {
    let limit = 96 << 10;
    let mut writer =
        Writer::new(Vec::new(), &Options { memory: limit, compress: Compress::None, ..harness::options(1) }).unwrap();
    let mut numbers = Numbers(9);
    let mut parent = None;
    for _ in 0..3 {
        let mut snapshot = writer.snapshot(parent);
        // 6,400 chunks of 100 bytes: there is room for the keys of 4,096.
        for i in 0..6400_u64 {
            snapshot.bytes(0x1000_0000 + (i << 16), &numbers.bytes(100)).unwrap();
        }
        parent = Some(snapshot.finish().unwrap());
        assert!(writer.remembered_bytes() <= limit, "{}", writer.remembered_bytes());
    }
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    let codes: Vec<&str> = reader.notes().iter().map(|note| note.code.as_str()).collect();
    assert_eq!(codes, ["much-memory"]);
    assert_eq!(reader.check().findings, []);
}

#[test]
fn what_compresses_is_compressed_unless_it_may_not_be() {
    let mut sizes = Vec::new();
    for compress in [Compress::None, Compress::Auto, Compress::Lz4, Compress::Zstd] {
        let mut writer = Writer::new(Vec::new(), &Options { compress, ..harness::options(1) }).unwrap();
        let ramp: Vec<u8> = (0..1_u32 << 18).flat_map(|i| (i / 1000).to_le_bytes()).collect();
        let mut snapshot = writer.snapshot(None);
        snapshot.bytes(1 << 30, &ramp).unwrap();
        snapshot.bytes(2 << 30, &Numbers(7).bytes(1 << 20)).unwrap();
        let id = snapshot.finish().unwrap();
        let bytes = writer.finish().unwrap();
        sizes.push(bytes.len());
        let mut read = vec![0; ramp.len()];
        Reader::new(bytes).unwrap().snapshot(id).unwrap().read(1 << 30, &mut read).unwrap();
        assert_eq!(read, ramp);
    }
    assert!(sizes[0] > 2 << 20 && sizes[1] < (1 << 20) + (64 << 10), "{sizes:?}");
    assert_eq!(sizes[1], sizes[2]);
}
