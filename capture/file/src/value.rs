//! Fields of records: a tag, a kind, a length, a value.
//!
//! Tags are integers that never change their meaning, and a field has its own kind and length. So a reader skips unknown fields, and an
//! older file lacks later ones. The order of fields and the structs of programs are no part of the format. A field with its default
//! value (0, empty) is not written.

use std::fmt;

use crate::id::Id;

/// Bytes before a field's value: tag (`u16`), kind (`u16`), length (`u32`).
pub(crate) const FIELD_HEAD: usize = 8;

/// How the bytes of a field are to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// An unsigned integer, little-endian, of up to 8 bytes.
    Number = 1,
    /// UTF-8.
    Text = 2,
    /// Anything.
    Bytes = 3,
    /// Fields again.
    Record = 4,
}

impl Kind {
    /// The word of the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Text => "text",
            Kind::Bytes => "bytes",
            Kind::Record => "record",
        }
    }

    fn of(number: u16) -> Option<Kind> {
        [Kind::Number, Kind::Text, Kind::Bytes, Kind::Record].into_iter().find(|k| *k as u16 == number)
    }
}

/// The value of a field, for those who print records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number, or what is counted by one.
    Number(u64),
    /// A text.
    Text(String),
    /// Bytes: contents, ids, packets.
    Bytes(Vec<u8>),
    /// Fields by name, those at their defaults left out.
    Record(Vec<(&'static str, Shown)>),
    /// A field that may occur more than once.
    List(Vec<Shown>),
}

/// A row of a record's table: what the documentation says of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    /// Its number.
    pub tag: u16,
    /// Its name.
    pub name: &'static str,
    /// What its bytes are.
    pub kind: Kind,
    /// True when there may be several.
    pub repeated: bool,
    /// The table that describes the fields of a [`Kind::Record`].
    pub of: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
}

/// Why the bytes of a record are not its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What may be the value of a field.
pub(crate) trait Value {
    const KIND: Kind;
    const REPEATED: bool = false;
    const OF: Option<&'static str> = None;
    /// True for an identifier: 0 means none, so a field with 0 equals a missing one.
    const ZERO_IS_NOTHING: bool = false;
    /// Writes the field, unless it has the default value.
    fn put(&self, tag: u16, out: &mut Vec<u8>);
    /// Takes the value of a field.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong>;
    /// The value, unless it is the default.
    fn shown(&self) -> Option<Shown>;
}

pub(crate) fn put(tag: u16, kind: Kind, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&(kind as u16).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

pub(crate) fn put_number(number: u64, tag: u16, out: &mut Vec<u8>) {
    if number != 0 {
        put(tag, Kind::Number, &number.to_le_bytes(), out);
    }
}

pub(crate) fn number(bytes: &[u8]) -> Result<u64, Wrong> {
    let mut word = [0; 8];
    match word.get_mut(..bytes.len()) {
        Some(low) => low.copy_from_slice(bytes),
        None => return Err(Wrong(format!("expected a number of at most 8 bytes, found {}", bytes.len()))),
    }
    Ok(u64::from_le_bytes(word))
}

/// Values that are numbers: how they become one and come from one.
macro_rules! numbers {
    ($( $type:ty: $to:expr, $from:expr $(, $attribute:ident)?; )*) => { $(
        impl $crate::value::Value for $type {
            const KIND: $crate::value::Kind = $crate::value::Kind::Number;
            $( const $attribute: bool = true; )?
            fn put(&self, tag: u16, out: &mut Vec<u8>) {
                let to: fn(&$type) -> u64 = $to;
                $crate::value::put_number(to(self), tag, out);
            }
            fn take(&mut self, bytes: &[u8]) -> Result<(), $crate::value::Wrong> {
                let from: fn(u64) -> Option<$type> = $from;
                let number = $crate::value::number(bytes)?;
                *self = from(number).ok_or_else(|| $crate::value::Wrong(format!("{number} is out of range")))?;
                Ok(())
            }
            fn shown(&self) -> Option<$crate::value::Shown> {
                let to: fn(&$type) -> u64 = $to;
                Some(to(self)).filter(|n| *n != 0).map($crate::value::Shown::Number)
            }
        }
    )* };
}
pub(crate) use numbers;

numbers! {
    u64: |n| *n, Some;
    u32: |n| u64::from(*n), |n| u32::try_from(n).ok();
    bool: |b| u64::from(*b), |n| Some(n != 0);
}

impl Value for String {
    const KIND: Kind = Kind::Text;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put(tag, Self::KIND, self.as_bytes(), out);
        }
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        let text = std::str::from_utf8(bytes).map_err(|e| Wrong(format!("expected UTF-8: {e}")))?;
        text.clone_into(self);
        Ok(())
    }
    fn shown(&self) -> Option<Shown> {
        (!self.is_empty()).then(|| Shown::Text(self.clone()))
    }
}

impl Value for Vec<u8> {
    const KIND: Kind = Kind::Bytes;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put(tag, Self::KIND, self, out);
        }
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        *self = bytes.to_vec();
        Ok(())
    }
    fn shown(&self) -> Option<Shown> {
        (!self.is_empty()).then(|| Shown::Bytes(self.clone()))
    }
}

impl<const N: usize> Value for [u8; N] {
    const KIND: Kind = Kind::Bytes;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        if *self != [0; N] {
            put(tag, Self::KIND, self, out);
        }
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        if bytes.is_empty() {
            *self = [0; N];
            return Ok(());
        }
        *self = bytes.try_into().map_err(|_| Wrong(format!("expected {N} bytes, found {}", bytes.len())))?;
        Ok(())
    }
    fn shown(&self) -> Option<Shown> {
        (*self != [0; N]).then(|| Shown::Bytes(self.to_vec()))
    }
}

impl Value for Id {
    const KIND: Kind = Kind::Bytes;
    const ZERO_IS_NOTHING: bool = true;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        self.0.put(tag, out);
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.0.take(bytes)
    }
    fn shown(&self) -> Option<Shown> {
        self.0.shown()
    }
}

/// Written when it is there, default or not. Read as `None` where 0 is nothing.
impl<T: Value + Default> Value for Option<T> {
    const KIND: Kind = T::KIND;
    const OF: Option<&'static str> = T::OF;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        put_always(self.iter(), tag, out);
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        let mut value = T::default();
        value.take(bytes)?;
        *self = Some(value).filter(|value| !T::ZERO_IS_NOTHING || value.shown().is_some());
        Ok(())
    }
    fn shown(&self) -> Option<Shown> {
        self.as_ref().map(shown_always)
    }
}

/// A field for each.
impl<T: Value + Default> Value for Vec<T> {
    const KIND: Kind = T::KIND;
    const REPEATED: bool = true;
    const OF: Option<&'static str> = T::OF;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        put_always(self.iter(), tag, out);
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        let mut value = T::default();
        value.take(bytes)?;
        self.push(value);
        Ok(())
    }
    fn shown(&self) -> Option<Shown> {
        (!self.is_empty()).then(|| Shown::List(self.iter().map(shown_always).collect()))
    }
}

/// A value that is at its default is written as a field without bytes, which is read as the default.
fn put_always<'a, T: Value + 'a>(values: impl Iterator<Item = &'a T>, tag: u16, out: &mut Vec<u8>) {
    for value in values {
        let before = out.len();
        value.put(tag, out);
        if out.len() == before {
            put(tag, T::KIND, &[], out);
        }
    }
}

fn shown_always<T: Value>(value: &T) -> Shown {
    value.shown().unwrap_or(match T::KIND {
        Kind::Number => Shown::Number(0),
        Kind::Text => Shown::Text(String::new()),
        Kind::Bytes => Shown::Bytes(Vec::new()),
        Kind::Record => Shown::Record(Vec::new()),
    })
}

/// Nested fields.
pub(crate) fn put_record<T: Fields>(value: &T, tag: u16, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    value.write(&mut body);
    if !body.is_empty() {
        put(tag, Kind::Record, &body, out);
    }
}

/// A struct that is a list of fields. Made by the tables in [`crate::records`].
pub trait Fields: Default {
    /// What the documentation calls it.
    const NAME: &'static str;
    /// Its table.
    const ROWS: &'static [FieldRow];
    /// Its fields by name, those at their defaults left out.
    fn shown(&self) -> Vec<(&'static str, Shown)>;
    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);
    #[doc(hidden)]
    fn take(&mut self, tag: u16, bytes: &[u8]) -> Result<(), String>;
}

/// Sets fields of a record's body to zeros, which is their default; the body stays as long as it is.
pub(crate) fn blank(body: &mut [u8], tags: &[u16]) {
    each_field(body, &mut |tag, field| {
        if tags.contains(&tag) {
            field.fill(0);
        }
    });
}

/// Replaces the value of a field by another one of the same length.
pub(crate) fn replace(body: &mut [u8], tag: u16, value: &[u8]) {
    each_field(body, &mut |found, field| {
        if found == tag && field.len() == value.len() {
            field.copy_from_slice(value);
        }
    });
}

/// The fields of a record's body: the tag, all bytes, and those of the value; up to one that is cut off.
pub(crate) fn fields(mut body: &[u8]) -> impl Iterator<Item = (u16, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let ([t0, t1, _, _, length @ ..], _) = body.split_first_chunk::<FIELD_HEAD>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (whole, rest) = body.split_at_checked(FIELD_HEAD + length)?;
        body = rest;
        Some((u16::from_le_bytes([*t0, *t1]), whole, whole.get(FIELD_HEAD..)?))
    })
}

/// Goes over the fields of a record's body.
fn each_field(body: &mut [u8], each: &mut dyn FnMut(u16, &mut [u8])) {
    let mut rest = body;
    while let Some((&mut [t0, t1, _, _, ref length @ ..], after)) = rest.split_first_chunk_mut::<FIELD_HEAD>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((field, next)) = after.split_at_mut_checked(length) else { return };
        each(u16::from_le_bytes([t0, t1]), field);
        rest = next;
    }
}

/// Reads the fields of a struct; those that it does not know are ignored.
pub(crate) fn read<T: Fields>(mut bytes: &[u8]) -> Result<T, Wrong> {
    let mut value = T::default();
    while !bytes.is_empty() {
        let short = || Wrong(format!("{}: a field is cut off", T::NAME));
        let (head, rest) = bytes.split_first_chunk::<FIELD_HEAD>().ok_or_else(short)?;
        let [t0, t1, k0, k1, length @ ..] = *head;
        let (tag, kind) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([k0, k1]));
        let (field, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize).ok_or_else(short)?;
        bytes = rest;
        let Some(row) = T::ROWS.iter().find(|row| row.tag == tag) else { continue };
        if Kind::of(kind) != Some(row.kind) {
            let expected = row.kind.name();
            return Err(Wrong(format!("{}.{}: expected a {expected}, found kind {kind}", T::NAME, row.name)));
        }
        value.take(tag, field).map_err(|why| Wrong(format!("{}.{}: {why}", T::NAME, row.name)))?;
    }
    Ok(value)
}
