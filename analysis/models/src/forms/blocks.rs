//! How often waves enter each block, with how many lanes, and how long they are in it: omniprobe's `BasicBlockAnalysis`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{About, Form, Out};
use crate::blocks::share;

/// Its name.
pub const NAME: &str = "BasicBlockAnalysis";
/// The header line of its comma-separated values.
pub const COLUMNS: &str = "kernel,dispatch_id,block,block_start_line,block_end_line,block_duration,kernel_file_name,\
                           block_branchiness,block_overhead,block_count";

/// Workgroups by XCC, shader engine and compute unit.
pub type Placed = BTreeMap<(u8, u8, u8), BTreeSet<[u16; 3]>>;

/// What executions of a block add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How often a wave entered it.
    pub count: u64,
    /// Active lanes of all times.
    pub lanes: u64,
    /// Ticks of the shader's clock, of executions that have a time.
    pub duration: u64,
    /// How many those are.
    pub timed: u64,
}

/// A block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its number in the kernel.
    pub number: u64,
    /// Its file; empty where that is not known.
    pub file: String,
    /// Its first line.
    pub line: u64,
    /// Its last.
    pub last_line: u64,
    /// Its executions.
    pub total: Total,
    /// How often each operation is in it.
    pub operations: BTreeMap<String, u64>,
}

/// Writes the blocks of a dispatch.
pub fn write(about: &About<'_>, blocks: &[Block], placed: &Placed, out: &mut Out) {
    let (count, lanes) = blocks.iter().fold((0, 0), |(c, l), block| (c + block.total.count, l + block.total.lanes));
    let of_kernel = 1.0 - share(lanes, count);
    if out.form == Form::Text {
        out.line(&format!("=== Basic blocks === {}[{}] branchiness {of_kernel:.3}", about.kernel, about.id));
    }
    for Block { number, file, line, last_line, total, operations } in blocks {
        let branchiness = 1.0 - share(total.lanes, total.count);
        let overhead = total.duration as f64 * branchiness;
        match out.form {
            Form::Json => out.object(&json!({
                "kernel": about.kernel, "dispatch_id": about.id, "kernel_branchiness": of_kernel, "block": number,
                "block_start_line": line, "block_end_line": last_line, "block_duration": total.duration,
                "block_timed": total.timed, "kernel_file_name": file, "block_branchiness": branchiness,
                "block_overhead": overhead, "block_count": total.count, "instructions": operations,
            })),
            Form::Csv => out.row(&[
                &about.kernel,
                &about.id,
                number,
                line,
                last_line,
                &total.duration,
                file,
                &branchiness,
                &overhead,
                &total.count,
            ]),
            Form::Text => out.line(&format!(
                "\tblock {number}{}: entered {} times, branchiness {branchiness:.3}, {} ticks in {} of them",
                if file.is_empty() { String::new() } else { format!(" {file}:{line}") },
                total.count,
                total.duration,
                total.timed
            )),
        }
    }
    if out.form == Form::Json {
        let place = |((xcc, se, cu), groups): (&(u8, u8, u8), &BTreeSet<[u16; 3]>)| -> Value {
            json!({"xcc_id": xcc, "se_id": se, "cu_id": cu, "workgroups": groups})
        };
        let placed: Vec<Value> = placed.iter().map(place).collect();
        out.object(&json!({"kernel": about.kernel, "dispatch_id": about.id, "placement": placed}));
    }
}
