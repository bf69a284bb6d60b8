//! rocBLAS's own tests: `rocblas-test` reads its cases from a file of records, of which only the head and some are kept.
//!
//! Source of the layout: the file itself, and what rocBLAS checks of it when it is read (`Arguments::validate`): the word
//! `rocBLAS`, one record whose bytes are known, the word `ROCblas`, then the records.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::forms::{Programs, Test};
use super::place::InstalledSuite;

/// Before the record whose bytes are known, and after it.
const WORDS: [&[u8; 8]; 2] = [b"rocBLAS\0", b"ROCblas\0"];
/// Bytes of a record's text: the function, the name of the case, its category.
const TEXT: usize = 64;
/// The category of cases with small sizes.
const CATEGORY: &str = "quick";
/// Cases of one process, which takes half a minute to load its code.
const CASES: usize = 8;
/// Processes that the cases of one function can be of.
const PARTS: usize = 4;
/// Functions whose names end so are called with wrong arguments, and dispatch nothing.
const DISPATCHES_NOTHING: &str = "_bad_arg";

/// The name of the file in its folder.
const FILE: &str = "rocblas_gtest.data";

/// One test for each part of each function's cases.
pub(super) fn list(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let Programs::With(program, [data]) = programs else { bail!("expected a program and its file of cases") };
    let all = place.folder.join("cases");
    fs::remove_dir_all(&all).ok();
    let cases = Cases::read(&place.folder.join(data).join(FILE))?;
    let mut tests = Vec::new();
    for (function, records) in &cases.functions {
        for (part, records) in parts(records).into_iter().enumerate() {
            let name = format!("{function} {part}");
            let folder = all.join(format!("{function}.{part}"));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(FILE), [&[cases.head.as_slice()], records.as_slice()].concat().concat())?;
            // It takes the cases that are beside `/proc/self/exe`.
            let words = place.words_beside(&folder, Path::new(program))?;
            tests.push(Test { name, group: function.clone(), words, folder: place.folder.clone(), cache: None });
        }
    }
    Ok(tests)
}

/// So many cases for each part, spread over all of a function's, each in one part at most.
fn parts(records: &[Vec<u8>]) -> Vec<Vec<&[u8]>> {
    let step = records.len().div_ceil(PARTS * CASES).max(1);
    let chosen: Vec<&[u8]> = records.iter().step_by(step).map(Vec::as_slice).collect();
    let number = chosen.len().div_ceil(CASES);
    (0..number).map(|part| chosen.iter().skip(part).step_by(number).copied().collect()).collect()
}

/// What is used of a file of cases.
struct Cases {
    /// Everything before the records.
    head: Vec<u8>,
    /// Records of the category, by function, in the order of the file.
    functions: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Cases {
    fn read(file: &Path) -> Result<Cases> {
        let reader = File::open(file).with_context(|| format!("opening {}", file.display()))?;
        Cases::of(BufReader::new(reader)).with_context(|| format!("reading {}", file.display()))
    }

    fn of(mut reader: impl Read) -> Result<Cases> {
        let mut head = vec![0; WORDS[0].len()];
        reader.read_exact(&mut head)?;
        if head != WORDS[0] {
            bail!("expected {:?} at 0, found {head:?}", WORDS[0]);
        }
        while !head.ends_with(WORDS[1]) {
            let mut byte = [0];
            reader.read_exact(&mut byte).with_context(|| format!("no {:?}", WORDS[1]))?;
            head.extend(byte);
        }
        let size = head.len() - WORDS[0].len() - WORDS[1].len();
        if size < 3 * TEXT {
            bail!("expected records of {} bytes or more, found {size}", 3 * TEXT);
        }
        let mut functions: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        let mut record = vec![0; size];
        while read_record(&mut reader, &mut record)? {
            let (function, category) = (text(&record[..TEXT]), text(&record[2 * TEXT..3 * TEXT]));
            if category == CATEGORY && !function.ends_with(DISPATCHES_NOTHING) {
                functions.entry(function).or_default().push(record.clone());
            }
        }
        Ok(Cases { head, functions })
    }
}

/// False at the end of the file.
fn read_record(reader: &mut impl Read, record: &mut [u8]) -> Result<bool> {
    let mut done = 0;
    while done < record.len() {
        match reader.read(&mut record[done..])? {
            0 if done == 0 => return Ok(false),
            0 => bail!("expected a record of {} bytes, found {done}", record.len()),
            n => done += n,
        }
    }
    Ok(true)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of 200 bytes, and its number at the end.
    fn record(function: &str, category: &str, number: u8) -> Vec<u8> {
        let mut record = vec![0; 200];
        record[..function.len()].copy_from_slice(function.as_bytes());
        record[2 * TEXT..2 * TEXT + category.len()].copy_from_slice(category.as_bytes());
        record[199] = number;
        record
    }

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        [WORDS[0].as_slice(), &[7; 200], WORDS[1], &records.concat()].concat()
    }

    #[test]
    fn cases_of_the_category_are_kept_by_function_behind_the_head_of_their_file() {
        let records = [("dot", "quick"), ("dot", "nightly"), ("dot_bad_arg", "quick"), ("asum", "quick")];
        let records: Vec<_> = records.iter().zip(0..).map(|((f, c), n)| record(f, c, n)).collect();
        let whole = file(&records);
        let cases = Cases::of(whole.as_slice()).unwrap();
        assert_eq!(cases.head, whole[..216]);
        let functions: Vec<(&str, Vec<u8>)> =
            cases.functions.iter().map(|(f, all)| (f.as_str(), all.iter().map(|r| r[199]).collect())).collect();
        assert_eq!(functions, [("asum", vec![3]), ("dot", vec![0])]);
    }

    #[test]
    fn a_file_that_ends_in_a_record_or_has_no_head_is_an_error() {
        let whole = file(&[record("dot", "quick", 0)]);
        for damaged in [&whole[..whole.len() - 1], &whole[..100], &whole[1..]] {
            assert!(Cases::of(damaged).is_err());
        }
    }

    #[test]
    fn parts_are_spread_over_the_cases_and_share_none() {
        let records: Vec<_> = (0..200).map(|n| record("dot", "quick", n)).collect();
        let parts = parts(&records);
        let mut all: Vec<u8> = parts.iter().flatten().map(|r| r[199]).collect();
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((parts.len(), all.len()), (4, number));
        assert!(parts.iter().all(|part| part.len() <= CASES) && all.last() > Some(&190));
        assert_eq!(super::parts(&records[..3]).len(), 1);
    }
}
