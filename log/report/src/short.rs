//! Names of kernels that fit into some columns.

use std::collections::{BTreeMap, BTreeSet};

/// Names in at most `columns` characters each. Names that would be shown alike have what tells them apart, or a number.
pub fn all_shortened(names: &[String], columns: usize) -> Vec<String> {
    let mut shown: Vec<String> = names.iter().map(|name| shortened(name, columns)).collect();
    for attempt in [Attempt::Difference, Attempt::Number] {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, short) in shown.iter().enumerate() {
            alike.entry(short.clone()).or_default().push(at);
        }
        for (short, places) in alike {
            let whole: BTreeSet<&str> = places.iter().map(|at| names[*at].as_str()).collect();
            if whole.len() < 2 {
                continue;
            }
            let whole: Vec<&str> = whole.into_iter().collect();
            let ends = common_ends(&whole);
            for at in places {
                let number = whole.iter().position(|name| *name == names[at]).unwrap_or(0) + 1;
                shown[at] = match attempt {
                    Attempt::Difference => with_difference(&short, inner(&names[at], ends), columns),
                    Attempt::Number => fitting(&short, &format!(" #{number}"), columns),
                };
            }
        }
    }
    shown
}

/// What is added to names that would otherwise be shortened to the same text.
#[derive(Clone, Copy)]
enum Attempt {
    Difference,
    Number,
}

/// How many bytes all of several names have in common at their beginnings and at their ends, in whole words.
fn common_ends(names: &[&str]) -> (usize, usize) {
    let Some((first, others)) = names.split_first() else { return (0, 0) };
    let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
    let is_word =
        |at: usize| first.as_bytes().get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let same = |at: usize| others.iter().all(|other| other.as_bytes().get(at) == first.as_bytes().get(at));
    let mut head = (0..shortest).find(|at| !same(*at)).unwrap_or(shortest);
    while head > 0 && is_word(head - 1) || !first.is_char_boundary(head) {
        head -= 1;
    }
    let from_end = |name: &str, at: usize| name.len().checked_sub(at + 1).map(|at| name.as_bytes()[at]);
    let same = |at: usize| others.iter().all(|other| from_end(other, at) == from_end(first, at));
    let mut tail = (0..shortest - head).find(|at| !same(*at)).unwrap_or(shortest - head);
    while tail > 0 && is_word(first.len() - tail) || !first.is_char_boundary(first.len() - tail) {
        tail -= 1;
    }
    (head, tail)
}

/// What is between the ends that a name has in common with others.
fn inner(name: &str, (head, tail): (usize, usize)) -> &str {
    name.get(head..name.len() - tail).unwrap_or_default()
}

/// A shortened name with what tells it from others in place of what was left out first.
fn with_difference(short: &str, difference: &str, columns: usize) -> String {
    let (before, after) = short.split_once('…').unwrap_or((short, ""));
    let whole = format!("{before}…{difference}…{after}");
    if whole.chars().count() <= columns {
        return whole;
    }
    // The end of the difference is kept: its beginning is more often alike.
    let kept: Vec<char> = difference.chars().collect();
    let room = columns.saturating_sub(before.chars().count().min(columns / 2) + 2);
    let kept: String = kept[kept.len().saturating_sub(room)..].iter().collect();
    fitting(before, &format!("…{kept}…"), columns)
}

/// The beginning of a text, then an end.
fn fitting(text: &str, end: &str, columns: usize) -> String {
    text.chars().take(columns.saturating_sub(end.chars().count())).collect::<String>() + end
}

/// A name in at most `columns` characters: first the arguments are folded, then those of templates, then its beginning is
/// cut, since the end tells most instances apart.
pub fn shortened(name: &str, columns: usize) -> String {
    let fits = |name: &str| name.chars().count() <= columns;
    if fits(name) {
        return name.to_owned();
    }
    let mut folded = name.to_owned();
    for (brackets, which) in [(['(', ')'], Folded::Last), (['<', '>'], Folded::All)] {
        folded = fold(&folded, brackets, which);
        if fits(&folded) {
            return folded;
        }
    }
    let excess = folded.chars().count() - columns.max(1) + 1;
    std::iter::once('…').chain(folded.chars().skip(excess)).collect()
}

/// Which outermost pairs of brackets are folded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folded {
    Last,
    All,
}

/// The name with `…` for what is between brackets.
fn fold(name: &str, [open, close]: [char; 2], which: Folded) -> String {
    let mut pairs = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, letter) in name.char_indices() {
        if letter == open {
            depth += 1;
            if depth == 1 {
                start = at + 1;
            }
        } else if letter == close && depth > 0 {
            depth -= 1;
            if depth == 0 {
                pairs.push(start..at);
            }
        }
    }
    if which == Folded::Last {
        pairs.drain(..pairs.len().saturating_sub(1));
    }
    let mut folded = name.to_owned();
    for pair in pairs.into_iter().rev().filter(|pair| pair.len() > 1) {
        folded.replace_range(pair, "…");
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_first_then_those_of_templates_then_the_beginning() {
        let name = "void (anonymous namespace)::sum<float, box<int>>(float*, box<int>)";
        let shown = |columns| shortened(name, columns);
        assert_eq!(shown(66), name);
        assert_eq!(shown(60), "void (anonymous namespace)::sum<float, box<int>>(…)");
        assert_eq!(shown(40), "void (anonymous namespace)::sum<…>(…)");
        assert_eq!(shown(10), "…sum<…>(…)");
        assert_eq!((shortened("a > b", 3).as_str(), shortened("", 0).as_str()), ("… b", ""));
    }

    #[test]
    fn names_that_differ_are_shown_differently() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let gemm = names(&[
            "void gemm<float, 128, 64, true>(float const*, int)",
            "void gemm<float, 32, 64, true>(float const*, int)",
            "void gemm<float, 128, 64, true>(float const*, int)",
            "copy(int*)",
        ]);
        assert_eq!(
            all_shortened(&gemm, 25),
            ["void gemm<…128…>(…)", "void gemm<…32…>(…)", "void gemm<…128…>(…)", "copy(int*)"]
        );
        // In as little room as there is, for differences anywhere.
        for columns in [8, 12, 24, 40] {
            for difference in ["1", "22", "long_and_longer_than_any_column_has_room_for", "…", "é"] {
                let long =
                    |inner: &str| format!("void kernel<{}, {inner}, {}>(float*)", "a".repeat(30), "b".repeat(30));
                let all = [long("0"), long(difference), long("0")];
                let shown = all_shortened(&all, columns);
                assert!(shown[0] == shown[2] && shown[0] != shown[1], "{columns}: {shown:?}");
                assert!(shown.iter().all(|name| name.chars().count() <= columns), "{columns}: {shown:?}");
            }
        }
    }
}
