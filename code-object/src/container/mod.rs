//! Code objects wherever they are kept: bare, in offload bundles and packages, in programs and libraries.
//!
//! Nothing is read but headers, of a compressed bundle its first blocks, and what is asked for: a library of a gigabyte
//! is listed by reading some hundred kilobytes of it.

mod bundle;
mod compressed;
mod host;
mod package;
mod stream;

use std::fmt;
use std::io::Read as _;
use std::ops::{Deref, DerefMut};

use crate::error::{Result, Unreadable};
use crate::source::{self, Source};
use crate::target::Target;

pub(crate) use compressed::unpacked;
pub(crate) use stream::Method;

/// What an ELF begins with.
const ELF: &[u8] = b"\x7fELF";

/// What a file with code may begin with: an ELF, a bundle, a compressed bundle, a package. Sources: the ELF specification, and "Clang
/// Offload Bundler" and "Clang Offload Packager" of Clang's documentation.
pub const BEGINNINGS: &[&[u8]] = &[ELF, bundle::MAGIC, compressed::MAGIC, package::MAGIC];

/// What code objects are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An ELF for the GPU, and nothing around it.
    Bare,
    /// A bundle of clang's: `__CLANG_OFFLOAD_BUNDLE__`.
    Bundle,
    /// A compressed bundle: `CCOB`.
    CompressedBundle,
    /// A package of LLVM's linker wrapper, as OpenMP programs have: one image.
    Package,
}

/// Where a code object lies, or another thing that a bundle has, like an empty entry for the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeLocation {
    /// What it lies in.
    pub kind: Kind,
    /// True when that lies in a program or library for the host.
    pub in_host_elf: bool,
    /// The bundle's name for it, like `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`; empty for a bare one, and for a bundle
    /// that cannot be listed.
    pub id: String,
    /// Where the bundle begins in the source; of a bare one, the code object itself.
    pub container_offset: u64,
    /// Bytes of the bundle in the source; of a bare one, of the code object itself.
    pub container_length: u64,
    /// From the beginning of the source; in a compressed bundle, of what it holds.
    pub offset: u64,
    /// In bytes. Entries for the host are often empty.
    pub length: u64,
}

/// What was found at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub place: CodeLocation,
    /// Why it cannot be read. Its neighbours can.
    pub problem: Option<Unreadable>,
}

impl fmt::Display for CodeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id.is_empty() {
            return write!(f, "code object at {:#x}", self.offset);
        }
        write!(f, "{} in the bundle at {:#x}", self.id, self.container_offset)
    }
}

impl Deref for Entry {
    type Target = CodeLocation;
    fn deref(&self) -> &CodeLocation {
        &self.place
    }
}

impl DerefMut for Entry {
    fn deref_mut(&mut self) -> &mut CodeLocation {
        &mut self.place
    }
}

/// The most bytes of an entry of a compressed bundle: twice what code can address relative to itself.
const MAX_UNPACKED: u64 = 4 << 30;

impl CodeLocation {
    /// What the bundle says that it was compiled for; `None` for a bare one, which says it itself, and for the host's.
    pub fn target(&self) -> Option<Target> {
        // The kind of offloading, the triple with three or four parts, and the target ID.
        let at = self.id.find("-gfx").or_else(|| self.id.find("-amdgcnspirv"))?;
        Target::parse(self.id.get(at + 1..)?).ok()
    }

    /// True when it should be a code object: a bare one, or what has a target and is not empty.
    pub fn is_code_object(&self) -> bool {
        self.kind == Kind::Bare || (self.length != 0 && self.target().is_some())
    }

    /// Reads what lies there.
    ///
    /// # Errors
    /// When the source cannot be read or the bundle is damaged.
    pub fn read(&self, source: &dyn Source) -> Result<Vec<u8>> {
        Entry { place: self.clone(), problem: None }.read(source)
    }
}

impl Entry {
    /// Reads it.
    ///
    /// # Errors
    /// As [`CodeLocation::read`], and what is wrong with the entry.
    pub fn read(&self, source: &dyn Source) -> Result<Vec<u8>> {
        let mut found = None;
        read_each(source, std::slice::from_ref(self), &mut |_, bytes| found = Some(bytes));
        found.unwrap_or_else(|| Err(Unreadable::unexpected("entry", self.offset, "one result", "none")))
    }

    fn of(kind: Kind, at: u64, length: u64) -> Entry {
        let place = CodeLocation {
            kind,
            in_host_elf: false,
            id: String::new(),
            container_offset: at,
            container_length: length,
            offset: at,
            length,
        };
        Entry { place, problem: None }
    }

    /// The same with the name that the bundle has for it.
    fn named(mut self, id: String) -> Entry {
        self.place.id = id;
        self
    }

    fn broken(kind: Kind, at: u64, length: u64, problem: Unreadable) -> Entry {
        let mut entry = Entry { problem: Some(problem), ..Entry::of(kind, at, length) };
        entry.length = 0;
        entry
    }
}

/// Finds every code object. A source of another kind has none.
///
/// # Errors
/// When the source cannot be read, or is an ELF whose headers are damaged. What is wrong with a bundle or with one
/// entry of it is in [`Entry::problem`].
pub fn entries(source: &dyn Source) -> Result<Vec<Entry>> {
    let start = source::read(source, "beginning", 0, source.len().min(bundle::MAGIC.len() as u64))?;
    if start.starts_with(ELF) {
        return Ok(match host::bundles(source)? {
            host::ElfContents::CodeObject => vec![Entry::of(Kind::Bare, 0, source.len())],
            host::ElfContents::Host(ranges) => {
                let mut entries = Vec::new();
                for range in ranges {
                    bundles(source, range.start, range.end, &mut entries)?;
                }
                for entry in &mut entries {
                    entry.in_host_elf = true;
                }
                entries
            }
        });
    }
    let mut entries = Vec::new();
    if starts_bundle(&start) {
        bundles(source, 0, source.len(), &mut entries)?;
    }
    Ok(entries)
}

/// Reads many entries, in an order of its own: each compressed bundle is decompressed once, however many entries of it
/// are asked for. `take` gets each entry's number in the list.
pub fn read_each(source: &dyn Source, entries: &[Entry], take: &mut dyn FnMut(usize, Result<Vec<u8>>)) {
    let mut order: Vec<(usize, &Entry)> = entries.iter().enumerate().collect();
    order.sort_by_key(|(_, e)| (e.container_offset, e.offset));
    let mut stream: Option<(u64, stream::Unpacked<'_>)> = None;
    for (index, entry) in order {
        take(
            index,
            match (&entry.problem, entry.kind) {
                (Some(problem), _) => Err(problem.clone()),
                (None, Kind::Bare | Kind::Bundle | Kind::Package) => {
                    source::read(source, "code object", entry.offset, entry.length)
                }
                (None, Kind::CompressedBundle) => unpack(source, entry, &mut stream),
            },
        );
    }
}

/// Reads an entry of a compressed bundle, going on with the stream of the entry before it if that is possible.
fn unpack<'a>(
    source: &'a dyn Source,
    entry: &Entry,
    stream: &mut Option<(u64, stream::Unpacked<'a>)>,
) -> Result<Vec<u8>> {
    let (at, what) = (entry.container_offset, "entry of a compressed bundle");
    if entry.length > MAX_UNPACKED {
        return Err(Unreadable::TooLarge { what, at: entry.offset, limit: MAX_UNPACKED, found: entry.length });
    }
    let (bundle, mut unpacked) = match stream.take() {
        Some((bundle, unpacked)) if bundle == at && unpacked.position() <= entry.offset => (bundle, unpacked),
        _ => (at, compressed::Header::read(source, at, entry.container_length)?.open(source)?),
    };
    let mut failed = |error: std::io::Error| {
        Unreadable::unexpected("compressed bundle", at, "data that can be decompressed", error.to_string())
    };
    let skip = entry.offset.saturating_sub(unpacked.position());
    std::io::copy(&mut unpacked.by_ref().take(skip), &mut std::io::sink()).map_err(&mut failed)?;
    // Memory grows with what there is, not with what is claimed.
    let mut bytes = Vec::new();
    unpacked.by_ref().take(entry.length).read_to_end(&mut bytes).map_err(&mut failed)?;
    let found = bytes.len() as u64;
    if found != entry.length {
        return Err(Unreadable::Short { what, at: entry.offset, expected: entry.length, found });
    }
    *stream = Some((bundle, unpacked));
    Ok(bytes)
}

fn starts_bundle(bytes: &[u8]) -> bool {
    [bundle::MAGIC, compressed::MAGIC, package::MAGIC].iter().any(|magic| bytes.starts_with(magic))
}

/// The most entries of one source: a thousand bundles of a hundred processors.
const MAX_ENTRIES: usize = 100_000;

/// Adds the entries of the bundles in a range, which lie one behind the other with zeros in between.
fn bundles(source: &dyn Source, start: u64, end: u64, entries: &mut Vec<Entry>) -> Result<()> {
    let mut at = start;
    while let Some(here) = skip_zeros(source, at, end)? {
        let length = (end - here).min(bundle::MAGIC.len() as u64);
        let magic = source::read(source, "bundle", here, length)?;
        let found = if magic.starts_with(bundle::MAGIC) {
            bundle::entries(source, here, end)
        } else if magic.starts_with(compressed::MAGIC) {
            compressed::entries(source, here, end)
        } else if magic.starts_with(package::MAGIC) {
            package::entries(source, here, end)
        } else {
            let found = format!("\"{}\"", magic.get(..8).unwrap_or(&magic).escape_ascii());
            let problem =
                Unreadable::unexpected("bundle", here, "__CLANG_OFFLOAD_BUNDLE__, CCOB or an offload package", found);
            bundle::BundleTable { entries: vec![Entry::broken(Kind::Bundle, here, 0, problem)], length: None }
        };
        entries.extend(found.entries);
        if entries.len() > MAX_ENTRIES {
            let (what, limit, found) = ("entries of bundles", MAX_ENTRIES as u64, entries.len() as u64);
            return Err(Unreadable::TooLarge { what, at: here, limit, found });
        }
        at = match found.length {
            Some(length) => here.saturating_add(length.max(1)),
            // Its end is not known: the next one is aligned.
            None => match next_bundle(source, here, end)? {
                Some(next) => next,
                None => break,
            },
        };
    }
    Ok(())
}

/// The linker aligns bundles to this, and clang the code objects in them.
const PAGE: u64 = 4096;

/// The first byte that is not zero. Behind the rest of the page, only the beginnings of pages are looked at.
fn skip_zeros(source: &dyn Source, at: u64, end: u64) -> Result<Option<u64>> {
    let to = at.saturating_add(PAGE).min(end);
    if at >= to {
        return Ok(None);
    }
    let bytes = source::read(source, "padding", at, to - at)?;
    match bytes.iter().position(|&b| b != 0) {
        Some(zeros) => Ok(Some(at + zeros as u64)),
        None => next_bundle(source, at, end),
    }
}

/// The next beginning of a page behind `at` that has a bundle.
fn next_bundle(source: &dyn Source, at: u64, end: u64) -> Result<Option<u64>> {
    let mut page = at;
    loop {
        page = match page.checked_add(1).and_then(|next| next.checked_next_multiple_of(PAGE)) {
            Some(next) if next.saturating_add(bundle::MAGIC.len() as u64) <= end => next,
            _ => return Ok(None),
        };
        if starts_bundle(&source::read(source, "bundle", page, bundle::MAGIC.len() as u64)?) {
            return Ok(Some(page));
        }
    }
}

#[cfg(test)]
mod tests;
