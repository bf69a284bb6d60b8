//! What happens before what, as the check promises it: all accesses with vector clocks, and every pair is compared.

use std::collections::{BTreeMap, BTreeSet};

use amdgpu_emu::isa::access::Space;

use crate::program::{Action, Dispatch, Does};
use crate::rig::Event;

/// A place: LDS of a workgroup, or memory; the dword.
pub(crate) type Dword = (Option<u64>, u64);
/// Two instructions.
pub(crate) type Pair = (u64, u64);

/// Of each wave, up to which access its accesses to memory and to LDS are known.
type Clock = Vec<(u32, u32)>;

fn join(into: &mut Clock, other: &Clock) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (a.0.max(b.0), a.1.max(b.1));
    }
}

/// What was released at a location.
#[derive(Clone)]
struct Released {
    wave: usize,
    number: u32,
    done: (u32, u32),
    seen: Clock,
    fresh: Clock,
    /// It is a store, of a wave that had waited for all before.
    store: Option<bool>,
}

/// One store alone, of a wave that had waited for all before.
fn releases_alone(all: &[Released]) -> bool {
    all.len() == 1 && all[0].store == Some(true)
}

/// An access that was executed.
#[derive(Clone)]
struct Past {
    wave: usize,
    number: u32,
    pc: u64,
    does: Does,
    value: u32,
}

#[derive(Clone, Default)]
struct Wave {
    issued: u32,
    /// Numbers of accesses that are not waited for, and their space.
    outstanding: Vec<(u32, Space)>,
    /// The last access before it waited for memory, for LDS.
    drained: (u32, u32),
    /// What it gets once an access is waited for.
    pending: Vec<(u32, Vec<Released>)>,
    /// What it can tell others; beside it, what the last barrier ordered in its workgroup.
    seen: Clock,
    mates: Clock,
    fresh: Clock,
}

impl Wave {
    fn done(&self, space: Space) -> u32 {
        let first = self.outstanding.iter().find(|(_, of)| *of == space);
        first.map_or(self.issued, |(number, _)| number - 1)
    }
}

/// What two accesses are that nothing orders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Race {
    /// They leave what was there: each alone is no race.
    Same,
    Stores,
    Other,
}

/// The model.
pub(crate) struct Model<'d> {
    dispatch: &'d Dispatch,
    waves: Vec<Wave>,
    /// By byte.
    past: BTreeMap<Dword, Vec<Past>>,
    /// By dword.
    released: BTreeMap<Dword, Vec<Released>>,
    /// Locations that coherent loads read.
    coherent: BTreeSet<Dword>,
    races: Vec<(Dword, Pair, Race)>,
}

impl<'d> Model<'d> {
    pub(crate) fn new(dispatch: &'d Dispatch) -> Model<'d> {
        let all = (dispatch.groups * dispatch.waves) as usize;
        let none = vec![(0, 0); all];
        let waves = vec![Wave { seen: none.clone(), mates: none.clone(), fresh: none, ..Wave::default() }; all];
        Model {
            dispatch,
            waves,
            past: BTreeMap::new(),
            released: BTreeMap::new(),
            coherent: BTreeSet::new(),
            races: Vec::new(),
        }
    }

    /// The dwords that waves race for, and the pairs of instructions there that may be told.
    pub(crate) fn races(mut self, events: &[Event]) -> BTreeMap<Dword, BTreeSet<Pair>> {
        let actions: BTreeMap<u64, Action> = self.dispatch.programs.iter().flatten().copied().collect();
        let of_group = self.dispatch.waves as usize;
        for event in events {
            match *event {
                Event::Barrier(group) => self.barrier(group as usize * of_group..(group as usize + 1) * of_group),
                Event::Executes(group, wave, pc) => {
                    if let Some(action) = actions.get(&pc) {
                        self.executes(group, group as usize * of_group + wave, pc, action);
                    }
                }
            }
        }
        let mut all = BTreeMap::<Dword, BTreeSet<Pair>>::new();
        let mut racing = BTreeSet::new();
        for ((of, byte), pair, race) in self.races {
            let dword = (of, byte / 4 * 4);
            // Stores may be atomic ones where coherent loads read what they store.
            let counts = race == Race::Other || race == Race::Stores && !self.coherent.contains(&dword);
            racing.extend(counts.then_some(dword));
            all.entry(dword).or_default().insert(pair);
        }
        all.retain(|dword, _| racing.contains(dword));
        all
    }

    fn barrier(&mut self, group: std::ops::Range<usize>) {
        let first = &self.waves[group.start];
        let (mut seen, mut mates, mut fresh) = (first.seen.clone(), first.mates.clone(), first.fresh.clone());
        for n in group.clone() {
            let wave = &self.waves[n];
            join(&mut seen, &wave.seen);
            join(&mut fresh, &wave.fresh);
            let done = (wave.done(Space::Memory), wave.done(Space::Lds));
            seen[n] = (seen[n].0.max(done.0), seen[n].1.max(done.1));
            mates[n] = (wave.issued, done.1);
        }
        for wave in &mut self.waves[group] {
            (wave.seen, wave.mates, wave.fresh) = (seen.clone(), mates.clone(), fresh.clone());
        }
    }

    fn is_mate(&self, a: usize, b: usize) -> bool {
        a / self.dispatch.waves as usize == b / self.dispatch.waves as usize
    }

    fn executes(&mut self, group: u64, n: usize, pc: u64, action: &Action) {
        match *action {
            Action::Barrier => {}
            Action::Invalidates => self.waves[n].fresh = self.waves[n].seen.clone(),
            Action::Waits(memory, lds) => self.waits(n, memory, lds),
            Action::Access { space, does, at, bytes, value } => {
                self.access(group, n, pc, (space, does, at, bytes, value));
            }
        }
    }

    fn waits(&mut self, n: usize, memory: bool, lds: bool) {
        let wave = &mut self.waves[n];
        wave.outstanding.retain(|(_, space)| if *space == Space::Memory { !memory } else { !lds });
        if memory {
            let mates = wave.mates.clone();
            join(&mut wave.seen, &mates);
        }
        wave.drained.0 = if memory { wave.issued } else { wave.drained.0 };
        wave.drained.1 = if lds { wave.issued } else { wave.drained.1 };
        let outstanding = wave.outstanding.clone();
        let is_out = |number: u32| outstanding.iter().any(|(out, _)| *out == number);
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut wave.pending).into_iter().partition(|(number, _)| !is_out(*number));
        wave.pending = left;
        for released in done.into_iter().flat_map(|(_, released)| released).filter(|released| released.wave != n) {
            let is_mate = self.is_mate(released.wave, n);
            let memory = if is_mate { released.number } else { released.done.0 };
            let mut all = released.seen;
            all[released.wave] = (all[released.wave].0.max(memory), all[released.wave].1.max(released.done.1));
            join(&mut self.waves[n].seen, &all);
            if is_mate {
                let mut all = released.fresh;
                all[released.wave] = (all[released.wave].0.max(memory), all[released.wave].1.max(released.done.1));
                join(&mut self.waves[n].fresh, &all);
            }
        }
    }

    fn access(&mut self, group: u64, n: usize, pc: u64, (space, does, at, bytes, value): (Space, Does, u64, u64, u32)) {
        let place = |at: u64| (if space == Space::Lds { Some(group) } else { None }, at);
        let dword = place(at / 4 * 4);
        let wave = &mut self.waves[n];
        let done = (wave.done(Space::Memory), wave.done(Space::Lds));
        let drained = if space == Space::Lds { wave.drained.1 } else { wave.drained.0 };
        let releases = drained == wave.issued && wave.issued > 0;
        wave.issued += 1;
        let number = wave.issued;
        wave.outstanding.push((number, space));
        // A full counter holds the next one back.
        let of_lds = wave.outstanding.iter().filter(|(_, space)| *space == Space::Lds).count();
        if of_lds > 15 {
            let oldest = wave.outstanding.iter().position(|(_, space)| *space == Space::Lds).unwrap();
            wave.outstanding.remove(oldest);
        }
        let all_done = |done: u32| if done + 1 == number { number } else { done };
        let released = Released {
            wave: n,
            number,
            done: (all_done(done.0), all_done(done.1)),
            seen: wave.seen.clone(),
            fresh: wave.fresh.clone(),
            store: (does == Does::Stores).then_some(releases),
        };
        let before = self.released.entry(dword).or_default();
        // An atomic that gets what a store released before it is behind that.
        let stored = Some(&before[..])
            .filter(|_| does == Does::AddsAndReturns && releases_alone(before))
            .map(|all| all[0].clone());
        if matches!(does, Does::ReadsCoherently | Does::AddsAndReturns) {
            self.waves[n].pending.push((number, before.clone()));
        }
        match does {
            Does::Stores => *before = vec![released],
            Does::Adds | Does::AddsAndReturns => before.push(released),
            Does::Reads => {}
            Does::ReadsCoherently => {
                self.coherent.insert(dword);
            }
        }
        for byte in 0..bytes {
            let value = value >> (8 * byte) & 0xff;
            let now = Past { wave: n, number, pc, does, value };
            self.compare(place(at + byte), space, now, stored.as_ref());
        }
    }

    fn compare(&mut self, place: Dword, space: Space, now: Past, stored: Option<&Released>) {
        let all = self.past.entry(place).or_default().clone();
        for (n, past) in all.iter().enumerate().filter(|(_, past)| past.wave != now.wave) {
            let told = |stored: &Released| {
                let known = stored.seen[past.wave];
                let known = if space == Space::Lds { known.1 } else { known.0 };
                past.number <= known || past.wave == stored.wave && past.number <= stored.number
            };
            if stored.is_some_and(told) {
                continue;
            }
            if let Some(race) = self.collide(&all, n, past, &now, space) {
                self.races.push((place, (past.pc.min(now.pc), past.pc.max(now.pc)), race));
            }
        }
        self.past.entry(place).or_default().push(now);
    }

    /// What two accesses are, if nothing orders them and they are compared.
    fn collide(&self, all: &[Past], n: usize, past: &Past, now: &Past, space: Space) -> Option<Race> {
        use Does::{Adds, AddsAndReturns, Reads, ReadsCoherently, Stores};
        let is_atomic = |does: Does| matches!(does, Adds | AddsAndReturns);
        let wave = &self.waves[now.wave];
        let behind = |clock: &Clock| {
            let known = clock[past.wave];
            past.number <= if space == Space::Lds { known.1 } else { known.0 }
        };
        // Plain loads may find in a cache what was there before.
        let needs_fresh = now.does == Reads && !self.is_mate(past.wave, now.wave);
        if behind(&wave.mates) || behind(&wave.seen) && (!needs_fresh || behind(&wave.fresh)) {
            return None;
        }
        match (past.does, now.does) {
            (Reads | ReadsCoherently, Reads | ReadsCoherently) => None,
            (ReadsCoherently, _) | (_, ReadsCoherently) => None,
            (a, b) if is_atomic(a) && is_atomic(b) => None,
            (Stores, Stores) => Some(if past.value == now.value { Race::Same } else { Race::Stores }),
            // What the reader stored itself is what was stored.
            (Reads, Stores) => Some(if self.has_stored(all, past, now.value) { Race::Same } else { Race::Other }),
            (Stores, Reads) => Some(if self.has_stored(all, now, past.value) { Race::Same } else { Race::Other }),
            (a, Stores) if is_atomic(a) => {
                let later = all[n..].iter().any(|other| other.wave == now.wave && other.does == AddsAndReturns);
                (!later).then_some(Race::Other)
            }
            _ => Some(Race::Other),
        }
    }

    fn has_stored(&self, all: &[Past], reader: &Past, value: u32) -> bool {
        let own = |past: &&Past| past.wave == reader.wave && past.does == Does::Stores && past.number < reader.number;
        all.iter().filter(own).any(|past| past.value == value)
    }
}
