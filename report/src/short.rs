//! Names of kernels that fit into some columns.

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
}
