//! Floats of eight bits and less against `ml_dtypes`, which is fetched with the pseudocode: every code, and every single at which rounding
//! changes, with its neighbours.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use amdgpu_isa::fp::small::{E2M1, E2M3, E3M2, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, Format, Special};

/// Reads a format's name and singles as bits; writes the single of each code, and the code of each single.
const SCRIPT: &str = "
import sys
import numpy as np
import ml_dtypes

name, bits = sys.argv[1], int(sys.argv[2])
kind = getattr(ml_dtypes, name)
codes = np.arange(1 << bits, dtype=np.uint8).view(kind)
singles = np.frombuffer(sys.stdin.buffer.read(), dtype='<f4')
sys.stdout.buffer.write(codes.astype('<f4').tobytes())
sys.stdout.buffer.write((singles.astype(kind).view(np.uint8) & ((1 << bits) - 1)).tobytes())
";

/// What `ml_dtypes` makes of the codes of a format and of singles.
fn of_ml_dtypes<F: Format>(python: &Path, name: &str, singles: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let mut python = Command::new(python);
    python.args(["-c", SCRIPT, name, &F::BITS.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let bytes: Vec<u8> = singles.iter().flat_map(|single| single.to_le_bytes()).collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{name}");
    let (codes, rounded) = output.stdout.split_at(4 << F::BITS);
    assert_eq!(rounded.len(), singles.len(), "{name}");
    let codes = codes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    (codes.collect(), rounded.to_vec())
}

/// The numbers of a format, the middle of each two that follow each other, and both neighbours of each of these; powers of two; of both
/// signs.
fn singles<F: Format>() -> Vec<f32> {
    let mut numbers: Vec<f32> = (0..1 << F::BITS).map(F::to_f32).filter(|value| value.is_finite()).collect();
    numbers.sort_by(f32::total_cmp);
    let middles: Vec<f32> = numbers.windows(2).map(|pair| f32::midpoint(pair[0], pair[1])).collect();
    // Where the largest number's neighbour would be, if there were one.
    let largest = F::to_f32(F::MAX);
    let step = largest - F::to_f32(F::MAX - 1);
    let beyond = (1..=4).map(|halves| largest + step * halves as f32 / 2.0);
    let powers = (1..255_u32).map(|exponent| f32::from_bits(exponent << 23));
    let all = numbers.iter().copied().chain(middles).chain(beyond).chain(powers);
    let near = all.flat_map(|value| [value.next_down(), value, value.next_up()]);
    near.flat_map(|value| [value, -value]).filter(|value| value.is_finite()).collect()
}

fn agrees<F: Format>(python: &Path, name: &str) {
    let mut singles = singles::<F>();
    let has_nan = F::SPECIAL != Special::None;
    if has_nan {
        singles.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    }
    let (codes, rounded) = of_ml_dtypes::<F>(python, name, &singles);
    for (code, expected) in (0..).zip(codes) {
        let found = F::to_f32(code);
        let is_equal = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(is_equal, "{name}: {code:#x} is {found}, expected {expected}");
    }
    for (single, expected) in singles.into_iter().zip(rounded) {
        // Codes of NaN differ in bits that mean nothing.
        let found = F::nearest(single, !has_nan);
        let is_nan = |code: u32| F::to_f32(code).is_nan();
        let is_equal = found == u32::from(expected) || is_nan(found) && is_nan(expected.into());
        assert!(is_equal, "{name}: {single:e} ({:#x}) becomes {found:#x}, expected {expected:#x}", single.to_bits());
    }
}

#[test]
fn every_code_and_every_rounding_of_small_formats_is_that_of_ml_dtypes() {
    let Some(folder) = crate::fetched() else { return };
    // The environment's folder, above lib/python/site-packages/tinygrad/runtime/autogen/amd.
    let python = &folder.ancestors().nth(7).unwrap().join("bin/python");
    agrees::<E4M3Fnuz>(python, "float8_e4m3fnuz");
    agrees::<E5M2Fnuz>(python, "float8_e5m2fnuz");
    agrees::<E4M3>(python, "float8_e4m3fn");
    agrees::<E5M2>(python, "float8_e5m2");
    agrees::<E2M3>(python, "float6_e2m3fn");
    agrees::<E3M2>(python, "float6_e3m2fn");
    agrees::<E2M1>(python, "float4_e2m1fn");
}
