//! Lines of CSV that begin with `#`.

use super::Line;
use crate::gpus::Device;

/// A line that begins with `#`.
pub(super) fn parsed(text: &str) -> Line<'static> {
    if let Some((position, name)) = text.strip_prefix("# agent ").and_then(|rest| rest.split_once(": "))
        && let Ok(position) = position.parse()
    {
        return Line::Agent { position, name: Some(name.to_owned()), device: None };
    }
    if let Some((position, device)) = text.strip_prefix("# device ").and_then(|rest| rest.split_once(": "))
        && let Ok(position) = position.parse()
    {
        return Line::Agent { position, name: None, device: Some(Device::parse(device)) };
    }
    if let Some((pid, id)) = text.strip_prefix("# run: pid=").and_then(|rest| rest.split_once(" id="))
        && let Ok(pid) = pid.parse()
    {
        return Line::Run { id: id.to_owned(), pid };
    }
    if let Some((number, (pid, frames))) = text
        .strip_prefix("# site ")
        .and_then(|rest| rest.split_once(": pid="))
        .and_then(|(number, rest)| Some((number, rest.split_once(" frames=")?)))
        && let (Ok(number), Ok(pid), Ok(frames)) = (number.parse(), pid.parse(), serde_json::from_str(frames))
    {
        return Line::Site { number, pid, frames };
    }
    if let Some((system, wall)) = text.strip_prefix("# clocks: systemNs=").and_then(|rest| rest.split_once(" wallNs="))
        && let (Ok(system_ns), Ok(wall_ns)) = (system.parse(), wall.trim_end().parse())
    {
        return Line::Clocks { system_ns, wall_ns };
    }
    let Some(counters) = text.strip_prefix("# account: ") else { return Line::Other };
    let counter = |word: &str| word.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)));
    Line::Account(counters.split(' ').filter_map(counter).collect())
}
