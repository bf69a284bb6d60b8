//! The name of a kernel for reports, from the symbols that the loader has put into memory with the code.
//!
//! A loader copies the loadable segments of a code object. The first one of those that lld links begins with the ELF header
//! and has the program headers, the dynamic symbols and their names; the dynamic section is in another one. So the symbol of
//! a kernel descriptor can be found from the descriptor's address alone. Nothing is decided by what is found here.
//!
//! Layouts: the ELF-64 object file format; System V ABI, chapter 5 (dynamic section, hash table); LLVM's AMDGPUUsage, "ELF
//! Code Object".

use crate::memory::View;

/// Loaders place code objects on boundaries of pages.
const PAGE: u64 = 4096;
/// Bytes in front of a kernel descriptor in which its ELF header is looked for.
const REACH: u64 = 1 << 30;
/// Symbols of a code object that are looked at.
const SYMBOLS: u64 = 1 << 20;
/// Longest name in bytes that is read.
const NAME: usize = 1 << 16;
/// `EM_AMDGPU`.
const MACHINE: u16 = 224;
/// `ET_DYN`.
const SHARED: u16 = 3;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;

/// A kernel by its name and address, for people. A name that cannot be found is said to be unknown, with the reason.
pub(crate) fn kernel(kernel_object: u64, view: &mut View) -> String {
    match name(kernel_object, view) {
        Ok(name) => format!("kernel {name}, kernel object {kernel_object:#x}"),
        Err(why) => format!("kernel object {kernel_object:#x}, whose name is unknown: {why}"),
    }
}

/// The symbol of the kernel descriptor at an address, without `.kd` and with control characters escaped.
fn name(kernel_object: u64, view: &mut View) -> Result<String, &'static str> {
    let region = view.map().find(kernel_object, 1).ok_or("nothing is mapped there")?;
    let first = region.start().max(kernel_object.saturating_sub(REACH));
    let pages = kernel_object / PAGE;
    let mut found = Err("no loaded code object has it in its memory");
    for base in (first.div_ceil(PAGE)..=pages).rev().map(|page| page * PAGE) {
        if let Some(image) = Image::at(base, view).filter(|image| kernel_object - base < image.end) {
            match image.symbol(kernel_object - base, view) {
                Some(name) => return Ok(name),
                None => found = Err("its code object has no symbol for it"),
            }
        }
    }
    found
}

/// A code object in memory.
struct Image {
    base: u64,
    /// Where its last segment ends, from the base.
    end: u64,
    /// The dynamic section, from the base.
    dynamic: u64,
}

/// `N` bytes of memory, if all of them are mapped.
fn read<const N: usize>(at: u64, view: &mut View) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    view.read(at, &mut bytes).ok()?;
    Some(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Image {
    /// The code object whose ELF header is at `base`.
    fn at(base: u64, view: &mut View) -> Option<Image> {
        let header: [u8; 64] = read(base, view)?;
        // 64 bits, little-endian.
        let is_code = header.starts_with(b"\x7fELF\x02\x01") && half(&header, 18) == MACHINE;
        if !is_code || half(&header, 16) != SHARED || half(&header, 54) != 56 {
            return None;
        }
        let (mut end, mut dynamic) = (0, None);
        for n in 0..u64::from(half(&header, 56)) {
            let segment: [u8; 56] = read(base.checked_add(long(&header, 32))?.checked_add(n * 56)?, view)?;
            let address = long(&segment, 16);
            match word(&segment, 0) {
                PT_LOAD => end = end.max(address.checked_add(long(&segment, 40))?),
                PT_DYNAMIC => dynamic = Some(address),
                _ => {}
            }
        }
        Some(Image { base, end, dynamic: dynamic? })
    }

    /// The name of the kernel whose descriptor is at `value` from the base.
    fn symbol(&self, value: u64, view: &mut View) -> Option<String> {
        let [mut names, mut names_size, mut symbols, mut hash] = [None; 4];
        for n in 0..(self.end / 16).min(256) {
            let entry: [u8; 16] = read(self.base.checked_add(self.dynamic)?.checked_add(n * 16)?, view)?;
            let what = Some(long(&entry, 8));
            match long(&entry, 0) {
                DT_NULL => break,
                DT_STRTAB => names = what,
                DT_STRSZ => names_size = what,
                DT_SYMTAB => symbols = what,
                DT_HASH => hash = what,
                _ => {}
            }
        }
        let (names, symbols) = (self.base.checked_add(names?)?, self.base.checked_add(symbols?)?);
        // As many chains as symbols.
        let counts: [u8; 8] = read(self.base.checked_add(hash?)?, view)?;
        for n in 0..u64::from(word(&counts, 4)).min(SYMBOLS) {
            let symbol: [u8; 24] = read(symbols.checked_add(n * 24)?, view)?;
            if long(&symbol, 8) != value {
                continue;
            }
            let offset = u64::from(word(&symbol, 0));
            let room = names_size?.checked_sub(offset)?;
            let name = text(names.checked_add(offset)?, room, view)?;
            if let Some(kernel) = name.strip_suffix(".kd") {
                return Some(kernel.escape_debug().to_string());
            }
        }
        None
    }
}

/// A text that a zero ends, of at most `room` bytes with it.
fn text(at: u64, room: u64, view: &mut View) -> Option<String> {
    let mut bytes = vec![0; usize::try_from(room).ok()?.min(NAME)];
    view.read(at, &mut bytes).ok()?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    bytes.truncate(end);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::AddressSpace;
    use crate::memory::tests::memory;

    const BASE: u64 = 0x20_0000;
    const PAGES: u64 = 4;
    /// Where the parts of the image are, from its beginning.
    const SYMBOLS_AT: u64 = 0x100;
    const HASH_AT: u64 = 0x200;
    const NAMES_AT: u64 = 0x300;
    const DESCRIPTORS: u64 = 0x1040;
    const DYNAMIC: u64 = 0x2000;

    /// An image with one segment, and two kernels as symbols, as a loader leaves it in memory.
    fn image() -> Vec<u8> {
        let mut image = vec![0; (PAGES * PAGE) as usize];
        let mut put = |at: u64, bytes: &[u8]| image[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01\x40");
        for (at, value) in [(16, SHARED), (18, MACHINE), (54, 56), (56, 2)] {
            put(at, &value.to_le_bytes());
        }
        put(32, &64u64.to_le_bytes());
        put(64, &PT_LOAD.to_le_bytes());
        put(64 + 40, &(3 * PAGE).to_le_bytes());
        put(64 + 56, &PT_DYNAMIC.to_le_bytes());
        put(64 + 56 + 16, &DYNAMIC.to_le_bytes());
        put(NAMES_AT, b"\0first.kd\0second.kd\0");
        for (n, name, value) in [(1, 1u32, DESCRIPTORS), (2, 10, DESCRIPTORS + 64)] {
            put(SYMBOLS_AT + n * 24, &name.to_le_bytes());
            put(SYMBOLS_AT + n * 24 + 8, &value.to_le_bytes());
        }
        put(HASH_AT + 4, &3u32.to_le_bytes());
        let dynamic = [(DT_SYMTAB, SYMBOLS_AT), (DT_HASH, HASH_AT), (DT_STRTAB, NAMES_AT), (DT_STRSZ, 20)];
        for (n, (tag, value)) in (0..).zip(dynamic) {
            put(DYNAMIC + n * 16, &tag.to_le_bytes());
            put(DYNAMIC + n * 16 + 8, &value.to_le_bytes());
        }
        image
    }

    /// A view of memory that has the image behind a page of its own.
    fn loaded(image: &[u8]) -> View {
        let space = Arc::new(AddressSpace::default());
        space.map(BASE - PAGE, memory(((PAGES + 1) * PAGE) as usize), true);
        let mut view = View::new(space);
        view.write(BASE, image).expect("mapped");
        view
    }

    #[test]
    fn a_kernel_is_named_by_the_symbols_that_were_loaded_with_it() {
        let mut view = loaded(&image());
        assert_eq!(name(BASE + DESCRIPTORS, &mut view).as_deref(), Ok("first"));
        assert_eq!(name(BASE + DESCRIPTORS + 64, &mut view).as_deref(), Ok("second"));
        assert!(kernel(BASE + DESCRIPTORS, &mut view).starts_with("kernel first, kernel object 0x"));
    }

    #[test]
    fn a_name_that_is_not_there_is_said_to_be_unknown() {
        let mut view = loaded(&image());
        for (at, why) in [
            (BASE + DESCRIPTORS + 128, "no symbol for it"),
            (BASE + 3 * PAGE, "no loaded code object"),
            (BASE - 64, "no loaded code object"),
            (1, "nothing is mapped"),
        ] {
            let said = kernel(at, &mut view);
            assert!(said.contains("whose name is unknown") && said.contains(why), "{at:#x}: {said}");
        }
    }

    #[test]
    fn damaged_images_are_read_to_an_end() {
        let good = image();
        let parts = (0..0x150).chain(HASH_AT..HASH_AT + 8).chain(NAMES_AT..NAMES_AT + 20).chain(DYNAMIC..DYNAMIC + 80);
        for at in parts {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = good.clone();
                damaged[at as usize] = value;
                let mut view = loaded(&damaged);
                let said = kernel(BASE + DESCRIPTORS, &mut view);
                assert!(said.contains("kernel object 0x") && said.len() < 4096, "byte {at:#x} is {value:#x}: {said}");
            }
        }
    }
}
