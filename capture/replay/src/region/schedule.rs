//! Which steps of a part may run beside each other: each waits for what it depended on in the application, and for nothing else.
//!
//! Packets of a queue follow each other, as the barrier bits of their packets say. A packet of another queue is waited for if it was
//! complete when the host rang for the step, or completes a signal that a barrier before the step waits for. What is no packet, and a step
//! before which the host has changed known memory, is alone: all before it are complete, and none behind it has begun.

use std::collections::BTreeMap;

use logdur_capture::Completed;

/// What of a step decides when it may begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// The queue, and the index in it, of a packet.
    pub(super) packet: Option<(u64, u64)>,
    /// How far other queues must have come.
    pub(super) waited: Vec<Completed>,
    /// It has nothing to be launched: it is over when it may begin, and all before it in its queue are.
    pub(super) is_barrier: bool,
    /// It is alone.
    pub(super) is_alone: bool,
}

/// What may be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A step that is alone, and that nothing is in flight beside. Asked for once more, it is launched.
    Alone(usize),
    /// This packet goes to the queue of this number among those of the part.
    Launch(usize, usize),
    /// Nothing, before a packet is complete.
    Wait,
    /// All steps are complete.
    Over,
    /// Nothing is in flight, and this step waits for what no step does.
    Never(usize),
}

/// A queue of the part.
#[derive(Default)]
struct Lane {
    /// Its steps, in their order.
    steps: Vec<usize>,
    /// How many of them have begun, and how many are complete with all before them.
    begun: usize,
    complete: usize,
    in_flight: usize,
}

/// How far the steps of a part have come.
pub(super) struct Schedule {
    needs: Vec<Needs>,
    lanes: Vec<Lane>,
    /// Of each step, its lane, and for each thing waited for a lane and how many of its steps have to be complete.
    lane_of: Vec<Option<usize>>,
    waits: Vec<Vec<(usize, usize)>>,
    complete: Vec<bool>,
    /// The first step that is not complete.
    first: usize,
    /// The steps that are alone, the next one last, and whether it was prepared.
    alone: Vec<usize>,
    is_prepared: bool,
    most: usize,
}

impl Schedule {
    /// Of steps in their order. At most so many packets of a queue are in flight.
    pub(super) fn new(needs: Vec<Needs>, most: usize) -> Schedule {
        let mut numbers = BTreeMap::<u64, usize>::new();
        let (mut lanes, mut indices) = (Vec::<Lane>::new(), Vec::<Vec<u64>>::new());
        let mut lane_of = Vec::with_capacity(needs.len());
        for (step, needs) in needs.iter().enumerate() {
            let lane = needs.packet.map(|(queue, index)| {
                let lane = *numbers.entry(queue).or_insert(lanes.len());
                if lane == lanes.len() {
                    lanes.push(Lane::default());
                    indices.push(Vec::new());
                }
                lanes.get_mut(lane).into_iter().for_each(|lane| lane.steps.push(step));
                indices.get_mut(lane).into_iter().for_each(|all| all.push(index));
                lane
            });
            lane_of.push(lane);
        }
        let wait = |waited: &Completed| {
            let lane = *numbers.get(&waited.queue)?;
            Some((lane, indices.get(lane)?.partition_point(|index| *index < waited.index)))
        };
        let waits = needs.iter().map(|needs| needs.waited.iter().filter_map(wait).collect()).collect();
        let alone = needs.iter().enumerate().rev().filter(|(_, needs)| needs.is_alone).map(|(step, _)| step).collect();
        let complete = vec![false; needs.len()];
        Schedule { needs, lanes, lane_of, waits, complete, first: 0, alone, is_prepared: false, most }
    }

    /// How many queues there are.
    pub(super) fn queues(&self) -> usize {
        self.lanes.len()
    }

    /// How many steps are alone.
    pub(super) fn alone(&self) -> usize {
        self.needs.iter().filter(|needs| needs.is_alone).count()
    }

    /// How many packets are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight).sum()
    }

    fn may_begin(&self, step: usize, lane: &Lane) -> bool {
        let needs = self.needs.get(step);
        let is_over = |wait: &(usize, usize)| self.lanes.get(wait.0).is_none_or(|lane| lane.complete >= wait.1);
        let is_in_turn = match self.alone.last() {
            Some(&alone) if step == alone => self.is_prepared,
            alone => alone.is_none_or(|alone| step < *alone),
        };
        let in_queue = match needs.is_some_and(|needs| needs.is_barrier) {
            true => lane.complete == lane.begun,
            false => lane.in_flight < self.most,
        };
        is_in_turn && in_queue && self.waits.get(step).is_none_or(|waits| waits.iter().all(is_over))
    }

    /// What may be done now.
    pub(super) fn next(&mut self) -> Next {
        loop {
            if self.first == self.needs.len() {
                return Next::Over;
            }
            if self.alone.last() == Some(&self.first) && !self.is_prepared {
                self.is_prepared = true;
                return Next::Alone(self.first);
            }
            let begins = (0..self.lanes.len()).find_map(|number| {
                let lane = self.lanes.get(number)?;
                let step = *lane.steps.get(lane.begun)?;
                self.may_begin(step, lane).then_some((number, step))
            });
            let Some((number, step)) = begins else {
                return if self.in_flight() > 0 { Next::Wait } else { Next::Never(self.first) };
            };
            let is_barrier = self.needs.get(step).is_some_and(|needs| needs.is_barrier);
            if let Some(lane) = self.lanes.get_mut(number) {
                lane.begun += 1;
                lane.in_flight += usize::from(!is_barrier);
            }
            if !is_barrier {
                return Next::Launch(step, number);
            }
            self.is_over(step);
        }
    }

    /// A packet is complete, or what is no packet is done.
    pub(super) fn has_completed(&mut self, step: usize) {
        if let Some(lane) = self.lane_of.get(step).copied().flatten().and_then(|lane| self.lanes.get_mut(lane)) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
        }
        self.is_over(step);
    }

    fn is_over(&mut self, step: usize) {
        self.complete.get_mut(step).into_iter().for_each(|complete| *complete = true);
        let is_complete = |step: &usize| self.complete.get(*step).is_some_and(|complete| *complete);
        if let Some(lane) = self.lane_of.get(step).copied().flatten().and_then(|lane| self.lanes.get_mut(lane)) {
            while lane.steps.get(lane.complete).is_some_and(is_complete) {
                lane.complete += 1;
            }
        }
        while is_complete(&self.first) {
            self.first += 1;
        }
        if self.alone.last() == Some(&step) {
            self.alone.pop();
            self.is_prepared = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(queue: u64, index: u64, waited: &[(u64, u64)]) -> Needs {
        let waited = waited.iter().map(|&(queue, index)| Completed { queue, index }).collect();
        Needs { packet: Some((queue, index)), waited, ..Needs::default() }
    }

    fn barrier(queue: u64, index: u64, waited: &[(u64, u64)]) -> Needs {
        Needs { is_barrier: true, ..packet(queue, index, waited) }
    }

    /// What is launched until something has to be waited for.
    fn launched(schedule: &mut Schedule) -> Vec<usize> {
        let mut all = Vec::new();
        loop {
            match schedule.next() {
                Next::Launch(step, _) => all.push(step),
                next => {
                    assert_eq!(next == Next::Over, schedule.first == schedule.needs.len());
                    return all;
                }
            }
        }
    }

    #[test]
    fn queues_run_beside_each_other_and_a_step_waits_for_what_it_depended_on() {
        let needs = vec![packet(1, 0, &[]), packet(2, 7, &[]), packet(1, 1, &[(2, 8)]), packet(2, 8, &[])];
        let mut schedule = Schedule::new(needs, 4);
        assert_eq!(schedule.queues(), 2);
        assert_eq!(launched(&mut schedule), [0, 1, 3]);
        schedule.has_completed(3);
        assert_eq!(launched(&mut schedule), [0; 0], "a later packet of that queue is complete, and not all before it");
        schedule.has_completed(1);
        assert_eq!(launched(&mut schedule), [2]);
        schedule.has_completed(0);
        schedule.has_completed(2);
        assert_eq!(schedule.next(), Next::Over);
    }

    #[test]
    fn a_barrier_holds_its_queue_until_what_it_waits_for_is_complete() {
        let needs = vec![packet(1, 0, &[]), packet(2, 0, &[]), barrier(2, 1, &[(1, 1)]), packet(2, 2, &[])];
        let mut schedule = Schedule::new(needs, 4);
        assert_eq!(launched(&mut schedule), [0, 1]);
        schedule.has_completed(1);
        assert_eq!(launched(&mut schedule), [0; 0]);
        schedule.has_completed(0);
        assert_eq!(launched(&mut schedule), [3]);
    }

    #[test]
    fn what_is_alone_is_behind_all_before_it_and_in_front_of_all_behind_it() {
        let alone = |needs: Needs| Needs { is_alone: true, ..needs };
        let needs = vec![packet(1, 0, &[]), alone(Needs::default()), alone(packet(2, 0, &[])), packet(1, 1, &[])];
        let mut schedule = Schedule::new(needs, 4);
        assert_eq!((launched(&mut schedule), schedule.next()), (vec![0], Next::Wait));
        schedule.has_completed(0);
        assert_eq!(schedule.next(), Next::Alone(1));
        schedule.has_completed(1);
        assert_eq!(schedule.next(), Next::Alone(2));
        assert_eq!((launched(&mut schedule), schedule.alone()), (vec![2], 2));
        schedule.has_completed(2);
        assert_eq!(launched(&mut schedule), [3]);
    }

    #[test]
    fn what_never_comes_is_named_and_packets_in_flight_are_limited() {
        let mut schedule = Schedule::new(vec![packet(1, 0, &[(2, 1)]), packet(2, 0, &[(1, 1)])], 4);
        assert_eq!(schedule.next(), Next::Never(0));
        let mut schedule = Schedule::new((0..9).map(|index| packet(1, index, &[])).collect(), 4);
        assert_eq!((launched(&mut schedule), schedule.in_flight()), (vec![0, 1, 2, 3], 4));
    }
}
