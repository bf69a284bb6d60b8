//! A stretch of a test: captured as a region, beside the same dispatches captured one by one, and replayed in both orders, with the runtime
//! and without.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::emulated::{CAPTURE_BYTES, FINE, Limits, Ran, TIMED_OUT, last_line, limited, run};
use super::place::InstalledSuite;

/// Most dispatches of a stretch.
const MOST: usize = 100;

/// Which stretch of a suite's tests is captured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stretch {
    /// None.
    None,
    /// From a third of the dispatches on, so many that each test has them soon.
    Middle,
    /// The last round of a program that repeats itself: as many dispatches as lie between the last two groups of those of a kernel whose name
    /// has this part, up to the last one. Of a language model that is a token, from its first dispatch to its logits.
    LastRound(&'static str),
}

/// What came of a stretch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stretched {
    /// Numbers of the first and of the last dispatch.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Bytes of the file with the region, and of one with the same dispatches one by one.
    pub(crate) bytes: u64,
    pub(crate) single_bytes: u64,
    /// Seconds of both runs.
    pub(crate) seconds: f64,
    pub(crate) single_seconds: f64,
    /// Milliseconds from the start of the first dispatch to the end of the last one, where the test is only logged; and of all steps in a
    /// replay without a runtime, the least of its repetitions.
    pub(crate) own_ms: f64,
    pub(crate) replay_ms: f64,
    /// What `verify` says, by the way of the replay.
    pub(crate) said: BTreeMap<String, String>,
    /// What is wrong.
    pub(crate) complaints: Vec<String>,
}

/// A dispatch of a test's first process, from its log.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) kernel: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The dispatches of the first process of a log in their order.
pub(crate) fn rows(log: &Path) -> Vec<Row> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut first = None;
    let row = |value: Value| {
        let id = value["id"].as_u64().filter(|_| value["kind"] == "dispatch")?;
        let pid = value["pid"].as_u64();
        let kernel = value["kernel"].as_str()?.to_owned();
        let (start, end) = (value["startNs"].as_u64().unwrap_or(0), value["endNs"].as_u64().unwrap_or(0));
        (*first.get_or_insert(pid) == pid).then_some(Row { id, kernel, start, end })
    };
    let mut all: Vec<Row> = values.filter_map(row).collect();
    all.sort_by_key(|row| row.id);
    all
}

impl Stretch {
    /// The numbers of the first and of the last dispatch of it.
    fn of(self, rows: &[Row]) -> Option<(u64, u64)> {
        let count = match self {
            Stretch::None => return None,
            Stretch::Middle => {
                let first = rows.len() / 3;
                let last = (first + MOST).min(rows.len()).checked_sub(1)?;
                return Some((rows.get(first)?.id, rows.get(last)?.id));
            }
            Stretch::LastRound(part) => {
                let mut groups: Vec<usize> = Vec::new();
                for (at, _) in rows.iter().enumerate().filter(|(_, row)| row.kernel.contains(part)) {
                    let is_next = at > 0 && rows.get(at - 1).is_some_and(|row| row.kernel.contains(part));
                    if !is_next {
                        groups.push(at);
                    }
                }
                match groups.as_slice() {
                    [.., before, last] => last - before,
                    _ => return Stretch::Middle.of(rows),
                }
            }
        };
        let first = rows.len().checked_sub(count)?;
        Some((rows.get(first)?.id, rows.last()?.id))
    }
}

/// Captures and replays a stretch of a test. `start` makes the command that runs the test with a log and options.
///
/// # Errors
/// When a process cannot be started or a file cannot be written.
pub(crate) fn stretched(
    stretch: Stretch,
    rows: &[Row],
    start: &dyn Fn(&Path, &[&str]) -> Command,
    (place, arch): (&InstalledSuite, &str),
    folder: &Path,
    limits: &Limits,
) -> Result<Option<Stretched>> {
    let Some((first, last)) = stretch.of(rows) else { return Ok(None) };
    let inside = || rows.iter().filter(|row| (first..=last).contains(&row.id));
    let own = inside().map(|row| row.end).max().unwrap_or(0) - inside().map(|row| row.start).min().unwrap_or(0);
    let mut found = Stretched { first, last, own_ms: own as f64 / 1e6, ..Stretched::default() };
    let capture = folder.join("region.ldcap");
    let (path, trigger) = (capture.display().to_string(), format!("dispatches:{first}..dispatches:{last}"));
    let options = ["--capture", &path, "--capture-region", &trigger, "--capture-max-bytes", CAPTURE_BYTES];
    let ran = run(start(&folder.join("log-region.json"), &options), &folder.join("output-region"))?;
    (found.bytes, found.seconds) = (size(&capture), ran.seconds);
    if !ran.status.success() {
        found.complaints.push(format!("when a region is captured: {}: {}", ran.status, last_line(&ran.output)));
    }
    let single = folder.join("single.ldcap");
    let (path, when) = (single.display().to_string(), format!("dispatches:{first}-{last}"));
    let options = [
        ["--capture", &path, "--when", &when].as_slice(),
        &["--capture-dispatches", "every:1", "--capture-max-bytes", CAPTURE_BYTES],
    ]
    .concat();
    let ran = run(start(&folder.join("log-single.json"), &options), &folder.join("output-single"))?;
    (found.single_bytes, found.single_seconds) = (size(&single), ran.seconds);
    fs::remove_file(&single).ok();
    let mut ways = vec![
        ("no runtime", vec!["--backend", "emu"]),
        ("no runtime, concurrent", vec!["--backend", "emu", "--concurrent"]),
    ];
    let rocm = place.rocm.as_ref().map(|rocm| rocm.display().to_string());
    if let Some(rocm) = &rocm {
        ways.push(("runtime", vec!["--emulate", arch, "--rocm", rocm]));
        ways.push(("runtime, concurrent", vec!["--emulate", arch, "--rocm", rocm, "--concurrent"]));
    }
    for (way, options) in ways {
        let mut command = limited(limits.seconds);
        command.args(["verify", "--region", "--json"]).arg(&capture).args(options);
        let ran = run(command, &folder.join("output-verify-region"))?;
        found.verified(way, &ran, limits);
    }
    fs::remove_file(&capture).ok();
    Ok(Some(found))
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

impl Stretched {
    /// Takes in what a replay has said.
    fn verified(&mut self, way: &str, ran: &Ran, limits: &Limits) {
        let mut words: BTreeMap<String, u64> = BTreeMap::new();
        for part in ran.output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let (Some(result), Some(status)) = (part["result"].as_str(), part["status"].as_u64()) else { continue };
            *words.entry(result.to_owned()).or_default() += 1;
            let steps = part["repetitions"].as_array().into_iter().flatten().filter_map(|one| one["host_ns"].as_f64());
            if self.replay_ms == 0.0 {
                self.replay_ms = steps.fold(f64::INFINITY, f64::min) / 1e6;
            }
            if !FINE.contains(&status) {
                let error = part["error"].as_str().unwrap_or("");
                self.complaints.push(format!("region, {way}: {result} {error}"));
            }
        }
        let said: Vec<String> = words.into_keys().collect();
        if ran.status.code() == Some(TIMED_OUT) {
            self.complaints.push(format!("region, {way}: verify had not ended after {} s", limits.seconds));
        } else if said.is_empty() {
            self.complaints.push(format!("region, {way}: {}", last_line(&ran.output)));
        }
        self.said.insert(way.to_owned(), if said.is_empty() { "nothing".to_owned() } else { said.join(", ") });
    }

    /// How the results are kept.
    pub(crate) fn as_json(&self) -> Value {
        json!({
            "first": self.first, "last": self.last, "bytes": self.bytes, "single_bytes": self.single_bytes, "seconds": self.seconds,
            "single_seconds": self.single_seconds, "own_ms": self.own_ms, "replay_ms": self.replay_ms, "said": self.said,
            "complaints": self.complaints,
        })
    }

    /// What [`Stretched::as_json`] has made; `None` of anything else.
    pub(crate) fn read(value: &Value) -> Option<Stretched> {
        let number = |key: &str| value[key].as_u64();
        let real = |key: &str| value[key].as_f64();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Stretched {
            first: number("first")?,
            last: number("last")?,
            bytes: number("bytes")?,
            single_bytes: number("single_bytes")?,
            seconds: real("seconds")?,
            single_seconds: real("single_seconds")?,
            own_ms: real("own_ms")?,
            replay_ms: real("replay_ms")?,
            said: value["said"]
                .as_object()?
                .iter()
                .filter_map(|(way, said)| Some((way.clone(), text(said)?)))
                .collect(),
            complaints: value["complaints"].as_array()?.iter().filter_map(text).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kernels: &str) -> Vec<Row> {
        let row = |(id, kernel): (usize, char)| Row { id: id as u64, kernel: kernel.to_string(), start: 0, end: 0 };
        kernels.chars().enumerate().map(row).collect()
    }

    #[test]
    fn a_stretch_is_from_a_third_on_or_the_last_of_what_repeats_itself() {
        assert_eq!(Stretch::Middle.of(&rows("aaaaaaaaa")), Some((3, 8)));
        assert_eq!(Stretch::Middle.of(&rows("a")), Some((0, 0)));
        assert_eq!(Stretch::Middle.of(&rows("")), None);
        // Two dispatches of the kernel are a group; what lies between two groups is a round.
        assert_eq!(Stretch::LastRound("k").of(&rows("xabkkcabkkcabkkc")), Some((11, 15)));
        assert_eq!(Stretch::LastRound("k").of(&rows("abc")), Some((1, 2)));
        assert_eq!(Stretch::None.of(&rows("abc")), None);
    }

    #[test]
    fn results_of_a_stretch_are_read_as_they_are_kept() {
        let said = [("runtime".to_owned(), "PASS (qualified)".to_owned())].into();
        let stretched = Stretched { first: 3, last: 9, bytes: 77, own_ms: 1.5, said, ..Stretched::default() };
        assert_eq!(Stretched::read(&stretched.as_json()), Some(stretched));
        assert_eq!(Stretched::read(&Value::Null), None);
    }
}
