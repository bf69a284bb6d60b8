//! Words, signs and texts of Rust, as far as it takes to find comparisons.

/// A token and its line.
pub(super) struct Token {
    pub(super) line: usize,
    kind: Kind,
}

enum Kind {
    Word(String),
    Sign(String),
    Text(String),
}

impl Token {
    /// True for a word or sign that is written so.
    pub(super) fn is(&self, what: &str) -> bool {
        match &self.kind {
            Kind::Word(word) | Kind::Sign(word) => word == what,
            Kind::Text(_) => false,
        }
    }

    /// True for a name, keyword or number.
    pub(super) fn is_word(&self) -> bool {
        matches!(self.kind, Kind::Word(_))
    }

    /// The word; empty for others.
    pub(super) fn word(&self) -> &str {
        if let Kind::Word(word) = &self.kind { word } else { "" }
    }

    /// What is between the quotes of a string.
    pub(super) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }
}

/// Signs of two characters that matter here.
const PAIRS: [&str; 6] = ["==", "!=", "=>", "::", "..", "&&"];

/// The tokens of a source text. Comments are none.
pub(super) fn of(text: &str) -> Vec<Token> {
    let (mut rest, mut tokens, mut line) = (text, Vec::new(), 1);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let raw = rest.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
        let (length, kind) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if rest.starts_with("/*") {
            (comment(rest), None)
        } else if let Some(hashes) = raw.filter(|hashes| rest[1 + hashes..].starts_with('"')) {
            let end = format!("\"{}", "#".repeat(hashes));
            let inner = &rest[2 + hashes..];
            let size = inner.find(&end).unwrap_or(inner.len());
            (2 + hashes + size + end.len(), Some(Kind::Text(inner[..size].to_owned())))
        } else if first == '"' {
            let size = quoted(&rest[1..], '"');
            (2 + size, Some(Kind::Text(rest[1..1 + size].to_owned())))
        } else if first == '\'' {
            // A character, or the beginning of a lifetime.
            let mut behind = rest[1..].chars();
            let is_character = matches!((behind.next(), behind.next()), (Some('\\'), _) | (_, Some('\'')));
            (if is_character { 2 + quoted(&rest[1..], '\'') } else { 1 }, None)
        } else if is_word(first) {
            let size = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (size, Some(Kind::Word(rest[..size].to_owned())))
        } else if let Some(pair) = PAIRS.iter().find(|pair| rest.starts_with(**pair)) {
            (2, Some(Kind::Sign((*pair).to_owned())))
        } else {
            (first.len_utf8(), (!first.is_whitespace()).then(|| Kind::Sign(first.to_string())))
        };
        tokens.extend(kind.map(|kind| Token { line, kind }));
        line += rest.get(..length).unwrap_or(rest).matches('\n').count();
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// The length of a comment, with those that are in it.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let (step, by) = match text.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        (at, depth) = (at + step, depth + by);
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The bytes before the quote that ends a text.
fn quoted(text: &str, end: char) -> usize {
    let mut escaped = false;
    let ends = |(_, c): &(usize, char)| {
        let is_end = !escaped && *c == end;
        escaped = !escaped && *c == '\\';
        is_end
    };
    let mut characters = text.char_indices();
    characters.find(ends).map_or(text.len(), |(at, _)| at)
}

/// True where these words and signs follow each other.
pub(super) fn are(tokens: &[Token], at: usize, what: &[&str]) -> bool {
    tokens.get(at..at + what.len()).is_some_and(|found| found.iter().zip(what).all(|(token, what)| token.is(what)))
}

/// Where the bracket at a place is closed.
fn closed(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (n, token) in tokens.iter().enumerate().skip(at) {
        depth += i32::from(["(", "[", "{"].iter().any(|open| token.is(open)));
        depth -= i32::from([")", "]", "}"].iter().any(|close| token.is(close)));
        if depth == 0 {
            return Some(n);
        }
    }
    None
}

/// The tokens without items that only tests have.
pub(super) fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = vec![true; tokens.len()];
    for at in 0..tokens.len() {
        if are(&tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            let end = tokens.iter().enumerate().skip(at).find(|(_, token)| token.is("{") || token.is(";"));
            let end = end.and_then(|(n, token)| if token.is("{") { closed(&tokens, n) } else { Some(n) });
            kept[at..=end.unwrap_or(tokens.len() - 1)].fill(false);
        }
    }
    tokens.into_iter().zip(kept).filter_map(|(token, kept)| kept.then_some(token)).collect()
}

/// What a `match` at a place looks at, and the patterns of its arms, each with its guard.
pub(super) fn arms(tokens: &[Token], at: usize) -> Option<(&[Token], Vec<&[Token]>)> {
    let mut start = at + 1;
    while !tokens.get(start)?.is("{") {
        start = if tokens[start].is("(") || tokens[start].is("[") { closed(tokens, start)? } else { start } + 1;
    }
    let (end, mut arms, mut from) = (closed(tokens, start)?, Vec::new(), start + 1);
    while from < end {
        let mut to = from;
        while !tokens.get(to)?.is("=>") {
            to = if ["(", "[", "{"].iter().any(|open| tokens[to].is(open)) { closed(tokens, to)? } else { to } + 1;
        }
        arms.push(&tokens[from..to]);
        let mut body = to + 1;
        let is_block = tokens.get(body)?.is("{");
        while body < end && !tokens[body].is(",") {
            body =
                if ["(", "[", "{"].iter().any(|open| tokens[body].is(open)) { closed(tokens, body)? } else { body } + 1;
            if is_block && !tokens[body].is(".") {
                break;
            }
        }
        from = if tokens[body].is(",") { body + 1 } else { body };
    }
    Some((&tokens[at + 1..start], arms))
}
