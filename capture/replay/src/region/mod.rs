//! Replays steps of a region one after the other, without restoring memory between them, and compares what they leave.
//!
//! A part of a region is loaded as its first dispatch would be, with the memory and the code of all of them ([`CapturedPart`]). Before each
//! step, what the host had changed is written. At the end, memory is compared with that of the application, by the rules for one dispatch:
//! replays of the application's own kernels are made several times, and what they differ in is masked.

mod bench;
mod bisect;
mod extract;
mod hashes;
mod meanwhile;
mod observed;
mod reached;
mod run;
mod schedule;
mod together;
mod trim;
mod variants;

use std::collections::BTreeMap;

use logdur_capture::Id;
use logdur_captured::region::{CapturedPart, Part, Work};
use logdur_captured::verify::{BufferReport, Judged, Overall};

use crate::device::Description;
use crate::error::Result;
use crate::geometry::Geometry;
use crate::judge::{Judgement, KernelRuns, judge};
use crate::loaded::{COMPARED, Variant};
use crate::setup::{REGION_MASK_LIMIT, Setup};

pub use bench::{Bench, KernelTimes, Measured, bench};
pub use bisect::{Against, Bisection, Element, Found, Other, Special, StoredBy, Wanted, against, bisect, record};
pub use extract::extract;
pub use hashes::Hashes;
pub use together::Together;
pub use variants::RegionVariants;

pub use observed::{ObservedPart, ObservedStep, observed};
use run::{LoadedPart, PartReplays, Side};
pub use trim::{Kept, Trimmed, trim};

/// How a part of a region is replayed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How often; 0 is once.
    pub repetitions: u32,
    /// True when it is compared.
    pub verified: bool,
    /// What it is replayed on.
    pub setup: Setup,
    /// Other kernels.
    pub variant: Variant,
}

/// How long the launches of a part took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartTimes {
    /// All of them on the GPU, in nanoseconds.
    pub gpu_ns: u64,
    /// Nanoseconds from before the first until the host saw the completion of the last, with what is written in between.
    pub host_ns: u64,
}

/// A kernel of a part that another one takes the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The symbol.
    pub kernel: String,
    /// The code object that runs.
    pub id: Id,
    /// Where it came from.
    pub place: String,
}

/// A kernel of a part whose dispatches have another geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshaped {
    /// The symbol.
    pub kernel: String,
    /// How many dispatches.
    pub dispatches: u64,
    /// The first of them.
    pub first: u64,
    /// The grid and the workgroup of that one in the application, in work-items.
    pub own: ([u32; 3], [u32; 3]),
    /// What is other.
    pub geometry: Geometry,
}

/// A step that launches a kernel, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The step.
    pub step: u64,
    /// The dispatch's number in its process.
    pub dispatch: u64,
    /// The symbol of its kernel.
    pub kernel: String,
}

/// What memory is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// That of the application, which the capture has.
    Application,
    /// That after replays of the application's own kernels.
    Replay,
}

impl Reference {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Reference::Application => "application",
            Reference::Replay => "replay",
        }
    }
}

/// What came of a part.
#[derive(Clone, Debug)]
pub struct Report {
    /// The region.
    pub region: u64,
    /// The part.
    pub part: Part,
    /// The device.
    pub device: Description,
    /// True when not all memory and code is at its address.
    pub relocated: bool,
    /// Why a PASS says less than it could, one line each.
    pub qualified: Vec<String>,
    /// How many dispatches it has, by the symbols of their kernels.
    pub dispatches: BTreeMap<String, u64>,
    /// The kernels that others took the place of.
    pub replaced: Vec<Replaced>,
    /// Those whose dispatches had another geometry.
    pub reshaped: Vec<Reshaped>,
    /// How long each replay took; more than were asked for where these did not decide it.
    pub repetitions: Vec<PartTimes>,
    /// How many were asked for.
    pub asked: usize,
    /// What came of comparing what each dispatch left; `None` if the capture has no hashes of that.
    pub hashes: Option<Hashes>,
    /// What the memory after the last step was compared with.
    pub reference: Option<Reference>,
    /// How its steps ran beside each other in the last replay; `None` if they ran one after the other.
    pub together: Option<Together>,
    /// How often the application's own kernels were replayed to judge others in their place.
    pub own_replays: usize,
    /// The first dispatch after which replays of the application's own kernels differ.
    pub mask_begins: Option<Launched>,
    /// The result; `None` when nothing was compared.
    pub overall: Option<Overall>,
    /// What was found of each buffer.
    pub buffers: Vec<BufferReport>,
}

/// Replays a part of a region in this process, which has not started the runtime yet.
///
/// # Errors
/// As for [`replay`](crate::replay()); by the step, when one has failed.
pub fn replay(part: &CapturedPart<'_>, options: &Options) -> Result<Report> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let own = loaded.side(&Variant::default())?;
    let side = loaded.side_with_memory(&options.variant)?;
    let judged = if side.is_like(&own) { Judged::Own } else { Judged::Other };
    let mut found = None;
    let mut own_replays = 0;
    let mut times = Vec::new();
    if options.verified {
        let verified = verify(&mut loaded, [&own, &side], options.repetitions.max(COMPARED))?;
        own_replays = if judged == Judged::Other { verified.own_replays } else { 0 };
        times = verified.times;
        found = Some((verified.judgement, verified.mask_begins));
    }
    while times.len() < options.repetitions.max(1) as usize {
        loaded.restore()?;
        times.push(loaded.run_all(&side)?);
    }
    let hashes = match options.verified && judged == Judged::Own {
        true => loaded.compare_hashes(&own)?,
        false => None,
    };
    let reference = match loaded.is_without_reference() {
        false => Some(Reference::Application),
        true => (judged == Judged::Other).then_some(Reference::Replay),
    };
    let reference = reference.filter(|_| options.verified);
    let (judgement, mask_begins) = found.unzip();
    let mut qualified = loaded.qualified();
    let (overall, buffers) = match judgement {
        Some(Judgement { overall, buffers, qualified: judged }) => {
            qualified.extend(loaded.loaded.strayed(&buffers));
            qualified.extend(judged);
            (Some(overall), buffers)
        }
        None => (None, Vec::new()),
    };
    if let Some(left_out) = hashes.as_ref().map(|hashes| hashes.left_out).filter(|left_out| *left_out > 0) {
        qualified.push(format!("hashes of {left_out} allocations are not compared: replays differ there"));
    }
    // What a dispatch left wrong may have been overwritten since.
    let differs = hashes.as_ref().is_some_and(|hashes| hashes.differs.is_some());
    let overall = if differs && matches!(overall, Some(Overall::Pass | Overall::NoReference)) {
        Some(Overall::Fail)
    } else {
        overall
    };
    Ok(Report {
        region: part.region.record.id,
        part: part.part,
        device: loaded.loaded.device().description().clone(),
        relocated: loaded.loaded.is_relocated(),
        qualified,
        dispatches: dispatches(part),
        replaced: side.replaced,
        reshaped: side.reshaped,
        repetitions: times,
        asked: options.repetitions.max(1) as usize,
        hashes,
        reference,
        together: loaded.together,
        own_replays,
        mask_begins: mask_begins.flatten(),
        overall,
        buffers,
    })
}

/// How many dispatches a part has of each kernel.
fn dispatches(part: &CapturedPart<'_>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for step in part.steps.iter().filter(|step| matches!(step.work, Work::Dispatch { .. })) {
        *all.entry(part.symbol(step).to_owned()).or_default() += 1;
    }
    all
}

/// What a verification has found.
struct Verified {
    judgement: Judgement,
    mask_begins: Option<Launched>,
    times: Vec<PartTimes>,
    own_replays: usize,
}

/// Replays both sides in alternation, and judges the second by the first and by what the application got.
fn verify(loaded: &mut LoadedPart<'_>, [own, side]: [&Side; 2], repetitions: u32) -> Result<Verified> {
    let mut plan = loaded.loaded.plan_of(side.is_like(own), repetitions);
    plan.mask_limit = loaded.mask_limit;
    let by_replay = loaded.is_without_reference() && plan.judged == Judged::Other;
    loaded.loaded.by_replay = by_replay;
    if by_replay {
        loaded.loaded.qualify(
            "reference: replay: the capture has no memory after the last step, so that replays of the application's own kernels take its place"
                .to_owned(),
        );
    }
    let (mut of_own, mut of_other) = (KernelRuns::default(), KernelRuns::default());
    let mut replays = PartReplays::new(loaded, own, side);
    let judgement = judge(&mut replays, &mut of_own, &mut of_other, &plan)?;
    let times = replays.times;
    let masked = judgement.buffers.iter().any(|report| report.masked > 0);
    let mask_begins = if masked { loaded.mask_begins(own)? } else { None };
    Ok(Verified { judgement, mask_begins, times, own_replays: of_own.runs.len() })
}

/// The limit of a mask that a setup asks for.
fn mask_limit(setup: &Setup) -> f64 {
    setup.mask_limit.unwrap_or(REGION_MASK_LIMIT)
}
