//! The text of expressions and literals in names.

use super::super::operator::Precedence;
use super::super::{Id, Node};
use super::{Pack, Printer};

impl<'s> Printer<'_, 's> {
    pub(super) fn expression(&mut self, node: &Node<'s>) {
        match node {
            Node::Binary(a, operator, b, own) => {
                let ends_arguments = self.expressions == 0 && matches!(*operator, ">" | ">>");
                let assigns = *own == Precedence::Assign;
                if ends_arguments {
                    self.open("(");
                }
                self.operand(*a, if assigns { Precedence::OrIf } else { *own }, !assigns);
                self.put(if *operator == "," { "" } else { " " });
                self.put(operator);
                self.put(" ");
                self.operand(*b, *own, assigns);
                if ends_arguments {
                    self.close(")");
                }
            }
            Node::PrefixOperator(operator, of, own) => {
                self.put(operator);
                self.operand(*of, *own, false);
            }
            Node::PostfixOperator(of, operator, own) => {
                self.operand(*of, *own, true);
                self.put(operator);
            }
            Node::MemberAccess(of, operator, member, own) => {
                self.operand(*of, *own, true);
                self.put(operator);
                self.operand(*member, *own, false);
            }
            Node::Conditional([condition, then, otherwise]) => {
                self.operand(*condition, Precedence::Conditional, false);
                self.put(" ? ");
                self.operand(*then, Precedence::Any, false);
                self.put(" : ");
                self.operand(*otherwise, Precedence::Assign, true);
            }
            Node::Subscript(of, index) => {
                self.operand(*of, Precedence::Postfix, false);
                self.open("[");
                self.operand(*index, Precedence::Any, false);
                self.close("]");
            }
            Node::Call(callee, arguments) => {
                self.print(*callee);
                self.in_parentheses(arguments);
            }
            Node::Enclosed(word, of, _) => {
                self.put(word);
                self.open("(");
                self.print(*of);
                self.close(")");
            }
            Node::SizeofPack(pack) => {
                self.put("sizeof...");
                self.open("(");
                self.expansion(*pack);
                self.close(")");
            }
            Node::Fold { left, operator, pack, init } => self.fold(*left, operator, *pack, *init),
            _ => self.made(node),
        }
    }

    /// What makes an object: casts, `new`, values in braces.
    fn made(&mut self, node: &Node<'s>) {
        match node {
            Node::NamedCast { cast, to, from } => {
                self.put(cast);
                self.in_angles(|p| p.left(*to));
                self.open("(");
                self.operand(*from, Precedence::Any, false);
                self.close(")");
            }
            Node::Cast { to, from } => {
                self.open("(");
                self.print(*to);
                self.close(")");
                self.in_parentheses(from);
            }
            Node::New { global, array, placement, of, values } => {
                self.put(if *global { "::new" } else { "new" });
                self.put(if *array { "[]" } else { "" });
                if !placement.is_empty() {
                    self.in_parentheses(placement);
                }
                self.put(" ");
                self.print(*of);
                if !values.is_empty() {
                    self.in_parentheses(values);
                }
            }
            Node::Delete { global, array, what } => {
                self.put(if *global { "::delete" } else { "delete" });
                self.put(if *array { "[] " } else { " " });
                self.print(*what);
            }
            Node::Subobject { of, object, offset } => {
                self.print(*object);
                self.put(".<");
                self.print(*of);
                self.put(" at offset ");
                self.number(offset);
                self.put(">");
            }
            Node::Braces(of, values) => {
                if let Some(of) = of {
                    self.print(*of);
                }
                self.put("{");
                self.list(values);
                self.put("}");
            }
            Node::Designated { element, array, value } => {
                self.put(if *array { "[" } else { "." });
                self.print(*element);
                self.put(if *array { "]" } else { "" });
                self.designated(*value);
            }
            Node::DesignatedRange { first, last, value } => {
                self.put("[");
                self.print(*first);
                self.put(" ... ");
                self.print(*last);
                self.put("]");
                self.designated(*value);
            }
            _ => self.value(node),
        }
    }

    fn value(&mut self, node: &Node<'s>) {
        match node {
            Node::Integer { of, digits } => {
                let cast = of.len() > 3;
                if cast {
                    self.open("(");
                    self.put(of);
                    self.close(")");
                }
                self.number(digits);
                self.put(if cast { "" } else { of });
            }
            Node::Value { of, digits } => {
                self.open("(");
                self.print(*of);
                self.close(")");
                self.number(digits);
            }
            Node::Float { bits, double } => {
                let text = if *double {
                    hexadecimal(f64::from_bits(*bits))
                } else {
                    hexadecimal(f32::from_bits(*bits as u32).into()) + "f"
                };
                self.put(&text);
            }
            Node::StringOf(of) => {
                self.put("\"<");
                self.print(*of);
                self.put(">\"");
            }
            Node::Lambda(of) => {
                self.put("[]");
                self.declarator(*of);
                self.put("{...}");
            }
            Node::Requires { parameters, requirements } => {
                self.put("requires");
                if !parameters.is_empty() {
                    self.put(" ");
                    self.in_parentheses(parameters);
                }
                self.put(" ");
                self.open("{");
                for requirement in requirements {
                    self.print(*requirement);
                    self.put(";");
                }
                self.put(" ");
                self.close("}");
            }
            Node::ExpressionRequirement { expression, noexcept, constraint } => {
                self.put(" ");
                let braces = *noexcept || constraint.is_some();
                if braces {
                    self.open("{");
                }
                self.print(*expression);
                if braces {
                    self.close("}");
                }
                self.put(if *noexcept { " noexcept" } else { "" });
                if let Some(constraint) = constraint {
                    self.put(" -> ");
                    self.print(*constraint);
                }
            }
            _ => self.failed = true,
        }
    }

    fn number(&mut self, digits: &str) {
        match digits.strip_prefix('n') {
            Some(digits) => {
                self.put("-");
                self.put(digits);
            }
            None => self.put(digits),
        }
    }

    pub(super) fn counted(&mut self, word: &str, count: &str) {
        self.put(word);
        self.put(count);
        self.put("'");
    }

    fn designated(&mut self, value: Id) {
        if !matches!(self.tree.nodes.get(value.0), Some(Node::Designated { .. } | Node::DesignatedRange { .. })) {
            self.put(" = ");
        }
        self.print(value);
    }

    /// A lambda's parameters.
    pub(super) fn declarator(&mut self, closure: Id) {
        let Some(Node::Closure { templates, constraints, parameters, .. }) = self.tree.nodes.get(closure.0) else {
            return;
        };
        if !templates.is_empty() {
            self.in_angles(|p| p.list(templates));
        }
        let [before, behind] = constraints;
        self.required(*before);
        self.put(if before.is_some() { " " } else { "" });
        self.in_parentheses(parameters);
        self.required(*behind);
    }

    /// A pattern, once for each element of the packs in it.
    pub(super) fn expansion(&mut self, of: Id) {
        let outer = std::mem::replace(&mut self.pack, Pack::NONE);
        let begin = self.out.len();
        self.print(of);
        match self.pack.count {
            usize::MAX => self.put("..."),
            0 => self.out.truncate(begin),
            count => {
                for index in 1..count {
                    if self.failed {
                        break;
                    }
                    self.put(", ");
                    self.pack = Pack { index, count };
                    self.print(of);
                }
            }
        }
        self.pack = outer;
    }

    fn fold(&mut self, left: bool, operator: &str, pack: Id, init: Option<Id>) {
        let of_pack = |p: &mut Self| {
            p.open("(");
            p.expansion(pack);
            p.close(")");
        };
        self.open("(");
        match init {
            Some(init) if left => self.operand(init, Precedence::Cast, true),
            _ if !left => of_pack(self),
            _ => {}
        }
        let infix = |p: &mut Self| {
            p.put(" ");
            p.put(operator);
            p.put(" ");
        };
        if !left || init.is_some() {
            infix(self);
        }
        self.put("...");
        if left || init.is_some() {
            infix(self);
        }
        match init {
            _ if left => of_pack(self),
            Some(init) => self.operand(init, Precedence::Cast, true),
            None => {}
        }
        self.close(")");
    }
}

/// A number as C's `%a` prints it.
fn hexadecimal(value: f64) -> String {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if exponent == 0x7ff {
        return format!("{sign}{}", if fraction == 0 { "inf" } else { "nan" });
    }
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let (first, exponent) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, exponent - 1023),
    };
    format!("{sign}0x{first}{point}{digits}p{exponent:+}")
}
