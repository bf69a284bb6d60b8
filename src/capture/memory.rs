//! The memory that kernels can reach: the application's allocations, locked and mapped memory, and the variables of its code.
//!
//! # Threads
//! Threads that allocate or free, and the capture thread. A thread that frees memory waits until a capture has read it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use hsa::{Api, Executable, Pool, VariableSymbol};
use hsa_sys::abi::signal::Signal;

use crate::own_memory;

/// The kind of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Allocated from a pool.
    Pool(Pool),
    /// The application's own memory, locked for GPUs. The GPU's address may differ from the host's.
    Locked {
        /// Its address on the host.
        host: u64,
    },
    /// Managed memory: the application's own, which the driver migrates between host and GPU.
    Managed,
    /// Memory of another process.
    Foreign {
        /// A GPU that can read it, if one is known.
        agent: Option<u64>,
    },
    /// A signal of the application. Kernels may get its address.
    Signal,
    /// A variable of a code object.
    Variable {
        /// The agent that the code object was loaded for.
        agent: u64,
        /// The executable that it belongs to.
        executable: Executable,
    },
}

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Its address on GPUs.
    pub(crate) base: u64,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) kind: Kind,
    /// Mapped by `hsa_amd_vmem_map`.
    pub(crate) is_virtual: bool,
    /// Then, the memory that is mapped, and where in it this begins. The same memory may be mapped at several addresses.
    pub(crate) part: VmemPart,
    /// The application exported a handle of it, to another process or another device.
    pub(crate) is_shared: bool,
    /// A number that is never reused: a later allocation at the same address has another one.
    pub(crate) serial: u64,
}

/// A part of the memory that handles of `hsa_amd_vmem_*` stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VmemPart {
    /// The number of the memory: handles of the same memory have the same. 0 is none.
    pub(crate) handle: u64,
    /// Bytes before the part.
    pub(crate) offset: u64,
}

/// What a handle of `hsa_amd_vmem_*` stands for.
#[derive(Clone, Copy)]
struct Handle {
    pool: Pool,
    /// The number of its memory.
    number: u64,
}

/// The serial number of the next allocation, or of the next memory that is mapped.
fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Allocation {
    /// The address at which the host can read it, if any.
    pub(crate) fn host(&self) -> Option<u64> {
        match self.kind {
            Kind::Pool(pool) if pool.is_gpu => None,
            Kind::Pool(_) | Kind::Managed | Kind::Signal => Some(self.base),
            Kind::Locked { host } => Some(host),
            Kind::Foreign { .. } | Kind::Variable { .. } => None,
        }
    }

    /// The address on the host, if it is the application's own memory.
    pub(crate) fn own(&self) -> Option<u64> {
        match self.kind {
            Kind::Locked { host } => Some(host),
            Kind::Managed => Some(self.base),
            _ => None,
        }
    }

    /// True for memory that no processor of the host and no other process writes, as far as the runtime's calls say: coarse-grained
    /// memory of a GPU. The host may still have it mapped.
    pub(crate) fn is_of_gpus_only(&self) -> bool {
        matches!(self.kind, Kind::Pool(pool) if pool.is_gpu && pool.is_coarse_grained())
            && !self.is_virtual
            && !self.is_shared
    }

    /// The address behind its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.base.saturating_add(self.size)
    }
}

/// All memory, by address.
#[derive(Default)]
pub(crate) struct Memory {
    live: BTreeMap<u64, Allocation>,
    /// How often `live` has changed.
    changes: u64,
    pools: HashMap<u64, Pool>,
    /// The handles that `hsa_amd_vmem_handle_create` has given out.
    handles: HashMap<u64, Handle>,
    /// Agents that may access memory of another GPU, by its base.
    allowed: HashMap<u64, Vec<u64>>,
    /// Data of replacements, by their executables. Only a replacement itself reaches its data.
    ours: HashMap<u64, Vec<Allocation>>,
}

impl Memory {
    fn pool(&mut self, api: &Api, handle: u64) -> Option<Pool> {
        if !self.pools.contains_key(&handle) {
            // The runtime has the same pools all its life: one call lists all.
            self.pools = api.pools().ok()?.into_iter().map(|pool| (pool.handle, pool)).collect();
        }
        self.pools.get(&handle).copied()
    }

    fn enter(&mut self, base: u64, size: u64, kind: Kind, is_virtual: bool) {
        self.enter_part(base, size, kind, is_virtual, VmemPart::default());
    }

    fn enter_part(&mut self, base: u64, size: u64, kind: Kind, is_virtual: bool, part: VmemPart) {
        if base == 0 || size == 0 {
            return;
        }
        // Managed memory is freed without a call of the runtime. New memory at its address shows that it is gone.
        let end = base.saturating_add(size);
        let before = self.live.range(..base).next_back().filter(|(_, a)| a.end() > base);
        let overlapping = before.into_iter().chain(self.live.range(base..end));
        let gone: Vec<u64> = overlapping.filter(|(_, a)| a.kind == Kind::Managed).map(|(&base, _)| base).collect();
        for base in gone {
            self.live.remove(&base);
        }
        self.allowed.remove(&base);
        let serial = next_serial();
        self.live.insert(base, Allocation { base, size, kind, is_virtual, part, is_shared: false, serial });
        self.changes += 1;
    }

    /// Memory of a pool.
    pub(crate) fn allocated(&mut self, api: &Api, pool: u64, base: u64, size: u64) {
        let kind = self.pool(api, pool).map_or(Kind::Foreign { agent: None }, Kind::Pool);
        self.enter(base, size, kind, false);
    }

    /// Memory of the application's own.
    pub(crate) fn locked(&mut self, host: u64, base: u64, size: u64) {
        self.enter(base, size, Kind::Locked { host }, false);
    }

    /// The application's own memory is no longer locked.
    pub(crate) fn unlocked(&mut self, host: u64) {
        let found = self.live.values().find(|a| a.kind == (Kind::Locked { host })).map(|a| a.base);
        if let Some(base) = found {
            self.freed(base);
        }
    }

    /// The application advised the runtime on its own memory. An entry that contains the whole range stays as it is. Managed memory that
    /// overlaps the range is merged with it.
    pub(crate) fn managed(&mut self, base: u64, size: u64) {
        let (mut from, mut to) = (base, base.saturating_add(size));
        if self.around(base).is_some_and(|a| a.end() >= to) {
            return;
        }
        let before = self.live.range(..base).next_back().filter(|(_, a)| a.end() > base);
        for (_, a) in before.into_iter().chain(self.live.range(base..to)) {
            if a.kind != Kind::Managed {
                // A part of the range has a better known kind.
                return;
            }
            (from, to) = (from.min(a.base), to.max(a.end()));
        }
        self.enter(from, to - from, Kind::Managed, false);
    }

    /// Forgets managed memory that the application has unmapped, which frees it.
    pub(crate) fn forget_unmapped(&mut self) {
        let is_there = |address| own_memory::read(address, &mut [0]).is_ok();
        self.retain(|a| a.kind != Kind::Managed || is_there(a.base) || is_there(a.end() - 1));
    }

    /// Enters variables of an executable. A variable inside known memory, such as an alias, is captured with that memory.
    pub(crate) fn loaded(&mut self, executable: Executable, variables: &[VariableSymbol]) {
        for variable in variables {
            if self.around(variable.address).is_none() {
                let kind = Kind::Variable { agent: variable.agent, executable };
                self.enter(variable.address, variable.size.into(), kind, false);
            }
        }
    }

    /// A code object of the kernel cache was loaded: addresses and sizes of its writable data.
    pub(crate) fn loaded_ours(
        &mut self,
        executable: Executable,
        agent: u64,
        written: impl Iterator<Item = (u64, u64)>,
    ) {
        let kind = Kind::Variable { agent, executable };
        let data = written.map(|(base, size)| {
            let serial = next_serial();
            Allocation { base, size, kind, is_virtual: false, part: VmemPart::default(), is_shared: false, serial }
        });
        self.ours.entry(executable.0).or_default().extend(data);
    }

    /// The writable data of a replacement.
    pub(crate) fn of_ours(&self, executable: Executable) -> &[Allocation] {
        self.ours.get(&executable.0).map_or(&[], Vec::as_slice)
    }

    /// True while the memory exists: an allocation, or data of a replacement.
    pub(crate) fn is_there(&self, range: &Allocation, at: u64) -> bool {
        let is_ours =
            matches!(range.kind, Kind::Variable { executable, .. } if self.of_ours(executable).contains(range));
        is_ours || self.around(at).is_some_and(|found| found.base == range.base)
    }

    /// True while an allocation exists: another one at its address does not count.
    pub(crate) fn is_same(&self, range: &Allocation) -> bool {
        let is_ours =
            matches!(range.kind, Kind::Variable { executable, .. } if self.of_ours(executable).contains(range));
        is_ours || self.around(range.base).is_some_and(|found| found.serial == range.serial)
    }

    /// Removes the variables of an executable that is gone.
    pub(crate) fn unloaded(&mut self, gone: Executable) {
        self.ours.remove(&gone.0);
        self.retain(|a| !matches!(a.kind, Kind::Variable { executable, .. } if executable == gone));
    }

    fn retain(&mut self, stays: impl Fn(&Allocation) -> bool) {
        let before = self.live.len();
        self.live.retain(|_, a| stays(a));
        self.changes += (before - self.live.len()) as u64;
    }

    /// A number that changes whenever memory is added or removed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The lowest address of all memory, and the highest end.
    pub(crate) fn span(&self) -> (u64, u64) {
        let first = self.live.first_key_value().map_or(0, |(&base, _)| base);
        (first, self.live.values().map(Allocation::end).max().unwrap_or(0))
    }

    /// The application exports a handle of the memory that contains an address.
    pub(crate) fn shared(&mut self, address: u64) {
        let base = self.around(address).map(|a| a.base);
        if let Some(allocation) = base.and_then(|base| self.live.get_mut(&base)) {
            allocation.is_shared = true;
        }
    }

    /// Enters memory of another process that an agent can read.
    pub(crate) fn attached(&mut self, base: u64, size: u64, agent: Option<u64>) {
        self.enter(base, size, Kind::Foreign { agent }, false);
    }

    /// Enters a handle of memory that can be mapped.
    pub(crate) fn handle_created(&mut self, api: &Api, pool: u64, handle: u64) {
        if let Some(pool) = self.pool(api, pool) {
            self.handles.insert(handle, Handle { pool, number: next_serial() });
        }
    }

    /// A handle stands for what is mapped at an address.
    pub(crate) fn handle_of(&mut self, address: u64, handle: u64) {
        let Some(Allocation { kind: Kind::Pool(pool), part, .. }) = self.around(address).copied() else { return };
        let number = if part.handle == 0 { next_serial() } else { part.handle };
        self.handles.insert(handle, Handle { pool, number });
    }

    /// Memory of a handle was mapped, from an offset on.
    pub(crate) fn mapped(&mut self, handle: u64, offset: u64, base: u64, size: u64) {
        let of = self.handles.get(&handle).copied();
        let kind = of.map_or(Kind::Foreign { agent: None }, |of| Kind::Pool(of.pool));
        let part = VmemPart { handle: of.map_or(0, |of| of.number), offset };
        self.enter_part(base, size, kind, true, part);
    }

    /// Removes the memory at an address.
    pub(crate) fn freed(&mut self, base: u64) {
        self.changes += u64::from(self.live.remove(&base).is_some());
    }

    /// Enters a signal. It is in the runtime's own memory, which no other call announces. It is removed as other memory is.
    pub(crate) fn signal(&mut self, handle: u64) {
        self.enter(handle, size_of::<Signal>() as u64, Kind::Signal, false);
    }

    /// All memory except signals, by address. Signals are many, and kernels seldom use one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values().filter(|a| a.kind != Kind::Signal)
    }

    /// [`all`](Memory::all) that an agent can access.
    pub(crate) fn of_agent(&self, agent: u64) -> impl Iterator<Item = &Allocation> {
        self.all().filter(move |a| match a.kind {
            Kind::Pool(pool) if pool.is_gpu && pool.agent != agent => {
                self.allowed.get(&a.base).is_some_and(|agents| agents.contains(&agent))
            }
            _ => true,
        })
    }

    /// The application lets these agents, and no others but the owner, access the memory that contains an address.
    pub(crate) fn allowed(&mut self, address: u64, agents: Vec<u64>) {
        if let Some(base) = self.around(address).map(|a| a.base) {
            self.allowed.insert(base, agents);
        }
    }

    /// The application lets an agent access what it has mapped in a range.
    pub(crate) fn allowed_in(&mut self, base: u64, size: u64, agent: u64, is_gpu: bool) {
        for (&base, a) in self.live.range_mut(base..base.saturating_add(size)) {
            self.allowed.entry(base).or_default().push(agent);
            // The origin of the memory is unknown; this GPU can read it.
            if is_gpu && a.kind == (Kind::Foreign { agent: None }) {
                a.kind = Kind::Foreign { agent: Some(agent) };
            }
        }
    }

    /// The part of a range around an address that no entry covers.
    pub(crate) fn gap_around(&self, address: u64, (start, end): (u64, u64)) -> (u64, u64) {
        let before = self.live.range(..=address).next_back().map_or(start, |(_, a)| a.end().max(start));
        let after = self.live.range(address..).next().map_or(end, |(&base, _)| base.min(end));
        (before, after)
    }

    /// The application's mappings around an address. Adjacent mappings are included: one array may span several.
    pub(crate) fn mapped_around(&self, address: u64) -> Vec<Allocation> {
        let Some(found) = self.around(address) else { return Vec::new() };
        if !found.is_virtual {
            return vec![*found];
        }
        let mut all = vec![*found];
        let mut start = found.base;
        for (_, a) in self.live.range(..found.base).rev().take_while(|(_, a)| a.is_virtual) {
            if a.end() != start {
                break;
            }
            start = a.base;
            all.push(*a);
        }
        let mut end = found.end();
        for (_, a) in self.live.range(end..).take_while(|(_, a)| a.is_virtual) {
            if a.base != end {
                break;
            }
            end = a.end();
            all.push(*a);
        }
        all
    }

    /// The memory that a word leads to if it is an address: what contains it, and what ends there, since kernels get such ends, too.
    pub(crate) fn led_to(&self, word: u64) -> Vec<Allocation> {
        let mut all = self.mapped_around(word);
        if let Some(before) = word.checked_sub(1).and_then(|last| self.around(last))
            && before.end() == word
            && !all.contains(before)
        {
            all.extend(self.mapped_around(before.base));
        }
        all
    }

    /// Passes on what [`led_to`](Memory::led_to) finds for each of some words.
    pub(crate) fn each_led_to(&self, words: impl Iterator<Item = u64>, mut found: impl FnMut(Allocation)) {
        let mut last = 0..0;
        for word in words {
            // Consecutive addresses often belong to one array.
            if last.contains(&word) {
                continue;
            }
            for inside in self.led_to(word) {
                if inside.base < word && word < inside.end() {
                    last = inside.base + 1..inside.end();
                }
                found(inside);
            }
        }
    }

    /// The memory that contains an address.
    pub(crate) fn around(&self, address: u64) -> Option<&Allocation> {
        self.live.range(..=address).next_back().map(|(_, a)| a).filter(|a| address < a.end())
    }

    /// Removes everything: the runtime is gone, and its memory with it.
    pub(crate) fn forget(&mut self) {
        *self = Memory { changes: self.changes + 1, ..Memory::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_any_address_in_it_until_it_is_gone() {
        let mut memory = Memory::default();
        memory.locked(0x1000, 0x9000, 0x100);
        memory.managed(0x20_000, 0x1000);
        memory.attached(0, 5, None);
        let base = |memory: &Memory, at| memory.around(at).map(|a| a.base);
        assert_eq!(
            [0x8fff, 0x9000, 0x90ff, 0x9100].map(|at| base(&memory, at)),
            [None, Some(0x9000), Some(0x9000), None]
        );
        assert_eq!(memory.around(0x9001).and_then(Allocation::host), Some(0x1000));
        assert_eq!(memory.all().count(), 2);
        memory.signal(0x30_000);
        assert_eq!((base(&memory, 0x30_008), base(&memory, 0x30_040)), (Some(0x30_000), None));
        assert_eq!(memory.all().count(), 2);
        memory.unlocked(0x1000);
        memory.freed(0x20_000);
        assert_eq!(memory.all().count(), 0);
    }

    #[test]
    fn advice_about_a_part_of_managed_memory_does_not_hide_the_rest() {
        let mut memory = Memory::default();
        memory.managed(0x10_000, 0x4000);
        memory.managed(0x11_000, 0x1000);
        let range = |memory: &Memory, at| memory.around(at).map(|a| (a.base, a.end()));
        assert_eq!(range(&memory, 0x13_000), Some((0x10_000, 0x14_000)));
        memory.managed(0x13_000, 0x3000);
        assert_eq!(range(&memory, 0x10_000), Some((0x10_000, 0x16_000)));
        memory.locked(0x20_000, 0x20_000, 0x4000);
        memory.managed(0x21_000, 0x1000);
        assert_eq!(range(&memory, 0x23_000), Some((0x20_000, 0x24_000)), "what it was stays");
        assert_eq!(memory.all().count(), 2);
    }

    #[test]
    fn another_gpus_memory_is_an_agents_only_where_it_was_allowed() {
        let pool = |agent, is_gpu| Kind::Pool(Pool { handle: agent, agent, is_gpu, global_flags: Some(0) });
        let mut memory = Memory::default();
        memory.enter(0x1000, 0x1000, pool(1, true), false);
        memory.enter(0x2000, 0x1000, pool(2, true), false);
        memory.enter(0x3000, 0x1000, pool(2, true), true);
        memory.enter(0x4000, 0x1000, pool(7, false), false);
        let of = |memory: &Memory| memory.of_agent(1).map(|a| a.base).collect::<Vec<_>>();
        assert_eq!(of(&memory), [0x1000, 0x4000]);
        memory.allowed(0x2800, vec![1, 3]);
        memory.allowed_in(0x3000, 0x1000, 1, true);
        assert_eq!(of(&memory), [0x1000, 0x2000, 0x3000, 0x4000]);
        memory.allowed(0x2000, vec![2]);
        memory.enter(0x3000, 0x1000, pool(2, true), true);
        assert_eq!(of(&memory), [0x1000, 0x4000], "the list is replaced, and goes with the memory");
    }

    #[test]
    fn mappings_that_touch_are_one() {
        let mut memory = Memory::default();
        for base in [0x1000, 0x2000, 0x3000, 0x5000] {
            memory.mapped(base, 0, base, 0x1000);
        }
        memory.locked(0x4000, 0x4000, 0x1000);
        let around = |at| {
            let mut bases: Vec<u64> = memory.mapped_around(at).iter().map(|a| a.base).collect();
            bases.sort_unstable();
            bases
        };
        assert_eq!(around(0x2800), [0x1000, 0x2000, 0x3000]);
        assert_eq!(around(0x1000), [0x1000, 0x2000, 0x3000]);
        assert_eq!((around(0x4100), around(0x5fff), around(0x6000)), (vec![0x4000], vec![0x5000], vec![]));
    }

    #[test]
    fn an_address_leads_to_what_contains_it_and_to_what_ends_there() {
        let mut memory = Memory::default();
        for base in [0x1000, 0x2000, 0x4000] {
            memory.locked(base, base, 0x1000);
        }
        let led = |word| memory.led_to(word).iter().map(|a| a.base).collect::<Vec<_>>();
        assert_eq!([led(0x1fff), led(0x2000)], [vec![0x1000], vec![0x2000, 0x1000]]);
        assert_eq!([led(0x3000), led(0x3001), led(0), led(0x5000)], [vec![0x2000], vec![], vec![], vec![0x4000]]);
        for base in [0x8000, 0x9000] {
            memory.mapped(base, 0, base, 0x1000);
        }
        assert_eq!(memory.led_to(0x9000).len(), 2, "mappings that touch are one already");
    }

    #[test]
    fn memory_that_is_mapped_twice_has_one_number() {
        let pool = Pool { handle: 5, agent: 1, is_gpu: true, global_flags: Some(0) };
        let mut memory = Memory { pools: HashMap::from([(5, pool)]), ..Memory::default() };
        for handle in [70, 71] {
            memory.handles.insert(handle, Handle { pool, number: next_serial() });
        }
        memory.mapped(70, 0, 0x1000, 0x1000);
        memory.mapped(70, 0x1000, 0x3000, 0x1000);
        memory.mapped(71, 0, 0x5000, 0x1000);
        memory.handle_of(0x3800, 99);
        memory.mapped(99, 0, 0x7000, 0x1000);
        let part = |at| memory.around(at).unwrap().part;
        let first = part(0x1000).handle;
        assert_eq!(part(0x3000), VmemPart { handle: first, offset: 0x1000 });
        assert_eq!(part(0x7000), VmemPart { handle: first, offset: 0 });
        assert!(first != 0 && part(0x5000).handle != first);
    }

    #[test]
    fn managed_memory_ends_where_other_memory_is_allocated() {
        let mut memory = Memory::default();
        memory.managed(0x10_000, 0x4000);
        memory.locked(0x12_000, 0x12_000, 0x1000);
        assert_eq!(memory.around(0x10_000), None);
        assert_eq!(memory.around(0x12_000).map(|a| a.size), Some(0x1000));
    }

    #[test]
    fn managed_memory_that_is_not_mapped_any_more_is_forgotten() {
        let mut memory = Memory::default();
        let here = [0u8; 64];
        let base = std::ptr::from_ref(&here).expose_provenance() as u64;
        memory.managed(base, 64);
        memory.managed(0x1000, 0x1000);
        memory.locked(0x3000, 0x3000, 0x1000);
        memory.forget_unmapped();
        assert_eq!(memory.all().map(|a| a.base).collect::<Vec<_>>(), [0x3000, base]);
    }
}
