//! Operators by their codes. Source: the Itanium C++ ABI, 5.1.3.4 "Operator Encodings"; precedences: C++.

/// How strongly an expression binds, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Primary,
    Postfix,
    Unary,
    Cast,
    PointerToMember,
    Multiplicative,
    Additive,
    Shift,
    Spaceship,
    Relational,
    Equality,
    And,
    Xor,
    Or,
    AndIf,
    OrIf,
    Conditional,
    Assign,
    Comma,
    /// Behind it, nothing needs parentheses.
    Any,
}

use Precedence::*;

/// What follows the code of an operator in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Prefix,
    Postfix,
    Binary,
    Subscript,
    Member,
    New {
        array: bool,
    },
    Delete {
        array: bool,
    },
    Call,
    Conversion,
    Conditional,
    /// An operator on a type.
    OfType,
    /// An operator on an expression.
    OfExpression,
    NamedCast,
}

/// An operator.
#[derive(Clone, Copy)]
pub(super) struct Operator {
    pub(super) form: Form,
    pub(super) precedence: Precedence,
    /// As it is in an expression.
    pub(super) symbol: &'static str,
    /// As it is behind `operator`; empty where there is no function of this name.
    pub(super) name: &'static str,
}

macro_rules! operators {
    ($($code:literal $form:expr, $precedence:ident, $symbol:literal, $name:literal;)*) => {
        /// The operator with a code of two letters.
        pub(super) fn by_code(code: &str) -> Option<Operator> {
            Some(match code {
                $($code => Operator { form: $form, precedence: $precedence, symbol: $symbol, name: $name },)*
                _ => return None,
            })
        }
    };
}

operators! {
    "aN" Form::Binary, Assign, "&=", "&=";
    "aS" Form::Binary, Assign, "=", "=";
    "aa" Form::Binary, AndIf, "&&", "&&";
    "ad" Form::Prefix, Unary, "&", "&";
    "an" Form::Binary, And, "&", "&";
    "at" Form::OfType, Unary, "alignof ", "";
    "aw" Form::Prefix, Unary, "co_await", " co_await";
    "az" Form::OfExpression, Unary, "alignof ", "";
    "cc" Form::NamedCast, Postfix, "const_cast", "";
    "cl" Form::Call, Postfix, "()", "()";
    "cm" Form::Binary, Comma, ",", ",";
    "co" Form::Prefix, Unary, "~", "~";
    "cv" Form::Conversion, Cast, "", "";
    "dV" Form::Binary, Assign, "/=", "/=";
    "da" Form::Delete { array: true }, Unary, "delete[]", " delete[]";
    "dc" Form::NamedCast, Postfix, "dynamic_cast", "";
    "de" Form::Prefix, Unary, "*", "*";
    "dl" Form::Delete { array: false }, Unary, "delete", " delete";
    "ds" Form::Member, PointerToMember, ".*", ".*";
    "dt" Form::Member, Postfix, ".", ".";
    "dv" Form::Binary, Multiplicative, "/", "/";
    "eO" Form::Binary, Assign, "^=", "^=";
    "eo" Form::Binary, Xor, "^", "^";
    "eq" Form::Binary, Equality, "==", "==";
    "ge" Form::Binary, Relational, ">=", ">=";
    "gt" Form::Binary, Relational, ">", ">";
    "ix" Form::Subscript, Postfix, "[]", "[]";
    "lS" Form::Binary, Assign, "<<=", "<<=";
    "le" Form::Binary, Relational, "<=", "<=";
    "ls" Form::Binary, Shift, "<<", "<<";
    "lt" Form::Binary, Relational, "<", "<";
    "mI" Form::Binary, Assign, "-=", "-=";
    "mL" Form::Binary, Assign, "*=", "*=";
    "mi" Form::Binary, Additive, "-", "-";
    "ml" Form::Binary, Multiplicative, "*", "*";
    "mm" Form::Postfix, Postfix, "--", "--";
    "na" Form::New { array: true }, Unary, "new[]", " new[]";
    "ne" Form::Binary, Equality, "!=", "!=";
    "ng" Form::Prefix, Unary, "-", "-";
    "nt" Form::Prefix, Unary, "!", "!";
    "nw" Form::New { array: false }, Unary, "new", " new";
    "oR" Form::Binary, Assign, "|=", "|=";
    "oo" Form::Binary, OrIf, "||", "||";
    "or" Form::Binary, Or, "|", "|";
    "pL" Form::Binary, Assign, "+=", "+=";
    "pl" Form::Binary, Additive, "+", "+";
    "pm" Form::Member, PointerToMember, "->*", "->*";
    "pp" Form::Postfix, Postfix, "++", "++";
    "ps" Form::Prefix, Unary, "+", "+";
    "pt" Form::Member, Postfix, "->", "->";
    "qu" Form::Conditional, Conditional, "?", "?";
    "rM" Form::Binary, Assign, "%=", "%=";
    "rS" Form::Binary, Assign, ">>=", ">>=";
    "rc" Form::NamedCast, Postfix, "reinterpret_cast", "";
    "rm" Form::Binary, Multiplicative, "%", "%";
    "rs" Form::Binary, Shift, ">>", ">>";
    "sc" Form::NamedCast, Postfix, "static_cast", "";
    "ss" Form::Binary, Spaceship, "<=>", "<=>";
    "st" Form::OfType, Unary, "sizeof ", "";
    "sz" Form::OfExpression, Unary, "sizeof ", "";
    "te" Form::OfExpression, Postfix, "typeid ", "";
    "ti" Form::OfType, Postfix, "typeid ", "";
}
