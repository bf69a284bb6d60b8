//! Code of a code object as text: instructions with their addresses and words, jumps with their targets, source lines.
//!
//! The disassembler is `amdgpu-isa`'s; nothing here needs a runtime, a device or another program. What the tables do not
//! know is a line as well, with its words and the reason: nothing is left out.

mod error;
mod find;
mod frames;
mod missing;
mod source;

pub use amdgpu_isa::Arch;
pub use amdgpu_isa::action::Action;
pub use amdgpu_isa::decode::DecodeError;
pub use error::{ListingError, Result};
pub use find::{Chosen, Wanted, choose};
pub use frames::Frame;
pub use missing::{Missing, by_descriptor, goes_by_address, missing, narrowest_store, reaches};
pub use source::{SourcePlace, Sources, source_lines};

use amdgpu_code_object::{CodeObject, Function, Image, Target, Unreadable};
use amdgpu_isa::Decoder;
use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::flow::{self, WORD};
use amdgpu_isa::inst::Inst;
use logdur_kernel_cache::members;

use frames::Frames;
use source::Lines;

/// What of a code object is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'n> {
    /// The kernel of a name, mangled where the language does that.
    Kernel(&'n str),
    /// Everything that can be executed.
    All,
}

/// Code that is listed. Its lines are made one by one.
pub struct Listing<'a> {
    /// What the code was compiled for.
    pub target: Target,
    /// Its processor.
    pub arch: Arch,
    /// Pieces of code, by address.
    pub parts: Vec<Routine<'a>>,
    /// Why there are no source lines, or not all, although the code object has some.
    pub problem: Option<String>,
    decoder: Decoder,
    functions: Vec<Function>,
    /// Addresses in the parts that jumps lead to, sorted: the first is `L1`.
    labels: Vec<u64>,
    sources: Lines,
    frames: Frames,
}

/// A piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine<'a> {
    /// The kernel's or function's symbol; `None` for what lies between them.
    pub name: Option<String>,
    /// The address of its first byte, before it is loaded.
    pub address: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// An instruction, or what is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'l> {
    /// Its address, before it is loaded.
    pub address: u64,
    /// Its dwords. Bytes at the end that are no whole one are filled up with zeros.
    pub words: Vec<u32>,
    /// Its text in the syntax of LLVM's assembler, or why there is none.
    pub text: std::result::Result<String, DecodeError>,
    /// The number of its label, from 1 on: some jump leads here.
    pub label: Option<usize>,
    /// Where it jumps to.
    pub jump: Option<Jump>,
    /// Where it comes from, where the code object says that.
    pub source: Option<SourcePlace<'l>>,
}

/// Where a jump leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The address.
    pub address: u64,
    /// The label, or the function with the distance from its beginning; `None` where nothing has a name.
    pub name: Option<String>,
}

impl Line<'_> {
    /// Its text; words that are no instruction as data.
    pub fn shown(&self) -> String {
        match &self.text {
            Ok(text) => text.clone(),
            Err(_) => {
                let words: Vec<String> = self.words.iter().map(|word| format!("{word:#010x}")).collect();
                format!(".long {}", words.join(", "))
            }
        }
    }
}

/// The processor of some code.
///
/// # Errors
/// When it is none whose instructions are known here: which are.
pub fn arch(target: &Target) -> Result<Arch> {
    // Code for a family has only what all its members have: each reads it alike.
    let member = members(&target.processor).find_map(|member| member.parse().ok());
    let known = member.map_or_else(|| target.processor.parse::<Arch>(), Ok);
    known.map_err(|unknown| ListingError::Unsupported(format!("disassembling code for {target}: {unknown}")))
}

/// Makes errors of a code object's bytes ones that say where those are from.
fn unreadable(place: &str) -> impl Fn(Unreadable) -> ListingError {
    move |source| ListingError::CodeObject { place: place.to_owned(), source }
}

/// The instruction or data at the beginning of some bytes, which are not none, and its words.
fn decode(decoder: &Decoder, bytes: &[u8]) -> (Vec<u32>, std::result::Result<Inst, DecodeError>) {
    let (words, inst) = flow::first(decoder, bytes);
    (words.words().to_vec(), inst)
}

impl<'a> Listing<'a> {
    /// Lists code of a code object; `place` says in errors where its bytes are from.
    ///
    /// # Errors
    /// When the bytes are no code object, are for a processor that is not known, or have no such kernel.
    pub fn of(place: &str, bytes: &'a [u8], which: Which<'_>) -> Result<Listing<'a>> {
        let object = CodeObject::parse(bytes).map_err(unreadable(place))?;
        let arch = arch(&object.target)?;
        let image = Image::parse(bytes).map_err(unreadable(place))?;
        let functions = image.functions(&object).map_err(unreadable(place))?;
        let parts = match which {
            Which::Kernel(name) => vec![kernel(place, &image, &functions, name)?],
            Which::All => image.text().into_iter().flat_map(|(start, code)| pieces(start, code, &functions)).collect(),
        };
        let decoder = Decoder::new(arch);
        let covers = |address: u64| parts.iter().any(|p| address.wrapping_sub(p.address) < p.bytes.len() as u64);
        let jumps = parts.iter().flat_map(|part| instructions(&decoder, part));
        let targets = jumps.filter_map(|(address, _, inst)| inst.ok()?.target(address));
        let mut labels: Vec<u64> = targets.filter(|target| covers(*target)).collect();
        labels.sort_unstable();
        labels.dedup();
        let (sources, problem) = Lines::of(&image, covers);
        let frames = Frames::of(&image);
        Ok(Listing { target: object.target, arch, parts, problem, decoder, functions, labels, sources, frames })
    }

    /// The functions that the instruction at an address is in, the innermost first: each was inlined into the next. Empty where the
    /// code object does not say it.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        self.frames.at(address)
    }

    /// The instruction at an address, and where that is: the distance from the beginning of its kernel or function, and the source line
    /// where the code object has one.
    pub fn instruction(&self, address: u64) -> Option<(String, String)> {
        let part = self.parts.iter().find(|part| address.wrapping_sub(part.address) < part.bytes.len() as u64)?;
        let line = self.lines(part).find(|line| line.address == address)?;
        let name = part.name.as_deref().unwrap_or("code");
        let source = line.source.map_or_else(String::new, |source| format!(" ({}:{})", source.file, source.line));
        Some((line.shown(), format!("{name}+{:#x}{source}", address - part.address)))
    }

    /// The lines of a part.
    pub fn lines<'l>(&'l self, part: &'l Routine<'a>) -> impl Iterator<Item = Line<'l>> {
        instructions(&self.decoder, part).map(|(address, words, inst)| Line {
            address,
            words,
            label: self.label(address),
            jump: inst.as_ref().ok().and_then(|inst| inst.target(address)).map(|to| self.jump(to)),
            source: self.sources.at(address),
            text: inst.map(|inst| Disassembly { inst: &inst, arch: self.arch }.to_string()),
        })
    }

    fn label(&self, address: u64) -> Option<usize> {
        self.labels.binary_search(&address).ok().map(|at| at + 1)
    }

    fn jump(&self, address: u64) -> Jump {
        let before = self.functions.partition_point(|f| f.address <= address);
        let function = before.checked_sub(1).and_then(|at| self.functions.get(at));
        let inside = function.filter(|f| address - f.address < f.size);
        let name = match (inside, self.label(address)) {
            (Some(function), _) if function.address == address => Some(function.name.clone()),
            (_, Some(label)) => Some(format!("L{label}")),
            (Some(function), None) => Some(format!("{}+{:#x}", function.name, address - function.address)),
            (None, None) => None,
        };
        Jump { address, name }
    }
}

/// The part of a kernel.
fn kernel<'a>(place: &str, image: &Image<'a>, functions: &[Function], name: &str) -> Result<Routine<'a>> {
    let found = functions.iter().find(|f| f.is_kernel && f.name == name);
    let part = found.and_then(|f| part(image.code(f.address)?, f));
    part.ok_or_else(|| {
        let names: Vec<&str> = functions.iter().filter(|f| f.is_kernel).map(|f| &*f.name).collect();
        ListingError::Usage {
            what: place.to_owned(),
            expected: format!("code of a kernel {name}"),
            found: if names.is_empty() { "none of any".to_owned() } else { names.join(", ") },
        }
    })
}

/// A function's part of the code that begins where it begins.
fn part<'a>(code: &'a [u8], function: &Function) -> Option<Routine<'a>> {
    let size = usize::try_from(function.size).unwrap_or(usize::MAX).min(code.len());
    Some(Routine { name: Some(function.name.clone()), address: function.address, bytes: code.get(..size)? })
}

/// A range of code, cut where functions begin and end.
fn pieces<'a>(start: u64, code: &'a [u8], functions: &[Function]) -> Vec<Routine<'a>> {
    let mut parts = Vec::new();
    let mut at = start;
    let end = start.saturating_add(code.len() as u64);
    let from = |address: u64| code.get(usize::try_from(address - start).unwrap_or(usize::MAX)..);
    let here = functions.iter().filter(|f| (start..end).contains(&f.address));
    let nexts = here.clone().skip(1).map(|f| f.address).chain([end]);
    for (function, next) in here.zip(nexts) {
        let between = from(at).and_then(|rest| rest.get(..(function.address.saturating_sub(at)) as usize));
        parts.extend(between.filter(|b| !b.is_empty()).map(|bytes| Routine { name: None, address: at, bytes }));
        let cut = Function { size: function.size.min(next - function.address), ..function.clone() };
        parts.extend(from(function.address).and_then(|code| part(code, &cut)));
        at = function.address + cut.size;
    }
    let rest = from(at).filter(|rest| !rest.is_empty());
    parts.extend(rest.map(|bytes| Routine { name: None, address: at, bytes }));
    parts
}

/// The instructions of a part, and what is none, one behind the other.
fn instructions<'l>(
    decoder: &'l Decoder,
    part: &'l Routine<'_>,
) -> impl Iterator<Item = (u64, Vec<u32>, std::result::Result<Inst, DecodeError>)> {
    let (mut address, mut rest) = (part.address, part.bytes);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (words, inst) = decode(decoder, rest);
        let (at, size) = (address, (words.len() * WORD).min(rest.len()));
        rest = rest.get(size..).unwrap_or_default();
        address = address.wrapping_add(size as u64);
        Some((at, words, inst))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, address: u64, size: u64) -> Function {
        Function { name: name.to_owned(), address, size, is_kernel: true }
    }

    #[test]
    fn code_is_cut_at_functions_and_nothing_of_it_is_left_out() {
        let code: Vec<u8> = (0..100).collect();
        let functions =
            [function("before", 0, 50), function("a", 1010, 20), function("b", 1020, 40), function("c", 1090, 99)];
        let parts = pieces(1000, &code, &functions);
        let shown: Vec<_> = parts.iter().map(|p| (p.name.as_deref(), p.address, p.bytes.len())).collect();
        let expected =
            [(None, 1000, 10), (Some("a"), 1010, 10), (Some("b"), 1020, 40), (None, 1060, 30), (Some("c"), 1090, 10)];
        assert_eq!(shown, expected);
        let bytes: Vec<u8> = parts.iter().flat_map(|p| p.bytes).copied().collect();
        assert_eq!(bytes, code);
    }

    #[test]
    fn words_that_are_no_instruction_are_lines_with_all_their_words() {
        // `s_nop 0`, a long one of the image family, three bytes. Source: the Vega ISA manual, MIMG.
        let words = [0xbf80_0000u32, 0xf000_0f00, 0x0000_0102];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend([1, 2, 3]);
        let part = Routine { name: None, address: 0x100, bytes: &bytes };
        let decoder = Decoder::new(Arch::Gfx906);
        let found: Vec<_> = instructions(&decoder, &part).map(|(at, words, inst)| (at, words, inst.err())).collect();
        let expected = [
            (0x100, vec![words[0]], None),
            (0x104, words[1..].to_vec(), Some(DecodeError::Absent("image_load"))),
            (0x10c, vec![0x0003_0201], Some(DecodeError::Truncated)),
        ];
        assert_eq!(found, expected);
    }
}
