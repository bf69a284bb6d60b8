//! The memory through which instrumented kernels send messages. Each GPU has a pool of sub-buffers; a dispatch gets adjacent ones.
//!
//! # Threads
//! Publishers take sub-buffers without waiting ([`Units`]). The drain thread empties them, and returns them when the dispatch has ended.
//! The next dispatch gets empty ones.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use hsa::{Api, HsaError};
use hsa_sys::abi::aql::Packet;
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::ports::{OwnResource, Resource};
use logdur_intercept::units::Units;
use logdur_journal::{State, flag};
use logdur_messages::Descriptor;
use logdur_settings::Interceptor;

use super::Probe;
use super::drain::Waiting;

/// The largest and the smallest sub-buffer in bytes. The smallest has room for several messages of 64 addresses.
const CAPACITY: [usize; 2] = [32 << 10, 4 << 10];
/// Sub-buffers of a pool before their capacity is reduced.
const MANY: usize = 256;
/// The most sub-buffers of a dispatch. Each has a lock for its waves.
const MOST: usize = 256;
/// A dispatch gets at most this fraction of a pool, so that others run beside it.
const PARTS: usize = 4;
/// What a sub-buffer needs besides its data: size, flag, error bits, lock, and two descriptors.
const EXTRA: usize = 8 + 1 + 4 + 1 + 2 * DESCRIPTOR;
/// Bytes between descriptors.
const DESCRIPTOR: usize = 64;

/// The sub-buffers of a GPU. Never freed: publishers and the drain thread refer to it.
pub(crate) struct Pool {
    /// Bytes of a sub-buffer.
    pub(super) capacity: usize,
    data: NonNull<u8>,
    sizes: NonNull<AtomicU64>,
    errors: NonNull<AtomicU32>,
    full: NonNull<AtomicU8>,
    /// Descriptors in the GPU's memory: one for each power of two of sub-buffers, and each position that these can have.
    descriptors: u64,
    /// Which dispatch has which sub-buffers. A dispatch runs from its record until the drain thread has ended it.
    pub(super) units: Units<Use>,
    waiting: &'static Waiting,
}

// SAFETY: what the pointers refer to lives as long as the runtime. Sizes, errors and flags are atomics; data of a sub-buffer is read
// by the drain thread only, while the GPU does not write it.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Why there is no memory for messages.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoBuffers {
    /// The runtime has none.
    #[error("there is no memory for messages: {0}")]
    Runtime(#[from] HsaError),
    /// The limit is too small.
    #[error("{name} leaves {limit} bytes for messages of this GPU, expected at least {least}", name = Interceptor::instrument_buffers)]
    Limit {
        /// Bytes of the GPU's share.
        limit: usize,
        /// Bytes of the smallest sub-buffer and what belongs to it.
        least: usize,
    },
}

/// A dispatch that has sub-buffers.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) probe: &'static Probe,
    /// How many sub-buffers it has.
    pub(super) count: usize,
    pub(super) grid: [u32; 3],
    pub(super) workgroup: [u16; 3],
    pub(super) record: Option<RecordRef>,
    /// The number of the dispatch in the process.
    pub(super) id: u64,
    /// Handlers know of it.
    pub(super) begun: bool,
    pub(super) total: super::drain::Total,
}

/// Sub-buffers that a dispatch is going to have.
#[must_use]
pub(crate) struct Taken {
    pool: &'static Pool,
    first: usize,
    count: usize,
}

impl Pool {
    /// Sub-buffers of at most so many bytes in all, with what belongs to them.
    ///
    /// # Errors
    /// When the runtime has no memory for them, or the limit is too small for one.
    pub(super) fn new(
        api: &Api,
        agent: u64,
        limit: u64,
        waiting: &'static Waiting,
    ) -> Result<&'static Pool, NoBuffers> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let [largest, smallest] = CAPACITY;
        let capacity = (limit / MANY / 2 + 1).next_power_of_two().clamp(smallest, largest);
        // What is known of dispatches is in our own memory.
        let units = limit / (capacity + EXTRA + Units::<Use>::BYTES);
        if units == 0 {
            return Err(NoBuffers::Limit { limit, least: smallest + EXTRA + Units::<Use>::BYTES });
        }
        let pools = api.pools()?;
        let device = pools.iter().find(|p| p.agent == agent && p.global_flags.is_some() && !p.is_fine_grained());
        let device = device.ok_or(HsaError::Missing { call: "memory of the GPU for descriptors" })?;
        let locks_bytes = units.next_multiple_of(DESCRIPTOR);
        let descriptors_bytes = (levels(units) * units) * DESCRIPTOR;
        let device_bytes = locks_bytes + descriptors_bytes;
        let on_device = api.allocate(device, device_bytes, &[agent])?;
        // SAFETY: the memory has so many words, and no other code knows it.
        unsafe { api.fill(on_device, 0, device_bytes / 4) }?;
        let of_host = pools.iter().find(|p| !p.is_gpu && p.is_for_kernargs());
        let of_host = of_host.ok_or(HsaError::Missing { call: "memory of the host for messages" })?;
        let host = api.allocate(of_host, units * (capacity + 8 + 4 + 1), &[agent])?;
        let at = |offset: usize| {
            // SAFETY: each part begins within the memory that was allocated for all of them.
            unsafe { host.add(offset) }
        };
        let sizes_at = units * capacity;
        let (sizes, errors, full) = (at(sizes_at), at(sizes_at + 8 * units), at(sizes_at + 12 * units));
        // Data are not read before a size says that they are written.
        // SAFETY: sizes, error words and flags are beside each other, and no other code knows them.
        unsafe { sizes.write_bytes(0, units * (8 + 4 + 1)) };
        let address = |place: NonNull<u8>| place.expose_provenance().get() as u64;
        let mut table = vec![0u8; descriptors_bytes];
        for (level, first) in places(units) {
            let descriptor = Descriptor {
                sub_buffers: 1 << level,
                capacity: capacity as u64,
                data: address(host) + (first * capacity) as u64,
                sizes: address(sizes) + 8 * first as u64,
                errors: address(errors) + 4 * first as u64,
                locks: address(on_device) + first as u64,
                full: address(full) + first as u64,
            };
            let at = (level * units + first) * DESCRIPTOR;
            table[at..at + Descriptor::BYTES].copy_from_slice(&descriptor.to_bytes());
        }
        // SAFETY: the descriptors are behind the locks.
        let descriptors = unsafe { on_device.add(locks_bytes) };
        // SAFETY: both have so many bytes, and no other code uses them.
        unsafe { api.copy_bytes(descriptors, NonNull::from(table.as_mut_slice()).cast(), descriptors_bytes) }?;
        let pool = Pool {
            capacity,
            data: host,
            sizes: sizes.cast(),
            errors: errors.cast(),
            full: full.cast(),
            descriptors: address(descriptors),
            units: Units::new(units),
            waiting,
        };
        Ok(Box::leak(Box::new(pool)))
    }

    /// Sub-buffers for a dispatch of so many workgroups: as many as there are workgroups, or fewer.
    pub(super) fn take(&'static self, packet: &Packet, probe: &'static Probe) -> Option<Taken> {
        let (grid, workgroup) = (packet.grid_size(), packet.workgroup_size());
        let of_dimension = |(grid, group): (u32, u16)| u64::from(grid.div_ceil(u32::from(group).max(1)).max(1));
        let groups = grid.into_iter().zip(workgroup).map(of_dimension).fold(1, u64::saturating_mul);
        let most = self.units.count().div_ceil(PARTS).min(MOST).ilog2();
        let level = usize::try_from(groups).unwrap_or(MOST).min(MOST).next_power_of_two().trailing_zeros().min(most);
        let new = |count| Use {
            probe,
            count,
            grid,
            workgroup,
            record: None,
            id: 0,
            begun: false,
            total: super::drain::Total::default(),
        };
        let take = |level| Some((1_usize << level, self.units.take(level, new(1 << level))?));
        let (count, first) = (0..=level).rev().find_map(take)?;
        Some(Taken { pool: self, first, count })
    }

    /// The dispatch of a slot has ended, and nothing is left in its sub-buffers. They are used again if `again`.
    pub(super) fn end(&self, first: usize, count: usize, again: bool) {
        self.waiting.less();
        self.units.end(first, count, again);
    }

    /// True when a wave waits for a sub-buffer to be emptied. What the wave wrote is visible then.
    pub(super) fn is_full(&self, n: usize) -> bool {
        self.full(n).load(Ordering::Acquire) != 0
    }

    /// Copies the used part of a sub-buffer that the GPU does not write, and empties it. Returns the size that the GPU has stored; a
    /// size larger than the capacity is that of nothing.
    pub(super) fn empty(&self, n: usize, to: &mut Vec<u64>) -> u64 {
        // SAFETY: there is a size for each sub-buffer.
        let size = unsafe { of_sub_buffer(self.sizes, n) };
        let bytes = size.load(Ordering::Acquire);
        if let Some(length) = usize::try_from(bytes).ok().filter(|length| *length <= self.capacity) {
            to.resize(length.div_ceil(8), 0);
            // SAFETY: the data of all sub-buffers are beside each other.
            let from = unsafe { self.data.add(n * self.capacity) };
            let to = to.as_mut_ptr().cast::<u8>();
            // SAFETY: the sub-buffer has so many bytes, which no wave writes: none has its lock, or the one that has it waits. The
            // vector has room for them.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, length) };
        }
        if bytes != 0 {
            size.store(0, Ordering::Relaxed);
        }
        let full = self.full(n);
        if full.load(Ordering::Relaxed) != 0 {
            full.store(0, Ordering::Release);
        }
        bytes
    }

    /// The error bits of a dispatch, which are cleared.
    pub(super) fn errors(&self, first: usize) -> u32 {
        // SAFETY: there is a word for each sub-buffer.
        unsafe { of_sub_buffer(self.errors, first) }.swap(0, Ordering::Relaxed)
    }

    fn full(&self, n: usize) -> &AtomicU8 {
        // SAFETY: there is a flag for each sub-buffer.
        unsafe { of_sub_buffer(self.full, n) }
    }
}

impl Taken {
    /// Address of the descriptor.
    pub(crate) fn descriptor(&self) -> u64 {
        let level = self.count.trailing_zeros() as usize;
        self.pool.descriptors + ((level * self.pool.units.count() + self.first) * DESCRIPTOR) as u64
    }

    /// The dispatch has them from now on.
    pub(crate) fn resource(self) -> Resource {
        Resource { owner: self.pool, token: (self.first | self.count << 32) as u64 }
    }

    /// No dispatch has them.
    pub(crate) fn give_back(self) {
        self.pool.units.give_back(self.first, self.count);
    }
}

impl OwnResource for Pool {
    fn recorded(&self, token: u64, record: Option<RecordRef>) {
        let (first, count) = (token as u32 as usize, (token >> 32) as usize);
        let Some(record) = record else { return self.units.give_back(first, count) };
        self.units.begin(first, |dispatch| {
            dispatch.id = record.record().id.load(Ordering::Relaxed);
            dispatch.record = Some(record);
            self.waiting.more();
        });
        self.waiting.wake();
    }
}

impl Use {
    /// True when the dispatch has ended: what it wrote is visible then. Not if that cannot be known.
    pub(super) fn has_ended(&self) -> bool {
        let Some(record) = self.record else { return true };
        // A record that is another dispatch's was done before.
        if record.record().id.load(Ordering::Acquire) != self.id {
            return true;
        }
        record.state() != State::InFlight && !self.ends_unseen()
    }

    /// True when no thread can tell whether the dispatch has ended: it has no signal of ours, and wrote no times.
    fn ends_unseen(&self) -> bool {
        let Some(progress) = self.record.map(RecordRef::progress) else { return false };
        let is_guess = progress.signal.load(Ordering::Relaxed) == 0 || progress.flags() & flag::APP_SIGNAL != 0;
        is_guess && progress.flags() & flag::NO_TIMES != 0
    }

    /// True when the queue of the dispatch was destroyed before its end.
    pub(super) fn was_given_up(&self) -> bool {
        let is_its = |record: &RecordRef| record.record().id.load(Ordering::Acquire) == self.id;
        self.record.filter(is_its).is_some_and(|record| record.progress().flags() & flag::INCOMPLETE != 0)
    }
}

/// What a sub-buffer has in an array.
///
/// # Safety
/// The array must have more than `n` elements, and be there for `'a`.
unsafe fn of_sub_buffer<'a, T>(array: NonNull<T>, n: usize) -> &'a T {
    // SAFETY: the caller's promise.
    let place = unsafe { array.add(n) };
    // SAFETY: the caller's promise.
    unsafe { place.as_ref() }
}

/// How many powers of two there are for so many sub-buffers.
fn levels(units: usize) -> usize {
    (units.min(MOST).ilog2() + 1) as usize
}

/// Each power of two, and each place where so many sub-buffers begin.
fn places(units: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..levels(units)).flat_map(move |level| (0..units >> level).map(move |n| (level, n << level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_descriptor() {
        let all: Vec<(usize, usize)> = places(5).collect();
        assert_eq!(all, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 2), (2, 0)]);
    }
}
