//! The most registers that are live at an executed instruction, beside what the kernel allocates.

use amdgpu_emu::isa::inst::Inst;
use logdur_analysis::liveness::live;
use logdur_analysis::occupancy::{Occupancy, Resources};
use logdur_analysis::processor::Processor;

/// The most live registers of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// How many.
    pub registers: u32,
    /// The address of the first instruction with so many.
    pub address: u64,
}

/// The most live registers of executed instructions. A model: see `logdur_analysis::liveness`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Vector registers.
    pub vgprs: Most,
    /// Accumulation registers.
    pub agprs: Most,
    /// Scalar registers, VCC and the like included.
    pub sgprs: Most,
    /// What a kernel without other registers would allocate of vector registers.
    pub needed: u32,
    /// Waves of a SIMD that such a kernel would have.
    pub waves: u32,
    /// What the kernel allocates.
    pub allocated: Resources,
}

impl Peak {
    /// Of a kernel's code, sorted by address; `is_executed` by the number of an instruction. `None` where control cannot be followed.
    pub(crate) fn of(
        processor: &Processor,
        allocated: Resources,
        code: &[(u64, Inst)],
        is_executed: impl Fn(usize) -> bool,
    ) -> Option<Peak> {
        let all = live(code)?;
        let mut peak = Peak {
            vgprs: Most::default(),
            agprs: Most::default(),
            sgprs: Most::default(),
            needed: 0,
            waves: 0,
            allocated,
        };
        let executed = all.iter().zip(code).enumerate().filter(|(n, _)| is_executed(*n));
        for (_, (live, (address, _))) in executed {
            for (most, registers) in
                [(&mut peak.vgprs, live.vgprs), (&mut peak.agprs, live.agprs), (&mut peak.sgprs, live.sgprs)]
            {
                if registers > most.registers {
                    *most = Most { registers, address: *address };
                }
            }
        }
        let (vectors, accumulators) = (peak.vgprs.registers, peak.agprs.registers);
        // In one file, accumulation registers begin at a multiple of four.
        let registers = match (processor.unified_registers(), accumulators) {
            (true, 1..) => vectors.next_multiple_of(4) + accumulators,
            _ => vectors.max(accumulators),
        };
        peak.needed = registers.next_multiple_of(processor.vgprs.granule);
        peak.waves = Occupancy::of(processor, &Resources { vgprs: registers, ..allocated }).waves;
        Some(peak)
    }
}
