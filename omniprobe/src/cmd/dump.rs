//! `omniprobe dump`: every record of a capture, and the code that was dispatched.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use amdgpu_listing::{Listing, Which};
use anyhow::Result;
use clap::{Args, ValueEnum};
use logdur_capture::{CodeObject, Fields, FramePosition, Id, Reader, Shown};
use logdur_captured::CapturedError;
use omniprobe_exit::Exit;
use serde_json::{Map, Value, json};

use crate::captured::{self, Backend, StoreArgs};
use crate::exit;
use crate::listing;
use crate::output::{demangled, lines, tell};

/// Bytes that are shown; of more only how many they are: they are in the record, whose offset is shown.
const SHOWN: usize = 64;

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// A JSON object a line.
    Jsonl,
}

/// What is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The capture.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    /// How records are printed.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// The same as --format jsonl.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print the instructions of the dispatched kernels after their code object.
    #[arg(long)]
    disassemble: bool,
    /// The disassembler. Both values mean the one of this program, which needs no ROCm.
    #[arg(long, value_name = "BACKEND", requires = "disassemble")]
    backend: Option<Backend>,
}

/// Shows every record. Code that cannot be disassembled is told on stderr, and gives the status.
///
/// # Errors
/// When the capture cannot be read.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.store.open(&options.file)?;
    let format = if options.json { Format::Jsonl } else { options.format };
    // There is one disassembler only.
    let _ = options.backend;
    let status = Cell::new(Exit::Success);
    let kernels = if options.disassemble { dispatched(&reader) } else { BTreeMap::new() };
    let code = |name: &str, place| {
        let objects = &reader.records().code_objects;
        let object = objects.iter().find(|c| name == CodeObject::NAME && c.place == place);
        let kernels = object.and_then(|object| Some((object.id, kernels.get(&object.id)?)));
        let kernels = kernels.iter().flat_map(|(id, symbols)| symbols.iter().map(|symbol| (*id, *symbol)));
        let shown = kernels.flat_map(|(id, symbol)| {
            kernel(&reader, id, symbol, format).unwrap_or_else(|error| {
                tell(format_args!("{}: {error:#}", demangled(symbol)));
                if status.get() == Exit::Success {
                    status.set(exit::of(&error));
                }
                Vec::new()
            })
        });
        shown.collect::<Vec<String>>()
    };
    let records = reader.records().shown();
    lines(records.iter().flat_map(|(place, name, fields)| {
        let record = match format {
            Format::Text => text(*place, name, fields),
            Format::Jsonl => {
                let all = json!({ "record": name, "offset": place.offset, "sequence": place.sequence });
                with(all, "fields", object(fields)).to_string()
            }
        };
        std::iter::once(record).chain(code(name, *place))
    }))?;
    Ok(match status.get() {
        Exit::Success => captured::damage(&reader).unwrap_or(Exit::Success),
        failed => failed,
    })
}

/// The kernels that were dispatched, or that ran in the place of one that was, by their code objects.
fn dispatched(reader: &Reader) -> BTreeMap<Id, BTreeSet<&str>> {
    let numbers: HashSet<u64> =
        reader.dispatches().iter().flat_map(|d| [Some(d.kernel), d.replaced_kernel]).flatten().collect();
    let mut all = BTreeMap::<Id, BTreeSet<&str>>::new();
    for kernel in reader.records().kernels.iter().filter(|k| numbers.contains(&k.id)) {
        all.entry(kernel.code_object).or_default().insert(&kernel.symbol);
    }
    all
}

/// The instructions of a kernel.
fn kernel(reader: &Reader, id: Id, symbol: &str, format: Format) -> Result<Vec<String>> {
    let bytes = reader.code_object(id).map_err(CapturedError::from)?;
    let listing = Listing::of(&format!("code object {id} of the capture"), &bytes, Which::Kernel(symbol))?;
    Ok(match format {
        Format::Text => {
            let lines = listing.parts.iter().flat_map(|part| listing::text(&listing, part));
            lines.map(|line| format!("  {line}")).collect()
        }
        Format::Jsonl => {
            let all = listing.parts.iter().flat_map(|part| listing::json(&listing, part));
            let marked =
                |value| with(with(value, "record", json!("instruction")), "code_object", json!(id.to_string()));
            all.map(|value| marked(value).to_string()).collect()
        }
    })
}

/// An object with one more value.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Value::Object(all) = &mut object {
        all.insert(name.to_owned(), value);
    }
    object
}

fn text(place: FramePosition, name: &str, fields: &[(&str, Shown)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!(" {name}={}", value_text(value))).collect();
    format!("@{} #{} {name}{}", place.offset, place.sequence, fields.concat())
}

fn value_text(value: &Shown) -> String {
    let all = |values: Vec<String>| format!("[{}]", values.join(" "));
    match value {
        Shown::Number(number) => number.to_string(),
        Shown::Text(text) => format!("{text:?}"),
        Shown::Bytes(bytes) if bytes.len() <= SHOWN => hex(bytes),
        Shown::Bytes(bytes) => format!("<{} bytes>", bytes.len()),
        Shown::Record(fields) => {
            all(fields.iter().map(|(name, value)| format!("{name}={}", value_text(value))).collect())
        }
        Shown::List(values) => all(values.iter().map(value_text).collect()),
    }
}

fn object(fields: &[(&str, Shown)]) -> Value {
    let all: Map<String, Value> = fields.iter().map(|(name, value)| ((*name).to_owned(), as_json(value))).collect();
    Value::Object(all)
}

fn as_json(value: &Shown) -> Value {
    match value {
        Shown::Number(number) => json!(number),
        Shown::Text(text) => json!(text),
        Shown::Bytes(bytes) if bytes.len() <= SHOWN => json!(hex(bytes)),
        Shown::Bytes(bytes) => json!({ "bytes": bytes.len() }),
        Shown::Record(fields) => object(fields),
        Shown::List(values) => values.iter().map(as_json).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
