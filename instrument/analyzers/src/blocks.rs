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
    /// The column where it begins.
    column: u32,
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
    /// The block of an instruction at a line and column of a file: of those that have the line the one that begins last before it, or else
    /// first. `None` where several begin at one place.
    fn at(&self, file: u64, line: u32, column: u32) -> Option<u32> {
        let there = self.blocks.range((file, 0, 0)..=(file, line, u32::MAX));
        let there = there.filter(|(_, total)| line <= total.last_line);
        let starts: Vec<((u32, u32), u32)> = there.map(|((_, at, n), total)| ((*at, total.column), *n)).collect();
        let before = starts.iter().map(|(start, _)| *start).filter(|start| *start <= (line, column)).max();
        let start = before.or_else(|| starts.iter().map(|(start, _)| *start).min())?;
        let mut its = starts.iter().filter(|(of, _)| *of == start);
        its.next().filter(|_| its.next().is_none()).map(|(_, number)| *number)
    }

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
                total.column = header.column;
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
                operations: about.code.operations(*file, *line..=total.last_line, |at, column| {
                    self.at(*file, at, column) == Some(*number)
                }),
            }
        };
        let all: Vec<blocks::Block> = self.blocks.iter().map(block).collect();
        blocks::write(&about.dispatch(), &all, &self.placed, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_begin_on_one_line_share_its_instructions_by_columns() {
        let begins =
            |line, number, column, last_line| ((1, line, number), Total { column, last_line, ..Total::default() });
        let blocks = [
            begins(10, 0, 3, 14),
            begins(12, 1, 5, 12),
            begins(12, 2, 20, 12),
            begins(12, 3, 20, 12),
            begins(12, 4, 40, 13),
            begins(30, 5, 9, 30),
        ];
        let blocks = Blocks { blocks: blocks.into(), ..Blocks::default() };
        assert_eq!(blocks.at(1, 12, 7), Some(1));
        assert_eq!(blocks.at(1, 12, 50), Some(4));
        assert_eq!(blocks.at(1, 12, 25), None, "two blocks begin there");
        assert_eq!(blocks.at(1, 12, 2), Some(0), "the line begins in the block before");
        assert_eq!(blocks.at(1, 13, 0), Some(4));
        assert_eq!(blocks.at(1, 14, 0), Some(0));
        assert_eq!(blocks.at(1, 30, 0), Some(5), "it is the only one");
        assert_eq!(blocks.at(1, 20, 0), None);
    }
}
