//! Lines of a log in JSON, which another thread makes of another file.

use std::io::{self, BufReader, BufWriter, PipeReader, PipeWriter, Read, Write};
use std::thread::{Builder, JoinHandle};

use logdur_journal::{Operation, copies};
use serde_json::{Map, Value, json};

use crate::RocprofError;

/// Bytes that are passed at once.
const PIECE: usize = 1 << 16;

/// The lines as they are made. An error of the thread is one of the last read.
pub struct Lines {
    from: PipeReader,
    thread: Option<JoinHandle<Result<(), RocprofError>>>,
}

impl Lines {
    /// Has a thread make lines.
    pub(crate) fn begin(
        make: impl FnOnce(&mut Maker) -> Result<(), RocprofError> + Send + 'static,
    ) -> io::Result<BufReader<Lines>> {
        let (from, to) = io::pipe()?;
        let thread = Builder::new().name("lines".to_owned()).spawn(move || {
            let mut maker = Maker { to: BufWriter::with_capacity(PIECE, to) };
            match make(&mut maker).and_then(|()| Ok(maker.to.flush()?)) {
                // Whoever reads has read enough.
                Err(RocprofError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                result => result,
            }
        })?;
        Ok(BufReader::with_capacity(PIECE, Lines { from, thread: Some(thread) }))
    }
}

impl Read for Lines {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        if read == 0 && !to.is_empty() {
            match self.thread.take().map(JoinHandle::join) {
                Some(Ok(Err(error))) => return Err(io::Error::other(error)),
                Some(Err(_)) => return Err(io::Error::other("the thread that reads the file ended early")),
                Some(Ok(Ok(()))) | None => {}
            }
        }
        Ok(read)
    }
}

/// Makes lines.
pub(crate) struct Maker {
    to: BufWriter<PipeWriter>,
}

impl Maker {
    /// A row. `more` has members that only some rows have.
    pub(crate) fn row(
        &mut self,
        operation: Operation,
        name: &str,
        (start, end): (i64, i64),
        more: Map<String, Value>,
    ) -> Result<(), RocprofError> {
        let mut row = more;
        row.retain(|_, value| !value.is_null());
        row.extend([
            ("kernel".to_owned(), json!(name)),
            ("kind".to_owned(), json!(operation.name())),
            ("startNs".to_owned(), json!(start)),
            ("endNs".to_owned(), json!(end)),
        ]);
        self.line(&Value::Object(row))
    }

    /// A row of a copy between these sides.
    pub(crate) fn copy(
        &mut self,
        (from, to): (copies::Side, copies::Side),
        times: (i64, i64),
        mut more: Map<String, Value>,
    ) -> Result<(), RocprofError> {
        // As logs have it: the GPU that is written, otherwise the one that is read.
        more.insert("agent".to_owned(), json!(to.or(from).unwrap_or(0)));
        self.row(Operation::Copy, &copies::name(from, to), times, more)
    }

    /// What a log says of a GPU.
    pub(crate) fn agent(
        &mut self,
        position: i64,
        name: &str,
        product: &str,
        device: Option<&str>,
    ) -> Result<(), RocprofError> {
        self.line(&json!({ "agent": position, "name": name, "product": product, "device": device }))
    }

    fn line(&mut self, line: &Value) -> Result<(), RocprofError> {
        serde_json::to_writer(&mut self.to, line).map_err(io::Error::from)?;
        Ok(self.to.write_all(b"\n")?)
    }
}
