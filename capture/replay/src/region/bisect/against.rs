//! The first dispatch of a part that computes something else than the same dispatch of another capture: of a good and a bad build, or of
//! two processors.
//!
//! Each capture is replayed in a process of its own. What each step of the other one changes is written into a file ([`record`]), and read
//! beside the steps of this one: no more is kept than the memory that each side has changed so far. Dispatches are aligned by the names of their kernels and by the ranges of ROCTx that they were
//! launched in, and compared argument by argument: addresses are others. A dispatch is named if all that its arguments are and lead to was the same before it, within the tolerance, and something of
//! that is not afterwards.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use amdgpu_code_object::ValueKind;
use logdur_capture::Dispatch;
use logdur_captured::Code;
use logdur_captured::region::{CapturedPart, Work, align};
use logdur_captured::verify::{Buffer, Rule, Tolerance, Type};

use super::super::run::{LoadedPart, Side};
use super::super::{Launched, Options};
use super::difference::{after, begin};
use super::stored::stored_by;
use super::{Element, Found};
use crate::device::Description;
use crate::error::{ReplayError, Result};
use crate::loaded::{Look, unseen as unseen_of};
use crate::placed::Pages;
use crate::setup::Setup;

/// Begins files of what steps change.
const MAGIC: &[u8; 8] = b"ldsteps\x02";
/// Bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// The result of a comparison with another capture.
#[derive(Clone, Debug)]
pub struct Against {
    /// The device.
    pub device: Description,
    /// How many dispatches were compared, of how many here and there.
    pub aligned: u64,
    /// True if the ranges of ROCTx decided, too, beside the names of kernels.
    pub by_ranges: bool,
    /// Dispatches of this part.
    pub dispatches: u64,
    /// Dispatches of the other.
    pub others: u64,
    /// Why the result says less than it could, one line each.
    pub qualified: Vec<String>,
    /// The dispatch, and its partner.
    pub found: Option<(Found, Launched)>,
    /// What was seen and is no proof against one dispatch.
    pub unproven: Option<String>,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> ReplayError {
    let path = path.display().to_string();
    move |source| ReplayError::File { path: path.clone(), source }
}

/// Replays a part in this process, which has not started the runtime yet, and writes what each step changes into a file, step by step.
///
/// # Errors
/// As for [`replay`](super::super::replay); when the file cannot be written.
pub fn record(part: &CapturedPart<'_>, options: &Options, path: &Path) -> Result<()> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let side = loaded.side_with_memory(&options.variant)?;
    let mut look = begin(&mut loaded, &[&side])?;
    let mut file = BufWriter::new(File::create(path).map_err(failed(path))?);
    let begun = [loaded.loaded.unseen().unwrap_or(0), part.steps.len() as u64];
    let begin = |file: &mut BufWriter<File>| {
        file.write_all(MAGIC)?;
        begun.iter().try_for_each(|number| file.write_all(&number.to_le_bytes()))
    };
    begin(&mut file).map_err(failed(path))?;
    for number in 0..part.steps.len() {
        let pages = after(&mut loaded, &side, number, &mut look)?;
        write(&mut file, &pages).map_err(failed(path))?;
    }
    file.flush().map_err(failed(path))
}

fn write(file: &mut BufWriter<File>, pages: &Pages) -> io::Result<()> {
    file.write_all(&(pages.len() as u64).to_le_bytes())?;
    for (at, bytes) in pages {
        file.write_all(&at.to_le_bytes())?;
        file.write_all(&(bytes.len() as u64).to_le_bytes())?;
        file.write_all(bytes)?;
    }
    Ok(())
}

/// Says what each step changes, one after the other.
trait Steps {
    /// What the next one changes: what is written before it, and what it does.
    fn next(&mut self) -> Result<Pages>;
}

/// Steps that [`record`] has written.
struct Recorded<'a> {
    file: BufReader<File>,
    path: &'a Path,
    /// Bytes of the other side's memory, if not all of it is seen.
    unseen: Option<u64>,
}

impl<'a> Recorded<'a> {
    fn open(path: &'a Path, steps: usize) -> Result<Recorded<'a>> {
        let open = || {
            let mut file = BufReader::new(File::open(path)?);
            let mut magic = [0; 8];
            file.read_exact(&mut magic)?;
            let (unseen, count) = (number(&mut file)?, number(&mut file)?);
            if magic != *MAGIC || count != steps as u64 {
                return Err(io::Error::other(format!("expected a file of what {steps} steps change, found {count}")));
            }
            Ok(Recorded { file, path, unseen: Some(unseen).filter(|bytes| *bytes > 0) })
        };
        open().map_err(failed(path))
    }

    fn read(&mut self) -> io::Result<Pages> {
        let mut pages = Pages::new();
        for _ in 0..number(&mut self.file)? {
            let (at, length) = (number(&mut self.file)?, number(&mut self.file)?);
            let mut bytes = Vec::new();
            if (&mut self.file).take(length).read_to_end(&mut bytes)? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            pages.insert(at, bytes.into());
        }
        Ok(pages)
    }
}

fn number(file: &mut BufReader<File>) -> io::Result<u64> {
    let mut word = [0; 8];
    file.read_exact(&mut word).map(|()| u64::from_le_bytes(word))
}

impl Steps for Recorded<'_> {
    fn next(&mut self) -> Result<Pages> {
        let path = self.path;
        self.read().map_err(failed(path))
    }
}

/// Steps that run now.
struct Running<'l, 'c> {
    loaded: &'l mut LoadedPart<'c>,
    side: &'l Side,
    look: Look,
    /// The step that is next.
    step: usize,
}

impl Steps for Running<'_, '_> {
    fn next(&mut self) -> Result<Pages> {
        let number = self.step;
        self.step += 1;
        after(self.loaded, self.side, number, &mut self.look)
    }
}

/// The memory of a side: that at the beginning of its part, and the pages that have changed.
struct Memory<'p, 'c> {
    part: &'p CapturedPart<'c>,
    /// How many steps are done.
    done: usize,
    pages: Pages,
    /// What the pages that the last step has changed were before it, or are after it, whichever `pages` does not have.
    turned: Vec<(u64, Option<Arc<[u8]>>)>,
    /// What was changed by the last step.
    changed: Vec<Range<u64>>,
    ranges: Vec<Range<u64>>,
}

impl<'p, 'c> Memory<'p, 'c> {
    fn new(part: &'p CapturedPart<'c>) -> Memory<'p, 'c> {
        let ranges = part.captured.before.ranges();
        Memory { part, done: 0, pages: Pages::new(), turned: Vec::new(), changed: Vec::new(), ranges }
    }

    /// Goes on to behind a step; the memory is that before it until [`Memory::finish`].
    fn until(&mut self, step: usize, steps: &mut dyn Steps) -> Result<()> {
        while self.done < step {
            self.finish(steps)?;
        }
        // What is written before a step is part of what it began with.
        if let Some(delta) = self.part.steps.get(step).and_then(|step| step.delta.as_ref()).filter(|_| step > 0) {
            for range in delta.ranges() {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                delta.read(range.start, &mut bytes)?;
                self.put(range.start, &bytes)?;
            }
        }
        Ok(())
    }

    /// Does the step that is next.
    fn finish(&mut self, steps: &mut dyn Steps) -> Result<()> {
        let changed = steps.next()?;
        self.changed = changed.iter().map(|(at, bytes)| *at..at + bytes.len() as u64).collect();
        self.turned = changed.into_iter().map(|(at, bytes)| (at, Some(bytes))).collect();
        self.turn();
        self.done += 1;
        Ok(())
    }

    /// Goes back to before the last step, or on to behind it again.
    fn turn(&mut self) {
        for (at, bytes) in &mut self.turned {
            let other = match bytes.take() {
                Some(bytes) => self.pages.insert(*at, bytes),
                None => self.pages.remove(at),
            };
            *bytes = other;
        }
    }

    /// Writes bytes over pages.
    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        const PAGE: u64 = logdur_captured::regions::PAGE;
        let (mut start, end) = (at, at + bytes.len() as u64);
        while start < end {
            let stop = end.min(start / PAGE * PAGE + PAGE);
            let (key, mut page) = match self.pages.range(..=start).next_back() {
                Some((key, page)) if start < key + page.len() as u64 => (*key, page.to_vec()),
                _ => {
                    let mut page = vec![0; (stop - start) as usize];
                    self.part.captured.before.read(start, &mut page)?;
                    (start, page)
                }
            };
            let stop = stop.min(key + page.len() as u64);
            let from = bytes.get((start - at) as usize..(stop - at) as usize).unwrap_or_default();
            page.iter_mut().skip((start - key) as usize).zip(from).for_each(|(to, byte)| *to = *byte);
            self.pages.insert(key, page.into());
            start = stop;
        }
        Ok(())
    }

    fn read(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.part.captured.before.read(at, to)?;
        let end = at + to.len() as u64;
        let first = self.pages.range(..=at).next_back().map_or(at, |(key, _)| *key);
        for (key, page) in self.pages.range(first..end) {
            let (from, until) = (at.max(*key), end.min(key + page.len() as u64));
            if from < until {
                let bytes = page.get((from - key) as usize..(until - key) as usize).unwrap_or_default();
                let to = to.get_mut((from - at) as usize..(until - at) as usize).unwrap_or_default();
                to.copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Captured memory from an address on, to the end of its allocation.
    fn from(&self, at: u64) -> Option<Range<u64>> {
        let range = self.ranges.iter().find(|range| range.contains(&at))?;
        let all = self.part.captured.allocations.iter();
        let ends = all.map(|a| a.base..a.base.saturating_add(a.size)).filter(|a| a.contains(&at)).map(|a| a.end);
        Some(at..ends.min().map_or(range.end, |end| end.min(range.end)))
    }

    fn is_address(&self, word: u64) -> bool {
        let behind = self.ranges.partition_point(|range| range.start <= word);
        let range = behind.checked_sub(1).and_then(|at| self.ranges.get(at));
        range.is_some_and(|range| word <= range.end)
    }

    fn dispatch(&self, step: usize) -> Option<(&'p Code, &'p Dispatch)> {
        match self.part.steps.get(step)?.work {
            Work::Dispatch { kernel, dispatch } => Some((&self.part.kernels.get(kernel)?.original, &dispatch.value)),
            Work::Copy { .. } | Work::Fill { .. } | Work::Barrier => None,
        }
    }
}

/// A dispatch as it is aligned: the number of its step, its kernel, and the ranges of ROCTx that it was launched in.
struct Named<'p> {
    step: usize,
    kernel: &'p str,
    ranges: &'p [String],
}

/// The dispatches of a part.
fn named<'p>(part: &'p CapturedPart<'_>) -> Vec<Named<'p>> {
    let steps = part.steps.iter().enumerate().filter(|(_, step)| matches!(step.work, Work::Dispatch { .. }));
    steps.map(|(number, step)| Named { step: number, kernel: part.symbol(step), ranges: &step.step.ranges }).collect()
}

/// True if dispatches are known to be launched in ranges.
fn have_ranges(all: &[Named<'_>]) -> bool {
    all.iter().any(|named| !named.ranges.is_empty())
}

/// An argument of both sides that leads to memory.
struct Pointer {
    name: String,
    ours: Range<u64>,
    theirs: Range<u64>,
    of: Type,
    tolerance: Tolerance,
}

/// The other side of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Other<'p> {
    /// A part of another capture. Addresses are others.
    Part(&'p CapturedPart<'p>),
    /// The same part on another processor.
    Processor,
}

/// Replays a part in this process, which has not started the runtime yet, and compares it with another one, of which `path` has what each
/// step changes.
///
/// # Errors
/// As for [`replay`](super::super::replay); when the file cannot be read.
pub fn against(part: &CapturedPart<'_>, options: &Options, other: Other<'_>, path: &Path) -> Result<Against> {
    let (other, is_same) = match other {
        Other::Part(other) => (other, false),
        Other::Processor => (part, true),
    };
    // Rules are about arguments of both captures.
    let rules = if is_same { options.setup.rules.clone() } else { Vec::new() };
    let setup = Setup { rules, ..options.setup.clone() };
    let mut loaded = LoadedPart::set(part, &setup)?;
    let side = loaded.side_with_memory(&options.variant)?;
    let look = begin(&mut loaded, &[&side])?;
    let mut their_steps = Recorded::open(path, other.steps.len())?;
    let unseen = [loaded.loaded.unseen(), their_steps.unseen];
    let (mut ours, mut theirs) = (Memory::new(part), Memory::new(other));
    let (our_names, their_names) = (named(part), named(other));
    // Where one side has no ranges, as without the library of markers, the other's say nothing.
    let by_ranges = have_ranges(&our_names) && have_ranges(&their_names);
    let keys = |all: &[Named<'_>]| -> Vec<(String, Vec<String>)> {
        let ranges = |named: &Named<'_>| if by_ranges { named.ranges.to_vec() } else { Vec::new() };
        all.iter().map(|named| (named.kernel.to_owned(), ranges(named))).collect()
    };
    let pairs = align(&keys(&our_names), &keys(&their_names));
    let buffers = loaded.loaded.buffers().to_vec();
    let mut result = Against {
        device: loaded.loaded.device().description().clone(),
        aligned: pairs.len() as u64,
        by_ranges,
        dispatches: our_names.len() as u64,
        others: their_names.len() as u64,
        qualified: Vec::new(),
        found: None,
        unproven: None,
    };
    let mut our_steps = Running { loaded: &mut loaded, side: &side, look, step: 0 };
    let mut found = None;
    for (our, their) in pairs {
        let (Some(ours_at), Some(theirs_at)) = (our_names.get(our), their_names.get(their)) else { continue };
        let (our, name, their) = (&ours_at.step, ours_at.kernel, &theirs_at.step);
        ours.until(*our, &mut our_steps)?;
        theirs.until(*their, &mut their_steps)?;
        let mut pointers = pointers(&ours, &theirs, (*our, *their), &options.setup.rules, &buffers)?;
        if is_same {
            pointers.extend(buffers.iter().map(whole_buffer));
        }
        ours.finish(&mut our_steps)?;
        theirs.finish(&mut their_steps)?;
        let Some(after) = changed(&ours, &theirs, &pointers)? else { continue };
        // Only now it matters whether both began with the same.
        ours.turn();
        theirs.turn();
        let began = match values(&ours, &theirs, (*our, *their)) {
            Some(values) => Some(values),
            None => whole(&ours, &theirs, &pointers)?.map(|element| {
                let Element { argument, index, expected, found, .. } = element;
                format!("{argument}[{index}] was {found} before it, {expected} on the other side")
            }),
        };
        let why = match (began, unseen.iter().flatten().max()) {
            (None, None) => {
                found = Some((*our, *their, after, ours.pages));
                break;
            }
            (Some(began), _) => format!(
                "but began with others: {began}. The host, copies, or dispatches without a partner made the difference"
            ),
            (None, Some(all)) => format!(
                "but of {all} bytes of memory not all was looked at before it: an earlier dispatch may have made the difference"
            ),
        };
        let at = part.steps.get(*our).map_or(0, |step| step.step.sequence);
        result.unproven.get_or_insert_with(|| format!("step {at}, {name}, leaves other values, {why}"));
        ours.turn();
        theirs.turn();
    }
    let Running { mut look, .. } = our_steps;
    if let Some((our, their, element, before)) = found {
        let step = part.steps.get(our).map(|step| loaded.launched(step));
        let partner = other.steps.get(their).map(|step| Launched {
            step: step.step.sequence,
            dispatch: step.step.dispatch.as_ref().map_or(0, |dispatch| dispatch.id),
            kernel: other.symbol(step).to_owned(),
        });
        let stored = stored_by(&mut loaded, &mut look, &side, our, &before, element.address)?;
        result.found = step
            .zip(partner)
            .map(|(launched, partner)| (Found { launched, element: Some(element), stored, fault: None }, partner));
    }
    let both = loaded.qualified().into_iter();
    let their_unseen = their_steps.unseen.map(|all| format!("other side: {}", unseen_of(all)));
    let theirs = other.qualified.iter().filter(|_| !is_same).map(|text| format!("other capture: {text}"));
    result.qualified = both.chain(theirs).chain(their_unseen).collect();
    let sides = if is_same { "each processor replayed the region once" } else { "each capture was replayed once" };
    result.qualified.push(format!("{sides}: what replays of it differ in is not masked"));
    Ok(result)
}

/// All of a buffer that both sides have at one address.
fn whole_buffer(buffer: &Buffer) -> Pointer {
    let range = buffer.start..buffer.end;
    Pointer {
        name: buffer.name.clone(),
        ours: range.clone(),
        theirs: range,
        of: buffer.element_type,
        tolerance: buffer.tolerance,
    }
}

/// The arguments of a dispatch that lead to memory on both sides, with how their elements are compared.
fn pointers(
    ours: &Memory<'_, '_>,
    theirs: &Memory<'_, '_>,
    (our, their): (usize, usize),
    rules: &[Rule],
    buffers: &[Buffer],
) -> Result<Vec<Pointer>> {
    let (Some((our_code, our)), Some((their_code, their))) = (ours.dispatch(our), theirs.dispatch(their)) else {
        return Ok(Vec::new());
    };
    let (our, their) = (our_code.arguments(&our.kernarg), their_code.arguments(&their.kernarg));
    let mut all = Vec::new();
    for (our, their) in our.into_iter().zip(their) {
        let (Some(at), Some(there)) = (our.address(), their.address()) else { continue };
        let (Some(ours), Some(theirs)) = (ours.from(at), theirs.from(there)) else { continue };
        let length = (ours.end - ours.start).min(theirs.end - theirs.start);
        let rule = rules.iter().find(|rule| [&our.name, &our.number].contains(&&rule.buffer));
        let source = our.source_type.and_then(Type::of_pointer);
        let known = buffers.iter().find(|buffer| (buffer.start..buffer.end).contains(&at));
        let of = rule.map(|rule| rule.element_type).or(source);
        all.push(Pointer {
            name: our.name,
            ours: at..at + length,
            theirs: there..there + length,
            of: of.or(known.map(|buffer| buffer.element_type)).unwrap_or(Type::Bits(4)),
            tolerance: rule.map_or_else(Tolerance::default, |rule| rule.tolerance),
        });
    }
    Ok(all)
}

/// An argument that is a value, and another one on the other side.
fn values(ours: &Memory<'_, '_>, theirs: &Memory<'_, '_>, (our, their): (usize, usize)) -> Option<String> {
    let ((our_code, our), (their_code, their)) = (ours.dispatch(our)?, theirs.dispatch(their)?);
    let (our, their) = (our_code.arguments(&our.kernarg), their_code.arguments(&their.kernarg));
    if our.len() != their.len() {
        return Some(format!("it has {} arguments, {} on the other side", our.len(), their.len()));
    }
    for (our, their) in our.iter().zip(&their) {
        let is_value = our.declared.kind == ValueKind::ByValue;
        if !is_value || our.bytes == their.bytes {
            continue;
        }
        let show = |bytes: Option<&[u8]>| {
            let of = our.element_type().unwrap_or(Type::Bits(1));
            bytes.map_or_else(|| "nothing".to_owned(), |bytes| of.show(bytes.get(..of.size()).unwrap_or(bytes)))
        };
        // A structure may hold addresses.
        if our.bytes.zip(their.bytes).is_some_and(|(a, b)| same_words(ours, theirs, a, b)) {
            continue;
        }
        return Some(format!("{} is {}, {} on the other side", our.name, show(our.bytes), show(their.bytes)));
    }
    None
}

/// True if bytes are the same but for aligned words that are addresses on both sides.
fn same_words(ours: &Memory<'_, '_>, theirs: &Memory<'_, '_>, a: &[u8], b: &[u8]) -> bool {
    let word = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    a.len() == b.len()
        && a.chunks(8).zip(b.chunks(8)).all(|(a, b)| {
            let addresses = word(a).zip(word(b));
            a == b || addresses.is_some_and(|(a, b)| ours.is_address(a) && theirs.is_address(b))
        })
}

/// The first element that differs in what the last step of both has changed.
fn changed(ours: &Memory<'_, '_>, theirs: &Memory<'_, '_>, pointers: &[Pointer]) -> Result<Option<Element>> {
    for pointer in pointers {
        let offsets = |changed: &[Range<u64>], of: &Range<u64>| {
            let parts = changed.iter().map(|range| range.start.max(of.start)..range.end.min(of.end));
            let start = of.start;
            parts
                .filter(|part| part.start < part.end)
                .map(|part| part.start - start..part.end - start)
                .collect::<Vec<_>>()
        };
        let mut parts = offsets(&ours.changed, &pointer.ours);
        parts.extend(offsets(&theirs.changed, &pointer.theirs));
        parts.sort_by_key(|part| part.start);
        for part in parts {
            if let Some(element) = differing(ours, theirs, pointer, part)? {
                return Ok(Some(element));
            }
        }
    }
    Ok(None)
}

/// The first element that differs in all that arguments lead to.
fn whole(ours: &Memory<'_, '_>, theirs: &Memory<'_, '_>, pointers: &[Pointer]) -> Result<Option<Element>> {
    for pointer in pointers {
        if let Some(element) = differing(ours, theirs, pointer, 0..pointer.ours.end - pointer.ours.start)? {
            return Ok(Some(element));
        }
    }
    Ok(None)
}

/// The first element of a part of what an argument leads to that is not near enough. Words that are addresses on both sides are equal.
fn differing(
    ours: &Memory<'_, '_>,
    theirs: &Memory<'_, '_>,
    pointer: &Pointer,
    part: Range<u64>,
) -> Result<Option<Element>> {
    let size = pointer.of.size() as u64;
    // Whole elements, and whole words.
    let whole = size.max(8);
    let length = pointer.ours.end - pointer.ours.start;
    let (mut at, end) = (part.start / whole * whole, part.end.next_multiple_of(whole).min(length));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    while at < end {
        let piece = (end - at).min(PIECE);
        a.resize(piece as usize, 0);
        b.resize(piece as usize, 0);
        ours.read(pointer.ours.start + at, &mut a)?;
        theirs.read(pointer.theirs.start + at, &mut b)?;
        if a != b {
            let words = (0..).step_by(whole as usize).zip(a.chunks(whole as usize).zip(b.chunks(whole as usize)));
            for (word, (a, b)) in words.filter(|(_, (a, b))| a != b) {
                if same_words(ours, theirs, a, b) {
                    continue;
                }
                let elements = a.chunks_exact(size as usize).zip(b.chunks_exact(size as usize)).enumerate();
                for (number, (found, expected)) in elements.filter(|(_, (a, b))| a != b) {
                    let near = || pointer.tolerance.takes(&pointer.of.distance(expected, found));
                    if pointer.tolerance.is_exact() || !near() {
                        let offset = at + word + number as u64 * size;
                        return Ok(Some(Element {
                            argument: pointer.name.clone(),
                            index: offset / size,
                            address: pointer.ours.start + offset,
                            expected: pointer.of.show(expected),
                            found: pointer.of.show(found),
                        }));
                    }
                }
            }
        }
        at += piece;
    }
    Ok(None)
}
