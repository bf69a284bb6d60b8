//! What `llvm-readelf` says of a code object, its YAML read by a crate.

use std::path::Path;
use std::process::Command;

use amdgpu_code_object::Value;
use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::compiled::run;

/// The output for some options.
fn output(path: &Path, options: &[&str]) -> String {
    run(Command::new("llvm-readelf-19").args(options).arg(path))
}

/// Every document of metadata that is in the notes.
pub(crate) fn documents(path: &Path) -> Vec<Value<'static>> {
    let text = output(path, &["--notes"]);
    let mut documents = Vec::new();
    let mut lines = text.lines();
    while let Some(start) = lines.by_ref().find(|line| line.trim() == "---") {
        let document: Vec<&str> = lines.by_ref().take_while(|line| *line != "...").collect();
        documents.push(yaml(&format!("{}\n{}\n", start.trim(), document.join("\n"))));
    }
    documents
}

/// What a line of the ELF's header says, like `Flags`.
pub(crate) fn header(path: &Path, name: &str) -> String {
    let text = output(path, &["--file-header"]);
    // The second version is the ABI's; no other line's name ends like it.
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no line {name} in {text}")).trim().to_owned()
}

fn yaml(text: &str) -> Value<'static> {
    let mut events = Parser::new_from_str(text).map(|event| event.unwrap_or_else(|e| panic!("{e}: {text}")).0);
    let mut events = events.by_ref().filter(|e| {
        !matches!(
            e,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::StreamEnd
        )
    });
    let first = events.next().expect("a document has a value");
    let value = node(first, &mut events);
    assert!(events.next().is_none(), "one value in a document");
    value
}

fn node<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value<'static> {
    const CUT: &str = "what was begun has an end";
    match event {
        Event::Scalar(text, style, _, tag) => {
            let tag = tag.map(|tag| tag.suffix.clone()).unwrap_or_default();
            scalar(&text, style == ScalarStyle::Plain, &tag)
        }
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            loop {
                match events.next().expect(CUT) {
                    Event::SequenceEnd => return Value::List(list),
                    event => list.push(node(event, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut pairs = Vec::new();
            loop {
                match events.next().expect(CUT) {
                    Event::MappingEnd => return Value::Map(pairs),
                    key => {
                        let key = node(key, events);
                        let value = events.next().expect(CUT);
                        pairs.push((key, node(value, events)));
                    }
                }
            }
        }
        other => panic!("metadata has no {other:?}"),
    }
}

/// LLVM puts a tag before what would be taken for another type, and quotes around what is no plain scalar.
fn scalar(text: &str, plain: bool, tag: &str) -> Value<'static> {
    if tag == "nil" {
        return Value::Nil;
    }
    if plain && tag != "str" {
        if let Ok(number) = text.parse() {
            return Value::Unsigned(number);
        }
        if let Ok(number) = text.parse() {
            return Value::Signed(number);
        }
        if let Ok(value) = text.parse() {
            return Value::Bool(value);
        }
    }
    Value::Text(text.to_owned().into())
}
