//! A log as another program reads it: the rows by an independent CSV reader.

use std::collections::BTreeMap;

/// The columns that a log has at least, in order.
pub(crate) const COLUMNS: &[&str] = &[
    "kernel",
    "dispatch",
    "startNs",
    "endNs",
    "durationNs",
    "id",
    "agent",
    "queue",
    "grid",
    "workgroup",
    "ldsBytes",
    "scratchBytes",
    "kernargBytes",
    "kernelObject",
    "flags",
    "replaced",
    "kind",
    "bytes",
    "pid",
    "rank",
    "vgprs",
    "agprs",
    "sgprs",
    "tid",
    "code",
    "symbol",
    "site",
];

/// A row: the text in each column.
#[derive(Clone, Debug)]
pub(crate) struct Row(BTreeMap<String, String>);

impl Row {
    pub(crate) fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column}"))
    }

    pub(crate) fn number(&self, column: &str) -> u64 {
        let text = self.text(column);
        text.parse().unwrap_or_else(|_| panic!("{column} is {text:?} in {self:?}"))
    }

    pub(crate) fn kernel(&self) -> &str {
        self.text("kernel")
    }

    pub(crate) fn flags(&self) -> &str {
        self.text("flags")
    }
}

/// A log of one or several processes.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) rows: Vec<Row>,
    /// What stands after `# notice: `, without the notice of records that another process left: it depends on what ran before
    /// on this machine.
    pub(crate) notices: Vec<String>,
    /// What stands after `# agent `.
    pub(crate) agents: Vec<String>,
    /// The accounts in the order of the file: counters by name.
    pub(crate) accounts: Vec<BTreeMap<String, u64>>,
}

impl Log {
    /// Reads a log. It must be whole: one header, lines that are rows or comments, an account at its end.
    pub(crate) fn parse(text: &str) -> Log {
        assert!(text.ends_with('\n'), "the last line is not whole: {:?}", text.lines().last());
        let comments = |prefix: &str| text.lines().filter_map(|l| l.strip_prefix(prefix)).map(str::to_owned).collect();
        let accounts: Vec<String> = comments("# account: ");
        let accounts: Vec<BTreeMap<String, u64>> = accounts.iter().map(|line| account(line)).collect();
        assert!(text.lines().last().unwrap().starts_with("# account: "), "the last line is no account:\n{text}");
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert!(header.iter().map(String::as_str).take(COLUMNS.len()).eq(COLUMNS.iter().copied()), "{header:?}");
        let rows = reader.records().map(|record| {
            let record = record.unwrap_or_else(|e| panic!("{e} in:\n{text}"));
            let row = Row(header.iter().cloned().zip(record.iter().map(str::to_owned)).collect());
            assert_ne!(row.kernel(), "kernel", "a second header");
            row
        });
        let mut notices: Vec<String> = comments("# notice: ");
        notices.retain(|notice| !notice.starts_with("an earlier process with this number"));
        Log { rows: rows.collect(), notices, agents: comments("# agent "), accounts }
    }

    /// The account at the end, after a look that it accounts for everything and agrees with the rows.
    pub(crate) fn account(&self) -> &BTreeMap<String, u64> {
        let last = self.accounts.last().unwrap();
        let of = |name: &str| last.get(name).copied().unwrap_or(0);
        let ends = ["logged", "filtered", "unwritten", "not-submitted", "not-recorded", "outside"];
        assert_eq!(of("seen"), ends.into_iter().map(of).sum::<u64>(), "{last:?}");
        assert_eq!(of("logged"), self.rows.len() as u64, "{last:?}");
        let ids: std::collections::BTreeSet<u64> = self.rows.iter().map(|r| r.number("id")).collect();
        assert_eq!(ids.len(), self.rows.len(), "ids repeat");
        last
    }

    /// The rows of the program's own kernels: newer versions of HIP copy and fill by kernels, too.
    pub(crate) fn of_program(&self) -> Vec<&Row> {
        self.rows.iter().filter(|r| !r.kernel().starts_with("__amd_rocclr_")).collect()
    }

    /// The rows of a kernel, by the beginning of its name.
    pub(crate) fn rows_of(&self, name: &str) -> Vec<&Row> {
        self.rows.iter().filter(|r| r.kernel().starts_with(name)).collect()
    }
}

fn account(line: &str) -> BTreeMap<String, u64> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    line.split(' ').map(|word| pair(word).unwrap_or_else(|| panic!("in an account: {word:?}"))).collect()
}
