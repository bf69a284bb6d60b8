//! The machine's interface to the driver around it.

use amdgpu_isa::wave::Trap;
use hsa_sys::abi::aql::Packet;

use crate::memory::{AddressSpace, Refusal, Refused};

/// Events that leave the machine. Implementations must not wait for the machine.
pub trait Driver: Send + Sync {
    /// A completion signal asks for an interrupt of this event.
    fn raise_event(&self, event_id: u32);

    /// A wave sent an interrupt message with the low bits of an event id.
    fn wave_interrupt(&self, partial_id: u32);

    /// A queue stopped for a reason; no packet of it is processed any more.
    fn queue_error(&self, queue: u32, error: &QueueError);

    /// An access to memory that is not mapped.
    fn memory_fault(&self, fault: &MemoryFault);

    /// A line for the driver's own log.
    fn log(&self, text: &str);

    /// A dispatch makes no progress, in one sentence, and where its waves are. Told once for a dispatch.
    fn no_progress(&self, what: &str, places: &[String]) {
        self.log(what);
        places.iter().for_each(|place| self.log(&format!("  {place}")));
    }

    /// True if [`Driver::trace`] is wanted.
    fn wants_trace(&self) -> bool;

    /// A packet has completed. Called before its completion signal is visible.
    fn trace(&self, packet: &CompletedPacket);

    /// How times come to completion signals.
    fn times(&self) -> Times {
        Times::Written
    }

    /// When read indices follow.
    fn read_index(&self) -> ReadIndex {
        ReadIndex::Prompt
    }

    /// True if queues take dispatches in the extended format.
    fn takes_extended_dispatches(&self) -> bool {
        false
    }

    /// True if dispatches get half of the scratch that they ask for.
    fn halves_scratch(&self) -> bool {
        false
    }

    /// Each n-th completion of an SDMA queue is lost.
    fn loses_copies(&self) -> Option<u32> {
        None
    }

    /// True if packets are taken that neither the write index nor the doorbell covers.
    fn fetches_ahead(&self) -> bool {
        false
    }
}

/// How the times of a packet come to its completion signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Start, end, then the decrement.
    #[default]
    Written,
    /// Never, also when the queue's properties ask for it.
    Never,
    /// After the decrement, when the host may have seen it already.
    Late,
    /// The end some time before the start.
    EndFirst,
    /// The start where the end belongs, and the other way round.
    Swapped,
    /// By a clock that is ahead of the driver's.
    Ahead,
    /// Never again once another queue was mapped or unmapped.
    UntilRemap,
}

/// When a queue's read index follows its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadIndex {
    /// When a packet is complete.
    #[default]
    Prompt,
    /// When a quarter of the ring is complete, or the queue has been idle for a while.
    Lazy,
    /// When a packet is complete, and the header of its slot stays valid.
    Valid,
}

/// A packet and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPacket {
    /// The queue's number.
    pub queue: u32,
    /// The packet's id in its queue.
    pub id: u64,
    /// The packet as it was taken from the ring.
    pub packet: Packet,
    /// GPU ticks at its start.
    pub start: u64,
    /// GPU ticks at its end.
    pub end: u64,
    /// Wave instructions that were executed for it.
    pub instructions: u64,
}

/// A wave or a copy engine touched memory that is not mapped for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// The address.
    pub address: u64,
    /// True for writes and atomics.
    pub write: bool,
    /// True when the memory is there but may not be written.
    pub read_only: bool,
    /// The queue whose work it was.
    pub queue: u32,
    /// What was being done, and what is at the address, for people.
    pub what: String,
}

impl MemoryFault {
    /// The fault of work that `refused` ended; `doing` says what it was.
    pub(crate) fn new(queue: u32, refused: Refused, doing: &str, space: &AddressSpace) -> MemoryFault {
        let Refused { at, write, why } = refused;
        let misaligned = if why == Refusal::Misaligned { "the address is not aligned; " } else { "" };
        MemoryFault {
            address: at,
            write,
            read_only: why == Refusal::ReadOnly,
            queue,
            what: format!("{doing}; {misaligned}{}", space.describe(at)),
        }
    }
}

/// Why a queue stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// A packet that is not valid for a reason of its own.
    Packet(PacketError),
    /// A wave could not continue.
    Wave(WaveError),
    /// An injected fault: as if a wave could not continue for this reason.
    Injected(Trap),
}

impl std::fmt::Display for QueueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QueueError::Packet(error) => error.fmt(f),
            QueueError::Wave(error) => error.fmt(f),
            QueueError::Injected(trap) => write!(f, "{trap:?} of a wave, injected"),
        }
    }
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Dimensions or sizes of the grid that make no sense.
    Dimensions,
    /// More LDS than a workgroup can have.
    GroupSegment,
    /// The kernel object is no code.
    CodeObject,
    /// The packet type or vendor format is unknown.
    Type,
    /// The kernel needs more registers than a compute unit has, or more scratch than a wave can have.
    Resources,
}

impl std::fmt::Display for PacketError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PacketError::Dimensions => "the grid or workgroup has no dimensions, no work-items, or too many of them",
            PacketError::GroupSegment => "more group segment (LDS) than a workgroup can have",
            PacketError::CodeObject => "the kernel object is not mapped, or its code is not",
            PacketError::Type => "unknown packet type or vendor format",
            PacketError::Resources => "more registers than a compute unit has, or more scratch than a wave can have",
        })
    }
}

/// Why a wave stopped, where, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveError {
    /// The reason.
    pub trap: Trap,
    /// Address of the instruction.
    pub pc: u64,
    /// Its disassembly, or its words.
    pub instruction: String,
    /// The kernel by its name, if that can be found, and the address of its descriptor, for people.
    pub kernel: String,
    /// Workgroup in the grid.
    pub workgroup: [u32; 3],
    /// Wave in the workgroup.
    pub wave: u32,
    /// For a memory access, why it was refused.
    pub refused: Option<Refused>,
}

impl std::fmt::Display for WaveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.workgroup;
        let reason = match self.trap {
            Trap::Illegal => "illegal instruction".to_owned(),
            Trap::Fetch => "no code is mapped at the program counter".to_owned(),
            Trap::Memory(fault) => {
                let verb = if fault.write { "write to" } else { "read of" };
                let why = match self.refused.map(|r| r.why) {
                    Some(Refusal::ReadOnly) => "read-only",
                    Some(Refusal::Misaligned) => "not aligned as an atomic access needs it",
                    _ => "not mapped",
                };
                format!("{verb} {} bytes at {:#x}, which is {why}, by lane {}", fault.bytes, fault.address, fault.lane)
            }
            Trap::Aperture { address } => {
                format!("address {address:#x} is in an aperture that this access may not touch")
            }
            Trap::Trap(id) => format!("s_trap {id}"),
            Trap::Halt => "s_sethalt".to_owned(),
            Trap::Vskip => "MODE.VSKIP is set, which is not emulated".to_owned(),
        };
        write!(
            f,
            "{reason}; pc {:#x}: {}; {}; workgroup {x},{y},{z}, wave {}",
            self.pc, self.instruction, self.kernel, self.wave
        )
    }
}
