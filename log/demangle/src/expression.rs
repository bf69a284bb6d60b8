//! Expressions: arguments of templates, sizes of arrays, `decltype`, constraints.

use super::operator::{self, Form, Precedence};
use super::parse::{NameFacts, Parser};
use super::{Id, Node, types};

impl<'s> Parser<'s> {
    /// `<expression>`.
    pub(super) fn expression(&mut self) -> Option<Id> {
        self.deeper(Self::expression_there)
    }

    fn expression_there(&mut self) -> Option<Id> {
        let global = self.eat("gs");
        match (self.look(0), self.look(1)) {
            (b'L', _) => return self.literal(),
            (b'T', _) => return self.template_parameter(),
            (b'f', b'p') => return self.function_parameter(),
            (b'f', b'L') if self.look(2).is_ascii_digit() => return self.function_parameter(),
            (b'f', _) => return self.fold(),
            (b'i', b'l') => {
                self.take(2)?;
                let values = self.until("E", Self::braced)?;
                return Some(self.add(Node::Braces(None, values)));
            }
            (b't', b'l') => {
                self.take(2)?;
                let of = self.type_name()?;
                let values = self.until("E", Self::braced)?;
                return Some(self.add(Node::Braces(Some(of), values)));
            }
            (b'n', b'x') => {
                self.take(2)?;
                let of = self.expression()?;
                return Some(self.add(Node::Enclosed("noexcept ", of, Precedence::Unary)));
            }
            (b's', b'p') => {
                self.take(2)?;
                let of = self.expression()?;
                return Some(self.add(Node::Expansion(of)));
            }
            (b's', b'o') => return self.subobject(),
            (b's', b'Z') => return self.size_of_pack(),
            (b's', b'P') => {
                self.take(2)?;
                let arguments = self.until("E", Self::template_argument)?;
                let all = self.add(Node::List(arguments));
                return Some(self.add(Node::Enclosed("sizeof... ", all, Precedence::Primary)));
            }
            (b't', b'r') => {
                self.take(2)?;
                return Some(self.text("throw"));
            }
            (b't', b'w') => {
                self.take(2)?;
                let what = self.expression()?;
                return Some(self.add(Node::Prefixed("throw ", what)));
            }
            (b'r', b'q' | b'Q') => return self.requires(),
            (b'u', _) => return self.vendor_expression(),
            (b's', b'r') | (b'o', b'n') | (b'd', b'n') | (b'1'..=b'9', _) => return self.unresolved_name(global),
            _ => {}
        }
        let found = operator::by_code(self.rest.get(..2)?)?;
        self.take(2)?;
        self.operation(found, global)
    }

    fn operation(&mut self, found: operator::Operator, global: bool) -> Option<Id> {
        let (symbol, precedence) = (found.symbol, found.precedence);
        let node = match found.form {
            Form::Prefix => Node::PrefixOperator(symbol, self.expression()?, precedence),
            Form::Postfix if self.eat("_") => Node::PrefixOperator(symbol, self.expression()?, precedence),
            Form::Postfix => Node::PostfixOperator(self.expression()?, symbol, precedence),
            Form::Binary => Node::Binary(self.expression()?, symbol, self.expression()?, precedence),
            Form::Subscript => Node::Subscript(self.expression()?, self.expression()?),
            Form::Member => Node::MemberAccess(self.expression()?, symbol, self.expression()?, precedence),
            Form::New { array } => {
                let placement = self.until("_", Self::expression)?;
                let of = self.type_name()?;
                let values = if self.eat("pi") {
                    self.until("E", Self::expression)?
                } else {
                    self.expect("E")?;
                    Vec::new()
                };
                Node::New { global, array, placement, of, values }
            }
            Form::Delete { array } => Node::Delete { global, array, what: self.expression()? },
            Form::Call => Node::Call(self.expression()?, self.until("E", Self::expression)?),
            Form::Conversion => {
                let arguments_follow = std::mem::replace(&mut self.arguments_follow, false);
                let to = self.type_name();
                self.arguments_follow = arguments_follow;
                let to = to?;
                let from = if self.eat("_") { self.until("E", Self::expression)? } else { vec![self.expression()?] };
                Node::Cast { to, from }
            }
            Form::Conditional => Node::Conditional([self.expression()?, self.expression()?, self.expression()?]),
            Form::OfType => Node::Enclosed(symbol, self.type_name()?, precedence),
            Form::OfExpression => Node::Enclosed(symbol, self.expression()?, precedence),
            Form::NamedCast => Node::NamedCast { cast: symbol, to: self.type_name()?, from: self.expression()? },
        };
        Some(self.add(node))
    }

    /// `<braced-expression>`.
    fn braced(&mut self) -> Option<Id> {
        self.deeper(Self::braced_there)
    }

    fn braced_there(&mut self) -> Option<Id> {
        if self.look(0) != b'd' {
            return self.expression();
        }
        let node = match self.look(1) {
            b'i' => {
                self.take(2)?;
                Node::Designated { element: self.source_name()?, array: false, value: self.braced()? }
            }
            b'x' => {
                self.take(2)?;
                Node::Designated { element: self.expression()?, array: true, value: self.braced()? }
            }
            b'X' => {
                self.take(2)?;
                Node::DesignatedRange { first: self.expression()?, last: self.expression()?, value: self.braced()? }
            }
            _ => return self.expression(),
        };
        Some(self.add(node))
    }

    fn size_of_pack(&mut self) -> Option<Id> {
        self.expect("sZ")?;
        if self.look(0) == b'T' {
            let pack = self.template_parameter()?;
            return Some(self.add(Node::SizeofPack(pack)));
        }
        let parameter = self.function_parameter()?;
        Some(self.add(Node::Enclosed("sizeof... ", parameter, Precedence::Primary)))
    }

    /// `so <type> <expression> [<offset>] <union-selector>* [p] E`.
    fn subobject(&mut self) -> Option<Id> {
        self.expect("so")?;
        let of = self.type_name()?;
        let object = self.expression()?;
        let offset = self.digits(true);
        while self.eat("_") {
            self.digits(false);
        }
        self.eat("p");
        self.expect("E")?;
        Some(self.add(Node::Subobject { of, object, offset: if offset.is_empty() { "0" } else { offset } }))
    }

    /// `u <source-name> <template-arg>* E`: an operator of the compiler.
    fn vendor_expression(&mut self) -> Option<Id> {
        self.expect("u")?;
        let name = self.source_name()?;
        let arguments = self.until("E", Self::template_argument)?;
        Some(self.add(Node::Call(name, arguments)))
    }

    /// `<function-param>`.
    fn function_parameter(&mut self) -> Option<Id> {
        if self.eat("fpT") {
            return Some(self.text("this"));
        }
        if !self.eat("fp") {
            self.expect("fL")?;
            self.digits(false);
            self.expect("p")?;
        }
        self.qualifiers();
        let number = self.digits(false);
        self.expect("_")?;
        let number = self.text(number);
        Some(self.add(Node::Prefixed("fp", number)))
    }

    /// `<fold-expression>`.
    fn fold(&mut self) -> Option<Id> {
        self.expect("f")?;
        let (left, has_init) = match self.take(1)? {
            "l" => (true, false),
            "L" => (true, true),
            "r" => (false, false),
            "R" => (false, true),
            _ => return None,
        };
        let found = operator::by_code(self.take(2)?)?;
        let binary = found.form == Form::Binary
            || (found.form == Form::Member && found.precedence == Precedence::PointerToMember);
        if !binary {
            return None;
        }
        let mut pack = self.expression()?;
        let mut init = if has_init { Some(self.expression()?) } else { None };
        // The first operand is what is on the left.
        if let (true, Some(second)) = (left, init) {
            init = Some(std::mem::replace(&mut pack, second));
        }
        Some(self.add(Node::Fold { left, operator: found.symbol, pack, init }))
    }

    /// `<unresolved-name>`.
    fn unresolved_name(&mut self, global: bool) -> Option<Id> {
        if self.eat("srN") {
            let mut scope = self.unresolved_type()?;
            if self.look(0) == b'I' {
                let arguments = self.template_arguments(false)?;
                scope = self.add(Node::WithArguments(scope, arguments));
            }
            while !self.eat("E") {
                let level = self.simple_id()?;
                scope = self.add(Node::Joined(scope, "::", level));
            }
            let base = self.base_unresolved_name()?;
            return Some(self.add(Node::Joined(scope, "::", base)));
        }
        if !self.eat("sr") {
            let base = self.base_unresolved_name()?;
            return Some(if global { self.add(Node::Prefixed("::", base)) } else { base });
        }
        let mut scope = None;
        if self.look(0).is_ascii_digit() {
            while scope.is_none() || !self.eat("E") {
                let level = self.simple_id()?;
                scope = Some(match scope {
                    Some(scope) => self.add(Node::Joined(scope, "::", level)),
                    None if global => self.add(Node::Prefixed("::", level)),
                    None => level,
                });
            }
        } else {
            let mut of = self.unresolved_type()?;
            if self.look(0) == b'I' {
                let arguments = self.template_arguments(false)?;
                of = self.add(Node::WithArguments(of, arguments));
            }
            scope = Some(of);
        }
        let base = self.base_unresolved_name()?;
        Some(self.add(Node::Joined(scope?, "::", base)))
    }

    fn unresolved_type(&mut self) -> Option<Id> {
        match self.look(0) {
            b'T' => {
                let parameter = self.template_parameter()?;
                self.substitutions.push(parameter);
                Some(parameter)
            }
            b'D' => {
                let of = self.decltype()?;
                self.substitutions.push(of);
                Some(of)
            }
            _ => self.substitution(),
        }
    }

    fn simple_id(&mut self) -> Option<Id> {
        let name = self.source_name()?;
        self.with_arguments(name)
    }

    fn with_arguments(&mut self, name: Id) -> Option<Id> {
        if self.look(0) != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments(false)?;
        Some(self.add(Node::WithArguments(name, arguments)))
    }

    fn base_unresolved_name(&mut self) -> Option<Id> {
        if self.look(0).is_ascii_digit() {
            return self.simple_id();
        }
        if self.eat("dn") {
            let of = if self.look(0).is_ascii_digit() { self.simple_id()? } else { self.unresolved_type()? };
            return Some(self.add(Node::Prefixed("~", of)));
        }
        self.eat("on");
        let name = self.operator_name(&mut NameFacts::default())?;
        self.with_arguments(name)
    }

    /// `requires { … }`.
    fn requires(&mut self) -> Option<Id> {
        let mut parameters = Vec::new();
        if self.take(2)? == "rQ" {
            // A void list has no parameters.
            if self.look(0) == b'v' && self.look(1) == b'_' {
                self.take(1)?;
            }
            parameters = self.until("_", Self::type_name)?;
        }
        let requirements = self.until("E", Self::requirement)?;
        Some(self.add(Node::Requires { parameters, requirements }))
    }

    fn requirement(&mut self) -> Option<Id> {
        let node = match self.take(1)? {
            "X" => {
                let expression = self.expression()?;
                let noexcept = self.eat("N");
                let constraint = if self.eat("R") { Some(self.name(&mut NameFacts::default())?) } else { None };
                Node::ExpressionRequirement { expression, noexcept, constraint }
            }
            "T" => Node::Prefixed(" typename ", self.type_name()?),
            "Q" => Node::Prefixed(" requires ", self.constraint()?),
            _ => return None,
        };
        Some(self.add(node))
    }

    /// `<expr-primary>`.
    pub(super) fn literal(&mut self) -> Option<Id> {
        self.expect("L")?;
        let node = match self.look(0) {
            b'_' => {
                self.expect("_Z")?;
                let encoding = self.encoding()?;
                self.expect("E")?;
                return Some(encoding);
            }
            b'b' if self.eat("b0E") => Node::Text("false"),
            b'b' if self.eat("b1E") => Node::Text("true"),
            b'f' | b'd' => {
                let double = self.take(1)? == "d";
                let digits = self.take(if double { 16 } else { 8 })?;
                if !digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')) {
                    return None;
                }
                self.expect("E")?;
                Node::Float { bits: u64::from_str_radix(digits, 16).ok()?, double }
            }
            b'A' => {
                let of = self.type_name()?;
                self.expect("E")?;
                Node::StringOf(of)
            }
            b'D' if self.look(1) == b'n' => {
                self.take(2)?;
                self.eat("0");
                self.expect("E")?;
                Node::Text("nullptr")
            }
            b'U' => {
                // A lambda's own type.
                let of = self.type_name()?;
                self.expect("E")?;
                Node::Lambda(of)
            }
            b'T' | b'b' => return None,
            letter @ (b'w' | b'c' | b'a' | b'h' | b's' | b't' | b'i' | b'j' | b'l' | b'm' | b'x' | b'y' | b'n'
            | b'o') => {
                self.take(1)?;
                let digits = self.digits(true);
                self.expect("E")?;
                if digits.is_empty() {
                    return None;
                }
                let of = match letter {
                    b'i' => "",
                    b'j' => "u",
                    b'l' => "l",
                    b'm' => "ul",
                    b'x' => "ll",
                    b'y' => "ull",
                    _ => types::builtin(letter)?,
                };
                Node::Integer { of, digits }
            }
            _ => {
                let of = self.type_name()?;
                let digits = self.digits(true);
                self.expect("E")?;
                if digits.is_empty() {
                    return None;
                }
                Node::Value { of, digits }
            }
        };
        Some(self.add(node))
    }
}
