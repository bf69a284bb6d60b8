//! Compares what each dispatch of a part leaves with the hashes of what it left in the application.

use std::collections::{BTreeMap, BTreeSet};

use logdur_capture::{Changed, Id, IdOfPieces};
use logdur_captured::region::PartStep;

use super::Launched;
use super::run::{LoadedPart, Side};
use crate::error::Result;
use crate::loaded::LoadedDispatch;

/// Bytes that are hashed at once.
const STEP: u64 = 1 << 20;

/// What came of comparing hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// How many dispatches have hashes.
    pub dispatches: u64,
    /// The first one that left an allocation with other bytes than in the application, and the addresses of such allocations. Replays agree
    /// there.
    pub differs: Option<(Launched, Vec<u64>)>,
    /// The allocations that were no longer compared, since replays did not agree in them.
    pub left_out: u64,
}

/// The id of memory as it is now, as it would have been captured. `None` if not all of it is restored memory.
fn id_of(loaded: &LoadedDispatch<'_>, changed: &Changed) -> Option<Id> {
    let (mut at, end) = (changed.base, changed.base.checked_add(changed.bytes)?);
    let (mut pieces, mut bytes) = (IdOfPieces::default(), Vec::new());
    while at < end {
        let length = STEP.min(end - at);
        bytes.resize(length as usize, 0);
        loaded.read_captured(at, &mut bytes).ok()?;
        pieces.add(&bytes);
        at += length;
    }
    Some(pieces.id())
}

impl LoadedPart<'_> {
    /// The ids of what each dispatch has changed in the application, after each in a replay.
    fn ids(&mut self, side: &Side) -> Result<BTreeMap<(usize, u64), Option<Id>>> {
        let (part, mut all) = (self.part, BTreeMap::new());
        self.restore()?;
        self.run(side, part.steps.len(), &mut |loaded, number, _| {
            // What the host wrote while a dispatch ran is there behind the next step.
            let is_meanwhile = |number| part.steps.get(number).is_some_and(PartStep::is_meanwhile);
            let number = match is_meanwhile(number) {
                true => number.saturating_sub(1),
                false if is_meanwhile(number + 1) => return Ok(()),
                false => number,
            };
            if let Some(step) = part.steps.get(number) {
                for changed in &step.step.changed {
                    all.insert((number, changed.base), id_of(loaded, changed));
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Replays the part with the application's own kernels, and compares what each dispatch leaves. `None` if the capture has no hashes.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn compare_hashes(&mut self, own: &Side) -> Result<Option<Hashes>> {
        let part = self.part;
        let dispatches = part.steps.iter().filter(|step| step.step.has_changed).count() as u64;
        if dispatches == 0 {
            return Ok(None);
        }
        let [first, second] = [self.ids(own)?, self.ids(own)?];
        let (mut found, mut left_out) = (Hashes { dispatches, ..Hashes::default() }, BTreeSet::new());
        for (number, step) in part.steps.iter().enumerate() {
            let mut differ = Vec::new();
            for changed in &step.step.changed {
                let key = (number, changed.base);
                match (first.get(&key).copied().flatten(), second.get(&key).copied().flatten()) {
                    (Some(a), Some(b)) if a == b && !left_out.contains(&changed.base) => {
                        if a != changed.id {
                            differ.push(changed.base);
                        }
                    }
                    _ => _ = left_out.insert(changed.base),
                }
            }
            if !differ.is_empty() {
                found.differs = Some((self.launched(step), differ));
                break;
            }
        }
        found.left_out = left_out.len() as u64;
        Ok(Some(found))
    }
}
