//! The text of a tree. A type is printed in two parts, those to the left and to the right of what it declares, as in C.

mod expression;

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
            _ => p.left_of_parameter(node),
        });
    }

    /// A parameter of a template.
    fn left_of_parameter(&mut self, node: &Node<'s>) {
        match node {
            Node::Invented { kind, index } => {
                self.put(match kind {
                    ParameterKind::Type => "$T",
                    ParameterKind::Value => "$N",
                    ParameterKind::Template => "$TT",
                });
                if let Some(index) = index.checked_sub(1) {
                    self.put(&index.to_string());
                }
            }
            Node::TypeParameter(_) => self.put("typename "),
            Node::ConstrainedParameter { constraint, .. } => {
                self.print(*constraint);
                self.put(" ");
            }
            Node::ValueParameter { of, .. } => {
                self.left(*of);
                if !self.has(*of, Has::Right) {
                    self.put(" ");
                }
            }
            Node::TemplateParameter { parameters, .. } => {
                self.put("template");
                self.in_angles(|p| p.list(parameters));
                self.put(" typename ");
            }
            Node::ParameterPack(parameter) => {
                self.left(*parameter);
                self.put("...");
            }
            _ => self.left_of_type(node),
        }
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
