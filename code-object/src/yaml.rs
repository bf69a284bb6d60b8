//! Reads the YAML in which the metadata is written in version 2 of the ABI.
//!
//! Only what LLVM's writer makes of these documents: maps and lists by indentation, lists in brackets, and scalars on one
//! line, plain or in quotes. Anything else is an error with its place. Source: AMDGPUUsage, "Code Object V2 Metadata",
//! and the YAML 1.2 specification for quotes.

use crate::error::{Result, Unreadable};
use crate::value::{self, Value};

const WHAT: &str = "YAML metadata";
/// Real metadata has six levels.
const MAX_DEPTH: u32 = 32;

/// Reads a document. `at` is where the text is, for errors.
///
/// # Errors
/// When it is anything else than LLVM writes.
pub(crate) fn read(text: &str, at: u64) -> Result<Value<'_>> {
    let mut reader = Reader { text, pos: 0, at };
    reader.skip_empty_lines();
    if reader.rest().starts_with("---") {
        reader.pos += 3;
        reader.end_of_line()?;
    }
    reader.skip_empty_lines();
    let value = if reader.at_end() { Value::Nil } else { reader.block(reader.indent(), 0)? };
    if reader.at_end() { Ok(value) } else { Err(reader.unexpected("the document's end")) }
}

struct Reader<'a> {
    text: &'a str,
    /// At the beginning of a line, but within a scalar.
    pos: usize,
    at: u64,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn line(&self) -> &'a str {
        self.rest().split('\n').next().unwrap_or_default()
    }

    fn unexpected(&self, expected: &str) -> Unreadable {
        let found: String = self.line().chars().take(40).collect();
        Unreadable::unexpected(WHAT, self.at + self.pos as u64, expected, format!("{found:?}"))
    }

    /// True before the mark of the document's end, or where there is nothing more.
    fn at_end(&self) -> bool {
        self.rest().is_empty() || self.line().trim_end() == "..."
    }

    fn skip_empty_lines(&mut self) {
        // Texts in notes may end with zeros.
        while !self.rest().is_empty() && self.line().trim_matches(['\0', ' ', '\r']).is_empty() {
            self.pos = (self.pos + self.line().len() + 1).min(self.text.len());
        }
    }

    /// How many spaces are at the beginning of the line.
    fn indent(&self) -> usize {
        self.rest().len() - self.rest().trim_start_matches(' ').len()
    }

    /// Nothing but spaces may be left of the line.
    fn end_of_line(&mut self) -> Result<()> {
        if !self.line().trim().is_empty() {
            return Err(self.unexpected("the line's end"));
        }
        self.pos = (self.pos + self.line().len() + 1).min(self.text.len());
        self.skip_empty_lines();
        Ok(())
    }

    fn spaces(&mut self) {
        self.pos += self.indent();
    }

    fn deeper(&self, depth: u32) -> Result<u32> {
        if depth < MAX_DEPTH {
            return Ok(depth + 1);
        }
        let (at, limit) = (self.at + self.pos as u64, u64::from(MAX_DEPTH));
        Err(Unreadable::TooLarge { what: WHAT, at, limit, found: limit + 1 })
    }

    /// A map or a list whose lines begin at `indent`. Stands at the line's beginning, or behind the `- ` of an item.
    fn block(&mut self, indent: usize, depth: u32) -> Result<Value<'a>> {
        let depth = self.deeper(depth)?;
        if self.rest().trim_start_matches(' ').starts_with("- ") {
            let mut list = Vec::new();
            while self.continues(indent) && self.rest().trim_start_matches(' ').starts_with("- ") {
                self.pos += self.indent() + 1;
                let inner = indent + 1 + self.indent();
                self.spaces();
                // An item may be a map whose first key is on the same line.
                list.push(if key(self.line()).is_some() { self.map(inner, depth)? } else { self.scalar(depth)? });
            }
            return Ok(Value::List(list));
        }
        self.map(indent, depth)
    }

    fn continues(&self, indent: usize) -> bool {
        !self.at_end() && self.indent() == indent
    }

    fn map(&mut self, indent: usize, depth: u32) -> Result<Value<'a>> {
        let depth = self.deeper(depth)?;
        let start = self.at + self.pos as u64;
        let mut pairs = Vec::new();
        let mut first = true;
        while first || self.continues(indent) {
            self.spaces();
            let Some(name) = key(self.line()) else { return Err(self.unexpected("a key and a colon")) };
            self.pos += name.len() + 1;
            self.spaces();
            let value = if self.line().trim().is_empty() {
                self.end_of_line()?;
                if !self.at_end() && self.indent() > indent { self.block(self.indent(), depth)? } else { Value::Nil }
            } else {
                self.scalar(depth)?
            };
            pairs.push((Value::Text(name.into()), value));
            first = false;
        }
        if !self.at_end() && self.indent() > indent {
            return Err(self.unexpected("a line that is not indented further"));
        }
        value::map(WHAT, start, pairs)
    }

    /// What is left of a line: a list in brackets, which may go on in the next, or a scalar.
    fn scalar(&mut self, depth: u32) -> Result<Value<'a>> {
        let value = match self.rest().bytes().next() {
            Some(b'[') => self.flow(depth)?,
            Some(b'\'' | b'"') => Value::Text(self.quoted()?.into()),
            _ => {
                let line = self.line();
                self.pos += line.len();
                plain(line.trim_end())
            }
        };
        self.end_of_line()?;
        Ok(value)
    }

    fn flow(&mut self, depth: u32) -> Result<Value<'a>> {
        let depth = self.deeper(depth)?;
        self.pos += 1;
        let mut list = Vec::new();
        loop {
            self.pos += self.rest().len() - self.rest().trim_start().len();
            match self.rest().bytes().next() {
                None => return Err(self.unexpected("a bracket that closes the list")),
                Some(b']') => break,
                Some(b'[') => list.push(self.flow(depth)?),
                Some(b'\'' | b'"') => list.push(Value::Text(self.quoted()?.into())),
                Some(_) => {
                    let end = self.rest().find([',', ']', '\n']).unwrap_or(self.rest().len());
                    let text = self.rest().get(..end).unwrap_or_default();
                    self.pos += end;
                    list.push(plain(text.trim_end()));
                }
            }
            self.pos += self.rest().len() - self.rest().trim_start().len();
            match self.rest().bytes().next() {
                Some(b',') => self.pos += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("a comma or a bracket")),
            }
        }
        self.pos += 1;
        Ok(Value::List(list))
    }

    /// Text in quotes, on one line.
    fn quoted(&mut self) -> Result<String> {
        let mut chars = self.rest().char_indices();
        let single = chars.next().is_some_and(|(_, c)| c == '\'');
        let (mut text, mut close) = (String::new(), None);
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' if single => {
                    if !chars.as_str().starts_with('\'') {
                        close = Some(at);
                        break;
                    }
                    chars.next();
                    text.push('\'');
                }
                '"' if !single => {
                    close = Some(at);
                    break;
                }
                '\\' if !single => match escape(&mut chars) {
                    Some(c) => text.push(c),
                    None => return Err(self.unexpected("an escape sequence of YAML")),
                },
                '\n' => break,
                c => text.push(c),
            }
        }
        let Some(close) = close else { return Err(self.unexpected("a quote that closes the text")) };
        self.pos += close + 1;
        Ok(text)
    }
}

/// What is behind a backslash. Source: the YAML 1.2 specification, "Escaped Characters".
fn escape(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    fn code(chars: &mut std::str::CharIndices<'_>, digits: usize) -> Option<char> {
        let code = u32::from_str_radix(chars.as_str().get(..digits)?, 16).ok()?;
        chars.nth(digits.checked_sub(1)?)?;
        char::from_u32(code)
    }
    Some(match chars.next()?.1 {
        '0' => '\0',
        'a' => '\x07',
        'b' => '\x08',
        't' => '\t',
        'n' => '\n',
        'v' => '\x0b',
        'f' => '\x0c',
        'r' => '\r',
        'e' => '\x1b',
        c @ ('"' | '/' | '\\' | ' ') => c,
        'x' => code(chars, 2)?,
        'u' => code(chars, 4)?,
        'U' => code(chars, 8)?,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}

/// The key at the beginning of a line: a word, and a colon behind it.
fn key(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(':')?;
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (word && (rest.is_empty() || rest.starts_with([' ', '\r']))).then_some(name)
}

/// A scalar without quotes: LLVM puts text into quotes that looks like anything else.
fn plain(text: &str) -> Value<'_> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        if let Ok(number) = text.parse() {
            return Value::Unsigned(number);
        }
        if let Ok(number) = text.parse() {
            return Value::Signed(number);
        }
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => Value::Text(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value<'_> {
        Value::Text(text.into())
    }

    #[test]
    fn maps_lists_and_scalars_are_read_as_llvm_writes_them() {
        let document = "---\nVersion:         [ 1, 0 ]\nPrintf:\n  - '1:1:4:it''s %d\\n'\n  - \"tab\\t\\x41 \\u00e9\"\nKernels:\n  \
                        - Name:            n\n    Args:\n      - Size:            8\n        IsConst:         true\n      - \
                        Size:            -4\n    Attrs:\n      Hint: [ 1,\n        '2', [ ] ]\n  - Name:            \
                        'a: b'\nLast:            \n...\n";
        let value = read(document, 0).unwrap();
        assert_eq!(value.get("Version"), Some(&Value::List(vec![Value::Unsigned(1), Value::Unsigned(0)])));
        let printf = Value::List(vec![text("1:1:4:it's %d\\n"), text("tab\tA é")]);
        assert_eq!(value.get("Printf"), Some(&printf));
        let kernels = value.get("Kernels").and_then(Value::as_list).unwrap();
        assert_eq!(kernels[0].get("Name"), Some(&text("n")));
        let args = kernels[0].get("Args").and_then(Value::as_list).unwrap();
        assert_eq!((args[0].get("IsConst"), args[1].get("Size")), (Some(&Value::Bool(true)), Some(&Value::Signed(-4))));
        let hint = Value::List(vec![Value::Unsigned(1), text("2"), Value::List(vec![])]);
        assert_eq!(kernels[0].get("Attrs").and_then(|a| a.get("Hint")), Some(&hint));
        assert_eq!(kernels[1].get("Name"), Some(&text("a: b")));
        assert_eq!(value.get("Last"), Some(&Value::Nil));
    }

    #[test]
    fn what_llvm_does_not_write_is_refused_with_its_place() {
        let said = |text: &str| read(text, 0x10).unwrap_err().to_string();
        assert_eq!(said("---\nKernels\n"), r#"YAML metadata at 0x14: expected a key and a colon, found "Kernels""#);
        assert!(said("A: 'b\n").contains("at 0x13: expected a quote that closes the text"));
        assert!(said("A: 'b' c\n").contains("at 0x16: expected the line's end"));
        assert!(said("A: [ 1, 2\n").contains("expected a comma or a bracket"));
        assert!(said("A: \"\\q\"\n").contains("expected an escape sequence"));
        assert!(said("A: 1\n  B: 2\n").contains("expected a line that is not indented further"));
        assert!(said("A: 1\nA: 2\n").contains(r#"found "A" twice"#));
        assert!(said("A:\n  B: 1\n C: 2\n").contains("not indented further"));
        assert!(said(&"A:\n".repeat(2)).contains("twice"));
        let mut deep = String::new();
        for depth in 0..100 {
            deep += &format!("{}A:\n", " ".repeat(depth));
        }
        assert!(said(&deep).contains("expected at most 32, found 33"));
        assert!(said(&format!("A: {}", "[".repeat(100_000))).contains("expected at most 32, found 33"));
    }
}
