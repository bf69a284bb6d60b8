//! A kernel that runs in place of one of the application's, as the dispatch path sees it.
//!
//! # Threads
//! Publishers, any number at once. Nothing here waits or allocates. A replacement is never freed: a publisher may still use it after
//! another one has taken its place.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hsa::Executable;
use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::queue;
use logdur_intercept::kernarg_ring::{Borrowed, KernargRing};
use logdur_intercept::ports::Changed;
use logdur_journal::compare::Shape;
use logdur_kernel_cache::{Hash, Kernarg, Layout, PacketFacts, Refusal, Sizes, Swap};
use logdur_settings::CacheMode;

use crate::instrument::{Probe, Skipped};

/// Shapes of one kernel whose dispatches are compared; those of more shapes run as they are.
const SHAPES: usize = 256;
/// `HSA_QUEUE_TYPE_COOPERATIVE`. Source: `hsa.h`.
const COOPERATIVE: u64 = 2;

/// What runs in place of a kernel.
pub(crate) struct Replacement {
    /// Address of its descriptor.
    pub(super) kernel_object: u64,
    /// What it is part of.
    pub(super) executable: Executable,
    /// That of the application's kernel.
    pub(super) original: u64,
    /// The numbers of the application's code objects whose variables it uses.
    pub(super) uses: Vec<u64>,
    /// The code object that it is of.
    pub(super) code: Hash,
    /// The number that its dispatches are recorded under.
    pub(super) kernel: u32,
    pub(super) swap: Swap,
    /// Present when arguments are laid out anew.
    pub(super) kernargs: Option<&'static KernargRing>,
    pub(super) alternation: Alternation,
    /// Why it did not run for some packet: the first reason.
    pub(super) refusal: OnceLock<Refusal>,
    /// There was no memory for arguments.
    pub(super) was_full: AtomicBool,
    /// Present for an instrumented clone.
    pub(super) probe: Option<&'static Probe>,
}

impl Replacement {
    /// True if the other replacement does the same. So one made for code that was unloaded serves again for the same code at the same
    /// address.
    pub(super) fn is_like(&self, other: &Replacement) -> bool {
        let what = |one: &Replacement| (one.kernel_object, one.executable, one.original, one.code, one.kernel);
        let ring = |one: &Replacement| one.kernargs.map(ptr::from_ref);
        what(self) == what(other)
            && (&self.uses, &self.swap) == (&other.uses, &other.swap)
            && ring(self) == ring(other)
            && self.probe.map(ptr::from_ref) == other.probe.map(ptr::from_ref)
            && self.alternation.replace_all()
            && other.alternation.replace_all()
    }

    /// What becomes of a packet of a queue at an address; `None` if it runs as it is.
    pub(super) fn swap(&self, packet: &Packet, queue: u64) -> Option<Changed> {
        if let Some(probe) = self.probe {
            let changed = self.instrument(probe, packet, queue);
            return Some(changed.unwrap_or_else(|why| probe.skip(packet, why)));
        }
        if !self.alternation.is_ours(packet) {
            return None;
        }
        let facts = self.facts(packet, queue);
        let sizes = self.sizes(&facts)?;
        let mut swapped = Changed::of(*packet, self.kernel);
        swapped.packet.set_kernel(self.kernel_object, sizes.private, sizes.group);
        if let (Kernarg::Relaid(layout), Some(ring)) = (&self.swap.kernarg, self.kernargs) {
            swapped.kernargs = Some(self.arguments(&mut swapped.packet, layout, ring, &facts)?);
        }
        Some(swapped)
    }

    /// An instrumented dispatch.
    fn instrument(&self, probe: &'static Probe, packet: &Packet, queue: u64) -> Result<Changed, Skipped> {
        probe.select()?;
        let facts = self.facts(packet, queue);
        let sizes = self.sizes(&facts).ok_or(Skipped::Refused)?;
        let (Kernarg::Relaid(layout), Some(ring)) = (&self.swap.kernarg, self.kernargs) else {
            return Err(Skipped::Refused);
        };
        let taken = probe.take(packet)?;
        let mut changed = Changed::of(*packet, self.kernel);
        changed.packet.set_kernel(self.kernel_object, sizes.private, sizes.group);
        let Some(block) = self.arguments(&mut changed.packet, layout, ring, &facts) else {
            taken.give_back();
            return Err(Skipped::NoArguments);
        };
        let descriptor = taken.descriptor().to_le_bytes();
        // SAFETY: the block has room for the clone's arguments, of which the address of the descriptor is one.
        let place = unsafe { block.memory().add(probe.added() as usize) };
        // SAFETY: as above; the block is ours, and no other thread uses it.
        unsafe { ptr::copy_nonoverlapping(descriptor.as_ptr(), place.as_ptr(), descriptor.len()) };
        changed.kernargs = Some(block);
        changed.resource = Some(taken.resource());
        Ok(changed)
    }

    /// The sizes of a packet's LDS and scratch; `None` if it has to run as it is.
    fn sizes(&self, facts: &PacketFacts) -> Option<Sizes> {
        // Only the first refusal is told.
        self.swap.for_packet(facts).inspect_err(|refusal| _ = self.refusal.set(refusal.clone())).ok()
    }

    /// Arguments that are laid out anew, of which the packet gets the address; `None` if there is no memory for them.
    fn arguments(
        &self,
        packet: &mut Packet,
        layout: &Layout,
        ring: &'static KernargRing,
        facts: &PacketFacts,
    ) -> Option<Borrowed> {
        let Some(block) = ring.take() else {
            self.was_full.store(true, Ordering::Relaxed);
            return None;
        };
        let from = ptr::with_exposed_provenance(packet.kernarg_address() as usize);
        // SAFETY: the packet's arguments are complete, and there until it is; the rules have seen that they have
        // what the layout reads. The block is ours, and has room for the layout by the ring's choice.
        unsafe { lay_out(layout, from, block.memory(), facts) };
        packet.set_kernarg_address(block.memory().expose_provenance().get() as u64);
        Some(block)
    }

    fn facts(&self, packet: &Packet, address: u64) -> PacketFacts {
        let from: *const u8 = ptr::with_exposed_provenance(packet.kernarg_address() as usize);
        // SAFETY: the packet's arguments are complete, and there until it is; the rules have seen that the kernel takes those that are
        // asked for.
        let pointers = self.swap.kernarg.pointers(|at, size| unsafe { read(from, at, size) });
        // SAFETY: the address is that of the queue whose packet is being published.
        let queue = unsafe { queue::Queue::from_address(address) };
        PacketFacts {
            grid: packet.grid_size(),
            workgroup: packet.workgroup_size(),
            dimensions: packet.dimensions(),
            private: packet.private_segment_size(),
            group: packet.group_segment_size(),
            original_group: self.swap.limits.original_group,
            cooperative: queue.hsa_queue[0].load(Ordering::Relaxed) & 0xffff_ffff == COOPERATIVE,
            queue: address,
            private_base_hi: queue.private_segment_aperture_base_hi.load(Ordering::Relaxed),
            shared_base_hi: queue.group_segment_aperture_base_hi.load(Ordering::Relaxed),
            pointers,
        }
    }
}

/// Bytes of arguments, at most 8.
///
/// # Safety
/// There must be so many bytes at this distance of `from`.
unsafe fn read(from: *const u8, at: u32, size: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    let size = (size as usize).min(bytes.len());
    // SAFETY: the caller's promise.
    let from = unsafe { from.add(at as usize) };
    // SAFETY: as above; `bytes` has no fewer.
    unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size) };
    bytes
}

/// Writes arguments as another kernel has them.
///
/// # Safety
/// `from` must have the bytes that the layout reads, and `to` those that it writes; no other thread uses `to`.
unsafe fn lay_out(layout: &Layout, from: *const u8, to: NonNull<u8>, facts: &PacketFacts) {
    // SAFETY: `to` has so many bytes.
    unsafe { to.write_bytes(0, layout.size as usize) };
    for copy in &layout.copies {
        // SAFETY: the layout reads these bytes.
        let source = unsafe { from.add(copy.from as usize) };
        // SAFETY: the layout writes these bytes.
        let place = unsafe { to.add(copy.to as usize) };
        // SAFETY: as above; the application's memory and ours do not overlap.
        unsafe { ptr::copy_nonoverlapping(source, place.as_ptr(), copy.len as usize) };
    }
    for fill in &layout.fills {
        let value = fill.value(facts).to_le_bytes();
        let length = (fill.size as usize).min(value.len());
        // SAFETY: the layout writes these bytes.
        let place = unsafe { to.add(fill.to as usize) };
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), place.as_ptr(), length) };
    }
    for one in &layout.moves {
        // SAFETY: the layout writes these bytes.
        let place = unsafe { to.add(one.at as usize) };
        // SAFETY: as above.
        let moved = one.moved(unsafe { read(place.as_ptr(), 0, one.size) });
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(moved.as_ptr(), place.as_ptr(), (one.size as usize).min(moved.len())) };
    }
}

/// Which dispatches of a kernel are replaced, shape by shape.
pub(super) struct Alternation {
    mode: CacheMode,
    /// Open addressing by a number of the shape, 0 where there is none. Empty when every dispatch is replaced.
    shapes: Box<[ShapeCount]>,
}

#[derive(Default)]
struct ShapeCount {
    shape: AtomicU64,
    dispatches: AtomicU32,
}

impl Alternation {
    pub(super) fn new(mode: CacheMode) -> Alternation {
        let shapes = if mode == CacheMode::Swap { 0 } else { SHAPES };
        Alternation { mode, shapes: (0..shapes).map(|_| ShapeCount::default()).collect() }
    }

    /// True when every dispatch is replaced: nothing is remembered.
    fn replace_all(&self) -> bool {
        self.mode == CacheMode::Swap
    }

    /// True when the next dispatch like this one is the replacement's.
    fn is_ours(&self, packet: &Packet) -> bool {
        let (length, first_is_ours) = match self.mode {
            CacheMode::Swap => return true,
            CacheMode::Alternate(length) => (length, false),
            CacheMode::OffAfter(length) => (length, true),
        };
        let Some(count) = self.count_of(shape_of(packet)) else { return false };
        if first_is_ours {
            return count
                .dispatches
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < length).then_some(n + 1))
                .is_ok();
        }
        count.dispatches.fetch_add(1, Ordering::Relaxed) / length % 2 == 1
    }

    fn count_of(&self, shape: Shape) -> Option<&ShapeCount> {
        let number = number_of(shape);
        (0..self.shapes.len()).find_map(|step| {
            let count = &self.shapes[(number as usize).wrapping_add(step) % self.shapes.len()];
            let found = count.shape.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            (found.is_ok() || found == Err(number)).then_some(count)
        })
    }
}

/// What a dispatch is compared by.
pub(crate) fn shape_of(packet: &Packet) -> Shape {
    Shape { grid: packet.grid_size(), workgroup: packet.workgroup_size() }
}

/// Not 0, and different for different shapes but once in some billion billions.
fn number_of(shape: Shape) -> u64 {
    // FNV-1a over words, with a last mixing (from SplitMix64) since its low bits are poor.
    let words = shape.grid.into_iter().chain(shape.workgroup.map(u32::from));
    let hash =
        words.fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3));
    let mixed = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdur_kernel_cache::{Copy, Fill, Move, What};

    fn packet(grid: u32, workgroup: u32) -> Packet {
        let mut packet = Packet([0; 16]);
        packet.0[1] = workgroup | 1 << 16;
        packet.0[2] = 1;
        packet.0[3] = grid;
        packet.0[4] = 1;
        packet.0[5] = 1;
        packet
    }

    fn alternation(mode: CacheMode, packets: &[Packet]) -> String {
        let alternation = Alternation::new(mode);
        packets.iter().map(|p| if alternation.is_ours(p) { 'R' } else { 'o' }).collect()
    }

    #[test]
    fn dispatches_of_each_shape_alternate_apart() {
        let [a, b] = [packet(64, 64), packet(128, 64)];
        assert_eq!(alternation(CacheMode::Swap, &[a, b, a]), "RRR");
        assert_eq!(alternation(CacheMode::Alternate(1), &[a, b, a, b, a, a, b]), "ooRRoRo");
        assert_eq!(alternation(CacheMode::Alternate(2), &[a, a, a, a, a, b]), "ooRRoo");
        assert_eq!(alternation(CacheMode::OffAfter(2), &[a, a, b, a, b, b, a]), "RRRoRoo");
    }

    #[test]
    fn shapes_without_room_run_as_they_are_and_disturb_no_other() {
        let alternation = Alternation::new(CacheMode::OffAfter(1));
        let known: Vec<_> = (0..SHAPES as u32).map(|n| packet(n + 1, 64)).collect();
        assert!(known.iter().all(|p| alternation.is_ours(p)));
        assert!(!alternation.is_ours(&packet(7, 32)));
        assert!(!known.iter().any(|p| alternation.is_ours(p)));
    }

    #[test]
    fn arguments_are_copied_filled_and_zero_elsewhere() {
        let layout = Layout {
            size: 40,
            align: 16,
            source_size: 24,
            copies: vec![Copy { from: 0, to: 0, len: 12 }, Copy { from: 16, to: 32, len: 8 }],
            fills: vec![
                Fill { to: 16, size: 4, what: What::BlockCount(0) },
                Fill { to: 20, size: 2, what: What::GroupSize(0) },
                Fill { to: 24, size: 8, what: What::Queue },
            ],
            moves: vec![Move { at: 4, size: 4, by: 0x100, align: 1 }],
        };
        let from: Vec<u8> = (1..=24).collect();
        let mut to = vec![0xff_u8; 48];
        let facts = PacketFacts {
            grid: [300, 1, 1],
            workgroup: [64, 1, 1],
            queue: 0x0102_0304_0506_0708,
            ..Default::default()
        };
        let place = NonNull::from(to.as_mut_slice()).cast();
        // SAFETY: both have the bytes of the layout.
        unsafe { lay_out(&layout, from.as_ptr(), place, &facts) };
        let mut expected = [0u8; 40];
        expected[..12].copy_from_slice(&from[..12]);
        expected[32..].copy_from_slice(&from[16..]);
        expected[5] += 1;
        expected[16] = 4;
        expected[20] = 64;
        expected[24..32].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!((&to[..40], &to[40..]), (&expected[..], &[0xff_u8; 8][..]));
    }
}
