//! What `KFDEMU_INJECT` orders: faults of the emulated GPU at packets of its queues.
//!
//! The text is a list of `KIND[:TIME]@[gpuG:][queueQ:]PACKETS` with commas in between. `PACKETS` is an id, a range
//! `N-M`, or `N+` for all from N on.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Value;

/// What can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionKind {
    /// A memory fault in place of the packet's work.
    MemoryFault,
    /// A wave that meets an illegal instruction, in place of the packet's work.
    IllegalInstruction,
    /// A wave that violates an aperture, in place of the packet's work.
    ApertureViolation,
    /// A wave that aborts, in place of the packet's work.
    WaveAbort,
    /// A packet that the packet processor refuses.
    InvalidPacket,
    /// A queue that stands still.
    Stall,
    /// A completion signal that is late.
    Delay,
    /// A completion signal that never comes.
    Lose,
}

/// Whether a kind takes a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Never,
    IfWanted,
    Always,
}

/// A row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// How it is written.
    pub name: &'static str,
    /// The kind.
    pub kind: InjectionKind,
    time: Time,
    /// What happens, for people.
    pub help: &'static str,
}

const fn row(name: &'static str, kind: InjectionKind, time: Time, help: &'static str) -> KindRow {
    KindRow { name, kind, time, help }
}

/// Every kind, in the order of the documentation.
pub const INJECTION_KINDS: &[KindRow] = &[
    row(
        "memory-fault",
        InjectionKind::MemoryFault,
        Time::Never,
        "The packet is not executed; the GPU reports a read of 0xbad00000000, where nothing is mapped.",
    ),
    row(
        "illegal-instruction",
        InjectionKind::IllegalInstruction,
        Time::Never,
        "The packet is not executed; its queue stops as if a wave had executed an illegal instruction.",
    ),
    row(
        "aperture-violation",
        InjectionKind::ApertureViolation,
        Time::Never,
        "The packet is not executed; its queue stops as if a wave had left the aperture of an address.",
    ),
    row(
        "wave-abort",
        InjectionKind::WaveAbort,
        Time::Never,
        "The packet is not executed; its queue stops as if a wave had executed `s_trap 2`.",
    ),
    row("invalid-packet", InjectionKind::InvalidPacket, Time::Never, "Its queue stops as if its type were unknown."),
    row(
        "stall",
        InjectionKind::Stall,
        Time::IfWanted,
        "The packet is not taken for TIME. Without TIME, the queue never takes this packet or a later one.",
    ),
    row(
        "delay",
        InjectionKind::Delay,
        Time::Always,
        "The completion signal is decremented TIME after the end of the packet, with the true times. Packets that depend on it wait.",
    ),
    row(
        "lose",
        InjectionKind::Lose,
        Time::Never,
        "The packet is executed and its slot is released, but its completion signal is never decremented.",
    ),
];

impl KindRow {
    /// How it is written, with its time.
    pub fn syntax(&self) -> String {
        let time = match self.time {
            Time::Never => "",
            Time::IfWanted => "[:TIME]",
            Time::Always => ":TIME",
        };
        format!("{}{time}", self.name)
    }
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What shall go wrong.
    pub kind: InjectionKind,
    /// The time that goes with it.
    pub time: Option<Duration>,
    /// The GPU's place in the list of GPUs; every GPU when not given.
    pub gpu: Option<usize>,
    /// The queue's number, as `KFDEMU_TRACE` shows it; every AQL queue when not given.
    pub queue: Option<u32>,
    /// The packets' ids in their queue.
    pub packets: RangeInclusive<u64>,
}

/// Everything that is ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injections(pub Vec<Injection>);

impl Value for Injections {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let text = text.to_str().ok_or("expected UTF-8")?;
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(injection).collect::<Result<_, _>>().map(Injections)
    }
}

fn injection(text: &str) -> Result<Injection, String> {
    let (what, place) = text
        .split_once('@')
        .ok_or_else(|| format!("expected KIND[:TIME]@[gpuG:][queueQ:]PACKETS in {text:?}, which has no @"))?;
    let (name, time) = what.split_once(':').map_or((what, None), |(name, time)| (name, Some(time)));
    let row = INJECTION_KINDS.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<_> = INJECTION_KINDS.iter().map(|row| row.name).collect();
        format!("expected a kind out of {} in {text:?}", names.join(", "))
    })?;
    let time = match (time, row.time) {
        (Some(_), Time::Never) => return Err(format!("expected no time with {name} in {text:?}")),
        (None, Time::Always) => return Err(format!("expected a time with {name}, like {name}:20ms, in {text:?}")),
        (time, _) => time.map(duration).transpose()?,
    };
    let mut injection = Injection { kind: row.kind, time, gpu: None, queue: None, packets: 0..=0 };
    let (selectors, packets) = place.rsplit_once(':').map_or(("", place), |(selectors, packets)| (selectors, packets));
    for selector in selectors.split(':').filter(|s| !s.is_empty()) {
        let expected = || format!("expected gpu or queue with a number, as in queue2, before the packets in {text:?}");
        if let Some(n) = selector.strip_prefix("gpu") {
            injection.gpu = Some(n.parse().map_err(|_| expected())?);
        } else {
            let n = selector.strip_prefix("queue").ok_or_else(expected)?;
            injection.queue = Some(n.parse().map_err(|_| expected())?);
        }
    }
    injection.packets = range(packets)
        .ok_or_else(|| format!("expected a packet's id, a range like 3-5, or 3+ after the @ in {text:?}"))?;
    Ok(injection)
}

fn range(text: &str) -> Option<RangeInclusive<u64>> {
    if let Some(first) = text.strip_suffix('+') {
        return Some(first.parse().ok()?..=u64::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok();
    let made = match (number, &text[end..]) {
        (Some(n), "us") => Some(Duration::from_micros(n)),
        (Some(n), "ms") => Some(Duration::from_millis(n)),
        (Some(n), "s") => Some(Duration::from_secs(n)),
        _ => None,
    };
    made.ok_or_else(|| format!("expected a time like 500us, 20ms or 1s, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Injection>, String> {
        Injections::parse(OsStr::new(text)).map(|list| list.0)
    }

    #[test]
    fn a_list_of_orders_is_read_with_all_its_parts() {
        let list = parse("memory-fault@5, delay:20ms@gpu1:queue2:3+,stall@queue7:4-6,lose@0,").expect("well-formed");
        let order = |kind, time, gpu, queue, packets| Injection { kind, time, gpu, queue, packets };
        let expected = [
            order(InjectionKind::MemoryFault, None, None, None, 5..=5),
            order(InjectionKind::Delay, Some(Duration::from_millis(20)), Some(1), Some(2), 3..=u64::MAX),
            order(InjectionKind::Stall, None, None, Some(7), 4..=6),
            order(InjectionKind::Lose, None, None, None, 0..=0),
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn what_is_wrong_with_an_order_is_named() {
        for (text, part) in [
            ("delay:20ms", "which has no @"),
            ("hang@3", "expected a kind out of memory-fault, "),
            ("lose:1s@3", "expected no time with lose"),
            ("delay@3", "expected a time with delay, like delay:20ms"),
            ("delay:20@3", "expected a time like 500us, 20ms or 1s, not \"20\""),
            ("lose@queue:3", "expected gpu or queue with a number"),
            ("lose@first:3", "expected gpu or queue with a number"),
            ("lose@5-3", "expected a packet's id, a range"),
            ("lose@", "expected a packet's id, a range"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_kind_can_be_written_as_its_syntax_says() {
        for row in INJECTION_KINDS {
            let text = row.syntax().replace("[:TIME]", "").replace("TIME", "1s");
            assert_eq!(parse(&format!("{text}@1")).map(|list| list[0].kind), Ok(row.kind));
        }
    }
}
