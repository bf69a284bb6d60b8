//! The code of a code object: functions, instructions by address, and sections by name.
//!
//! What instructions mean is not known here. Addresses are those of the file, before it is loaded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::LittleEndian;
use object::elf;
use object::read::elf::SectionHeader as _;

use crate::container::{Method, unpacked};
use crate::elf::{Image, STT_AMDGPU_HSA_KERNEL, STT_FUNC, damaged};
use crate::error::{Result, Unreadable};
use crate::kernel::Kernel;
use crate::object::CodeObject;

/// Code that begins at an address and has a name: a kernel, or a function that kernels call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol, mangled where the language does that.
    pub name: String,
    /// The address of its first instruction.
    pub address: u64,
    /// Bytes, as its symbol says; where that says none, up to what comes next.
    pub size: u64,
    /// True when packets can start it.
    pub is_kernel: bool,
}

/// The instructions of a kernel: where they are in the file, and their bytes.
pub type KernelBytes<'a> = (u64, &'a [u8]);

impl<'a> Image<'a> {
    /// The kernels and functions that have code here, by address, each address once.
    ///
    /// # Errors
    /// When a table of symbols is damaged.
    pub fn functions(&self, object: &CodeObject) -> Result<Vec<Function>> {
        let symbols = self.symbols()?;
        let mut found = BTreeMap::new();
        let ends = self.text().into_iter().map(|(start, bytes)| start.saturating_add(bytes.len() as u64));
        let mut starts: BTreeSet<u64> = ends.collect();
        for symbol in symbols.iter().filter(|s| !s.undefined) {
            match symbol.kind {
                STT_FUNC if self.code(symbol.address).is_some() => {
                    found.entry(symbol.address).or_insert((symbol.name, symbol.size, false));
                }
                // Before the kernel's code is its header.
                STT_AMDGPU_HSA_KERNEL => _ = starts.insert(symbol.address),
                _ => {}
            }
        }
        for kernel in &object.kernels {
            let Some(entry) = kernel.descriptor.map(|d| d.entry).filter(|e| self.code(*e).is_some()) else { continue };
            let size = found.get(&entry).map_or(0, |(_, size, _)| *size);
            found.insert(entry, (&kernel.name, size, true));
        }
        starts.extend(found.keys());
        let function = |(address, (name, size, is_kernel)): (u64, (&str, u64, bool))| {
            let next = address.checked_add(1).and_then(|behind| starts.range(behind..).next());
            let next = next.map_or(0, |next| next - address);
            Function { name: name.to_owned(), address, size: if size == 0 { next } else { size }, is_kernel }
        };
        Ok(found.into_iter().map(function).collect())
    }

    /// The instructions of each kernel, in the order of the metadata, and where they are in the file: `None` where a kernel has no code.
    ///
    /// # Errors
    /// When a table of symbols is damaged.
    pub fn kernel_code(&self, object: &CodeObject) -> Result<Vec<Option<KernelBytes<'a>>>> {
        let functions = self.functions(object)?;
        let sizes: HashMap<u64, u64> = functions.iter().map(|function| (function.address, function.size)).collect();
        let code = |kernel: &Kernel| {
            let entry = kernel.descriptor.as_ref()?.entry;
            let size = *sizes.get(&entry)?;
            Some((self.file_offset(entry, size)?, self.at_address(entry, size)?))
        };
        Ok(object.kernels.iter().map(code).collect())
    }

    /// Everything that can be executed: the address of its first byte, and its bytes, by address.
    pub fn text(&self) -> Vec<(u64, &'a [u8])> {
        self.executable().filter_map(|at| Some((at.start, self.at_address(at.start, at.end - at.start)?))).collect()
    }

    /// What can be executed from an address on; `None` where nothing can.
    pub fn code(&self, address: u64) -> Option<&'a [u8]> {
        self.memory(address).filter(|memory| memory.executable)?;
        let found = self.executable().find(|range| range.contains(&address))?;
        self.at_address(address, found.end - address)
    }

    /// The bytes of the section of a name, decompressed where they are compressed; none where there is no such section.
    ///
    /// # Errors
    /// When it leads outside of the file, or cannot be decompressed.
    pub fn section(&self, name: &str) -> Result<Cow<'a, [u8]>> {
        let Some(section) = self.section_header(name) else { return Ok(Cow::Borrowed(&[])) };
        let at = section.sh_offset(LittleEndian);
        let packed = section.compression(LittleEndian, self.bytes()).map_err(|e| damaged("section", at, e))?;
        let Some((header, start, size)) = packed else {
            let bytes = section.data(LittleEndian, self.bytes()).map_err(|e| damaged("section", at, e))?;
            return Ok(Cow::Borrowed(bytes));
        };
        let method = match header.ch_type.get(LittleEndian) {
            elf::ELFCOMPRESS_ZLIB => Method::Zlib,
            elf::ELFCOMPRESS_ZSTD => Method::Zstd,
            other => {
                let expected = "method 1, zlib, or 2, zstd";
                return Err(Unreadable::unexpected("compressed section", at, expected, other.0.to_string()));
            }
        };
        let end = start.saturating_add(size);
        unpacked(&self.bytes(), method, start..end, header.ch_size.get(LittleEndian)).map(Cow::Owned)
    }
}
