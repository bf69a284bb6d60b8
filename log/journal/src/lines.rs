//! How lines are written: comma-separated values (RFC 4180), one JSON object a line, or chunks of finished records.

use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use logdur_system::text::{escaped, shell_word};

use crate::columns::{COLUMNS, Cell, Row};
use crate::compare::Comparison;
use crate::packed;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Format {
    /// Comma-separated values with a header line.
    Csv = 0,
    /// One JSON object a line.
    Json = 1,
    /// Comma-separated values with an apostrophe before texts that spreadsheets would take for formulas.
    CsvSafe = 2,
    /// [Chunks](crate::packed) of finished records. A line that is no row is a chunk of its own, with the text that JSON has.
    Records = 3,
}

impl Format {
    /// Itself, or CSV in place of chunks where people look at it.
    pub fn shown(self, to_people: bool) -> Format {
        if to_people && self == Format::Records { Format::Csv } else { self }
    }
}

/// The line of a file whose texts have an apostrophe before them where [`Format::CsvSafe`] puts one.
pub const SAFE: &str = "# format: csv-safe";
/// What [`Format::CsvSafe`] puts before a text.
pub const APOSTROPHE: char = '\'';

/// True for a text that gets an apostrophe: spreadsheets take it for a formula, or it would look as if it had got one.
/// Source: OWASP, CSV injection.
fn is_guarded(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r', APOSTROPHE])
}

/// The lines of a format. Writing into memory does not fail: results of `write!` into a vector are ignored.
#[derive(Clone, Copy, Debug)]
pub struct Lines(Format);

impl Lines {
    /// The lines of a format.
    pub fn of(format: Format) -> Lines {
        Lines(format)
    }

    /// What stands at the beginning of a file.
    pub fn header(self) -> String {
        let names = || COLUMNS.iter().map(|c| c.name).collect::<Vec<_>>().join(",");
        match self.0 {
            Format::Csv => names() + "\n",
            Format::CsvSafe => format!("{}\n{SAFE}\n", names()),
            Format::Json | Format::Records => String::new(),
        }
    }

    /// A row. [`Rows`](crate::rows::Rows) writes many of them faster.
    pub fn row(self, to: &mut Vec<u8>, row: &Row<'_>) {
        for (position, column) in COLUMNS.iter().enumerate() {
            self.begin_cell(to, position);
            self.cell(to, &(column.cell)(row));
        }
        self.end_row(to);
    }

    /// What stands before the cell of a column.
    pub(crate) fn begin_cell(self, to: &mut Vec<u8>, position: usize) {
        match self.0 {
            Format::Csv | Format::CsvSafe if position == 0 => {}
            Format::Csv | Format::CsvSafe => to.push(b','),
            Format::Json | Format::Records => {
                to.extend_from_slice(if position == 0 { b"{\"" } else { b",\"" });
                to.extend_from_slice(COLUMNS[position].name.as_bytes());
                to.extend_from_slice(b"\":");
            }
        }
    }

    /// A cell.
    pub fn cell(self, to: &mut Vec<u8>, cell: &Cell<'_>) {
        match self.0 {
            Format::Csv | Format::CsvSafe => csv_cell(to, cell, self.0 == Format::CsvSafe),
            Format::Json | Format::Records => json_cell(to, cell),
        }
    }

    /// What stands behind the last cell.
    pub(crate) fn end_row(self, to: &mut Vec<u8>) {
        to.extend_from_slice(match self.0 {
            Format::Csv | Format::CsvSafe => b"\n",
            Format::Json | Format::Records => b"}\n",
        });
    }

    /// Where a line that is no row is written.
    fn line(self, to: &mut Vec<u8>) -> Said<'_> {
        let chunk = self.are_packed().then(|| packed::open_line(to));
        Said { to, chunk }
    }

    /// A line of another version, as JSON has it.
    pub(crate) fn other(self, to: &mut Vec<u8>, json: &str) {
        let mut line = self.line(to);
        _ = match self.0 {
            Format::Csv | Format::CsvSafe => writeln!(line, "# other: {json}"),
            Format::Json | Format::Records => writeln!(line, "{json}"),
        };
    }

    /// True where rows are chunks, which a [`Packer`](packed::Packer) writes.
    pub fn are_packed(self) -> bool {
        self.0 == Format::Records
    }

    /// What ends the beginning of a line, or of a chunk, that was given up.
    pub fn give_up(self) -> Vec<u8> {
        let mut end = Vec::new();
        if self.are_packed() {
            packed::mend(&mut end);
        } else {
            end.push(b'\n');
        }
        end
    }

    /// True if lines end before a byte, or chunks do.
    pub fn end_before(self, bytes: &[u8], at: usize) -> bool {
        if self.are_packed() {
            packed::begins_at(bytes, at)
        } else {
            at.checked_sub(1).and_then(|last| bytes.get(last)) == Some(&b'\n')
        }
    }

    /// How many of the first bytes are whole lines, or chunks: at most `size` if the first of them allows.
    pub fn piece(self, bytes: &[u8], size: usize) -> usize {
        if self.are_packed() {
            return packed::piece(bytes, size);
        }
        let Some(most) = bytes.get(..size) else { return bytes.len() };
        let ends = |end: Option<usize>| end.map(|at| at + 1);
        ends(most.iter().rposition(|&b| b == b'\n'))
            .or_else(|| ends(bytes.iter().position(|&b| b == b'\n')))
            .unwrap_or(bytes.len())
    }

    /// A line that says something to people.
    pub fn notice(self, to: &mut Vec<u8>, text: &str) {
        let mut line = self.line(to);
        let to = &mut *line;
        match self.0 {
            Format::Csv | Format::CsvSafe => _ = writeln!(to, "# notice: {text}"),
            Format::Json | Format::Records => {
                to.extend_from_slice(b"{\"notice\":");
                json_text(to, text);
                to.extend_from_slice(b"}\n");
            }
        }
    }

    /// A line that names a GPU, and says which device it is: `identity` is `NAME=VALUE` with blanks in between, or empty.
    pub fn agent(self, to: &mut Vec<u8>, position: usize, name: &str, product: &str, identity: &str) {
        let mut line = self.line(to);
        let to = &mut *line;
        match self.0 {
            Format::Csv | Format::CsvSafe => {
                _ = writeln!(to, "# agent {position}: {name}, {product}");
                if !identity.is_empty() {
                    _ = writeln!(to, "# device {position}: {identity}");
                }
            }
            Format::Json | Format::Records => {
                _ = write!(to, "{{\"agent\":{position},\"name\":");
                json_text(to, name);
                to.extend_from_slice(b",\"product\":");
                json_text(to, product);
                if !identity.is_empty() {
                    to.extend_from_slice(b",\"device\":");
                    json_text(to, identity);
                }
                to.extend_from_slice(b"}\n");
            }
        }
    }

    /// A line with the runtime's system clock and the time of day at one moment, in nanoseconds.
    pub fn clocks(self, to: &mut Vec<u8>, system_ns: u64, wall_ns: u64) {
        let mut line = self.line(to);
        let to = &mut *line;
        _ = match self.0 {
            Format::Csv | Format::CsvSafe => writeln!(to, "# clocks: systemNs={system_ns} wallNs={wall_ns}"),
            Format::Json | Format::Records => writeln!(to, "{{\"systemNs\":{system_ns},\"wallNs\":{wall_ns}}}"),
        };
    }

    /// A line that says which run a process belongs to.
    pub fn run(self, to: &mut Vec<u8>, pid: u32, run: &str) {
        let mut line = self.line(to);
        let to = &mut *line;
        match self.0 {
            Format::Csv | Format::CsvSafe => _ = writeln!(to, "# run: pid={pid} id={}", escaped(run)),
            Format::Json | Format::Records => {
                to.extend_from_slice(b"{\"run\":");
                json_text(to, &escaped(run));
                _ = writeln!(to, ",\"pid\":{pid}}}");
            }
        }
    }

    /// A line that says where a kernel is launched from: return addresses, the innermost first. CSV has the list as JSON has it.
    pub fn site(self, to: &mut Vec<u8>, pid: u64, number: u64, frames: &[String]) {
        let mut line = self.line(to);
        let to = &mut *line;
        let list = serde_json::json!(frames);
        _ = match self.0 {
            Format::Csv | Format::CsvSafe => writeln!(to, "# site {number}: pid={pid} frames={list}"),
            Format::Json | Format::Records => writeln!(to, "{{\"site\":{number},\"pid\":{pid},\"frames\":{list}}}"),
        };
    }

    /// A line that says where the records of a process are. CSV has the path as a word of a shell, JSON as text.
    pub fn records(self, to: &mut Vec<u8>, pid: u32, path: &Path) {
        let mut line = self.line(to);
        let to = &mut *line;
        match self.0 {
            Format::Csv | Format::CsvSafe => _ = writeln!(to, "# records: {}", shell_word(path)),
            Format::Json | Format::Records => {
                to.extend_from_slice(b"{\"records\":");
                json_text(to, &escaped(&path.to_string_lossy()));
                _ = writeln!(to, ",\"pid\":{pid}}}");
            }
        }
    }

    /// How a kernel and its replacement compare.
    pub fn comparison(self, to: &mut Vec<u8>, comparison: &Comparison, emulated: bool) {
        let mut line = self.line(to);
        let to = &mut *line;
        let Comparison { subject, replaced, counts: [n, n_replaced], ratio: compared } = comparison;
        let ([median, median_replaced], ratio, verdict) =
            (compared.medians, compared.ratio, compared.verdict(emulated));
        let (grid, workgroup) = (subject.shape.grid.map(u64::from), subject.shape.workgroup.map(u64::from));
        match self.0 {
            Format::Csv | Format::CsvSafe => {
                to.extend_from_slice(b"# compare: kernel=");
                csv_cell(to, &Cell::Text(&subject.kernel), self.0 == Format::CsvSafe);
                _ = write!(to, " agent={} grid=", subject.agent);
                decimals(to, grid, b'x');
                to.extend_from_slice(b" workgroup=");
                decimals(to, workgroup, b'x');
                _ = write!(to, " replaced={replaced} n={n}/{n_replaced} medianNs={median:.0}/{median_replaced:.0}");
                _ = write!(to, " ratio={ratio:.4} interval=");
                match compared.interval {
                    Some((low, high)) => _ = write!(to, "{low:.4}..{high:.4}"),
                    None => to.extend_from_slice(b"unknown"),
                }
                _ = writeln!(to, " verdict={verdict}");
            }
            Format::Json | Format::Records => {
                let interval = compared.interval.map(|(low, high)| [low, high]);
                let value = serde_json::json!({"compare": {
                    "kernel": subject.kernel, "agent": subject.agent, "grid": grid, "workgroup": workgroup,
                    "replaced": replaced, "n": comparison.counts, "medianNs": compared.medians, "ratio": ratio,
                    "interval": interval, "verdict": verdict,
                }});
                _ = writeln!(to, "{value}");
            }
        }
    }

    /// What became of every dispatch of a process.
    pub fn account(self, to: &mut Vec<u8>, pid: u32, counters: &[(&str, u64)]) {
        let mut line = self.line(to);
        let to = &mut *line;
        let (open, separator, close) = match self.0 {
            Format::Csv | Format::CsvSafe => (format!("# account: pid={pid}"), " ", "\n"),
            Format::Json | Format::Records => (format!("{{\"account\":{{\"pid\":{pid}"), ",", "}}\n"),
        };
        to.extend_from_slice(open.as_bytes());
        for (name, value) in counters {
            match self.0 {
                Format::Csv | Format::CsvSafe => _ = write!(to, "{separator}{name}={value}"),
                Format::Json | Format::Records => _ = write!(to, "{separator}\"{name}\":{value}"),
            }
        }
        to.extend_from_slice(close.as_bytes());
    }
}

/// A line that is no row, while it is written. In a log in records, it becomes a chunk when it ends.
struct Said<'a> {
    to: &'a mut Vec<u8>,
    /// Where its chunk begins.
    chunk: Option<usize>,
}

impl Deref for Said<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        self.to
    }
}

impl DerefMut for Said<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.to
    }
}

impl Drop for Said<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.chunk {
            packed::complete(self.to, start);
        }
    }
}

fn csv_cell(to: &mut Vec<u8>, cell: &Cell<'_>, safe: bool) {
    match cell {
        // Always quoted, as logduration does: names have commas, and quotes double.
        Cell::Text(text) => {
            to.push(b'"');
            if safe && is_guarded(text) {
                to.push(APOSTROPHE as u8);
            }
            for (i, part) in text.split('"').enumerate() {
                if i > 0 {
                    to.extend_from_slice(b"\"\"");
                }
                to.extend_from_slice(part.as_bytes());
            }
            to.push(b'"');
        }
        Cell::Number(number) => decimal(to, *number),
        Cell::Word(word) => to.extend_from_slice(word.as_bytes()),
        Cell::Nothing => {}
        Cell::Size(sizes) => decimals(to, *sizes, b'x'),
        Cell::Address(address) => hexadecimal(to, *address),
        Cell::Flags(flags) => {
            for (i, flag) in flags.names().enumerate() {
                if i > 0 {
                    to.push(b'|');
                }
                to.extend_from_slice(flag.as_bytes());
            }
        }
    }
}

fn json_cell(to: &mut Vec<u8>, cell: &Cell<'_>) {
    match cell {
        Cell::Text(text) => json_text(to, text),
        Cell::Word(word) => json_text(to, word),
        Cell::Number(number) => decimal(to, *number),
        Cell::Nothing => to.extend_from_slice(b"null"),
        Cell::Size(sizes) => {
            to.push(b'[');
            decimals(to, *sizes, b',');
            to.push(b']');
        }
        Cell::Address(address) => {
            to.push(b'"');
            hexadecimal(to, *address);
            to.push(b'"');
        }
        Cell::Flags(flags) => {
            to.push(b'[');
            for (i, flag) in flags.names().enumerate() {
                if i > 0 {
                    to.push(b',');
                }
                json_text(to, flag);
            }
            to.push(b']');
        }
    }
}

fn decimal(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn decimals(to: &mut Vec<u8>, numbers: [u64; 3], separator: u8) {
    for (i, number) in numbers.into_iter().enumerate() {
        if i > 0 {
            to.push(separator);
        }
        decimal(to, number);
    }
}

/// With `0x` before it.
fn hexadecimal(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(b"0x");
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    to.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]));
}

fn json_text(to: &mut Vec<u8>, text: &str) {
    // A text always is JSON.
    _ = serde_json::to_writer(to, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Ratio;
    use crate::names::{Kernel, Registers};
    use crate::process::Process;
    use crate::record::{Record, Shape, flag};
    use std::sync::atomic::Ordering;

    fn row(format: Format, name: &str, times: Option<(u64, u64)>) -> String {
        let record = Record::default();
        record.id.store(3, Ordering::Relaxed);
        record.kernel_object().store(0x7f00_1000, Ordering::Relaxed);
        let shape = Shape { kernel: 1, grid: [1024, 2, 1], workgroup: [256, 1, 1], scratch_bytes: 0, lds_bytes: 512 };
        if times.is_none() {
            record.add_flags(flag::INCOMPLETE);
        }
        let mut line = Vec::new();
        Lines::of(format).row(
            &mut line,
            &Row {
                kernel: name,
                symbol: "",
                known: Some(&Kernel {
                    kernarg_size: Some(24),
                    registers: Registers { vgprs: Some(32), agprs: None, sgprs: Some(18) },
                    code: "lib.so#1a2b".to_owned(),
                    ..Kernel::default()
                }),
                process: Process { pid: 17, rank: Some(2) },
                dispatch: Some(7),
                times,
                agent: 0,
                queue: 5,
                shape,
                record: &record,
                late: None,
            },
        );
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn the_header_begins_with_logdurations_columns_and_is_never_shortened() {
        let header = Lines::of(Format::Csv).header();
        let known = "kernel,dispatch,startNs,endNs,durationNs,id,agent,queue,grid,workgroup,ldsBytes,scratchBytes,kernargBytes,kernelObject,flags,replaced,kind,bytes,pid,rank,vgprs,agprs,sgprs,tid,code,symbol,site";
        assert!(header.starts_with(known), "{header}");
    }

    #[test]
    fn a_name_that_is_a_formula_gets_an_apostrophe_only_where_that_is_asked_for() {
        assert!(row(Format::Csv, "=cmd|x", None).starts_with("\"=cmd|x\","));
        for name in ["=cmd|x", "+1", "-1", "@a", "'=1"] {
            let line = row(Format::CsvSafe, name, None);
            assert!(line.starts_with(&format!("\"'{name}\",")), "{line}");
        }
        let plain = row(Format::CsvSafe, "k(int)", None);
        assert_eq!(plain, row(Format::Csv, "k(int)", None));
    }

    #[test]
    fn csv_rows_quote_names_as_rfc_4180_says() {
        let line = row(Format::Csv, "f<char, '\"'>(int)", Some((100, 150)));
        assert_eq!(
            line,
            "\"f<char, '\"\"'>(int)\",7,100,150,50,3,0,5,1024x2x1,256x1x1,512,0,24,0x7f001000,,,dispatch,,17,2,32,,18,,\"lib.so#1a2b\",,\n"
        );
    }

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        for number in [0, 1, 9, 10, 15, 16, 0xabc, 0x1000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let (mut found, mut hex) = (Vec::new(), Vec::new());
            decimal(&mut found, number);
            hexadecimal(&mut hex, number);
            assert_eq!((found, hex), (number.to_string().into_bytes(), format!("{number:#x}").into_bytes()));
        }
    }

    #[test]
    fn what_is_not_known_is_empty_and_said() {
        let line = row(Format::Csv, "k", None);
        assert_eq!(
            line,
            "\"k\",7,,,,3,0,5,1024x2x1,256x1x1,512,0,24,0x7f001000,incomplete,,dispatch,,17,2,32,,18,,\"lib.so#1a2b\",,\n"
        );
    }

    #[test]
    fn json_rows_have_the_same_columns() {
        let line = row(Format::Json, "a\"b\n", None);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let keys = COLUMNS.iter().map(|c| value.get(c.name).unwrap().clone()).collect::<Vec<_>>();
        assert_eq!((keys.len(), value.as_object().unwrap().len()), (COLUMNS.len(), COLUMNS.len()));
        assert_eq!(value["kernel"], "a\"b\n");
        assert_eq!(value["startNs"], serde_json::Value::Null);
        assert_eq!(value["grid"], serde_json::json!([1024, 2, 1]));
        assert_eq!(value["flags"], serde_json::json!(["incomplete"]));
    }

    #[test]
    fn comparisons_say_how_many_how_long_and_what_follows() {
        let shape = Shape { grid: [64, 2, 1], workgroup: [64, 1, 1], ..Shape::default() };
        let shape = crate::compare::Shape { grid: shape.grid, workgroup: shape.workgroup };
        let comparison = Comparison {
            subject: crate::compare::Subject { kernel: "f(char, \"\")".to_owned(), agent: 1, shape },
            replaced: "1a2b".to_owned(),
            counts: [30, 20],
            ratio: Ratio { medians: [2000.0, 1000.0], ratio: 0.5, interval: Some((0.4, 0.6)) },
        };
        let mut text = Vec::new();
        Lines::of(Format::Csv).comparison(&mut text, &comparison, false);
        let expected = "# compare: kernel=\"f(char, \"\"\"\")\" agent=1 grid=64x2x1 workgroup=64x1x1 replaced=1a2b n=30/20 medianNs=2000/1000 ratio=0.5000 interval=0.4000..0.6000 verdict=faster\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        let mut text = Vec::new();
        Lines::of(Format::Json).comparison(&mut text, &comparison, true);
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let compare = &value["compare"];
        assert_eq!(
            (&compare["n"], &compare["interval"]),
            (&serde_json::json!([30, 20]), &serde_json::json!([0.4, 0.6]))
        );
        assert_eq!(compare["verdict"], "emulated time, no verdict");
    }

    #[test]
    fn the_account_names_every_counter() {
        let mut text = Vec::new();
        Lines::of(Format::Csv).account(&mut text, 17, &[("seen", 3), ("logged", 2)]);
        Lines::of(Format::Json).account(&mut text, 17, &[("seen", 3), ("logged", 2)]);
        let expected = "# account: pid=17 seen=3 logged=2\n{\"account\":{\"pid\":17,\"seen\":3,\"logged\":2}}\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
