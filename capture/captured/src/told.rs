//! Writes what a capture says of its process, its code and its memory into another capture, as far as some of its dispatches need it.

use std::collections::BTreeSet;

use logdur_capture::{
    Agent, Allocation, CodeObject, FramePosition, Freed, Global, Id, KERNARG_EXTENT, Kernel, Loaded, Note, Placed,
    Queue, Reader, Session, Severity, Storage, UNANNOUNCED, Writer,
};

use crate::dispatch::CapturedDispatch;
use crate::error::Result;

/// A record that is copied.
enum Said<'r> {
    Session(&'r Session),
    Agent(&'r Agent),
    CodeObject(&'r CodeObject),
    Loaded(&'r Loaded),
    Kernel(&'r Kernel),
    Global(&'r Global),
    Queue(&'r Queue),
    Allocation(&'r Allocation),
    Freed(&'r Freed),
    Note(&'r Note),
}

/// What a capture says beside its dispatches, in its order.
pub struct Told<'r> {
    reader: &'r Reader,
    said: Vec<(FramePosition, Said<'r>)>,
    /// How many of them are written.
    written: usize,
}

impl<'r> Told<'r> {
    /// Only what some dispatches need. All allocations stay in the list: one more or less changes what an address means.
    pub fn of<'d>(reader: &'r Reader, dispatches: impl Iterator<Item = &'d CapturedDispatch<'r>>) -> Told<'r>
    where
        'r: 'd,
    {
        let (mut loaded, mut code, mut kernels) = (BTreeSet::new(), BTreeSet::<Id>::new(), BTreeSet::new());
        let (mut queues, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for captured in dispatches {
            let all = std::iter::once(captured.dispatch).chain(captured.companions.iter().map(|c| c.dispatch));
            for dispatch in all {
                numbers.insert(dispatch.id);
                queues.insert(dispatch.queue);
                kernels.extend([Some(dispatch.kernel), dispatch.replaced_kernel].into_iter().flatten());
                let used = [Some(dispatch.code_object), dispatch.replaced].into_iter().flatten();
                code.extend(used.filter(|id| !id.is_none()));
            }
            loaded.extend(captured.all_loaded.iter().map(|loaded| (loaded.executable, loaded.code_object)));
        }
        code.extend(loaded.iter().map(|(_, id)| *id));
        Told::select(reader, &|said| match said {
            Said::Session(_) | Said::Agent(_) | Said::Allocation(_) | Said::Freed(_) => true,
            Said::CodeObject(about) => code.contains(&about.id),
            Said::Loaded(at) => loaded.contains(&(at.executable, at.code_object)),
            Said::Global(global) => loaded.contains(&(global.executable, global.code_object)),
            Said::Kernel(kernel) => kernels.contains(&kernel.id),
            Said::Queue(queue) => queues.contains(&queue.id),
            Said::Note(note) => {
                let matters = note.severity == Severity::Loss || [KERNARG_EXTENT, UNANNOUNCED].contains(&&*note.code);
                note.dispatch.map_or(matters, |about| numbers.contains(&about))
            }
        })
    }

    fn select(reader: &'r Reader, wanted: &dyn Fn(&Said<'r>) -> bool) -> Told<'r> {
        fn placed<'r, T>(
            all: &'r [Placed<T>],
            of: fn(&'r T) -> Said<'r>,
        ) -> impl Iterator<Item = (FramePosition, Said<'r>)> {
            all.iter().map(move |record| (record.place, of(&record.value)))
        }
        let all = reader.records();
        let mut said: Vec<(FramePosition, Said<'r>)> = placed(&all.sessions, Said::Session)
            .chain(placed(&all.agents, Said::Agent))
            .chain(placed(&all.code_objects, Said::CodeObject))
            .chain(placed(&all.loaded, Said::Loaded))
            .chain(placed(&all.kernels, Said::Kernel))
            .chain(placed(&all.globals, Said::Global))
            .chain(placed(&all.queues, Said::Queue))
            .chain(placed(&all.allocations, Said::Allocation))
            .chain(placed(&all.freed, Said::Freed))
            .chain(placed(&all.notes, Said::Note))
            .filter(|(_, said)| wanted(said))
            .collect();
        said.sort_by_key(|(place, _)| *place);
        Told { reader, said, written: 0 }
    }

    /// Writes what was said before a place, and is not written yet.
    ///
    /// # Errors
    /// When a code object is damaged, or the file cannot be written.
    pub fn write_until<S: Storage>(&mut self, writer: &mut Writer<S>, place: FramePosition) -> Result<()> {
        self.write(writer, place, false)
    }

    /// The same of notes alone: nothing that follows needs the rest.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn notes_until<S: Storage>(&mut self, writer: &mut Writer<S>, place: FramePosition) -> Result<()> {
        self.write(writer, place, true)
    }

    fn write<S: Storage>(&mut self, writer: &mut Writer<S>, place: FramePosition, notes_alone: bool) -> Result<()> {
        while let Some((_, said)) = self.said.get(self.written).filter(|(at, _)| *at < place) {
            self.written += 1;
            match said {
                Said::Note(note) => writer.note(note)?,
                _ if notes_alone => {}
                Said::Session(session) => writer.session(session)?,
                Said::Agent(agent) => writer.agent(agent)?,
                Said::CodeObject(about) => {
                    let bytes = self.reader.code_object(about.id)?;
                    let about = CodeObject { extents: Vec::new(), ..(*about).clone() };
                    writer.code_object(&about, &bytes)?;
                }
                Said::Loaded(loaded) => writer.loaded(loaded)?,
                Said::Kernel(kernel) => writer.kernel(kernel)?,
                Said::Global(global) => writer.global(global)?,
                Said::Queue(queue) => writer.queue(queue)?,
                Said::Allocation(allocation) => writer.allocation(allocation)?,
                Said::Freed(freed) => writer.freed(freed.base)?,
            }
        }
        Ok(())
    }
}
