//! Reports in the forms of omniprobe's analyzers: text, comma-separated values, JSON. Of messages of instrumented kernels or of an
//! exact analysis, so that the same program reads both.

pub mod blocks;
pub mod heatmap;
pub mod memory;

use logdur_system::text::cell;
use serde_json::Value;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    #[default]
    Text,
    /// Comma-separated values, with a header line.
    Csv,
    /// One JSON object a line.
    Json,
}

/// The dispatch that a report is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The kernel's name, demangled.
    pub kernel: &'a str,
    /// The number of the dispatch.
    pub id: u64,
    /// The processor.
    pub processor: &'a str,
}

/// A report as it is made.
#[derive(Debug, Default)]
pub struct Out {
    /// How it is written.
    pub form: Form,
    text: String,
}

impl Out {
    /// An empty report.
    pub fn new(form: Form) -> Out {
        Out { form, text: String::new() }
    }

    /// A line of text.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// An object, on a line of its own.
    pub fn object(&mut self, object: &Value) {
        self.line(&object.to_string());
    }

    /// A row of comma-separated values.
    pub fn row(&mut self, cells: &[&dyn ToString]) {
        let cells: Vec<String> = cells.iter().map(|value| cell(&value.to_string()).into_owned()).collect();
        self.line(&cells.join(","));
    }

    /// Bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What was written since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
