//! Kernels by name. Different kernels of one process may share a name: those of two libraries, or of namespaces without a name. They are
//! told apart by their code objects. Kernels of different processes that share a name are one, whatever their code.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rows::Process;

/// Names of rows, by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: Vec<Named>,
    numbers: HashMap<String, Vec<usize>>,
}

/// A name with a code object.
#[derive(Debug)]
struct Named {
    name: String,
    /// As rows call it; empty if it is not known.
    code: String,
    /// Where it ran.
    processes: BTreeSet<Process>,
    last: Process,
}

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shown {
    /// The name, with the code object's in brackets where others of the process share it.
    pub(crate) name: String,
    /// The code object, there.
    pub(crate) code: Option<String>,
}

impl Names {
    /// The number of a name with a code object, which is in a row of a process.
    pub(crate) fn number(&mut self, name: &str, code: &str, process: Process) -> usize {
        let known = self.numbers.get(name).map_or(&[][..], Vec::as_slice);
        for &number in known {
            let named = &mut self.all[number];
            if named.code == code {
                if named.last != process {
                    named.last = process;
                    named.processes.insert(process);
                }
                return number;
            }
        }
        let number = self.all.len();
        let (name, code) = (name.to_owned(), code.to_owned());
        self.numbers.entry(name.clone()).or_default().push(number);
        self.all.push(Named { name, code, processes: BTreeSet::from([process]), last: process });
        number
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: usize) -> &str {
        self.all.get(number).map_or("", |named| &named.name)
    }

    /// What each number stands for. Numbers that nothing tells apart stand for the same.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let shown = |named: &Named| {
            let of_name = self.numbers.get(&named.name).map_or(&[][..], Vec::as_slice);
            let coded = || of_name.iter().filter_map(|at| self.all.get(*at)).filter(|other| !other.code.is_empty());
            if named.code.is_empty() || !are_twins(coded()) {
                return Shown { name: named.name.clone(), code: None };
            }
            let is_alone = coded().filter(|other| file(&other.code) == file(&named.code)).count() == 1;
            let label = file(&named.code).filter(|_| is_alone).unwrap_or(&named.code);
            Shown { name: format!("{} [{label}]", named.name), code: Some(named.code.clone()) }
        };
        self.all.iter().map(shown).collect()
    }
}

/// Numbers for what is shown, and for each of the former the number of what it stands for.
pub(crate) fn merged(shown: Vec<Shown>) -> (Vec<Shown>, Vec<usize>) {
    let (mut all, mut numbers) = (Vec::new(), BTreeMap::new());
    let places = shown.into_iter().map(|one| {
        *numbers.entry(one.clone()).or_insert_with(|| {
            all.push(one);
            all.len() - 1
        })
    });
    let places = places.collect();
    (all, places)
}

/// True if a process has two of them.
fn are_twins<'n>(of_name: impl Iterator<Item = &'n Named>) -> bool {
    let mut seen = BTreeSet::new();
    of_name.flat_map(|named| &named.processes).any(|process| !seen.insert(process))
}

/// The file's name of a code object's; `None` if it was loaded from memory.
fn file(code: &str) -> Option<&str> {
    code.rsplit_once('#').map(|(file, _)| file).filter(|file| !file.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_one_name_are_told_apart_only_where_a_process_has_several() {
        let process = |pid| Process { pid: Some(pid), rank: None };
        let mut names = Names::default();
        let rows = [
            ("k", "a.so#1", 1),
            ("k", "b.so#2", 1),
            ("k", "a.so#1", 2),
            ("k", "", 1),
            ("l", "a.so#1", 1),
            ("l", "a.so#3", 2),
            ("m", "c.so#4", 1),
            ("m", "c.so#5", 1),
            ("m", "#6", 1),
        ];
        let numbers: Vec<usize> =
            rows.iter().map(|(name, code, pid)| names.number(name, code, process(*pid))).collect();
        assert_eq!(numbers, [0, 1, 0, 2, 3, 4, 5, 6, 7]);
        let (shown, places) = merged(names.shown());
        let texts: Vec<&str> = shown.iter().map(|shown| shown.name.as_str()).collect();
        assert_eq!(texts, ["k [a.so]", "k [b.so]", "k", "l", "m [c.so#4]", "m [c.so#5]", "m [#6]"]);
        assert_eq!(places, [0, 1, 2, 3, 3, 4, 5, 6]);
        assert_eq!(shown[1].code.as_deref(), Some("b.so#2"));
    }
}
