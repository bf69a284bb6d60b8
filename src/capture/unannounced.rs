//! Memory that no call of the runtime announces: with XNACK, kernels can use all memory of the process.
//!
//! # Threads
//! The capture thread.

use std::fs;

use super::memory::Memory;

/// The largest mapping that is captured, in bytes. Larger ones mostly are reserves of allocators.
const LARGEST: u64 = 256 << 20;
/// No memory of a process is below it (`vm.mmap_min_addr`).
const LOWEST: u64 = 1 << 16;

/// Mappings that may be the application's memory, as pairs of first address and end.
fn mappings(maps: &str) -> Vec<(u64, u64)> {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, permissions) = (words.next()?, words.next()?);
        let name = words.nth(3).unwrap_or("");
        // Code, and what drivers map. A stack may be executable.
        let is_code = permissions.contains('x') && !permissions.contains('w');
        let other = is_code || ["/dev/", "/memfd:", "[v"].iter().any(|start| name.starts_with(start));
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
        (permissions.starts_with('r') && !other).then_some((start?, end?))
    };
    maps.lines().filter_map(of_line).collect()
}

/// Enters memory that arguments point to and that nothing has announced. Returns a note for readers of the capture.
pub(super) fn enter(memory: &mut Memory, arguments: &[u8]) -> Vec<String> {
    let words = arguments.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
    let mut words: Vec<u64> = words.filter(|&word| word >= LOWEST && memory.around(word).is_none()).collect();
    if words.is_empty() {
        return Vec::new();
    }
    words.sort_unstable();
    let maps = mappings(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
    let (mut bytes, mut told) = (0, Vec::new());
    for word in words {
        // An earlier word may have entered it.
        if memory.around(word).is_some() {
            continue;
        }
        let Some(&mapping) = maps.iter().find(|(start, end)| (*start..*end).contains(&word)) else { continue };
        let (start, end) = memory.gap_around(word, mapping);
        if end - start > LARGEST {
            told.push(format!(
                "an argument points to {word:#x}, in {} bytes of memory that no call has announced, which are not captured",
                end - start
            ));
            continue;
        }
        memory.managed(start, end - start);
        bytes += end - start;
    }
    if bytes > 0 {
        told.push(format!(
            "arguments point to {bytes} bytes of memory that no call has announced: more such memory may be reached from there"
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_the_applications_memory_but_for_code_and_devices() {
        let maps = "55d0-55e0 r--p 00000000 00:00 0  /usr/bin/x\n\
                    55e0-55f0 r-xp 00000000 00:00 0  /usr/bin/x\n\
                    6000-7000 rw-p 00000000 00:00 0  [heap]\n\
                    7000-8000 ---p 00000000 00:00 0 \n\
                    8000-9000 rw-s 00000000 00:00 5  /dev/dri/renderD128\n\
                    9000-a000 rw-s 00000000 00:00 5  /memfd:vram (deleted)\n\
                    a000-b000 rwxp 00000000 00:00 0  [stack]\n";
        assert_eq!(mappings(maps), [(0x55d0, 0x55e0), (0x6000, 0x7000), (0xa000, 0xb000)]);
    }

    #[test]
    fn what_words_point_to_is_entered_up_to_what_is_known() {
        let mut memory = Memory::default();
        let here = vec![1u8; 3 << 20];
        let at = here.as_ptr().expose_provenance() as u64 + (1 << 20);
        memory.locked(at - 4096, at - 4096, 4096);
        let words: Vec<u8> = [0, 5, at, at + 8, u64::MAX].into_iter().flat_map(u64::to_le_bytes).collect();
        let told = enter(&mut memory, &words);
        assert_eq!(told.len(), 1, "{told:?}");
        let found = memory.around(at).unwrap();
        assert_eq!(found.base, at);
        assert!(found.end() >= at + 8);
        assert!(enter(&mut memory, &words).is_empty(), "it is known now");
    }
}
