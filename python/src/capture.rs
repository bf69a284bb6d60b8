//! Captures: what they say, and the memory of their dispatches.

use std::path::PathBuf;
use std::sync::OnceLock;

use logdur_capture::{CaptureError as ReadError, Dispatch, End, Finding, Id, Memory, Placed, Reader};
use logdur_captured::verify::Rule;
use logdur_captured::{CapturedDispatch, CapturedError, buffers, lacks, original, packet, symbol};
use logdur_journal::names;
use logdur_system::text;
use omniprobe_exit::Exit;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::CaptureError;

/// A capture file.
#[pyclass(frozen, module = "logdur._native")]
pub(crate) struct Capture {
    reader: Reader,
    path: PathBuf,
    /// The problems of the file. They are searched for when `problems` is first read.
    damage: OnceLock<Vec<Finding>>,
}

/// A process.
#[derive(IntoPyObject)]
struct SessionRecord {
    pid: u32,
    rank: Option<u32>,
    host: String,
    exe: String,
    arguments: Vec<String>,
    start_ns: u64,
    tool_version: String,
    runtime_version: String,
}

/// A GPU.
#[derive(IntoPyObject)]
struct AgentRecord {
    id: u64,
    isa: String,
    product: String,
    emulated: bool,
    uuid: String,
    bdf: String,
}

/// A code object, without its bytes.
#[derive(IntoPyObject)]
struct CodeObjectRecord {
    id: String,
    size: u64,
    isa: String,
    uri: String,
    kernels: Vec<String>,
}

/// A dispatch, without its memory.
#[derive(IntoPyObject)]
struct DispatchRecord {
    index: usize,
    id: u64,
    kernel: String,
    symbol: String,
    occurrence: u64,
    grid: [u32; 3],
    workgroup: [u32; 3],
    lds_bytes: u32,
    start_ns: u64,
    end_ns: u64,
    scope: String,
    code_object: String,
    replaced: Option<String>,
}

/// An argument.
#[derive(IntoPyObject)]
struct ArgumentRecord<'py> {
    name: String,
    number: String,
    type_name: Option<String>,
    kind: String,
    offset: u32,
    size: u32,
    element_type: Option<String>,
    raw: Option<Bound<'py, PyBytes>>,
}

/// A piece of captured memory with a name.
#[derive(IntoPyObject)]
struct BufferRecord {
    name: String,
    address: u64,
    size: u64,
    element_type: String,
    named: bool,
}

/// A note.
#[derive(IntoPyObject)]
struct NoteRecord {
    severity: String,
    code: String,
    text: String,
    dispatch: Option<u64>,
}

impl Capture {
    /// An exception that names the file, and has the tool's status.
    fn error(&self, error: impl Into<CapturedError>) -> PyErr {
        failed(&self.path, &error.into())
    }

    fn dispatch(&self, index: usize) -> PyResult<&Placed<Dispatch>> {
        let all = self.reader.dispatches();
        let expected = || PyIndexError::new_err(format!("expected a dispatch below {}, found {index}", all.len()));
        all.get(index).ok_or_else(expected)
    }

    fn captured(&self, index: usize) -> PyResult<CapturedDispatch<'_>> {
        CapturedDispatch::of(&self.reader, self.dispatch(index)?).map_err(|error| self.error(error))
    }

    /// The memory before or after a dispatch.
    fn snapshot(&self, index: usize, is_after: bool) -> PyResult<Option<Memory<'_>>> {
        let dispatch = self.dispatch(index)?;
        let id = if is_after { dispatch.after } else { dispatch.before };
        id.map(|id| self.reader.snapshot(id)).transpose().map_err(|error| self.error(error))
    }

    fn taken(&self, index: usize, is_after: bool) -> PyResult<Memory<'_>> {
        let missing = |id| {
            let what = format!("memory {} the kernel", if is_after { "after" } else { "before" });
            self.error(CapturedError::Incomplete { dispatch: id, what })
        };
        let id = self.dispatch(index)?.id;
        self.snapshot(index, is_after)?.ok_or_else(|| missing(id))
    }
}

fn failed(path: &std::path::Path, error: &CapturedError) -> PyErr {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    let named = path.display().to_string();
    let text = if text.contains(&named) { text } else { format!("{named}: {text}") };
    CaptureError::new_err((text, Exit::from(error) as u8))
}

#[pymethods]
impl Capture {
    #[new]
    #[pyo3(signature = (path, store=None))]
    fn new(py: Python<'_>, path: PathBuf, store: Option<PathBuf>) -> PyResult<Capture> {
        match py.detach(|| Reader::open(&path)) {
            Ok(mut reader) => {
                store.iter().for_each(|store| reader.look_in(store));
                Ok(Capture { reader, path, damage: OnceLock::new() })
            }
            Err(error) => Err(failed(&path, &error.into())),
        }
    }

    /// The version of the format.
    fn version(&self) -> (u16, u16) {
        self.reader.header().version
    }

    /// True if its writer came to its end.
    fn is_finished(&self) -> bool {
        *self.reader.end() == End::Finished
    }

    /// What is damaged or was cut off, a line each. Every byte of the file is looked at, once.
    fn problems(&self, py: Python<'_>) -> Vec<String> {
        let damage = py.detach(|| self.damage.get_or_init(|| self.reader.check().findings));
        let damage = damage.iter().map(ToString::to_string);
        let end = match self.reader.end() {
            End::Finished => None,
            End::Unfinished { whole, cut, .. } => {
                Some(format!("not finished: {whole} bytes are whole, {cut} behind them are not"))
            }
        };
        damage.chain(end).collect()
    }

    /// What the capture says is missing, or should be known.
    fn notes(&self) -> Vec<NoteRecord> {
        let note = |n: &Placed<logdur_capture::Note>| NoteRecord {
            severity: n.severity.to_string(),
            code: n.code.clone(),
            text: n.text.clone(),
            dispatch: n.dispatch,
        };
        self.reader.notes().iter().map(note).collect()
    }

    /// The processes.
    fn sessions(&self) -> Vec<SessionRecord> {
        let session = |s: &Placed<logdur_capture::Session>| SessionRecord {
            pid: s.pid,
            rank: s.rank,
            host: s.host.clone(),
            exe: s.exe.clone(),
            arguments: s.arguments.clone(),
            start_ns: s.start_ns,
            tool_version: s.tool_version.clone(),
            runtime_version: s.runtime_version.clone(),
        };
        self.reader.sessions().iter().map(session).collect()
    }

    /// The GPUs.
    fn agents(&self) -> Vec<AgentRecord> {
        let gpus = self.reader.records().agents.iter().filter(|agent| !agent.isa.is_empty());
        let agent = |a: &Placed<logdur_capture::Agent>| AgentRecord {
            id: a.id,
            isa: a.isa.clone(),
            product: a.product.clone(),
            emulated: a.emulated,
            uuid: a.uuid.clone(),
            bdf: a.bdf.clone(),
        };
        gpus.map(agent).collect()
    }

    /// The code objects.
    fn code_objects(&self) -> Vec<CodeObjectRecord> {
        let records = self.reader.records();
        let object = |c: &Placed<logdur_capture::CodeObject>| CodeObjectRecord {
            id: c.id.to_string(),
            size: c.size,
            isa: c.isa.clone(),
            uri: c.uri.clone(),
            kernels: records.kernels.iter().filter(|k| k.code_object == c.id).map(|k| k.symbol.clone()).collect(),
        };
        records.code_objects.iter().map(object).collect()
    }

    /// The bytes of a code object.
    fn code_object<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyBytes>> {
        let records = self.reader.records();
        let found: Option<Id> = records.code_objects.iter().map(|c| c.id).find(|known| known.to_string() == id);
        let id =
            found.ok_or_else(|| PyValueError::new_err(format!("no code object {id} in {}", self.path.display())))?;
        let bytes = py.detach(|| self.reader.code_object(id)).map_err(|error: ReadError| self.error(error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The dispatches.
    fn dispatches(&self) -> Vec<DispatchRecord> {
        let dispatch = |(index, d): (usize, &Placed<Dispatch>)| {
            let (symbol, packet) = (symbol(&self.reader, d), packet(d));
            DispatchRecord {
                index,
                id: d.id,
                kernel: text::one_line(&names::demangle(symbol)),
                symbol: symbol.to_owned(),
                occurrence: d.occurrence,
                grid: packet.grid_size(),
                workgroup: packet.workgroup_size().map(u32::from),
                lds_bytes: packet.group_segment_size(),
                start_ns: d.start_ns,
                end_ns: d.end_ns,
                scope: d.scope.to_string(),
                code_object: d.code_object.to_string(),
                replaced: d.replaced.map(|id| id.to_string()),
            }
        };
        self.reader.dispatches().iter().enumerate().map(dispatch).collect()
    }

    /// What a replay of a dispatch needs and the capture lacks, a line each.
    fn lacks(&self, py: Python<'_>, index: usize) -> PyResult<Vec<String>> {
        let dispatch = self.dispatch(index)?;
        Ok(py.detach(|| lacks(&self.reader, dispatch)))
    }

    /// The arguments of a dispatch.
    fn arguments<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Vec<ArgumentRecord<'py>>> {
        let dispatch = self.dispatch(index)?;
        let code = original(&self.reader, dispatch).map_err(|error| self.error(error))?;
        let all = code.arguments(&dispatch.kernarg).into_iter().map(|argument| ArgumentRecord {
            element_type: argument.element_type().map(|element_type| element_type.to_string()),
            raw: argument.bytes.map(|bytes| PyBytes::new(py, bytes)),
            type_name: argument.source_type.map(str::to_owned),
            kind: argument.declared.kind.name().to_owned(),
            offset: argument.declared.offset,
            size: argument.declared.size,
            name: argument.name,
            number: argument.number,
        });
        Ok(all.collect())
    }

    /// The pieces of a dispatch's memory. `types` are rules like `out=f16`.
    fn buffers(&self, index: usize, types: Vec<String>) -> PyResult<Vec<BufferRecord>> {
        let rules: Result<Vec<Rule>, String> = types.iter().map(|rule| rule.parse()).collect();
        let rules = rules.map_err(PyValueError::new_err)?;
        let buffers = buffers(&self.captured(index)?, &rules).map_err(|error| match Exit::from(&error) {
            Exit::Usage => PyValueError::new_err(error.to_string()),
            _ => self.error(error),
        })?;
        let record = |b: logdur_captured::verify::Buffer| BufferRecord {
            named: b.is_named(),
            address: b.start,
            size: b.end - b.start,
            element_type: b.element_type.to_string(),
            name: b.name,
        };
        Ok(buffers.into_iter().map(record).collect())
    }

    /// The captured addresses before or after a dispatch: beginnings and ends. `None` if there is no such memory.
    fn ranges(&self, index: usize, is_after: bool) -> PyResult<Option<Vec<(u64, u64)>>> {
        let memory = self.snapshot(index, is_after)?;
        Ok(memory.map(|memory| memory.ranges().into_iter().map(|range| (range.start, range.end)).collect()))
    }

    /// Where in the file the bytes of some memory are; `None` if they are not there as they are.
    fn file_offset(&self, index: usize, is_after: bool, address: u64, size: u64) -> PyResult<Option<u64>> {
        self.taken(index, is_after)?.file_offset(address, size).map_err(|error| self.error(error))
    }

    /// The bytes of some memory.
    fn memory<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        is_after: bool,
        address: u64,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let memory = self.taken(index, is_after)?;
        PyBytes::new_with(py, size, |to| py.detach(|| memory.read(address, to)).map_err(|error| self.error(error)))
    }
}
