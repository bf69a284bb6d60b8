//! One page of HTML that needs no network: what rows of logs come to, searches for configurations, and verifications.
//!
//! The page has its data as JSON, and a script that shows it. Data of many rows is made smaller, which the page says.

mod kernels;
mod pieces;
mod search;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::rows::{Log, ReadError};
use crate::summary::{By, Summary};
use crate::timeline::{Owner, Timeline, Track};

pub use search::SearchError;

/// Gaps that the page lists.
const GAPS: usize = 50;

/// What a page is made of.
pub struct Page {
    sources: Vec<String>,
    summary: Summary,
    timeline: Timeline,
    searches: Vec<Value>,
    verified: Vec<Value>,
    captures: Vec<Value>,
    problems: Vec<String>,
}

impl Default for Page {
    fn default() -> Page {
        Page {
            sources: Vec::new(),
            summary: Summary::new(By::Kernel),
            timeline: Timeline::default(),
            searches: Vec::new(),
            verified: Vec::new(),
            captures: Vec::new(),
            problems: Vec::new(),
        }
    }
}

impl Page {
    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the file cannot be read, or is no log.
    pub fn read_log<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), ReadError> {
        self.sources.push(name.to_owned());
        let number = self.timeline.begin(name);
        let Page { summary, timeline, .. } = self;
        summary.read(name, log, |row, gpu| timeline.add(number, row, gpu))?;
        if log.missing() > 0 {
            let missing = log.missing();
            self.problems
                .push(format!("{name}: {missing} rows are missing that were written, as the accounts in it say"));
        }
        if log.runs() > 1 {
            self.problems.push(format!("{name}: {} runs in this log, taken together", log.runs()));
        }
        Ok(())
    }

    /// Adds a search: the text of its `trials.jsonl`.
    ///
    /// # Errors
    /// When it is none.
    pub fn add_search(&mut self, name: &str, text: &str) -> Result<(), SearchError> {
        self.sources.push(name.to_owned());
        let (search, unreadable) = search::read(name, text)?;
        if unreadable > 0 {
            self.problems.push(format!("{name}: {unreadable} lines are no trials"));
        }
        self.searches.push(search);
        Ok(())
    }

    /// Adds what `verify --json` printed: an object for each dispatch.
    pub fn add_verification(&mut self, name: &str, objects: &[Value]) {
        self.sources.push(name.to_owned());
        self.verified.extend(objects.iter().map(search::verified));
    }

    /// Adds what `info --json` prints of a capture.
    pub fn add_capture(&mut self, name: &str, described: &Value) {
        self.sources.push(name.to_owned());
        let keys = ["sessions", "agents", "dispatches", "notes", "finished", "problems", "lost_dispatches"];
        let mut capture: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), described[*key].clone())).collect();
        capture.insert("name".to_owned(), name.into());
        self.captures.push(capture.into());
    }

    /// Writes the page; says how many rows are in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(self, to: &mut impl Write) -> io::Result<u64> {
        let Page { sources, summary, mut timeline, searches, verified, captures, mut problems } = self;
        timeline.gpus = summary.gpus().clone();
        let totals = summary.totals();
        let rows = &totals.rows;
        if let Some(first) = &rows.first_unreadable {
            problems.push(format!("{} lines are no rows; the first: {first}", rows.unreadable));
        }
        if rows.without_times + rows.reversed > 0 {
            problems.push(format!(
                "{} of {} rows have no times, {} end before they start: they count as calls only",
                rows.without_times, rows.rows, rows.reversed
            ));
        }
        if rows.missing > 0 {
            problems
                .push(format!("{} rows are missing that were written, as the accounts of the logs say", rows.missing));
        }
        let filtered = totals.accounts.get("filtered").copied().unwrap_or(0);
        if filtered > 0 {
            problems.push(format!("{filtered} dispatches are not in the logs: a filter kept them out"));
        }
        let emulated = totals.gpus.iter().any(|gpu| gpu.name.ends_with("(emulated)"));
        if emulated {
            problems.push("Times are of an emulated GPU, and say nothing about hardware.".to_owned());
        }
        let tracks = timeline.tracks();
        let first =
            tracks.iter().filter_map(|track| track.slices.first()).map(|slice| slice.times.0).min().unwrap_or(0);
        let data = json!({
            "sources": sources,
            "problems": problems,
            "rows": rows.rows,
            "gpus": totals.gpus,
            "kernels": kernels::of(&totals.groups, &timeline, &tracks, first, emulated),
            "names": timeline.kernels,
            "timeline": pieces::of(&timeline, &tracks, first),
            "gaps": gaps(&timeline, &tracks, first),
            "copies": totals.copies,
            "ranges": totals.ranges,
            "captures": captures,
            "searches": searches,
            "verified": verified,
        });
        // Nothing in a script element ends it.
        let data = data.to_string().replace('<', "\\u003c");
        let parts =
            [("{css}", include_str!("page.css")), ("{data}", data.as_str()), ("{script}", include_str!("page.js"))];
        let mut rest = include_str!("page.html");
        for (mark, part) in parts {
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            to.write_all(before.as_bytes())?;
            to.write_all(part.as_bytes())?;
            rest = after;
        }
        to.write_all(rest.as_bytes())?;
        Ok(rows.rows)
    }
}

/// The longest times in which no kernel ran on a GPU, between two that did.
fn gaps(timeline: &Timeline, tracks: &[Track], first: u64) -> Vec<Value> {
    let mut gpus: BTreeMap<(usize, Owner), Vec<&Track>> = BTreeMap::new();
    for track in tracks.iter().filter(|track| track.is_of_queue()) {
        gpus.entry((track.log, track.owner)).or_default().push(track);
    }
    let mut gaps: Vec<(u64, u64, String)> = Vec::new();
    for of_gpu in gpus.values() {
        let Some(name) = of_gpu.first().map(|track| timeline.owner_name(track)) else { continue };
        let mut times: Vec<(u64, u64)> =
            of_gpu.iter().flat_map(|track| &track.slices).map(|slice| slice.times).collect();
        times.sort_unstable();
        let mut end = times.first().map_or(0, |(start, _)| *start);
        for (start, next_end) in times {
            if start > end {
                gaps.push((start - end, end, name.clone()));
            }
            end = end.max(next_end);
        }
    }
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    gaps.truncate(GAPS);
    let gap =
        |(length, start, gpu): (u64, u64, String)| json!({ "lengthNs": length, "startNs": start - first, "gpu": gpu });
    gaps.into_iter().map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(page: Page) -> Value {
        let mut text = Vec::new();
        page.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (_, from) = text.split_once("id=\"data\">").unwrap();
        serde_json::from_str(from.split_once("</script>").unwrap().0).unwrap()
    }

    fn log(count: u64, name: &str) -> String {
        let mut text = "kernel,dispatch,startNs,endNs,agent,queue,replaced\n# agent 0: gfx90a, MI210\n".to_owned();
        for i in 0..count {
            let replaced = if i % 2 == 0 { "" } else { "ab" };
            let length = if i % 2 == 0 { 400 + i % 7 } else { 200 + i % 5 };
            text += &format!(
                "\"{name}\",{},{},{},0,{},{replaced}\n",
                i * 1000,
                i * 1000 + 10,
                i * 1000 + 10 + length,
                i % 3
            );
        }
        text
    }

    fn page(text: &str) -> Page {
        let mut page = Page::default();
        page.read_log("log.csv", &mut Log::new(text.as_bytes())).unwrap();
        page
    }

    #[test]
    fn a_swap_is_compared_and_a_name_cannot_leave_the_data() {
        let name = "f</script><script>alert(1)</script>";
        let data = data(page(&log(200, name)));
        let kernel = &data["kernels"][0];
        assert_eq!((&kernel["name"], &kernel["calls"], &kernel["replaced"]), (&name.into(), &200.into(), &100.into()));
        assert_eq!((&kernel["swap"]["counts"], &kernel["swap"]["verdict"]), (&json!([100, 100]), &"faster".into()));
        let counts =
            |key: &str| kernel["histogram"][key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
        assert_eq!((counts("own"), counts("other")), (100, 100));
        assert_eq!(data["gaps"][0]["lengthNs"], 800);
    }

    #[test]
    fn many_rows_are_fewer_pieces_that_count_all_of_them() {
        let count = 100_000;
        let mut text = Vec::new();
        page(&log(count, "f")).write(&mut text).unwrap();
        assert!(text.len() < 2 << 20, "{} bytes", text.len());
        let data = data(page(&log(count, "f")));
        let timeline = &data["timeline"];
        let numbers = |track: &Value| -> Vec<u64> {
            track["slices"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
        };
        let all: Vec<Vec<u64>> = timeline["tracks"].as_array().unwrap().iter().map(numbers).collect();
        let counted: u64 = all.iter().flat_map(|track| track.chunks_exact(5)).map(|piece| piece[3]).sum();
        assert_eq!((counted, &timeline["slices"]), (count, &count.into()));
        let busy: u64 = all.iter().flat_map(|track| track.chunks_exact(5)).map(|piece| piece[4]).sum();
        assert_eq!(data["kernels"][0]["totalNs"], busy);
        assert!(timeline["pieces"].as_u64().unwrap() <= 20_000 + 3);
    }

    #[test]
    fn a_search_has_its_best_and_each_reason() {
        let text = r#"{"capture":"a.ldcap","dispatch":7,"kernel":"ab","options":"cd","sources":[]}
{"round":0,"config":{"number":0,"values":[]},"outcome":{"result":"measured","gpu_ns":[900,1000,1100]}}
{"round":0,"config":{"number":1,"values":[["n","64"]]},"outcome":{"result":"measured","gpu_ns":[500]}}
{"round":1,"config":{"number":1,"values":[["n","64"]]},"outcome":{"result":"measured","gpu_ns":[700]}}
{"round":0,"config":{"number":2,"values":[["n","128"]]},"outcome":{"result":"mismatch","text":"out differs"}}
torn"#;
        let mut page = Page::default();
        page.add_search("out", text).unwrap();
        let data = data(page);
        let search = &data["searches"][0];
        assert_eq!((&search["best"], &search["trials"][1]["medianNs"]), (&1.into(), &600.0.into()));
        assert_eq!(
            (&search["trials"][2]["reason"], &search["trials"][2]["medianNs"]),
            (&"mismatch: out differs".into(), &Value::Null)
        );
        assert_eq!(data["problems"][0], "out: 1 lines are no trials");
        assert!(Page::default().add_search("log", "kernel,dispatch\n").is_err());
    }
}
