//! Lines of comma-separated values: their cells, and where the columns are in them.

use csv_core::ReadRecordResult;
use logdur_journal::columns::COLUMNS;
use logdur_journal::lines::APOSTROPHE;

use super::{Column, HEADER, Kind, MOST_CELLS, NAMES, Process, Row, unexpected, unexpected_kind};

/// Where the columns are in a line.
#[derive(Clone, Debug)]
pub(super) struct Header {
    places: [Option<usize>; NAMES.len()],
    /// Where the columns are that [`Log::choose`](super::Log::choose) asks for.
    pub(super) chosen: Vec<Option<usize>>,
    cells: usize,
    /// Texts have an apostrophe before them where a spreadsheet would take them for formulas.
    pub(super) is_safe: bool,
}

/// Splits a line into its cells.
pub(super) fn split_own(line: &[u8], header: Option<&Header>, cells: &mut Cells) -> Result<(), String> {
    let own = own_part(line, header, cells);
    cells.split(own)
}

/// A line without what an application has written before it, without a line break, on the same standard output. Names are in quotes.
fn own_part<'a>(line: &'a [u8], header: Option<&Header>, cells: &mut Cells) -> &'a [u8] {
    let Some(header) = header else {
        let at = memchr::memmem::find(line, HEADER).unwrap_or(0);
        return line.get(at..).unwrap_or(line);
    };
    let is_plain =
        |cells: &Cells| cells.count == header.cells && cells.get(0).is_some_and(|name| !name.contains(&b'"'));
    match memchr::memchr(b'"', line) {
        None | Some(0) => line,
        Some(_) if cells.split(line).is_ok() && is_plain(cells) => line,
        Some(at) => {
            let rest = line.get(at..).unwrap_or(line);
            if cells.split(rest).is_ok() && cells.row(header).is_ok() { rest } else { line }
        }
    }
}

/// The cells of a line of comma-separated values, unquoted.
pub(super) struct Cells {
    reader: csv_core::Reader,
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
    count: usize,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { reader: csv_core::Reader::new(), bytes: Vec::new(), ends: vec![0; MOST_CELLS], count: 0 }
    }
}

impl Cells {
    pub(super) fn split(&mut self, line: &[u8]) -> Result<(), String> {
        self.count = 0;
        if self.bytes.len() < line.len() {
            self.bytes.resize(line.len(), 0);
        }
        self.reader.reset();
        let (result, _, written, ended) = self.reader.read_record(line, &mut self.bytes, &mut self.ends);
        self.count = ended;
        if !matches!(result, ReadRecordResult::InputEmpty) {
            return Err(format!("expected one line of at most {MOST_CELLS} cells"));
        }
        // The end of the input ends the last cell.
        let rest = self.bytes.get_mut(written..).unwrap_or_default();
        let ends = self.ends.get_mut(ended..).unwrap_or_default();
        match self.reader.read_record(&[], rest, ends) {
            (ReadRecordResult::Record, 0, 0, 1) => {
                if let Some(end) = ends.first_mut() {
                    *end = written;
                }
                self.count = ended + 1;
                Ok(())
            }
            _ => Err("expected a line of comma-separated values".to_owned()),
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(..self.count)?.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before).copied()).unwrap_or(0);
        self.bytes.get(start..end)
    }

    /// The places of the columns, if this line is a header.
    pub(super) fn header(&self, chosen: &[&str]) -> Option<Header> {
        if self.get(0)? != b"kernel" {
            return None;
        }
        let header = Header::of(|at| self.get(at), self.count, chosen);
        (header.place(Column::Start).is_some() && header.place(Column::End).is_some()).then_some(header)
    }

    /// The places of the columns, if this line is a row of a log whose header was cut off: it has as many cells as there are columns.
    pub(super) fn without_header(&self, chosen: &[&str]) -> Option<Header> {
        if self.count != COLUMNS.len() {
            return None;
        }
        let header = Header::of_all(chosen);
        let row = self.row(&header).ok()?;
        // Numbers and words are where they have to be.
        row.process.pid.is_some().then_some(header)
    }

    pub(super) fn row(&self, header: &Header) -> Result<Row<'_>, String> {
        if self.count != header.cells {
            return Err(format!("expected {} cells as in the header, found {}", header.cells, self.count));
        }
        let cell = |column: Column| header.place(column).and_then(|at| self.get(at)).unwrap_or_default();
        let number = |column: Column| -> Result<Option<u64>, String> {
            match cell(column) {
                [] => Ok(None),
                text => decimal(text).map(Some).ok_or_else(|| unexpected("a number", column, text)),
            }
        };
        let size = |column: Column| -> Result<[u32; 3], String> {
            match cell(column) {
                [] => Ok([0; 3]),
                text => sizes(text).ok_or_else(|| unexpected("three sizes like 256x1x1", column, text)),
            }
        };
        Ok(Row {
            kernel: String::from_utf8_lossy(header.text(cell(Column::Kernel))),
            dispatch: number(Column::Dispatch)?,
            times: number(Column::Start)?.zip(number(Column::End)?),
            agent: number(Column::Agent)?.unwrap_or(0),
            queue: number(Column::Queue)?.unwrap_or(0),
            grid: size(Column::Grid)?,
            workgroup: size(Column::Workgroup)?,
            replaced: !cell(Column::Replaced).is_empty(),
            code: String::from_utf8_lossy(header.text(cell(Column::Code))),
            process: Process { rank: number(Column::Rank)?, pid: number(Column::Pid)? },
            thread: number(Column::Tid)?,
            site: number(Column::Site)?,
            kind: Kind::of(cell(Column::Kind), number(Column::Bytes)?)
                .ok_or_else(|| unexpected_kind(cell(Column::Kind)))?,
        })
    }
}

impl Header {
    /// Of the names of so many columns.
    pub(super) fn of<'a>(name_at: impl Fn(usize) -> Option<&'a [u8]>, cells: usize, chosen: &[&str]) -> Header {
        let place = |name: &&str| (0..cells).find(|&at| name_at(at) == Some(name.as_bytes()));
        let mut places = [None; NAMES.len()];
        places.iter_mut().zip(NAMES).for_each(|(to, name)| *to = place(name));
        Header { places, chosen: chosen.iter().map(place).collect(), cells, is_safe: false }
    }

    /// Of a line with all columns in the order of the table.
    pub(super) fn of_all(chosen: &[&str]) -> Header {
        Header::of(|at| COLUMNS.get(at).map(|column| column.name.as_bytes()), COLUMNS.len(), chosen)
    }

    /// A text of a row as it was before it was written.
    pub(super) fn text<'a>(&self, cell: &'a [u8]) -> &'a [u8] {
        cell.strip_prefix(&[APOSTROPHE as u8]).filter(|_| self.is_safe).unwrap_or(cell)
    }

    pub(super) fn place(&self, column: Column) -> Option<usize> {
        self.places.get(column as usize).copied().flatten()
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digit = |b: &u8| b.is_ascii_digit().then(|| u64::from(b - b'0'));
    text.iter().try_fold(0u64, |sum, b| sum.checked_mul(10)?.checked_add(digit(b)?))
}

fn sizes(text: &[u8]) -> Option<[u32; 3]> {
    let mut parts =
        text.split(|&b| b == b'x').map(|part| u32::try_from(decimal(part).filter(|_| !part.is_empty())?).ok());
    let sizes = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(sizes)
}
