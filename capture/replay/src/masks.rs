//! Says why elements are masked: which of them hold undefined data, and which instructions stored that.
//!
//! Registers, LDS and scratch hold other bits in each replay before a kernel writes to them, and the order of waves is another one. Where
//! replays agree once only the former are held, undefined data is all that they differed in.

use std::collections::BTreeMap;

use amdgpu_listing::{Listing, Which};
use logdur_captured::regions::PAGE;
use logdur_captured::verify::BufferReport;

use crate::accesses::Accesses;
use crate::error::Result;
use crate::judge::KernelRuns;
use crate::loaded::{Launch, LoadedDispatch};
use crate::placed::{LoadBias, Pages, Placed};

/// Replays in which unwritten data is held.
const HELD: usize = 3;

/// Masked bytes of a buffer with one cause.
#[derive(Debug, Default)]
struct Bytes {
    count: u64,
    /// Of the instructions that stored them, by address; `None` where that is not known.
    stored: BTreeMap<Option<Placed>, u64>,
}

impl Bytes {
    fn add(&mut self, bytes: u64, instruction: Option<Placed>) {
        self.count += bytes;
        *self.stored.entry(instruction).or_default() += bytes;
    }
}

/// Replays the application's own kernel with unwritten data held, and says of each buffer with masked elements why they differ; `left` is
/// what its replays left. Nothing where nothing is masked, or on a device that cannot hold it.
///
/// # Errors
/// What a replay ends with; when the capture is damaged.
pub(crate) fn explained(
    loaded: &mut LoadedDispatch<'_>,
    own: &Launch,
    left: &KernelRuns,
    reports: &[BufferReport],
) -> Result<Vec<String>> {
    let masked: Vec<&BufferReport> = reports.iter().filter(|report| report.masked > 0).collect();
    if masked.is_empty() {
        return Ok(Vec::new());
    }
    let Some((held, accesses)) = loaded.held(own, HELD)? else { return Ok(Vec::new()) };
    let (code, bias) = loaded.code(own);
    let listing = Listing::of("the kernel's code", &code.bytes, Which::All).ok();
    let mut lines = Vec::new();
    for report in masked {
        let [undefined, other] = causes(loaded, report, &left.runs, &held, &accesses)?;
        let name = &report.buffer.name;
        let by = |bytes: &Bytes| stored_by(bytes, listing.as_ref(), bias);
        if undefined.count > 0 {
            lines.push(format!(
                "{name}: {} masked bytes are undefined data: they differ only as registers, LDS or scratch do that nothing was written to; {}",
                undefined.count,
                by(&undefined)
            ));
        }
        if other.count > 0 {
            lines.push(format!(
                "{name}: {} masked bytes differ also where unwritten data is the same, as by the order of waves or a clock; {}",
                other.count,
                by(&other)
            ));
        }
    }
    Ok(lines)
}

/// The masked bytes of a buffer: those that held replays agree in, and the others.
fn causes(
    loaded: &LoadedDispatch<'_>,
    report: &BufferReport,
    runs: &[Pages],
    held: &[Pages],
    accesses: &Accesses,
) -> Result<[Bytes; 2]> {
    let (buffer, mut causes) = (&report.buffer, [Bytes::default(), Bytes::default()]);
    let pages: std::collections::BTreeSet<u64> = runs.iter().flat_map(|run| run.keys().copied()).collect();
    let size = buffer.element_type.size();
    for page in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
        let (start, end) = loaded.part(*page, buffer)?;
        let mut before = vec![0; end.saturating_sub(start) as usize];
        loaded.before().read(start, &mut before)?;
        let at = |run: &'_ Pages, from: usize, to: usize| -> Vec<u8> {
            let skipped = (start - page) as usize;
            let bytes = run.get(page).and_then(|bytes| bytes.get(skipped + from..skipped + to));
            bytes.or_else(|| before.get(from..to)).unwrap_or_default().to_vec()
        };
        let differ = |runs: &[Pages], from: usize, to: usize| {
            let mut all = runs.iter().map(|run| at(run, from, to));
            let first = all.next();
            all.any(|bytes| Some(&bytes) != first.as_ref())
        };
        for from in (0..before.len()).step_by(size) {
            let to = (from + size).min(before.len());
            if differ(runs, from, to) {
                let [undefined, other] = &mut causes;
                let cause = if differ(held, from, to) { other } else { undefined };
                cause.add((to - from) as u64, accesses.instruction(loaded.placed(start + from as u64)));
            }
        }
    }
    Ok(causes)
}

/// The instruction that stored the most of some bytes.
fn stored_by(bytes: &Bytes, listing: Option<&Listing<'_>>, bias: LoadBias) -> String {
    let known = bytes.stored.iter().filter_map(|(pc, bytes)| Some(((*pc)?, *bytes)));
    let Some((pc, most)) = known.clone().max_by_key(|(_, bytes)| *bytes) else {
        return "no instruction stored them when unwritten data was held".to_owned();
    };
    let all = known.count();
    let most = if all == 1 { String::new() } else { format!("{all} instructions, {most} bytes of them by ") };
    match listing.and_then(|listing| listing.instruction(bias.elf(pc))) {
        Some((text, place)) => format!("stored by {most}{text} at {place}"),
        None => format!("stored by {most}the one at {:#x}", pc.0),
    }
}
