//! `cargo xtask bench products`: how fast matrix instructions are emulated, in products of matrices whose factors are read from
//! global memory.

use anyhow::Result;

use super::median;
use super::waves::{RUNS, THREADS, measure};
use crate::{demo, dist, setup, shell};

/// The kinds of `tests/programs/products.hip`, and the processor that each is for.
const KINDS: [(&str, &str); 4] = [("f16", "gfx90a"), ("bf16", "gfx90a"), ("f16", "gfx942"), ("fp8", "gfx942")];
/// Multiply-adds of each.
const MULTIPLY_ADDS: f64 = (1u64 << 30) as f64;

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let source = shell::root().join("tests/programs/products.hip");
    println!("billions of multiply-adds in a second: the median of {RUNS} runs (the best)\n");
    println!("{:<14} {:>18} {:>18}", "kind", "one thread", "two threads");
    for (kind, arch) in KINDS {
        let title = format!("{kind}, {arch}");
        // The HIP of the machine may be older than the processor.
        let program = match demo::compile_for(&rocm, &source, arch) {
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
                let (_, seconds) = measure(&program, kind, arch, threads)?;
                rates.push(MULTIPLY_ADDS / seconds / 1e9);
            }
            let best = rates.iter().copied().fold(0.0, f64::max);
            columns.push(format!("{:.1} ({best:.1})", median(rates.into_iter())));
        }
        println!("{title:<14} {:>18} {:>18}", columns[0], columns[1]);
    }
    Ok(())
}
