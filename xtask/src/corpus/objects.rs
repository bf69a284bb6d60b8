//! Code objects wherever they are kept: bare, in bundles (compressed or not), in programs and libraries.
//!
//! Sources: clang's "Offload Bundler" page for both kinds of bundles, LLVM's AMDGPUUsage for the ELF.

use std::io::Read;

use anyhow::{Context, Result, anyhow, bail};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, elf};

const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
/// What the section is called that clang and hipcc link bundles into.
const SECTION: &str = ".hip_fatbin";

pub(super) type Elf<'a> = ElfFile64<'a, Endianness>;

/// Calls `found` with every code object in a file's bytes; a file of another kind has none.
///
/// # Errors
/// When something that begins like a bundle is none, or what `found` returns.
pub(super) fn each(bytes: &[u8], found: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if bytes.starts_with(elf::ELFMAG.as_slice()) {
        // Other sizes and byte orders are no code objects and no programs that load some.
        let Ok(file) = Elf::parse(bytes) else { return Ok(()) };
        if file.elf_header().e_machine.get(file.endian()) == elf::EM_AMDGPU {
            return found(bytes);
        }
        return match file.section_by_name(SECTION) {
            Some(section) => bundles(section.data()?, found).with_context(|| format!("in {SECTION}")),
            None => Ok(()),
        };
    }
    if bytes.starts_with(BUNDLE) || bytes.starts_with(COMPRESSED) { bundles(bytes, found) } else { Ok(()) }
}

/// Bundles one after the other, with zeros between them.
fn bundles(bytes: &[u8], found: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut at = 0;
    while let Some(zeros) = bytes[at..].iter().position(|&b| b != 0) {
        at += zeros;
        let here = || format!("the bundle at byte {at:#x}");
        let rest = &bytes[at..];
        at += if rest.starts_with(BUNDLE) {
            bundle(rest, found).with_context(here)?
        } else if rest.starts_with(COMPRESSED) {
            let (plain, length) = decompress(rest).with_context(here)?;
            bundle(&plain, found).with_context(here)?;
            length
        } else {
            bail!("expected a bundle at byte {at:#x}, found {:02x?}", &rest[..rest.len().min(8)]);
        };
    }
    Ok(())
}

/// The code objects of one bundle; its length in bytes.
fn bundle(bytes: &[u8], found: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
    let mut at = BUNDLE.len();
    let count = number(bytes, at, 8)?;
    at += 8;
    let (mut end, mut parts) = (at, Vec::new());
    for _ in 0..count {
        // Where it is, how long, and the length of a name that says what the ELF says too.
        let [offset, size, name] = [number(bytes, at, 8)?, number(bytes, at + 8, 8)?, number(bytes, at + 16, 8)?];
        at = at.saturating_add(24).saturating_add(name);
        end = end.max(at).max(offset.saturating_add(size));
        parts.push((offset, size));
    }
    for (offset, size) in parts {
        let part = bytes.get(offset..offset.saturating_add(size)).context("a part ends beyond the end")?;
        // The host's part is empty, or a compiler's intermediate form.
        if part.starts_with(elf::ELFMAG.as_slice()) {
            found(part)?;
        }
    }
    Ok(end)
}

/// What a compressed bundle holds, and its own length in bytes.
fn decompress(bytes: &[u8]) -> Result<(Vec<u8>, usize)> {
    let (version, method) = (number(bytes, 4, 2)?, number(bytes, 6, 2)?);
    // Magic, version, method; from version 2 on the file's size; the size of what it holds; a hash of 8 bytes.
    let (length, plain, header) = match version {
        1 => (bytes.len(), number(bytes, 8, 4)?, 20),
        2 => (number(bytes, 8, 4)?, number(bytes, 12, 4)?, 24),
        3 => (number(bytes, 8, 8)?, number(bytes, 16, 8)?, 32),
        other => bail!("a compressed bundle of version {other}, expected 1 to 3"),
    };
    let packed = bytes.get(header..length).context("it ends beyond the end")?;
    let mut out = Vec::with_capacity(plain.min(1 << 30));
    match method {
        0 => out = miniz_oxide::inflate::decompress_to_vec_zlib(packed).map_err(|e| anyhow!("zlib: {e}"))?,
        1 => _ = ruzstd::decoding::StreamingDecoder::new(packed).context("zstd")?.read_to_end(&mut out)?,
        other => bail!("a bundle compressed by method {other}, expected 0 (zlib) or 1 (zstd)"),
    }
    if out.len() != plain {
        bail!("a compressed bundle holds {} bytes, expected {plain}", out.len());
    }
    Ok((out, length))
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<usize> {
    let part = bytes.get(at..at.saturating_add(size)).context("it ends in its header")?;
    Ok(part.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
}
