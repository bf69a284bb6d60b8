//! The processes of a log: what they say they wrote against the rows that are there, and the runs that they belong to.

use std::collections::{BTreeSet, HashMap};
use std::io::BufRead;

use crate::rows::{Line, Log, ReadError};

/// What is known of the processes of a log.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    counts: HashMap<Option<u64>, Counts>,
    /// The process of the last row, and its rows that are not in `counts` yet.
    last: (Option<u64>, i64),
    missing: u64,
    runs: BTreeSet<String>,
}

/// Rows of a process number.
#[derive(Debug, Default)]
struct Counts {
    rows: i64,
    /// How many of them were there before the process began: a number can be used again.
    before: i64,
    /// How many of them were there at the last account.
    accounted: i64,
}

impl Processes {
    /// Counts a row.
    pub(crate) fn row(&mut self, pid: Option<u64>) {
        if self.last.0 != pid {
            self.settle();
            self.last.0 = pid;
        }
        self.last.1 += 1;
    }

    fn settle(&mut self) {
        let (pid, rows) = std::mem::take(&mut self.last);
        if rows > 0 {
            self.counts.entry(pid).or_default().rows += rows;
        }
    }

    /// Compares the rows so far with what their process says. A later account of a process counts from its beginning.
    pub(crate) fn account(&mut self, counters: &[(String, u64)]) {
        self.settle();
        let count = |wanted: &str| counters.iter().find(|(name, _)| name == wanted).map(|(_, count)| *count);
        let Some(logged) = count("logged").and_then(|logged| i64::try_from(logged).ok()) else { return };
        // Rows of earlier versions do not name their process.
        let is_named = |pid: &u64| self.counts.contains_key(&Some(*pid)) || !self.counts.contains_key(&None);
        let pid = count("pid").filter(is_named);
        let counts = self.counts.entry(pid).or_default();
        if counts.rows - counts.before > logged {
            counts.before = counts.accounted;
        }
        let missing = logged - (counts.rows - counts.before);
        counts.before = counts.before.min(counts.rows - logged);
        counts.accounted = counts.rows;
        self.missing = self.missing.saturating_add(u64::try_from(missing).unwrap_or(0));
    }

    /// Notes the run of a process.
    pub(crate) fn run(&mut self, id: &str) {
        if !self.runs.contains(id) {
            self.runs.insert(id.to_owned());
        }
    }

    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }
}

/// The last run of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastRun {
    /// Where its first line begins, in bytes.
    pub from: u64,
    /// Its processes.
    pub pids: Vec<u64>,
}

/// Finds the run in a log whose first process began last; `None` if the log does not say which run its processes are of.
///
/// # Errors
/// When the file cannot be read, or is no log.
pub fn last_run<R: BufRead>(log: &mut Log<R>) -> Result<Option<LastRun>, ReadError> {
    let mut runs: Vec<(String, LastRun)> = Vec::new();
    loop {
        let from = log.position();
        match log.next_line()? {
            None => return Ok(runs.pop().map(|(_, run)| run)),
            Some(Line::Run { id, pid }) => {
                let at = runs.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                    runs.push((id, LastRun { from, pids: Vec::new() }));
                    runs.len() - 1
                });
                if let Some((_, run)) = runs.get_mut(at) {
                    run.pids.push(pid);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kernel,startNs,endNs,pid\n";

    fn read(text: &str) -> (u64, usize) {
        let mut log = Log::new(text.as_bytes());
        while log.next_line().unwrap().is_some() {}
        (log.missing(), log.runs())
    }

    fn rows(pid: u64, count: usize) -> String {
        format!("\"f\",1,2,{pid}\n").repeat(count)
    }

    #[test]
    fn rows_that_an_account_has_and_the_log_has_not_are_missing() {
        let account = |pid: u64, logged: u64| format!("# account: pid={pid} seen={logged} logged={logged}\n");
        let log = |parts: &[String]| read(&(HEAD.to_owned() + &parts.concat())).0;
        assert_eq!(log(&[rows(7, 3), account(7, 3)]), 0);
        assert_eq!(log(&[rows(7, 2), account(7, 3)]), 1);
        assert_eq!(log(&[account(7, 3)]), 3, "a log that has lost every row");
        assert_eq!(log(&[rows(7, 2), rows(8, 1), rows(7, 1), account(8, 1), account(7, 3)]), 0);
        // A second account of one process counts the rows before the first one, too.
        assert_eq!(log(&[rows(7, 3), account(7, 3), rows(7, 2), account(7, 5)]), 0);
        assert_eq!(log(&[rows(7, 2), account(7, 3), rows(7, 2), account(7, 5)]), 1);
        // Another process of the same number does not.
        assert_eq!(log(&[rows(7, 3), account(7, 3), rows(7, 2), account(7, 2)]), 0);
        assert_eq!(log(&[rows(7, 5), account(7, 5), rows(7, 3), account(7, 4)]), 1);
        let old = "kernel,startNs,endNs\n\"f\",1,2\n\"f\",1,2\n# account: pid=7 logged=3\n";
        assert_eq!(read(old).0, 1);
        // A process of a later version has appended its rows.
        let both = |count| format!("{old}{HEAD}{}# account: pid=9 logged=2\n", rows(9, count));
        assert_eq!([2, 1].map(|count| read(&both(count)).0), [1, 2]);
        let json = "{\"kernel\":\"f\",\"pid\":7}\n{\"account\":{\"pid\":7,\"seen\":2,\"logged\":2}}\n";
        assert_eq!(read(json).0, 1);
    }

    #[test]
    fn the_last_run_is_the_one_whose_first_process_began_last() {
        let mut text = HEAD.to_owned();
        for (pid, id) in [(1, "a"), (2, "b"), (3, "a"), (4, "b")] {
            text += &format!("# run: pid={pid} id={id}\n{}", rows(pid, 1));
        }
        let found = last_run(&mut Log::new(text.as_bytes())).unwrap().unwrap();
        assert_eq!(
            (found.pids.as_slice(), &text[found.from as usize..][..17]),
            ([2, 4].as_slice(), "# run: pid=2 id=b")
        );
        assert_eq!(read(&text).1, 2);
        let mut only = Log::new(text.as_bytes()).of_run(found);
        let mut kept = Vec::new();
        while let Some(line) = only.next_line().unwrap() {
            if let Line::Row(row) = line {
                kept.push(row.process.pid.unwrap());
            }
        }
        assert_eq!((kept, only.runs()), (vec![2, 4], 1));
        assert_eq!(last_run(&mut Log::new("{\"run\":\"x\",\"pid\":5}\n".as_bytes())).unwrap().unwrap().pids, [5]);
        assert_eq!(last_run(&mut Log::new(HEAD.as_bytes())).unwrap(), None);
    }
}
