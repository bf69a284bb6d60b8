//! The text of a tree. A type is printed in two parts, those to the left and to the right of what it declares, as in C.

use super::operator::Precedence;
use super::{DEPTH, Id, LONGEST, Node, ParameterKind, Qualifiers, RefQualifier, Signature, Tree, VISITS};

/// The text, unless it has no end or passes the limits.
pub(super) fn print(tree: &Tree<'_>, root: Id) -> Option<String> {
    let mut printer =
        Printer { tree, out: String::new(), expressions: 1, pack: Pack::NONE, visits: 0, depth: 0, failed: false };
    printer.print(root);
    (!printer.failed).then_some(printer.out)
}

/// Which element of the packs is printed, in an expansion.
#[derive(Clone, Copy)]
struct Pack {
    index: usize,
    /// Elements; `usize::MAX` before a pack was met.
    count: usize,
}

impl Pack {
    const NONE: Pack = Pack { index: usize::MAX, count: usize::MAX };
}

struct Printer<'t, 's> {
    tree: &'t Tree<'s>,
    out: String,
    /// Parentheses since the last `<`: in none of them, `>` would end the arguments.
    expressions: usize,
    pack: Pack,
    visits: usize,
    depth: usize,
    failed: bool,
}

/// A property of a type's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// It is an array.
    Array,
    /// It is a function.
    Function,
    /// There is a part to the right.
    Right,
}

impl<'t, 's> Printer<'t, 's> {
    fn put(&mut self, text: &str) {
        if self.out.len() + text.len() > LONGEST {
            self.failed = true;
        } else {
            self.out.push_str(text);
        }
    }

    fn open(&mut self, text: &str) {
        self.expressions += 1;
        self.put(text);
    }

    fn close(&mut self, text: &str) {
        self.expressions -= 1;
        self.put(text);
    }

    /// Visits a node, unless the limits are passed.
    fn visit<T: Default>(&mut self, id: Id, what: impl FnOnce(&mut Self, &'t Node<'s>) -> T) -> T {
        self.visits += 1;
        self.failed |= self.visits > VISITS || self.depth > 2 * DEPTH;
        let node = self.tree.nodes.get(id.0).filter(|_| !self.failed);
        let Some(node) = node else { return T::default() };
        self.depth += 1;
        let found = what(self, node);
        self.depth -= 1;
        found
    }

    fn print(&mut self, id: Id) {
        self.left(id);
        self.right(id);
    }

    /// In parentheses if it binds less than its place needs.
    fn operand(&mut self, id: Id, place: Precedence, strictly: bool) {
        let own = precedence(self.tree, id);
        if own > place || (own == place && !strictly) {
            self.open("(");
            self.print(id);
            self.close(")");
        } else {
            self.print(id);
        }
    }

    fn list(&mut self, all: &[Id]) {
        let mut first = true;
        for &id in all {
            let before = self.out.len();
            if !first {
                self.put(", ");
            }
            let begin = self.out.len();
            self.operand(id, Precedence::Comma, false);
            // An expansion of nothing leaves no comma.
            if self.out.len() == begin {
                self.out.truncate(before);
            } else {
                first = false;
            }
        }
    }

    fn in_parentheses(&mut self, all: &[Id]) {
        self.open("(");
        self.list(all);
        self.close(")");
    }

    fn in_angles(&mut self, what: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.expressions);
        self.put("<");
        what(self);
        self.put(">");
        self.expressions = outer;
    }

    /// The element of a pack that is printed now.
    fn element(&mut self, elements: &[Id]) -> Option<Id> {
        if self.pack.count == usize::MAX {
            self.pack = Pack { index: 0, count: elements.len() };
        }
        elements.get(self.pack.index).copied()
    }

    fn forward(&mut self, forward: usize) -> Option<Id> {
        let found = self.tree.forwards.get(forward).and_then(|(_, found)| *found);
        self.failed |= found.is_none();
        found
    }

    fn has(&mut self, id: Id, what: Has) -> bool {
        self.visit(id, |p, node| match node {
            Node::Array(..) => what != Has::Function,
            Node::Function { .. } | Node::Encoding { .. } => what != Has::Array,
            Node::Pointer(to) | Node::Reference { to, .. } | Node::MemberPointer { member: to, .. } => {
                what == Has::Right && p.has(*to, what)
            }
            Node::Qualified(of, _) => p.has(*of, what),
            Node::Pack(elements) => p.element(elements).is_some_and(|element| p.has(element, what)),
            Node::Forward(forward) => p.forward(*forward).is_some_and(|found| p.has(found, what)),
            _ => false,
        })
    }

    fn is_declarator(&mut self, id: Id) -> bool {
        self.has(id, Has::Array) || self.has(id, Has::Function)
    }

    /// `(` between a pointer and what it points to, where that needs it.
    fn open_declarator(&mut self, to: Id) {
        if self.has(to, Has::Array) {
            self.put(" ");
        }
        if self.is_declarator(to) {
            self.put("(");
        }
    }

    fn close_declarator(&mut self, to: Id) {
        if self.is_declarator(to) {
            self.put(")");
        }
        self.right(to);
    }

    /// References to references are one.
    fn collapsed(&mut self, to: Id, rvalue: bool) -> (Id, bool) {
        let (mut to, mut rvalue) = (to, rvalue);
        for _ in 0..DEPTH {
            let syntax = self.visit(to, |p, node| match node {
                Node::Pack(elements) => p.element(elements),
                Node::Forward(forward) => p.forward(*forward),
                _ => None,
            });
            match self.tree.nodes.get(syntax.unwrap_or(to).0) {
                Some(Node::Reference { to: inner, rvalue: inner_rvalue }) => {
                    rvalue &= inner_rvalue;
                    to = *inner;
                }
                Some(Node::Forward(_) | Node::Pack(_)) if syntax.is_some_and(|syntax| syntax != to) => {
                    to = syntax.unwrap_or(to);
                }
                _ => return (to, rvalue),
            }
        }
        self.failed = true;
        (to, rvalue)
    }

    fn qualifiers(&mut self, Qualifiers { is_const, is_volatile, is_restrict }: Qualifiers) {
        for (there, word) in [(is_const, " const"), (is_volatile, " volatile"), (is_restrict, " restrict")] {
            if there {
                self.put(word);
            }
        }
    }

    /// A function's parameters, and what is behind them.
    fn parameters(&mut self, signature: &Signature) {
        self.in_parentheses(&signature.parameters);
        if let Some(result) = signature.result {
            self.right(result);
        }
        self.qualifiers(signature.qualifiers);
        match signature.reference {
            RefQualifier::None => {}
            RefQualifier::Lvalue => self.put(" &"),
            RefQualifier::Rvalue => self.put(" &&"),
        }
    }

    fn right(&mut self, id: Id) {
        self.visit(id, |p, node| match node {
            Node::Encoding { signature, enable_if, constraint, .. } => {
                p.parameters(signature);
                if let Some(conditions) = enable_if {
                    p.put(" [enable_if:");
                    p.list(conditions);
                    p.put("]");
                }
                p.required(*constraint);
            }
            Node::Function { signature, exceptions } => {
                p.parameters(signature);
                if let Some(exceptions) = exceptions {
                    p.put(" ");
                    p.print(*exceptions);
                }
            }
            Node::Qualified(of, _) => p.right(*of),
            Node::Pointer(to) | Node::MemberPointer { member: to, .. } => p.close_declarator(*to),
            Node::Reference { to, rvalue } => {
                let (to, _) = p.collapsed(*to, *rvalue);
                p.close_declarator(to);
            }
            Node::Array(of, size) => {
                if !p.out.ends_with(']') {
                    p.put(" ");
                }
                p.open("[");
                if let Some(size) = size {
                    p.print(*size);
                }
                p.close("]");
                p.right(*of);
            }
            Node::Pack(elements) => {
                if let Some(element) = p.element(elements) {
                    p.right(element);
                }
            }
            Node::Forward(forward) => {
                if let Some(found) = p.forward(*forward) {
                    p.right(found);
                }
            }
            Node::TypeParameter(name) | Node::ConstrainedParameter { name, .. } => p.print(*name),
            Node::ValueParameter { name, of } => {
                p.print(*name);
                p.right(*of);
            }
            Node::TemplateParameter { name, constraint, .. } => {
                p.print(*name);
                p.required(*constraint);
            }
            Node::ParameterPack(parameter) => p.right(*parameter),
            _ => {}
        });
    }

    fn required(&mut self, constraint: Option<Id>) {
        if let Some(constraint) = constraint {
            self.put(" requires ");
            self.print(constraint);
        }
    }

    fn left(&mut self, id: Id) {
        self.visit(id, |p, node| match node {
            Node::Text(text) => p.put(text),
            Node::Prefixed(text, of) => {
                p.put(text);
                p.print(*of);
            }
            Node::Suffixed(of, text) => {
                p.print(*of);
                p.put(text);
            }
            Node::Joined(a, text, b) => {
                p.print(*a);
                p.put(text);
                p.print(*b);
            }
            Node::WithArguments(name, arguments) => {
                p.print(*name);
                p.print(*arguments);
            }
            Node::Arguments(arguments) => p.in_angles(|p| p.list(arguments)),
            Node::AbiTag(name, tag) => {
                p.print(*name);
                p.put("[abi:");
                p.put(tag);
                p.put("]");
            }
            Node::Standard { name, expanded } => {
                p.put("std::");
                p.put(if *expanded { expanded_name(name).0 } else { name });
                p.put(if *expanded { expanded_name(name).1 } else { "" });
            }
            Node::Constructor { class, destructor } => {
                p.put(if *destructor { "~" } else { "" });
                let name = p.base_name(*class);
                p.put(name);
            }
            Node::Unnamed(count) => p.counted("'unnamed", count),
            Node::Closure { count, .. } => {
                p.counted("'lambda", count);
                p.declarator(id);
            }
            Node::StructuredBinding(names) => {
                p.open("[");
                p.list(names);
                p.close("]");
            }
            Node::DotSuffix(of, suffix) => {
                p.print(*of);
                p.put(" (");
                p.put(suffix);
                p.put(")");
            }
            Node::ArgumentPack(all) | Node::List(all) => p.list(all),
            Node::Pack(elements) => {
                if let Some(element) = p.element(elements) {
                    p.left(element);
                }
            }
            Node::Expansion(of) => p.expansion(*of),
            Node::Forward(forward) => {
                if let Some(found) = p.forward(*forward) {
                    p.left(found);
                }
            }
            Node::Invented { kind, index } => {
                p.put(match kind {
                    ParameterKind::Type => "$T",
                    ParameterKind::Value => "$N",
                    ParameterKind::Template => "$TT",
                });
                if let Some(index) = index.checked_sub(1) {
                    p.put(&index.to_string());
                }
            }
            Node::TypeParameter(_) => p.put("typename "),
            Node::ConstrainedParameter { constraint, .. } => {
                p.print(*constraint);
                p.put(" ");
            }
            Node::ValueParameter { of, .. } => {
                p.left(*of);
                if !p.has(*of, Has::Right) {
                    p.put(" ");
                }
            }
            Node::TemplateParameter { parameters, .. } => {
                p.put("template");
                p.in_angles(|p| p.list(parameters));
                p.put(" typename ");
            }
            Node::ParameterPack(parameter) => {
                p.left(*parameter);
                p.put("...");
            }
            _ => p.left_of_type(node),
        });
    }

    fn left_of_type(&mut self, node: &Node<'s>) {
        match node {
            Node::Encoding { name, signature, .. } => {
                if let Some(result) = signature.result {
                    self.left(result);
                    if !self.has(result, Has::Right) {
                        self.put(" ");
                    }
                }
                self.print(*name);
            }
            Node::Function { signature, .. } => {
                if let Some(result) = signature.result {
                    self.left(result);
                }
                self.put(" ");
            }
            Node::Qualified(of, qualifiers) => {
                self.left(*of);
                self.qualifiers(*qualifiers);
            }
            Node::VendorQualified(of, word, arguments) => {
                self.print(*of);
                self.put(" ");
                self.put(word);
                if let Some(arguments) = arguments {
                    self.print(*arguments);
                }
            }
            Node::Pointer(to) => {
                self.left(*to);
                self.open_declarator(*to);
                self.put("*");
            }
            Node::Reference { to, rvalue } => {
                let (to, rvalue) = self.collapsed(*to, *rvalue);
                self.left(to);
                self.open_declarator(to);
                self.put(if rvalue { "&&" } else { "&" });
            }
            Node::MemberPointer { class, member } => {
                self.left(*member);
                let declarator = self.is_declarator(*member);
                self.put(if declarator { "(" } else { " " });
                self.print(*class);
                self.put("::*");
            }
            Node::Array(of, _) => self.left(*of),
            Node::Vector(of, size) => {
                self.print(*of);
                self.put(" vector[");
                if let Some(size) = size {
                    self.print(*size);
                }
                self.put("]");
            }
            Node::BitInt { size, signed } => {
                self.put(if *signed { "_BitInt" } else { "unsigned _BitInt" });
                self.open("(");
                self.operand(*size, Precedence::Any, false);
                self.close(")");
            }
            _ => self.expression(node),
        }
    }

    fn expression(&mut self, node: &Node<'s>) {
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
            Node::Fold { left, operator, pack, init } => self.fold(*left, operator, *pack, *init),
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

    fn counted(&mut self, word: &str, count: &str) {
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
    fn declarator(&mut self, closure: Id) {
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
    fn expansion(&mut self, of: Id) {
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

    /// A class's name as its constructor has it.
    fn base_name(&mut self, id: Id) -> &'t str {
        self.visit(id, |p, node| match node {
            Node::Text(text) => *text,
            Node::Joined(_, _, name) | Node::WithArguments(name, _) | Node::AbiTag(name, _) => p.base_name(*name),
            Node::Standard { name, expanded: true } => expanded_name(name).0,
            Node::Standard { name, .. } => *name,
            _ => "",
        })
    }
}

/// The template that an abbreviated name of the standard library stands for, and its arguments.
fn expanded_name(name: &'static str) -> (&'static str, &'static str) {
    match name {
        "string" => ("basic_string", "<char, std::char_traits<char>, std::allocator<char>>"),
        "istream" => ("basic_istream", "<char, std::char_traits<char>>"),
        "ostream" => ("basic_ostream", "<char, std::char_traits<char>>"),
        "iostream" => ("basic_iostream", "<char, std::char_traits<char>>"),
        _ => (name, ""),
    }
}

fn precedence(tree: &Tree<'_>, id: Id) -> Precedence {
    match tree.nodes.get(id.0) {
        Some(
            Node::Binary(_, _, _, own)
            | Node::PrefixOperator(_, _, own)
            | Node::PostfixOperator(_, _, own)
            | Node::MemberAccess(_, _, _, own)
            | Node::Enclosed(_, _, own),
        ) => *own,
        Some(Node::Conditional(_)) => Precedence::Conditional,
        Some(Node::Subscript(..) | Node::Call(..) | Node::NamedCast { .. }) => Precedence::Postfix,
        Some(Node::Cast { .. }) => Precedence::Cast,
        Some(Node::New { .. } | Node::Delete { .. }) => Precedence::Unary,
        _ => Precedence::Primary,
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
