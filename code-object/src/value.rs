//! Metadata as it is written, of any version of the ABI.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{Result, Unreadable};

/// A value of the metadata: MessagePack from version 3 on, YAML in version 2. Text is borrowed from the code object's
/// bytes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Nothing.
    Nil,
    /// True or false.
    Bool(bool),
    /// A number that is not negative.
    Unsigned(u64),
    /// A negative number.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// Text. What should be text and is no UTF-8 is [`Value::Binary`].
    Text(Cow<'a, str>),
    /// Bytes.
    Binary(Cow<'a, [u8]>),
    /// Bytes of a type that is told by a number.
    Extension(i8, Cow<'a, [u8]>),
    /// A list.
    List(Vec<Value<'a>>),
    /// Pairs in the order in which they are written.
    Map(Vec<(Value<'a>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Value::Map(pairs) = self else { return None };
        pairs.iter().find(|(k, _)| k.as_text() == Some(key)).map(|(_, value)| value)
    }

    /// Text.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// A number that is not negative.
    pub(crate) fn as_unsigned(&self) -> Option<u64> {
        if let Value::Unsigned(number) = self { Some(*number) } else { None }
    }

    /// True or false, which some keys write as a number.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            Value::Unsigned(number @ (0 | 1)) => Some(*number == 1),
            _ => None,
        }
    }

    /// A list.
    pub fn as_list(&self) -> Option<&[Value<'a>]> {
        if let Value::List(list) = self { Some(list) } else { None }
    }

    /// The same value, independent of the bytes that it was read from.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Nil => Value::Nil,
            Value::Bool(value) => Value::Bool(value),
            Value::Unsigned(number) => Value::Unsigned(number),
            Value::Signed(number) => Value::Signed(number),
            Value::Float(number) => Value::Float(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
            Value::Extension(kind, bytes) => Value::Extension(kind, Cow::Owned(bytes.into_owned())),
            Value::List(list) => Value::List(list.into_iter().map(Value::into_owned).collect()),
            Value::Map(pairs) => Value::Map(pairs.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect()),
        }
    }

    /// What it is, for an error.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Nil => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Unsigned(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(text) => format!("{:?}", text.chars().take(80).collect::<String>()),
            Value::Binary(bytes) | Value::Extension(_, bytes) => format!("{} bytes that are no text", bytes.len()),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Map(pairs) => format!("a map of {}", pairs.len()),
        }
    }
}

/// A map, in which no text may be a key twice: who reads it would not know which one is meant.
pub(crate) fn map<'a>(what: &'static str, at: u64, pairs: Vec<(Value<'a>, Value<'a>)>) -> Result<Value<'a>> {
    /// Up to so many, comparing each with each is faster than a set.
    const FEW: usize = 32;
    let twice = if pairs.len() <= FEW {
        let before = |at: usize, key: &str| pairs.iter().take(at).any(|(k, _)| k.as_text() == Some(key));
        let keys = pairs.iter().enumerate().filter_map(|(at, (key, _))| Some((at, key.as_text()?)));
        keys.into_iter().find(|&(at, key)| before(at, key)).map(|(_, key)| key)
    } else {
        let mut seen = HashSet::with_capacity(pairs.len());
        pairs.iter().filter_map(|(key, _)| key.as_text()).find(|key| !seen.insert(*key))
    };
    match twice {
        Some(key) => Err(Unreadable::unexpected(what, at, "a map", format!("{key:?} twice"))),
        None => Ok(Value::Map(pairs)),
    }
}
