//! Whole numbers, computed from parameters: `{tile} * 2`, `({grid_x} + 63) / 64 * 64`.

use std::fmt;
use std::str::FromStr;

/// How deep parentheses may be nested.
const DEEPEST: usize = 64;

/// An expression of whole numbers, `{NAME}`s, `+`, `-`, `*`, `/` and parentheses. `/` has to leave no remainder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Number(i64),
    Name(String),
    Two(Box<Node>, Operator, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    /// Its value, with the values of names.
    ///
    /// # Errors
    /// When a name has no value or one that is no whole number, a division leaves a remainder, or a number gets too large.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<String>) -> Result<i64, String> {
        self.root.value(of).map_err(|error| format!("{self}: {error}"))
    }

    /// The names in it.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.names(&mut names);
        names
    }
}

impl Node {
    fn value(&self, of: &dyn Fn(&str) -> Option<String>) -> Result<i64, String> {
        match self {
            Node::Number(number) => Ok(*number),
            Node::Name(name) => {
                let value = of(name).ok_or_else(|| format!("expected a value of {{{name}}}, found none"))?;
                value.trim().parse().map_err(|_| format!("expected {{{name}}} to be a whole number, found {value:?}"))
            }
            Node::Two(left, operator, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                let (sign, result) = match operator {
                    Operator::Add => ('+', left.checked_add(right)),
                    Operator::Subtract => ('-', left.checked_sub(right)),
                    Operator::Multiply => ('*', left.checked_mul(right)),
                    Operator::Divide => match left.checked_rem(right) {
                        Some(0) => ('/', left.checked_div(right)),
                        Some(_) => return Err(format!("{left} / {right} leaves a remainder")),
                        None => return Err(format!("{left} / {right} has no value")),
                    },
                };
                result.ok_or_else(|| format!("{left} {sign} {right} is too large"))
            }
        }
    }

    fn names<'n>(&'n self, names: &mut Vec<&'n str>) {
        match self {
            Node::Number(_) => {}
            Node::Name(name) => names.push(name),
            Node::Two(left, _, right) => {
                left.names(names);
                right.names(names);
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { rest: text, depth: 0 };
        let parsed = parser.sum().and_then(|root| match parser.peek() {
            None => Ok(root),
            Some(_) => Err("an operator".to_owned()),
        });
        match parsed {
            Ok(root) => Ok(Expression { text: text.trim().to_owned(), root }),
            Err(expected) => {
                let found = if parser.rest.is_empty() { "the end" } else { parser.rest };
                Err(format!("{text:?}: expected {expected}, found {found:?}"))
            }
        }
    }
}

/// By recursive descent; errors say what was expected, `rest` what was found.
struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn operator(&mut self, among: &[(char, Operator)]) -> Option<Operator> {
        let next = self.peek()?;
        let found = among.iter().find(|(sign, _)| *sign == next)?;
        self.rest = self.rest.strip_prefix(next)?;
        Some(found.1)
    }

    fn chain(
        &mut self,
        among: &[(char, Operator)],
        operand: fn(&mut Parser<'t>) -> Result<Node, String>,
    ) -> Result<Node, String> {
        let mut node = operand(self)?;
        while let Some(operator) = self.operator(among) {
            node = Node::Two(Box::new(node), operator, Box::new(operand(self)?));
        }
        Ok(node)
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.chain(&[('+', Operator::Add), ('-', Operator::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Result<Node, String> {
        self.chain(&[('*', Operator::Multiply), ('/', Operator::Divide)], Parser::atom)
    }

    fn atom(&mut self) -> Result<Node, String> {
        const WANTED: &str = "a number, a {name} or a parenthesis";
        match self.peek() {
            Some('(') => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(format!("at most {DEEPEST} nested parentheses"));
                }
                self.rest = self.rest.strip_prefix('(').unwrap_or_default();
                let inner = self.sum()?;
                self.peek();
                self.rest = self.rest.strip_prefix(')').ok_or_else(|| "a closing parenthesis".to_owned())?;
                self.depth -= 1;
                Ok(inner)
            }
            Some('{') => {
                let name = self.rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let (name, rest) = name.filter(|(name, _)| is_name(name)).ok_or_else(|| WANTED.to_owned())?;
                self.rest = rest;
                Ok(Node::Name(name.to_owned()))
            }
            Some(digit) if digit.is_ascii_digit() => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                let (digits, rest) = self.rest.split_at_checked(end).unwrap_or_default();
                let number = digits.parse().map_err(|_| format!("a number up to {}", i64::MAX))?;
                self.rest = rest;
                Ok(Node::Number(number))
            }
            _ => Err(WANTED.to_owned()),
        }
    }
}

/// True for what may be a parameter's name: letters, digits and underscores, and no digit first.
pub(super) fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        let of = |name: &str| match name {
            "tile" => Some("16".to_owned()),
            "flag" => Some("-O3".to_owned()),
            _ => None,
        };
        text.parse::<Expression>()?.value(&of)
    }

    #[test]
    fn values_are_those_of_arithmetic() {
        assert_eq!(value("2 + 3 * 4 - 6 / 2"), Ok(11));
        assert_eq!(value("(2+3)*4"), Ok(20));
        assert_eq!(value("64/4/2"), Ok(8));
        assert_eq!(value("10-4-3"), Ok(3));
        assert_eq!(value("{tile}*({tile}+1)"), Ok(272));
        assert_eq!(value("7-9"), Ok(-2));
    }

    #[test]
    fn what_has_no_value_says_why() {
        assert_eq!(value("{tile}/3").unwrap_err(), "{tile}/3: 16 / 3 leaves a remainder");
        assert_eq!(value("1/({tile}-16)").unwrap_err(), "1/({tile}-16): 1 / 0 has no value");
        assert_eq!(value("{flag}").unwrap_err(), "{flag}: expected {flag} to be a whole number, found \"-O3\"");
        assert_eq!(value("{nobody}").unwrap_err(), "{nobody}: expected a value of {nobody}, found none");
        assert!(value("9223372036854775807+1").unwrap_err().ends_with("is too large"));
    }

    #[test]
    fn what_is_no_expression_says_what_was_expected_and_where() {
        let error = |text: &str| text.parse::<Expression>().unwrap_err();
        assert_eq!(error("2+"), "\"2+\": expected a number, a {name} or a parenthesis, found \"the end\"");
        assert_eq!(error("(2+3"), "\"(2+3\": expected a closing parenthesis, found \"the end\"");
        assert_eq!(error("2 3"), "\"2 3\": expected an operator, found \"3\"");
        assert!(error("{a b}").contains("found \"{a b}\""));
        assert!(error("99999999999999999999").contains("a number up to"));
        assert!(error(&"(".repeat(100_000)).contains("at most 64 nested"));
    }

    #[test]
    fn its_names_are_known_before_it_has_a_value() {
        assert_eq!("{a}*({b}+1)".parse::<Expression>().unwrap().names(), ["a", "b"]);
    }
}
