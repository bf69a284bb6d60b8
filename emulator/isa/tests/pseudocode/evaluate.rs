//! Evaluates pseudocode on one lane: values with types, places, and control flow. Functions are in `functions`.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::parse::{Body, Expression, Number, Statement, Type};
use crate::real::{Format, Real, Round};
use crate::value::{BIT, INTEGER, Value, WIDE, integers, ones};

/// What a mode does to floats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floats {
    /// Rounding of singles, and of halves and doubles.
    pub(crate) rounds: [Round; 2],
    /// Denormal sources are zero, by the same widths.
    pub(crate) flushes: [bool; 2],
    /// Halves that overflow are the largest.
    pub(crate) saturates: bool,
}

impl Floats {
    pub(crate) fn round(&self, width: u32) -> Round {
        self.rounds[usize::from(width != 32)]
    }

    pub(crate) fn rounded(&self, real: &Real, width: u32) -> Value {
        Value::float(real.bits(Format::of(width), self.round(width), self.saturates && width == 16), width)
    }
}

/// Texts that others call: `v_min_f32(a, b)` is what `V_MIN_F32` gives.
pub(crate) type Bodies = BTreeMap<String, Result<Body, String>>;

/// What a lane's program works on.
pub(crate) struct Program<'a> {
    pub(crate) bodies: &'a Bodies,
    pub(crate) names: BTreeMap<String, Value>,
    pub(crate) lambdas: BTreeMap<String, (Vec<String>, Body)>,
    pub(crate) floats: Floats,
    /// Integers do not wrap, and stay within the types that they are stored as: what the clamp modifier means.
    pub(crate) clamps: bool,
    /// Singles that are computed are never denormal.
    pub(crate) no_denormals: bool,
    /// Sums take and give no denormals, by width as in [`Floats`]: those of atomics.
    pub(crate) flushes_sums: [bool; 2],
    /// Sums and products of floats are rounded where they are stored.
    pub(crate) exact: bool,
    /// The destination was written.
    pub(crate) written: bool,
    /// An operation was met that hardware approximates.
    pub(crate) approximate: Cell<bool>,
    pub(crate) memory: Option<&'a mut dyn Bytes>,
}

/// Memory by addresses.
pub(crate) trait Bytes {
    fn read(&mut self, at: u64, bytes: u32) -> u128;
    fn write(&mut self, at: u64, bytes: u32, value: u128);
}

/// How a body was left.
enum Left {
    Behind,
    Broken,
    Returned(Value),
}

/// Where a value is stored.
struct Place {
    name: String,
    element: Option<usize>,
    low: u32,
    width: Option<u32>,
    kind: Option<Type>,
}

impl Program<'_> {
    pub(crate) fn run(&mut self, body: &Body) -> Result<(), String> {
        self.body(body).map(drop)
    }

    pub(crate) fn called(&mut self, body: &Body) -> Result<Value, String> {
        match self.body(body)? {
            Left::Returned(value) => Ok(value),
            _ => Err("a function returned nothing".to_owned()),
        }
    }

    fn body(&mut self, body: &Body) -> Result<Left, String> {
        for statement in body {
            match self.statement(statement)? {
                Left::Behind => {}
                left => return Ok(left),
            }
        }
        Ok(Left::Behind)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Left, String> {
        match statement {
            Statement::Assign(places, operator, value) => {
                let mut value = self.value(value)?;
                if let Some(operator) = operator {
                    let old = self.value(&places[0])?;
                    value = self.binary(operator, old, value)?;
                }
                for place in places.iter().rev() {
                    self.store(place, value.clone())?;
                }
            }
            Statement::If(arms) => {
                for (condition, body) in arms {
                    let holds = match condition {
                        Some(condition) => self.value(condition)?.is_true()?,
                        None => true,
                    };
                    if holds {
                        return self.body(body);
                    }
                }
            }
            Statement::For(name, first, last, body) => {
                let (first, last) = (self.value(first)?, self.value(last)?);
                let Value::Bits(_, kind) = first else { return Err("no range".to_owned()) };
                for n in first.whole()?..=last.whole()? {
                    self.names.insert(name.clone(), Value::Bits(n as u128 & ones(kind.width.max(32)), INTEGER));
                    match self.body(body)? {
                        Left::Behind => {}
                        Left::Broken => break,
                        left => return Ok(left),
                    }
                }
            }
            Statement::Break => return Ok(Left::Broken),
            Statement::Return(value) => return Ok(Left::Returned(self.value(value)?)),
            // Fields of the instruction have their values.
            Statement::Declare(name, ..) if name.starts_with("OFFSET") || name == "DATA0" => {}
            Statement::Declare(name, kind, count) => {
                let value = match (name.as_str(), count) {
                    ("S", _) => {
                        Value::Array(["S0", "S1", "S2"].iter().filter_map(|s| self.names.get(*s).cloned()).collect())
                    }
                    (_, Some(count)) => Value::Array(vec![Value::Bits(0, *kind); *count as usize]),
                    (_, None) => Value::Bits(0, *kind),
                };
                self.names.insert(name.clone(), value);
            }
            Statement::Lambda(name, parameters, body) => {
                self.lambdas.insert(name.clone(), (parameters.clone(), body.clone()));
            }
            Statement::Call(call) => {
                self.value(call)?;
            }
        }
        Ok(Left::Behind)
    }

    pub(crate) fn value(&mut self, expression: &Expression) -> Result<Value, String> {
        match expression {
            Expression::Literal(kind, bits) => Ok(Value::Bits(*bits, *kind)),
            Expression::Name(name) => self.name(name),
            Expression::Member(inner, kind) => self.member(inner, *kind),
            Expression::Field(inner, field) => match &**inner {
                Expression::Name(name) => self.name(&format!("{name}.{field}")),
                _ => Err(format!("no field {field}")),
            },
            Expression::Index(inner, index) => {
                let index = self.value(index)?.whole()?;
                if matches!(&**inner, Expression::Name(name) if name == "MEM") {
                    let memory = self.memory.as_mut().ok_or("no memory")?;
                    return Ok(Value::raw(memory.read(index as u64, 4), 32));
                }
                match self.value(inner)? {
                    Value::Array(values) => {
                        values.get(index as usize).cloned().ok_or_else(|| format!("no element {index}"))
                    }
                    value => Ok(Value::Bits(value.bits()?.checked_shr(index as u32).unwrap_or(0) & 1, BIT)),
                }
            }
            Expression::Slice(inner, first, last, counted) => {
                let (first, last) = (self.value(first)?.whole()? as u32, self.value(last)?.whole()? as u32);
                // What is beyond a member is of what it is a member of.
                let value = match &**inner {
                    Expression::Member(whole, kind) if first.max(last) >= kind.width => self.value(whole)?,
                    inner => self.value(inner)?,
                };
                let bits = value.bits()?;
                let kind = |width| match value {
                    Value::Bits(_, Type { number: Number::Signed, .. }) => Type::new(Number::Unsigned, width),
                    Value::Bits(_, Type { number: Number::Bits, .. }) => Type::new(Number::Bits, width),
                    _ => Type::new(Number::Unsigned, width),
                };
                if *counted {
                    return Ok(Value::Bits(bits >> first & ones(last), kind(last)));
                }
                if first >= last {
                    return Ok(Value::Bits(bits >> last & ones(first - last + 1), kind(first - last + 1)));
                }
                // Backward: the bits are reversed.
                let width = last - first + 1;
                let reversed = (bits >> first & ones(width)).reverse_bits() >> (128 - width);
                Ok(Value::Bits(reversed, kind(width)))
            }
            Expression::Cast(kind, inner) => {
                let value = self.value(inner)?;
                self.cast(value, *kind)
            }
            Expression::Call(name, arguments) => self.call(name, arguments),
            Expression::Unary(sign, inner) => {
                let value = self.value(inner)?;
                self.unary(*sign, value)
            }
            Expression::Binary("&&", left, right) => {
                Ok(Value::bit(self.value(left)?.is_true()? && self.value(right)?.is_true()?))
            }
            Expression::Binary("||", left, right) => {
                Ok(Value::bit(self.value(left)?.is_true()? || self.value(right)?.is_true()?))
            }
            Expression::Binary("==", left, right) if signed_zero(right).is_some() => {
                let value = self.value(left)?.real()?;
                Ok(Value::bit(matches!(value, Real::Zero(negative) if Some(negative) == signed_zero(right))))
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(operator, left, right)
            }
            Expression::Choice(condition, first, second) => {
                if self.value(condition)?.is_true()? {
                    self.value(first)
                } else {
                    self.value(second)
                }
            }
            Expression::Concatenation(parts) => {
                let (mut bits, mut width) = (0, 0);
                for part in parts {
                    let value = match (part, self.value(part)?) {
                        // What does not wrap is joined as its type stores it.
                        (Expression::Member(_, kind), value) if self.clamps => {
                            Value::Bits(self.fitted(value, *kind)?, *kind)
                        }
                        (_, value) => value,
                    };
                    let Value::Bits(part, kind) = value else { return Err("no bits to join".to_owned()) };
                    bits = bits << kind.width | part & ones(kind.width);
                    width += kind.width;
                }
                Ok(Value::raw(bits, width))
            }
        }
    }

    fn name(&self, name: &str) -> Result<Value, String> {
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        Ok(match name {
            "INF" => Value::float(Format::of(64).infinity(), 64),
            "PI" => Value::float(std::f64::consts::PI.to_bits(), 64),
            "OVERFLOW_F32" => Value::float(Format::of(32).infinity(), 32),
            "OVERFLOW_F64" => Value::float(Format::of(64).infinity(), 64),
            "UNDERFLOW_F32" => Value::float(0, 32),
            "UNDERFLOW_F64" => Value::float(0, 64),
            "ROUND_NEAREST_EVEN" => Value::unsigned(0, 32),
            "ROUND_TOWARD_ZERO" => Value::unsigned(3, 32),
            // Of both widths; what it is set to holds for both.
            "ROUND_MODE" => {
                Value::unsigned(self.floats.rounds[0] as u64 | (self.floats.rounds[1] as u64) << 2 | 16, 32)
            }
            _ => return Err(format!("no value of the name {name}")),
        })
    }

    fn member(&mut self, inner: &Expression, kind: Type) -> Result<Value, String> {
        if let Expression::Name(name) = inner {
            match (name.as_str(), kind) {
                ("INF", _) => return Ok(Value::float(Format::of(kind.width).infinity(), kind.width)),
                ("NAN", _) => return Ok(Value::float(Format::of(kind.width).nan(), kind.width)),
                ("DENORM", _) => return Ok(Value::Denormal),
                _ => {}
            }
        }
        if let Expression::Index(memory, at) = inner
            && matches!(&**memory, Expression::Name(name) if name == "MEM")
        {
            let at = self.value(at)?.bits()? as u64;
            let memory = self.memory.as_mut().ok_or("no memory")?;
            return Ok(Value::Bits(memory.read(at, kind.width.div_ceil(8)), kind));
        }
        let value = self.value(inner)?;
        if kind.number == Number::Float && value.float_width().is_some_and(|width| width != kind.width) {
            return self.converted(&value, kind.width);
        }
        if self.clamps && matches!(value, Value::Bits(_, WIDE)) {
            // It is cut off where it is stored.
            return Ok(value);
        }
        let bits = match value {
            Value::Bits(bits, Type { number: Number::Signed, width }) if kind.width > width => {
                // Only the bits: a wider member of a signed value has its sign.
                Value::Bits(bits, Type::new(Number::Signed, width)).whole()? as u128
            }
            value => value.bits()?,
        };
        let mut bits = bits & ones(kind.width);
        if kind.number == Number::Float && self.flushes(inner, kind.width) {
            bits = Format::of(kind.width).flushed(bits as u64).into();
        }
        if self.clamps && matches!(kind.number, Number::Signed | Number::Unsigned) {
            return Ok(Value::Bits(Value::Bits(bits, kind).whole()? as u128, WIDE));
        }
        Ok(Value::Bits(bits, kind))
    }

    /// True for sources whose denormals the mode makes zero.
    fn flushes(&self, inner: &Expression, width: u32) -> bool {
        let root = root(inner);
        let is_source = matches!(root, Some("S0" | "S1" | "S2" | "S" | "SIMM32" | "SIMM16"));
        let is_sum = root == Some("D0") && !self.written;
        (is_source || is_sum) && self.floats.flushes[usize::from(width != 32)]
    }

    pub(crate) fn cast(&mut self, value: Value, kind: Type) -> Result<Value, String> {
        let of_float = value.float_width().is_some() || matches!(value, Value::Exact(_));
        match kind.number {
            // A power of two that is no number of the type is multiplied by all the same.
            Number::Float if matches!(value, Value::Exact(_)) => Ok(value),
            Number::Float if of_float => self.converted(&value, kind.width),
            Number::Bits | Number::Float | Number::Brain => {
                let bits = if of_float
                    || kind.width < 64
                    || matches!(value, Value::Bits(_, Type { number: Number::Bits, .. }))
                {
                    value.bits()?
                } else {
                    value.whole()? as u128
                };
                if self.clamps && matches!(value, Value::Bits(_, WIDE)) {
                    let most = ones(kind.width.min(126)) as i128;
                    return Ok(Value::Bits(value.whole()?.clamp(0, most) as u128, WIDE));
                }
                Ok(Value::Bits(bits & ones(kind.width), kind))
            }
            Number::Signed | Number::Unsigned if of_float => Err("a float as an integer".to_owned()),
            Number::Signed | Number::Unsigned if self.clamps => Ok(Value::Bits(value.whole()? as u128, WIDE)),
            Number::Signed | Number::Unsigned => Ok(Value::Bits(value.whole()? as u128 & ones(kind.width), kind)),
        }
    }

    /// A float of another width; a NaN keeps what fits of its payload.
    pub(crate) fn converted(&self, value: &Value, width: u32) -> Result<Value, String> {
        let (Value::Bits(bits, _), Some(from)) = (value, value.float_width()) else {
            return Ok(self.floats.rounded(&value.real()?, width));
        };
        let bits =
            if matches!(value, Value::Bits(_, Type { number: Number::Brain, .. })) { bits << 16 } else { *bits } as u64;
        let (old, new) = (Format::of(from), Format::of(width));
        if !old.is_nan(bits) {
            return Ok(self.floats.rounded(&value.real()?, width));
        }
        let quiet = if old.is_signaling(bits) { new.infinity() | 1 } else { new.nan() };
        Ok(Value::float(quiet | if bits & old.sign() != 0 { new.sign() } else { 0 }, width))
    }

    fn unary(&self, sign: char, value: Value) -> Result<Value, String> {
        Ok(match (sign, value) {
            ('+', value) => value,
            ('!', value) => Value::bit(!value.is_true()?),
            ('~', Value::Bits(bits, kind)) => Value::Bits(!bits & ones(kind.width), kind),
            ('-', Value::Bits(bits, kind)) if matches!(kind.number, Number::Float | Number::Brain) => {
                Value::Bits(bits ^ 1 << (kind.width - 1), kind)
            }
            ('-', Value::Bits(bits, kind)) => Value::Bits(bits.wrapping_neg() & ones(kind.width), kind),
            ('-', Value::Exact(real)) => Value::Exact(real.negated()),
            (sign, value) => return Err(format!("{sign} of {value:?}")),
        })
    }

    fn store(&mut self, place: &Expression, value: Value) -> Result<(), String> {
        if let Expression::Concatenation(parts) = place {
            let mut bits = value.bits()?;
            for part in parts.iter().rev() {
                let Expression::Member(_, kind) = part else { return Err("parts of a place need types".to_owned()) };
                self.store(part, Value::Bits(bits & ones(kind.width), *kind))?;
                bits >>= kind.width;
            }
            return Ok(());
        }
        if let Expression::Index(memory, at) = place
            && matches!(&**memory, Expression::Name(name) if name == "MEM")
        {
            let at = self.value(at)?.bits()? as u64;
            let Value::Bits(bits, kind) = value else { return Err("no bits for memory".to_owned()) };
            self.memory.as_mut().ok_or("no memory")?.write(at, kind.width.div_ceil(8), bits);
            return Ok(());
        }
        if let Expression::Member(inner, kind) = place
            && let Expression::Index(memory, at) = &**inner
            && matches!(&**memory, Expression::Name(name) if name == "MEM")
        {
            let at = self.value(at)?.bits()? as u64;
            let bits = self.fitted(value, *kind)?;
            self.memory.as_mut().ok_or("no memory")?.write(at, kind.width.div_ceil(8), bits);
            return Ok(());
        }
        let place = self.place(place)?;
        if place.name == "ROUND_MODE" {
            let mode = value.bits()? as u32;
            let rounds = if mode & 16 != 0 { [mode & 3, mode >> 2 & 3] } else { [mode, mode] };
            self.floats.rounds = rounds.map(Round::of);
            return Ok(());
        }
        let (width, kind) = match (place.width, place.kind) {
            (_, Some(kind)) if place.width.is_none_or(|width| width >= kind.width) => (Some(kind.width), Some(kind)),
            (width, kind) => (width, kind),
        };
        if place.name == "D0" {
            self.written = true;
        }
        let old = self.names.get(&place.name).cloned();
        // A name without a type takes the value as it is.
        let (Some(width), true) = (width, true) else {
            let value = match (place.element, old) {
                (Some(n), Some(Value::Array(mut values))) => {
                    *values.get_mut(n).ok_or("no such element")? = value;
                    Value::Array(values)
                }
                (_, Some(Value::Bits(_, kind))) if matches!(place.name.as_str(), "SCC") => {
                    Value::Bits(u128::from(value.is_true()?), kind)
                }
                (_, Some(Value::Bits(_, kind)))
                    if matches!(place.name.as_str(), "D0" | "VCC" | "EXEC" | "RETURN_DATA" | "VDATA") =>
                {
                    Value::Bits(value.bits()? & ones(kind.width), kind)
                }
                _ => value,
            };
            self.names.insert(place.name, value);
            return Ok(());
        };
        let bits = match kind {
            Some(kind) => self.fitted(value, kind)?,
            None => self.fitted(value, Type::new(Number::Bits, width))?,
        } & ones(width);
        let (old_bits, old_kind) = match &old {
            Some(Value::Bits(bits, kind)) => (*bits, *kind),
            Some(other) => return Err(format!("bits of {other:?}")),
            None => (0, Type::new(Number::Bits, 0)),
        };
        let bits = old_bits & !(ones(width) << place.low) | bits << place.low;
        // What is written whole has the type of what was written.
        let whole = place.low == 0 && width >= old_kind.width && old_kind.number != Number::Bits;
        let kind = match kind {
            Some(kind) if whole => kind,
            _ => Type::new(Number::Bits, old_kind.width.max(place.low + width)),
        };
        self.names.insert(place.name, Value::Bits(bits, kind));
        Ok(())
    }

    /// The bits of a value as a type stores it.
    fn fitted(&self, value: Value, kind: Type) -> Result<u128, String> {
        let of_float = value.float_width().is_some() || matches!(value, Value::Exact(_));
        if kind.number == Number::Brain && of_float {
            return Ok(value.real()?.bits(Format::BRAIN, Round::Nearest, false).into());
        }
        if kind.number == Number::Float && of_float && value.float_width() != Some(kind.width) {
            return self.converted(&value, kind.width)?.bits();
        }
        if self.clamps && matches!(value, Value::Bits(_, WIDE)) && kind.width < 128 {
            let (least, most) = match kind.number {
                Number::Signed => (-1i128 << (kind.width - 1), (1i128 << (kind.width - 1)) - 1),
                _ => (0, ones(kind.width) as i128),
            };
            return Ok(value.whole()?.clamp(least, most) as u128 & ones(kind.width));
        }
        if matches!(value, Value::Bits(_, Type { number: Number::Signed, .. })) {
            return Ok(value.whole()? as u128 & ones(kind.width));
        }
        Ok(value.bits()? & ones(kind.width))
    }

    fn place(&mut self, expression: &Expression) -> Result<Place, String> {
        match expression {
            Expression::Name(name) => Ok(Place { name: name.clone(), element: None, low: 0, width: None, kind: None }),
            Expression::Member(inner, kind) => Ok(Place { kind: Some(*kind), ..self.place(inner)? }),
            Expression::Index(inner, index) => {
                let place = self.place(inner)?;
                let index = self.value(index)?.whole()? as u32;
                match self.names.get(&place.name) {
                    Some(Value::Array(_)) if place.element.is_none() => {
                        Ok(Place { element: Some(index as usize), ..place })
                    }
                    _ => Ok(Place { low: place.low + index, width: Some(1), kind: None, ..place }),
                }
            }
            Expression::Slice(inner, first, last, counted) => {
                let place = self.place(inner)?;
                let (first, last) = (self.value(first)?.whole()? as u32, self.value(last)?.whole()? as u32);
                let (low, width) = match counted {
                    true => (first, last),
                    false if first >= last => (last, first - last + 1),
                    false => return Err("a place backward".to_owned()),
                };
                Ok(Place { low: place.low + low, width: Some(width), kind: None, ..place })
            }
            other => Err(format!("no place: {other:?}")),
        }
    }

    pub(crate) fn binary(&mut self, operator: &str, left: Value, right: Value) -> Result<Value, String> {
        let denormal = |value: &Value| match (value, value.float_width()) {
            (Value::Bits(bits, _), Some(width)) => Ok(Value::bit(Format::of(width).is_denormal(*bits as u64))),
            _ => Err("a comparison with denormals".to_owned()),
        };
        match (&left, &right) {
            (Value::Denormal, value) | (value, Value::Denormal) => return denormal(value),
            _ => {}
        }
        if operator == "**" {
            let two = left.real()?.near() == 2.0;
            let exponent = right.whole()?;
            if !two {
                return Err("a power of another number than two".to_owned());
            }
            return Ok(Value::Exact(Real::of_integer(1).scaled(exponent as i64)));
        }
        let is_float = |value: &Value| value.float_width().is_some() || matches!(value, Value::Exact(_));
        if is_float(&left) || is_float(&right) {
            return self.floats_of(operator, &left, &right);
        }
        integers(operator, &left, &right)
    }

    /// A number as it is computed.
    fn single(&self, real: &Real, width: u32) -> Value {
        match self.floats.rounded(real, width) {
            Value::Bits(bits, kind) if self.no_denormals && width == 32 => {
                Value::Bits(Format::of(32).flushed(bits as u64).into(), kind)
            }
            value => value,
        }
    }

    fn floats_of(&mut self, operator: &str, left: &Value, right: &Value) -> Result<Value, String> {
        let width = left.float_width().max(right.float_width()).unwrap_or(64);
        let (mut a, mut b) = (left.real()?, right.real()?);
        if self.flushes_sums[usize::from(width != 32)] {
            let format = Format::of(width);
            let flushed = |value: &Value| Ok::<_, String>(Real::of(format.flushed(value.bits()? as u64), format));
            (a, b) = (flushed(left)?, flushed(right)?);
            if operator == "+" {
                let sum = self.floats.rounded(&a.plus(&b, self.floats.round(width)), width);
                return Ok(Value::float(format.flushed(sum.bits()? as u64), width));
            }
        }
        let round = self.floats.round(width);
        let order = a.compared(&b);
        Ok(match operator {
            "+" if self.exact => Value::Exact(a.plus(&b, round)),
            "*" if self.exact => Value::Exact(a.times(&b)),
            "+" => self.single(&a.plus(&b, round), width),
            "-" => self.single(&a.plus(&b.negated(), round), width),
            "*" => self.single(&a.times(&b), width),
            "/" => {
                self.approximate.set(true);
                self.floats.rounded(&Real::from(a.near() / b.near()), width)
            }
            "==" => Value::bit(order == Some(std::cmp::Ordering::Equal)),
            "!=" => Value::bit(order != Some(std::cmp::Ordering::Equal)),
            "<>" => Value::bit(order.is_some_and(|order| order.is_ne())),
            "<" => Value::bit(order.is_some_and(|order| order.is_lt())),
            "<=" => Value::bit(order.is_some_and(|order| order.is_le())),
            ">" => Value::bit(order.is_some_and(|order| order.is_gt())),
            ">=" => Value::bit(order.is_some_and(|order| order.is_ge())),
            other => return Err(format!("{other} of floats")),
        })
    }
}

/// The name that a place or value begins with.
fn root(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Name(name) => Some(name),
        Expression::Member(inner, _) | Expression::Index(inner, _) | Expression::Slice(inner, ..) => root(inner),
        _ => None,
    }
}

/// A zero that is written with its sign means only this one: whether it is negative.
fn signed_zero(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Unary(sign @ ('+' | '-'), inner) => match &**inner {
            Expression::Literal(Type { number: Number::Float, .. }, 0) => Some(*sign == '-'),
            _ => None,
        },
        _ => None,
    }
}
