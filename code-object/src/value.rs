//! Metadata as it is written, of any version of the ABI.

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
    /// Text. What is no UTF-8 is [`Value::Binary`].
    Text(String),
    /// Bytes, and the number of the type of an extension.
    Binary(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// Pairs in the order in which they are written.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(pairs) = self else { return None };
        pairs.iter().find(|(k, _)| matches!(k, Value::Text(text) if text == key)).map(|(_, value)| value)
    }

    /// Text.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// A number that is not negative.
    pub fn as_unsigned(&self) -> Option<u64> {
        if let Value::Unsigned(number) = self { Some(*number) } else { None }
    }

    /// A list.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(list) = self { Some(list) } else { None }
    }
}
