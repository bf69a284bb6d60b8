//! What packets of a region depend on in other queues: what the host knew when it rang the doorbell, and what barriers wait for.
//!
//! Dispatches are held, and run one at a time, so that each runs behind all others. That says nothing of the application. What it can have
//! relied on is what was complete when it rang the doorbell, whatever was held then, and what completes the signals of its barriers.
//!
//! # Threads
//! Publishers, each with its queue's lock, and the capture thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;

use hsa_sys::abi::aql::{Packet, PacketType};
use logdur_capture::Completed;
use logdur_intercept::queue::{Queue, Ring};

use super::Other;
use crate::capture::copies;

/// What a barrier waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// These packets.
    For(Vec<Completed>),
    /// Something that is not known, as a store of the host: what is complete once the barrier is.
    Anything,
}

/// What is known of packets when the host rings for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::capture) struct AtDoorbell {
    /// How far other queues had come.
    pub(in crate::capture) completed: Vec<Completed>,
    /// The ranges of ROCTx that were open in the thread that rang.
    pub(in crate::capture) ranges: Vec<String>,
    /// How many bytes of GPUs copies had brought to the host.
    pub(in crate::capture) host_had: u64,
}

/// What is known of the order of packets. Queues have their numbers.
#[derive(Default)]
pub(super) struct Order {
    /// Of each queue, the packet behind its last one that is complete and in order.
    completed: HashMap<u64, u64>,
    /// The same of barriers that wait for nothing any more and are not in order yet: the host may know of them.
    passed: HashMap<u64, u64>,
    /// Of each queue, where packets end that were rung for together, and what was known then.
    rung: HashMap<u64, VecDeque<(u64, AtDoorbell)>>,
    /// What copies had brought to the host at the last doorbell.
    host_had: u64,
    /// The packets that complete signals, by the signals' handles.
    producers: HashMap<u64, Vec<Completed>>,
    /// By queue and index.
    barriers: HashMap<(u64, u64), Waits>,
}

/// The later one of what is known of each queue.
fn join(all: &mut Vec<Completed>, more: &[Completed]) {
    for other in more {
        match all.iter_mut().find(|known| known.queue == other.queue) {
            Some(known) => known.index = known.index.max(other.index),
            None => all.push(other.clone()),
        }
    }
    all.sort_by_key(|completed| completed.queue);
}

/// How far queues have come, but for one.
fn others(all: &HashMap<u64, u64>, own: u64) -> Vec<Completed> {
    let others = all.iter().filter(|(queue, _)| **queue != own);
    let mut all: Vec<Completed> = others.map(|(&queue, &index)| Completed { queue, index }).collect();
    all.sort_by_key(|completed| completed.queue);
    all
}

fn number(queue: &Queue) -> u64 {
    queue.id.load(Ordering::Relaxed)
}

impl Order {
    /// Packets of a queue are complete, up to this one.
    pub(super) fn has_completed(&mut self, queue: u64, index: u64) {
        let end = self.completed.entry(queue).or_default();
        *end = (*end).max(index + 1);
    }

    /// Looks which published packets that are no dispatches wait for nothing any more: nothing keeps the packet processor from them.
    pub(super) fn pass(&mut self, others: &[Other]) {
        loop {
            let mut stuck = HashSet::new();
            let next = others.iter().find(|other| {
                let queue = number(other.queue);
                let is_met = match &other.waits {
                    Waits::For(packets) => {
                        packets.iter().all(|of| self.is_complete(of) || self.has_passed(of.queue, of.index))
                    }
                    Waits::Anything => false,
                };
                let is_new = !self.has_passed(queue, other.index + 1);
                // What is behind one that waits is not looked at.
                !stuck.contains(&queue) && is_new && (is_met || !stuck.insert(queue))
            });
            let Some(other) = next else { return };
            self.passed.insert(number(other.queue), other.index + 1);
        }
    }

    /// True for a packet of a queue, by the index behind it, that waits for nothing any more.
    pub(super) fn has_passed(&self, queue: u64, end: u64) -> bool {
        self.passed.get(&queue).is_some_and(|passed| *passed >= end)
    }

    fn is_complete(&self, packet: &Completed) -> bool {
        self.completed.get(&packet.queue).is_some_and(|end| *end >= packet.index)
    }

    /// How far other queues have come, as far as that is in order.
    pub(super) fn now(&self, own: u64) -> Vec<Completed> {
        others(&self.completed, own)
    }

    /// The host has written packets, and rung for them, while these ranges were open and copies had brought so many bytes of GPUs to it.
    pub(super) fn written(
        &mut self,
        queue: &Queue,
        ring: &Ring,
        packets: Range<u64>,
        (ranges, host_had): (Vec<String>, u64),
    ) {
        let (own, published) = (number(queue), ring.published.load(Ordering::Relaxed));
        self.host_had = self.host_had.max(host_had);
        let now = AtDoorbell { ranges, ..self.known(own) };
        let rung = self.rung.entry(own).or_default();
        while rung.front().is_some_and(|(end, _)| *end <= published) {
            rung.pop_front();
        }
        rung.push_back((packets.end, now));
        for index in packets {
            // SAFETY: the packet is not published, so that the application may not destroy the signals that it waits for.
            let value = |signal: u64| unsafe { copies::value(signal) };
            self.sees(own, index, &ring.slot(index).read(), value);
        }
    }

    /// A packet that is written and not published.
    fn sees(&mut self, queue: u64, index: u64, packet: &Packet, value: impl Fn(u64) -> i64) {
        let waits = match packet.packet_type() {
            PacketType::BarrierAnd => {
                let mut waits = Waits::For(Vec::new());
                for signal in packet.dependencies().into_iter().filter(|signal| *signal != 0) {
                    let producers = self.producers.get(&signal).map_or(&[][..], Vec::as_slice);
                    let is_over = value(signal) == 0;
                    // One that all have completed was given a value again.
                    match &mut waits {
                        Waits::For(all) if is_over || producers.iter().any(|packet| !self.is_complete(packet)) => {
                            join(all, producers);
                        }
                        Waits::Anything if is_over => {}
                        _ => waits = Waits::Anything,
                    }
                }
                Some(waits)
            }
            PacketType::KernelDispatch => None,
            _ if packet.is_extended_dispatch() => None,
            // One signal of several is enough, or one with a condition.
            _ => Some(Waits::Anything),
        };
        if let Some(waits) = waits {
            self.barriers.insert((queue, index), waits);
        }
        let signal = packet.completion_signal();
        if signal != 0 {
            join(self.producers.entry(signal).or_default(), &[Completed { queue, index: index + 1 }]);
        }
    }

    /// What is known at a doorbell of a queue.
    fn known(&self, own: u64) -> AtDoorbell {
        let mut completed = self.now(own);
        join(&mut completed, &others(&self.passed, own));
        AtDoorbell { completed, ranges: Vec::new(), host_had: self.host_had }
    }

    /// What was known when the host rang for a packet, which is asked once, in order.
    pub(super) fn at_doorbell(&mut self, queue: u64, index: u64) -> AtDoorbell {
        let now = self.known(queue);
        let Some(rung) = self.rung.get_mut(&queue) else { return now };
        while rung.front().is_some_and(|(end, _)| *end <= index) {
            rung.pop_front();
        }
        rung.front().map_or(now, |(_, known)| known.clone())
    }

    /// What a packet that is no dispatch waits for, which is asked once.
    pub(super) fn of_barrier(&mut self, queue: u64, index: u64) -> Waits {
        self.barriers.remove(&(queue, index)).unwrap_or(Waits::Anything)
    }

    /// Puts packets that are over behind all that they wait for, and says what that was. What is not over when a region ends depends on
    /// nothing that is not.
    pub(super) fn put_in_order(&mut self, others: Vec<Other>) -> Vec<(Other, AtDoorbell)> {
        let (mut left, mut all) = (VecDeque::from(others), Vec::new());
        while !left.is_empty() {
            let is_first = |at: usize| {
                let queue = left.get(at).map(|other: &Other| number(other.queue));
                left.iter().take(at).all(|earlier| Some(number(earlier.queue)) != queue)
            };
            let may_go = |other: &Other| {
                let waits = match &other.waits {
                    Waits::For(packets) => packets.as_slice(),
                    Waits::Anything => &[],
                };
                other.known.completed.iter().chain(waits).all(|packet| self.is_complete(packet))
            };
            let next = (0..left.len()).find(|&at| is_first(at) && left.get(at).is_some_and(may_go));
            let Some(other) = left.remove(next.unwrap_or(0)) else { break };
            let own = number(other.queue);
            let AtDoorbell { completed: mut waited, ranges, host_had } = other.known.clone();
            match &other.waits {
                Waits::For(packets) => {
                    let complete = packets.iter().filter(|packet| packet.queue != own && self.is_complete(packet));
                    join(&mut waited, &complete.cloned().collect::<Vec<_>>());
                }
                Waits::Anything => join(&mut waited, &self.now(own)),
            }
            self.has_completed(own, other.index);
            all.push((other, AtDoorbell { completed: waited, ranges, host_had }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barrier(signals: &[u64]) -> Packet {
        let mut words = [0; 16];
        words[0] = 3;
        for (n, signal) in signals.iter().enumerate() {
            words[2 + 2 * n] = *signal as u32;
        }
        Packet(words)
    }

    fn dispatch(signal: u64) -> Packet {
        let mut words = [0; 16];
        words[0] = 2;
        let mut packet = Packet(words);
        packet.set_completion_signal(signal);
        packet
    }

    #[test]
    fn a_barrier_waits_for_the_packets_that_complete_its_signals_and_for_anything_that_is_not_known() {
        let mut order = Order::default();
        let one = |_| 1;
        order.sees(1, 4, &dispatch(0x100), one);
        order.sees(2, 9, &dispatch(0x200), one);
        order.sees(3, 0, &barrier(&[0x100, 0x200]), one);
        let all = vec![Completed { queue: 1, index: 5 }, Completed { queue: 2, index: 10 }];
        assert_eq!(order.of_barrier(3, 0), Waits::For(all));
        // It is complete, which the capture may learn later than the host.
        order.sees(3, 1, &barrier(&[0x100]), |_| 0);
        assert_eq!(order.of_barrier(3, 1), Waits::For(vec![Completed { queue: 1, index: 5 }]));
        order.sees(3, 2, &barrier(&[0x300]), one);
        assert_eq!(order.of_barrier(3, 2), Waits::Anything, "nobody completes that signal but the host");
        order.has_completed(1, 4);
        order.sees(3, 3, &barrier(&[0x200, 0x100]), one);
        assert_eq!(order.of_barrier(3, 3), Waits::Anything, "the signal was given a value again");
    }

    #[test]
    fn packets_depend_on_what_was_complete_at_their_own_doorbell() {
        let mut order = Order::default();
        let known = |order: &Order, ranges: &[&str]| AtDoorbell {
            completed: order.now(1),
            host_had: order.host_had,
            ranges: ranges.iter().map(|name| (*name).to_owned()).collect(),
        };
        order.rung.insert(1, VecDeque::from([(2, known(&order, &["step", "layer"]))]));
        order.has_completed(2, 6);
        order.host_had = 100;
        let now = known(&order, &[]);
        order.rung.get_mut(&1).unwrap().push_back((4, now));
        // A barrier that is complete is known before it is in order.
        order.passed.insert(2, 8);
        let [first, third, later] = [0, 2, 4].map(|index| order.at_doorbell(1, index));
        assert_eq!((first.completed, first.ranges), (vec![], vec!["step".to_owned(), "layer".to_owned()]));
        assert_eq!((third.completed, third.ranges), (vec![Completed { queue: 2, index: 7 }], vec![]));
        assert_eq!((first.host_had, third.host_had), (0, 100));
        assert_eq!(later.completed, [Completed { queue: 2, index: 8 }], "no doorbell was seen: as far as it is now");
    }
}
