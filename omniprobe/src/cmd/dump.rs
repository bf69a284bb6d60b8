//! `omniprobe dump`: every record of a capture.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use logdur_capture::{Place, Reader, Shown};
use logdur_replay::{Exit, ReplayError};
use serde_json::{Map, Value, json};

use super::lines;

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
    /// How it is written.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Shows every record.
///
/// # Errors
/// When the capture cannot be read.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = Reader::open(&options.file).map_err(ReplayError::from)?;
    let records = reader.records().shown();
    match options.format {
        Format::Text => lines(records.iter().map(|(place, name, fields)| text(*place, name, fields)))?,
        Format::Jsonl => lines(records.iter().map(|(place, name, fields)| {
            let place = json!({ "record": name, "offset": place.offset, "sequence": place.sequence });
            let Value::Object(mut all) = place else { return String::new() };
            all.insert("fields".to_owned(), object(fields));
            Value::Object(all).to_string()
        }))?,
    }
    Ok(Exit::Success)
}

fn text(place: Place, name: &str, fields: &[(&str, Shown)]) -> String {
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
