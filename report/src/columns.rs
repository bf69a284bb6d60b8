//! Rows as columns with types.

use std::borrow::Cow;
use std::io::BufRead;

use crate::rows::{Line, Log, ReadError};

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A number below 2^63.
    Number,
    /// A number of 64 bits, written as `0x...`.
    Address,
    /// One of the three numbers of `64x2x1`.
    Size(usize),
}

/// The columns: their names, and those of the log.
pub const COLUMNS: &[(&str, &str, Kind)] = &[
    ("kernel", "kernel", Kind::Text),
    ("dispatch", "dispatch", Kind::Number),
    ("startNs", "startNs", Kind::Number),
    ("endNs", "endNs", Kind::Number),
    ("durationNs", "durationNs", Kind::Number),
    ("id", "id", Kind::Number),
    ("agent", "agent", Kind::Number),
    ("queue", "queue", Kind::Number),
    ("gridX", "grid", Kind::Size(0)),
    ("gridY", "grid", Kind::Size(1)),
    ("gridZ", "grid", Kind::Size(2)),
    ("workgroupX", "workgroup", Kind::Size(0)),
    ("workgroupY", "workgroup", Kind::Size(1)),
    ("workgroupZ", "workgroup", Kind::Size(2)),
    ("ldsBytes", "ldsBytes", Kind::Number),
    ("scratchBytes", "scratchBytes", Kind::Number),
    ("kernargBytes", "kernargBytes", Kind::Number),
    ("kernelObject", "kernelObject", Kind::Address),
    ("flags", "flags", Kind::Text),
    ("replaced", "replaced", Kind::Text),
    ("kind", "kind", Kind::Text),
    ("bytes", "bytes", Kind::Number),
    ("pid", "pid", Kind::Number),
    ("rank", "rank", Kind::Number),
    ("vgprs", "vgprs", Kind::Number),
    ("agprs", "agprs", Kind::Number),
    ("sgprs", "sgprs", Kind::Number),
    ("tid", "tid", Kind::Number),
];

/// The log's name of each column.
const NAMES: [&str; COLUMNS.len()] = {
    let mut names = [""; COLUMNS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = COLUMNS[at].1;
        at += 1;
    }
    names
};

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// How many rows.
    pub rows: u64,
    /// Lines that could not be read: they are no rows.
    pub unreadable: u64,
    /// The first of them: file, line and reason.
    pub first_unreadable: Option<String>,
}

/// Gives the values of each row of a log to `each`, in the order of [`COLUMNS`].
///
/// # Errors
/// When the log cannot be read or is none, and errors of `each`.
pub fn read<R: BufRead, E: From<ReadError>>(
    name: &str,
    log: &mut Log<R>,
    read: &mut Rows,
    mut each: impl FnMut(&[Option<Value<'_>>]) -> Result<(), E>,
) -> Result<(), E> {
    log.choose(&NAMES);
    loop {
        let number = log.number() + 1;
        let why = match log.next_line()? {
            None => return Ok(()),
            Some(Line::Row(_)) => {
                let texts = log.texts();
                let cells = texts.into_iter().zip(COLUMNS).map(|(text, (name, _, kind))| match text {
                    None => Ok(None),
                    Some(text) => kind.value(text).map(Some).map_err(|text| format!("{name}: found {text:?}")),
                });
                match cells.collect::<Result<Vec<_>, String>>() {
                    Ok(values) => {
                        each(&values)?;
                        read.rows += 1;
                        continue;
                    }
                    Err(why) => why,
                }
            }
            Some(Line::Unreadable(why)) => why,
            Some(_) => continue,
        };
        read.unreadable += 1;
        read.first_unreadable.get_or_insert_with(|| format!("{name}:{number}: {why}"));
    }
}

/// A cell that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Of [`Kind::Text`].
    Text(Cow<'a, str>),
    /// Of the other kinds. Numbers from 2^63 on are negative: as many bits, without a sign.
    Number(i64),
}

impl Kind {
    /// The value of a cell that is not empty.
    ///
    /// # Errors
    /// The text again, if it is not of this kind.
    fn value(self, text: Cow<'_, str>) -> Result<Value<'_>, Cow<'_, str>> {
        let number = match self {
            Kind::Text => return Ok(Value::Text(text)),
            Kind::Number => text.parse().ok().filter(|number: &i64| *number >= 0),
            Kind::Address => {
                text.strip_prefix("0x").and_then(|text| u64::from_str_radix(text, 16).ok()).map(u64::cast_signed)
            }
            Kind::Size(at) => text.split('x').nth(at).and_then(|text| text.parse().ok()),
        };
        number.map(Value::Number).ok_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_rows_is_read_and_no_other() {
        let written: Vec<&str> = logdur_journal::columns::COLUMNS.iter().map(|column| column.name).collect();
        let mut read = NAMES.to_vec();
        read.dedup();
        assert_eq!(read, written);
    }
}
