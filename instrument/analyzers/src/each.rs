//! A handler that has an analyzer for each dispatch.

use std::collections::HashMap;
use std::sync::Arc;

use logdur_analysis::forms::{self, Form, Out};
use logdur_handler::messages::Message;
use logdur_handler::{Batch, Dispatch, DispatchResult, Format, Handler, Open};

use crate::code::Code;

/// Reports are written in pieces of about so many bytes.
const PIECE: usize = 1 << 20;

/// What is known of a dispatch from its beginning on.
pub(crate) struct About {
    /// Its number.
    pub(crate) id: u64,
    /// The kernel's name, demangled.
    pub(crate) kernel: String,
    /// The GPU's processor.
    pub(crate) processor: String,
    /// Instructions and source lines of the kernel.
    pub(crate) code: Arc<Code>,
}

impl About {
    /// The dispatch, as reports name it.
    pub(crate) fn dispatch(&self) -> forms::About<'_> {
        forms::About { kernel: &self.kernel, id: self.id, processor: &self.processor }
    }
}

/// What an analyzer keeps of a dispatch.
pub(crate) trait Analyzer: Sized {
    /// The name by which users choose it.
    const NAME: &'static str;
    /// The header line of its comma-separated values.
    const COLUMNS: &'static str;
    /// Whether it needs the kernel's instructions or source lines.
    const NEEDS_CODE: bool = false;

    /// A dispatch begins.
    ///
    /// # Errors
    /// What is wrong with the user's options.
    fn begin(open: &Open) -> Result<Self, String>;

    /// A message, which may be written at once.
    fn message(&mut self, about: &About, message: &Message<'_>, out: &mut Out);

    /// All messages were there.
    fn end(self, about: &About, open: &Open, out: &mut Out);
}

/// The form of reports that the user chose.
fn form(format: Format) -> Form {
    match format {
        Format::Text => Form::Text,
        Format::Csv => Form::Csv,
        Format::Json => Form::Json,
    }
}

fn write(out: &mut Out, open: &Open) -> Result<(), String> {
    if out.is_empty() { Ok(()) } else { open.write(&out.take()) }
}

/// A handler that has an analyzer for each dispatch.
pub(crate) struct Each<A> {
    open: Open,
    out: Out,
    /// Dispatches that have begun.
    running: HashMap<u64, (About, A)>,
    /// Of the kernels that were seen: by the address of the code object, and the kernel's name.
    codes: HashMap<(usize, String), Arc<Code>>,
}

impl<A: Analyzer> Handler for Each<A> {
    const NAME: &'static str = A::NAME;

    fn open(open: Open) -> Result<Each<A>, String> {
        A::begin(&open)?;
        let mut out = Out::new(form(open.format));
        if out.form == Form::Csv {
            out.line(A::COLUMNS);
        }
        Ok(Each { open, out, running: HashMap::new(), codes: HashMap::new() })
    }

    fn dispatch_begin(&mut self, dispatch: &Dispatch<'_>) -> Result<(), String> {
        let code = if A::NEEDS_CODE && !dispatch.code.is_empty() {
            let key = (dispatch.code.as_ptr().addr(), dispatch.clone.to_owned());
            let open = &self.open;
            self.codes.entry(key).or_insert_with(|| {
                let (code, problem) = Code::of(dispatch);
                if let Some(problem) = problem {
                    open.notice(&format!("{}: {}: {problem}", A::NAME, dispatch.kernel));
                }
                Arc::new(code)
            })
        } else {
            &mut Arc::default()
        };
        let about = About {
            id: dispatch.dispatch,
            kernel: dispatch.kernel.to_owned(),
            processor: dispatch.processor.to_owned(),
            code: Arc::clone(code),
        };
        self.running.insert(dispatch.dispatch, (about, A::begin(&self.open)?));
        Ok(())
    }

    fn messages(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        let Some((about, analyzer)) = self.running.get_mut(&batch.dispatch) else { return Ok(()) };
        for message in batch.messages() {
            analyzer.message(about, &message, &mut self.out);
            if self.out.len() >= PIECE {
                write(&mut self.out, &self.open)?;
            }
        }
        Ok(())
    }

    fn dispatch_end(&mut self, result: &DispatchResult) -> Result<(), String> {
        if let Some((about, analyzer)) = self.running.remove(&result.dispatch) {
            analyzer.end(&about, &self.open, &mut self.out);
        }
        write(&mut self.out, &self.open)
    }
}
