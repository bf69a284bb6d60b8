//! AQL packets. Source: HSA Platform System Architecture Specification 1.2, section 2.9 "Architected Queuing Language
//! (AQL)"; `hsa_ext_amd.h` for the vendor-specific ones.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use crate::raw;

/// The type field of a packet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// AMD's own packets; the second half-word says which.
    VendorSpecific,
    /// The slot holds no packet.
    Invalid,
    /// A kernel dispatch.
    KernelDispatch,
    /// Waits until all dependencies are zero.
    BarrierAnd,
    /// Work for a host agent.
    AgentDispatch,
    /// Waits until any dependency is zero.
    BarrierOr,
    /// A number that has no meaning.
    Unknown(u8),
}

impl PacketType {
    /// The type in a header.
    #[inline]
    pub const fn of(header: u16) -> PacketType {
        match (header & 0xff) as u8 {
            0 => PacketType::VendorSpecific,
            1 => PacketType::Invalid,
            2 => PacketType::KernelDispatch,
            3 => PacketType::BarrierAnd,
            4 => PacketType::AgentDispatch,
            5 => PacketType::BarrierOr,
            other => PacketType::Unknown(other),
        }
    }
}

/// The header of an empty slot.
pub const INVALID_HEADER: u16 = 1;

/// Bit of a header: earlier packets of the queue must be complete first.
pub const BARRIER_BIT: u16 = 1 << 8;

/// A bit of a header that the HSA specification reserves (`hsa.h`: a header has 13 bits): in a copy of a ring, it marks packets
/// that were passed on.
const PASSED_ON: u16 = 1 << 15;

/// True of a header that [`Slot::mark_as_passed_on`] has marked.
#[inline]
pub const fn packet_is_passed_on(header: u16) -> bool {
    header & PASSED_ON != 0
}

/// Formats of vendor-specific packets (low byte of the second half-word). Source: `hsa_ext_amd.h` for the barrier with
/// a condition; ROCr's `amd_aql_pm4_ib_packet_t` for the other.
pub mod vendor {
    /// An indirect buffer of PM4 commands.
    pub const PM4_IB: u8 = 1;
    /// A barrier that compares one signal with a value.
    pub const BARRIER_VALUE: u8 = 2;
    /// A kernel dispatch whose workgroups form clusters. Source: `hsa_amd_ext_kernel_dispatch_packet_t` of `hsa_ext_amd.h` since
    /// step 0x0D of the extension table. Kernel, arguments, sizes of workgroups and memory, and the completion signal are where
    /// the kernel dispatch packet has them.
    pub const EXT_KERNEL_DISPATCH: u8 = 3;
}

/// One 64-byte packet, as a copy. Fields are named after the kernel dispatch packet where they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Packet(pub [u32; 16]);

const KERNEL_OBJECT: usize = offset_of!(raw::hsa_kernel_dispatch_packet_t, kernel_object) / 4;
const KERNARG_ADDRESS: usize = offset_of!(raw::hsa_kernel_dispatch_packet_t, kernarg_address) / 4;
/// The size of LDS follows.
const PRIVATE_SEGMENT_SIZE: usize = offset_of!(raw::hsa_kernel_dispatch_packet_t, private_segment_size) / 4;
const COMPLETION_SIGNAL: usize = offset_of!(raw::hsa_kernel_dispatch_packet_t, completion_signal) / 4;
const _: () =
    assert!(size_of::<raw::hsa_kernel_dispatch_packet_t>() == 64 && KERNEL_OBJECT == 8 && COMPLETION_SIGNAL == 14);
const _: () = assert!(
    PRIVATE_SEGMENT_SIZE == 6
        && offset_of!(raw::hsa_kernel_dispatch_packet_t, group_segment_size) == 28
        && KERNARG_ADDRESS == 10
);
const _: () = assert!(
    offset_of!(raw::hsa_barrier_and_packet_t, dep_signal) == 8
        && offset_of!(raw::hsa_barrier_and_packet_t, completion_signal) == 56
);
const _: () = assert!(offset_of!(raw::hsa_amd_barrier_value_packet_t, completion_signal) == 56);

impl Packet {
    /// A slot without a packet.
    pub const INVALID: Packet = Packet({
        let mut words = [0; 16];
        words[0] = INVALID_HEADER as u32;
        words
    });

    /// Of its bytes in memory.
    pub fn from_bytes(bytes: &[u8; 64]) -> Packet {
        let mut packet = Packet([0; 16]);
        for (word, bytes) in packet.0.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        packet
    }

    /// Its bytes in memory.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// The header.
    #[inline]
    pub const fn header(&self) -> u16 {
        self.0[0] as u16
    }

    /// The type in the header.
    #[inline]
    pub const fn packet_type(&self) -> PacketType {
        PacketType::of(self.header())
    }

    /// The half-word after the header: number of dimensions, or the vendor format.
    #[inline]
    pub const fn setup(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    /// True when earlier packets of the queue must be complete first.
    #[inline]
    pub const fn has_barrier_bit(&self) -> bool {
        self.header() & BARRIER_BIT != 0
    }

    /// Has earlier packets of the queue be complete first.
    #[inline]
    pub const fn set_barrier_bit(&mut self) {
        self.0[0] |= BARRIER_BIT as u32;
    }

    const fn pair(&self, word: usize) -> u64 {
        self.0[word] as u64 | (self.0[word + 1] as u64) << 32
    }

    const fn set_pair(&mut self, word: usize, value: u64) {
        self.0[word] = value as u32;
        self.0[word + 1] = (value >> 32) as u32;
    }

    /// True of a kernel dispatch in AMD's extended format, which gfx1250 takes.
    #[inline]
    pub const fn is_extended_dispatch(&self) -> bool {
        is_extended_dispatch(self.0[0])
    }

    /// True of a kernel dispatch in either format.
    #[inline]
    pub const fn is_dispatch(&self) -> bool {
        matches!(self.packet_type(), PacketType::KernelDispatch) || self.is_extended_dispatch()
    }

    /// Kernel dispatch: dimensions of the grid, 1 to 3.
    #[inline]
    pub const fn dimensions(&self) -> u16 {
        // The extended format has its own number in the low byte.
        let setup = if self.is_extended_dispatch() { self.setup() >> 8 } else { self.setup() };
        setup & 3
    }

    /// Kernel dispatch: work-items of a workgroup in x, y and z.
    #[inline]
    pub const fn workgroup_size(&self) -> [u16; 3] {
        [self.0[1] as u16, (self.0[1] >> 16) as u16, self.0[2] as u16]
    }

    /// Kernel dispatch: work-items of the grid in x, y and z.
    #[inline]
    pub const fn grid_size(&self) -> [u32; 3] {
        if self.is_extended_dispatch() { self.clustered_grid() } else { [self.0[3], self.0[4], self.0[5]] }
    }

    /// Extended dispatch: clusters, times workgroups of a cluster, times work-items of a workgroup.
    // Inlined although it is rare: a call would keep the packets of all callers out of registers.
    #[inline(always)]
    const fn clustered_grid(&self) -> [u32; 3] {
        let clusters = [self.0[3], self.0[4] & 0xffff, self.0[4] >> 16];
        let [size_x, size_y, size_z, _] = self.0[5].to_le_bytes();
        let [x, y, z] = self.workgroup_size();
        [
            clusters[0].saturating_mul(size_x as u32).saturating_mul(x as u32),
            clusters[1].saturating_mul(size_y as u32).saturating_mul(y as u32),
            clusters[2].saturating_mul(size_z as u32).saturating_mul(z as u32),
        ]
    }

    /// Extended dispatch: the signal that has to be 0 first, or 0.
    pub const fn dependency(&self) -> u64 {
        self.pair(12)
    }

    /// Kernel dispatch: bytes of scratch for each work-item.
    #[inline]
    pub const fn private_segment_size(&self) -> u32 {
        self.0[PRIVATE_SEGMENT_SIZE]
    }

    /// Kernel dispatch: bytes of LDS for each workgroup.
    #[inline]
    pub const fn group_segment_size(&self) -> u32 {
        self.0[PRIVATE_SEGMENT_SIZE + 1]
    }

    /// Kernel dispatch: address of the kernel descriptor.
    #[inline]
    pub const fn kernel_object(&self) -> u64 {
        self.pair(KERNEL_OBJECT)
    }

    /// Kernel dispatch: address of the kernel arguments.
    #[inline]
    pub const fn kernarg_address(&self) -> u64 {
        self.pair(KERNARG_ADDRESS)
    }

    /// Handle of the signal that is decremented at completion, or 0. In the same place in every packet but PM4.
    #[inline]
    pub const fn completion_signal(&self) -> u64 {
        self.pair(COMPLETION_SIGNAL)
    }

    /// Replaces the completion signal.
    #[inline]
    pub const fn set_completion_signal(&mut self, handle: u64) {
        self.set_pair(COMPLETION_SIGNAL, handle);
    }

    /// Kernel dispatch: replaces the kernel, with the scratch and the LDS that it needs.
    #[inline]
    pub const fn set_kernel(&mut self, object: u64, private_segment_size: u32, group_segment_size: u32) {
        self.0[PRIVATE_SEGMENT_SIZE] = private_segment_size;
        self.0[PRIVATE_SEGMENT_SIZE + 1] = group_segment_size;
        self.set_pair(KERNEL_OBJECT, object);
    }

    /// Kernel dispatch: replaces the address of the kernel arguments.
    #[inline]
    pub const fn set_kernarg_address(&mut self, address: u64) {
        self.set_pair(KERNARG_ADDRESS, address);
    }

    /// Widens both fences to the whole system: other agents' writes are seen, and other agents see this packet's. Source:
    /// `hsa.h`, `hsa_packet_header_t` and `hsa_fence_scope_t`.
    #[inline]
    pub const fn set_system_fences(&mut self) {
        const SYSTEM: u32 = 2;
        const ACQUIRE: u32 = 9;
        const RELEASE: u32 = 11;
        self.0[0] = self.0[0] & !(3 << ACQUIRE | 3 << RELEASE) | SYSTEM << ACQUIRE | SYSTEM << RELEASE;
    }

    /// Barrier-AND and barrier-OR: the five dependencies, 0 where there is none.
    pub const fn dependencies(&self) -> [u64; 5] {
        [self.pair(2), self.pair(4), self.pair(6), self.pair(8), self.pair(10)]
    }

    /// AMD barrier with a condition: signal, value, mask, condition (0 equal, 1 not equal, 2 less, 3 not less).
    pub const fn barrier_value(&self) -> (u64, i64, i64, u32) {
        (self.pair(2), self.pair(4) as i64, self.pair(6) as i64, self.0[8])
    }

    /// AMD PM4 packet: the three dwords of the indirect-buffer command after its own header.
    pub const fn pm4_indirect_buffer(&self) -> (u64, u32) {
        (self.0[2] as u64 & !3 | ((self.0[3] & 0xffff) as u64) << 32, self.0[4] & 0xf_ffff)
    }
}

/// True of the first dword of an extended dispatch.
#[inline]
const fn is_extended_dispatch(word: u32) -> bool {
    matches!(PacketType::of(word as u16), PacketType::VendorSpecific)
        && word >> 16 & 0xff == vendor::EXT_KERNEL_DISPATCH as u32
}

/// A packet in a ring, which producers and the packet processor write as well.
///
/// # Ordering
/// A header that was loaded with acquire makes the rest of its packet visible.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot([AtomicU64; 8]);

const _: () = assert!(size_of::<Slot>() == size_of::<Packet>());

impl Slot {
    /// A slot that holds a packet.
    pub const fn new(packet: Packet) -> Slot {
        // SAFETY: both are 64 bytes of plain data; every value of an atomic integer is one.
        unsafe { core::mem::transmute(packet) }
    }

    /// A slot without a packet.
    pub const fn invalid() -> Slot {
        Slot::new(Packet::INVALID)
    }

    fn header(&self) -> &AtomicU16 {
        // SAFETY: the header is the first half-word of a packet; it is aligned, and accessed as an atomic only.
        unsafe { AtomicU16::from_ptr(self.0.as_ptr().cast_mut().cast()) }
    }

    /// The header, with acquire.
    #[inline]
    pub fn load_header(&self) -> u16 {
        self.header().load(Ordering::Acquire)
    }

    /// Marks a packet that was copied to where it is processed. The next packet of the slot has no mark.
    #[inline]
    pub fn mark_as_passed_on(&self) {
        self.header().fetch_or(PASSED_ON, Ordering::Relaxed);
    }

    /// Invalidates the header of a packet that has the mark; one without it is another packet, and stays.
    #[inline]
    pub fn invalidate_if_passed_on(&self) {
        let header = self.header().load(Ordering::Relaxed);
        if packet_is_passed_on(header) {
            // If it fails, a producer has written the next packet.
            let _ = self.header().compare_exchange(header, INVALID_HEADER, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Copies a packet but for its first 8 bytes, in which the header is.
    #[inline]
    pub fn take_body_of(&self, from: &Slot) {
        for (to, from) in self.0.iter().zip(&from.0).skip(1) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies the first 8 bytes of a packet, with release.
    #[inline]
    pub fn take_header_of(&self, from: &Slot) {
        self.0[0].store(from.0[0].load(Ordering::Relaxed), Ordering::Release);
    }

    /// True of a kernel dispatch in either format whose header is `header`, as [`Slot::load_header`] has returned it.
    #[inline]
    pub fn is_dispatch(&self, header: u16) -> bool {
        match PacketType::of(header) {
            PacketType::KernelDispatch => true,
            PacketType::VendorSpecific => is_extended_dispatch(self.0[0].load(Ordering::Relaxed) as u32),
            _ => false,
        }
    }

    /// A copy of the packet.
    #[inline]
    pub fn read(&self) -> Packet {
        let mut packet = Packet([0; 16]);
        for (n, word) in self.0.iter().enumerate() {
            packet.set_pair(2 * n, word.load(Ordering::Relaxed));
        }
        packet
    }

    /// Kernel dispatch: replaces what [`Packet::set_kernel`] and [`Packet::set_kernarg_address`] do by that of a packet.
    #[inline]
    pub fn take_kernel_of(&self, packet: &Packet) {
        for word in [PRIVATE_SEGMENT_SIZE / 2, KERNEL_OBJECT / 2, KERNARG_ADDRESS / 2] {
            self.0[word].store(packet.pair(2 * word), Ordering::Relaxed);
        }
    }

    /// Replaces the completion signal.
    #[inline]
    pub fn set_completion_signal(&self, handle: u64) {
        self.0[COMPLETION_SIGNAL / 2].store(handle, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reads_as_the_packet_that_it_holds() {
        let mut packet = Packet(core::array::from_fn(|n| n as u32 * 0x0101_0101 + 2));
        let slot = Slot::new(packet);
        assert_eq!((slot.load_header(), slot.read()), (packet.header(), packet));
        let bytes = packet.to_bytes();
        assert_eq!((Packet::from_bytes(&bytes), &bytes[..5]), (packet, &[2, 0, 0, 0, 3][..]));
        slot.set_completion_signal(0x1234_5678_9abc);
        packet.set_completion_signal(0x1234_5678_9abc);
        assert_eq!(slot.read(), packet);
        packet.set_kernel(0x7f00_0000_1040, 48, 4096);
        packet.set_kernarg_address(0x7f00_0000_2000);
        let changed = (packet.kernel_object(), packet.private_segment_size(), packet.group_segment_size());
        assert_eq!((changed, packet.kernarg_address()), ((0x7f00_0000_1040, 48, 4096), 0x7f00_0000_2000));
        slot.take_kernel_of(&packet);
        assert_eq!(slot.read(), packet);
    }

    #[test]
    fn an_extended_dispatch_has_the_grid_of_its_clusters() {
        let mut words = [0; 16];
        // Barrier bit, format 3, two dimensions; workgroups of 64 x 2; 70000 x 3 clusters of 2 x 4 workgroups.
        words[..6].copy_from_slice(&[0x0203_0100, 64 | 2 << 16, 1, 70_000, 3 | 1 << 16, 2 | 4 << 8 | 1 << 16]);
        words[8] = 0x1000;
        let packet = Packet(words);
        assert!(packet.is_extended_dispatch() && packet.is_dispatch() && packet.has_barrier_bit());
        assert_eq!((packet.dimensions(), packet.grid_size()), (2, [8_960_000, 24, 1]));
        assert_eq!((packet.workgroup_size(), packet.kernel_object()), ([64, 2, 1], 0x1000));
        let slot = Slot::new(packet);
        assert!(slot.is_dispatch(slot.load_header()));
        // A barrier of AMD's, and a packet of no runtime's.
        for format in [2u32, 4] {
            words[0] = 0x100 | format << 16;
            let slot = Slot::new(Packet(words));
            assert!(!Packet(words).is_dispatch() && !slot.is_dispatch(slot.load_header()));
        }
    }

    #[test]
    fn fields_are_where_the_runtime_puts_them() {
        let mut raw = raw::hsa_kernel_dispatch_packet_t::default();
        raw.__bindgen_anon_1.__bindgen_anon_1.header = 0x1502;
        raw.__bindgen_anon_1.__bindgen_anon_1.setup = 3;
        raw.workgroup_size_x = 64;
        raw.workgroup_size_y = 2;
        raw.workgroup_size_z = 1;
        raw.grid_size_x = 1024;
        raw.grid_size_y = 8;
        raw.grid_size_z = 3;
        raw.private_segment_size = 16;
        raw.group_segment_size = 2048;
        raw.kernel_object = 0x7f00_1234_5678;
        raw.kernarg_address = 0x7f11_0000_0040 as *mut _;
        raw.completion_signal = raw::hsa_signal_t { handle: 0x7f22_0000_0080 };
        // SAFETY: both are 64 bytes of plain data.
        let packet: Packet = unsafe { core::mem::transmute(raw) };
        assert_eq!(
            (packet.packet_type(), packet.has_barrier_bit(), packet.dimensions()),
            (PacketType::KernelDispatch, true, 3)
        );
        assert_eq!((packet.workgroup_size(), packet.grid_size()), ([64, 2, 1], [1024, 8, 3]));
        assert_eq!((packet.private_segment_size(), packet.group_segment_size()), (16, 2048));
        assert_eq!((packet.kernel_object(), packet.kernarg_address()), (0x7f00_1234_5678, 0x7f11_0000_0040));
        assert_eq!(packet.completion_signal(), 0x7f22_0000_0080);
    }
}
