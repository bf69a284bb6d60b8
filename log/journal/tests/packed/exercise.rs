//! Reads a log in records, whatever is in it.

use logdur_journal::lines::{Format, Lines};
use logdur_journal::packed::{self, Found, Reader};

/// What was read of a log.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) rows: Vec<String>,
    pub(crate) lines: u64,
    pub(crate) damage: Vec<String>,
}

/// Reads everything.
pub(crate) fn exercise(mut bytes: &[u8]) -> Read {
    let (mut reader, mut read) = (Reader::default(), Read::default());
    while let Some(found) = reader.next(&mut bytes).expect("memory can be read") {
        match found {
            Found::Row => {
                let mut line = Vec::new();
                Lines::of(Format::Csv).row(&mut line, &reader.row());
                read.rows.push(String::from_utf8(line).expect("rows are text"));
            }
            Found::Line => {
                let mut line = Vec::new();
                packed::say(reader.text(), Lines::of(Format::Csv), &mut line);
                read.lines += 1;
            }
            Found::Damage => read.damage.push(reader.text().to_owned()),
        }
    }
    read
}
