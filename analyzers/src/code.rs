//! The instructions of a kernel by source line, from its code object.

use std::collections::{BTreeMap, HashMap};

use amdgpu_isa::Decoder;
use amdgpu_listing::{Listing, Which};
use logdur_analysis::operations::Accessed;
use logdur_handler::Dispatch;
use logdur_handler::messages::file_hash;

/// A source line of a kernel.
#[derive(Debug)]
pub(crate) struct Line {
    /// The file, as the compiler knew it.
    pub(crate) file: String,
    /// Its text; empty where the file cannot be read here.
    pub(crate) text: String,
    /// Its instructions.
    pub(crate) instructions: Vec<Instruction>,
}

/// An instruction of a line.
#[derive(Debug)]
pub(crate) struct Instruction {
    /// Its text in the syntax of LLVM's assembler.
    pub(crate) text: String,
    /// What it accesses.
    access: Option<Accessed>,
}

/// The source lines of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// By the hash of the file's path and the number.
    lines: HashMap<(u64, u32), Line>,
    /// The hash of the path, by each hash by which messages may name the file.
    paths: HashMap<u64, u64>,
}

impl Code {
    /// Of a kernel: the original, if it is in the code object, else the clone. And why there is less than all.
    pub(crate) fn of(dispatch: &Dispatch<'_>) -> (Code, Option<String>) {
        let listing = |kernel| Listing::of(dispatch.code_uri, dispatch.code, Which::Kernel(kernel));
        let listing = match listing(dispatch.mangled).or_else(|_| listing(dispatch.clone)) {
            Ok(listing) => listing,
            Err(error) => return (Code::default(), Some(error.to_string())),
        };
        let decoder = Decoder::new(listing.arch);
        let mut code = Code::default();
        for line in listing.parts.iter().flat_map(|part| listing.lines(part)) {
            let Some(place) = line.source else { continue };
            let access = decoder.decode(&line.words).ok().and_then(|inst| Accessed::of(&inst));
            let instruction = Instruction { text: line.shown(), access };
            let path = file_hash(place.file);
            if !code.paths.contains_key(&path) {
                code.paths.extend(hashes(place.file).map(|hash| (hash, path)));
            }
            let known = code.lines.entry((path, place.line as u32)).or_insert_with(|| Line {
                file: place.file.to_owned(),
                text: place.text.unwrap_or_default().to_owned(),
                instructions: Vec::new(),
            });
            known.instructions.push(instruction);
        }
        (code, listing.problem.clone())
    }

    /// A line, if the debug information of the kernel has it.
    pub(crate) fn line(&self, file: u64, line: u32) -> Option<&Line> {
        self.lines.get(&(*self.paths.get(&file)?, line))
    }

    /// How often each operation is in some lines of a file.
    pub(crate) fn operations(&self, file: u64, lines: std::ops::RangeInclusive<u32>) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for instruction in lines.filter_map(|line| self.line(file, line)).flat_map(|line| &line.instructions) {
            let name = instruction.text.split_whitespace().next().unwrap_or_default();
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    }
}

impl Line {
    /// The instruction that does an access, and its bytes, if all that could do it are of one size.
    pub(crate) fn access(&self, reads: bool, writes: bool, lds: bool) -> Option<(&str, u32)> {
        let mut found = self.instructions.iter().filter_map(|instruction| {
            let of = instruction.access?;
            let does = (of.reads, of.writes, of.lds) == (reads, writes, lds);
            does.then_some((instruction.text.as_str(), of.bytes))
        });
        let first = found.next()?;
        found.all(|(_, bytes)| bytes == first.1).then_some(first)
    }
}

/// The hashes by which messages may name a file: of its path, and of its parts, as a compiler was given them.
pub(crate) fn hashes(path: &str) -> impl Iterator<Item = u64> {
    let parts = path.match_indices('/').map(|(at, _)| path.split_at(at + 1).1);
    std::iter::once(path).chain(parts).filter(|part| !part.is_empty()).map(file_hash)
}
