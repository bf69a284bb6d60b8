use super::super::{Overall, Stored, Tolerance, Type};
use super::*;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn report(
    element_type: Type,
    tolerance: Tolerance,
    contents: [&[f32]; 2],
    own: &[&[f32]],
    other: &[&[f32]],
) -> BufferReport {
    report_of(element_type, tolerance, contents, own, other, Stored::Words(4))
}

fn report_of(
    element_type: Type,
    tolerance: Tolerance,
    contents: [&[f32]; 2],
    own: &[&[f32]],
    other: &[&[f32]],
    stored: Stored<'_>,
) -> BufferReport {
    let [before, expected] = contents.map(bytes);
    let end = 0x1000 + before.len() as u64;
    let buffer = Buffer { name: "out".to_owned(), start: 0x1000, end, element_type, tolerance };
    let mut comparison = Comparison::new(buffer);
    let all = |runs: &[&[f32]]| runs.iter().map(|run| bytes(run)).collect::<Vec<Vec<u8>>>();
    let (own, other) = (all(own), all(other));
    let (own, other): (Vec<&[u8]>, Vec<&[u8]>) =
        (own.iter().map(Vec::as_slice).collect(), other.iter().map(Vec::as_slice).collect());
    comparison.take(&ComparedBytes {
        address: 0x1000,
        before: &before,
        expected: &expected,
        own: &own,
        other: &other,
        stored,
    });
    comparison.finish(if other.is_empty() { Judged::Own } else { Judged::Other })
}

fn own(tolerance: Tolerance, before: &[f32], expected: &[f32], runs: &[&[f32]]) -> BufferReport {
    report(Type::F32, tolerance, [before, expected], runs, &[])
}

fn overall(reports: &[BufferReport]) -> Overall {
    Overall::of(reports, Judged::Own, 0.01)
}

const EXACT: Tolerance = Tolerance { abs: None, rel: None, ulp: None };

#[test]
fn a_buffer_that_is_as_the_application_got_it_matches() {
    let matches = own(EXACT, &[0.0, 7.0], &[1.0, 7.0], &[&[1.0, 7.0]]);
    assert_eq!((matches.verdict, matches.first), (Verdict::Match, None));
    let same = own(EXACT, &[7.0], &[7.0], &[&[7.0]]);
    assert_eq!((same.verdict, same.written, same.replayed), (Verdict::Untouched, 0, 0));
    assert_eq!(overall(std::slice::from_ref(&same)), Overall::NothingWritten);
    assert_eq!(overall(&[own(EXACT, &[0.0], &[1.0], &[&[1.0]]), same]), Overall::Pass);
    assert_eq!(overall(&[]), Overall::NothingWritten, "a kernel that reaches no memory");
}

#[test]
fn a_mismatch_names_the_first_element_with_its_values() {
    let [before, after, found] = [[0.0; 4], [1.0, 2.0, 3.0, 0.0], [1.0, 2.5, 4.0, 9.0]];
    let report = own(EXACT, &before, &after, &[&found]);
    assert_eq!((report.verdict, report.mismatches, report.outside), (Verdict::NotReproduced, 2, 1));
    let first = report.first.clone().unwrap();
    assert_eq!((first.index, first.address), (1, 0x1004));
    assert_eq!((&*first.before, &*first.expected, &*first.found), ("0.0", "2.0", "2.5"));
    assert_eq!((report.max_abs, report.max_rel), (Some(9.0), Some(f64::INFINITY)));
    assert_eq!(overall(&[report]), Overall::Fail);
    let other = super::tests::report(Type::F32, EXACT, [&before, &after], &[&after], &[&found]);
    assert_eq!((other.verdict, other.mismatches, other.outside), (Verdict::Mismatch, 2, 1));
}

#[test]
fn what_is_written_elsewhere_is_told_apart_from_what_is_wrong() {
    let outside = own(EXACT, &[0.0, 5.0], &[1.0, 5.0], &[&[1.0, 6.0]]);
    assert_eq!((outside.verdict, outside.outside), (Verdict::TouchedOutside, 1));
    assert_eq!(outside.first.unwrap().index, 1);
    let both = own(EXACT, &[5.0, 0.0], &[5.0, 1.0], &[&[6.0, 2.0]]);
    assert_eq!((both.verdict, both.first.unwrap().index), (Verdict::NotReproduced, 1));
    let nothing = own(EXACT, &[0.0], &[1.0], &[&[0.0]]);
    assert_eq!(nothing.verdict, Verdict::NothingWritten);
    assert_eq!(overall(&[nothing]), Overall::Fail);
}

#[test]
fn tolerances_make_near_elements_pass_and_tell_how_far_they_are() {
    let near = Tolerance { rel: Some(0.1), ..EXACT };
    let report = own(near, &[0.0; 3], &[10.0, 2.0, f32::NAN], &[&[10.5, 2.0, -f32::NAN]]);
    assert_eq!((report.verdict, report.near, report.nans), (Verdict::WithinTol, 1, 1));
    assert_eq!((report.max_abs, report.max_rel), (Some(0.5), Some(0.05)));
    let far = own(near, &[0.0; 2], &[10.0, 1.0], &[&[12.0, f32::NAN]]);
    assert_eq!((far.verdict, far.mismatches), (Verdict::NotReproduced, 2));
}

#[test]
fn what_replays_of_the_applications_kernel_differ_in_is_masked_and_counted_and_the_rest_is_not() {
    let runs: [&[f32]; 3] = [&[1.0, 5.0], &[1.0, 6.0], &[1.0, 5.0]];
    let report = own(EXACT, &[0.0; 2], &[1.0, 4.0], &runs);
    assert_eq!((report.verdict, report.masked, report.changed), (Verdict::MatchMasked, 4, 8));
    assert_eq!(overall(std::slice::from_ref(&report)), Overall::Inconclusive);
    assert_eq!(Overall::of(&[report], Judged::Own, 0.5), Overall::Pass);
    let wrong = own(EXACT, &[0.0; 2], &[2.0, 4.0], &runs);
    assert_eq!((wrong.verdict, wrong.mismatches, wrong.masked), (Verdict::NotReproduced, 1, 4));
}

#[test]
fn what_another_kernel_differs_in_is_never_masked() {
    // Of the clock: each replay another.
    let [before, after] = [[0.0; 2], [1.0, 2.0]];
    let clock: [&[f32]; 3] = [&[7.0, 8.0], &[9.0, 10.0], &[11.0, 12.0]];
    let report = report(Type::F32, EXACT, [&before, &after], &[&after], &clock);
    assert_eq!((report.verdict, report.mismatches, report.masked), (Verdict::Mismatch, 2, 0));
}

#[test]
fn another_kernels_values_in_masked_elements_are_those_that_the_applications_computes() {
    let [before, after] = [[0.0; 2], [1.0, 4.0]];
    let runs: [&[f32]; 2] = [&[1.0, 5.0], &[1.0, 6.0]];
    let of = |of, found: f32| report(of, EXACT, [&before, &after], &runs, &[&[1.0, found]]);
    for (kind, found, verdict) in [
        (Type::F32, 5.5, Verdict::MatchMasked),
        (Type::F32, 4.0, Verdict::MatchMasked),
        (Type::F32, 9.0, Verdict::Mismatch),
        (Type::Bits(4), 6.0, Verdict::MatchMasked),
        (Type::Bits(4), 5.5, Verdict::Mismatch),
    ] {
        let report = of(kind, found);
        assert_eq!((report.verdict, report.strange), (verdict, u64::from(verdict.is_failure())), "{found}");
    }
}

#[test]
fn an_application_kernel_that_does_not_do_it_again_is_told_whatever_another_does() {
    let [before, after] = [[0.0; 2], [1.0, 4.0]];
    let not = report(Type::F32, EXACT, [&before, &after], &[&[1.0, 5.0]], &[&after]);
    assert_eq!((not.verdict, not.unreproduced), (Verdict::NotReproduced, 1));
    assert_eq!(not.first.as_ref().map(|f| &*f.found), Some("5.0"));
    assert_eq!(Overall::of(&[not], Judged::Other, 1.0), Overall::NotReproduced);
}

#[test]
fn bytes_that_the_applications_kernel_leaves_alone_may_not_be_touched() {
    // It changes the lowest byte of a word, which is another each time.
    let word = |low: u8, high: u8| [f32::from_bits(u32::from_le_bytes([low, 0, 0, high]))];
    let (before, after) = (word(0, 0), word(1, 0));
    let runs: [&[f32]; 2] = [&word(2, 0), &word(3, 0)];
    let of =
        |found: [f32; 1], stored| report_of(Type::Bits(4), EXACT, [&before, &after], &runs, &[&found], stored).verdict;
    let byte = Stored::Bytes(&[true, false, false, false]);
    for stored in [byte, Stored::Words(1)] {
        assert_eq!(
            [of(word(3, 0), stored), of(word(9, 0), stored), of(word(3, 9), stored)],
            [Verdict::MatchMasked, Verdict::Mismatch, Verdict::TouchedOutside]
        );
    }
    let input = report(Type::F32, EXACT, [&[5.0], &[5.0]], &[&[5.0]], &[&[6.0]]);
    assert_eq!(input.verdict, Verdict::TouchedOutside);
}

#[test]
fn no_tolerance_is_for_elements_that_the_applications_kernel_leaves_alone() {
    let near = Tolerance { abs: Some(1e-3), ..EXACT };
    let (before, after, found) = ([0.0, 1e-4], [5.0, 1e-4], [5.0, 0.0]);
    let of = |stored| report_of(Type::F32, near, [&before, &after], &[&after], &[&found], stored);
    for stored in [Stored::Words(4), Stored::Bytes(&[true, true, true, true, false, false, false, false])] {
        let report = of(stored);
        assert_eq!((report.verdict, report.outside, report.near), (Verdict::TouchedOutside, 1, 0));
        assert_eq!(report.first.unwrap().index, 1);
    }
    // What it stores, and was there before, may be computed with a small error.
    assert_eq!(of(Stored::Bytes(&[true; 8])).verdict, Verdict::WithinTol);
    // Of the other replays that decide a doubt, each score counts it.
    let buffer = Buffer { name: "out".to_owned(), start: 0, end: 8, element_type: Type::F32, tolerance: near };
    let [before, expected, value] = [before, after, found].map(|values| bytes(&values));
    let piece = ComparedBytes {
        address: 0,
        before: &before,
        expected: &expected,
        own: &[&expected],
        other: &[],
        stored: Stored::Words(4),
    };
    let mut score = Score::default();
    score.take(&buffer, &piece, &value);
    assert_eq!((score.count, score.excess), (1, f64::INFINITY));
}

#[test]
fn a_small_error_of_a_word_that_the_kernel_stores_is_no_write_elsewhere() {
    // 2.0 has bits in its highest byte only.
    let next = f32::from_bits(2.0f32.to_bits() + 1);
    for stored in [Stored::Words(4), Stored::Bytes(&[true; 4])] {
        let report = report_of(Type::Bits(4), EXACT, [&[0.0], &[2.0]], &[&[2.0]], &[&[next]], stored);
        assert_eq!((report.verdict, report.mismatches, report.outside), (Verdict::Mismatch, 1, 0));
    }
    // A store of bytes beside it is one.
    let bytes = report_of(Type::Bits(4), EXACT, [&[0.0], &[2.0]], &[&[2.0]], &[&[next]], Stored::Words(1));
    assert_eq!((bytes.verdict, bytes.outside), (Verdict::TouchedOutside, 1));
}

#[test]
fn bytes_after_the_last_whole_element_are_compared_too() {
    let buffer = Buffer { name: "tail".to_owned(), start: 0, end: 6, element_type: Type::F32, tolerance: EXACT };
    let mut comparison = Comparison::new(buffer);
    let (expected, own) = ([0, 0, 0, 0, 1, 2], [[0, 0, 0, 0, 1, 3].as_slice()]);
    comparison.take(&ComparedBytes {
        address: 0,
        before: &[0; 6],
        expected: &expected,
        own: &own,
        other: &[],
        stored: Stored::Words(1),
    });
    let report = comparison.finish(Judged::Own);
    let first = report.first.unwrap();
    assert_eq!((report.verdict, first.address, &*first.found), (Verdict::NotReproduced, 5, "0x03"));
}

#[test]
fn scores_count_what_others_did_not_compute() {
    let buffer = Buffer { name: "out".to_owned(), start: 0, end: 8, element_type: Type::F32, tolerance: EXACT };
    let of = |value: [f32; 2]| {
        let own = [bytes(&[1.0, 5.0]), bytes(&[1.0, 6.0])];
        let own: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        let (before, expected) = (bytes(&[0.0; 2]), bytes(&[1.0, 4.0]));
        let mut score = Score::default();
        let piece = ComparedBytes {
            address: 0,
            before: &before,
            expected: &expected,
            own: &own,
            other: &[],
            stored: Stored::Words(1),
        };
        score.take(&buffer, &piece, &bytes(&value));
        (score.count, score.excess)
    };
    assert_eq!(of([1.0, 7.0]), (0, 0.0));
    assert_eq!(of([1.0, 9.0]), (1, 3.0));
    let (count, excess) = of([2.0, 5.5]);
    assert!(count == 1 && excess > 1e6, "{excess}");
}
