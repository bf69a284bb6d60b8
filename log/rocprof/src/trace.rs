//! The tables `kernel_trace.csv` and `memory_copy_trace.csv` of `rocprofv3` as logs. They name no process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use logdur_journal::Operation;
use serde_json::{Map, Value, json};

use crate::RocprofError;
use crate::lines::{Lines, Maker};

/// A table that is known, by the columns that its header has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `kernel_trace.csv`.
    Kernels,
    /// `memory_copy_trace.csv`.
    Copies,
    /// `*_stats.csv`: sums, of which no rows can be made.
    Sums,
}

/// Columns that two tables have.
const START: &str = "Start_Timestamp";
const END: &str = "End_Timestamp";

const TABLES: &[(Table, &[&str])] = &[
    (Table::Kernels, &["Kernel_Name", START, END]),
    (Table::Copies, &["Source_Agent_Id", "Destination_Agent_Id", START, END]),
    (Table::Sums, &["Name", "Calls", "TotalDurationNs"]),
];

/// Numbers of a dispatch: a member of a log's row, and the column.
const NUMBERS: &[(&str, &str)] = &[
    ("id", "Dispatch_Id"),
    ("queue", "Queue_Id"),
    ("tid", "Thread_Id"),
    ("ldsBytes", "LDS_Block_Size"),
    ("scratchBytes", "Scratch_Size"),
    ("vgprs", "VGPR_Count"),
    ("agprs", "Accum_VGPR_Count"),
    ("sgprs", "SGPR_Count"),
];

const SIZES: &[(&str, [&str; 3])] = &[
    ("grid", ["Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z"]),
    ("workgroup", ["Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z"]),
];

impl Table {
    /// Which table the first line of a file is of.
    pub fn of(header: &str) -> Option<Table> {
        let names: Vec<&str> = header.trim_end().split(',').map(|name| name.trim_matches('"')).collect();
        let (table, _) = TABLES.iter().find(|(_, wanted)| wanted.iter().all(|name| names.contains(name)))?;
        Some(*table)
    }

    /// Which table a file is; `None` if it is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_file(path: &Path) -> std::io::Result<Option<Table>> {
        // Headers are shorter.
        const HEADER: u64 = 4096;
        let mut line = Vec::new();
        BufReader::new(std::io::Read::take(File::open(path)?, HEADER)).read_until(b'\n', &mut line)?;
        Ok(std::str::from_utf8(&line).ok().and_then(Table::of))
    }
}

/// The lines of a table of kernels or of copies.
///
/// # Errors
/// When it cannot be opened.
pub fn open(path: &Path, table: Table) -> Result<BufReader<Lines>, RocprofError> {
    let mut file = csv::ReaderBuilder::new().flexible(false).from_path(path)?;
    Ok(Lines::begin(move |maker| {
        let places: Vec<String> = file.headers()?.iter().map(str::to_owned).collect();
        let mut record = csv::StringRecord::new();
        while file.read_record(&mut record)? {
            let row = Row { names: &places, record: &record };
            match table {
                Table::Kernels => row.dispatch(maker)?,
                Table::Copies => row.copy(maker)?,
                Table::Sums => {}
            }
        }
        Ok(())
    })?)
}

struct Row<'a> {
    names: &'a [String],
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let at = self.names.iter().position(|name| name == column)?;
        self.record.get(at).filter(|text| !text.is_empty())
    }

    fn error(&self, column: &'static str, expected: &'static str) -> RocprofError {
        let found = self.text(column).unwrap_or_default().chars().take(40).collect();
        RocprofError::Cell { line: self.record.position().map_or(0, csv::Position::line), column, expected, found }
    }

    fn number(&self, column: &'static str) -> Result<Option<u64>, RocprofError> {
        let number = |text: &str| text.parse().map_err(|_| self.error(column, "a number"));
        self.text(column).map(number).transpose()
    }

    /// An agent, `Agent 4` or `4`: its place among all agents of the node.
    fn agent(&self, column: &'static str) -> Result<Option<u64>, RocprofError> {
        let number = |text: &str| {
            let digits = text.rsplit(' ').next().unwrap_or(text);
            digits.parse().map_err(|_| self.error(column, "an agent like `Agent 4`"))
        };
        self.text(column).map(number).transpose()
    }

    fn times(&self) -> Result<(i64, i64), RocprofError> {
        let time = |column| {
            let number = self.number(column)?.and_then(|number| i64::try_from(number).ok());
            number.ok_or_else(|| self.error(column, "nanoseconds"))
        };
        Ok((time(START)?, time(END)?))
    }

    fn dispatch(&self, maker: &mut Maker) -> Result<(), RocprofError> {
        let mut more = Map::new();
        for (name, column) in NUMBERS {
            more.insert((*name).to_owned(), json!(self.number(column)?));
        }
        for (name, [x, y, z]) in SIZES {
            if let (Some(x), Some(y), Some(z)) = (self.number(x)?, self.number(y)?, self.number(z)?) {
                more.insert((*name).to_owned(), json!([x, y, z]));
            }
        }
        more.insert("agent".to_owned(), json!(self.agent("Agent_Id")?));
        maker.row(Operation::Dispatch, self.text("Kernel_Name").unwrap_or_default(), self.times()?, more)
    }

    fn copy(&self, maker: &mut Maker) -> Result<(), RocprofError> {
        let side = |column, is_host: bool| -> Result<Option<usize>, RocprofError> {
            Ok(self.agent(column)?.filter(|_| !is_host).and_then(|agent| agent.try_into().ok()))
        };
        // `MEMORY_COPY_HOST_TO_DEVICE`, or `HOST_TO_DEVICE`.
        let direction = self.text("Direction").unwrap_or_default();
        let direction = direction.strip_prefix("MEMORY_COPY_").unwrap_or(direction);
        let (from, to) = direction.split_once("_TO_").unwrap_or_default();
        let sides = (side("Source_Agent_Id", from == "HOST")?, side("Destination_Agent_Id", to == "HOST")?);
        let more: Map<String, Value> = Map::new();
        maker.copy(sides, self.times()?, more)
    }
}
