//! Names of C++ as compilers mangle them, and as `llvm-cxxfilt` spells them.
//!
//! The grammar is that of the Itanium C++ ABI, chapter 5.1 "External Names", with the productions for constrained templates,
//! generic lambdas and address spaces that clang emits. `parse` makes a tree of a symbol, `print` a text of the tree.
//! What is not understood, or needs more than the limits below, has no demangled name: the symbol stands for itself.
//!
//! Not read: modules of C++20 (`W`), Objective-C, and values of type `long double`.

mod expression;
mod name;
mod operator;
mod parse;
mod print;
mod types;

#[cfg(test)]
mod tests;

use operator::Precedence;
use parse::Parser;

/// How deep productions may nest, and nodes of the tree below each other.
const DEPTH: usize = 256;
/// Bytes of the longest name that is made.
const LONGEST: usize = 1 << 18;
/// Nodes that are visited to print a name: one that repeats itself by substitutions can have very many.
const VISITS: usize = 1 << 20;

/// The demangled name of a symbol; `None` if it is not a mangled one, or not understood.
pub fn demangle(symbol: &str) -> Option<String> {
    let (tree, root) = Parser::new(symbol).symbol()?;
    print::print(&tree, root)
}

/// The names of a function: the whole; that without result and arguments; that without arguments of a template; that without
/// namespaces. Of what is no function, the last ones are the same. `None` as of [`demangle`].
pub fn parts(symbol: &str) -> Option<[String; 4]> {
    let (tree, root) = Parser::new(symbol).symbol()?;
    let node = |id: Id| tree.nodes.get(id.0);
    let mut callee = root;
    while let Some(Node::DotSuffix(of, _) | Node::Encoding { name: of, .. }) = node(callee) {
        callee = *of;
    }
    let bare = if let Some(Node::WithArguments(name, _)) = node(callee) { *name } else { callee };
    let own = if let Some(Node::Joined(_, "::" | "::friend ", name)) = node(bare) { *name } else { bare };
    let text = |id: Id| print::print(&tree, id);
    Some([text(root)?, text(callee)?, text(bare)?, text(own)?])
}

/// The types of a function's parameters; none for `void`. `None` as of [`demangle`], and for what is no function.
pub fn parameters(symbol: &str) -> Option<Vec<String>> {
    let (tree, mut root) = Parser::new(symbol).symbol()?;
    loop {
        match tree.nodes.get(root.0)? {
            Node::DotSuffix(of, _) => root = *of,
            Node::Encoding { signature, .. } => {
                let texts: Option<Vec<String>> =
                    signature.parameters.iter().map(|id| print::print(&tree, *id)).collect();
                return texts.map(|texts| if texts == ["void"] { Vec::new() } else { texts });
            }
            _ => return None,
        }
    }
}

/// A node of the tree, by its place in [`Tree::nodes`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id(usize);

/// `const`, `volatile`, `restrict`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Qualifiers {
    is_const: bool,
    is_volatile: bool,
    is_restrict: bool,
}

/// `&` or `&&` behind a function's parameters.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RefQualifier {
    #[default]
    None,
    Lvalue,
    Rvalue,
}

/// A kind of template parameter; those of lambdas have no names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterKind {
    Type,
    Value,
    Template,
}

/// What functions have, types of them as well as their names.
struct Signature {
    result: Option<Id>,
    parameters: Vec<Id>,
    qualifiers: Qualifiers,
    reference: RefQualifier,
}

/// A part of a name, a type, an expression.
enum Node<'s> {
    /// A name or a type as it stands.
    Text(&'s str),
    /// A text, and a node behind it.
    Prefixed(&'static str, Id),
    /// A node, and a text behind it.
    Suffixed(Id, &'s str),
    /// Two nodes with a text in between.
    Joined(Id, &'static str, Id),
    /// A template's name and its arguments.
    WithArguments(Id, Id),
    Arguments(Vec<Id>),
    AbiTag(Id, &'s str),
    /// A name of the standard library that has an abbreviation.
    Standard {
        name: &'static str,
        expanded: bool,
    },
    Constructor {
        class: Id,
        destructor: bool,
    },
    Closure {
        templates: Vec<Id>,
        constraints: [Option<Id>; 2],
        parameters: Vec<Id>,
        count: &'s str,
    },
    Unnamed(&'s str),
    StructuredBinding(Vec<Id>),
    Encoding {
        name: Id,
        signature: Signature,
        enable_if: Option<Vec<Id>>,
        constraint: Option<Id>,
    },
    DotSuffix(Id, &'s str),
    Qualified(Id, Qualifiers),
    VendorQualified(Id, &'s str, Option<Id>),
    Pointer(Id),
    Reference {
        to: Id,
        rvalue: bool,
    },
    MemberPointer {
        class: Id,
        member: Id,
    },
    Array(Id, Option<Id>),
    Vector(Id, Option<Id>),
    Function {
        signature: Signature,
        exceptions: Option<Id>,
    },
    BitInt {
        size: Id,
        signed: bool,
    },
    /// What a template's parameter stands for when that is several things.
    Pack(Vec<Id>),
    /// Several arguments of a template in the place of one.
    ArgumentPack(Vec<Id>),
    Expansion(Id),
    /// A template's parameter whose arguments come later in the symbol.
    Forward(usize),
    Invented {
        kind: ParameterKind,
        index: usize,
    },
    TypeParameter(Id),
    ConstrainedParameter {
        constraint: Id,
        name: Id,
    },
    ValueParameter {
        name: Id,
        of: Id,
    },
    TemplateParameter {
        name: Id,
        parameters: Vec<Id>,
        constraint: Option<Id>,
    },
    ParameterPack(Id),
    /// An operand on either side.
    Binary(Id, &'static str, Id, Precedence),
    PrefixOperator(&'static str, Id, Precedence),
    PostfixOperator(Id, &'static str, Precedence),
    MemberAccess(Id, &'static str, Id, Precedence),
    Conditional([Id; 3]),
    Subscript(Id, Id),
    Call(Id, Vec<Id>),
    /// `static_cast<to>(from)`.
    NamedCast {
        cast: &'static str,
        to: Id,
        from: Id,
    },
    /// `(to)(from)`.
    Cast {
        to: Id,
        from: Vec<Id>,
    },
    /// A word, and an expression or a type in parentheses.
    Enclosed(&'static str, Id, Precedence),
    SizeofPack(Id),
    New {
        global: bool,
        array: bool,
        placement: Vec<Id>,
        of: Id,
        values: Vec<Id>,
    },
    Delete {
        global: bool,
        array: bool,
        what: Id,
    },
    /// A part of an object, by its type and its offset in bytes.
    Subobject {
        of: Id,
        object: Id,
        offset: &'s str,
    },
    Braces(Option<Id>, Vec<Id>),
    Designated {
        element: Id,
        array: bool,
        value: Id,
    },
    DesignatedRange {
        first: Id,
        last: Id,
        value: Id,
    },
    Fold {
        left: bool,
        operator: &'static str,
        pack: Id,
        init: Option<Id>,
    },
    Integer {
        of: &'static str,
        digits: &'s str,
    },
    /// A value of a type with a name.
    Value {
        of: Id,
        digits: &'s str,
    },
    Float {
        bits: u64,
        double: bool,
    },
    StringOf(Id),
    Lambda(Id),
    List(Vec<Id>),
    Requires {
        parameters: Vec<Id>,
        requirements: Vec<Id>,
    },
    ExpressionRequirement {
        expression: Id,
        noexcept: bool,
        constraint: Option<Id>,
    },
}

/// What a symbol was read into.
struct Tree<'s> {
    nodes: Vec<Node<'s>>,
    /// What [`Node::Forward`] stands for.
    forwards: Vec<(usize, Option<Id>)>,
}
