//! Rows and lines of a log of chunks.

use std::borrow::Cow;
use std::io::{self, BufRead};

use logdur_journal::columns::{self, COLUMNS, Cell};
use logdur_journal::lines::{Format, Lines};
use logdur_journal::packed::{Found, Reader};

use super::cells::Header;
use super::{Column, Kind, Line, Process, Row, json, unexpected_kind};

/// A log of chunks.
pub(super) struct Packed {
    reader: Reader,
    found: Option<Found>,
    /// Where the columns that are read are in the journal's table.
    header: Header,
}

impl Default for Packed {
    fn default() -> Packed {
        Packed { reader: Reader::default(), found: None, header: Header::of_all(&[]) }
    }
}

impl Packed {
    /// Goes on to the next row or line; false at the end.
    pub(super) fn next(&mut self, input: &mut impl BufRead) -> io::Result<bool> {
        self.found = self.reader.next(input)?;
        Ok(self.found.is_some())
    }

    /// Where the chunk begins and ends that was read last.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.reader.start(), self.reader.position())
    }

    /// What was read.
    pub(super) fn line(&self) -> Line<'_> {
        match self.found {
            Some(Found::Row) => row(&self.reader.row(), &self.header),
            Some(Found::Line) => json::line(self.reader.text().as_bytes()),
            Some(Found::Damage) => Line::Unreadable(self.reader.text().to_owned()),
            None => Line::Other,
        }
    }

    /// Columns of the row that was read last, as CSV has them.
    pub(super) fn texts(&self, chosen: &[&str]) -> Vec<Option<Cow<'_, str>>> {
        let row = self.reader.row();
        let text = |name: &&str| {
            let column = COLUMNS.iter().find(|column| column.name == *name)?;
            match (column.cell)(&row) {
                Cell::Text(text) => Some(Cow::Borrowed(text)).filter(|text| !text.is_empty()),
                Cell::Word(word) => Some(Cow::Borrowed(word)),
                cell => {
                    let mut text = Vec::new();
                    Lines::of(Format::Csv).cell(&mut text, &cell);
                    String::from_utf8(text).ok().filter(|text| !text.is_empty()).map(Cow::Owned)
                }
            }
        };
        chosen.iter().map(text).collect()
    }
}

/// A row as a log in CSV has it.
fn row<'a>(of: &columns::Row<'a>, header: &Header) -> Line<'a> {
    let cell = |column: Column| {
        header.place(column).and_then(|place| COLUMNS.get(place)).map_or(Cell::Nothing, |column| (column.cell)(of))
    };
    let number = |column: Column| if let Cell::Number(number) = cell(column) { Some(number) } else { None };
    let text = |column: Column| match cell(column) {
        Cell::Text(text) | Cell::Word(text) => text,
        _ => "",
    };
    let size = |column: Column| match cell(column) {
        Cell::Size(sizes) => sizes.map(|size| size as u32),
        _ => [0; 3],
    };
    let word = text(Column::Kind);
    let Some(kind) = Kind::of(word.as_bytes(), number(Column::Bytes)) else {
        return Line::Unreadable(unexpected_kind(word.as_bytes()));
    };
    Line::Row(Row {
        kernel: Cow::Borrowed(text(Column::Kernel)),
        dispatch: number(Column::Dispatch),
        times: number(Column::Start).zip(number(Column::End)),
        agent: number(Column::Agent).unwrap_or(0),
        queue: number(Column::Queue).unwrap_or(0),
        grid: size(Column::Grid),
        workgroup: size(Column::Workgroup),
        replaced: !text(Column::Replaced).is_empty(),
        code: Cow::Borrowed(text(Column::Code)),
        process: Process { rank: number(Column::Rank), pid: number(Column::Pid) },
        thread: number(Column::Tid),
        site: number(Column::Site),
        kind,
    })
}
