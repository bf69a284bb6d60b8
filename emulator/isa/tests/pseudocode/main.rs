//! Every operation that AMD's pseudocode describes, against the emulator: random instructions in every mode of their encodings, on edge
//! and random operands, at each level of the host. The evaluator is ours; the text is fetched, and is not in the repository. Small formats are
//! compared with a package that is fetched with it.

mod accesses;
mod differences;
mod evaluate;
mod functions;
mod instructions;
#[path = "../oracles/memory.rs"]
mod memory;
mod model;
mod modes;
mod parse;
mod real;
mod small_formats;
mod text;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use amdgpu_isa::Arch;
use amdgpu_isa::op::{Family, Op};

use evaluate::Bodies;
use instructions::Machine;
use modes::Modes;
use parse::Body;

/// The text, if it was fetched: `cargo xtask test` sees to it.
fn fetched() -> Option<PathBuf> {
    let folder = text::folder();
    if folder.is_none() {
        println!("the pseudocode was not fetched: cargo xtask test does it");
    }
    folder
}

fn bodies(folder: &Path, family: &str) -> Bodies {
    text::read(folder, family).into_iter().map(|(name, text)| (name, parse::parse(&text::in_groups(&text)))).collect()
}

/// Instructions of each operation of a processor that are compared. `cargo xtask test --full` wants more, of an optimised build.
fn count() -> usize {
    std::env::var("LOGDUR_TEST_PSEUDOCODE_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// Families whose operations work on registers alone.
const OF_REGISTERS: [Family; 9] = [
    Family::Sop2,
    Family::Sopk,
    Family::Sop1,
    Family::Sopc,
    Family::Vop2,
    Family::Vop1,
    Family::Vopc,
    Family::Vop3,
    Family::Vop3p,
];

/// Families that access LDS or memory.
const OF_MEMORY: [Family; 5] = [Family::Ds, Family::Global, Family::Flat, Family::Mubuf, Family::Smem];

/// Families that are not compared, and why.
const LEFT_OUT: [(Family, &str); 3] = [
    (Family::Vop3px2, "its texts say nothing of scales; `matrix_formats` tests it"),
    (Family::Sopp, "its texts are of the program counter, of waits and of messages"),
    (
        Family::Scratch,
        "its texts are of an address that the driver places; `scratch`, `half_loads` and `lds_loads` test it",
    ),
];

#[test]
fn every_family_is_compared_or_left_out_for_a_reason() {
    for family in Family::ALL {
        let lists = [OF_REGISTERS.contains(&family), OF_MEMORY.contains(&family)];
        let is_left_out = LEFT_OUT.iter().any(|(other, why)| *other == family && !why.is_empty());
        assert!(lists.contains(&true) != is_left_out, "{family:?}");
    }
}

/// Compares operations of some families on every processor; says how many, and which have no text that is compared.
fn compare(
    folder: &Path,
    of: &[Family],
    compare: impl Fn(&mut Machine, &'static Op, &Body, &Bodies) -> Result<(), String>,
) {
    let rdna3 = text::read(folder, "rdna3");
    let mut bodies = bodies(folder, "cdna");
    bodies.extend(differences::EARLIER.iter().map(|(name, text)| ((*name).to_owned(), parse::parse(text))));
    bodies.extend(differences::OF_RDNA3.iter().map(|name| ((*name).to_owned(), parse::parse(&rdna3[*name]))));
    let (mut failures, mut left_out) = (BTreeMap::new(), BTreeSet::new());
    let (mut compared, mut operations, mut modes) = (0, BTreeSet::new(), Modes::default());
    for arch in Arch::ALL {
        let mut machine = Machine::new(arch);
        for op in amdgpu_isa::rows().filter(|op| op.archs.contains(arch) && of.contains(&op.family)) {
            let Some(body) = bodies.get(&differences::text_of(op.name)).filter(|_| !differences::is_other(op.name))
            else {
                left_out.insert(op.name);
                continue;
            };
            for _ in 0..count() {
                match body.as_ref().map_err(Clone::clone).and_then(|body| compare(&mut machine, op, body, &bodies)) {
                    Ok(()) => compared += 1,
                    Err(error) => {
                        failures.entry(op.name).or_insert(format!("{arch}: {error}"));
                        break;
                    }
                }
            }
            operations.insert(op.name);
        }
        modes.add(&machine.modes);
    }
    println!(
        "{compared} instructions of {} operations compared; {} left out: {left_out:?}",
        operations.len(),
        left_out.len()
    );
    modes.print();
    let without: Vec<_> = left_out.iter().filter(|name| !differences::is_other(name)).collect();
    assert!(without.is_empty(), "operations without a text that are not listed: {without:?}");
    assert!(failures.is_empty(), "{} operations differ: {failures:#?}", failures.len());
}

#[test]
fn every_operation_on_registers_gives_what_its_pseudocode_says_in_every_mode_of_its_encoding() {
    if let Some(folder) = fetched() {
        compare(&folder, &OF_REGISTERS, Machine::compare);
    }
}

#[test]
fn every_access_of_lds_and_memory_gives_and_leaves_what_its_pseudocode_says() {
    if let Some(folder) = fetched() {
        compare(&folder, &OF_MEMORY, Machine::compare_access);
    }
}

#[test]
fn the_texts_of_every_family_of_processors_are_statements_of_the_language() {
    let Some(folder) = fetched() else { return };
    for family in ["cdna", "rdna3", "rdna4"] {
        let bodies = bodies(&folder, family);
        let failed = bodies.iter().filter_map(|(name, body)| Some((name, body.as_ref().err()?)));
        let others: Vec<_> = failed.filter(|(name, _)| !differences::is_prose(name)).collect();
        assert!(bodies.len() > 1000 && others.is_empty(), "{family}: {others:#?}");
    }
}
