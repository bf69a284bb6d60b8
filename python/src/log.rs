//! Rows of logs as columns, and their totals.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use logdur_report::columns::{self, COLUMNS, Kind, Rows, Value};
use logdur_report::summary::{By, Summary};
use logdur_report::{Log, ReadError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};

use crate::LogError;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Rows between two looks whether Python was interrupted.
const LOOK: u64 = 1 << 16;

/// What ends the reading of a log.
enum End {
    Log(ReadError),
    Python(PyErr),
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> End {
        End::Log(error)
    }
}

/// A column that grows.
#[derive(Default)]
struct Column {
    /// Numbers; of a text, its place among `texts`, or -1.
    values: Vec<u8>,
    /// 1 for each cell that is empty.
    empty: Vec<u8>,
    texts: Texts,
}

/// Different texts, in the order of their first use.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    places: HashMap<String, i32>,
}

impl Texts {
    fn place(&mut self, text: &str) -> Option<i32> {
        if let Some(place) = self.places.get(text) {
            return Some(*place);
        }
        let place = i32::try_from(self.all.len()).ok()?;
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        Some(place)
    }
}

impl Column {
    fn add(&mut self, kind: Kind, value: Option<&Value<'_>>) -> Result<(), End> {
        self.empty.push(value.is_none().into());
        if kind != Kind::Text {
            let number = value.map_or(0, |value| if let Value::Number(number) = value { *number } else { 0 });
            self.values.extend(number.to_ne_bytes());
            return Ok(());
        }
        let place = match value {
            Some(Value::Text(text)) => self.texts.place(text),
            _ => Some(-1),
        };
        let place = place.ok_or_else(|| End::Python(PyValueError::new_err("more than 2^31 different texts")))?;
        self.values.extend(place.to_ne_bytes());
        Ok(())
    }
}

/// Where a log is.
#[derive(FromPyObject)]
pub(crate) enum LogSource {
    Path(PathBuf),
    Open(Py<PyAny>),
}

/// What Python has open: anything with a method `read`.
struct Open {
    file: Py<PyAny>,
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Open {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            self.bytes = Python::attach(|py| piece(self.file.bind(py))).map_err(io::Error::other)?;
            self.at = 0;
        }
        let count = self.bytes.get(self.at..).unwrap_or_default().read(to)?;
        self.at += count;
        Ok(count)
    }
}

/// The next bytes of what is open, or those of the next characters; none at its end.
fn piece(file: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let read = file.call_method1("read", (PIECE,))?;
    if let Ok(text) = read.cast::<PyString>() {
        return Ok(text.to_cow()?.as_bytes().to_vec());
    }
    let other = |_| PyTypeError::new_err(format!("read: expected bytes or text, found {}", read.get_type()));
    Ok(read.cast::<PyBytes>().map_err(other)?.as_bytes().to_vec())
}

/// A log that is read.
type Opened = Log<BufReader<Box<dyn Read + Send>>>;

/// Opens a log and gives it to `read`; errors name it.
fn with_log(
    (name, place): &(String, LogSource),
    read: impl FnOnce(&str, &mut Opened) -> Result<(), End>,
) -> PyResult<()> {
    let input: Box<dyn Read + Send> = match place {
        LogSource::Path(path) => {
            Box::new(File::open(path).map_err(|error| LogError::new_err(format!("{name}: {error}")))?)
        }
        LogSource::Open(file) => {
            let file = Python::attach(|py| file.clone_ref(py));
            Box::new(Open { file, bytes: Vec::new(), at: 0 })
        }
    };
    read(name, &mut Log::new(BufReader::with_capacity(PIECE, input))).map_err(|end| match end {
        // What Python raised goes on as it is.
        End::Log(ReadError::Io(error)) => match error.downcast::<PyErr>() {
            Ok(raised) => raised,
            Err(error) => LogError::new_err(format!("{name}: {error}")),
        },
        End::Log(error) => LogError::new_err(format!("{name}: {error}")),
        End::Python(error) => error,
    })
}

/// The logs that processes made of a name with `%p`, `%r` or `%h`; `None` for a path that is meant as it is.
#[pyfunction]
pub(crate) fn logs_of(path: PathBuf) -> PyResult<Option<Vec<OsString>>> {
    let found = logdur_system::marks::made_of(&path)?;
    Ok(found.map(|paths| paths.into_iter().map(PathBuf::into_os_string).collect()))
}

/// Columns of the rows of logs, the number of rows, and what was not read.
///
/// A column of numbers is `(name, kind, values, empty)`: 64 bits and a byte for each row. A column of texts is
/// `(name, "text", places, texts)`: 32 bits for each row, -1 if its cell is empty. `each` is called with the number of each log
/// that was read, and the rows so far.
#[pyfunction]
pub(crate) fn read_log<'py>(
    py: Python<'py>,
    logs: Vec<(String, LogSource)>,
    each: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut all: Vec<Column> = COLUMNS.iter().map(|_| Column::default()).collect();
    let mut rows = Rows::default();
    for (number, log) in logs.iter().enumerate() {
        py.detach(|| {
            with_log(log, |name, log| {
                let mut added = 0;
                columns::read(name, log, &mut rows, |values| {
                    for ((column, value), (_, _, kind)) in all.iter_mut().zip(values).zip(COLUMNS) {
                        column.add(*kind, value.as_ref())?;
                    }
                    added += 1;
                    if added % LOOK == 0 {
                        Python::attach(|py| py.check_signals()).map_err(End::Python)
                    } else {
                        Ok(())
                    }
                })
            })
        })?;
        each.call1((number, rows.rows))?;
    }
    let result = PyDict::new(py);
    let mut columns = Vec::new();
    for (column, (name, _, kind)) in all.into_iter().zip(COLUMNS) {
        let values = PyByteArray::new(py, &column.values);
        columns.push(match kind {
            Kind::Text => (*name, "text", values, column.texts.all.into_pyobject(py)?),
            kind => {
                let word = if *kind == Kind::Address { "address" } else { "number" };
                (*name, word, values, PyByteArray::new(py, &column.empty).into_any())
            }
        });
    }
    result.set_item("columns", columns)?;
    result.set_item("rows", rows.rows)?;
    result.set_item("unreadable", rows.unreadable)?;
    result.set_item("first_unreadable", rows.first_unreadable)?;
    result.set_item("missing", rows.missing)?;
    Ok(result)
}

/// The totals of logs by `kernel`, `shape`, `queue`, `gpu`, `process`, `rank` or `log`, as JSON.
#[pyfunction]
pub(crate) fn summary(py: Python<'_>, logs: Vec<(String, LogSource)>, by: &str) -> PyResult<String> {
    const WORDS: [(&str, By); 7] = [
        ("kernel", By::Kernel),
        ("shape", By::Shape),
        ("queue", By::Queue),
        ("gpu", By::Gpu),
        ("process", By::Process),
        ("rank", By::Rank),
        ("log", By::Log),
    ];
    let found = WORDS.iter().find(|(word, _)| *word == by).map(|(_, by)| *by);
    let known = || WORDS.map(|(word, _)| word).join(", ");
    let by = found.ok_or_else(|| PyValueError::new_err(format!("by: expected one of {}, found {by:?}", known())))?;
    let totals = py.detach(|| {
        let mut summary = Summary::new(by);
        for log in &logs {
            with_log(log, |name, log| Ok(summary.read(name, log, |_, _| ())?))?;
            Python::attach(|py| py.check_signals())?;
        }
        PyResult::Ok(summary.totals())
    })?;
    serde_json::to_string(&totals).map_err(|error| PyValueError::new_err(error.to_string()))
}
