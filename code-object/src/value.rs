//! Metadata as it is written, of any version of the ABI.

use std::collections::HashSet;

use crate::error::{Result, Unreadable};

/// A value of the metadata: MessagePack from version 3 on, YAML in version 2.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
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
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// Bytes of a type that is told by a number.
    Extension(i8, Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// Pairs in the order in which they are written.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(pairs) = self else { return None };
        pairs.iter().find(|(k, _)| k.as_text() == Some(key)).map(|(_, value)| value)
    }

    /// Text.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// A number that is not negative.
    pub fn as_unsigned(&self) -> Option<u64> {
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
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(list) = self { Some(list) } else { None }
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
pub(crate) fn map(what: &'static str, at: u64, pairs: Vec<(Value, Value)>) -> Result<Value> {
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
