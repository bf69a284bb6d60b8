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

use crate::columns::{self, COLUMNS, Kind, Rows, Value};
use crate::rows::{Log, ReadError};

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
    read: Rows,
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
        Ok(Exporter { writer, columns, rows: 0, read: Rows::default() })
    }

    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the log cannot be read or is none, or the file cannot be written.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ExportError> {
        let Exporter { writer, columns, rows, read } = self;
        columns::read(name, log, read, |values| {
            for (column, value) in columns.iter_mut().zip(values) {
                column.defined.push(value.is_some().into());
                match value {
                    Some(Value::Text(text)) => column.texts.push(text.as_bytes().to_vec().into()),
                    Some(Value::Number(number)) => column.numbers.push(*number),
                    None => {}
                }
            }
            *rows += 1;
            if *rows == GROUP {
                write_group(writer, columns, rows)?;
            }
            Ok(())
        })
    }

    /// Ends the file; says what is in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<Rows, ExportError> {
        if self.rows > 0 {
            write_group(&mut self.writer, &mut self.columns, &mut self.rows)?;
        }
        self.writer.finish()?;
        self.writer.inner_mut().flush().map_err(|error: io::Error| ParquetError::External(Box::new(error)))?;
        Ok(self.read)
    }
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &mut [Column],
    rows: &mut usize,
) -> Result<(), ExportError> {
    *rows = 0;
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter_mut();
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
