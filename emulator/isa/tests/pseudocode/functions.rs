//! The functions that the pseudocode calls.

use crate::evaluate::Program;
use crate::parse::{Expression, Number, Type};
use crate::real::{Format, Real, Round};
use crate::value::{INTEGER, Value, ones};

impl Program<'_> {
    pub(crate) fn call(&mut self, name: &str, arguments: &[Expression]) -> Result<Value, String> {
        if name.starts_with("Calc") && name.ends_with("Addr") {
            return self.address(arguments);
        }
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.value(argument)?);
        }
        if let Some((parameters, body)) = self.lambdas.get(name).cloned() {
            let outer = self.names.clone();
            self.names.extend(parameters.into_iter().zip(values));
            let value = self.called(&body);
            self.names = outer;
            return value;
        }
        if let Some((from, to)) = name.split_once("_to_")
            && let [value] = &values[..]
        {
            return self.conversion(name, from, to, value);
        }
        match (name, &values[..]) {
            ("ABSDIFF", [a, b]) => {
                let (a, b) = (a.whole()?, b.whole()?);
                self.cast(Value::unsigned(a.abs_diff(b) as u64, 32), Type::new(Number::Unsigned, 32))
            }
            ("signext", [Value::Bits(..)]) => {
                Ok(Value::Bits(values[0].whole()? as u128 & ones(64), Type::new(Number::Signed, 64)))
            }
            ("signext_from_bit", [Value::Bits(bits, kind), width]) => {
                let width = width.whole()? as u32;
                if width == 0 {
                    return Ok(Value::Bits(0, *kind));
                }
                let width = width.min(kind.width);
                Ok(Value::Bits(
                    Value::Bits(bits & ones(width), Type::new(Number::Signed, width)).whole()? as u128
                        & ones(kind.width),
                    *kind,
                ))
            }
            ("bitCount" | "countbits" | "count_ones", [Value::Bits(bits, _)]) => {
                Ok(Value::unsigned(bits.count_ones().into(), 32))
            }
            ("abs", [Value::Bits(bits, kind)]) if kind.number == Number::Float => {
                Ok(Value::Bits(bits & ones(kind.width - 1), *kind))
            }
            ("sign", [Value::Bits(bits, kind)]) => {
                Ok(Value::Bits(bits >> (kind.width - 1) & 1, Type::new(Number::Unsigned, 1)))
            }
            ("fma", [a, b, c]) => {
                let width = a.float_width().ok_or("fma of no floats")?;
                let sum = a.real()?.times(&b.real()?).plus(&c.real()?, self.floats.round(width));
                Ok(self.floats.rounded(&sum, width))
            }
            ("ldexp", [a, by]) => {
                let width = a.float_width().ok_or("ldexp of no float")?;
                Ok(self.floats.rounded(&a.real()?.scaled(by.whole()? as i64), width))
            }
            (_, [value]) if value.float_width().is_some() => self.of_float(name, value),
            ("pow", [a, b]) => {
                let width = b.float_width().ok_or("pow of no floats")?;
                self.approximated(a.real()?.near().powf(b.real()?.near()), width)
            }
            _ => self.of_text(name, values),
        }
    }

    /// The address of an access: with the offset where the text gives it, or without it where the text adds it itself.
    fn address(&mut self, arguments: &[Expression]) -> Result<Value, String> {
        let is_zero = |argument: &Expression| matches!(argument, Expression::Literal(_, 0));
        let name = if arguments.get(1).is_some_and(is_zero) { "BASE" } else { "ADDR" };
        self.value(&Expression::Name(name.to_owned()))
    }

    fn approximated(&self, value: f64, width: u32) -> Result<Value, String> {
        self.approximate.set(true);
        Ok(self.floats.rounded(&Real::from(value), width))
    }

    fn of_float(&mut self, name: &str, value: &Value) -> Result<Value, String> {
        let width = value.float_width().unwrap_or(32);
        let (format, bits, real) = (Format::of(width), value.bits()? as u64, value.real()?);
        let exact = |real: &Real| Ok(Value::float(real.bits(format, Round::Nearest, false), width));
        match name {
            "isNAN" => Ok(Value::bit(format.is_nan(bits))),
            "isSignalNAN" => Ok(Value::bit(format.is_signaling(bits))),
            "isQuietNAN" => Ok(Value::bit(format.is_nan(bits) && !format.is_signaling(bits))),
            "cvtToQuietNAN" => Ok(Value::float(bits | format.nan(), width)),
            "exponent" => Ok(Value::Bits(format.exponent(bits).into(), INTEGER)),
            "floor" => exact(&real.whole(Round::Down)),
            "trunc" => exact(&real.whole(Round::Zero)),
            "fract" => exact(&real.plus(&real.whole(Round::Down).negated(), Round::Nearest)),
            "isEven" => Ok(Value::bit(real.integer(i128::MIN, i128::MAX) % 2 == 0)),
            "mantissa" => match &real {
                Real::Finite(value, _) => exact(&Real::Finite(value.clone(), -(value.bits() as i64))),
                other => exact(other),
            },
            "sqrt" => self.approximated(real.near().sqrt(), width),
            "log2" => self.approximated(real.near().log2(), width),
            _ => Err(format!("no function {name}")),
        }
    }

    /// `f32_to_i32` and such.
    fn conversion(&mut self, name: &str, from: &str, to: &str, value: &Value) -> Result<Value, String> {
        let number = |text: &str, letter: char| text.strip_prefix(letter).and_then(|width| width.parse::<u32>().ok());
        if let Some(width) = number(from, 'f') {
            let value = self.converted(value, width)?;
            if let Some(to) = number(to, 'f') {
                let converted = self.converted(&value, to)?;
                return match Format::of(to) {
                    format if format.is_nan(converted.bits()? as u64) => {
                        Ok(Value::float(converted.bits()? as u64 | format.nan(), to))
                    }
                    _ => Ok(converted),
                };
            }
            let real = value.real()?;
            if let Some(width) = number(to, 'i') {
                let whole = real.integer(-1 << (width - 1), (1 << (width - 1)) - 1);
                return Ok(Value::Bits(whole as u128 & ones(width), Type::new(Number::Signed, width)));
            }
            if let Some(width) = number(to, 'u') {
                return Ok(Value::Bits(
                    real.integer(0, ones(width) as i128) as u128,
                    Type::new(Number::Unsigned, width),
                ));
            }
            let (least, most) = match to {
                "snorm" => (-1.0, 32767.0),
                "unorm" => (0.0, 65535.0),
                _ => return Err(format!("no conversion {name}")),
            };
            let clamped = if real.is_nan() { 0.0 } else { real.near().clamp(least, 1.0) };
            let whole = Real::from(clamped).times(&Real::from(most)).whole(Round::Nearest).integer(-65536, 65536);
            return Ok(Value::Bits(whole as u128 & 0xffff, Type::new(Number::Bits, 16)));
        }
        let from = [(Number::Signed, 'i'), (Number::Unsigned, 'u')]
            .into_iter()
            .find_map(|(kind, letter)| number(from, letter).map(|width| Type::new(kind, width)))
            .ok_or_else(|| format!("no conversion {name}"))?;
        let bits = if self.clamps { value.whole()? as u128 } else { value.bits()? };
        let whole = match self.clamps {
            true => bits as i128,
            false => Value::Bits(bits & ones(from.width), from).whole()?,
        };
        if let Some(width) = number(to, 'f') {
            return Ok(self.floats.rounded(&Real::of_integer(whole), width));
        }
        let (least, most, kind) = match (number(to, 'i'), number(to, 'u')) {
            (Some(width), _) => (-1i128 << (width - 1), (1i128 << (width - 1)) - 1, Type::new(Number::Signed, width)),
            (_, Some(width)) => (0, ones(width) as i128, Type::new(Number::Unsigned, width)),
            _ => return Err(format!("no conversion {name}")),
        };
        self.cast(Value::Bits(whole.clamp(least, most) as u128 & ones(kind.width), kind), kind)
    }

    /// What another operation gives.
    fn of_text(&mut self, name: &str, values: Vec<Value>) -> Result<Value, String> {
        let body = match self.bodies.get(&name.to_uppercase()) {
            Some(Ok(body)) => body,
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(format!("no function {name}")),
        };
        let outer = (self.names.clone(), self.written);
        for (n, value) in values.into_iter().enumerate() {
            self.names.insert(format!("S{n}"), value);
        }
        // What is written last into it has the type of the result.
        self.names.insert("D0".to_owned(), Value::raw(0, 0));
        let done = self.run(body);
        let value = self.names.get("D0").cloned();
        (self.names, self.written) = outer;
        done?;
        let value = value.ok_or_else(|| format!("{name} gave nothing"))?;
        let kind = match name.rsplit('_').next() {
            Some("f32") => Type::new(Number::Float, 32),
            Some("f16") => Type::new(Number::Float, 16),
            Some("i32") => Type::new(Number::Signed, 32),
            Some("i16") => Type::new(Number::Signed, 16),
            Some("u16") => Type::new(Number::Unsigned, 16),
            _ => Type::new(Number::Unsigned, 32),
        };
        if self.clamps && matches!(kind.number, Number::Signed | Number::Unsigned) {
            return Ok(Value::Bits(Value::Bits(value.bits()?, kind).whole()? as u128, Type::new(Number::Signed, 128)));
        }
        Ok(Value::Bits(value.bits()? & ones(kind.width), kind))
    }
}
