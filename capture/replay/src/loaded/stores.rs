//! What is known of the stores of the application's own kernel: which bytes it stored in a replay, or how wide they are at least.

use logdur_captured::regions::PAGE;
use logdur_captured::verify::Buffer;
use logdur_captured::{Called, Code};

use super::{Launch, LoadedDispatch};
use crate::accesses::Accesses;
use crate::dirty::Dirty;
use crate::error::Result;
use crate::filled::Filled;
use crate::memory;
use crate::placed::{LoadBias, Pages, Placed};

/// What is known of the stores of a kernel.
#[derive(Debug, Default)]
pub(super) enum Stores {
    /// Nothing yet.
    #[default]
    Unknown,
    /// None has fewer bytes.
    Words(usize),
    /// What it accessed in one replay.
    Seen(Accesses),
}

impl LoadedDispatch<'_> {
    /// True when stores of the application's own kernel are still to be looked at.
    pub(crate) fn wants_stores(&self) -> bool {
        matches!(self.stores, Stores::Unknown)
    }

    /// True when the bytes are known that the application's own kernel stores.
    pub(crate) fn knows_stores(&self) -> bool {
        matches!(self.stores, Stores::Seen(_))
    }

    /// Has the device record what the next launches store, if it can.
    pub(crate) fn record_stores(&mut self) {
        self.device.record(false);
    }

    /// The same, and which instructions store.
    pub(crate) fn record_instructions(&mut self) {
        self.device.record(true);
    }

    /// What was accessed since the device records; `None` on one that does not see it.
    pub(crate) fn recorded(&mut self) -> Option<Accesses> {
        self.device.recorded()
    }

    /// Takes what the device has recorded of launches of the application's own kernels, else looks at their code.
    pub(crate) fn take_stores(&mut self, own: &[&Code]) -> Result<()> {
        self.stores = match self.device.recorded() {
            Some(accesses) => Stores::Seen(accesses),
            None => {
                let mut narrowest = usize::MAX;
                for code in own {
                    narrowest = narrowest.min(self.narrowest_store(code)?);
                }
                Stores::Words(narrowest)
            }
        };
        Ok(())
    }

    /// Puts other bytes where the application's own kernel writes before it reads; `left` is what it left. False when it is not
    /// known where that is, or nowhere.
    ///
    /// # Errors
    /// When the capture cannot be read.
    pub(crate) fn fill(&mut self, left: &Pages) -> Result<bool> {
        let Stores::Seen(accesses) = &self.stores else { return Ok(false) };
        let (mut filled, mut pages) = (Filled::default(), self.dirty.pages().clone());
        for area in &self.areas {
            for piece in accesses.overwritten(area.placed..area.now(area.captured.end)) {
                let (mut at, end) = (area.then(piece.start), area.then(piece.end));
                while at < end && !filled.is_full() {
                    let page = (at / PAGE * PAGE).max(area.captured.start);
                    let stop = end.min(at / PAGE * PAGE + PAGE);
                    if !self.around.contains(at) {
                        let mut before = vec![0; (stop - at) as usize];
                        self.before().read(at, &mut before)?;
                        let after = left.get(&page).and_then(|bytes| bytes.get((at - page) as usize..));
                        filled.add(at, &before, after.unwrap_or(&before));
                        pages.insert(page);
                    }
                    at = stop;
                }
            }
        }
        if filled.bytes() == 0 {
            return Ok(false);
        }
        self.filled = Some(filled);
        self.dirty = Dirty::of(self.before(), &self.areas, &self.relocations, pages)?;
        self.rest_is_restored = false;
        Ok(true)
    }

    /// Replays the application's own kernel so often with unwritten data held: what they left, and what the first of them accessed. None on
    /// a device that cannot hold it.
    ///
    /// # Errors
    /// What a replay ends with.
    pub(crate) fn held(&mut self, own: &Launch, times: usize) -> Result<Option<(Vec<Pages>, Accesses)>> {
        if !self.device.hold_contents(true) {
            return Ok(None);
        }
        let (mut runs, mut accesses) = (Vec::new(), None);
        for n in 0..times {
            self.restore()?;
            if n == 0 {
                self.device.record(true);
            }
            self.run(own)?;
            if n == 0 {
                accesses = self.device.recorded();
            }
            runs.push(self.changed_of_known()?);
        }
        self.device.hold_contents(false);
        Ok(accesses.map(|accesses| (runs, accesses)))
    }

    /// The code that a launch runs, and what is added to its addresses.
    pub(crate) fn code<'l>(&'l self, launch: &'l Launch) -> (&'l Code, LoadBias) {
        let code = launch.other.as_ref().unwrap_or(&self.captured.original);
        let descriptor = code.kernel.descriptor.map_or(0, |descriptor| descriptor.address);
        (code, LoadBias::of(launch.kernel_object(), descriptor))
    }

    /// Where captured memory is.
    pub(crate) fn placed(&self, captured: u64) -> Placed {
        self.relocations.placed(captured)
    }

    /// The part of a buffer that is in a page.
    ///
    /// # Errors
    /// When the page is none of the captured memory.
    pub(crate) fn part(&self, page: u64, buffer: &Buffer) -> Result<(u64, u64)> {
        Ok((page.max(buffer.start), memory::page_end(&self.areas, page)?.min(buffer.end)))
    }

    /// The fewest bytes that a store of a kernel has. Of code that is called by address it is not known.
    fn narrowest_store(&self, code: &Code) -> Result<usize> {
        let is_companions = |called: &Called| {
            let mut companions = self.captured.companions.iter().filter_map(|companion| companion.loaded);
            companions.any(|loaded| *loaded == called.loaded)
        };
        match logdur_captured::processor(&self.device.description().isa).parse() {
            Ok(arch) if self.captured.called().iter().all(is_companions) => {
                Ok(amdgpu_listing::narrowest_store(&code.bytes, arch, &code.kernel.name)?.into())
            }
            _ => Ok(1),
        }
    }
}
