//! The fewest of some things that still show something: delta debugging.

use std::collections::BTreeSet;

/// Looks for a small set of numbers below `count` for which `shows` is true, as it is of all of them. It tries halves, then smaller and
/// smaller parts alone and all without one of them, until no single number can be left out, or `shows` has no answer (`None`: there is no
/// more time). The set that was found last. (A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing input, 2002.)
///
/// # Errors
/// Those of `shows`.
pub fn fewest<E>(
    count: usize,
    mut shows: impl FnMut(&BTreeSet<usize>) -> Result<Option<bool>, E>,
) -> Result<BTreeSet<usize>, E> {
    let mut now: Vec<usize> = (0..count).collect();
    let mut pieces = 2;
    while now.len() > 1 {
        let size = now.len().div_ceil(pieces);
        let parts: Vec<BTreeSet<usize>> = now.chunks(size).map(|part| part.iter().copied().collect()).collect();
        let whole: BTreeSet<usize> = now.iter().copied().collect();
        // What is left out first is the beginning: what comes late depends on least.
        let alone = parts.iter().rev().cloned().map(|part| (part, 2));
        let without = parts.iter().map(|part| (whole.difference(part).copied().collect(), (pieces - 1).max(2)));
        let tries: Vec<(BTreeSet<usize>, usize)> =
            if parts.len() == 2 { alone.collect() } else { alone.chain(without).collect() };
        let mut smaller = None;
        for (part, next) in tries {
            match shows(&part)? {
                Some(true) => {
                    smaller = Some((part, next));
                    break;
                }
                Some(false) => {}
                None => return Ok(whole),
            }
        }
        match smaller {
            Some((part, next)) => (now, pieces) = (part.into_iter().collect(), next),
            None if size == 1 => break,
            None => pieces = (2 * pieces).min(now.len()),
        }
    }
    Ok(now.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: usize, needed: &[usize], most: usize) -> (BTreeSet<usize>, usize) {
        let mut tries = 0;
        let mut shows = |set: &BTreeSet<usize>| {
            tries += 1;
            let answer = needed.iter().all(|number| set.contains(number));
            Ok::<_, std::convert::Infallible>((tries <= most).then_some(answer))
        };
        let found = fewest(count, &mut shows).unwrap();
        (found, tries)
    }

    #[test]
    fn what_is_needed_is_found_and_nothing_else() {
        for count in [1, 2, 3, 7, 1000] {
            for first in [0, count / 3, count - 1] {
                let (set, tries) = found(count, &[first], usize::MAX);
                assert_eq!(set, BTreeSet::from([first]), "{count}");
                assert!(tries <= 2 * (count.ilog2() as usize + 1), "{tries} for {count}");
                let both = found(count, &[first, count / 2], usize::MAX).0;
                assert_eq!(both, BTreeSet::from([first, count / 2]), "{count}");
            }
        }
        assert_eq!(found(60, &[3, 17, 18, 44, 59], usize::MAX).0, BTreeSet::from([3, 17, 18, 44, 59]));
    }

    #[test]
    fn without_more_time_the_set_shows_it_and_is_as_small_as_it_was() {
        for most in 0..60 {
            let (set, _) = found(100, &[5, 80], most);
            assert!(set.contains(&5) && set.contains(&80), "{set:?}");
        }
        assert_eq!(found(100, &[5, 80], 0).0.len(), 100);
    }
}
