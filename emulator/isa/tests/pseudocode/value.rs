//! The values of the pseudocode, and what operators do to integers.

use crate::parse::{Number, Type};
use crate::real::{Format, Real};

/// A value of the pseudocode.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Bits, and how they are read.
    Bits(u128, Type),
    /// A number that was not rounded: a power of two.
    Exact(Real),
    Array(Vec<Value>),
    /// Equal to each denormal.
    Denormal,
}

pub(crate) const BIT: Type = Type::new(Number::Unsigned, 1);
pub(crate) const INTEGER: Type = Type::new(Number::Signed, 32);
/// Integers that do not wrap.
pub(crate) const WIDE: Type = Type::new(Number::Signed, 128);

pub(crate) fn ones(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

impl Value {
    pub(crate) fn bit(value: bool) -> Value {
        Value::Bits(value.into(), BIT)
    }

    pub(crate) fn unsigned(value: u64, width: u32) -> Value {
        Value::Bits(value.into(), Type::new(Number::Unsigned, width))
    }

    pub(crate) fn raw(value: u128, width: u32) -> Value {
        Value::Bits(value, Type::new(Number::Bits, width))
    }

    pub(crate) fn float(bits: u64, width: u32) -> Value {
        Value::Bits(bits.into(), Type::new(Number::Float, width))
    }

    pub(crate) fn bits(&self) -> Result<u128, String> {
        match self {
            Value::Bits(bits, _) => Ok(*bits),
            other => Err(format!("no bits: {other:?}")),
        }
    }

    pub(crate) fn is_true(&self) -> Result<bool, String> {
        Ok(self.bits()? != 0)
    }

    /// As a whole number, by its type.
    pub(crate) fn whole(&self) -> Result<i128, String> {
        match *self {
            Value::Bits(bits, Type { number: Number::Signed, width }) if width < 128 => {
                Ok(((bits << (128 - width)) as i128) >> (128 - width))
            }
            Value::Bits(bits, _) => Ok(bits as i128),
            ref other => Err(format!("no integer: {other:?}")),
        }
    }

    /// The width of a float.
    pub(crate) fn float_width(&self) -> Option<u32> {
        match self {
            Value::Bits(_, Type { number: Number::Float, width }) => Some(*width),
            Value::Bits(_, Type { number: Number::Brain, .. }) => Some(32),
            _ => None,
        }
    }

    pub(crate) fn real(&self) -> Result<Real, String> {
        match self {
            Value::Exact(real) => Ok(real.clone()),
            Value::Bits(bits, Type { number: Number::Float, width }) => Ok(Real::of(*bits as u64, Format::of(*width))),
            Value::Bits(bits, Type { number: Number::Brain, .. }) => Ok(Real::of((*bits as u64) << 16, Format::of(32))),
            other => Err(format!("no float: {other:?}")),
        }
    }
}

/// The result of integers: of the wider type, signed if both are.
pub(crate) fn integers(operator: &str, left: &Value, right: &Value) -> Result<Value, String> {
    let (Value::Bits(raw, x), Value::Bits(_, y)) = (left, right) else {
        return Err(format!("{operator} of no integers"));
    };
    let (a, b) = (left.whole()?, right.whole()?);
    let number = match (x.number, y.number) {
        (Number::Signed, Number::Signed) => Number::Signed,
        (Number::Bits, Number::Bits) => Number::Bits,
        _ => Number::Unsigned,
    };
    let kind = if WIDE == *x || WIDE == *y { WIDE } else { Type::new(number, x.width.max(y.width)) };
    let result = |value: i128| Value::Bits(value as u128 & ones(kind.width), kind);
    Ok(match operator {
        "+" => result(a.wrapping_add(b)),
        "-" => result(a.wrapping_sub(b)),
        "*" => result(a.wrapping_mul(b)),
        "&" => result(a & b),
        "|" => result(a | b),
        "^" => result(a ^ b),
        "<<" => Value::Bits(if b >= 128 { 0 } else { (raw << b as u32) & ones(x.width) }, *x),
        ">>" => Value::Bits((a >> b.min(127) as u32) as u128 & ones(x.width), *x),
        "==" => Value::bit(a == b),
        "!=" | "<>" => Value::bit(a != b),
        "<" => Value::bit(a < b),
        "<=" => Value::bit(a <= b),
        ">" => Value::bit(a > b),
        ">=" => Value::bit(a >= b),
        other => return Err(format!("{other} of integers")),
    })
}
