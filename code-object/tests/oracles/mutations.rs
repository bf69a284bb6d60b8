//! Bytes changed at random: they are read or refused, nothing panics, and memory stays in bounds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;

use amdgpu_code_object::container;
use amdgpu_code_object::{CodeObject, Target};

use crate::compiled;
use crate::second_reader;

/// The machine's allocator, with a count of what each thread has.
struct Counting;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn taken(size: usize) {
    let now = NOW.get().wrapping_add(size);
    NOW.set(now);
    // What was freed by another thread than took it makes the count negative.
    if now < usize::MAX / 2 {
        PEAK.set(PEAK.get().max(now));
    }
}

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.set(NOW.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Random numbers that are the same in every run (SplitMix64, by Vigna).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Numbers at which sizes and offsets go wrong.
const EDGES: [u64; 10] = [0, 1, 2, 24, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Changes a few places, most of them near to where headers, tables or texts are.
fn mutate(bytes: &mut Vec<u8>, random: &mut Seeded) {
    for _ in 0..=random.below(4) {
        let length = bytes.len();
        let at = match random.below(4) {
            // Headers are in front, ELF's tables at the end.
            0 => random.below(length.min(256)),
            1 => length.saturating_sub(1 + random.below(length.min(2048))),
            _ => random.below(length),
        };
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let from = random.below(length);
                let part: Vec<u8> = bytes[from..].iter().take(random.below(64)).copied().collect();
                bytes.splice(at.min(length)..at.min(length), part);
            }
            2 => _ = bytes.splice(at..(at + random.below(16)).min(length), []),
            3 | 4 => {
                let size = [1, 2, 4, 8][random.below(4)];
                let number = EDGES[random.below(EDGES.len())].wrapping_add(random.next() % 3).to_le_bytes();
                for (byte, new) in bytes[at..].iter_mut().zip(&number[..size]) {
                    *byte = *new;
                }
            }
            5 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
        }
        if bytes.is_empty() {
            bytes.push(random.next() as u8);
        }
    }
}

/// Reads all that can be read; how often a code object was one, and how often another reader took it too.
fn read(bytes: &[u8], taken: &mut [usize; 3]) {
    let before = NOW.get();
    PEAK.set(before);
    if let Ok(object) = CodeObject::parse(bytes) {
        taken[0] += 1;
        taken[1] += usize::from(second_reader::agrees(bytes, &object));
        // What was read can be shown.
        let _ = format!("{object:?} {} {:?}", object.target, Target::parse(&object.target.to_string()));
    }
    if let Ok(entries) = container::entries(&bytes) {
        container::read_each(&bytes, &entries, &mut |_, found| {
            let Ok(found) = found else { return };
            taken[2] += 1;
            let _ = CodeObject::parse(&found);
        });
    }
    // A window of zstd is 128 MiB at most, and an entry that is read doubles what it has.
    let (peak, limit) = (PEAK.get().saturating_sub(before), (160 << 20) + 4096 * bytes.len());
    assert!(peak < limit, "{peak} bytes of memory for {} bytes of input", bytes.len());
}

#[test]
fn changed_bytes_are_read_or_refused_without_panic_and_in_bounded_memory() {
    let count = if std::env::var_os("LOGDUR_TEST_FULL").is_some() { 1_000_000 } else { 20_000 };
    let mut seeds: Vec<Vec<u8>> = compiled::all().iter().map(|path| fs::read(path).unwrap()).collect();
    seeds.extend(crate::bundles::every_form());
    let mut taken = [0; 3];
    for number in 0..count {
        let mut random = Seeded(number as u64);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        read(&bytes, &mut taken);
    }
    println!("{count} inputs: {taken:?} code objects, of them read by another reader too, entries of bundles");
    assert!(taken.iter().all(|&n| n > count / 20), "most of what is tried would be refused at once: {taken:?}");
}
