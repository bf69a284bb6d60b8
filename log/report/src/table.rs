//! The rows of logs in one log, in the order in which they began.

use std::io::{self, BufRead, Write};

use logdur_journal::columns::COLUMNS;
use logdur_journal::lines::{Format, Lines};

use crate::columns::Rows;
use crate::rows::{Line, Log, ReadError};

/// The names of the columns.
const NAMES: [&str; COLUMNS.len()] = {
    let mut names = [""; COLUMNS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = COLUMNS[at].name;
        at += 1;
    }
    names
};

/// Rows that are put in order.
#[derive(Default)]
pub struct Table {
    /// When each row begins, and its line.
    lines: Vec<(u64, Vec<u8>)>,
    /// Lines that say where kernels are launched from.
    sites: Vec<u8>,
    read: Rows,
}

impl Table {
    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the log cannot be read or is none.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ReadError> {
        log.choose(&NAMES);
        loop {
            let number = log.number() + 1;
            let start = match log.next_line()? {
                None => {
                    self.read.missing = self.read.missing.saturating_add(log.missing());
                    return Ok(());
                }
                // A row without times is behind all others.
                Some(Line::Row(row)) => row.times.map_or(u64::MAX, |(start, _)| start),
                Some(Line::Site { number, pid, frames }) => {
                    Lines::of(Format::Csv).site(&mut self.sites, pid, number, &frames);
                    continue;
                }
                Some(Line::Unreadable(why)) => {
                    self.read.unreadable += 1;
                    self.read.first_unreadable.get_or_insert_with(|| format!("{name}:{number}: {why}"));
                    continue;
                }
                Some(Line::Agent { .. } | Line::Account(_) | Line::Run { .. } | Line::Clocks { .. } | Line::Other) => {
                    continue;
                }
            };
            let cells: Vec<String> = log.texts().iter().map(|text| cell(text.as_deref().unwrap_or_default())).collect();
            self.lines.push((start, cells.join(",").into_bytes()));
            self.read.rows += 1;
        }
    }

    /// Writes the rows, and says what was read. Rows that begin together stay in the order of their logs.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(mut self, to: &mut impl Write) -> io::Result<Rows> {
        self.lines.sort_by_key(|(start, _)| *start);
        writeln!(to, "{}", NAMES.join(","))?;
        to.write_all(&self.sites)?;
        for (_, line) in &self.lines {
            to.write_all(line)?;
            to.write_all(b"\n")?;
        }
        to.flush()?;
        Ok(self.read)
    }
}

/// A cell as CSV has it. Source: RFC 4180.
fn cell(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(rows: &str) -> String {
        format!("kernel,startNs,endNs,id,kind\n{rows}# account: pid=7 seen=3 logged=3\n")
    }

    #[test]
    fn rows_of_several_logs_are_in_the_order_of_their_starts_and_those_without_times_last() {
        let (mut table, mut bytes) = (Table::default(), Vec::new());
        let logs = [
            log("\"f<int, \"\"x\"\">\",30,40,1,dispatch\nlost,,,2,dispatch\nx,10,20,3,dispatch\n"),
            log("y,10,11,1,dispatch\nno row\nz,5,6,2,dispatch\n"),
        ];
        for (name, log) in ["a.csv", "b.csv"].iter().zip(&logs) {
            table.read(name, &mut Log::new(log.as_bytes())).unwrap();
        }
        let read = table.write(&mut bytes).unwrap();
        assert_eq!((read.rows, read.unreadable), (5, 1));
        let mut again = Log::new(bytes.as_slice());
        let mut found = Vec::new();
        while let Some(line) = again.next_line().unwrap() {
            if let Line::Row(row) = line {
                found.push((row.kernel.into_owned(), row.times));
            }
        }
        let expected = [
            ("z", Some((5, 6))),
            ("x", Some((10, 20))),
            ("y", Some((10, 11))),
            ("f<int, \"x\">", Some((30, 40))),
            ("lost", None),
        ];
        assert_eq!(found, expected.map(|(name, times)| (name.to_owned(), times)));
    }
}
