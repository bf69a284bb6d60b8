//! Replays the application's own kernel, or a replacement, repeatedly on the same memory.

use logdur_captured::verify::{BufferReport, Judged, Score};

use super::{COMPARED, Launch, LoadedDispatch};
use crate::device::Times;
use crate::error::Result;
use crate::judge::Replays;
use crate::placed::Pages;

/// Memory of a dispatch that is looked at as a whole after every replay. Of more, after the first replays of each kernel; then
/// only what is known to change.
const WHOLE: u64 = 64 << 20;

impl LoadedDispatch<'_> {
    /// What a launch has changed, looked for after all memory was `looked` at so often, which is counted.
    pub(crate) fn pages(&mut self, looked: &mut u32) -> Result<Pages> {
        *looked += 1;
        if *looked <= COMPARED || self.bytes().0 <= WHOLE { self.changed() } else { self.changed_of_known() }
    }
}

/// Replays on a stage.
pub(crate) struct LoadedVariant<'s, 'c> {
    loaded: &'s mut LoadedDispatch<'c>,
    own: &'s Launch,
    other: Option<&'s Launch>,
    /// How often all memory was looked at after each of the two.
    looked: [u32; 2],
    /// The last replay is, or was, of the application's own kernel.
    is_at_own: bool,
    /// How long each replay of the kernel that is judged took.
    pub(crate) times: Vec<Times>,
}

impl<'s, 'c> LoadedVariant<'s, 'c> {
    /// Of the application's own kernel, and of the one that is judged in its place.
    pub(crate) fn new(loaded: &'s mut LoadedDispatch<'c>, own: &'s Launch, other: &'s Launch) -> LoadedVariant<'s, 'c> {
        let other = Some(other).filter(|other| !other.is_like(own));
        LoadedVariant { loaded, own, other, looked: [0; 2], is_at_own: true, times: Vec::new() }
    }

    /// With kernels of which all memory was looked at before.
    pub(crate) fn known(self, own: bool, other: bool) -> LoadedVariant<'s, 'c> {
        LoadedVariant { looked: [own, other].map(|known| if known { COMPARED } else { 0 }), ..self }
    }

    /// True when an error is one of a replay of the application's own kernel.
    pub(crate) fn is_at_own(&self) -> bool {
        self.is_at_own
    }

    fn replay(&mut self, launch: &Launch, is_own: bool) -> Result<(Pages, Times)> {
        self.is_at_own = is_own;
        // What a launch changes is not known before one was looked at.
        self.loaded.restore()?;
        // Another kernel may not change what the application's own leaves alone.
        let records = is_own && self.other.is_some() && self.loaded.wants_stores();
        if records {
            self.loaded.record_stores();
        }
        let times = self.loaded.run(launch)?;
        if records {
            let captured = self.loaded.captured;
            self.loaded.take_stores(&[launch.other.as_ref().unwrap_or(&captured.original)])?;
        }
        Ok((self.loaded.pages(&mut self.looked[usize::from(!self.is_at_own)])?, times))
    }
}

impl Replays for LoadedVariant<'_, '_> {
    fn own(&mut self) -> Result<Pages> {
        let (pages, times) = self.replay(self.own, true)?;
        if self.other.is_none() {
            self.times.push(times);
        }
        Ok(pages)
    }

    fn other(&mut self) -> Result<Pages> {
        let (pages, times) = self.replay(self.other.unwrap_or(self.own), false)?;
        self.times.push(times);
        Ok(pages)
    }

    fn compare(&self, own: &[Pages], other: &[Pages], judged: Judged) -> Result<Vec<BufferReport>> {
        self.loaded.compare(own, other, judged)
    }

    fn scores(&self, reference: &[Pages], runs: &[Pages]) -> Result<Vec<Score>> {
        self.loaded.scores(reference, runs)
    }
}
