//! The metadata of a code object: the document of each of its notes, and all of them as one.
//!
//! Source: AMDGPUUsage, "Code Object V2 Metadata", "Code Object V3 Metadata" and those of later versions. One ELF may have
//! thousands of notes: what was linked from many objects has one for each.

use std::collections::BTreeMap;

use crate::elf::Note;
use crate::error::{Result, Unreadable};
use crate::metadata::{Form, Key};
use crate::msgpack;
use crate::value::Value;
use crate::yaml;

/// The keys of the whole document.
const VERSION: Key = ["amdhsa.version", "Version"];
const KERNELS: Key = ["amdhsa.kernels", "Kernels"];
const PRINTF: Key = ["amdhsa.printf", "Printf"];
const TARGET: Key = ["amdhsa.target", ""];

/// `NT_AMD_HSA_METADATA` of the owner `AMD`: YAML.
const OLD_NOTE: u32 = 10;
/// `NT_AMDGPU_METADATA` of the owner `AMDGPU`: MessagePack.
const NEW_NOTE: u32 = 32;

/// The metadata of all notes.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) form: Form,
    pub(crate) version: Vec<u32>,
    pub(crate) kernels: Vec<Value<'a>>,
    pub(crate) printf: Option<Vec<String>>,
    pub(crate) target: Option<String>,
    pub(crate) unknown: BTreeMap<String, Value<'a>>,
}

impl Default for Document<'_> {
    fn default() -> Self {
        Document {
            form: Form::New,
            version: Vec::new(),
            kernels: Vec::new(),
            printf: None,
            target: None,
            unknown: BTreeMap::new(),
        }
    }
}

impl<'a> Document<'a> {
    /// The document of a note at `at`.
    fn of(form: Form, value: Value<'a>, at: u64) -> Result<Document<'a>> {
        const WHAT: &str = "metadata";
        let wrong =
            |what, expected: &str, found: &Value<'_>| Unreadable::unexpected(what, at, expected, found.describe());
        let Value::Map(pairs) = value else { return Err(wrong(WHAT, "a map", &value)) };
        let mut document = Document { form, ..Document::default() };
        let key = |key: Key| form.of(key);
        for (name, value) in pairs {
            match name {
                Value::Text(name) if name == key(KERNELS) => match value {
                    Value::List(kernels) => document.kernels = kernels,
                    other => return Err(wrong(key(KERNELS), "a list", &other)),
                },
                Value::Text(name) if name == key(VERSION) => {
                    let numbers = value
                        .as_list()
                        .and_then(|list| list.iter().map(|n| n.as_unsigned()?.try_into().ok()).collect::<Option<_>>());
                    document.version = numbers.ok_or_else(|| wrong(key(VERSION), "a list of numbers", &value))?;
                }
                Value::Text(name) if name == key(PRINTF) => {
                    let texts = value
                        .as_list()
                        .and_then(|list| list.iter().map(|t| t.as_text().map(str::to_owned)).collect::<Option<_>>());
                    document.printf = Some(texts.ok_or_else(|| wrong(key(PRINTF), "a list of texts", &value))?);
                }
                Value::Text(name) if name == key(TARGET) => match value {
                    Value::Text(target) => document.target = Some(target.into_owned()),
                    other => return Err(wrong(key(TARGET), "text", &other)),
                },
                Value::Text(name) => _ = document.unknown.insert(name.into_owned(), value),
                other => return Err(wrong(WHAT, "a map whose keys are text", &other)),
            }
        }
        Ok(document)
    }

    /// Takes in another note's document, as ROCm's code object manager does: of the same version, and with formats of
    /// printf in one of them only, or the same in both.
    ///
    /// # Errors
    /// What is in the way; nothing was taken then.
    fn merge(&mut self, other: Document<'a>) -> std::result::Result<(), (String, String)> {
        if self.form != other.form || self.version != other.version {
            return Err((format!("version {:?} like the first", self.version), format!("{:?}", other.version)));
        }
        if self.printf.is_some() && other.printf.is_some() && self.printf != other.printf {
            return Err(("the formats of printf of the first".to_owned(), "others".to_owned()));
        }
        self.printf = self.printf.take().or(other.printf);
        self.target = self.target.take().or(other.target);
        for (key, value) in other.unknown {
            self.unknown.entry(key).or_insert(value);
        }
        self.kernels.extend(other.kernels);
        Ok(())
    }

    /// The document as it would be written.
    pub(crate) fn into_value(self) -> Value<'a> {
        let text = |key: Key| Value::Text(self.form.of(key).into());
        let texts = |texts: Vec<String>| Value::List(texts.into_iter().map(|text| Value::Text(text.into())).collect());
        let numbers = self.version.into_iter().map(|n| Value::Unsigned(n.into())).collect();
        let mut pairs = vec![(text(KERNELS), Value::List(self.kernels)), (text(VERSION), Value::List(numbers))];
        pairs.extend(self.printf.map(|printf| (text(PRINTF), texts(printf))));
        pairs.extend(self.target.map(|target| (text(TARGET), Value::Text(target.into()))));
        pairs.extend(self.unknown.into_iter().map(|(key, value)| (Value::Text(key.into()), value)));
        Value::Map(pairs)
    }
}

/// Merges the metadata of all notes; `None` when there is none. A note that does not go with the first is a problem.
///
/// # Errors
/// When a note of metadata is damaged.
pub(crate) fn merged<'a>(notes: &[Note<'a>], problems: &mut Vec<Unreadable>) -> Result<Option<Document<'a>>> {
    let mut merged: Option<Document<'a>> = None;
    for note in notes {
        let document = match (note.owner, note.kind) {
            (b"AMDGPU", NEW_NOTE) => Document::of(Form::New, msgpack::read(note.bytes, note.at)?, note.at)?,
            (b"AMD", OLD_NOTE) => {
                let what = "YAML metadata";
                let text = std::str::from_utf8(note.bytes).map_err(|e| {
                    Unreadable::unexpected(what, note.at + e.valid_up_to() as u64, "UTF-8", "other bytes")
                })?;
                Document::of(Form::Old, yaml::read(text, note.at)?, note.at)?
            }
            _ => continue,
        };
        match &mut merged {
            None => merged = Some(document),
            Some(first) => {
                if let Err((expected, found)) = first.merge(document) {
                    problems.push(Unreadable::unexpected("metadata note", note.at, expected, found));
                }
            }
        }
    }
    Ok(merged)
}
