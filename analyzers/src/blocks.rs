//! How often waves enter each block, with how many lanes, and how long they are in it.

use std::collections::{BTreeMap, HashMap};

use logdur_analysis::forms::Out;
use logdur_analysis::forms::blocks::{self, Placed};
use logdur_handler::Open;
use logdur_handler::messages::{Kind, Message};

use crate::each::{About, Analyzer};

/// A wave: the workgroup, and its number there.
type Wave = ([u16; 3], u8);

/// A block: its file, its first line, and its number in the function.
type Block = (u64, u32, u32);

/// What executions of a block add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    /// A duration lasts until the wave's next block or its end.
    of: blocks::Total,
    /// The last line from which a message came.
    last_line: u32,
}

/// Blocks of a dispatch.
#[derive(Default)]
pub(crate) struct Blocks {
    blocks: BTreeMap<Block, Total>,
    /// The block that a wave is in, and since when.
    inside: HashMap<Wave, (Block, u64)>,
    placed: Placed,
}

impl Blocks {
    /// A wave leaves its block.
    fn leave(&mut self, wave: Wave, time: u64) {
        let Some((block, since)) = self.inside.remove(&wave) else { return };
        if let (Some(total), Some(ticks)) = (self.blocks.get_mut(&block), time.checked_sub(since)) {
            total.of.duration += ticks;
            total.of.timed += 1;
        }
    }
}

impl Analyzer for Blocks {
    const NAME: &'static str = blocks::NAME;
    const COLUMNS: &'static str = blocks::COLUMNS;
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
                total.of.count += 1;
                total.of.lanes += u64::from(header.lanes);
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
        let block = |((file, line, number), total): (&Block, &Total)| {
            let known = about.code.line(*file, *line).map(|line| line.file.clone());
            blocks::Block {
                number: (*number).into(),
                file: known.or_else(|| open.source_file(about.id, *file)).unwrap_or_default(),
                line: (*line).into(),
                last_line: total.last_line.into(),
                total: total.of,
                operations: about.code.operations(*file, *line..=total.last_line),
            }
        };
        let all: Vec<blocks::Block> = self.blocks.iter().map(block).collect();
        blocks::write(&about.dispatch(), &all, &self.placed, out);
    }
}
