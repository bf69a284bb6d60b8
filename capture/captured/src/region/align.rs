//! Which dispatches of two sequences are the same, by the names of their kernels.

use std::collections::HashMap;
use std::hash::Hash;

/// The most pairs of places that are compared; of longer sequences, what they begin and end with is aligned, and what is once in both.
const MOST: usize = 64 << 20;

/// Pairs of places in two sequences that have the same name, in their order: as many as there can be.
pub fn align<T: Eq + Hash>(ours: &[T], theirs: &[T]) -> Vec<(usize, usize)> {
    let first = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let rest = ours.len().min(theirs.len()) - first;
    let last = ours.iter().rev().zip(theirs.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let middle = |all: &[T]| first..all.len() - last;
    let (our_middle, their_middle) = (middle(ours), middle(theirs));
    let mut pairs: Vec<(usize, usize)> = (0..first).map(|at| (at, at)).collect();
    let inner =
        longest(ours.get(our_middle.clone()).unwrap_or_default(), theirs.get(their_middle.clone()).unwrap_or_default());
    pairs.extend(inner.into_iter().map(|(a, b)| (a + first, b + first)));
    pairs.extend((0..last).map(|at| (our_middle.end + at, their_middle.end + at)));
    pairs
}

/// A longest common subsequence (Wagner and Fischer 1974).
fn longest<T: Eq + Hash>(ours: &[T], theirs: &[T]) -> Vec<(usize, usize)> {
    if ours.len().saturating_mul(theirs.len()) > MOST {
        return unique(ours, theirs);
    }
    let width = theirs.len() + 1;
    // How many pairs the rests behind two places have.
    let mut lengths = vec![0u32; (ours.len() + 1) * width];
    let at = |lengths: &[u32], a: usize, b: usize| lengths.get(a * width + b).copied().unwrap_or_default();
    for (a, our) in ours.iter().enumerate().rev() {
        for (b, their) in theirs.iter().enumerate().rev() {
            let length = if our == their {
                at(&lengths, a + 1, b + 1) + 1
            } else {
                at(&lengths, a + 1, b).max(at(&lengths, a, b + 1))
            };
            if let Some(to) = lengths.get_mut(a * width + b) {
                *to = length;
            }
        }
    }
    let (mut a, mut b, mut pairs) = (0, 0, Vec::new());
    while let (Some(our), Some(their)) = (ours.get(a), theirs.get(b)) {
        if our == their {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if at(&lengths, a + 1, b) >= at(&lengths, a, b + 1) {
            a += 1;
        } else {
            b += 1;
        }
    }
    pairs
}

/// What is once in both, as far as it is in the same order.
fn unique<T: Eq + Hash>(ours: &[T], theirs: &[T]) -> Vec<(usize, usize)> {
    let mut places = HashMap::<&T, [Vec<usize>; 2]>::new();
    for (side, all) in [ours, theirs].into_iter().enumerate() {
        for (at, name) in all.iter().enumerate() {
            let [of_ours, of_theirs] = places.entry(name).or_default();
            if side == 0 { of_ours.push(at) } else { of_theirs.push(at) }
        }
    }
    let once = places.into_values().filter_map(|places| match places {
        [ours, theirs] => Some((*ours.first()?, *theirs.first()?)).filter(|_| ours.len() == 1 && theirs.len() == 1),
    });
    let mut pairs: Vec<(usize, usize)> = once.collect();
    pairs.sort_unstable();
    let mut last = None;
    pairs.retain(|(_, b)| {
        let is_next = last.is_none_or(|last| *b > last);
        if is_next {
            last = Some(*b);
        }
        is_next
    });
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_sequence_has_more_is_passed_over() {
        let of = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(align(&of("abc"), &of("abc")), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(align(&of("abxcd"), &of("abcd")), [(0, 0), (1, 1), (3, 2), (4, 3)]);
        assert_eq!(align(&of("aab"), &of("ab")), [(0, 0), (2, 1)]);
        assert_eq!(align(&of("xyz"), &of("")), []);
        assert_eq!(align(&of("aqbwc"), &of("a1b2c")), [(0, 0), (2, 2), (4, 4)]);
        let pairs = unique(&of("abcad"), &of("dbca"));
        assert_eq!(pairs, [(1, 1), (2, 2)]);
    }
}
