//! Taking the steps of a region, and ending it.

use std::sync::atomic::Ordering;
use std::time::Instant;
use std::{mem, ptr};

use amdgpu_code_object::Arguments;
use hsa_sys::abi::aql::{Packet, vendor};
use logdur_capture::{Evidence, Severity, SnapshotId, StepKind, words};
use logdur_intercept::Interceptor;
use logdur_intercept::queue::Queue;
use logdur_intercept::reaper;
use logdur_settings as settings;
use logdur_settings::CaptureScope;
use logdur_system::lock;

use super::reach::{Delta, Whole};
use super::{Other, Reached, Region};
use crate::capture::copies::{Moved, Written};
use crate::capture::file::{Over, Read};
use crate::capture::hold::Patience;
use crate::capture::host_access::HostMappings;
use crate::capture::memory::{Allocation, Kind};
use crate::capture::stall::Stalled;
use crate::capture::take::{Reading, Untaken};
use crate::capture::{Capture, Target};

/// The variable that, if it is 0, keeps HIP from writing a GPU's memory through the aperture. Source: ROCclr's `flags.hpp`.
const WITHOUT_APERTURE: &str = "ROC_ENABLE_LARGE_BAR";

impl Capture {
    /// Takes a step, or ends the region and says why; the queues go on in any case.
    pub(in crate::capture) fn take_step<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        region: &'a Region,
        target: &Target,
        mut reading: Option<Reading<'a>>,
    ) -> Option<Reading<'a>> {
        let start = Instant::now();
        let mut stalled = Stalled::with(interceptor, target.queue);
        // The lease of the target keeps them longer than this list does.
        let all = interceptor.queues.all();
        stalled.pause(all.iter().copied().filter(|q| !ptr::eq(*q, target.queue)));
        let held = self.copies.hold();
        let taken = self.try_step(interceptor, region, target, &stalled, &mut reading);
        if let Some(ring) = &target.queue.ring {
            ring.hold.pass(target.index);
        }
        region.has_taken(target.queue, target.index);
        let captured = self.taken.load(Ordering::Relaxed);
        let quits = taken.is_ok() && self.quit == Some(captured);
        if quits {
            region.break_off(format!("{}={captured}", settings::Interceptor::capture_quit));
        }
        // Limits end the region here, where everything is at rest: what is held behind it runs after it.
        self.spent_on(interceptor, start.elapsed());
        let is_last = quits || region.is_due() || self.stopped.load(Ordering::Acquire);
        let ended = match taken {
            Ok(()) => is_last.then_some(None),
            Err(why) => Some(Some(why)),
        };
        if let Some(why) = ended {
            self.end_region(interceptor, region, &mut reading, why, false);
        }
        drop(held);
        // Before the queues go on: what is behind is not to be seen before.
        reaper::complete_deferred(interceptor, target.queue);
        drop(stalled);
        reading = reading.and_then(|reading| reading.wait_for_late_copies(|| true));
        if region.is_over() {
            self.release_all(interceptor);
        }
        if quits {
            self.quit(interceptor, captured);
        }
        reading
    }

    /// Ends a region that no dispatch ends, with all queues at rest.
    pub(in crate::capture) fn end_due<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        region: &'a Region,
        mut reading: Option<Reading<'a>>,
    ) -> Option<Reading<'a>> {
        let mut stalled = Stalled::without_target(interceptor);
        stalled.pause(interceptor.queues.all().iter().copied());
        let held = self.copies.hold();
        let patience = Patience::until(Instant::now() + self.limits.hold, self.limits.stall);
        let at_rest = stalled.drain(&self.copies, patience).map_err(|_| Untaken::Busy(self.limits.stall));
        self.end_region(interceptor, region, &mut reading, at_rest.err(), true);
        drop(held);
        drop(stalled);
        reading = reading.and_then(|reading| reading.wait_for_late_copies(|| true));
        self.release_all(interceptor);
        reading
    }

    /// Ends a region of which nothing more is captured, as it is.
    pub(in crate::capture) fn end_stopped<'a>(&'a self, interceptor: &'static Interceptor, region: &'a Region) {
        if !region.is_over() {
            self.end_region(interceptor, region, &mut None, Some(Untaken::Stopped), false);
        }
        self.release_all(interceptor);
    }

    fn try_step<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        region: &'a Region,
        target: &Target,
        stalled: &Stalled,
        reading: &mut Option<Reading<'a>>,
    ) -> Result<(), Untaken> {
        let queue = target.queue;
        let ring = queue.ring.as_ref().ok_or(Untaken::Queue)?;
        let end = Instant::now() + self.limits.hold;
        let or_held = |why: Untaken| if Instant::now() >= end { Untaken::Held(self.limits.hold) } else { why };
        if !target.reached {
            return Err(Untaken::Busy(self.limits.stall));
        }
        stalled
            .drain(&self.copies, Patience::until(end, self.limits.stall))
            .map_err(|_| or_held(Untaken::Busy(self.limits.stall)))?;
        let mut reached = lock(&region.reached);
        let reached = &mut *reached;
        if !reached.has_begun {
            lock(&self.file).region(interceptor, &region.text, queue.agent)?;
            reached.has_begun = true;
        }
        self.write_others(region, reached, Some((queue, target.index)), None)?;
        let mut taken = self.held(interceptor, target, ring, CaptureScope::Reachable);
        let reading = self.reading(interceptor, reading)?;
        let agent = interceptor.agent(queue.agent).map_or(0, |agent| agent.agent.handle);
        let roots = self.roots(agent, &taken.packet, &taken.kernarg.bytes);
        let (delta, copies) = self.delta(interceptor, reached, reading, roots, end)?;
        taken.before = self.write_copies(region, reached, delta, copies)?;
        self.run_alone(interceptor, stalled, ring, &mut taken, end).map_err(or_held)?;
        // Another kernel in its place may have other arguments.
        let is_own = taken.ran == taken.packet.kernel_object();
        let arguments = if is_own { lock(&self.file).arguments(taken.ran) } else { Arguments::default() };
        let mut delta = self.a_delta(reached, reading, Written::default(), end);
        let mut is_all = true;
        let meanwhile = lock(&self.file).changes(|write| {
            is_all = delta.after_dispatch(&taken.kernarg.bytes, &arguments, write)?;
            Ok(())
        })?;
        let changed = region.hashes.then(|| delta.changed());
        let unread = mem::take(&mut delta.unread);
        self.tell_unread(interceptor, unread)?;
        if matches!(changed, Some(None)) && !mem::replace(&mut reached.told_of_changes, true) {
            let text =
                "memory could not be read after a dispatch: there are no hashes of what it and others have changed";
            lock(&self.file).tell_of_region(Severity::Info, text)?;
        }
        taken.held = target.since.elapsed();
        reached.steps += 1;
        reached.since_checkpoint += 1;
        let about = (reached.steps, target.at_doorbell.clone(), changed.flatten());
        for what in lock(&self.file).step(interceptor, self.kernels, &taken, about)? {
            interceptor.notice(format!("capture: {what}"));
        }
        self.write_meanwhile(reached, meanwhile, is_all)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        if region.every.is_some_and(|every| reached.since_checkpoint >= every) {
            reached.since_checkpoint = 0;
            let (steps, snapshot) = (reached.steps, self.whole(interceptor, reached, reading, end)?);
            if let Some(snapshot) = snapshot {
                lock(&self.file).checkpoint(steps, snapshot)?;
            }
        }
        Ok(())
    }

    /// Writes a step that does nothing: memory of the host changed while a dispatch ran that may have written it. Says once if that is not all.
    fn write_meanwhile(&self, reached: &mut Reached, changed: Option<SnapshotId>, is_all: bool) -> Result<(), Untaken> {
        let mut file = lock(&self.file);
        if !is_all && !mem::replace(&mut reached.told_of_dispatches, true) {
            let text = "dispatches have changed more memory of the host than is kept: the rest counts as written by them, \
                        though the host may have written there meanwhile";
            file.tell_of_region(Severity::Info, text)?;
        }
        if let Some(changed) = changed {
            reached.steps += 1;
            file.changed_step(reached.steps, changed, Evidence::Either)?;
        }
        Ok(())
    }

    /// Writes packets that are no dispatches and are over since the last step, before a dispatch or at the end, and what has changed before
    /// the last of them.
    fn write_others(
        &self,
        region: &Region,
        reached: &mut Reached,
        before: Option<(&Queue, u64)>,
        changed: Option<SnapshotId>,
    ) -> Result<(), Untaken> {
        let others = region.others(before);
        let last = others.len();
        if let Some(delta) = changed.filter(|_| others.is_empty()) {
            reached.steps += 1;
            lock(&self.file).changed_step(reached.steps, delta, Evidence::Idle)?;
        }
        for (n, (Other { kind, packet, queue, index, .. }, known)) in others.into_iter().enumerate() {
            reached.steps += 1;
            reached.since_checkpoint += 1;
            let mut file = lock(&self.file);
            let delta = changed.filter(|_| n + 1 == last);
            file.other_step((kind, &packet), (queue, index), (reached.steps, delta, known))?;
            let may_write = kind == StepKind::Vendor && packet.setup() as u8 != vendor::BARRIER_VALUE;
            if may_write && !mem::replace(&mut reached.told_of_vendor, true) {
                let text =
                    "a packet of the vendor's format was published: what it has written, if anything, is not captured";
                file.tell_of_region(Severity::Loss, text)?;
            }
        }
        Ok(())
    }

    fn a_delta<'a, 'r>(
        &'a self,
        reached: &'r mut Reached,
        reading: &'r mut Reading<'a>,
        written: Written,
        end: Instant,
    ) -> Delta<'a, 'r> {
        let (span, left) = (lock(&self.memory).span(), lock(&self.file).left());
        Delta {
            capture: self,
            reading,
            reached,
            written,
            end,
            left,
            roots: Vec::new(),
            anew: Vec::new(),
            new: Vec::new(),
            next: 0,
            span,
            last: Default::default(),
            unread: Vec::new(),
            all: Vec::new(),
            defers: false,
            exact: Vec::new(),
        }
    }

    /// The memory that a dispatch leads to: by its arguments, and by variables of its code.
    fn roots(&self, agent: u64, packet: &Packet, kernarg: &[u8]) -> Vec<Allocation> {
        let replacement = self.variables.and_then(|of| of.with_own_variables(packet.kernel_object()));
        let mut memory = lock(&self.memory);
        memory.forget_unmapped();
        let mut roots: Vec<Allocation> = words(kernarg).flat_map(|word| memory.led_to(word)).collect();
        // Code reaches its own variables without an argument.
        roots.extend(memory.of_agent(agent).filter(|a| matches!(a.kind, Kind::Variable { .. })));
        roots.extend(replacement.map_or(&[][..], |replacement| memory.of_ours(replacement)));
        roots
    }

    /// Writes what has changed since the last step, and what is reached first, `None` if that is nothing; and which copies are to be steps
    /// behind that.
    fn delta<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        reached: &mut Reached,
        reading: &mut Reading<'a>,
        mut roots: Vec<Allocation>,
        end: Instant,
    ) -> Result<(Option<SnapshotId>, Vec<Moved>), Untaken> {
        let memory = lock(&self.memory);
        reached.forget_gone(&memory);
        let found = mem::take(&mut reached.found);
        roots.extend(found.into_iter().filter(|found| memory.is_same(found)));
        let anew = reached.led_anew(&memory);
        drop(memory);
        let written = self.copies.written();
        if written.elsewhere && !mem::replace(&mut reached.told_of_copies, true) {
            let text =
                "a copy or a write of an image does not say what it writes, or when: all memory of GPUs was read again";
            lock(&self.file).tell_of_region(Severity::Info, text)?;
        }
        let mut delta = self.a_delta(reached, reading, written, end);
        delta.roots = roots;
        delta.anew = anew;
        let left = delta.left;
        let read = lock(&self.file).snapshot(interceptor, None, &mut delta, end)?;
        let (unread, new, exact) =
            (mem::take(&mut delta.unread), mem::take(&mut delta.new), mem::take(&mut delta.exact));
        if reached.has_hashes && !mem::replace(&mut reached.told_of_hashes, true) {
            let text = "the region reaches more memory of the host than is kept to be compared: \
                        of some, whole chunks of 64 KiB are written where a byte has changed";
            lock(&self.file).tell_of_region(Severity::Info, text)?;
        }
        self.tell_unread(interceptor, unread)?;
        self.tell_of_aperture(reached, &new)?;
        Ok((self.read_in_full(interceptor, read, left)?, exact))
    }

    /// Writes the steps of copies and fills, the first with what has changed before; what is left of that for the next step.
    fn write_copies(
        &self,
        region: &Region,
        reached: &mut Reached,
        mut delta: Option<SnapshotId>,
        copies: Vec<Moved>,
    ) -> Result<Option<SnapshotId>, Untaken> {
        for moved in copies {
            reached.steps += 1;
            reached.since_checkpoint += 1;
            let waited = lock(&region.chosen).order.now(0);
            lock(&self.file).copy_step(&moved, (reached.steps, delta.take(), waited))?;
        }
        Ok(delta)
    }

    /// Notes once that the host can write memory of a GPU that is not compared.
    fn tell_of_aperture(&self, reached: &mut Reached, new: &[Allocation]) -> Result<(), Untaken> {
        let mut of_gpus = new.iter().filter(|one| one.is_of_gpus_only()).peekable();
        let is_off = std::env::var_os(WITHOUT_APERTURE).is_some_and(|value| value == "0");
        if reached.told_of_aperture || is_off || of_gpus.peek().is_none() {
            return Ok(());
        }
        let Some(mappings) = HostMappings::now() else { return Ok(()) };
        if of_gpus.any(|one| mappings.overlap(one.base, one.end())) {
            reached.told_of_aperture = true;
            let text = format!(
                "the host can write memory of a GPU that was reached, as HIP does for small copies: such writes are not captured; \
                 {WITHOUT_APERTURE}=0 keeps HIP from it"
            );
            lock(&self.file).tell_of_region(Severity::Info, &text)?;
        }
        Ok(())
    }

    /// All memory that the region has reached, as it is now.
    fn whole<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        reached: &mut Reached,
        reading: &mut Reading<'a>,
        end: Instant,
    ) -> Result<Option<SnapshotId>, Untaken> {
        reached.forget_gone(&lock(&self.memory));
        let all = reached.allocations();
        let left = lock(&self.file).left();
        self.limits.allow(all.iter().map(|allocation| allocation.size).sum(), 1, left)?;
        let span = lock(&self.memory).span();
        let mut whole = Whole { capture: self, reading, reached, all, next: 0, end, span, found: Vec::new() };
        let read = lock(&self.file).snapshot(interceptor, None, &mut whole, end)?;
        let found = mem::take(&mut whole.found);
        if !found.is_empty() {
            let text = format!(
                "kernels have written addresses of {} allocations that were not reached until step {}: what steps before that \
                 may have done with them cannot be replayed",
                found.len(),
                reached.steps
            );
            lock(&self.file).tell_of_region(Severity::Info, &text)?;
            reached.found.extend(found);
        }
        self.read_in_full(interceptor, read, left)
    }

    fn read_in_full(&self, interceptor: &Interceptor, read: Read, left: u64) -> Result<Option<SnapshotId>, Untaken> {
        self.tell_unread(interceptor, read.unread)?;
        match read.over {
            None => Ok(read.id),
            Some(Over::Bytes) => Err(crate::capture::hold::TooMuch::Bytes { bytes: read.bytes, left }.into()),
            Some(Over::Time) => Err(Untaken::Held(self.limits.hold)),
            Some(Over::TooMuch(why)) => Err(why.into()),
        }
    }

    fn tell_unread(&self, interceptor: &Interceptor, unread: Vec<String>) -> Result<(), Untaken> {
        for what in unread {
            if lock(&self.file).lost(&what)? {
                interceptor.notice(format!("capture: {what}"));
            }
        }
        Ok(())
    }

    /// Writes the end of the region. If it did not fail, the memory after is there: everything is at rest. Where no dispatch has ended it,
    /// the host and copies may have changed memory since the last step.
    fn end_region<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        region: &'a Region,
        reading: &mut Option<Reading<'a>>,
        failed: Option<Untaken>,
        may_have_changed: bool,
    ) {
        let mut reached = lock(&region.reached);
        let mut reason = lock(&region.chosen).reason.clone();
        let mut after = None;
        let ended = (|| match failed {
            Some(Untaken::File(error)) => Err(error.into()),
            Some(why @ Untaken::Stopped) => {
                reason.get_or_insert(why.to_string());
                Ok(())
            }
            Some(why) => {
                reason = Some(why.to_string());
                Ok(())
            }
            None => {
                let end = Instant::now() + self.limits.hold;
                let reading = self.reading(interceptor, reading)?;
                let changed = match may_have_changed {
                    true => {
                        let (delta, copies) = self.delta(interceptor, &mut reached, reading, Vec::new(), end)?;
                        self.write_copies(region, &mut reached, delta, copies)?
                    }
                    false => None,
                };
                self.write_others(region, &mut reached, None, changed)?;
                match self.whole(interceptor, &mut reached, reading, end) {
                    Ok(snapshot) => after = snapshot,
                    Err(Untaken::File(error)) => return Err(Untaken::File(error)),
                    Err(why) => {
                        reason.get_or_insert(format!("the memory after it was not captured: {why}"));
                    }
                }
                Ok(())
            }
        })();
        let ended = match ended {
            Err(Untaken::File(error)) => Err(error),
            Err(why) => {
                reason = Some(why.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        };
        let written = ended.and_then(|()| {
            let mut file = lock(&self.file);
            match reached.has_begun {
                true => file.region_end(reached.steps, after, reason.as_deref()),
                false => file.untaken(reason.as_deref().unwrap_or_default()),
            }
        });
        self.check(interceptor, written);
        self.copies.forget_written();
        *reached = Reached::default();
        drop(reached);
        region.over();
        match reason {
            Some(why) => interceptor.off(format!("capture: the region has ended: {why}")),
            None => interceptor.notice("capture: the region is complete"),
        }
    }
}
