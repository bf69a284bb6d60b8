//! Rows as columns with types.

use std::borrow::Cow;
use std::io::BufRead;

use logdur_journal::columns as journal;

use crate::gpus::Device;
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

/// How many columns there are.
const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < journal::COLUMNS.len() {
        count += if let journal::Kind::Size(parts) = journal::COLUMNS[at].kind { parts.len() } else { 1 };
        at += 1;
    }
    count
};

/// The columns: their names, and those of the log. They are the log's, but for one of its sizes, which is three.
pub const COLUMNS: &[(&str, &str, Kind)] = &{
    let mut columns = [("", "", Kind::Text); COUNT];
    let (mut from, mut to) = (0, 0);
    while from < journal::COLUMNS.len() {
        let name = journal::COLUMNS[from].name;
        let kind = match journal::COLUMNS[from].kind {
            journal::Kind::Text => Kind::Text,
            journal::Kind::Number => Kind::Number,
            journal::Kind::Address => Kind::Address,
            journal::Kind::Size(parts) => {
                let mut part = 0;
                while part < parts.len() {
                    columns[to] = (parts[part], name, Kind::Size(part));
                    (part, to) = (part + 1, to + 1);
                }
                from += 1;
                continue;
            }
        };
        columns[to] = (name, name, kind);
        (from, to) = (from + 1, to + 1);
    }
    columns
};

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
    /// Rows that the accounts of the logs have and the logs have not.
    pub missing: u64,
}

/// Gives the values of each row of a log to `each`, in the order of [`COLUMNS`].
///
/// # Errors
/// When the log cannot be read or is none, and errors of `each`.
pub fn read<R: BufRead, E: From<ReadError>>(
    name: &str,
    log: &mut Log<R>,
    read: &mut Rows,
    each: impl FnMut(&[Option<Value<'_>>]) -> Result<(), E>,
) -> Result<(), E> {
    read_with_gpus(name, log, read, |_, _, _| {}, each)
}

/// The same, and gives to `gpu` what lines say of GPUs, as [`Line::Agent`] has it.
///
/// # Errors
/// As [`read`].
pub fn read_with_gpus<R: BufRead, E: From<ReadError>>(
    name: &str,
    log: &mut Log<R>,
    read: &mut Rows,
    mut gpu: impl FnMut(u64, Option<String>, Option<Device>),
    mut each: impl FnMut(&[Option<Value<'_>>]) -> Result<(), E>,
) -> Result<(), E> {
    log.choose(&NAMES);
    loop {
        let number = log.number() + 1;
        let why = match log.next_line()? {
            None => {
                read.missing = read.missing.saturating_add(log.missing());
                return Ok(());
            }
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
            Some(Line::Agent { position, name, device }) => {
                gpu(position, name, device);
                continue;
            }
            Some(Line::Unreadable(why)) => why,
            Some(Line::Account(_) | Line::Run { .. } | Line::Site { .. } | Line::Clocks { .. } | Line::Other) => {
                continue;
            }
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
