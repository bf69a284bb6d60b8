//! What memory that the host can write was when a GPU had written it last: what differs later, the host has written.

use std::ops::Range;

use logdur_capture::{CHUNK, Id};

/// A piece of memory with more differing parts than this has those joined that are near each other: each part costs some 70 bytes of the
/// file.
const MOST_PARTS: usize = 4096;
/// Bytes between two parts that are near.
const NEAR: usize = 64;
/// Bytes that are compared at a time.
const BLOCK: usize = 1024;

/// The content of an allocation at a moment.
#[derive(Debug)]
pub(super) struct Shadow {
    base: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// All of it.
    Bytes(Vec<u8>),
    /// The hash of each chunk. Memory is cut where addresses are multiples of [`CHUNK`], as in the file.
    Hashes(Vec<Option<Id>>),
}

impl Shadow {
    /// Of an allocation of so many bytes, of which nothing is known yet. A size that is no size of memory has hashes.
    pub(super) fn new(base: u64, size: u64, in_full: bool) -> Shadow {
        let chunks = base.saturating_add(size).div_ceil(CHUNK).saturating_sub(base / CHUNK);
        let content = match usize::try_from(size) {
            Ok(size) if in_full => Content::Bytes(vec![0; size]),
            _ => Content::Hashes(vec![None; usize::try_from(chunks).unwrap_or(0)]),
        };
        Shadow { base, content }
    }

    /// How many bytes of memory it keeps.
    pub(super) fn kept(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Hashes(_) => 0,
        }
    }

    /// Fills `to` with what memory was at an address; false if that is not kept.
    pub(super) fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let Content::Bytes(bytes) = &self.content else { return false };
        let from = address.checked_sub(self.base).and_then(|from| usize::try_from(from).ok());
        match from.and_then(|from| bytes.get(from..)?.get(..to.len())) {
            Some(kept) => {
                to.copy_from_slice(kept);
                true
            }
            None => false,
        }
    }

    /// Takes in what memory is now at an address; which parts of `now` differ from what it was. Of an allocation with hashes, the address
    /// is its first one or a multiple of [`CHUNK`], and so is the end.
    pub(super) fn renew(&mut self, address: u64, now: &[u8]) -> Vec<Range<usize>> {
        match &mut self.content {
            Content::Bytes(bytes) => {
                let from = address.checked_sub(self.base).and_then(|from| usize::try_from(from).ok());
                let was = from.and_then(|from| bytes.get_mut(from..)?.get_mut(..now.len()));
                let Some(was) = was else { return Vec::new() };
                let parts = differing(was, now);
                if !parts.is_empty() {
                    was.copy_from_slice(now);
                }
                parts
            }
            Content::Hashes(hashes) => {
                let first =
                    (address / CHUNK).checked_sub(self.base / CHUNK).and_then(|first| usize::try_from(first).ok());
                let mut known = first.and_then(|first| hashes.get_mut(first..)).unwrap_or_default().iter_mut();
                let (mut parts, mut at) = (Vec::new(), 0);
                while let Some(was) = known.next().filter(|_| at < now.len()) {
                    let to_boundary = CHUNK - (address + at as u64) % CHUNK;
                    let part = at..(at + to_boundary as usize).min(now.len());
                    at = part.end;
                    let id = now.get(part.clone()).map(Id::of);
                    if std::mem::replace(was, id) != id {
                        join(&mut parts, part, 0);
                    }
                }
                parts
            }
        }
    }
}

fn join(parts: &mut Vec<Range<usize>>, part: Range<usize>, near: usize) {
    match parts.last_mut() {
        Some(last) if last.end + near >= part.start => last.end = part.end,
        _ => parts.push(part),
    }
}

/// Where bytes differ: exactly these, unless the parts are too many.
fn differing(was: &[u8], now: &[u8]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    // Blocks are compared as fast as memory is read; mostly all are equal.
    let blocks = was.chunks(BLOCK).zip(now.chunks(BLOCK)).enumerate().filter(|(_, (was, now))| was != now);
    for (block, (was, now)) in blocks {
        let bytes = was.iter().zip(now).enumerate().filter(|(_, (was, now))| was != now);
        bytes.map(|(at, _)| block * BLOCK + at).for_each(|at| join(&mut parts, at..at + 1, 0));
    }
    if parts.len() > MOST_PARTS {
        let mut joined = Vec::new();
        parts.into_iter().for_each(|part| join(&mut joined, part, NEAR));
        return joined;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x12_3000;
    const LENGTH: usize = CHUNK as usize;

    fn full(bytes: &[u8]) -> Shadow {
        let mut shadow = Shadow::new(BASE, bytes.len() as u64, true);
        shadow.renew(BASE, bytes);
        shadow
    }

    #[test]
    fn exactly_the_bytes_that_differ_are_found_at_each_end_and_across_words() {
        let was: Vec<u8> = (0..100).collect();
        let mut shadow = full(&was);
        assert!(shadow.renew(BASE, &was).is_empty());
        let mut now = was.clone();
        for at in [0, 6, 7, 8, 9, 50, 99] {
            now[at] ^= 0x80;
        }
        assert_eq!(shadow.renew(BASE, &now), [0..1, 6..10, 50..51, 99..100]);
        assert!(shadow.renew(BASE, &now).is_empty(), "it knows now");
        let mut kept = [0; 100];
        assert!(shadow.read(BASE, &mut kept) && kept[..] == now);
    }

    #[test]
    fn a_part_of_memory_is_compared_where_it_is() {
        let mut shadow = full(&vec![1; 3 * LENGTH]);
        let mut piece = vec![1; LENGTH];
        piece[5] = 2;
        assert_eq!(shadow.renew(BASE + CHUNK, &piece), std::slice::from_ref(&(5..6)));
        let mut kept = [0; 3];
        assert!(shadow.read(BASE + CHUNK + 4, &mut kept) && kept == [1, 2, 1]);
        // What is behind the end is nobody's.
        assert!(shadow.renew(BASE + 3 * CHUNK, &piece).is_empty());
        assert!(!shadow.read(BASE + 3 * CHUNK, &mut kept) && !shadow.read(BASE - 1, &mut kept));
    }

    #[test]
    fn too_many_parts_are_joined_where_they_are_near_and_all_differences_are_in_them() {
        let was = vec![0; 1 << 20];
        let mut now = was.clone();
        now.iter_mut().step_by(16).take(MOST_PARTS + 10).for_each(|byte| *byte = 1);
        now[900_000] = 1;
        let parts = full(&was).renew(BASE, &now);
        assert_eq!(parts.len(), 2);
        assert!(now.iter().enumerate().all(|(at, byte)| *byte == 0 || parts.iter().any(|part| part.contains(&at))));
    }

    #[test]
    fn a_shadow_of_hashes_finds_whole_chunks_that_are_cut_as_in_the_file() {
        let bytes = 2 * LENGTH + 100;
        let mut shadow = Shadow::new(BASE, bytes as u64, false);
        let mut memory = vec![3; bytes];
        assert_eq!(shadow.renew(BASE, &memory), std::slice::from_ref(&(0..bytes)), "nothing was known");
        assert!(shadow.renew(BASE, &memory).is_empty());
        assert_eq!((shadow.kept(), shadow.read(BASE, &mut [0])), (0, false));
        let first = (CHUNK - BASE % CHUNK) as usize;
        memory[first - 1] = 4;
        assert_eq!(shadow.renew(BASE, &memory), std::slice::from_ref(&(0..first)));
        memory[first] = 4;
        memory[bytes - 1] = 4;
        assert_eq!(shadow.renew(BASE, &memory), std::slice::from_ref(&(first..bytes)), "two chunks, joined");
        memory[first + LENGTH] = 5;
        let from = first + LENGTH;
        assert_eq!(shadow.renew(BASE + from as u64, &memory[from..]), std::slice::from_ref(&(0..bytes - from)));
    }
}
