//! The registers that a wave begins with. Source: LLVM's AMDGPUUsage, "Initial Kernel Execution State".

use amdgpu_isa::Arch;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::operand::Operand;
use amdgpu_isa::wave::{Apertures, LANES, Vgpr, VgprFile, Wave};
use hsa_sys::abi::kernel_descriptor::{KernelDescriptor, properties};

use crate::fill::{Fill, Seat};
use crate::launch::Launch;
use crate::machine::SCRATCH_WINDOW;
use crate::shape::Shape;
use crate::units::Unit;

/// High half of the LDS aperture, as the driver reports it to the runtime.
pub const SHARED_APERTURE_HI: u32 = 0x0001_0000;
/// High half of the scratch aperture.
pub const PRIVATE_APERTURE_HI: u32 = 0x0002_0000;

/// Which wave of which workgroup.
pub(crate) struct WavePosition {
    /// Coordinates of the workgroup.
    pub(crate) workgroup: [u32; 3],
    /// Work-items of the workgroup in each dimension.
    pub(crate) extent: [u32; 3],
    /// Number of the wave.
    pub(crate) wave: u32,
    /// Waves of the workgroup.
    pub(crate) waves: u32,
    /// The compute unit that the workgroup runs on.
    pub(crate) unit: Unit,
    /// Where on it, where that is drawn.
    pub(crate) seat: Option<Seat>,
}

/// Fills scalar registers one after the other.
struct Sgprs<'a> {
    wave: &'a mut Wave,
    next: usize,
}

impl Sgprs<'_> {
    fn push(&mut self, value: u32) {
        if let Some(place) = self.wave.sgpr.get_mut(self.next) {
            *place = value;
        }
        self.next += 1;
    }

    fn push64(&mut self, value: u64) {
        self.push(value as u32);
        self.push((value >> 32) as u32);
    }
}

/// A wave about to execute its first instruction. Registers that it does not begin with are what they were, or filled.
pub(crate) fn initial_wave(
    shape: Shape,
    launch: &Launch,
    place: &WavePosition,
    vgpr: VgprFile,
    fill: Option<&mut Fill>,
) -> Wave {
    let descriptor = &launch.descriptor;
    let arch = shape.arch;
    let mut wave = Wave::new(arch, launch.entry, vgpr);
    wave.sramecc = shape.sramecc;
    wave.mode = Mode(descriptor.initial_mode());
    wave.apertures = Apertures { shared: SHARED_APERTURE_HI, private: PRIVATE_APERTURE_HI };
    wave.accum_offset = if arch.unified_registers() { descriptor.accum_offset() } else { 256 };
    wave.hw_regs.hw_id = place.unit.hw_id() | place.wave & 15 | (place.wave & 3) << 4;
    wave.hw_regs.xcc_id = place.unit.die;
    wave.hw_regs.lds_alloc = launch.lds.div_ceil(arch.row().lds.granule) << 12;

    let items: u32 = place.extent.iter().product();
    let first = place.wave * LANES as u32;
    let active = items.saturating_sub(first).min(LANES as u32);
    wave.set_exec(if active == 64 { u64::MAX } else { (1 << active) - 1 });

    if let Some(seat) = place.seat {
        seat.put(&mut wave, place.wave);
    }
    if let Some(fill) = fill {
        fill.registers(&mut wave, arch, descriptor);
    }
    scalar_registers(&mut wave, launch, place);
    vector_registers(&mut wave, launch, place, first);
    wave
}

/// How many scalar and vector registers a wave begins with: those behind them have no value of their own.
pub(crate) fn initial_registers(descriptor: &KernelDescriptor, arch: Arch) -> (u32, u32) {
    let ids = descriptor.enable_workgroup_id().into_iter().filter(|enabled| *enabled).count() as u32;
    let offset = descriptor.enable_private_segment() && !arch.architected_flat_scratch();
    let scalars =
        descriptor.user_sgpr_count() + ids + u32::from(descriptor.enable_workgroup_info()) + u32::from(offset);
    let vectors = if arch.packed_work_item_id() { 1 } else { descriptor.enable_vgpr_workitem_id().min(2) + 1 };
    (scalars, vectors)
}

fn scalar_registers(wave: &mut Wave, launch: &Launch, place: &WavePosition) {
    let descriptor = &launch.descriptor;
    let has = |bit: u16| descriptor.properties & bit != 0;
    let wave_scratch = launch.scratch_of_wave();
    let wave_offset = place.wave * wave_scratch;
    if wave.arch.architected_flat_scratch() {
        wave.set_pair(Operand::FLAT_SCRATCH, SCRATCH_WINDOW + u64::from(wave_offset));
    }
    let mut s = Sgprs { wave, next: 0 };
    for &value in launch.user_data.iter().flat_map(|data| data.iter()).take(descriptor.user_sgpr_count() as usize) {
        s.push(value);
    }
    if has(properties::PRIVATE_SEGMENT_BUFFER) {
        // Lanes interleaved by dwords: swizzle on, index stride 64, lane id added to the index.
        s.push(SCRATCH_WINDOW as u32);
        s.push((SCRATCH_WINDOW >> 32) as u32 | 1 << 31);
        s.push(u32::MAX);
        s.push(3 << 21 | 1 << 23 | 4 << 15);
    }
    if has(properties::DISPATCH_PTR) {
        s.push64(launch.packet_address);
    }
    if has(properties::QUEUE_PTR) {
        s.push64(launch.queue_address);
    }
    if has(properties::KERNARG_SEGMENT_PTR) {
        s.push64(launch.kernarg_address);
    }
    if has(properties::DISPATCH_ID) {
        s.push64(launch.packet_id);
    }
    if has(properties::FLAT_SCRATCH_INIT) {
        s.push64(SCRATCH_WINDOW);
    }
    if has(properties::PRIVATE_SEGMENT_SIZE) {
        s.push(launch.scratch);
    }
    // Preloaded arguments are left to the prologue that loads them when the firmware does not.
    s.next = descriptor.user_sgpr_count() as usize;
    for (d, enabled) in descriptor.enable_workgroup_id().into_iter().enumerate() {
        if enabled {
            s.push(place.workgroup[d]);
        }
    }
    if descriptor.enable_workgroup_info() {
        s.push(u32::from(place.wave == 0) << 31 | place.waves);
    }
    if descriptor.enable_private_segment() && !s.wave.arch.architected_flat_scratch() {
        s.push(wave_offset);
    }
}

fn vector_registers(wave: &mut Wave, launch: &Launch, place: &WavePosition, first: u32) {
    let ids = work_items(place.extent, first);
    let active = wave.exec();
    // Lanes without a work-item have no number.
    let put = |to: &mut Vgpr, ids: Vgpr| {
        if active == u64::MAX {
            *to = ids;
            return;
        }
        for (lane, (to, id)) in to.iter_mut().zip(ids).enumerate() {
            *to = if active >> lane & 1 == 1 { id } else { *to };
        }
    };
    if wave.arch.packed_work_item_id() {
        let packed = std::array::from_fn(|l| ids[0][l] | ids[1][l] << 10 | ids[2][l] << 20);
        put(wave.vector_mut(Operand::vgpr(0), 0), packed);
        return;
    }
    for d in 0..=launch.descriptor.enable_vgpr_workitem_id().min(2) {
        put(wave.vector_mut(Operand::vgpr(d), 0), ids[d as usize]);
    }
}

/// The x, y and z of the work-items from number `first` on in a workgroup of so many.
fn work_items([ex, ey, ez]: [u32; 3], first: u32) -> [Vgpr; 3] {
    let mut ids = [[0; LANES]; 3];
    if ey == 1 && ez == 1 {
        ids[0] = std::array::from_fn(|l| first + l as u32);
        return ids;
    }
    let mut next = [first % ex, first / ex % ey, first / ex / ey];
    let [x, y, z] = &mut ids;
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        (*x, *y, *z) = (next[0], next[1], next[2]);
        next[0] += 1;
        if next[0] == ex {
            next = [0, next[1] + 1, next[2]];
        }
        if next[1] == ey {
            next = [0, 0, next[2] + 1];
        }
    }
    ids
}
