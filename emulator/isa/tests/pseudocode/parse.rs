//! The language of the pseudocode: words, expressions and statements.

use crate::real::{Format, Real, Round};

/// What an operation does: its statements in order.
pub(crate) type Body = Vec<Statement>;

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// `place = value`, perhaps of several places, or with an operator in front: `+=`, `-=`.
    Assign(Vec<Expression>, Option<&'static str>, Expression),
    /// Conditions with what is done under the first that is true; the last may be `else`.
    If(Vec<(Option<Expression>, Body)>),
    For(String, Expression, Expression, Body),
    Break,
    Return(Expression),
    /// A name, its type, and how many of it if it is an array.
    Declare(String, Type, Option<u128>),
    Lambda(String, Vec<String>, Body),
    /// An expression for its effect.
    Call(Expression),
}

/// How bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Bits,
    Unsigned,
    Signed,
    Float,
    /// The upper part of a single.
    Brain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) number: Number,
    pub(crate) width: u32,
}

impl Type {
    pub(crate) const fn new(number: Number, width: u32) -> Type {
        Type { number, width }
    }

    /// `u32`, `bf16`; `None` for a name that is no type.
    fn of_member(name: &str) -> Option<Type> {
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let width = name[letters.len()..].parse().ok().filter(|width| *width > 0)?;
        let number = match letters {
            "u" => Number::Unsigned,
            "i" => Number::Signed,
            "b" => Number::Bits,
            "f" => Number::Float,
            "bf" if width == 16 => Number::Brain,
            _ => return None,
        };
        Some(Type { number, width })
    }

    fn of_cast(letters: &str, width: u32) -> Option<Type> {
        let number = match letters {
            "U" => Number::Unsigned,
            "I" => Number::Signed,
            "B" => Number::Bits,
            "F" => Number::Float,
            "BF" => Number::Brain,
            _ => return None,
        };
        Some(Type { number, width })
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Expression {
    /// A number of a type.
    Literal(Type, u128),
    Name(String),
    /// The bits of a value, read as a type.
    Member(Box<Expression>, Type),
    /// A named field: `WAVE_MODE.IEEE`.
    Field(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    /// From the first bit or down to the second; the flag is for `first +: count`.
    Slice(Box<Expression>, Box<Expression>, Box<Expression>, bool),
    Cast(Type, Box<Expression>),
    Call(String, Vec<Expression>),
    Unary(char, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    Concatenation(Vec<Expression>),
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Name(String),
    Literal(Type, u128),
    Cast(Type),
    Sign(&'static str),
}

const SIGNS: [&str; 38] = [
    "**", "<<", ">>", "<=", ">=", "==", "!=", "<>", "&&", "||", "+:", "+=", "-=", "?", ":", "=", "(", ")", "[", "]",
    "{", "}", ",", ";", ".", "+", "-", "*", "/", "<", ">", "&", "|", "^", "~", "!", "%", "\"",
];

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    for line in text.lines() {
        let mut rest = line.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let word;
            (word, rest) = if first.is_ascii_digit() {
                number(rest)?
            } else if first.is_alphabetic() || first == '_' {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                (Word::Name(rest[..end].to_owned()), &rest[end..])
            } else {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| format!("no word of the language: {rest:?}"))?;
                (Word::Sign(sign), &rest[sign.len()..])
            };
            words.push(word);
            rest = rest.trim_start();
        }
    }
    Ok(words)
}

/// A number with its suffix, or the width and letters of a cast.
fn number(text: &str) -> Result<(Word, &str), String> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let end = digits(text);
    let (mut first, mut rest) = (&text[..end], &text[end..]);
    let error = || format!("no number: {text:?}");
    if let Some(typed) = rest.strip_prefix('\'') {
        let width = first.parse().map_err(|_| error())?;
        let end = digits(typed);
        let (value, rest) = (&typed[..end], &typed[end..]);
        if let Some(kind) = Type::of_cast(value, width) {
            return Ok((Word::Cast(kind), rest));
        }
        // A float of a width: `16'1.0`.
        if let Some(fraction) = rest.strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            let end = digits(fraction);
            let number: f64 = format!("{value}.{}", &fraction[..end]).parse().map_err(|_| error())?;
            let bits = Real::from(number).bits(Format::of(width), Round::Nearest, false);
            return Ok((Word::Literal(Type::new(Number::Float, width), bits.into()), &fraction[end..]));
        }
        let (value, unsigned) = value.strip_suffix('U').map_or((value, false), |value| (value, true));
        let number = if unsigned { Number::Unsigned } else { Number::Signed };
        return Ok((Word::Literal(Type::new(number, width), integer(value).ok_or_else(error)?), rest));
    }
    // A fraction.
    if let Some(fraction) = rest.strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let end = digits(fraction);
        let (value, is_single) = match fraction[..end].strip_suffix('F') {
            Some(value) => (value, true),
            None => (&fraction[..end], false),
        };
        let value: f64 = format!("{first}.{value}").parse().map_err(|_| error())?;
        rest = &fraction[end..];
        let literal = match is_single {
            true => Word::Literal(Type::new(Number::Float, 32), (value as f32).to_bits().into()),
            false => Word::Literal(Type::new(Number::Float, 64), value.to_bits().into()),
        };
        return Ok((literal, rest));
    }
    let mut width = 32;
    let mut number = Number::Signed;
    for (suffix, wide, kind) in [
        ("ULL", 64, Number::Unsigned),
        ("LL", 64, Number::Signed),
        ("U", 32, Number::Unsigned),
        ("L", 64, Number::Signed),
    ] {
        if let Some(value) = first.strip_suffix(suffix) {
            (first, width, number) = (value, wide, kind);
            break;
        }
    }
    let value = integer(first).ok_or_else(error)?;
    if value >> width != 0 {
        width = 64;
    }
    Ok((Word::Literal(Type::new(number, width), value), rest))
}

fn integer(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The statements of a text.
pub(crate) fn parse(text: &str) -> Result<Body, String> {
    let mut parser = Parser { words: words(text)?, at: 0 };
    let body = parser.body(&[])?;
    match parser.words.get(parser.at) {
        None => Ok(body),
        Some(word) => Err(format!("no statement begins with {word:?}")),
    }
}

struct Parser {
    words: Vec<Word>,
    at: usize,
}

/// Operators by how strongly they bind, the weakest first.
const LEVELS: [&[&str]; 11] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!=", "<>"],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
    &["**"],
];

impl Parser {
    fn is(&self, sign: &str) -> bool {
        matches!(self.words.get(self.at), Some(Word::Sign(found)) if *found == sign)
    }

    fn is_name(&self, names: &[&str]) -> bool {
        matches!(self.words.get(self.at), Some(Word::Name(found)) if names.contains(&found.as_str()))
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = self.is_name(&[name]);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) || self.take_name(sign) {
            return Ok(());
        }
        Err(format!("expected {sign:?}, found {:?}", self.words.get(self.at)))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.words.get(self.at) {
            Some(Word::Name(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            other => Err(format!("expected a name, found {other:?}")),
        }
    }

    fn body(&mut self, ends: &[&str]) -> Result<Body, String> {
        let mut body = Vec::new();
        loop {
            while self.take(";") {}
            if self.at == self.words.len() || self.is(")") || self.is_name(ends) {
                return Ok(body);
            }
            body.push(self.statement()?);
        }
    }

    fn statement(&mut self) -> Result<Statement, String> {
        if self.take_name("if") {
            let mut arms = Vec::new();
            let condition = self.expression()?;
            self.expect("then")?;
            arms.push((Some(condition), self.body(&["elsif", "else", "endif"])?));
            while self.take_name("elsif") {
                let condition = self.expression()?;
                self.expect("then")?;
                arms.push((Some(condition), self.body(&["elsif", "else", "endif"])?));
            }
            if self.take_name("else") {
                arms.push((None, self.body(&["endif"])?));
            }
            self.expect("endif")?;
            return Ok(Statement::If(arms));
        }
        if self.take_name("for") {
            let name = self.name()?;
            self.expect("in")?;
            let first = self.binary(0)?;
            self.expect(":")?;
            let last = self.expression()?;
            self.expect("do")?;
            let body = self.body(&["endfor"])?;
            self.expect("endfor")?;
            return Ok(Statement::For(name, first, last, body));
        }
        if self.take_name("break") {
            return Ok(Statement::Break);
        }
        if self.take_name("return") {
            return Ok(Statement::Return(self.expression()?));
        }
        if self.take_name("declare") {
            let name = self.name()?;
            self.expect(":")?;
            let Some(&Word::Cast(kind)) = self.words.get(self.at) else {
                return Err(format!("expected a type, found {:?}", self.words.get(self.at)));
            };
            self.at += 1;
            let mut count = None;
            if self.take("[") {
                let Some(&Word::Literal(_, value)) = self.words.get(self.at) else {
                    return Err("expected the size of an array".to_owned());
                };
                (self.at, count) = (self.at + 1, Some(value));
                self.expect("]")?;
            }
            return Ok(Statement::Declare(name, kind, count));
        }
        let start = self.at;
        let place = self.postfix()?;
        for (sign, operator) in [("=", None), ("+=", Some("+")), ("-=", Some("-"))] {
            if self.take(sign) {
                return match place {
                    Expression::Name(name) if self.take_name("lambda") => self.lambda(name),
                    place => {
                        let (mut places, mut value) = (vec![place], self.expression()?);
                        while self.take("=") {
                            places.push(std::mem::replace(&mut value, self.expression()?));
                        }
                        Ok(Statement::Assign(places, operator, value))
                    }
                };
            }
        }
        self.at = start;
        Ok(Statement::Call(self.expression()?))
    }

    fn lambda(&mut self, name: String) -> Result<Statement, String> {
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.take(")") {
            parameters.push(self.name()?);
            self.take(",");
        }
        self.expect("(")?;
        let mut body = self.body(&[])?;
        self.expect(")")?;
        // A value alone is what is returned.
        if let [Statement::Call(value)] = &body[..] {
            body = vec![Statement::Return(value.clone())];
        }
        Ok(Statement::Lambda(name, parameters, body))
    }

    fn expression(&mut self) -> Result<Expression, String> {
        let condition = self.binary(0)?;
        self.choice(condition)
    }

    /// What a condition chooses, if a choice follows it.
    fn choice(&mut self, condition: Expression) -> Result<Expression, String> {
        if !self.take("?") {
            return Ok(condition);
        }
        let first = self.expression()?;
        self.expect(":")?;
        Ok(Expression::Choice(condition.into(), first.into(), self.expression()?.into()))
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.is(sign)) {
            self.at += 1;
            left = Expression::Binary(sign, left.into(), self.binary(level + 1)?.into());
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        for sign in ["-", "~", "!", "+"] {
            if self.take(sign) {
                return Ok(Expression::Unary(sign.chars().next().unwrap_or(' '), self.unary()?.into()));
            }
        }
        self.postfix()
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Expression>, String> {
        let mut arguments = Vec::new();
        while !self.take(end) {
            arguments.push(self.expression()?);
            self.take(",");
        }
        Ok(arguments)
    }

    fn postfix(&mut self) -> Result<Expression, String> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        let mut value = match word {
            Some(Word::Literal(kind, value)) => Expression::Literal(kind, value),
            Some(Word::Cast(kind)) => {
                self.expect("(")?;
                let inner = self.expression()?;
                self.expect(")")?;
                Expression::Cast(kind, inner.into())
            }
            Some(Word::Name(name)) if self.is("(") => {
                self.at += 1;
                Expression::Call(name, self.arguments(")")?)
            }
            Some(Word::Name(name)) => Expression::Name(name),
            Some(Word::Sign("(")) => {
                let inner = self.expression()?;
                self.expect(")")?;
                inner
            }
            Some(Word::Sign("{")) => Expression::Concatenation(self.arguments("}")?),
            other => return Err(format!("no value begins with {other:?}")),
        };
        loop {
            if self.take(".") {
                let name = self.name()?;
                value = match Type::of_member(&name) {
                    Some(kind) => Expression::Member(value.into(), kind),
                    None => Expression::Field(value.into(), name),
                };
            } else if self.take("[") {
                let first = self.binary(0)?;
                let counted = self.is("+:");
                if counted || self.is(":") {
                    self.at += 1;
                    let last = self.binary(0)?;
                    value = Expression::Slice(value.into(), first.into(), last.into(), counted);
                } else if self.is("?") {
                    value = Expression::Index(value.into(), self.choice(first)?.into());
                } else {
                    value = Expression::Index(value.into(), first.into());
                }
                self.expect("]")?;
            } else {
                return Ok(value);
            }
        }
    }
}
