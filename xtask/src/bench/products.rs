//! `cargo xtask bench products`: how fast matrix instructions are emulated, in products of matrices whose factors are read from
//! global memory.

use anyhow::{Context, Result};

use super::waves::{RUNS, THREADS, measure};
use super::{calibration, median};
use crate::rocm;
use crate::setup::{self, Rocm};
use crate::{demo, dist, shell};

/// The kinds of `tests/programs/products.hip`, and the processor that each is for.
const KINDS: [(&str, &str); 7] = [
    ("f16", "gfx90a"),
    ("bf16", "gfx90a"),
    ("f16", "gfx942"),
    ("fp8", "gfx942"),
    ("f16", "gfx950"),
    ("fp8", "gfx950"),
    ("fp4", "gfx950"),
];
/// Multiply-adds of each: matrices of 1024 rows and columns, by 256 workgroups.
const MULTIPLY_ADDS: f64 = (1u64 << 30) as f64;
/// The runtime's kernel that fills the results has fewer instructions, a product of four bits hardly more.
const LEAST_INSTRUCTIONS: u64 = 100_000;

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let source = shell::root().join("tests/programs/products.hip");
    println!(
        "billions of multiply-adds in a second, and seconds of a product: the medians of {RUNS} runs (the best)\n"
    );
    println!("{:<14} {:>26} {:>26}", "kind", "one thread", "two threads");
    let (mut calibration, mut newest) = (Vec::new(), None);
    for (kind, arch) in KINDS {
        let title = format!("{kind}, {arch}");
        // The HIP of the machine may be older than the processor.
        let older = |error| match newer(&mut newest) {
            Ok(rocm) => demo::compile_for(rocm, &source, arch),
            Err(other) => Err(other.context(error)),
        };
        let program = match demo::compile_for(&rocm, &source, arch).or_else(older) {
            Ok(program) => program,
            Err(error) => {
                println!("{title:<14} not run: {error:#}");
                continue;
            }
        };
        let mut columns = Vec::new();
        for threads in THREADS {
            let mut rates = Vec::new();
            for _ in 0..RUNS {
                calibration.extend(calibration::multiply_adds().map(|rate| rate / 1e9));
                let (_, seconds) = measure(&program, kind, arch, threads, LEAST_INSTRUCTIONS)?;
                rates.push(MULTIPLY_ADDS / seconds / 1e9);
            }
            let best = rates.iter().copied().fold(0.0, f64::max);
            let rate = median(rates.into_iter());
            columns.push(format!("{rate:.1} ({best:.1}), {:.3} s", MULTIPLY_ADDS / rate / 1e9));
        }
        println!("{title:<14} {:>26} {:>26}", columns[0], columns[1]);
    }
    if !calibration.is_empty() {
        let best = calibration.iter().copied().fold(0.0, f64::max);
        println!("\none core, singles in registers: {:.1} ({best:.1})", median(calibration.into_iter()));
    }
    Ok(())
}

/// The newest ROCm that can be had, unpacked when it is first needed.
fn newer(newest: &mut Option<Rocm>) -> Result<&Rocm> {
    if newest.is_none() {
        let unpacked = rocm::unpack(rocm::GENERATIONS.last().context("no ROCm")?)?;
        let hipcc = unpacked.folder.join("bin/hipcc");
        *newest = Some(Rocm { root: Some(unpacked.folder), hipcc });
    }
    newest.as_ref().context("it was just unpacked")
}
