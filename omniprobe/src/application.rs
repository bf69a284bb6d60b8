//! Where the application begins on a command line that has no `--`: `omniprobe -l log.csv ./app`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// What separates our options from the application.
const SEPARATOR: &str = "--";

/// The words of a command line, with `--` before the application. The application is the first word that is neither an
/// option, nor an option's value, nor a subcommand. Options of all subcommands that stand before one are put behind it. Words that
/// this cannot decide about stay as they are, for clap to complain about: unknown options, and an application among the values of an
/// option that takes any number of them.
pub(crate) fn separated(command: &mut Command, mut words: Vec<OsString>) -> Vec<OsString> {
    // Only then are the numbers of values known, and the options for help and version there.
    command.build();
    let Some(at) = first_word(command, &words) else { return words };
    if command.find_subcommand(&words[at]).is_none() {
        words.insert(at, SEPARATOR.into());
    } else if words[1..at].iter().all(|word| is_of_all(command, word.as_bytes())) {
        words[1..=at].rotate_right(1);
    }
    words
}

/// True for an option without a value that all subcommands have.
fn is_of_all(command: &Command, word: &[u8]) -> bool {
    let mut all = command.get_arguments().filter(|arg| arg.is_global_set() && !arg.get_action().takes_values());
    all.any(|arg| {
        let long = arg.get_long().is_some_and(|long| word.strip_prefix(b"--") == Some(long.as_bytes()));
        long || arg.get_short().is_some_and(|short| word == format!("-{short}").as_bytes())
    })
}

/// The position of the application, or of the subcommand.
fn first_word(command: &Command, words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        let bytes = word.as_bytes();
        let values = if bytes == SEPARATOR.as_bytes() {
            return None;
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            values_after_long(command, long)?
        } else if let Some(short) = bytes.strip_prefix(b"-").filter(|short| !short.is_empty()) {
            values_after_short(command, short)?
        } else {
            return Some(at);
        };
        at += 1;
        match values {
            Values::Number(number) => at += number,
            // Up to the next option.
            Values::Any => at += words.get(at..)?.iter().position(|word| word.as_bytes().starts_with(b"-"))?,
        }
    }
}

/// How many of the next words are values of an option.
#[derive(Clone, Copy)]
enum Values {
    Number(usize),
    Any,
}

/// How many of the next words are values of `--NAME` or `--NAME=VALUE`.
fn values_after_long(command: &Command, word: &[u8]) -> Option<Values> {
    let (name, has_value) = match word.iter().position(|&b| b == b'=') {
        Some(at) => (&word[..at], true),
        None => (word, false),
    };
    let name = std::str::from_utf8(name).ok()?;
    let is_named = |arg: &&Arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    };
    let values = values(command.get_arguments().find(is_named)?)?;
    Some(if has_value { Values::Number(0) } else { values })
}

/// The same for letters behind one dash, the last of which may have its value in the same word.
fn values_after_short(command: &Command, letters: &[u8]) -> Option<Values> {
    for (position, &letter) in letters.iter().enumerate() {
        let arg = command.get_arguments().find(|arg| arg.get_short() == Some(char::from(letter)))?;
        match values(arg)? {
            Values::Number(0) => {}
            _ if position + 1 < letters.len() => return Some(Values::Number(0)),
            values => return Some(values),
        }
    }
    Some(Values::Number(0))
}

/// How many values an option takes.
fn values(arg: &Arg) -> Option<Values> {
    if !arg.get_action().takes_values() {
        return Some(Values::Number(0));
    }
    let range = arg.get_num_args()?;
    let is_fixed = range.min_values() == range.max_values();
    Some(if is_fixed { Values::Number(range.min_values()) } else { Values::Any })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    fn after(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        separated(&mut help::command(), words).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn the_application_is_the_first_word_that_is_no_option_and_no_value_of_one() {
        for (line, expected) in [
            ("omniprobe ./app -l b", "omniprobe -- ./app -l b"),
            ("omniprobe -l a.csv ./app verify", "omniprobe -l a.csv -- ./app verify"),
            ("omniprobe -la.csv -v app", "omniprobe -la.csv -v -- app"),
            ("omniprobe -vl a.csv app", "omniprobe -vl a.csv -- app"),
            (
                "omniprobe --log-format=json --stats ./app --stats",
                "omniprobe --log-format=json --stats -- ./app --stats",
            ),
            ("omniprobe --emulate 2*gfx90a python3 -c x", "omniprobe --emulate 2*gfx90a -- python3 -c x"),
            ("omniprobe --summary --output-file a.csv ./app", "omniprobe --summary --output-file a.csv -- ./app"),
            ("omniprobe -a Heatmap ./b.so -l a.csv ./app -i", "omniprobe -a Heatmap ./b.so -l a.csv -- ./app -i"),
            ("omniprobe --analyzers=Heatmap ./app", "omniprobe --analyzers=Heatmap -- ./app"),
            ("omniprobe -a Heatmap -i ./app", "omniprobe -a Heatmap -i -- ./app"),
            ("omniprobe -iaHeatmap --stats ./app", "omniprobe -iaHeatmap --stats -- ./app"),
            ("omniprobe -q app", "omniprobe -q -- app"),
            ("omniprobe -q --agents-md verify a.ldcap", "omniprobe verify -q --agents-md a.ldcap"),
            ("omniprobe --quiet summary -q", "omniprobe summary --quiet -q"),
        ] {
            assert_eq!(after(line), expected);
        }
    }

    #[test]
    fn subcommands_separated_lines_and_what_cannot_be_decided_stay_as_they_are() {
        for line in [
            "omniprobe",
            "omniprobe verify a.ldcap --nonsense",
            "omniprobe -l a.csv -- ./app",
            "omniprobe -l a.csv summary",
            "omniprobe --nonsense ./app",
            "omniprobe -x ./app",
            "omniprobe -a Heatmap ./app",
            "omniprobe -l a.csv -a Heatmap ./app",
            "omniprobe help",
            "omniprobe --help",
            "omniprobe -l",
        ] {
            assert_eq!(after(line), line);
        }
    }
}
