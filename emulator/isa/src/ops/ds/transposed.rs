//! Loads of LDS that transpose: sixteen lanes read the rows of a matrix, and each of them gets a column.
//!
//! A matrix has sixteen columns, and as many rows as elements fit into what a lane reads. Lanes read it in the order of their numbers: so
//! many beside each other read a row. Source: CDNA4 ISA manual, "LDS Transpose Loads", and the layouts with which Triton and Composable
//! Kernel feed matrix instructions.

use super::{base_addresses, word};
use crate::env::Env;
use crate::inst::Inst;
use crate::lanes::blend;
use crate::op::{Access, Flow};
use crate::ops::scalar_flow::stop;
use crate::wave::{LANES, Trap, Vgpr, Wave};

/// Lanes that share a matrix, which are its columns.
const COLUMNS: usize = 16;
/// Words of a lane at most.
const WORDS: usize = 3;

/// Loads elements of `BITS` bits. Lanes that are off read nothing, and what they would give is zero.
#[inline(always)]
pub(super) fn load<const BITS: u32>(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let Access::Load(bytes, _) = i.op.access else { return stop(w, Trap::Illegal) };
    let words = usize::from(bytes) / 4;
    let at = base_addresses(w, i).map(|at| at.wrapping_add(i.imm as u32));
    let exec = w.exec();
    let lds = e.lds();
    let mut read: [Vgpr; WORDS] = [[0; LANES]; WORDS];
    for (n, register) in read.iter_mut().enumerate().take(words) {
        for l in (0..LANES).filter(|l| exec >> l & 1 == 1) {
            register[l] = word(lds, at[l], n as u32);
        }
    }
    for (n, column) in columns(u32::from(bytes), BITS, &read).iter().enumerate().take(words) {
        blend(w.vector_mut(i.dst, n as u32), column, exec);
    }
    Flow::Next
}

/// What lanes get of what they read: so many bytes a lane, of elements of so many bits.
#[inline(always)]
#[cfg_attr(not(feature = "semantics"), expect(unreachable_pub, reason = "what asks for it is not built"))]
pub fn columns(bytes: u32, bits: u32, read: &[Vgpr; WORDS]) -> [Vgpr; WORDS] {
    let each = 8 * bytes / bits;
    // Elements do not cross words but those of six bits.
    let element = |lane: usize, place: u32| {
        let (n, shift) = ((place * bits / 32) as usize, place * bits % 32);
        let above = if shift + bits > 32 { read[n + 1][lane] << (32 - shift) } else { 0 };
        (read[n][lane] >> shift | above) & ((1 << bits) - 1)
    };
    let mut columns: [Vgpr; WORDS] = [[0; LANES]; WORDS];
    for l in 0..LANES {
        for row in 0..each {
            // As many lanes as are needed for sixteen elements read a row.
            let column = (l % COLUMNS) as u32;
            let from = row * (COLUMNS as u32 / each) + column / each;
            let value = element(l / COLUMNS * COLUMNS + from as usize, column % each);
            let (n, shift) = ((row * bits / 32) as usize, row * bits % 32);
            columns[n][l] |= value << shift;
            if shift + bits > 32 {
                columns[n + 1][l] |= value >> (32 - shift);
            }
        }
    }
    columns
}
