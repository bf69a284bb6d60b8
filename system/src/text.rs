//! Texts that others made, as a part of another text: a line, a page, a cell, a word of a command line.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

/// Characters that are not seen: those for the direction of text, and those of no width. Two names that differ in them look the same.
/// Source: the Unicode Character Database, `Default_Ignorable_Code_Point`, and `Cf` and `Zl` to `Zp` of `General_Category`.
#[rustfmt::skip]
const UNSEEN: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}', '\u{34f}'..='\u{34f}', '\u{61c}'..='\u{61c}', '\u{115f}'..='\u{1160}', '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}', '\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}', '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}', '\u{feff}'..='\u{feff}', '\u{ffa0}'..='\u{ffa0}', '\u{fff0}'..='\u{fffb}', '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}', '\u{e0000}'..='\u{e0fff}',
];

/// True for a character that commands a terminal, or is not seen.
fn is_escaped(c: char) -> bool {
    c.is_control() || c >= '\u{ad}' && UNSEEN.iter().any(|range| range.contains(&c))
}

/// A text whose control characters and unseen characters are escaped: `\u001b` for the one that begins a terminal's commands. JSON reads
/// them back.
pub fn escaped(text: &str) -> String {
    if !text.chars().any(is_escaped) {
        return text.to_owned();
    }
    let mut all = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) {
            let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            all.push_str(&units);
        } else {
            all.push(c);
        }
    }
    all
}

/// A text without line breaks, and without other control characters.
pub fn one_line(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A text as a word of a command line of any POSIX shell.
pub fn sh_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A text or a path as a word of a command line, which a shell reads back to the same bytes (`$'…'` of bash, zsh and ksh if it has control
/// characters or bytes that are no text). It has no line break, no control character and no two spaces in a row.
pub fn shell_word(text: impl AsRef<OsStr>) -> String {
    let bytes = text.as_ref().as_bytes();
    let word = std::str::from_utf8(bytes).ok().map(sh_word);
    if let Some(word) = word.filter(|word| one_line(word) == *word) {
        return word;
    }
    let mut word = String::from("$'");
    let mut after_space = false;
    for &byte in bytes {
        match byte {
            b'\\' | b'\'' => word.extend(['\\', char::from(byte)]),
            b' ' if !after_space => word.push(' '),
            // An escape has three digits: another digit may follow.
            0x21..=0x7e => word.push(char::from(byte)),
            _ => word.push_str(&format!("\\{byte:03o}")),
        }
        after_space = byte == b' ' && !after_space;
    }
    word + "'"
}

/// A text in which nothing is a mark of HTML or SVG. Control characters that these have not are `U+FFFD`.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A cell of comma-separated values. Source: RFC 4180.
pub fn cell(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_word_of_a_path_as_the_same_bytes() {
        let paths: [(&[u8], &str); 8] = [
            (b"/dev/shm/logdur.1.records", "/dev/shm/logdur.1.records"),
            (b"", "''"),
            (b"it's $(x) `y`", r"'it'\''s $(x) `y`'"),
            ("m\u{fc}ll".as_bytes(), "'m\u{fc}ll'"),
            (b"a\nb\x1b[2J\t9", r"$'a\012b\033[2J\0119'"),
            (b"\xff'\\n%", r"$'\377\'\\n%'"),
            (b"two  spaces   ", r"$'two \040spaces \040 '"),
            ("p\u{202e}".as_bytes(), r"$'p\342\200\256'"),
        ];
        for (bytes, expected) in paths {
            let word = shell_word(OsStr::from_bytes(bytes));
            assert_eq!(word, expected);
            assert_eq!(one_line(&word), word, "it is as it is in a notice");
            let script = format!("printf %s {word}");
            let read = std::process::Command::new("bash").args(["-c", &script]).env("LC_ALL", "C").output().unwrap();
            assert_eq!(read.stdout, bytes, "{word}");
        }
    }

    #[test]
    fn control_characters_and_those_that_are_not_seen_are_escaped() {
        assert_eq!(escaped("a\u{1b}[2J\n# account"), "a\\u001b[2J\\u000a# account");
        assert_eq!(one_line("a\n  b\u{9b}c\u{202e}d"), "a b\\u009bc\\u202ed");
        assert_eq!(escaped("grüße"), "grüße");
        let unseen = "a\u{feff}\u{200b}\u{200c}\u{200d}\u{2060}\u{ad}b";
        assert_eq!(escaped(unseen), "a\\ufeff\\u200b\\u200c\\u200d\\u2060\\u00adb");
        // A character of the supplementary planes is two escapes, as in JSON.
        assert_eq!(escaped("\u{e0061}\u{1f600}"), "\\udb40\\udc61\u{1f600}");
    }

    #[test]
    fn no_text_is_a_mark_of_a_page() {
        assert_eq!(html("a<b>&\"\x1b"), "a&lt;b&gt;&amp;&quot;\u{fffd}");
    }

    #[test]
    fn cells_with_commas_and_quotes_stay_one_cell() {
        assert_eq!(cell("f(int, \"x\")"), "\"f(int, \"\"x\"\")\"");
        assert_eq!(cell("plain"), "plain");
    }
}
