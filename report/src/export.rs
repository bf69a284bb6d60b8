//! Rows as columns with types, in Apache Parquet's format.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::rows::{Line, Log, ReadError};

/// Rows that are gathered before they are written together.
const GROUP: usize = 1 << 17;

/// Why rows cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The file cannot be written.
    #[error("writing Parquet: {0}")]
    Parquet(#[from] ParquetError),
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// A number below 2^63.
    Number,
    /// A number of 64 bits, written as `0x...`.
    Address,
    /// One of the three numbers of `64x2x1`.
    Size(usize),
}

/// The columns: as Parquet and as the log name them.
const COLUMNS: &[(&str, &str, Kind)] = &[
    ("kernel", "kernel", Kind::Text),
    ("dispatch", "dispatch", Kind::Number),
    ("startNs", "startNs", Kind::Number),
    ("endNs", "endNs", Kind::Number),
    ("durationNs", "durationNs", Kind::Number),
    ("id", "id", Kind::Number),
    ("agent", "agent", Kind::Number),
    ("queue", "queue", Kind::Number),
    ("gridX", "grid", Kind::Size(0)),
    ("gridY", "grid", Kind::Size(1)),
    ("gridZ", "grid", Kind::Size(2)),
    ("workgroupX", "workgroup", Kind::Size(0)),
    ("workgroupY", "workgroup", Kind::Size(1)),
    ("workgroupZ", "workgroup", Kind::Size(2)),
    ("ldsBytes", "ldsBytes", Kind::Number),
    ("scratchBytes", "scratchBytes", Kind::Number),
    ("kernargBytes", "kernargBytes", Kind::Number),
    ("kernelObject", "kernelObject", Kind::Address),
    ("flags", "flags", Kind::Text),
    ("replaced", "replaced", Kind::Text),
    ("kind", "kind", Kind::Text),
    ("bytes", "bytes", Kind::Number),
    ("pid", "pid", Kind::Number),
    ("rank", "rank", Kind::Number),
    ("vgprs", "vgprs", Kind::Number),
    ("agprs", "agprs", Kind::Number),
    ("sgprs", "sgprs", Kind::Number),
    ("tid", "tid", Kind::Number),
];

/// The log's name of each column.
const NAMES: [&str; COLUMNS.len()] = {
    let mut names = [""; COLUMNS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = COLUMNS[at].1;
        at += 1;
    }
    names
};

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows that are in the file.
    pub rows: u64,
    /// Lines that could not be read: they are not in the file.
    pub unreadable: u64,
    /// The first of them: file, line and reason.
    pub first_unreadable: Option<String>,
}

/// A column's cells. `defined` has 1 for each row that has a value.
#[derive(Default)]
struct Column {
    texts: Vec<ByteArray>,
    numbers: Vec<i64>,
    defined: Vec<i16>,
}

/// Writes rows into a file of Parquet.
pub struct Exporter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
    exported: Exported,
}

impl<W: Write + Send> Exporter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(to: W) -> Result<Exporter<W>, ExportError> {
        let fields = COLUMNS.iter().map(|(name, _, kind)| match kind {
            Kind::Text => format!("optional binary {name} (UTF8);"),
            Kind::Number => format!("optional int64 {name};"),
            Kind::Address => format!("optional int64 {name} (INTEGER(64,false));"),
            Kind::Size(_) => format!("optional int64 {name};"),
        });
        let schema = parse_message_type(&format!("message log {{ {} }}", fields.collect::<String>()))?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))?;
        let columns = COLUMNS.iter().map(|_| Column::default()).collect();
        Ok(Exporter { writer, columns, rows: 0, exported: Exported::default() })
    }

    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the log cannot be read or is none, or the file cannot be written.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ExportError> {
        log.choose(&NAMES);
        loop {
            let number = log.number() + 1;
            let why = match log.next_line()? {
                None => return Ok(()),
                Some(Line::Row(_)) => match self.add(log) {
                    Ok(()) => continue,
                    Err(why) => why,
                },
                Some(Line::Unreadable(why)) => why,
                Some(_) => continue,
            };
            self.exported.unreadable += 1;
            self.exported.first_unreadable.get_or_insert_with(|| format!("{name}:{number}: {why}"));
            if self.rows == GROUP {
                self.write_group()?;
            }
        }
    }

    fn add<R: BufRead>(&mut self, log: &Log<R>) -> Result<(), String> {
        let texts = log.texts();
        let mut values = Vec::with_capacity(COLUMNS.len());
        for (text, (name, _, kind)) in texts.iter().zip(COLUMNS) {
            let value = text.as_deref().map(|text| kind.value(text).ok_or_else(|| format!("{name}: found {text:?}")));
            values.push(value.transpose()?);
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.defined.push(value.is_some().into());
            match value {
                Some(Value::Text(text)) => column.texts.push(text.as_bytes().to_vec().into()),
                Some(Value::Number(number)) => column.numbers.push(number),
                None => {}
            }
        }
        self.rows += 1;
        self.exported.rows += 1;
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        let mut columns = self.columns.iter_mut();
        while let Some(mut to) = group.next_column()? {
            let column = columns.next().map(std::mem::take).unwrap_or_default();
            match to.untyped() {
                ColumnWriter::ByteArrayColumnWriter(to) => {
                    to.write_batch(&column.texts, Some(&column.defined), None)?;
                }
                ColumnWriter::Int64ColumnWriter(to) => {
                    to.write_batch(&column.numbers, Some(&column.defined), None)?;
                }
                _ => return Err(ParquetError::General("a column of an unexpected type".to_owned()).into()),
            }
            to.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file; says what is in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<Exported, ExportError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.finish()?;
        self.writer.inner_mut().flush().map_err(|error: io::Error| ParquetError::External(Box::new(error)))?;
        Ok(self.exported)
    }
}

enum Value<'a> {
    Text(&'a str),
    Number(i64),
}

impl Kind {
    /// The value of a cell that is not empty; `None` if it is not of this kind.
    fn value(self, text: &str) -> Option<Value<'_>> {
        let number = match self {
            Kind::Text => return Some(Value::Text(text)),
            Kind::Number => text.parse().ok().filter(|number: &i64| *number >= 0),
            Kind::Address => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(u64::cast_signed),
            Kind::Size(at) => text.split('x').nth(at)?.parse().ok(),
        };
        number.map(Value::Number)
    }
}
