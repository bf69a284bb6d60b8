//! What the stories share: numbers that are the same in every run, a capture with everything in it.

use std::path::Path;
use std::sync::Arc;

use logdur_capture::{
    Agent, Allocation, AllocationKind, Changed, Checkpoint, CodeObject, Completed, Dispatch, Evidence, Global, Id,
    Kernel, Loaded, Note, Options, Packet, Property, Queue, Region, RegionEnd, Scope, Session, Severity, SnapshotId,
    Step, StepKind, Storage, Store, StorePath, Writer,
};

/// How many of something a test takes: few, or with `cargo xtask test --full` all that is promised.
pub(crate) fn count(few: usize, full: usize) -> usize {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { full } else { few }
}

/// Numbers that are the same in every run: xorshift.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Bytes that no codec makes smaller.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }
}

pub(crate) fn options(seed: u64) -> Options {
    Options { uuid: Some([seed as u8; 16]), created_ns: Some(1_700_000_000_000_000_000), ..Options::default() }
}

fn property(name: &str, value: &str) -> Property {
    Property { name: name.to_owned(), value: value.to_owned() }
}

/// Writes what comes before the first dispatch: one of each record.
pub(crate) fn introduce<S: Storage>(writer: &mut Writer<S>, code: &[u8]) -> Id {
    let session = Session {
        pid: 4711,
        rank: Some(0),
        host: "node".to_owned(),
        exe: "/opt/app".to_owned(),
        arguments: vec!["app".to_owned(), String::new(), "-n".to_owned(), "3".to_owned()],
        start_ns: 1_700_000_000_000_000_000,
        environment: vec![property("HIP_VISIBLE_DEVICES", "0"), property("EMPTY", "")],
        tool_version: "0.1.0".to_owned(),
        runtime_version: "1.14".to_owned(),
        system_ns: 86_400_000_000_000,
        wall_ns: 1_700_000_000_000_000_000,
        properties: vec![],
    };
    writer.session(&session).unwrap();
    let isa = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-".to_owned();
    let agent = Agent {
        id: 1,
        isa: isa.clone(),
        product: "AMD Instinct MI250X (emulated)".to_owned(),
        emulated: true,
        ..Agent::default()
    };
    writer.agent(&agent).unwrap();
    writer.queue(&Queue { id: 1, agent: 1, size: 16384, kind: 0, priority: 2, properties: vec![] }).unwrap();
    let about = CodeObject { isa, uri: "file:///opt/app#offset=4096".to_owned(), ..CodeObject::default() };
    let id = writer.code_object(&about, code).unwrap();
    let (base, size) = (0x7f00_0000_0000, code.len() as u64);
    writer
        .loaded(&Loaded { executable: 1, code_object: id, agent: 1, base, size, delta: base, uri: String::new() })
        .unwrap();
    let kernel = Kernel {
        id: 1,
        symbol: "_Z3addPfS_i".to_owned(),
        code_object: id,
        executable: 1,
        agent: 1,
        object: base + 64,
        descriptor: vec![5; 64],
        metadata: vec![0x81, 0xa5, b'.', b'n', b'a', b'm', b'e', 0xa3, b'a', b'd', b'd'],
    };
    writer.kernel(&kernel).unwrap();
    let symbol = "counter".to_owned();
    writer.global(&Global { executable: 1, code_object: id, agent: 1, symbol, address: base + 4096, size: 4 }).unwrap();
    id
}

pub(crate) fn allocation(base: u64, size: u64) -> Allocation {
    let kind = AllocationKind::DeviceCoarse;
    Allocation { base, size, kind, owner: 1, access: vec![1, 0], flags: 0, ..Allocation::default() }
}

pub(crate) fn dispatch(number: u64, code: Id, before: SnapshotId, after: SnapshotId) -> Dispatch {
    let mut packet = [0; 64];
    packet[..8].copy_from_slice(&[2, 0x15, 1, 0, 64, 0, 1, 0]);
    packet[8..16].copy_from_slice(&number.to_le_bytes());
    Dispatch {
        id: number,
        queue: 1,
        index: number,
        packet: Packet(packet),
        kernarg: number.to_le_bytes().repeat(5),
        kernel: 1,
        code_object: code,
        before: Some(before),
        after: Some(after),
        start_ticks: 100 * number,
        end_ticks: 100 * number + 42,
        start_ns: 1_700_000_000_000_000_000 + number,
        end_ns: 1_700_000_000_000_000_420 + number,
        enqueue_ns: 1_700_000_000_000_000_000,
        occurrence: number + 1,
        scope: Scope::All,
        ..Dispatch::default()
    }
}

/// A capture of a few dispatches, each of which changes a little of `bytes` bytes of memory.
pub(crate) fn capture(options: &Options, dispatches: u64, bytes: usize) -> Vec<u8> {
    written(Writer::new(Vec::new(), options).unwrap(), options, dispatches, bytes)
}

/// The same, with contents in the folder `store` beside the file.
pub(crate) fn shared(options: &Options, dispatches: u64, bytes: usize, folder: &Path) -> Vec<u8> {
    let store = Store::create(&folder.join("store"), 0o600).unwrap();
    let path = StorePath { relative: "store".to_owned(), absolute: String::new() };
    let writer = Writer::sharing(Vec::new(), options, Arc::new(store), &path).unwrap();
    written(writer, options, dispatches, bytes)
}

fn written(mut writer: Writer<Vec<u8>>, options: &Options, dispatches: u64, bytes: usize) -> Vec<u8> {
    let mut numbers = Numbers(options.uuid.map_or(1, |uuid| u64::from(uuid[0]) + 1));
    let code = introduce(&mut writer, &numbers.bytes(300));
    let base = 0x7f12_3456_7000;
    let mut memory = numbers.bytes(bytes / 2);
    memory.resize(bytes, 0);
    let words = memory.chunks_exact_mut(4).take(bytes / 16).enumerate();
    words.for_each(|(i, word)| word.copy_from_slice(&(i as u32 / 100).to_le_bytes()));
    writer.allocation(&allocation(base, bytes as u64)).unwrap();
    let mut parent = None;
    for number in 0..dispatches {
        let mut ids = Vec::new();
        for _ in 0..2 {
            let mut snapshot = writer.snapshot(parent);
            snapshot.bytes(base, &memory).unwrap();
            if number == 0 {
                snapshot.bytes(base + (1 << 30), &[number as u8; 5000]).unwrap();
            }
            parent = Some(snapshot.finish().unwrap());
            ids.extend(parent);
            let at = numbers.below(bytes);
            memory[at] = memory[at].wrapping_add(1);
        }
        writer.dispatch(&dispatch(number, code, ids[0], ids[1])).unwrap();
    }
    let text = "2 words of the kernarg segment point to memory that nobody allocated".to_owned();
    let code = "dangling-pointer".to_owned();
    writer.note(&Note { severity: Severity::Loss, code, text, dispatch: Some(0), time_ns: 1 }).unwrap();
    writer.finish().unwrap()
}

/// The memory of [`region`] that the host writes, and the memory that its copy writes.
pub(crate) const HOST: u64 = 0x7f12_3456_7000;
pub(crate) const DEVICE: u64 = 0x7f20_0000_0000;

/// A capture of a region with a step of each kind: a dispatch, a barrier, a copy, a fill, memory of the vendor's, and a
/// checkpoint. The host changes 3 bytes at an odd address before the second dispatch.
pub(crate) fn region(options: &Options) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let code = introduce(&mut writer, &Numbers(5).bytes(300));
    writer.queue(&Queue { id: 2, agent: 1, size: 64, ..Queue::default() }).unwrap();
    let trigger = "dispatches:3..dispatches:4".to_owned();
    writer.region(&Region { id: 1, trigger, scope: Scope::Reachable, agent: 1, has_dependencies: true }).unwrap();
    let first = writer_snapshot(&mut writer, &[(HOST, &Numbers(6).bytes(5000)), (DEVICE, &[0; 70_000])]);
    let host = AllocationKind::HostPool;
    writer.allocation(&Allocation { kind: host, ..allocation(HOST, 5000) }).unwrap();
    writer.allocation(&allocation(DEVICE, 70_000)).unwrap();
    let bare = |number| Dispatch { before: None, after: None, ..dispatch(number, code, first, first) };
    let step = |sequence, kind| Step { region: 1, sequence, kind, evidence: Evidence::Idle, ..Step::default() };
    let of_dispatch = |sequence, number, delta| Step {
        delta: Some(delta),
        dispatch: Some(bare(number)),
        queue: 1,
        index: number,
        waited: vec![Completed { queue: 2, index: 7 }],
        held_ns: 1234,
        changed: vec![Changed { base: DEVICE, bytes: 70_000, id: Id::of(&[number as u8]) }],
        has_changed: true,
        ..step(sequence, StepKind::Dispatch)
    };
    writer.step(&of_dispatch(1, 3, first)).unwrap();
    let barrier = Packet(std::array::from_fn(|at| if at == 0 { 3 } else { at as u8 }));
    writer.step(&Step { packet: barrier, queue: 2, index: 7, ..step(2, StepKind::Barrier) }).unwrap();
    writer.step(&Step { to: DEVICE, from: HOST, bytes: 4096, ..step(3, StepKind::Copy) }).unwrap();
    let at = writer_snapshot(&mut writer, &[(HOST, &[1; 5000]), (DEVICE, &[2; 70_000])]);
    writer.checkpoint(&Checkpoint { region: 1, sequence: 3, snapshot: at }).unwrap();
    writer.step(&Step { to: DEVICE, bytes: 64, value: 0x0102_0304, ..step(4, StepKind::Fill) }).unwrap();
    let written = writer_snapshot(&mut writer, &[(HOST + 13, &[9, 8, 7])]);
    writer.step(&of_dispatch(5, 4, written)).unwrap();
    writer.step(&Step { packet: Packet([6; 64]), queue: 1, index: 5, ..step(6, StepKind::Vendor) }).unwrap();
    let after = writer_snapshot(&mut writer, &[(HOST, &[3; 5000]), (DEVICE, &[4; 70_000])]);
    let end = RegionEnd { region: 1, steps: 6, after: Some(after), is_complete: true, ..RegionEnd::default() };
    writer.region_end(&end).unwrap();
    writer.finish().unwrap()
}

fn writer_snapshot<S: Storage>(writer: &mut Writer<S>, memory: &[(u64, &[u8])]) -> SnapshotId {
    let mut snapshot = writer.snapshot(None);
    memory.iter().for_each(|(address, bytes)| snapshot.bytes(*address, bytes).unwrap());
    snapshot.finish().unwrap()
}
