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
    /// Its column; 0 where that is not known.
    pub(crate) column: u32,
    /// What it accesses.
    access: Option<Accessed>,
}

/// The machine instruction that does an access of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'c> {
    /// Its text.
    pub(crate) text: &'c str,
    /// What it accesses.
    pub(crate) access: Accessed,
}

/// What an access of the source is: its column, what it does, and bytes of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) column: u32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) lds: bool,
    pub(crate) bytes: u32,
}

/// Lines between an access of the source and the instruction that it was merged into, at most.
const NEAR: u32 = 8;

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
            let instruction = Instruction { text: line.shown(), column: place.column as u32, access };
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

    /// The instruction that does an access of a line: its own, or a wider one of a line nearby. A compiler that merges accesses of several
    /// lines leaves the instruction at one of them.
    pub(crate) fn machine(&self, file: u64, line: u32, wanted: Wanted) -> Option<Machine<'_>> {
        match self.line(file, line).map_or(Candidates::Nothing, |line| line.access(wanted)) {
            Candidates::One(machine) => return Some(machine),
            Candidates::Several => return None,
            Candidates::Nothing => {}
        }
        let wider = |near: u32| match self.line(file, near)?.access(Wanted { column: 0, ..wanted }) {
            Candidates::One(machine) if machine.access.part > wanted.bytes => Some(machine),
            _ => None,
        };
        (1..=NEAR).find_map(|away| wider(line.checked_sub(away)?).or_else(|| wider(line + away)))
    }

    /// How often each operation is in some lines of a file, of the instructions that `is_inside` by their line and column.
    pub(crate) fn operations(
        &self,
        file: u64,
        lines: std::ops::RangeInclusive<u32>,
        is_inside: impl Fn(u32, u32) -> bool,
    ) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (number, line) in lines.filter_map(|number| Some((number, self.line(file, number)?))) {
            for instruction in line.instructions.iter().filter(|of| is_inside(number, of.column)) {
                let name = instruction.text.split_whitespace().next().unwrap_or_default();
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        counts
    }
}

/// Instructions of a line that could do an access.
enum Candidates<'c> {
    /// None.
    Nothing,
    /// One, or several of one size.
    One(Machine<'c>),
    /// Several of different sizes.
    Several,
}

impl Line {
    /// The instructions that could do an access: of its column if there are some, else all of the line.
    fn access(&self, wanted: Wanted) -> Candidates<'_> {
        let does = |of: &Accessed| (of.reads, of.writes, of.lds) == (wanted.reads, wanted.writes, wanted.lds);
        let all = || {
            let machine = |of: &'_ Instruction| Some((of.column, of.access.filter(|access| does(access))?));
            self.instructions
                .iter()
                .filter_map(move |of| machine(of).map(|(column, access)| (column, &of.text, access)))
        };
        let has_column = wanted.column != 0 && all().any(|(column, ..)| column == wanted.column);
        let mut found = all().filter(|(column, ..)| !has_column || *column == wanted.column);
        let Some((_, text, access)) = found.next() else { return Candidates::Nothing };
        match found.all(|(.., other)| (other.bytes, other.part) == (access.bytes, access.part)) {
            true => Candidates::One(Machine { text, access }),
            false => Candidates::Several,
        }
    }
}

/// The hashes by which messages may name a file: of its path, and of its parts, as a compiler was given them.
pub(crate) fn hashes(path: &str) -> impl Iterator<Item = u64> {
    let parts = path.match_indices('/').map(|(at, _)| path.split_at(at + 1).1);
    std::iter::once(path).chain(parts).filter(|part| !part.is_empty()).map(file_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, column: u32, bytes: u32, part: u32, lds: bool) -> Instruction {
        let access = Some(Accessed { reads: true, writes: false, lds, bytes, part });
        Instruction { text: text.to_owned(), column, access }
    }

    /// A file with some instructions at its lines.
    fn code(lines: Vec<(u32, Vec<Instruction>)>) -> (Code, u64) {
        let file = file_hash("a.hip");
        let line = |(number, instructions)| {
            ((file, number), Line { file: "a.hip".to_owned(), text: String::new(), instructions })
        };
        (Code { lines: lines.into_iter().map(line).collect(), paths: [(file, file)].into() }, file)
    }

    #[test]
    fn an_access_is_done_by_its_own_instruction_or_by_one_that_it_was_merged_into() {
        let add = Instruction { text: "v_add_u32_e32 v0, v1, v2".to_owned(), column: 3, access: None };
        let (code, file) = code(vec![
            (10, vec![load("global_load_dwordx4", 5, 16, 16, false)]),
            (11, vec![add]),
            (12, vec![load("global_load_dword", 5, 4, 4, false), load("global_load_dwordx2", 9, 8, 8, false)]),
            (30, vec![load("ds_read2_b32", 5, 8, 4, true)]),
        ]);
        let found = |line, column, bytes, lds| {
            let wanted = Wanted { column, reads: true, writes: false, lds, bytes };
            code.machine(file, line, wanted).map(|machine| (machine.text, machine.access.part))
        };
        assert_eq!(found(10, 5, 4, false), Some(("global_load_dwordx4", 16)));
        // Without one of its own, and without an instruction at all.
        assert_eq!(found(11, 7, 4, false), Some(("global_load_dwordx4", 16)));
        assert_eq!(found(8, 7, 8, false), Some(("global_load_dwordx4", 16)));
        assert_eq!(found(8, 7, 16, false), None, "nothing near is wider");
        assert_eq!(found(25, 7, 4, false), None, "nothing is near");
        assert_eq!(found(11, 7, 4, true), None, "LDS is another memory");
        // The column tells which of two, where it is known.
        assert_eq!(found(12, 9, 8, false), Some(("global_load_dwordx2", 8)));
        assert_eq!(found(12, 2, 8, false), None);
        // Two offsets are two accesses.
        assert_eq!(found(30, 5, 4, true), Some(("ds_read2_b32", 4)));
    }
}
