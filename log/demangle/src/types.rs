//! Types.

use super::parse::{NameFacts, Parser};
use super::{Id, Node, Qualifiers, Signature};

/// Built-in types by their letter.
pub(super) fn builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'w' => "wchar_t",
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b'f' => "float",
        b'd' => "double",
        b'e' => "long double",
        b'g' => "__float128",
        b'z' => "...",
        _ => return None,
    })
}

/// Built-in types by the letter behind `D`.
fn builtin_behind_d(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'd' => "decimal64",
        b'e' => "decimal128",
        b'f' => "decimal32",
        b'h' => "half",
        b'i' => "char32_t",
        b's' => "char16_t",
        b'u' => "char8_t",
        b'a' => "auto",
        b'c' => "decltype(auto)",
        b'n' => "std::nullptr_t",
        _ => return None,
    })
}

impl<'s> Parser<'s> {
    /// `<type>`.
    pub(super) fn type_name(&mut self) -> Option<Id> {
        self.deeper(Self::type_there)
    }

    fn type_there(&mut self) -> Option<Id> {
        if let Some(text) = builtin(self.look(0)) {
            self.take(1)?;
            return Some(self.text(text));
        }
        let found = match self.look(0) {
            b'r' | b'V' | b'K' => {
                let ahead = self.rest.bytes().take_while(|b| matches!(b, b'r' | b'V' | b'K')).count();
                let is_function = match self.look(ahead) {
                    b'F' => true,
                    b'D' => matches!(self.look(ahead + 1), b'o' | b'O' | b'w' | b'x'),
                    _ => false,
                };
                if is_function { self.function_type()? } else { self.qualified_type()? }
            }
            b'U' => self.qualified_type()?,
            b'u' => self.vendor_type()?,
            b'D' => match self.type_behind_d()? {
                (builtin, false) => return Some(builtin),
                (found, true) => found,
            },
            b'F' => self.function_type()?,
            b'A' => self.array_type()?,
            b'M' => {
                self.take(1)?;
                let class = self.type_name()?;
                let member = self.type_name()?;
                self.add(Node::MemberPointer { class, member })
            }
            b'T' if matches!(self.look(1), b's' | b'u' | b'e') => {
                let keyword = match self.take(2)? {
                    "Ts" => "struct ",
                    "Tu" => "union ",
                    _ => "enum ",
                };
                let name = self.name(&mut NameFacts::default())?;
                self.add(Node::Prefixed(keyword, name))
            }
            b'T' => {
                let parameter = self.template_parameter()?;
                if self.arguments_follow && !self.forwards_allowed && self.look(0) == b'I' {
                    self.substitutions.push(parameter);
                    let arguments = self.template_arguments(false)?;
                    self.add(Node::WithArguments(parameter, arguments))
                } else {
                    parameter
                }
            }
            b'P' => {
                self.take(1)?;
                let to = self.type_name()?;
                self.add(Node::Pointer(to))
            }
            b'R' | b'O' => {
                let rvalue = self.take(1)? == "O";
                let to = self.type_name()?;
                self.add(Node::Reference { to, rvalue })
            }
            b'C' | b'G' => {
                let text = if self.take(1)? == "C" { " complex" } else { " imaginary" };
                let of = self.type_name()?;
                self.add(Node::Suffixed(of, text))
            }
            b'S' if self.look(1) != b't' => {
                let found = self.substitution()?;
                if self.look(0) != b'I' || !self.arguments_follow {
                    return Some(found);
                }
                let arguments = self.template_arguments(false)?;
                self.add(Node::WithArguments(found, arguments))
            }
            _ => self.name(&mut NameFacts::default())?,
        };
        self.substitutions.push(found);
        Some(found)
    }

    /// `<qualified-type>`.
    fn qualified_type(&mut self) -> Option<Id> {
        if self.eat("U") {
            let word = self.source_text()?;
            let arguments = if self.look(0) == b'I' { Some(self.template_arguments(false)?) } else { None };
            let of = self.deeper(Self::qualified_type)?;
            return Some(self.add(Node::VendorQualified(of, word, arguments)));
        }
        let qualifiers = self.qualifiers();
        let of = self.type_name()?;
        Some(if qualifiers == Qualifiers::default() { of } else { self.add(Node::Qualified(of, qualifiers)) })
    }

    /// `u <source-name> [<template-args>]`.
    fn vendor_type(&mut self) -> Option<Id> {
        self.expect("u")?;
        let name = self.source_name()?;
        if !self.eat("I") {
            return Some(name);
        }
        let of = self.type_name()?;
        self.expect("E")?;
        let of = self.add(Node::Enclosed("", of, super::Precedence::Primary));
        Some(self.add(Node::Joined(name, "", of)))
    }

    /// A type whose first letter is `D`, and whether it can be substituted.
    fn type_behind_d(&mut self) -> Option<(Id, bool)> {
        let second = self.look(1);
        if let Some(text) = builtin_behind_d(second) {
            self.take(2)?;
            return Some((self.text(text), false));
        }
        Some(match second {
            b'F' => {
                self.take(2)?;
                let bits = self.digits(false);
                if self.eat("b") {
                    return (bits == "16").then(|| (self.text("std::bfloat16_t"), false));
                }
                self.expect("_")?;
                let bits = self.text(bits);
                (self.add(Node::Prefixed("_Float", bits)), false)
            }
            b'B' | b'U' => {
                let signed = self.take(2)? == "DB";
                let size = if self.look(0).is_ascii_digit() { self.number()? } else { self.expression()? };
                self.expect("_")?;
                (self.add(Node::BitInt { size, signed }), false)
            }
            b'k' | b'K' => {
                let text = if self.take(2)? == "Dk" { " auto" } else { " decltype(auto)" };
                let constraint = self.name(&mut NameFacts::default())?;
                (self.add(Node::Suffixed(constraint, text)), false)
            }
            b't' | b'T' => (self.decltype()?, true),
            b'v' => (self.vector_type()?, true),
            b'p' => {
                self.take(2)?;
                let of = self.type_name()?;
                (self.add(Node::Expansion(of)), true)
            }
            b'o' | b'O' | b'w' | b'x' => (self.function_type()?, true),
            _ => (self.name(&mut NameFacts::default())?, true),
        })
    }

    /// Digits as a text of their own.
    fn number(&mut self) -> Option<Id> {
        let digits = self.digits(false);
        (!digits.is_empty()).then(|| self.text(digits))
    }

    /// `<decltype>`.
    pub(super) fn decltype(&mut self) -> Option<Id> {
        self.expect("D")?;
        if !self.eat("t") && !self.eat("T") {
            return None;
        }
        let of = self.expression()?;
        self.expect("E")?;
        Some(self.add(Node::Enclosed("decltype", of, super::Precedence::Primary)))
    }

    fn vector_type(&mut self) -> Option<Id> {
        self.expect("Dv")?;
        let size = if self.look(0).is_ascii_digit() {
            let size = self.number()?;
            self.expect("_")?;
            if self.eat("p") {
                let pixel = self.text("pixel");
                return Some(self.add(Node::Vector(pixel, Some(size))));
            }
            Some(size)
        } else if self.eat("_") {
            None
        } else {
            let size = self.expression()?;
            self.expect("_")?;
            Some(size)
        };
        let of = self.type_name()?;
        Some(self.add(Node::Vector(of, size)))
    }

    fn array_type(&mut self) -> Option<Id> {
        self.expect("A")?;
        let size = if self.look(0).is_ascii_digit() {
            Some(self.number()?)
        } else if self.look(0) == b'_' {
            None
        } else {
            Some(self.expression()?)
        };
        self.expect("_")?;
        let of = self.type_name()?;
        Some(self.add(Node::Array(of, size)))
    }

    /// `<function-type>`.
    fn function_type(&mut self) -> Option<Id> {
        let qualifiers = self.qualifiers();
        let exceptions = if self.eat("Do") {
            Some(self.text("noexcept"))
        } else if self.eat("DO") {
            let when = self.expression()?;
            self.expect("E")?;
            Some(self.add(Node::Enclosed("noexcept", when, super::Precedence::Primary)))
        } else if self.eat("Dw") {
            let types = self.until("E", Self::type_name)?;
            let types = self.add(Node::List(types));
            Some(self.add(Node::Enclosed("throw", types, super::Precedence::Primary)))
        } else {
            None
        };
        self.eat("Dx");
        self.expect("F")?;
        self.eat("Y");
        let result = Some(self.type_name()?);
        let mut parameters = Vec::new();
        let reference = loop {
            if self.eat("E") {
                break Default::default();
            }
            if self.eat("v") {
                continue;
            }
            // A reference as a parameter has a type behind it.
            if matches!(self.look(0), b'R' | b'O') && self.look(1) == b'E' {
                let reference = self.ref_qualifier();
                self.take(1)?;
                break reference;
            }
            parameters.push(self.type_name()?);
        };
        let signature = Signature { result, parameters, qualifiers, reference };
        Some(self.add(Node::Function { signature, exceptions }))
    }
}
