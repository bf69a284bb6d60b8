//! What was seen of a dispatch, put beside its code: by instruction, by source line, and for the kernel.

use std::collections::BTreeMap;

use amdgpu_emu::isa::Decoder;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::Flags;
pub use amdgpu_listing::Frame;
use amdgpu_listing::{Listing, ListingError, Which};
use logdur_analysis::blocks::{self, Block, Executed};
use logdur_analysis::forms::heatmap::Heatmap;
use logdur_analysis::issue::Issue;
use logdur_analysis::occupancy::Occupancy;
use logdur_analysis::operations::{Accessed, Group, Type};
use logdur_analysis::roofline::{Peaks, Point, peaks};

use crate::counts::Count;
use crate::finding::{Finding, Key};
use crate::heat::{Cell, Region};
use crate::lds::Lds;
use crate::lines::Lines;
use crate::peak::Peak;
use crate::seen::{Looked, Seen};

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The file, as the compiler knew it.
    pub file: String,
    /// The line, from 1 on.
    pub line: u64,
    /// Its text, where the file can be read here, as it is indented there.
    pub text: Option<String>,
}

impl Source {
    /// Its text without the indentation; empty where the file cannot be read.
    pub fn shown(&self) -> &str {
        self.text.as_deref().unwrap_or_default().trim_start()
    }
}

/// An instruction and what was seen of it.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its address in the kernel's code object; where it was executed, if it is of another one.
    pub address: u64,
    /// Its disassembly.
    pub text: String,
    /// The number of its label.
    pub label: Option<usize>,
    /// The function that it is in.
    pub function: Option<String>,
    /// Where it comes from.
    pub source: Option<Source>,
    /// The column there, from 1 on; 0 if it is not known.
    pub column: u64,
    /// The functions that it is in, the innermost first: each was inlined into the next.
    pub frames: Vec<Frame>,
    /// What it is for.
    pub group: Group,
    /// Which unit gets it.
    pub issue: Issue,
    /// What it accesses.
    pub accessed: Option<Accessed>,
    /// How often it was executed.
    pub count: Count,
    /// Counted operations of all executions.
    pub flops: Option<(Type, u64)>,
    /// Its accesses to memory.
    pub lines: Option<Lines>,
    /// Its accesses to LDS.
    pub lds: Option<Lds>,
}

impl Instruction {
    /// Its place, for people: the source line, or the label or function with the distance from it.
    pub fn place(&self) -> String {
        match &self.source {
            Some(source) => format!("{}:{}", file_name(&source.file), source.line),
            None => format!("{:#x}", self.address),
        }
    }
}

/// The name of a file without its folders.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A source line and what was seen of its instructions.
#[derive(Clone, Debug)]
pub struct SourceLine {
    /// The line.
    pub source: Source,
    /// How often its instructions were executed.
    pub count: Count,
    /// Its accesses to memory.
    pub lines: Option<Lines>,
    /// Its accesses to LDS.
    pub lds: Option<Lds>,
}

/// A region of memory and what went there.
#[derive(Clone, Debug)]
pub struct RegionHeat {
    /// The region.
    pub region: Region,
    /// Bytes of a part.
    pub part: u64,
    /// Parts of the region.
    pub parts: u64,
    /// Accessed parts: byte offset in the region, and what went there.
    pub cells: Vec<(u64, Cell)>,
}

/// Executed operations of the whole kernel.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Wave instructions.
    pub executions: u64,
    /// Active lanes of vector instructions, and executions of these.
    pub vector: (u64, u64),
    /// Executions by kind.
    pub groups: BTreeMap<Group, u64>,
    /// Counted operations by type.
    pub flops: BTreeMap<Type, u64>,
    /// Accesses to memory.
    pub lines: Lines,
    /// Accesses to LDS.
    pub lds: Lds,
    /// Bytes of distinct L2 lines that were accessed in named memory: what at least has to come from memory or go there. `None` where a part of
    /// a region has several lines.
    pub footprint: Option<u64>,
}

/// What a finding is about, in words.
#[derive(Clone, Debug)]
pub struct LocatedFinding {
    /// The finding's key.
    pub key: Key,
    /// The finding.
    pub finding: Finding,
    /// Number of its instruction among [`Report::instructions`].
    pub at: Option<usize>,
    /// Number of the other instruction.
    pub other: Option<usize>,
    /// The address, by the name of its memory.
    pub named: Option<String>,
}

/// What was seen of a dispatch.
#[derive(Clone, Debug)]
pub struct Report {
    /// The processor.
    pub processor: String,
    /// Workgroups that were observed, and all.
    pub workgroups: (u64, u64),
    /// Waves of these workgroups, by their work-items.
    pub waves: BTreeMap<u32, u64>,
    /// The instructions of functions of which some were executed.
    pub instructions: Vec<Instruction>,
    /// Source lines of executed instructions.
    pub lines: Vec<SourceLine>,
    /// The blocks of the instructions.
    pub blocks: Vec<Block>,
    /// Totals.
    pub totals: Totals,
    /// What went to named memory.
    pub heat: Vec<RegionHeat>,
    /// Lanes by page of memory, if they were asked for.
    pub pages: Option<Heatmap>,
    /// The published peaks of the processor's product, and the kernel's operations below them.
    pub roofline: Option<(&'static Peaks, Vec<Point>)>,
    /// Waves of a SIMD.
    pub occupancy: Option<Occupancy>,
    /// The most live registers; `None` where the kernel calls functions.
    pub peak: Option<Peak>,
    /// What checks found, the most frequent first.
    pub findings: Vec<LocatedFinding>,
    /// Findings that were too many to be kept.
    pub dropped: u64,
    /// How far races between workgroups were looked for, if they were.
    pub between: Option<Looked>,
    /// Why source lines cannot be shown.
    pub problem: Option<String>,
    /// Executed instructions that are in none of the code objects.
    pub elsewhere: u64,
}

/// Code that was loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadedCode<'c> {
    /// Where its bytes are from.
    pub place: &'c str,
    /// The code object.
    pub bytes: &'c [u8],
    /// What was added to its addresses.
    pub moved: u64,
}

/// The words of an instruction, decoded.
fn decoded(decoder: &Decoder, words: &[u32]) -> Option<Inst> {
    decoder.decode(words).ok()
}

/// The instructions of functions of which some were executed.
#[derive(Default)]
struct Gathered {
    instructions: Vec<Instruction>,
    executed: Vec<Executed>,
    /// The code of each function, with the number of its first instruction.
    functions: Vec<(usize, Vec<(u64, Inst)>)>,
    /// The numbers of instructions, by the addresses that they were executed at.
    at: BTreeMap<u64, usize>,
    /// Labels of the code objects before.
    labels: usize,
    problem: Option<String>,
}

impl Gathered {
    /// Adds those of a code object; `shown` is what is added to its addresses for people.
    fn add(&mut self, listing: &Listing<'_>, moved: u64, shown: u64, seen: &Seen) {
        let decoder = Decoder::new(listing.arch);
        let labels = self.labels;
        for part in &listing.parts {
            let range = part.address.wrapping_add(moved)..part.address.wrapping_add(moved) + part.bytes.len() as u64;
            let touched = seen.counts.range(range.clone()).next().is_some()
                || seen.lines.range(range.clone()).next().is_some()
                || seen.lds.range(range.clone()).next().is_some()
                || seen.findings.all.keys().any(|key| range.contains(&key.pc));
            if !touched {
                continue;
            }
            let mut code = Vec::new();
            let first = self.instructions.len();
            for line in listing.lines(part) {
                let Some(inst) = decoded(&decoder, &line.words) else { continue };
                let pc = line.address.wrapping_add(moved);
                let address = line.address.wrapping_add(shown);
                let count = seen.counts.get(&pc).copied().unwrap_or_default();
                self.executed.push(Executed {
                    address,
                    end: address + u64::from(inst.size),
                    executions: count.executions,
                    lanes: count.lanes,
                    empty: count.empty,
                    taken: count.taken,
                    target: inst.target(address),
                    is_jump: inst.op.flags.has(Flags::BRANCH) || inst.is_indirect() || !inst.falls_through(),
                    falls_through: inst.falls_through(),
                });
                let label = line.label.map(|label| labels + label);
                self.labels = self.labels.max(label.unwrap_or(0));
                self.at.insert(pc, self.instructions.len());
                self.instructions.push(Instruction {
                    address,
                    text: line.shown(),
                    label,
                    function: part.name.clone(),
                    column: line.source.map_or(0, |source| source.column),
                    frames: if line.source.is_some() { listing.frames(line.address) } else { Vec::new() },
                    source: line.source.map(|source| Source {
                        file: source.file.to_owned(),
                        line: source.line,
                        text: source.text.map(|text| text.trim_end().to_owned()),
                    }),
                    group: Group::of(&inst),
                    issue: Issue::of(&inst),
                    accessed: Accessed::of(&inst),
                    flops: inst.arithmetic().total(count.executions, count.lanes),
                    count,
                    lines: seen.lines.get(&pc).copied(),
                    lds: seen.lds.get(&pc).copied(),
                });
                code.push((line.address, inst));
            }
            self.functions.push((first, code));
        }
        self.problem = self.problem.take().or_else(|| listing.problem.clone());
    }
}

impl Report {
    /// Puts what was seen beside the kernel's code, and other code that it got to. The name of the device that the dispatch was captured
    /// on, if it is known, chooses the peaks.
    ///
    /// # Errors
    /// When bytes are no code object, or of a processor that is not known.
    pub fn of(
        code: LoadedCode<'_>,
        others: &[LoadedCode<'_>],
        seen: &Seen,
        regions: &[Region],
        device: &str,
    ) -> Result<Report, ListingError> {
        let listing = Listing::of(code.place, code.bytes, Which::All)?;
        let mut gathered = Gathered::default();
        gathered.add(&listing, code.moved, 0, seen);
        for other in others {
            gathered.add(&Listing::of(other.place, other.bytes, Which::All)?, other.moved, other.moved, seen);
        }
        let Gathered { instructions, executed, functions, at, problem, .. } = gathered;
        let known: u64 = instructions.iter().map(|inst| inst.count.executions).sum();
        let all: u64 = seen.counts.values().map(|count| count.executions).sum();
        let peak = match (functions.as_slice(), seen.resources) {
            ([(first, code)], Some(resources)) if known == all => {
                let executed: &[Instruction] = &instructions[*first..];
                let is_executed = |n: usize| executed.get(n).is_some_and(|inst| inst.count.executions > 0);
                Peak::of(listing.arch.row(), resources, code, is_executed)
            }
            _ => None,
        };
        let heat = heat(seen, regions);
        let findings = found(seen, &at, regions);
        let totals = totals(&instructions, &heat, listing.arch.row().l2_line.into());
        Ok(Report {
            processor: listing.arch.name().to_owned(),
            workgroups: (seen.workgroups, seen.total),
            waves: seen.waves.clone(),
            lines: by_line(&instructions),
            blocks: blocks::blocks(&executed),
            roofline: roofline(peaks(listing.arch, device), &instructions, totals.footprint),
            totals,
            heat,
            pages: seen.pages.clone(),
            occupancy: seen.resources.map(|resources| Occupancy::of(listing.arch.row(), &resources)),
            peak,
            findings,
            dropped: seen.findings.dropped,
            between: seen.between,
            problem,
            elsewhere: all - known,
            instructions,
        })
    }
}

fn by_line(instructions: &[Instruction]) -> Vec<SourceLine> {
    let mut lines: BTreeMap<Source, SourceLine> = BTreeMap::new();
    for inst in instructions {
        let Some(source) = inst.source.clone() else { continue };
        if inst.count.executions == 0 && inst.lines.is_none() && inst.lds.is_none() {
            continue;
        }
        let new = || SourceLine { source: source.clone(), count: Count::default(), lines: None, lds: None };
        let line = lines.entry(source.clone()).or_insert_with(new);
        line.count.add(&inst.count);
        if let Some(of) = &inst.lines {
            line.lines.get_or_insert_default().add(of);
        }
        if let Some(of) = &inst.lds {
            line.lds.get_or_insert_default().add(of);
        }
    }
    lines.into_values().collect()
}

fn totals(instructions: &[Instruction], heat: &[RegionHeat], line: u64) -> Totals {
    let mut totals = Totals::default();
    for inst in instructions {
        totals.executions += inst.count.executions;
        *totals.groups.entry(inst.group).or_default() += inst.count.executions;
        if let Some((of, flops)) = inst.flops {
            *totals.flops.entry(of).or_default() += flops;
        }
        if matches!(inst.group, Group::Float | Group::Vector) {
            totals.vector.0 += inst.count.lanes;
            totals.vector.1 += inst.count.executions;
        }
        inst.lines.iter().for_each(|lines| totals.lines.add(lines));
        inst.lds.iter().for_each(|lds| totals.lds.add(lds));
    }
    let exact = heat.iter().all(|heat| heat.part == line);
    let parts: u64 = heat.iter().map(|heat| heat.cells.len() as u64).sum();
    totals.footprint = (exact && parts > 0).then_some(parts * line);
    totals
}

/// Where a type's operations are fewer than this part of all that lanes do in vector instructions, the kernel is not about them.
const LEAST_SHARE: u64 = 100;

/// The points of all types of operations, by the memory that is touched. A type of which few are done has none: integers are divided by the
/// help of floats.
fn roofline(
    peaks: Option<&'static Peaks>,
    instructions: &[Instruction],
    bytes: Option<u64>,
) -> Option<(&'static Peaks, Vec<Point>)> {
    let (peaks, bytes) = (peaks?, bytes?);
    let mut sums: BTreeMap<(Type, bool), u64> = BTreeMap::new();
    for inst in instructions {
        if let Some((of, flops)) = inst.flops {
            *sums.entry((of, inst.group == Group::Matrix)).or_default() += flops;
        }
    }
    let is_vector = |inst: &&Instruction| matches!(inst.group, Group::Float | Group::Vector);
    let lanes: u64 = instructions.iter().filter(is_vector).map(|inst| inst.count.lanes).sum();
    let points: Vec<Point> = sums
        .into_iter()
        .filter(|((_, matrix), sum)| *matrix || sum.saturating_mul(LEAST_SHARE) >= lanes)
        .filter_map(|((of, matrix), sum)| Point::of(peaks, of, matrix, sum, bytes))
        .collect();
    (!points.is_empty()).then_some((peaks, points))
}

fn heat(seen: &Seen, regions: &[Region]) -> Vec<RegionHeat> {
    let of = |(&(number, shift), cells): (&(usize, u32), &BTreeMap<u64, Cell>)| {
        let region = regions.get(number)?.clone();
        let cells =
            cells.iter().map(|(n, cell)| ((n << shift).saturating_sub(region.range.start % (1 << shift)), *cell));
        let first = region.range.start >> shift;
        let parts = (region.range.end.saturating_sub(1) >> shift) - first + 1;
        Some(RegionHeat { cells: cells.collect(), part: 1 << shift, parts, region })
    };
    seen.heat.iter().filter_map(of).collect()
}

fn found(seen: &Seen, numbers: &BTreeMap<u64, usize>, regions: &[Region]) -> Vec<LocatedFinding> {
    let at = |pc: u64| numbers.get(&pc).copied();
    let mut all: Vec<LocatedFinding> = seen
        .findings
        .all
        .iter()
        .map(|(key, finding)| LocatedFinding {
            at: at(key.pc),
            other: key.other.and_then(at),
            named: finding.address.and_then(|address| name(regions, address)),
            key: key.clone(),
            finding: finding.clone(),
        })
        .collect();
    all.sort_by(|a, b| (a.key.check, b.finding.count, &a.key).cmp(&(b.key.check, a.finding.count, &b.key)));
    all
}

/// Where an address is: in which region.
fn name(regions: &[Region], address: u64) -> Option<String> {
    let region = regions.get(regions.partition_point(|region| region.range.end <= address))?;
    region.range.contains(&address).then(|| format!("{}+{:#x}", region.name, address - region.range.start))
}
