//! Twins of captured dispatches that verify as PASS: with one byte of their input or one instruction changed, they must
//! fail and name the element.
//!
//! What is changed is found in the capture and in the code by the rules below; no kernel's name decides. A rule can
//! find what the kernel does not use: then the next that it finds is tried, [`TRIES`] in all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use amdgpu_code_object::{CodeObject, Kernel};
use amdgpu_isa::Decoder;
use amdgpu_isa::op::{Access, Family};
use logdur_capture::{Dispatch, FramePosition, Id, Memory, Options, Placed, Reader, SnapshotId, Writer};
use object::{Object, ObjectSegment, ObjectSymbol};
use serde_json::Value;

use crate::emulator::triton;
use crate::replay::verify;
use crate::support::harness::{self, Run};

/// How much of what a rule finds in a dispatch is tried.
const TRIES: usize = 4;
/// What of a buffer is looked at: its first elements.
const LOOKED_AT: u64 = 64;

/// A bit of memory.
#[derive(Clone, Copy)]
pub(crate) struct Bit {
    pub(crate) address: u64,
    pub(crate) mask: u8,
}

/// The kernel of a dispatch, as its code object describes it.
fn kernel_of(reader: &Reader, dispatch: &Dispatch) -> (Kernel, Vec<u8>) {
    let code = reader.code_object(dispatch.code_object).unwrap();
    let record = reader.records().kernels.iter().find(|k| k.id == dispatch.kernel).unwrap();
    (CodeObject::parse(&code).unwrap().kernel(&record.symbol).unwrap().clone(), code)
}

/// Addresses among some bytes, at multiples of 8, and where they are.
fn addresses<'a>(memory: &'a Memory<'_>, bytes: &'a [u8]) -> impl Iterator<Item = (usize, u64)> + 'a {
    let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).enumerate();
    words.map(|(n, word)| (8 * n, word)).filter(|(_, word)| memory.read(*word, &mut [0; 4]).is_ok())
}

/// The first bytes at an address, as far as they were captured.
fn beginning(memory: &Memory<'_>, address: u64) -> Vec<u8> {
    let word = |at| {
        let mut word = [0; 4];
        memory.read(at, &mut word).ok().map(|()| word)
    };
    (address..address + LOOKED_AT).step_by(4).map_while(word).flatten().collect()
}

/// A bit of the first number at an address that is not zero, or of the first one if all are, addresses left out. One
/// whose exponent is that of a number between 2⁻⁶³ and 2⁶⁵ is taken for a float, of which a bit in the middle of the
/// mantissa is another; of others it is the lowest.
fn bit_at(memory: &Memory<'_>, address: u64) -> Option<Bit> {
    let bytes = beginning(memory, address);
    let pointers: Vec<usize> = addresses(memory, &bytes).map(|(at, _)| at).collect();
    let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).enumerate();
    let numbers: Vec<(usize, u32)> = words.filter(|(n, _)| !pointers.contains(&(4 * n / 8 * 8))).collect();
    let &(n, word) = numbers.iter().find(|(_, word)| *word != 0).or(numbers.first())?;
    let at = address + 4 * n as u64;
    let is_float = (64..192).contains(&(word >> 23 & 0xff));
    Some(if is_float { Bit { address: at + 2, mask: 0x10 } } else { Bit { address: at, mask: 1 } })
}

/// The bits that a dispatch's kernel may read: of what addresses among its arguments lead to, and of its variables.
/// What arguments lead to and the kernel left as it was is input, the best that there is; of variables and of what
/// it changed, it may have worked in place.
fn inputs(reader: &Reader, dispatch: &Dispatch) -> Vec<Bit> {
    let [before, after] = [dispatch.before, dispatch.after].map(|id| reader.snapshot(id.unwrap()).unwrap());
    let (kernel, _) = kernel_of(reader, dispatch);
    let mut led: Vec<u64> = Vec::new();
    let enter = |found: &mut Vec<u64>, bytes: &[u8]| found.extend(addresses(&before, bytes).map(|(_, to)| to));
    for argument in kernel.explicit() {
        let at = argument.offset as usize;
        enter(&mut led, &dispatch.kernarg[at..at + argument.size as usize]);
    }
    let mut next = 0;
    let mut seen = BTreeSet::new();
    while let Some(address) = led.get(next).copied() {
        next += 1;
        if seen.insert(address) {
            enter(&mut led, &beginning(&before, address));
        }
    }
    let mut once = BTreeSet::new();
    led.retain(|address| once.insert(*address));
    let of_code = reader.records().globals.iter().filter(|g| g.code_object == dispatch.code_object);
    let variables: Vec<u64> = of_code.map(|g| g.address).collect();
    let changed = |address: &u64| beginning(&before, *address) != beginning(&after, *address);
    let (changed_led, left): (Vec<u64>, Vec<u64>) = led.into_iter().partition(changed);
    let (changed_variables, constants): (Vec<u64>, Vec<u64>) = variables.into_iter().partition(changed);
    let all = [left, changed_variables, changed_led, constants].concat();
    all.into_iter().filter_map(|address| bit_at(&before, address)).collect()
}

/// Where a symbol's bytes are in a code object.
fn bytes_of(code: &[u8], symbol: &str) -> std::ops::Range<usize> {
    let file = object::File::parse(code).unwrap();
    let found = file.dynamic_symbols().find(|s| s.name() == Ok(symbol)).unwrap_or_else(|| panic!("no {symbol}"));
    let (start, size) = (found.address(), found.size());
    let inside = |s: &object::Segment<'_, '_>| (s.address()..s.address() + s.size()).contains(&start);
    let segment = file.segments().find(inside).unwrap();
    let at = (segment.file_range().0 + start - segment.address()) as usize;
    at..at + size as usize
}

/// An instruction that gives something to memory.
struct Store {
    /// Where it is in the code object.
    at: usize,
    /// How many bytes of each lane.
    bytes: u8,
}

/// The instructions by which a kernel gives results to memory: stores and atomics that are not of LDS. Those to buffers
/// may be of scratch.
fn stores(arch: &str, code: &[u8], kernel: &str) -> Vec<Store> {
    let decoder = Decoder::new(arch.parse().unwrap());
    let range = bytes_of(code, kernel);
    let mut at = range.start;
    let mut found = Vec::new();
    while at < range.end {
        let words: Vec<u32> =
            code[at..].chunks_exact(4).take(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
        let inst = decoder.decode(&words).unwrap_or_else(|e| panic!("{kernel} at {at:#x}: {e}"));
        if let (Family::Flat | Family::Global | Family::Mubuf, Access::Store(bytes, _) | Access::Atomic(_, bytes, _)) =
            (inst.op.family, inst.op.access)
        {
            found.push(Store { at, bytes });
        }
        at += usize::from(inst.size);
    }
    found
}

/// Makes a store or an atomic take its data from the register that has its address, or the lower half of it. Source:
/// the Vega ISA manual, FLAT and MUBUF: the address is in bits 32 to 39, the data in bits 40 to 47; gfx90a's manual:
/// bit 55 takes the data from accumulation registers, and data of more than 32 bits begins at an even one.
fn patch(code: &mut [u8], store: &Store) {
    let words = &mut code[store.at + 4..store.at + 8];
    let word = u32::from_le_bytes(words.try_into().unwrap());
    let address = if store.bytes > 4 { word & 0xfe } else { word & 0xff };
    words.copy_from_slice(&(word & !(0xff << 8 | 1 << 23) | address << 8).to_le_bytes());
}

/// What is different in a copy.
#[derive(Default)]
pub(crate) struct Changes {
    /// The dispatches that are in it, with bits of their memory before that are flipped.
    pub(crate) dispatches: BTreeMap<u64, Option<Bit>>,
    /// Code objects that are others.
    pub(crate) code: HashMap<Id, Vec<u8>>,
    /// A code object whose bytes are left out.
    pub(crate) lost: Option<Id>,
    /// A code object that was loaded at another address. Aligned arguments with an address in it go along.
    pub(crate) moved: Option<(Id, u64)>,
}

/// Writes a capture anew, changed.
pub(crate) fn copy(reader: &Reader, changes: &Changes, to: &Path) {
    let mut writer = Writer::create(to, &Options::default()).unwrap();
    let records = reader.records();
    records.sessions.iter().for_each(|s| writer.session(s).unwrap());
    let mut codes: HashMap<Id, Id> = HashMap::new();
    let mut places: Vec<(Range<u64>, u64)> = Vec::new();
    let mut last = FramePosition::default();
    let wanted = |d: &&Placed<Dispatch>| changes.dispatches.contains_key(&d.id);
    for dispatch in reader.dispatches().iter().filter(wanted) {
        let new = |place: FramePosition| place > last && place < dispatch.place;
        records.agents.iter().filter(|r| new(r.place)).for_each(|r| writer.agent(r).unwrap());
        for object in records.code_objects.iter().filter(|r| new(r.place)) {
            if changes.lost == Some(object.id) {
                codes.insert(object.id, object.id);
                continue;
            }
            let bytes = changes.code.get(&object.id).cloned().unwrap_or_else(|| reader.code_object(object.id).unwrap());
            codes.insert(object.id, writer.code_object(object, &bytes).unwrap());
        }
        for mut record in records.loaded.iter().filter(|r| new(r.place)).cloned() {
            if let Some((_, base)) = changes.moved.filter(|(id, _)| *id == record.code_object) {
                places.push((record.base..record.base + record.size, base));
                record.value.delta = record.delta.wrapping_add(base.wrapping_sub(record.base));
                record.value.base = base;
            }
            record.value.code_object = codes[&record.code_object];
            writer.loaded(&record).unwrap();
        }
        for mut record in records.kernels.iter().filter(|r| new(r.place)).cloned() {
            record.value.code_object = codes[&record.code_object];
            writer.kernel(&record).unwrap();
        }
        for mut record in records.globals.iter().filter(|r| new(r.place)).cloned() {
            record.value.code_object = codes[&record.code_object];
            writer.global(&record).unwrap();
        }
        records.queues.iter().filter(|r| new(r.place)).for_each(|r| writer.queue(r).unwrap());
        let allocations = reader.allocations_at(dispatch.place);
        allocations.iter().for_each(|r| writer.allocation(r).unwrap());
        let flipped = changes.dispatches[&dispatch.id];
        let before = copy_memory(&mut writer, &reader.snapshot(dispatch.before.unwrap()).unwrap(), None, flipped);
        let after = copy_memory(&mut writer, &reader.snapshot(dispatch.after.unwrap()).unwrap(), Some(before), None);
        let mut record = dispatch.value.clone();
        (record.before, record.after) = (Some(before), Some(after));
        record.code_object = codes[&record.code_object];
        for word in record.kernarg.as_chunks_mut().0 {
            let address = u64::from_le_bytes(*word);
            if let Some((old, new)) = places.iter().find(|(old, _)| old.contains(&address)) {
                *word = (address - old.start + new).to_le_bytes();
            }
        }
        writer.dispatch(&record).unwrap();
        allocations.iter().for_each(|r| writer.freed(r.base).unwrap());
        last = dispatch.place;
    }
    writer.finish().unwrap();
}

fn copy_memory(
    writer: &mut Writer,
    memory: &Memory<'_>,
    parent: Option<SnapshotId>,
    flipped: Option<Bit>,
) -> SnapshotId {
    let mut snapshot = writer.snapshot(parent);
    for Range { start, end } in memory.ranges() {
        let length = end - start;
        let mut read = |offset: u64, bytes: &mut [u8]| {
            memory.read(start + offset, bytes).map_err(std::io::Error::other)?;
            if let Some(bit) = flipped
                && let Some(byte) = bit.address.checked_sub(start + offset).and_then(|at| bytes.get_mut(at as usize))
            {
                *byte ^= bit.mask;
            }
            Ok(())
        };
        snapshot.range(start, length, &mut read).unwrap();
    }
    snapshot.finish().unwrap()
}

/// What `verify` says of each dispatch of a file.
fn verified(file: &Path, arch: &str, options: &[&str]) -> BTreeMap<u64, Value> {
    let options = [&["--json", "--repetitions", "1"], options].concat();
    let outcome = verify::on_file(Run::new(harness::built("omniprobe")), "verify", file, arch, &options);
    let lines = outcome.stdout.lines().map(|line| verify::in_short(&serde_json::from_str(line).unwrap()));
    lines.map(|said| (said["dispatch"].as_u64().unwrap(), said)).collect()
}

/// True when a verdict is a failure that names a buffer, an element, and what is in it that should not be.
fn names_an_element(said: &Value) -> bool {
    let named = said["buffers"].as_array().into_iter().flatten().any(|buffer| {
        let first = &buffer["first"];
        buffer["name"].is_string() && first["index"].is_u64() && first["expected"] != first["found"]
    });
    said["result"] == "FAIL" && said["status"] == 6 && named
}

/// Of the dispatches that do not fail, whatever is tried, what was said of them. What is tried comes by a number; it
/// leaves out dispatches in which there is nothing more to change.
fn that_pass(wanted: &[u64], mut attempt: impl FnMut(usize, &[u64]) -> BTreeMap<u64, Value>) -> Vec<Vec<Value>> {
    let mut left: BTreeMap<u64, Vec<Value>> = wanted.iter().map(|id| (*id, Vec::new())).collect();
    for number in 0..TRIES {
        let ids: Vec<u64> = left.keys().copied().collect();
        for (id, said) in attempt(number, &ids) {
            if names_an_element(&said) {
                left.remove(&id);
            } else if let Some(all) = left.get_mut(&id) {
                all.push(said);
            }
        }
        if left.is_empty() {
            break;
        }
    }
    left.into_values().collect()
}

/// Every dispatch of a capture is a PASS, which may be qualified, and its mutations fail and name the element. How many there
/// are.
pub(crate) fn fail(file: &Path, arch: &str) -> usize {
    let reader = Reader::open(file).unwrap();
    let said = verified(file, arch, &[]);
    let passed: Vec<u64> = said
        .iter()
        .filter(|(_, v)| v["result"].as_str().is_some_and(|r| r.starts_with("PASS")))
        .map(|(id, _)| *id)
        .collect();
    assert_eq!(passed.len(), reader.dispatches().len(), "{said:#?}");
    let of = |id: &u64| reader.dispatches().iter().find(|d| d.id == *id).unwrap();
    let copy_file = file.with_extension("changed.ldcap");

    let bits: HashMap<u64, Vec<Bit>> = passed.iter().map(|id| (*id, inputs(&reader, of(id)))).collect();
    let passing = that_pass(&passed, |number, left| {
        let with_bits = left.iter().filter_map(|id| Some((*id, Some(*bits[id].get(number)?))));
        verified_copy(&reader, Changes { dispatches: with_bits.collect(), ..Changes::default() }, arch, &copy_file, &[])
    });
    assert!(passing.is_empty(), "a byte of the input is another on {arch}: {passing:#?}");

    let passing = that_pass(&passed, |number, left| {
        let mut changes = Changes::default();
        for dispatch in left.iter().map(of) {
            let (kernel, original) = kernel_of(&reader, dispatch);
            if let Some(store) = stores(arch, &original, &kernel.name).get(number) {
                patch(changes.code.entry(dispatch.code_object).or_insert(original), store);
                changes.dispatches.insert(dispatch.id, None);
            }
        }
        by_another_code(&reader, changes, arch, &copy_file)
    });
    assert!(passing.is_empty(), "an instruction is another on {arch}: {passing:#?}");
    passed.len()
}

/// Verifies a changed copy; of no dispatches, nothing is said.
fn verified_copy(
    reader: &Reader,
    changes: Changes,
    arch: &str,
    copy_file: &Path,
    options: &[&str],
) -> BTreeMap<u64, Value> {
    if changes.dispatches.is_empty() {
        return BTreeMap::new();
    }
    copy(reader, &changes, copy_file);
    verified(copy_file, arch, options)
}

/// Verifies dispatches with other code: from files, as a user does who has changed a kernel; where the rules of the
/// kernel cache refuse that, as they do for code with variables, from a capture that has it.
fn by_another_code(reader: &Reader, changes: Changes, arch: &str, copy_file: &Path) -> BTreeMap<u64, Value> {
    let Changes { dispatches, code, .. } = changes;
    let mut options = Vec::new();
    for (id, bytes) in &code {
        let path = copy_file.with_extension(format!("{id}.hsaco"));
        fs::write(&path, bytes).unwrap();
        let of = if code.len() == 1 { "all".to_owned() } else { id.to_string() };
        options.extend(["--hsaco".to_owned(), format!("{of}={}", path.display())]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut said = verified_copy(reader, Changes { dispatches, ..Changes::default() }, arch, copy_file, &options);
    let refused = said.iter().filter(|(_, v)| v["error"].as_str().is_some_and(|text| text.contains("variables")));
    let dispatches = refused.map(|(id, _)| (*id, None)).collect();
    said.extend(verified_copy(reader, Changes { dispatches, code, ..Changes::default() }, arch, copy_file, &[]));
    said
}

/// A program's capture, of the kernels whose names match.
fn of_program(program: &str, arch: &str, kernels: &str) -> (PathBuf, harness::Outcome) {
    let run = Run::hip(program).arch(arch);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", kernels);
    (file, run.watched().passed())
}

#[test]
fn mutations_of_what_programs_computed_fail_and_name_the_element() {
    let programs = [
        // In place, atomics, LDS, pointers in memory and in structures that are arguments, pieces of an allocation.
        ("reached", "^(in_place|counted|turned|linked|viewed|pooled)$", 6),
        // Variables of the device; a managed one only where there is shared virtual memory.
        ("memory", "^(count|polynomial|square_managed)", 2),
        ("graphs", "^(step|combine)", 2),
    ];
    for arch in harness::archs() {
        for (program, kernels, dispatches) in programs {
            let (file, _run) = of_program(program, &arch, kernels);
            assert!(fail(&file, &arch) >= dispatches, "{program} on {arch}");
        }
    }
}

#[test]
fn mutations_of_kernels_of_triton_fail_and_name_the_element() {
    let arch = harness::arch();
    for case in ["softmax_781", "histogram"].into_iter().take(harness::count(1, 2)) {
        let (file, _run) = triton::captured(case, &arch);
        assert_eq!(fail(&file, &arch), 1, "{case}");
    }
}
