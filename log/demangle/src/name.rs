//! Names: nested and local ones, substitutions, templates' parameters and arguments, lambdas.

use super::parse::{NameFacts, Parser};
use super::{Id, Node, ParameterKind, Qualifiers, RefQualifier, operator};

/// Names of the standard library by the letter behind `S`.
pub(super) const STANDARD: &[(u8, &str)] = &[
    (b'a', "allocator"),
    (b'b', "basic_string"),
    (b'd', "iostream"),
    (b'i', "istream"),
    (b'o', "ostream"),
    (b's', "string"),
];

impl<'s> Parser<'s> {
    /// `<name>`.
    pub(super) fn name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.deeper(|p| p.name_there(facts))
    }

    fn name_there(&mut self, facts: &mut NameFacts) -> Option<Id> {
        match self.look(0) {
            b'N' => return self.nested_name(facts),
            b'Z' => return self.local_name(facts),
            _ => {}
        }
        let is_substitution = self.look(0) == b'S' && self.look(1) != b't';
        let name = if is_substitution { self.substitution()? } else { self.unscoped_name(facts)? };
        if self.look(0) == b'I' {
            if !is_substitution {
                self.substitutions.push(name);
            }
            facts.ends_with_arguments = true;
            let arguments = self.template_arguments(facts.tags)?;
            return Some(self.add(Node::WithArguments(name, arguments)));
        }
        (!is_substitution).then_some(name)
    }

    /// `<unscoped-name>`: a name in the global namespace or in `std`.
    pub(super) fn unscoped_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        let scope = self.eat("St").then(|| self.text("std"));
        self.unqualified_name(facts, scope)
    }

    /// `<local-name>`: what is declared in a function.
    fn local_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.expect("Z")?;
        let function = self.encoding()?;
        self.expect("E")?;
        let entity = if self.eat("s") {
            self.discriminator();
            self.text("string literal")
        } else {
            // What is declared in a function has parameters of its own. Those of an encoding's name count behind it.
            let outer = std::mem::take(&mut self.levels);
            let entity = self.local_entity(facts);
            if !facts.tags {
                self.levels = outer;
            }
            entity?
        };
        Some(self.add(Node::Joined(function, "::", entity)))
    }

    fn local_entity(&mut self, facts: &mut NameFacts) -> Option<Id> {
        if self.eat("d") {
            self.digits(true);
            self.expect("_")?;
            return self.name(facts);
        }
        let entity = self.name(facts)?;
        self.discriminator();
        Some(entity)
    }

    /// `<discriminator>`, if there is one.
    fn discriminator(&mut self) {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count();
        let length = match bytes {
            [b'_', b'_', ..] if digits(2) > 0 && bytes.get(2 + digits(2)) == Some(&b'_') => 3 + digits(2),
            [b'_', b'0'..=b'9', ..] => 2,
            [b'0'..=b'9', ..] if digits(0) == bytes.len() => bytes.len(),
            _ => 0,
        };
        self.take(length);
    }

    /// `<nested-name>`.
    fn nested_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        self.expect("N")?;
        if self.eat("H") {
            facts.explicit_object = true;
        } else {
            facts.qualifiers = self.qualifiers();
            facts.reference = self.ref_qualifier();
        }
        let mut so_far = None;
        while !self.eat("E") {
            if so_far.is_some() && self.eat("M") {
                continue;
            }
            if self.look(0) == b'S' {
                let found = if self.eat("St") { self.text("std") } else { self.substitution()? };
                if so_far.replace(found).is_some() {
                    return None;
                }
                continue;
            }
            facts.ends_with_arguments = false;
            let next = match (so_far, self.look(0), self.look(1)) {
                (None, b'T', _) => self.template_parameter()?,
                (Some(name), b'I', _) => {
                    let arguments = self.template_arguments(facts.tags)?;
                    facts.ends_with_arguments = true;
                    if matches!(self.tree.nodes.get(name.0)?, Node::WithArguments(..)) {
                        return None;
                    }
                    self.add(Node::WithArguments(name, arguments))
                }
                (None, b'D', b't' | b'T') => self.decltype()?,
                _ => self.unqualified_name(facts, so_far)?,
            };
            so_far = Some(next);
            self.substitutions.push(next);
        }
        // The whole is a candidate only where it is a type.
        self.substitutions.pop()?;
        so_far
    }

    /// `<unqualified-name>` in a scope, if it has one.
    fn unqualified_name(&mut self, facts: &mut NameFacts, scope: Option<Id>) -> Option<Id> {
        let friend = scope.is_some() && self.eat("F");
        self.eat("L");
        let mut scope = scope;
        let mut name = match (self.look(0), self.look(1)) {
            (b'1'..=b'9', _) => self.source_name()?,
            (b'U', _) => self.unnamed_type()?,
            (b'D', b'C') => {
                self.take(2)?;
                let names = self.until("E", Self::source_name)?;
                self.add(Node::StructuredBinding(names))
            }
            (b'C' | b'D', _) => {
                let expanded = match scope.and_then(|scope| self.tree.nodes.get(scope.0))? {
                    Node::Standard { name, expanded: false } => Some(*name),
                    _ => None,
                };
                if let Some(name) = expanded {
                    scope = Some(self.add(Node::Standard { name, expanded: true }));
                }
                self.constructor(scope?, facts)?
            }
            _ => self.operator_name(facts)?,
        };
        while self.eat("B") {
            let tag = self.source_text()?;
            name = self.add(Node::AbiTag(name, tag));
        }
        Some(match scope {
            Some(scope) if friend => self.add(Node::Joined(scope, "::friend ", name)),
            Some(scope) => self.add(Node::Joined(scope, "::", name)),
            None => name,
        })
    }

    fn constructor(&mut self, class: Id, facts: &mut NameFacts) -> Option<Id> {
        let destructor = match self.take(1)? {
            "C" => {
                let inherited = self.eat("I");
                if !matches!(self.take(1)?, "1" | "2" | "3" | "4" | "5") {
                    return None;
                }
                if inherited {
                    self.name(&mut NameFacts::default())?;
                }
                false
            }
            _ => {
                if !matches!(self.take(1)?, "0" | "1" | "2" | "4" | "5") {
                    return None;
                }
                true
            }
        };
        facts.without_result = true;
        Some(self.add(Node::Constructor { class, destructor }))
    }

    /// A length, and as many bytes.
    pub(super) fn source_text(&mut self) -> Option<&'s str> {
        let length = self.digits(false).parse().ok()?;
        if length == 0 { None } else { self.take(length) }
    }

    /// `<source-name>`.
    pub(super) fn source_name(&mut self) -> Option<Id> {
        let text = self.source_text()?;
        Some(self.text(if text.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { text }))
    }

    /// `<operator-name>`.
    pub(super) fn operator_name(&mut self, facts: &mut NameFacts) -> Option<Id> {
        if self.eat("cv") {
            let arguments_follow = std::mem::replace(&mut self.arguments_follow, false);
            let forwards_allowed = self.forwards_allowed;
            self.forwards_allowed |= facts.tags;
            let to = self.type_name();
            self.arguments_follow = arguments_follow;
            self.forwards_allowed = forwards_allowed;
            facts.without_result = true;
            let to = to?;
            return Some(self.add(Node::Prefixed("operator ", to)));
        }
        if self.eat("li") {
            let name = self.source_name()?;
            return Some(self.add(Node::Prefixed("operator\"\" ", name)));
        }
        if self.look(0) == b'v' && self.look(1).is_ascii_digit() {
            self.take(2)?;
            let name = self.source_name()?;
            return Some(self.add(Node::Prefixed("operator ", name)));
        }
        let name = operator::by_code(self.take(2)?)?.name;
        if name.is_empty() {
            return None;
        }
        let name = self.text(name);
        Some(self.add(Node::Prefixed("operator", name)))
    }

    /// `<unnamed-type-name>` and `<closure-type-name>`.
    fn unnamed_type(&mut self) -> Option<Id> {
        if self.eat("Ut") {
            let count = self.digits(false);
            self.expect("_")?;
            return Some(self.add(Node::Unnamed(count)));
        }
        if self.eat("Ub") {
            self.digits(false);
            self.expect("_")?;
            return Some(self.text("'block-literal'"));
        }
        self.expect("Ul")?;
        let levels = self.levels.len();
        let outer = self.lambda_level.replace(levels);
        let closure = self.closure(levels);
        self.lambda_level = outer;
        self.levels.truncate(levels);
        closure
    }

    fn closure(&mut self, level: usize) -> Option<Id> {
        let mut templates = Vec::new();
        self.levels.push(Some(Vec::new()));
        while self.declares_parameter() {
            templates.push(self.parameter_declaration(Some(level))?);
        }
        // Without declarations there is a level only if a parameter is `auto`.
        if templates.is_empty() {
            self.levels.pop();
        }
        let mut constraints = [None; 2];
        if self.eat("Q") {
            constraints[0] = Some(self.constraint()?);
        }
        let mut parameters = Vec::new();
        if !self.eat("vE") {
            while !matches!(self.look(0), b'E' | b'Q') || parameters.is_empty() {
                parameters.push(self.type_name()?);
            }
            if self.eat("Q") {
                constraints[1] = Some(self.constraint()?);
            }
            self.expect("E")?;
        }
        let count = self.digits(false);
        self.expect("_")?;
        Some(self.add(Node::Closure { templates, constraints, parameters, count }))
    }

    /// `<CV-qualifiers>`.
    pub(super) fn qualifiers(&mut self) -> Qualifiers {
        let is_restrict = self.eat("r");
        let is_volatile = self.eat("V");
        Qualifiers { is_const: self.eat("K"), is_volatile, is_restrict }
    }

    pub(super) fn ref_qualifier(&mut self) -> RefQualifier {
        if self.eat("R") {
            RefQualifier::Lvalue
        } else if self.eat("O") {
            RefQualifier::Rvalue
        } else {
            RefQualifier::None
        }
    }

    /// `<substitution>`.
    pub(super) fn substitution(&mut self) -> Option<Id> {
        self.expect("S")?;
        if let Some((_, name)) = STANDARD.iter().find(|(letter, _)| *letter == self.look(0)) {
            self.take(1)?;
            let mut found = self.add(Node::Standard { name, expanded: false });
            let untagged = found;
            while self.eat("B") {
                let tag = self.source_text()?;
                found = self.add(Node::AbiTag(found, tag));
            }
            if found != untagged {
                self.substitutions.push(found);
            }
            return Some(found);
        }
        if self.eat("_") {
            return self.substitutions.first().copied();
        }
        let digits = self.rest.bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
        let number = usize::from_str_radix(self.take(digits)?, 36).ok()?;
        self.expect("_")?;
        self.substitutions.get(number.checked_add(1)?).copied()
    }

    /// `<template-param>`.
    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        let begin = self.rest;
        self.expect("T")?;
        let mut level = 0;
        if self.eat("L") {
            level = self.digits(false).parse::<usize>().ok()?.checked_add(1)?;
            self.expect("_")?;
        }
        let index = self.index()?;
        if self.in_constraint {
            let length = begin.len() - self.rest.len() - 1;
            return Some(self.text(begin.get(..length)?));
        }
        if self.forwards_allowed && level == 0 {
            self.tree.forwards.push((index, None));
            let forward = self.tree.forwards.len() - 1;
            return Some(self.add(Node::Forward(forward)));
        }
        if let Some(Some(parameters)) = self.levels.get(level)
            && let Some(found) = parameters.get(index)
        {
            return Some(*found);
        }
        let lambda_level = self.lambda_level?;
        if level == lambda_level && level == self.levels.len() {
            self.levels.push(None);
        }
        // Where the levels around a lambda are not known, what is none of theirs is the lambda's own.
        Some(self.text("auto"))
    }

    /// A declaration of a template's parameter follows.
    pub(super) fn declares_parameter(&self) -> bool {
        self.look(0) == b'T' && matches!(self.look(1), b'y' | b'p' | b't' | b'n' | b'k')
    }

    fn invent(&mut self, kind: ParameterKind, level: Option<usize>) -> Id {
        let index = self.invented[kind as usize];
        self.invented[kind as usize] += 1;
        let name = self.add(Node::Invented { kind, index });
        if let Some(Some(parameters)) = level.and_then(|level| self.levels.get_mut(level)) {
            parameters.push(name);
        }
        name
    }

    /// `<template-param-decl>`; `level` is the one that the parameter belongs to.
    fn parameter_declaration(&mut self, level: Option<usize>) -> Option<Id> {
        self.deeper(|p| p.parameter_declaration_there(level))
    }

    fn parameter_declaration_there(&mut self, level: Option<usize>) -> Option<Id> {
        let declaration = match self.take(2)? {
            "Ty" => Node::TypeParameter(self.invent(ParameterKind::Type, level)),
            "Tk" => {
                let constraint = self.name(&mut NameFacts::default())?;
                Node::ConstrainedParameter { constraint, name: self.invent(ParameterKind::Type, level) }
            }
            "Tn" => {
                let name = self.invent(ParameterKind::Value, level);
                Node::ValueParameter { name, of: self.type_name()? }
            }
            "Tt" => {
                let name = self.invent(ParameterKind::Template, level);
                let levels = self.levels.len();
                self.levels.push(Some(Vec::new()));
                let mut parameters = Vec::new();
                while !matches!(self.look(0), b'E' | b'Q') {
                    parameters.push(self.parameter_declaration(Some(levels))?);
                }
                let constraint = if self.eat("Q") { Some(self.constraint()?) } else { None };
                self.expect("E")?;
                self.levels.truncate(levels);
                Node::TemplateParameter { name, parameters, constraint }
            }
            "Tp" => Node::ParameterPack(self.parameter_declaration(level)?),
            _ => return None,
        };
        Some(self.add(declaration))
    }

    /// `<template-args>`. Those of an encoding's name are `tagged`: template parameters behind them stand for them.
    pub(super) fn template_arguments(&mut self, tagged: bool) -> Option<Id> {
        self.deeper(|p| p.template_arguments_there(tagged))
    }

    fn template_arguments_there(&mut self, tagged: bool) -> Option<Id> {
        self.expect("I")?;
        if tagged {
            self.levels = vec![Some(Vec::new())];
        }
        let mut arguments = Vec::new();
        while !self.eat("E") {
            if self.eat("Q") {
                // It is no part of a name.
                self.constraint()?;
                self.expect("E")?;
                break;
            }
            let argument = self.template_argument()?;
            arguments.push(argument);
            if tagged {
                let stands_for = match self.tree.nodes.get(argument.0)? {
                    Node::ArgumentPack(elements) => Node::Pack(elements.clone()),
                    _ => {
                        self.levels.first_mut()?.as_mut()?.push(argument);
                        continue;
                    }
                };
                let pack = self.add(stands_for);
                self.levels.first_mut()?.as_mut()?.push(pack);
            }
        }
        Some(self.add(Node::Arguments(arguments)))
    }

    /// `<template-arg>`.
    pub(super) fn template_argument(&mut self) -> Option<Id> {
        self.deeper(Self::template_argument_there)
    }

    fn template_argument_there(&mut self) -> Option<Id> {
        match self.look(0) {
            b'X' => {
                self.take(1)?;
                let expression = self.expression()?;
                self.expect("E")?;
                Some(expression)
            }
            b'J' => {
                self.take(1)?;
                let arguments = self.until("E", Self::template_argument)?;
                Some(self.add(Node::ArgumentPack(arguments)))
            }
            b'L' if self.look(1) == b'Z' => {
                self.take(2)?;
                let encoding = self.encoding()?;
                self.expect("E")?;
                Some(encoding)
            }
            b'L' => self.literal(),
            b'T' if self.declares_parameter() => {
                // The declaration tells apart what is overloaded; it is no part of a name.
                self.parameter_declaration(None)?;
                self.template_argument()
            }
            _ => self.type_name(),
        }
    }
}
