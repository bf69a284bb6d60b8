//! Rows of a running process: cells that the dispatches of one kernel and shape have in common are formatted once.

use crate::columns::{COLUMNS, Cell, Cells, Common, Row, own_cells};
use crate::lines::Lines;

/// Templates that are kept: applications repeat few kernels and shapes.
const TEMPLATES: usize = 256;
/// The numbers of neighbouring dispatches differ in their last digits only.
const LOW_DIGITS: usize = 8;
const LOW: u64 = 10_u64.pow(LOW_DIGITS as u32);
/// Short texts are copied in one piece of this size, of which the end is taken off again: no call, no loop.
const PIECE: usize = 16;
/// What makes characters of eight digits.
const ZEROS: u64 = u64::from_le_bytes([b'0'; LOW_DIGITS]);

/// Writes the rows of one process, in which a kernel's number always stands for the same kernel.
#[derive(Debug)]
pub struct Rows {
    lines: Lines,
    /// By [`Common::hash`].
    templates: Vec<Option<Template>>,
    /// For each own column, the upper digits of its last number.
    high: [High; COLUMNS.len()],
}

/// The row of a kernel and shape without its own cells.
#[derive(Debug)]
struct Template {
    common: Common,
    /// What stands before each own cell.
    before: Vec<Text>,
    /// What stands behind the last one.
    end: Vec<u8>,
}

#[derive(Debug)]
enum Text {
    Short([u8; PIECE], usize),
    Long(Vec<u8>),
}

/// The digits of a number without the last [`LOW_DIGITS`].
#[derive(Clone, Copy, Debug, Default)]
struct High {
    number: u64,
    digits: [u8; PIECE],
    length: usize,
}

impl Rows {
    /// Rows of a format.
    pub fn new(lines: Lines) -> Rows {
        let templates = std::iter::repeat_with(|| None).take(TEMPLATES).collect();
        Rows { lines, templates, high: [High::default(); COLUMNS.len()] }
    }

    /// A row, as [`Lines::row`] writes it.
    pub fn write(&mut self, to: &mut Vec<u8>, row: &Row<'_>) {
        let common = row.common();
        let slot = (common.hash() >> 56) as usize % TEMPLATES;
        let known = &mut self.templates[slot];
        if known.as_ref().is_none_or(|template| template.common != common) {
            *known = Some(Template::of(self.lines, common, row));
        }
        let Some(template) = known else { return };
        let own = template.before.iter().zip(&mut self.high);
        own_cells(row, &mut OwnCells { lines: self.lines, own, to });
        to.extend_from_slice(&template.end);
    }
}

/// Writes the own cells of a row, and what stands before each.
struct OwnCells<'a, I> {
    lines: Lines,
    own: I,
    to: &'a mut Vec<u8>,
}

impl<'a, I: Iterator<Item = (&'a Text, &'a mut High)>> Cells for OwnCells<'_, I> {
    #[inline(always)]
    fn put(&mut self, cell: Cell<'_>) {
        let Some((before, high)) = self.own.next() else { return };
        match before {
            Text::Short(piece, length) => extend(self.to, piece, *length),
            Text::Long(text) => self.to.extend_from_slice(text),
        }
        match cell {
            Cell::Number(number) => high.write(self.to, number),
            other => self.lines.cell(self.to, &other),
        }
    }
}

impl Template {
    fn of(lines: Lines, common: Common, row: &Row<'_>) -> Template {
        let (mut text, mut before) = (Vec::new(), Vec::new());
        for (position, column) in COLUMNS.iter().enumerate() {
            lines.begin_cell(&mut text, position);
            if column.is_own {
                before.push(Text::of(std::mem::take(&mut text)));
            } else {
                lines.cell(&mut text, &(column.cell)(row));
            }
        }
        lines.end_row(&mut text);
        Template { common, before, end: text }
    }
}

impl Text {
    fn of(text: Vec<u8>) -> Text {
        let mut piece = [0; PIECE];
        match piece.get_mut(..text.len()) {
            Some(begin) => {
                begin.copy_from_slice(&text);
                Text::Short(piece, text.len())
            }
            None => Text::Long(text),
        }
    }
}

/// Appends the first bytes of a piece.
#[inline]
fn extend(to: &mut Vec<u8>, piece: &[u8; PIECE], length: usize) {
    let end = to.len() + length;
    to.extend_from_slice(piece);
    to.truncate(end);
}

impl High {
    /// A number in decimal.
    fn write(&mut self, to: &mut Vec<u8>, number: u64) {
        let (high, low) = (number / LOW, number % LOW);
        let digits = low_digits(low);
        if high == 0 {
            let zeros = (digits.trailing_zeros() / 8).min(LOW_DIGITS as u32 - 1);
            let end = to.len() + LOW_DIGITS - zeros as usize;
            to.extend_from_slice(&((digits | ZEROS) >> (8 * zeros)).to_le_bytes());
            to.truncate(end);
            return;
        }
        if high != self.number {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(high).as_bytes();
            self.number = high;
            self.length = digits.len();
            self.digits[..digits.len()].copy_from_slice(digits);
        }
        extend(to, &self.digits, self.length);
        to.extend_from_slice(&(digits | ZEROS).to_le_bytes());
    }
}

/// A number below [`LOW`] as a digit in each byte, the first one in the lowest. The number is split into halves, each half
/// again into halves, until there is one digit in each.
fn low_digits(number: u64) -> u64 {
    // Each step replaces `x` by its quotient and its remainder, side by side. The reciprocals are exact in these ranges.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::lines::Format;
    use crate::names::{Kernel, Registers};
    use crate::process::Process;
    use crate::record::{Record, Shape, flag};

    #[test]
    fn eight_digits_are_those_of_the_standard_library() {
        let edges = [0, 1, 9, 10, 99, 100, 9_999, 10_000, 10_001, 99_999, 12_345_678, 99_990_000, LOW - 1];
        for number in edges.into_iter().chain((0..LOW).step_by(997)) {
            assert_eq!((low_digits(number) | ZEROS).to_le_bytes(), *format!("{number:08}").as_bytes(), "{number}");
            let mut text = Vec::new();
            High::default().write(&mut text, number);
            assert_eq!(text, number.to_string().as_bytes());
        }
    }

    #[test]
    fn rows_are_those_that_are_written_one_by_one_also_when_templates_share_a_place() {
        let record = Record::default();
        for format in [Format::Csv, Format::CsvSafe, Format::Json] {
            let lines = Lines::of(format);
            let mut rows = Rows::new(lines);
            for n in 0..5_000_u64 {
                let kernel = (n * 7 % 900) as u32;
                let grid = [64 << (n % 3), 1 + (n % 2) as u32, 1];
                let shape = Shape { kernel, grid, workgroup: [64, 1, 1], lds_bytes: kernel % 5, ..Shape::default() };
                record.id.store(n * 977_777 * n, Ordering::Relaxed);
                record.kernel_object.store(0x7f00_0000 + u64::from(kernel), Ordering::Relaxed);
                record.set_flags(if n.is_multiple_of(11) { flag::SHARED_SIGNAL } else { 0 });
                let start = 1_700_000_000_000_000_000 + n * n * 31;
                let known = Kernel {
                    replaced: if kernel.is_multiple_of(2) { String::new() } else { "1a2b".to_owned() },
                    kernarg_size: (!kernel.is_multiple_of(3)).then_some(kernel),
                    registers: Registers { vgprs: Some(kernel), ..Registers::default() },
                    ..Kernel::default()
                };
                let row = Row {
                    kernel: &format!("=f<{kernel}, \"\">()"),
                    known: Some(&known).filter(|_| kernel != 4),
                    process: Process { pid: 17, rank: None },
                    dispatch: (!n.is_multiple_of(13)).then_some(start),
                    times: (!n.is_multiple_of(17)).then_some((start + n, start + 2 * n - n % 5)),
                    agent: (n % 2) as usize,
                    queue: n % 4,
                    shape,
                    record: &record,
                    late: None,
                };
                let (mut fast, mut plain) = (Vec::new(), Vec::new());
                rows.write(&mut fast, &row);
                lines.row(&mut plain, &row);
                assert_eq!(String::from_utf8(fast), String::from_utf8(plain));
            }
        }
    }
}
