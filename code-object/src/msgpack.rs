//! Reads MessagePack, in which the metadata is written from version 3 of the ABI on.
//!
//! Source: the MessagePack specification. What it takes is bounded: nesting, the number of values, and memory by the bytes
//! that are there, whatever lengths they claim.

use std::borrow::Cow;

use crate::error::{Result, Unreadable};
use crate::value::{self, Value};

const WHAT: &str = "MessagePack metadata";
/// Real metadata has six levels.
const MAX_DEPTH: u32 = 32;
/// Real metadata has some 300 values for a kernel, and up to some thousand kernels.
pub(crate) const MAX_VALUES: u64 = 1 << 24;

/// Reads one value, which has to be all that there is. `at` is where the bytes are, for errors.
///
/// # Errors
/// When they are anything else.
pub(crate) fn read(bytes: &[u8], at: u64) -> Result<Value<'_>> {
    let mut reader = Reader { rest: bytes, length: bytes.len() as u64, at, values: 0 };
    let value = reader.value(0)?;
    match reader.rest {
        [] => Ok(value),
        rest => Err(reader.unexpected("its end", format!("{} more bytes", rest.len()))),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Of all the bytes.
    length: u64,
    at: u64,
    values: u64,
}

impl<'a> Reader<'a> {
    fn here(&self) -> u64 {
        self.at + (self.length - self.rest.len() as u64)
    }

    fn unexpected(&self, expected: &str, found: String) -> Unreadable {
        Unreadable::unexpected(WHAT, self.here(), expected, found)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = split else {
            let found = self.rest.len() as u64;
            return Err(Unreadable::Short { what: WHAT, at: self.here(), expected: length, found });
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A big-endian number of up to eight bytes.
    fn number(&mut self, size: u64) -> Result<u64> {
        Ok(self.take(size)?.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    fn signed(&mut self, size: u64) -> Result<Value<'a>> {
        let shift = 64 - 8 * size as u32;
        let number = (self.number(size)? << shift) as i64 >> shift;
        Ok(u64::try_from(number).map_or(Value::Signed(number), Value::Unsigned))
    }

    fn text(&mut self, length: u64) -> Result<Value<'a>> {
        let bytes = self.take(length)?;
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(Cow::Borrowed(text)),
            Err(_) => Value::Binary(Cow::Borrowed(bytes)),
        })
    }

    fn extension(&mut self, length: u64) -> Result<Value<'a>> {
        let kind = self.number(1)? as u8 as i8;
        Ok(Value::Extension(kind, Cow::Borrowed(self.take(length)?)))
    }

    /// Every element has a byte at least: a claim beyond that is refused before any of it is read.
    fn count(&self, count: u64, bytes_each: u64) -> Result<u64> {
        let (expected, found) = (count.saturating_mul(bytes_each), self.rest.len() as u64);
        if expected > found {
            return Err(Unreadable::Short { what: WHAT, at: self.here(), expected, found });
        }
        Ok(count)
    }

    fn list(&mut self, count: u64, depth: u32) -> Result<Value<'a>> {
        let count = self.count(count, 1)?;
        (0..count).map(|_| self.value(depth + 1)).collect::<Result<_>>().map(Value::List)
    }

    fn map(&mut self, count: u64, depth: u32) -> Result<Value<'a>> {
        let (at, count) = (self.here(), self.count(count, 2)?);
        let pairs = (0..count).map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?)));
        value::map(WHAT, at, pairs.collect::<Result<_>>()?)
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>> {
        self.values += 1;
        for (found, limit) in [(u64::from(depth), u64::from(MAX_DEPTH)), (self.values, MAX_VALUES)] {
            if found > limit {
                return Err(Unreadable::TooLarge { what: WHAT, at: self.here(), limit, found });
            }
        }
        let first = self.number(1)?;
        // The sizes of a family of types are powers of two, in the order of their codes.
        let size = |base: u64| 1 << (first - base);
        Ok(match first {
            0x00..=0x7f => Value::Unsigned(first),
            0x80..=0x8f => self.map(first & 0xf, depth)?,
            0x90..=0x9f => self.list(first & 0xf, depth)?,
            0xa0..=0xbf => self.text(first & 0x1f)?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Bool(first == 0xc3),
            0xc4..=0xc6 => {
                let length = self.number(size(0xc4))?;
                Value::Binary(Cow::Borrowed(self.take(length)?))
            }
            0xc7..=0xc9 => {
                let length = self.number(size(0xc7))?;
                self.extension(length)?
            }
            0xca => Value::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Value::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::Unsigned(self.number(size(0xcc))?),
            0xd0..=0xd3 => self.signed(size(0xd0))?,
            0xd4..=0xd8 => self.extension(size(0xd4))?,
            0xd9..=0xdb => {
                let length = self.number(size(0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let count = self.number(size(0xdb))?;
                self.list(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.number(size(0xdd))?;
                self.map(count, depth)?
            }
            0xe0..=0xff => Value::Signed(i64::from(first as u8 as i8)),
            _ => return Err(self.unexpected("a type of MessagePack before this byte", format!("{first:#x}"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmpv::Value as Other;

    fn ours(other: &Other) -> Value<'_> {
        match other {
            Other::Nil => Value::Nil,
            Other::Boolean(b) => Value::Bool(*b),
            Other::Integer(n) => n.as_u64().map_or_else(|| Value::Signed(n.as_i64().unwrap()), Value::Unsigned),
            Other::F32(f) => Value::Float(f64::from(*f)),
            Other::F64(f) => Value::Float(*f),
            Other::String(s) => {
                s.as_str().map_or_else(|| Value::Binary(s.as_bytes().into()), |s| Value::Text(s.into()))
            }
            Other::Binary(b) => Value::Binary(b.into()),
            Other::Array(list) => Value::List(list.iter().map(ours).collect()),
            Other::Map(pairs) => Value::Map(pairs.iter().map(|(k, v)| (ours(k), ours(v))).collect()),
            Other::Ext(kind, b) => Value::Extension(*kind, b.into()),
        }
    }

    #[test]
    fn every_type_at_every_size_is_read_as_another_reader_does() {
        let numbers = [0, 1, 127, 128, 255, 256, 65535, 65536, u64::from(u32::MAX), 1 << 32, u64::MAX];
        let mut all: Vec<Other> = numbers.iter().map(|&n| Other::from(n)).collect();
        all.extend([-1, -32, -33, -128, -129, -32768, -32769, i64::from(i32::MIN), i64::MIN].map(Other::from));
        all.extend([Other::Nil, Other::from(true), Other::from(false), Other::F32(1.5), Other::F64(-2.25)]);
        for length in [0, 1, 2, 4, 8, 15, 16, 31, 32, 255, 256, 65535, 65536] {
            all.push(Other::from("n".repeat(length)));
            all.push(Other::Binary(vec![7; length]));
            all.push(Other::Ext(-3, vec![7; length]));
            all.push(Other::Array(vec![Other::from(1); length]));
            all.push(Other::Map((0..length).map(|i| (Other::from(i), Other::Nil)).collect()));
        }
        for other in [all.clone(), vec![Other::Array(all)]].concat() {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &other).unwrap();
            assert_eq!(read(&bytes, 0), Ok(ours(&other)));
            // What is cut short is refused at any length.
            for length in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
                assert!(read(&bytes[..length], 0).is_err(), "{length} of {} bytes of {other}", bytes.len());
            }
        }
    }

    #[test]
    fn nesting_and_lengths_that_are_only_claimed_are_refused_where_they_are() {
        let deep = vec![0x91; 1_000_000];
        assert_eq!(
            read(&deep, 0x100).unwrap_err().to_string(),
            "MessagePack metadata at 0x121: expected at most 32, found 33"
        );
        let long = [0xdd, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(
            read(&long, 0).unwrap_err().to_string(),
            "MessagePack metadata at 0x5: expected 4294967295 bytes, found 1"
        );
        assert!(read(&[0xc1], 0).unwrap_err().to_string().contains("found 0xc1"));
        assert!(
            read(&[0x01, 0x02], 0).unwrap_err().to_string().contains("at 0x1: expected its end, found 1 more bytes")
        );
        let twice = [0x82, 0xa1, b'a', 0x01, 0xa1, b'a', 0x02];
        assert!(read(&twice, 0).unwrap_err().to_string().contains(r#"found "a" twice"#));
    }
}
