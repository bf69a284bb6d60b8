//! Functions and source lines of return addresses, from the files that the log names.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use addr2line::Context;
use gimli::{DwarfSections, EndianArcSlice, LittleEndian, SectionId};
use logdur_journal::names::demangle;
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use serde::Serialize;

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Frame {
    /// As the log has it: the file and the offset of the return address in it.
    pub(crate) at: String,
    /// The function, demangled; `None` if the file does not say, or cannot be read.
    pub(crate) function: Option<String>,
    /// The source file, as the compiler knew it.
    pub(crate) file: Option<String>,
    /// The line.
    pub(crate) line: Option<u32>,
}

impl Frame {
    /// The name of the file that the code is in.
    pub(crate) fn module(&self) -> &str {
        let path = self.at.rsplit_once("+0x").map_or(self.at.as_str(), |(path, _)| path);
        path.rsplit('/').next().unwrap_or(path)
    }

    /// True for code of the runtime, which is between an application and its packets.
    pub(crate) fn is_of_the_runtime(&self) -> bool {
        ["libamdhip64.so", "libhsa-runtime64.so", "libamdocl64.so"].iter().any(|name| self.module().starts_with(name))
    }

    /// As people read it: `step (train.cpp:30)`.
    pub(crate) fn shown(&self) -> String {
        let what = self.function.as_deref().unwrap_or(&self.at);
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{what} ({}:{line})", file.rsplit('/').next().unwrap_or(file)),
            _ if self.function.is_some() => format!("{what} ({})", self.module()),
            _ => what.to_owned(),
        }
    }
}

/// The files that were read.
#[derive(Default)]
pub(crate) struct Symbols(HashMap<String, Option<Module>>);

impl Symbols {
    /// The frames of a stack, the innermost first. A call that the compiler has inlined is a frame of its own.
    pub(crate) fn frames(&mut self, stack: &[String]) -> Vec<Frame> {
        stack.iter().flat_map(|at| self.at(at)).collect()
    }

    fn at(&mut self, at: &str) -> Vec<Frame> {
        let unknown = || vec![Frame { at: at.to_owned(), ..Frame::default() }];
        let Some((path, offset)) = at.rsplit_once("+0x") else { return unknown() };
        // The instruction before the return address is the call.
        let Some(call) = u64::from_str_radix(offset, 16).ok().and_then(|offset| offset.checked_sub(1)) else {
            return unknown();
        };
        let module = self.0.entry(path.to_owned()).or_insert_with(|| Module::read(Path::new(path)));
        let Some(module) = module else { return unknown() };
        let frames = module.frames(call).into_iter().map(|frame| Frame { at: at.to_owned(), ..frame });
        Some(frames.collect::<Vec<_>>()).filter(|frames| !frames.is_empty()).unwrap_or_else(unknown)
    }
}

type Slice = EndianArcSlice<LittleEndian>;

/// What is known of a file.
struct Module {
    /// Where parts of the file are in memory: offset, bytes, address.
    segments: Vec<(u64, u64, u64)>,
    /// Functions by address: bytes and name.
    functions: BTreeMap<u64, (u64, String)>,
    lines: Option<Context<Slice>>,
}

impl Module {
    /// Of a file in the form of ELF for the host; `None` for others, or if it cannot be read.
    fn read(path: &Path) -> Option<Module> {
        // Libraries may be very large: only what is needed is read.
        let cache =
            ReadCache::new(File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        file.elf_header().is_class_64().then_some(())?;
        let segments = file.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        let is_function = |symbol: &object::read::elf::ElfSymbol64<'_, '_, Endianness, _>| {
            symbol.kind() == SymbolKind::Text && symbol.is_definition()
        };
        let functions = file.symbols().chain(file.dynamic_symbols()).filter(is_function);
        let functions =
            functions.filter_map(|symbol| Some((symbol.address(), (symbol.size(), symbol.name().ok()?.to_owned()))));
        let section = |id: SectionId| -> Result<Arc<[u8]>, object::Error> {
            let Some(section) = file.section_by_name(id.name()) else { return Ok(Arc::from([])) };
            Ok(Arc::from(&*section.uncompressed_data()?))
        };
        let has = file.section_by_name(SectionId::DebugInfo.name()).is_some();
        let sections = if has { DwarfSections::load(section).ok() } else { None };
        let lines = sections.and_then(|sections| {
            Context::from_dwarf(sections.borrow(|bytes| EndianArcSlice::new(bytes.clone(), LittleEndian))).ok()
        });
        Some(Module { segments: segments.collect(), functions: functions.collect(), lines })
    }

    /// The functions at an offset in the file, the innermost first.
    fn frames(&self, offset: u64) -> Vec<Frame> {
        let within =
            self.segments.iter().find(|(begin, bytes, _)| (*begin..begin.saturating_add(*bytes)).contains(&offset));
        let Some(address) = within.map(|(begin, _, address)| address.wrapping_add(offset - begin)) else {
            return Vec::new();
        };
        let mut frames = self.lines.as_ref().and_then(|lines| inlined(lines, address)).unwrap_or_default();
        let symbol = self.functions.range(..=address).next_back();
        let symbol = symbol.filter(|(begin, (bytes, _))| *bytes == 0 || address < begin.saturating_add(*bytes));
        let symbol = symbol.map(|(_, (_, name))| demangle(name));
        match frames.last_mut() {
            // Without its debug information, the function still has a symbol.
            Some(last) if last.function.is_none() => last.function = symbol,
            Some(_) => {}
            None => frames.extend(symbol.map(|name| Frame { function: Some(name), ..Frame::default() })),
        }
        frames
    }
}

/// The calls at an address by the debug information; `None` where that is damaged.
fn inlined(lines: &Context<Slice>, address: u64) -> Option<Vec<Frame>> {
    let mut found = lines.find_frames(address).skip_all_loads().ok()?;
    let mut frames = Vec::new();
    while let Some(frame) = found.next().ok()? {
        let function = frame.function.and_then(|name| Some(demangle(&name.raw_name().ok()?)));
        let (file, line) = frame.location.map_or((None, None), |at| (at.file.map(str::to_owned), at.line));
        frames.push(Frame { at: String::new(), function, file, line });
    }
    Some(frames)
}
