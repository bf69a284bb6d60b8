//! The records of a capture, as tables. docs/capture-format.md has the same tables.
//!
//! The writer of the file chooses identifiers (`Agent::id`, `Queue::id`, …); 0 means none.

use std::ops::Deref;

use crate::id::Id;
use crate::table::{fields, nested, numbered, records};
use crate::value::{Fields, Kind, Shown, Value, Wrong, numbers};

/// The name of a snapshot in its file: 1, 2, 3, ….
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

numbers! { SnapshotId: |id| id.0, |number| Some(SnapshotId(number)), ZERO_IS_NOTHING; }

/// The 64 bytes of an AQL packet, as the queue had them (HSA Platform System Architecture, 2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet(pub [u8; 64]);

impl Default for Packet {
    fn default() -> Packet {
        Packet([0; 64])
    }
}

impl Value for Packet {
    const KIND: Kind = Kind::Bytes;
    fn put(&self, tag: u16, out: &mut Vec<u8>) {
        self.0.put(tag, out);
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.0.take(bytes)
    }
    fn shown(&self) -> Option<Shown> {
        self.0.shown()
    }
}

numbered! {
    /// Where memory is and who may see it.
    AllocationKind {
        /// Of a GPU, coherent at the ends of kernels.
        1 DeviceCoarse,
        /// Of a GPU, coherent at once.
        2 DeviceFine,
        /// Of a GPU, with extended scope.
        3 DeviceExtended,
        /// Of the host, from a pool of the runtime.
        4 HostPool,
        /// Of the host, meant for kernel arguments.
        5 Kernarg,
        /// Of the host, the application's own, made visible to agents; their address for it may be another.
        6 LockedHost,
        /// Moves between host and GPUs: managed memory, shared virtual memory.
        7 Managed,
        /// Mapped by the application's own calls: reserved address, handle.
        8 Virtual,
        /// Of another process.
        9 Ipc,
        /// Not from this runtime: of another device or library.
        10 Foreign,
    }

    /// What of a dispatch's memory is in its snapshots.
    Scope {
        /// Nothing but the kernarg segment.
        1 Kernarg,
        /// The allocations that the arguments point to.
        2 Args,
        /// The allocations that can be reached from the arguments by following what looks like an address.
        3 Reachable,
        /// Everything that the agent can address.
        4 All,
    }

    /// What a step of a region is.
    StepKind {
        /// A dispatch of a kernel.
        1 Dispatch,
        /// A barrier packet: it writes no memory but its signal.
        2 Barrier,
        /// A packet of the vendor's own format.
        3 Vendor,
        /// A copy from memory to memory.
        4 Copy,
        /// Memory that is filled with a value.
        5 Fill,
    }

    /// How it is known what the host wrote before a step.
    Evidence {
        /// Everything was at rest, and memory was compared: all that differs is there.
        1 Idle,
        /// The pages that the host wrote are there: the kernel of the system noted them.
        2 Page,
        /// The host or a GPU wrote it: which of them, memory does not say.
        3 Either,
    }

    /// How much a note matters.
    Severity {
        /// Good to know.
        1 Info,
        /// Something was not captured: what depends on it cannot be replayed faithfully.
        2 Loss,
        /// The capture ended here, before the application did.
        3 Stop,
    }
}

fields! {
    /// A name and a value.
    Property {
        /// The name.
        1 name: String,
        /// The value.
        2 value: String,
    }

    /// The process that is captured, and with what.
    Session {
        /// The process.
        1 pid: u32,
        /// Its rank in a parallel job.
        2 rank: Option<u32>,
        /// The machine's name.
        3 host: String,
        /// The program's path.
        4 exe: String,
        /// The command line, word by word.
        5 arguments: Vec<String>,
        /// When the process began, in ns since 1970.
        6 start_ns: u64,
        /// Variables of the environment that are on the list of those that may be told.
        7 environment: Vec<Property>,
        /// The version of what captures.
        8 tool_version: String,
        /// The version of the HSA runtime.
        9 runtime_version: String,
        /// Anything else: driver, kernel, container.
        10 properties: Vec<Property>,
        /// The HSA runtime's system clock at the moment of `wall_ns`, in ns. A time `t` of that clock is the wall time `t - system_ns + wall_ns`.
        11 system_ns: u64,
        /// The time of day, in ns since 1970; 0 if it is not known.
        12 wall_ns: u64,
    }

    /// A GPU or a CPU, as the runtime describes it.
    Agent {
        /// Its number.
        1 id: u64,
        /// Its ISA, like `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`; empty for a CPU.
        2 isa: String,
        /// Its product name.
        3 product: String,
        /// Its position among the agents of its kind.
        4 position: u32,
        /// True when it is not hardware.
        5 emulated: bool,
        /// Anything else: partition modes, clocks, compute units, memory.
        6 properties: Vec<Property>,
        /// How often its clock ticks in a second.
        7 ticks_per_second: u64,
        /// Its UUID as the runtime says it, like `GPU-02d2f0e7ba9b4fc2`; `GPU-XX` on hardware that has none.
        8 uuid: String,
        /// Where it is on the bus, like `0000:c1:00.0`.
        9 bdf: String,
        /// Its number in the driver's topology; `None` if the runtime does not say.
        10 driver_node: Option<u32>,
        /// The variables that chose and ordered the visible agents, as `NAME=VALUE` with blanks in between.
        11 visible: String,
        /// Which part of a device that shows as several it is; 0 for the first one, and for a whole device.
        12 partition: u32,
    }

    /// A code object's bytes. Those with the same bytes are written once.
    CodeObject {
        /// The BLAKE3 hash of its bytes.
        1 id: Id,
        /// How many bytes it has.
        2 size: u64,
        /// The ISA that it is for, as its ELF header says.
        3 isa: String,
        /// Where it came from.
        4 uri: String,
        /// Its bytes: extents, addressed from 0.
        5 extents: Vec<u8>,
    }

    /// A code object in memory, as part of an executable.
    Loaded {
        /// The executable's number.
        1 executable: u64,
        /// The code object.
        2 code_object: Id,
        /// The agent.
        3 agent: u64,
        /// The address of its first loaded byte.
        4 base: u64,
        /// How many bytes are there.
        5 size: u64,
        /// What is added to an address of its ELF file (`hsa_ven_amd_loader`: load delta).
        6 delta: u64,
        /// What the loader says of where it came from.
        7 uri: String,
    }

    /// A kernel of a loaded code object.
    Kernel {
        /// Its number.
        1 id: u64,
        /// Its symbol, mangled, without `.kd`.
        2 symbol: String,
        /// The code object that it is in.
        3 code_object: Id,
        /// The executable that it is in.
        4 executable: u64,
        /// The agent.
        5 agent: u64,
        /// The address that packets have: of its descriptor.
        6 object: u64,
        /// The 64 bytes of its descriptor (LLVM's AMDGPUUsage: Kernel Descriptor).
        7 descriptor: Vec<u8>,
        /// Its entry of the code object's metadata, as MessagePack, not changed (AMDGPUUsage: Code Object Metadata).
        8 metadata: Vec<u8>,
    }

    /// Memory that agents can reach, from now on.
    Allocation {
        /// The agents' address for it.
        1 base: u64,
        /// How many bytes.
        2 size: u64,
        /// What memory it is.
        3 kind: AllocationKind,
        /// The agent whose memory it is.
        4 owner: u64,
        /// The agents that may use it.
        5 access: Vec<u64>,
        /// The flags of the call that made it, as they were.
        6 flags: u64,
        /// The host's address for it, when that is another.
        7 host_base: Option<u64>,
        /// Of [`AllocationKind::Virtual`]: the number of the memory that is mapped. Allocations with the same number are the same memory.
        8 handle: u64,
        /// Of [`AllocationKind::Virtual`] and others with a choice: what memory is behind it.
        9 backing: AllocationKind,
        /// The segment, the pool, the alignment: what else has to be the same to have such memory again.
        10 properties: Vec<Property>,
        /// Of [`AllocationKind::Virtual`]: where in the memory of `handle` it begins, in bytes.
        11 offset: u64,
    }

    /// Memory is no longer there: the allocation of that base.
    Freed {
        /// The agents' address for it.
        1 base: u64,
    }

    /// A variable of a loaded code object.
    Global {
        /// The executable that it is in.
        1 executable: u64,
        /// The code object that it is in.
        2 code_object: Id,
        /// The agent.
        3 agent: u64,
        /// Its symbol; its section and offset, as in `.bss+0x40`, where it has none.
        4 symbol: String,
        /// Its address.
        5 address: u64,
        /// How many bytes.
        6 size: u64,
    }

    /// A queue of an agent.
    Queue {
        /// Its number.
        1 id: u64,
        /// The agent.
        2 agent: u64,
        /// How many packets it holds.
        3 size: u32,
        /// `hsa_queue_type_t`.
        4 kind: u32,
        /// `hsa_amd_queue_priority_t`, and 1 more; 0 is not known.
        5 priority: u32,
        /// Anything else: CU masks, limits of scratch.
        6 properties: Vec<Property>,
    }

    /// The memory at a moment: what the frames of extents with its number say, on top of its parent.
    Snapshot {
        /// Its number.
        1 id: SnapshotId,
        /// The snapshot that it goes on from: what is not said anew is as it was there.
        2 parent: Option<SnapshotId>,
        /// True when something that should be in it is not. A note says what.
        3 incomplete: bool,
        /// How many frames of extents it has.
        4 frames: u64,
        /// How many bytes it describes, those of its parents included.
        5 bytes: u64,
        /// How many of them were read and found as in its parent.
        6 unchanged: u64,
    }

    /// A dispatch, complete: with this record it is captured.
    Dispatch {
        /// Its number in the process, as rows of the log have it.
        1 id: u64,
        /// The queue.
        2 queue: u64,
        /// Its packet's index in the queue.
        3 index: u64,
        /// Its packet, as the application made it.
        4 packet: Packet,
        /// The bytes of the kernarg segment that the packet points to.
        5 kernarg: Vec<u8>,
        /// The kernel that ran.
        6 kernel: u64,
        /// The code object that ran.
        7 code_object: Id,
        /// The code object of the application, when another ran in its place.
        8 replaced: Option<Id>,
        /// The kernel of the application, when another ran in its place.
        9 replaced_kernel: Option<u64>,
        /// The memory before.
        10 before: Option<SnapshotId>,
        /// The memory after.
        11 after: Option<SnapshotId>,
        /// When it began, in the agent's ticks.
        12 start_ticks: u64,
        /// When it ended, in the agent's ticks.
        13 end_ticks: u64,
        /// When it began, in nanoseconds of the HSA runtime's system clock (`HSA_SYSTEM_INFO_TIMESTAMP`).
        14 start_ns: u64,
        /// When it ended, in nanoseconds of the HSA runtime's system clock (`HSA_SYSTEM_INFO_TIMESTAMP`).
        15 end_ns: u64,
        /// When the host submitted it, in nanoseconds of the HSA runtime's system clock (`HSA_SYSTEM_INFO_TIMESTAMP`); 0 if it is not known.
        16 enqueue_ns: u64,
        /// How many dispatches of its kernel were before it, and 1 more.
        17 occurrence: u64,
        /// What of the memory is in the snapshots.
        18 scope: Scope,
        /// The bytes of the kernarg segment that ran, when they were laid out anew for a replacement.
        19 replaced_kernarg: Vec<u8>,
        /// For how long its queue was held for the capture, in nanoseconds; 0 if it is not known.
        20 held_ns: u64,
    }

    /// A dispatch that is about to run, with the memory before. One is captured at a time. If neither a Dispatch nor a Note `untaken`
    /// follows, it did not end: it brought the process down, or still ran.
    Begun {
        /// What is known of it. Its kernel is the application's, even if another runs in its place.
        1 dispatch: Dispatch,
    }

    /// A region begins: what its steps do, they do in this order. What it reaches is in the deltas of its steps.
    Region {
        /// Its number, from 1.
        1 id: u64,
        /// What it was asked for by, as the text was.
        2 trigger: String,
        /// What of the memory is in the deltas.
        3 scope: Scope,
        /// The agent of its first dispatch.
        4 agent: u64,
        /// True if `waited` of each step has all that it depended on in other queues. Otherwise steps are done in their order.
        5 has_dependencies: bool,
    }

    /// Memory that a dispatch has changed.
    Changed {
        /// The first address of the allocation.
        1 base: u64,
        /// How many bytes it has.
        2 bytes: u64,
        /// The BLAKE3 hash of all of its bytes after the dispatch.
        3 id: Id,
    }

    /// How far a queue had come.
    Completed {
        /// The queue.
        1 queue: u64,
        /// All of its packets with a smaller index were complete.
        2 index: u64,
    }

    /// One operation of a region, complete: with this record it is captured.
    Step {
        /// The region.
        1 region: u64,
        /// Its place in the region: 1, 2, 3, …, in the order in which the operations went to the GPU.
        2 sequence: u64,
        /// What it is.
        3 kind: StepKind,
        /// Memory that is written before it: what the region reaches for the first time, and the bytes that changed since the step before and that no step has written. The host wrote them, or a copy whose source or time is not known. The snapshot has no parent, and no other memory.
        4 delta: Option<SnapshotId>,
        /// How it is known what the host has changed.
        5 evidence: Evidence,
        /// Of a dispatch: what is known of it. It has neither `before` nor `after`.
        6 dispatch: Option<Dispatch>,
        /// Of a barrier and of [`StepKind::Vendor`]: the packet, as the application made it.
        7 packet: Packet,
        /// The queue; 0 for copies and fills that are in none.
        8 queue: u64,
        /// The index of its packet in the queue.
        9 index: u64,
        /// Of a copy or a fill: the first address that is written.
        10 to: u64,
        /// Of a copy: the first address that is read.
        11 from: u64,
        /// Of a copy or a fill: how many bytes. A copy of 0 bytes does nothing: it has the delta of what was changed at the end of a region.
        12 bytes: u64,
        /// Of a fill: the 4 bytes that are repeated.
        13 value: u32,
        /// How far other queues had come when the host rang the doorbell for it. Of a barrier also how far they come to complete the signals that it waits for. It may depend on that, and on no later packet of them.
        14 waited: Vec<Completed>,
        /// For how long its queue was held for the capture, in nanoseconds; 0 if it is not known.
        15 held_ns: u64,
        /// Of a dispatch, if that was asked for: each allocation that is not as it was before the step, its delta included.
        16 changed: Vec<Changed>,
        /// True if `changed` is all that changed.
        17 has_changed: bool,
        /// Of a dispatch: the ranges of ROCTx that were open when the host rang the doorbell for it, in the order in which they began: those of the thread that rang, and those that any thread may end.
        18 ranges: Vec<String>,
        /// How many bytes of memory of GPUs copies had brought to the host when it rang the doorbell for it, since the beginning of the region.
        19 host_had: u64,
        /// The digest of the records of the file up to it.
        20 digest: Id,
    }

    /// All memory that a region has reached, after a step.
    Checkpoint {
        /// The region.
        1 region: u64,
        /// The step after which the memory was so.
        2 sequence: u64,
        /// The memory. The snapshot has no parent.
        3 snapshot: SnapshotId,
    }

    /// A region has ended.
    RegionEnd {
        /// The region.
        1 region: u64,
        /// How many steps it has.
        2 steps: u64,
        /// All memory that the region has reached and that is still allocated, after the last step. The snapshot has no parent.
        3 after: Option<SnapshotId>,
        /// True if it came to the end that was asked for, and each of its operations is a step.
        4 is_complete: bool,
        /// Why it ended before, or what it lacks.
        5 reason: String,
        /// The digest of the records of the file up to it.
        6 digest: Id,
    }

    /// Where the store is that has contents of this file. Of several, the last one is looked at first.
    StorePath {
        /// Its path as seen from the file's folder.
        1 relative: String,
        /// Its path from the root.
        2 absolute: String,
    }

    /// What a reader has to be told: what was not captured, above all.
    Note {
        /// How much it matters.
        1 severity: Severity,
        /// What it is, in one word that stays the same.
        2 code: String,
        /// What it is, in a sentence.
        3 text: String,
        /// The number of the dispatch that it is about.
        4 dispatch: Option<u64>,
        /// When it was written, in ns since 1970.
        5 time_ns: u64,
    }
}

/// The code of a note about a dispatch whose kernarg segment may have fewer or more bytes than were captured: nothing has
/// said how many.
pub const KERNARG_EXTENT: &str = "kernarg-extent";
/// The code of notes about memory that no call of the runtime announces: kernels use all memory of a process where faults are
/// retried.
pub const UNANNOUNCED: &str = "unannounced";
/// The code of notes about memory that the application freed before it was read.
pub const FREED: &str = "freed";
/// The code of notes about dispatches that were chosen and not captured.
pub const UNTAKEN: &str = "untaken";

nested! { Property Dispatch Completed Changed }

records! {
    /// The process that is captured, and with what.
    16 Session sessions,
    /// GPUs and CPUs.
    17 Agent agents,
    /// Code objects, each once.
    18 CodeObject code_objects,
    /// Code objects in memory.
    19 Loaded loaded,
    /// Kernels of loaded code objects.
    20 Kernel kernels,
    /// Memory that agents can reach, from its record on.
    21 Allocation allocations,
    /// Memory that is no longer there.
    22 Freed freed,
    /// Variables of loaded code objects.
    23 Global globals,
    /// Queues.
    24 Queue queues,
    /// Memory at a moment.
    25 Snapshot snapshots,
    /// Captured dispatches.
    26 Dispatch dispatches,
    /// What a reader has to be told.
    27 Note notes,
    /// Dispatches that are about to run.
    28 Begun begun,
    /// Stretches of the application that are captured as a whole.
    29 Region regions,
    /// Operations of regions, in their order.
    30 Step steps,
    /// Memory in the middle of regions.
    31 Checkpoint checkpoints,
    /// Ends of regions.
    32 RegionEnd region_ends,
    /// Where contents are that the file does not have.
    33 StorePath stores,
}

/// A struct that is the body of a frame.
pub trait Record: Fields {
    /// The type of its frames.
    const TYPE: u16;
}

/// Where in a file a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FramePosition {
    /// The number of the frame: which came before which.
    pub sequence: u64,
    /// Bytes before it.
    pub offset: u64,
}

/// A record, and where it is.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// Where.
    pub place: FramePosition,
    /// What.
    pub value: T,
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
