//! How often waves enter each block, with how many lanes, and how long they are in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use logdur_analysis::blocks::share;
use logdur_handler::messages::{Kind, Message};
use logdur_handler::{Format, Open};
use serde_json::json;

use crate::each::{About, Analyzer, Out};

/// A wave: the workgroup, and its number there.
type Wave = ([u16; 3], u8);

/// A block: its file, its first line, and its number in the function.
type Block = (u64, u32, u32);

/// What executions of a block add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    lanes: u64,
    /// Ticks of the shader's clock until the wave's next block or its end, of `timed` executions.
    duration: u64,
    timed: u64,
    /// The last line from which a message came.
    last_line: u32,
}

/// Blocks of a dispatch.
#[derive(Default)]
pub(crate) struct Blocks {
    blocks: BTreeMap<Block, Total>,
    /// The block that a wave is in, and since when.
    inside: HashMap<Wave, (Block, u64)>,
    /// Workgroups by XCC, shader engine and compute unit.
    placed: BTreeMap<(u8, u8, u8), BTreeSet<[u16; 3]>>,
}

impl Blocks {
    /// A wave leaves its block.
    fn leave(&mut self, wave: Wave, time: u64) {
        let Some((block, since)) = self.inside.remove(&wave) else { return };
        if let (Some(total), Some(ticks)) = (self.blocks.get_mut(&block), time.checked_sub(since)) {
            total.duration += ticks;
            total.timed += 1;
        }
    }
}

impl Analyzer for Blocks {
    const NAME: &'static str = "BasicBlockAnalysis";
    const COLUMNS: &'static str = "kernel,dispatch_id,block,block_start_line,block_end_line,block_duration,kernel_file_name,\
                                   block_branchiness,block_overhead,block_count";
    const NEEDS_CODE: bool = true;

    fn begin(_open: &Open) -> Result<Blocks, String> {
        Ok(Blocks::default())
    }

    fn message(&mut self, _about: &About, message: &Message<'_>, _out: &mut Out) {
        let header = &message.header;
        let wave = (header.block, header.wave);
        match header.kind {
            Kind::BlockStart => {
                self.leave(wave, header.timestamp);
                let block = (header.file, header.line, header.user_data);
                let total = self.blocks.entry(block).or_default();
                total.count += 1;
                total.lanes += u64::from(header.lanes);
                total.last_line = total.last_line.max(header.line);
                self.inside.insert(wave, (block, header.timestamp));
                self.placed.entry((header.xcc, header.se, header.cu)).or_default().insert(header.block);
            }
            // Sent at the end of the wave.
            Kind::TimeInterval => self.leave(wave, message.interval().map_or(header.timestamp, |(_, end)| end)),
            _ => {
                let block = self.inside.get(&wave).map(|(block, _)| *block).filter(|block| block.0 == header.file);
                if let Some(total) = block.and_then(|block| self.blocks.get_mut(&block)) {
                    total.last_line = total.last_line.max(header.line);
                }
            }
        }
    }

    fn end(self, about: &About, open: &Open, out: &mut Out) {
        let (count, lanes) = self.blocks.values().fold((0, 0), |(count, lanes), t| (count + t.count, lanes + t.lanes));
        let of_kernel = 1.0 - share(lanes, count);
        if out.format == Format::Text {
            out.line(&format!("=== Basic blocks === {}[{}] branchiness {of_kernel:.3}", about.kernel, about.id));
        }
        for ((file, line, number), total) in &self.blocks {
            let known = about.code.line(*file, *line).map(|line| line.file.clone());
            let name = known.or_else(|| open.source_file(about.id, *file)).unwrap_or_default();
            let branchiness = 1.0 - share(total.lanes, total.count);
            let overhead = total.duration as f64 * branchiness;
            match out.format {
                Format::Json => out.object(&json!({
                    "kernel": about.kernel, "dispatch_id": about.id, "kernel_branchiness": of_kernel, "block": number,
                    "block_start_line": line, "block_end_line": total.last_line, "block_duration": total.duration,
                    "block_timed": total.timed, "kernel_file_name": name, "block_branchiness": branchiness,
                    "block_overhead": overhead, "block_count": total.count,
                    "instructions": about.code.operations(*file, *line..=total.last_line),
                })),
                Format::Csv => out.row(&[
                    &about.kernel, &about.id, number, line, &total.last_line, &total.duration, &name, &branchiness,
                    &overhead, &total.count,
                ]),
                Format::Text => out.line(&format!(
                    "\tblock {number} {name}:{line}: entered {} times, branchiness {branchiness:.3}, {} ticks in {} of them",
                    total.count, total.duration, total.timed
                )),
            }
        }
        if out.format == Format::Json {
            let place = |((xcc, se, cu), groups): (&(u8, u8, u8), &BTreeSet<[u16; 3]>)| json!({"xcc_id": xcc, "se_id": se, "cu_id": cu, "workgroups": groups});
            let placed: Vec<_> = self.placed.iter().map(place).collect();
            out.object(&json!({"kernel": about.kernel, "dispatch_id": about.id, "placement": placed}));
        }
    }
}
