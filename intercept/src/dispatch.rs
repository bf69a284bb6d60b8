//! Prepares packets for the GPU. A kernel dispatch may run another kernel; it gets a record and, if it has none, a completion signal.
//! All other packets pass unchanged.
//!
//! # Threads
//! The thread that publishes the queue's packets. Nothing here waits for another thread of ours.

use std::sync::atomic::Ordering;

use hsa::OwnSignal;
use hsa_sys::abi::aql::{Packet, PacketType, Slot, vendor};
use hsa_sys::abi::signal::{Signal, kind};
use logdur_journal::account::Event;
use logdur_journal::{Record, Shape, State, flag};

use crate::blocks::{Cursor, RecordRef};
use crate::interceptor::Interceptor;
use crate::interceptor::ports::Changed;
use crate::kernarg_ring::Borrowed;
use crate::pending::SignalStays;
use crate::queue::{Asker, LastKernel, Publisher, Queue};
use crate::window::Window;

/// How many records before its use a record's cache line is asked for: the threads that read records leave it elsewhere.
const AHEAD: usize = 16;

/// Who asked for a dispatch and when, and its number.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u64,
    /// When its doorbell was rung, in ticks of the host's counter.
    time: u64,
    asker: Asker,
}

/// How a dispatch is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// It has no signal: it gets one of ours.
    Own,
    /// Its own signal is left alone and read before it is used again.
    AppSignal,
    /// One of ours stands in; the reaper copies the times to the application's and decrements it.
    Forwarded,
}

/// How to time a dispatch with a signal of its own; `can_stay` says whether it is one of ordinary memory that only this
/// process uses, `enter` enters it in the table of pending signals.
fn timing(can_stay: impl FnOnce() -> bool, enter: impl FnOnce() -> SignalStays) -> Timing {
    if can_stay() && enter() == SignalStays::Yes { Timing::AppSignal } else { Timing::Forwarded }
}

impl Publisher {
    /// Makes packets, `dispatches` kernels among them, ready for the GPU, which gets them next, and records the kernels. `now` is
    /// when their doorbell was rung, once that is known. Each packet comes with what is known of who asked for it.
    pub(crate) fn observe<'a>(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        dispatches: u64,
        now: &mut Option<u64>,
        slots: impl Iterator<Item = (&'a Slot, Asker)>,
    ) {
        if !interceptor.is_active() {
            return self.pass_unseen(interceptor, queue, dispatches, slots);
        }
        let (mut id, mut time) = (0, 0);
        if dispatches > 0 {
            // First: the record that it asks for is there when the counters below are read.
            self.ask_for_record(queue);
            id = interceptor.records.header().next_id().fetch_add(dispatches, Ordering::Relaxed);
            if let Some(window) = interceptor.ports.window {
                return self.observe_in_window(interceptor, queue, window, id, now, slots);
            }
            time = *now.get_or_insert_with(|| interceptor.clock.ticks());
        }
        let change = interceptor.ports.change.is_some();
        // No code is loaded or destroyed between the packets of one pass.
        let changes = interceptor.kernel_numbers.changes();
        let mut last = match self.kernel {
            last if last.changes == changes => last,
            _ => LastKernel { changes, ..LastKernel::default() },
        };
        for (slot, asker) in slots {
            // A copy that stays in registers: what needs all of it reads the slot again.
            let packet = slot.read();
            if !packet.is_dispatch() {
                self.observe_other(interceptor, queue, slot);
                continue;
            }
            let asked = Asked { id, time, asker };
            if !change || !self.change(interceptor, queue, slot, asked, true) {
                let object = packet.kernel_object();
                if object != last.object {
                    last = LastKernel { changes, object, number: interceptor.kernel_numbers.get(object) as u32 };
                }
                let recorded = self.record(interceptor, queue, &packet, last.number, asked);
                if let Some((_, Some(own))) = recorded {
                    slot.set_completion_signal(own.handle());
                }
            }
            id += 1;
        }
        self.kernel = last;
    }

    /// As [`observe`](Self::observe), where not all dispatches are recorded: `id` is the number of the first one.
    #[inline(never)]
    fn observe_in_window<'a>(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        window: &Window,
        mut id: u64,
        now: &mut Option<u64>,
        slots: impl Iterator<Item = (&'a Slot, Asker)>,
    ) {
        let (change, mut outside) = (interceptor.ports.change.is_some(), 0);
        for (slot, asker) in slots {
            let packet = slot.read();
            if !packet.is_dispatch() {
                self.observe_other(interceptor, queue, slot);
                continue;
            }
            let kernel = || interceptor.kernel_numbers.get(packet.kernel_object()) as u32;
            interceptor.ports.count.iter().for_each(|count| count.comes(kernel()));
            let is_inside = window.takes(id);
            interceptor.ports.count.iter().for_each(|count| count.has_come(kernel()));
            let time = if is_inside || change { *now.get_or_insert_with(|| interceptor.clock.ticks()) } else { 0 };
            let asked = Asked { id, time, asker };
            if change && self.change(interceptor, queue, slot, asked, is_inside) {
                // It is recorded, or counted.
            } else if is_inside {
                let recorded = self.record(interceptor, queue, &packet, kernel(), asked);
                if let Some((_, Some(own))) = recorded {
                    slot.set_completion_signal(own.handle());
                }
            } else {
                self.pass(interceptor, queue, slot, &packet);
                outside += 1;
            }
            id += 1;
        }
        if outside > 0 {
            interceptor.records.header().count(Event::DispatchOutside, outside);
        }
    }

    /// Lets packets pass without records, since the library is passive. `dispatches` of them are of kernels, and are counted.
    #[cold]
    fn pass_unseen<'a>(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        dispatches: u64,
        slots: impl Iterator<Item = (&'a Slot, Asker)>,
    ) {
        let header = interceptor.records.header();
        header.next_id().fetch_add(dispatches, Ordering::Relaxed);
        header.count(Event::UnrecordedDispatch, dispatches);
        for (slot, _) in slots {
            let packet = slot.read();
            if packet.is_dispatch() {
                self.pass(interceptor, queue, slot, &packet);
            } else {
                self.observe_other(interceptor, queue, slot);
            }
        }
    }

    /// Lets a packet pass without a record. It completes behind packets before it whose signals the reaper has yet to decrement.
    fn pass(&mut self, interceptor: &Interceptor, queue: &Queue, slot: &Slot, packet: &Packet) {
        if packet.completion_signal() == 0 {
            return;
        }
        interceptor.pending.before_reuse(packet.completion_signal());
        if queue.forwarding.load(Ordering::Acquire) > 0
            && let Some(own) = self.keep_in_order(interceptor, queue, packet)
        {
            slot.set_completion_signal(own.handle());
        }
    }

    /// Prepares a barrier or a vendor packet.
    #[inline(never)]
    fn observe_other(&mut self, interceptor: &'static Interceptor, queue: &Queue, slot: &Slot) {
        let packet = slot.read();
        match packet.packet_type() {
            PacketType::VendorSpecific if packet.setup() as u8 == vendor::PM4_IB => {}
            PacketType::VendorSpecific if packet.setup() as u8 != vendor::BARRIER_VALUE => {
                unknown_vendor_packet(interceptor, packet.setup() as u8);
            }
            _ => self.pass(interceptor, queue, slot, &packet),
        }
    }

    /// Lets another kernel run in a dispatch, if a feature chooses one; false if it runs as it is.
    #[inline(never)]
    fn change(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        slot: &Slot,
        asked: Asked,
        recorded: bool,
    ) -> bool {
        let packet = slot.read();
        if packet.is_extended_dispatch() {
            no_change_of_extended_dispatch(interceptor);
            return false;
        }
        let Some(feature) = interceptor.ports.change else { return false };
        let Some(changed) = feature.change(&packet, queue.address(), recorded) else { return false };
        // The memory of arguments that were laid out anew is given back by its record.
        if !recorded && changed.resource.is_none() && changed.kernargs.is_none() {
            slot.take_kernel_of(&changed.packet);
            self.pass(interceptor, queue, slot, &changed.packet);
            interceptor.records.header().count(Event::DispatchOutside, 1);
            return true;
        }
        self.record_changed(interceptor, queue, slot, changed, asked);
        true
    }

    /// Lets another kernel run, and records its dispatch.
    fn record_changed(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        slot: &Slot,
        changed: Changed,
        asked: Asked,
    ) {
        let recorded = self.record(interceptor, queue, &changed.packet, changed.kernel, asked);
        let Some((record, own)) = recorded else {
            match (changed.resource, changed.kernargs) {
                // No thread would learn when it is complete.
                (Some(resource), kernargs) => {
                    kernargs.into_iter().for_each(Borrowed::give_back);
                    resource.owner.recorded(resource.token, None);
                }
                // Memory of arguments that has no record is not used again.
                (None, _) => slot.take_kernel_of(&changed.packet),
            }
            return;
        };
        slot.take_kernel_of(&changed.packet);
        record.add_flags(changed.flags);
        if let Some(own) = own {
            slot.set_completion_signal(own.handle());
        }
        if let Some(resource) = changed.resource {
            resource.owner.recorded(resource.token, Some(record));
        }
        if let Some(kernargs) = changed.kernargs {
            kernargs.until_complete(record.progress());
        }
    }

    /// Records a dispatch; returns the signal that has to be in its packet instead of its own. `None` if the dispatch is not
    /// recorded: its packet passes as it is.
    #[inline(always)]
    fn record(
        &mut self,
        interceptor: &'static Interceptor,
        queue: &Queue,
        packet: &Packet,
        kernel: u32,
        asked: Asked,
    ) -> Option<(RecordRef, Option<OwnSignal>)> {
        let to = match self.free.record() {
            Some(record) => self.used(queue, record),
            None if self.passes_unrecorded(interceptor, queue, packet.completion_signal()) => return None,
            None => self.free_record(interceptor, queue)?,
        };
        fill(to.record(), packet, asked, kernel);
        let barrier = if packet.has_barrier_bit() { flag::BARRIER } else { 0 };
        let app = packet.completion_signal();
        let timing = if app == 0 { Timing::Own } else { leave(interceptor, queue, to, app, barrier) };
        if timing == Timing::AppSignal {
            return Some((to, None));
        }
        let Some(own) = self.own_signal(interceptor, queue) else {
            // Without a signal the reaper cannot tell when it ends. The application's packet passes as it is.
            to.set_flags(barrier | flag::NO_TIMES);
            to.set_state(State::Done);
            return Some((to, None));
        };
        to.set_flags(if timing == Timing::Forwarded { barrier | flag::FORWARDED } else { barrier });
        to.progress().signal.store(own.handle(), Ordering::Relaxed);
        if timing == Timing::Forwarded {
            stand_in(interceptor, queue, to, app);
        }
        to.set_state(State::InFlight);
        Some((to, Some(own)))
    }

    /// Lets a signal of ours stand in for the signal of a barrier or vendor packet, while it does for dispatches before it:
    /// a thread that sees the packet complete has to see them complete.
    fn keep_in_order(&mut self, interceptor: &Interceptor, queue: &Queue, packet: &Packet) -> Option<OwnSignal> {
        let own = self.own_signal(interceptor, queue)?;
        let Some(to) = self.free_record(interceptor, queue) else {
            self.stash.push(own);
            return None;
        };
        let barrier = if packet.has_barrier_bit() { flag::BARRIER } else { 0 };
        to.set_flags(barrier | flag::FORWARDED | flag::NO_DISPATCH);
        to.progress().signal.store(own.handle(), Ordering::Relaxed);
        stand_in(interceptor, queue, to, packet.completion_signal());
        to.set_state(State::InFlight);
        Some(own)
    }

    /// Asks for the cache lines of the next free record.
    #[inline]
    fn ask_for_record(&self, queue: &Queue) {
        RecordRef { block: self.free.block, slot: self.free.slot }.ask_ahead_to_fill(0, &queue.spare);
    }

    /// The next free record; the publisher moves past it. `None` if the system has no memory left.
    #[inline]
    pub(crate) fn free_record(&mut self, interceptor: &Interceptor, queue: &Queue) -> Option<RecordRef> {
        let record = self.next_record(interceptor, queue)?;
        Some(self.used(queue, record))
    }

    /// Moves past the next free record, which is this one.
    #[inline]
    fn used(&mut self, queue: &Queue, record: RecordRef) -> RecordRef {
        record.ask_ahead_to_fill(AHEAD, &queue.spare);
        self.records += 1;
        self.free.advance();
        record
    }

    /// The record that the next dispatch is going to have. `None` if the system has no memory left.
    #[inline]
    pub fn next_record(&mut self, interceptor: &Interceptor, queue: &Queue) -> Option<RecordRef> {
        loop {
            if let Some(record) = self.free.record() {
                return Some(record);
            }
            self.next_block(interceptor, queue)?;
        }
    }

    /// Goes on in another block.
    #[cold]
    fn next_block(&mut self, interceptor: &Interceptor, queue: &Queue) -> Option<()> {
        let next = interceptor.blocks.next(&queue.spare, queue.id.load(Ordering::Relaxed), queue.agent)?;
        self.free.block.set_next(next);
        self.free = Cursor::start(next);
        // It puts another one aside.
        interceptor.records_changed();
        Some(())
    }

    /// True when the records have reached their limit, or the system has no memory for more, so that a dispatch with this signal is only
    /// counted. Not while signals stand in for those of dispatches before it, if there is memory: a thread that sees it complete has to see
    /// them complete.
    #[cold]
    fn passes_unrecorded(&mut self, interceptor: &Interceptor, queue: &Queue, app: u64) -> bool {
        let may = !interceptor.blocks.are_exhausted() || queue.forwarding.load(Ordering::Acquire) > 0;
        if may && self.next_record(interceptor, queue).is_some() {
            return false;
        }
        if app != 0 {
            interceptor.pending.before_reuse(app);
        }
        interceptor.records.header().count(Event::UnrecordedDispatch, 1);
        true
    }

    /// A signal of ours.
    #[inline]
    fn own_signal(&mut self, interceptor: &Interceptor, queue: &Queue) -> Option<OwnSignal> {
        if self.stash.is_empty() {
            self.restock(interceptor, queue);
        }
        self.stash.pop()
    }

    /// Takes the signals that the reaper has put there; makes some here and now only if there are none.
    #[cold]
    fn restock(&mut self, interceptor: &Interceptor, queue: &Queue) {
        if let Ok(mut returned) = queue.returned.try_lock() {
            std::mem::swap(&mut self.stash, &mut returned);
        }
        if self.stash.is_empty()
            && let Err(error) = interceptor.signals.take(interceptor.api(), &mut self.stash)
        {
            interceptor.notice_once("no-signals", format!("dispatches pass without times: {error}"));
        }
    }
}

impl Queue {
    /// The next record that the queue's publisher is going to use; `None` while its lock is taken, or if there is no memory for one.
    pub fn next_record(&self, interceptor: &Interceptor) -> Option<RecordRef> {
        let mut record = None;
        self.publisher.work(|publisher| record = publisher.next_record(interceptor, self));
        record
    }
}

/// Counts a dispatch that no other kernel can replace, since its format has fields beyond the kernel's: clusters, and on some queues a
/// second ring that describes the original kernel.
#[cold]
fn no_change_of_extended_dispatch(interceptor: &Interceptor) {
    interceptor.notice_once(
        "extended-swap",
        "cache: kernels of dispatches in AMD's extended format, which gfx1250 takes, are not replaced",
    );
}

/// A packet passes that may dispatch a kernel.
#[cold]
fn unknown_vendor_packet(interceptor: &Interceptor, format: u8) {
    interceptor.notice_once(
        "vendor-packet",
        format!(
            "packets of AMD's format {format} are not known and pass unseen; kernels that they dispatch have no rows"
        ),
    );
}

/// Leaves an application's signal in the packet of a record, if it can stay there.
#[inline(never)]
fn leave(interceptor: &'static Interceptor, queue: &Queue, to: RecordRef, app: u64, barrier: u8) -> Timing {
    // SAFETY: a packet's completion signal is 0 or the handle of a signal that lives until the packet is complete.
    let kind_of = || unsafe { Signal::from_handle(app) }.kind.load(Ordering::Relaxed);
    // What is entered in the table may be harvested at once by another thread: the record is whole before that.
    to.set_flags(barrier | flag::APP_SIGNAL);
    to.progress().signal.store(app, Ordering::Relaxed);
    // What the application sees of this packet it must not see before what was ahead of it.
    let in_order = queue.forwarding.load(Ordering::Acquire) == 0 && !queue.defers_completions.load(Ordering::Relaxed);
    let can_stay = || in_order && kind_of() == kind::USER && !interceptor.pending.is_shared_with_others(app);
    timing(can_stay, || interceptor.pending.enter(app, to))
}

fn stand_in(interceptor: &Interceptor, queue: &Queue, to: RecordRef, app: u64) {
    to.app_signal().forward_to.store(app, Ordering::Relaxed);
    queue.forwarding.fetch_add(1, Ordering::Relaxed);
    interceptor.reaper.forwarding.fetch_add(1, Ordering::Relaxed);
}

#[inline(always)]
fn fill(record: &Record, packet: &Packet, asked: Asked, kernel: u32) {
    record.dispatch.store(asked.time, Ordering::Relaxed);
    record.kernel_object().store(packet.kernel_object(), Ordering::Relaxed);
    record.id.store(asked.id, Ordering::Relaxed);
    record.thread.store(asked.asker.thread, Ordering::Relaxed);
    record.site.store(asked.asker.site, Ordering::Relaxed);
    record.set_shape(Shape {
        kernel,
        grid: packet.grid_size(),
        workgroup: packet.workgroup_size(),
        scratch_bytes: packet.private_segment_size(),
        lds_bytes: packet.group_segment_size(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ordinary_signal_that_nothing_else_is_pending_on_is_left_in_its_packet() {
        assert_eq!(timing(|| true, || SignalStays::Yes), Timing::AppSignal);
        assert_eq!(timing(|| true, || SignalStays::No), Timing::Forwarded);
        assert_eq!(timing(|| false, || unreachable!()), Timing::Forwarded);
    }
}
