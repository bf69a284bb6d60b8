//! Rows of a running process: cells that the dispatches of one kernel and shape have in common are formatted once.

use crate::columns::{COLUMNS, Cell, Cells, Common, Flags, Row, own_cells};
use crate::lines::Lines;

/// Templates that are kept: applications repeat few kernels and shapes.
const TEMPLATES: usize = 256;
/// The numbers of neighbouring dispatches differ in their last digits only.
const LOW_DIGITS: usize = 8;
const LOW: u64 = 10_u64.pow(LOW_DIGITS as u32);
/// Short texts are copied in one piece of this size, of which the next one overwrites the rest: no call, no loop.
const PIECE: usize = 32;
/// An own cell is no longer than this: that of all flags is the longest.
const LONGEST: usize = 160;
/// What makes characters of eight digits.
const ZEROS: u64 = u64::from_le_bytes([b'0'; LOW_DIGITS]);

/// Writes the rows of one process, in which a kernel's number always stands for the same kernel.
#[derive(Debug)]
pub struct Rows {
    lines: Lines,
    /// By [`Common::hash`].
    templates: Vec<Option<Template>>,
    /// The row that is being written, and room for any other of its template.
    line: Vec<u8>,
    /// The template whose beginning the line has; [`TEMPLATES`] if it has none.
    last: usize,
}

/// The row of a kernel and shape without its own cells.
#[derive(Debug)]
struct Template {
    common: Common,
    /// What stands before the first own cell, with a name that may be long.
    begin: Vec<u8>,
    own: Vec<Own>,
    /// What stands behind the last one.
    end: Text,
    /// No row is longer, not even with a whole piece in place of each text's rest.
    most: usize,
}

/// What stands before an own cell.
#[derive(Debug)]
struct Own {
    before: Text,
    /// `before` and a cell without flags.
    with_no_flags: Text,
    /// `before` and an empty cell.
    with_nothing: Text,
    /// The last number in the cell without its [`LOW_DIGITS`]; 0 before there was one.
    high: u64,
    /// `before` and the digits of `high`.
    with_high: Text,
}

#[derive(Debug)]
enum Text {
    Short([u8; PIECE], usize),
    Long(Vec<u8>),
}

impl Rows {
    /// Rows of a format.
    pub fn new(lines: Lines) -> Rows {
        let templates = std::iter::repeat_with(|| None).take(TEMPLATES).collect();
        Rows { lines, templates, line: Vec::new(), last: TEMPLATES }
    }

    /// A row, as [`Lines::row`] writes it.
    pub fn write(&mut self, to: &mut Vec<u8>, row: &Row<'_>) {
        let common = row.common();
        let slot = (common.hash() >> 56) as usize % TEMPLATES;
        let known = &mut self.templates[slot];
        if known.as_ref().is_none_or(|template| template.common != common) {
            *known = Some(Template::of(self.lines, common, row));
            self.last = TEMPLATES;
        }
        let Some(template) = known else { return };
        if self.last != slot {
            self.line.resize(template.most.max(self.line.len()), 0);
            self.line[..template.begin.len()].copy_from_slice(&template.begin);
            self.last = slot;
        }
        let own = template.own.iter_mut();
        let mut cells = OwnCells { lines: self.lines, own, line: &mut self.line, end: template.begin.len() };
        own_cells(row, &mut cells);
        let end = template.end.write(cells.line, cells.end);
        to.extend_from_slice(&self.line[..end]);
    }
}

/// Writes the own cells of a row, and what stands before each.
struct OwnCells<'a, I> {
    lines: Lines,
    own: I,
    line: &'a mut [u8],
    /// Where the row ends.
    end: usize,
}

impl<'a, I: Iterator<Item = &'a mut Own>> Cells for OwnCells<'_, I> {
    #[inline(always)]
    fn put(&mut self, cell: Cell<'_>) {
        let Some(own) = self.own.next() else { return };
        // The end goes from hand to hand in a register: each piece begins where the last one ends.
        self.end = match cell {
            Cell::Number(number) => own.number(self.line, self.end, number),
            Cell::Flags(flags) if flags.is_empty() => own.with_no_flags.write(self.line, self.end),
            Cell::Nothing => own.with_nothing.write(self.line, self.end),
            other => own.other(self.lines, self.line, self.end, &other),
        };
    }
}

impl Template {
    fn of(lines: Lines, common: Common, row: &Row<'_>) -> Template {
        let (mut text, mut before) = (Vec::new(), Vec::new());
        for (position, column) in COLUMNS.iter().enumerate() {
            lines.begin_cell(&mut text, position);
            if column.is_own {
                before.push(std::mem::take(&mut text));
            } else {
                lines.cell(&mut text, &(column.cell)(row));
            }
        }
        lines.end_row(&mut text);
        let texts = text.len() + before.iter().map(Vec::len).sum::<usize>();
        let begin = before.first_mut().map(std::mem::take).unwrap_or_default();
        let own = before.into_iter().map(|before| Own::after(lines, before)).collect();
        Template { common, begin, own, end: Text::of(&text), most: texts + COLUMNS.len() * (LONGEST + PIECE) }
    }
}

impl Own {
    fn after(lines: Lines, before: Vec<u8>) -> Own {
        let with = |cell: Cell<'_>| {
            let mut text = before.clone();
            lines.cell(&mut text, &cell);
            Text::of(&text)
        };
        Own {
            before: Text::of(&before),
            with_no_flags: with(Cell::Flags(Flags::default())),
            with_nothing: with(Cell::Nothing),
            high: 0,
            with_high: Text::of(&before),
        }
    }

    /// Writes what stands before the cell, and a number in decimal. Returns where it ends.
    #[inline(always)]
    fn number(&mut self, line: &mut [u8], end: usize, number: u64) -> usize {
        let (high, low) = (number / LOW, number % LOW);
        let digits = low_digits(low);
        if high == 0 {
            let end = self.before.write(line, end);
            let zeros = (digits.trailing_zeros() / 8).min(LOW_DIGITS as u32 - 1);
            piece(line, end, &((digits | ZEROS) >> (8 * zeros)).to_le_bytes(), LOW_DIGITS - zeros as usize)
        } else {
            if high != self.high {
                self.remember(high);
            }
            let end = self.with_high.write(line, end);
            piece(line, end, &(digits | ZEROS).to_le_bytes(), LOW_DIGITS)
        }
    }

    #[cold]
    fn remember(&mut self, high: u64) {
        let mut text = self.before.bytes().to_vec();
        text.extend_from_slice(itoa::Buffer::new().format(high).as_bytes());
        self.with_high = Text::of(&text);
        self.high = high;
    }

    /// Writes what stands before the cell, and a cell that is no number.
    #[cold]
    fn other(&self, lines: Lines, line: &mut [u8], end: usize, cell: &Cell<'_>) -> usize {
        let mut text = self.before.bytes().to_vec();
        lines.cell(&mut text, cell);
        Text::of(&text).write(line, end)
    }
}

impl Text {
    fn of(text: &[u8]) -> Text {
        let mut piece = [0; PIECE];
        match piece.get_mut(..text.len()) {
            Some(begin) => {
                begin.copy_from_slice(text);
                Text::Short(piece, text.len())
            }
            None => Text::Long(text.to_vec()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Text::Short(piece, length) => &piece[..*length],
            Text::Long(text) => text,
        }
    }

    /// Writes the text, and returns where it ends.
    #[inline(always)]
    fn write(&self, line: &mut [u8], end: usize) -> usize {
        match self {
            Text::Short(text, length) => piece(line, end, text, *length),
            Text::Long(text) => {
                line[end..end + text.len()].copy_from_slice(text);
                end + text.len()
            }
        }
    }
}

/// Writes a piece of which the first bytes count, and returns where they end.
#[inline(always)]
fn piece<const N: usize>(line: &mut [u8], end: usize, piece: &[u8; N], length: usize) -> usize {
    line[end..end + N].copy_from_slice(piece);
    end + length
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
            let mut line = [0; 2 * PIECE];
            let end = Own::after(Lines::of(Format::Csv), Vec::new()).number(&mut line, 0, number);
            assert_eq!(&line[..end], number.to_string().as_bytes());
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
                record.site.store((n % 3) as u32, Ordering::Relaxed);
                record.thread.store((n % 5) as u32 * 900_000, Ordering::Relaxed);
                record.kernel_object().store(0x7f00_0000 + u64::from(kernel), Ordering::Relaxed);
                record.set_flags(if n.is_multiple_of(11) { flag::SHARED_SIGNAL } else { 0 });
                let start = 1_700_000_000_000_000_000 + n * n * 31;
                let known = Kernel {
                    replaced: if kernel.is_multiple_of(2) { String::new() } else { "1a2b".to_owned() },
                    kernarg_size: (!kernel.is_multiple_of(3)).then_some(kernel),
                    registers: Registers { vgprs: Some(kernel), ..Registers::default() },
                    code: if kernel.is_multiple_of(5) { String::new() } else { "a \"b\".so#12".to_owned() },
                    ..Kernel::default()
                };
                let row = Row {
                    kernel: &format!("=f<{kernel}, \"\">()"),
                    symbol: if kernel.is_multiple_of(7) { "" } else { "_Z1fv" },
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
