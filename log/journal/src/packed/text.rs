//! A log of chunks as text.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::Path;

use logdur_system::text::one_line;
use serde_json::Value;

use crate::compare::{Comparison, EMULATED, Ratio, Shape, Subject};
use crate::lines::Lines;
use crate::rows::Rows;

use super::{Found, Reader};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

/// Writes the rows and lines of a log of chunks as lines of another form. What cannot be read is given to `damage`.
///
/// # Errors
/// When the log cannot be read, or the lines cannot be written.
pub fn print(
    from: &mut impl BufRead,
    lines: Lines,
    to: &mut impl Write,
    mut damage: impl FnMut(&str),
) -> io::Result<()> {
    let (mut reader, mut rows, mut text) = (Reader::default(), HashMap::new(), Vec::new());
    while let Some(found) = reader.next(from)? {
        match found {
            // Of each process, a number of a kernel always stands for the same.
            Found::Row => {
                rows.entry(reader.stream()).or_insert_with(|| Rows::new(lines)).write(&mut text, &reader.row());
            }
            Found::Line => say(reader.text(), lines, &mut text),
            Found::Damage => damage(reader.text()),
        }
        if text.len() >= PIECE {
            to.write_all(&text)?;
            text.clear();
        }
    }
    to.write_all(&text)
}

/// Writes a line that is no row, as a log in JSON has it, in another form. What is of a later version and not known stays JSON, as a
/// comment.
pub fn say(json: &str, lines: Lines, to: &mut Vec<u8>) {
    let value = serde_json::from_str(json).unwrap_or(Value::Null);
    if known(&value, json, lines, to).is_none() {
        lines.other(to, &one_line(json));
    }
}

/// `None` if it is none of those that are known.
fn known(value: &Value, json: &str, lines: Lines, to: &mut Vec<u8>) -> Option<()> {
    let text = |name: &str| value.get(name)?.as_str();
    let number = |name: &str| value.get(name)?.as_u64();
    let small = |name: &str| u32::try_from(number(name)?).ok();
    if let Some(notice) = text("notice") {
        lines.notice(to, notice);
    } else if let (Some(position), Some(name)) = (number("agent"), text("name")) {
        lines.agent(to, position as usize, name, text("product")?, text("device").unwrap_or_default());
    } else if let (Some(system_ns), Some(wall_ns)) = (number("systemNs"), number("wallNs")) {
        lines.clocks(to, system_ns, wall_ns);
    } else if let Some(run) = text("run") {
        lines.run(to, small("pid")?, run);
    } else if let Some(site) = number("site") {
        let frames = value.get("frames")?.as_array()?.iter().map(|frame| Some(frame.as_str()?.to_owned()));
        lines.site(to, number("pid")?, site, &frames.collect::<Option<Vec<_>>>()?);
    } else if let Some(records) = text("records") {
        lines.records(to, small("pid")?, Path::new(records));
    } else if let Some(compare) = value.get("compare") {
        let (comparison, emulated) = comparison(compare)?;
        lines.comparison(to, &comparison, emulated);
    } else {
        let counters = value.get("account")?.as_object()?;
        let mut counters: Vec<(&str, u64)> =
            counters.iter().filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?))).collect();
        // In the order in which they were written.
        counters.sort_by_key(|(name, _)| json.find(&format!("\"{name}\":")));
        let (pid, counters) = counters.split_first()?;
        lines.account(to, u32::try_from(pid.1).ok()?, counters);
    }
    Some(())
}

/// A comparison, and whether it is of emulated time.
fn comparison(value: &Value) -> Option<(Comparison, bool)> {
    let list = |name: &str| value.get(name)?.as_array();
    let whole = |name: &str, at: usize| list(name)?.get(at)?.as_u64();
    let real = |name: &str, at: usize| list(name)?.get(at)?.as_f64();
    let size = |name: &str, at: usize| u32::try_from(whole(name, at)?).ok();
    let items = |at: usize| u16::try_from(whole("workgroup", at)?).ok();
    let shape = Shape {
        grid: [size("grid", 0)?, size("grid", 1)?, size("grid", 2)?],
        workgroup: [items(0)?, items(1)?, items(2)?],
    };
    let comparison = Comparison {
        subject: Subject {
            kernel: value.get("kernel")?.as_str()?.to_owned(),
            agent: value.get("agent")?.as_u64()? as usize,
            shape,
        },
        replaced: value.get("replaced")?.as_str()?.to_owned(),
        counts: [whole("n", 0)?, whole("n", 1)?],
        ratio: Ratio {
            medians: [real("medianNs", 0)?, real("medianNs", 1)?],
            ratio: value.get("ratio")?.as_f64()?,
            interval: real("interval", 0).zip(real("interval", 1)),
        },
    };
    Some((comparison, value.get("verdict")?.as_str()? == EMULATED))
}
