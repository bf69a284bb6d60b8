//! What rows of copies are called.

/// A side of a copy: the position of a GPU, or `None` for the host.
pub type Side = Option<usize>;

const HOST: &str = "host";
const GPU: &str = "GPU ";

/// The name of copies from somewhere to somewhere.
pub fn name(from: Side, to: Side) -> String {
    let side = |side: Side| side.map_or(HOST.to_owned(), |gpu| format!("{GPU}{gpu}"));
    match (from, to) {
        (Some(gpu), Some(same)) if gpu == same => format!("copy within {}", side(to)),
        _ => format!("copy from {} to {}", side(from), side(to)),
    }
}

/// The sides of copies of a name; `None` if no copies have it.
pub fn sides(name: &str) -> Option<(Side, Side)> {
    let side = |text: &str| match text {
        HOST => Some(None),
        gpu => Some(Some(gpu.strip_prefix(GPU)?.parse().ok()?)),
    };
    if let Some(both) = name.strip_prefix("copy within ") {
        return Some((side(both)?, side(both)?));
    }
    let (from, to) = name.strip_prefix("copy from ")?.split_once(" to ")?;
    Some((side(from)?, side(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_named_by_its_sides() {
        let all = [(None, Some(0)), (Some(1), None), (Some(0), Some(1)), (Some(2), Some(2)), (None, None)];
        let expected = [
            "copy from host to GPU 0",
            "copy from GPU 1 to host",
            "copy from GPU 0 to GPU 1",
            "copy within GPU 2",
            "copy from host to host",
        ];
        assert_eq!(all.map(|(from, to)| name(from, to)), expected);
        assert_eq!(expected.map(sides), all.map(Some));
        assert_eq!(["copy from host", "copy from GPU x to host", "kernel"].map(sides), [None; 3]);
    }
}
