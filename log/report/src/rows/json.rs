//! Lines of JSON.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Kind, Line, Process, Row, unexpected_kind};
use crate::gpus::Device;

/// A line of JSON, of any kind.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    kernel: Option<Cow<'a, str>>,
    dispatch: Option<u64>,
    #[serde(rename = "startNs")]
    start: Option<u64>,
    #[serde(rename = "endNs")]
    end: Option<u64>,
    #[serde(rename = "systemNs")]
    system_ns: Option<u64>,
    #[serde(rename = "wallNs")]
    wall_ns: Option<u64>,
    agent: Option<u64>,
    queue: Option<u64>,
    grid: Option<[u32; 3]>,
    workgroup: Option<[u32; 3]>,
    #[serde(borrow)]
    replaced: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    product: Option<Cow<'a, str>>,
    #[serde(borrow)]
    device: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    bytes: Option<u64>,
    pid: Option<u64>,
    rank: Option<u64>,
    tid: Option<u64>,
    account: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(borrow)]
    run: Option<Cow<'a, str>>,
    #[serde(borrow)]
    code: Option<Cow<'a, str>>,
    site: Option<u64>,
    frames: Option<Vec<String>>,
}

/// A member of an object as CSV has it: lists of numbers with `x`, of words with `|` in between.
pub(super) fn text(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(list) => {
            let separator = if list.first().is_some_and(Value::is_number) { "x" } else { "|" };
            let parts: Vec<String> = list.iter().filter_map(text).collect();
            Some(parts.join(separator)).filter(|text| !text.is_empty())
        }
        other => Some(other.to_string()),
    }
}

pub(super) fn line(line: &[u8]) -> Line<'_> {
    let object: Object<'_> = match serde_json::from_slice(line) {
        Ok(object) => object,
        Err(error) => return Line::Unreadable(format!("not a line of a log in JSON: {error}")),
    };
    match object {
        Object { kernel: Some(kernel), .. } => {
            let name = object.kind.as_deref().unwrap_or_default();
            let Some(kind) = Kind::of(name.as_bytes(), object.bytes) else {
                return Line::Unreadable(unexpected_kind(name.as_bytes()));
            };
            Line::Row(Row {
                kernel,
                dispatch: object.dispatch,
                times: object.start.zip(object.end),
                agent: object.agent.unwrap_or(0),
                queue: object.queue.unwrap_or(0),
                grid: object.grid.unwrap_or_default(),
                workgroup: object.workgroup.unwrap_or_default(),
                replaced: object.replaced.is_some_and(|hash| !hash.is_empty()),
                code: object.code.unwrap_or_default(),
                process: Process { rank: object.rank, pid: object.pid },
                thread: object.tid,
                site: object.site,
                kind,
            })
        }
        Object { agent: Some(position), name: Some(name), product, device, .. } => {
            let product = product.map(|product| format!(", {product}")).unwrap_or_default();
            let device = device.as_deref().map(Device::parse);
            Line::Agent { position, name: Some(format!("{name}{product}")), device }
        }
        Object { site: Some(number), pid: Some(pid), frames: Some(frames), .. } => Line::Site { number, pid, frames },
        Object { run: Some(id), pid: Some(pid), .. } => Line::Run { id: id.into_owned(), pid },
        Object { account: Some(counters), .. } => {
            Line::Account(counters.into_iter().filter_map(|(name, n)| Some((name, n.as_u64()?))).collect())
        }
        Object { system_ns: Some(system_ns), wall_ns: Some(wall_ns), .. } => Line::Clocks { system_ns, wall_ns },
        _ => Line::Other,
    }
}
