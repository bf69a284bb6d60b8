//! Captured regions: several dispatches with what the host and copies changed between them, replayed without a runtime. What the memory
//! is in the application is computed here, step by step.

mod compared;
mod geometry;
mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::{
    Agent, Allocation, AllocationKind, Checkpoint, CodeObject, Completed, Dispatch, Evidence, Kernel, Loaded, Options,
    Packet, Reader, Region, RegionEnd, Scope, Session, SnapshotId, Step, StepKind, Storage, Writer,
};

use super::verify::on_file;
use crate::support::captures::{CODE, packet, places};
use crate::support::harness::{self, Outcome, Run, built};

/// Where the buffers are: words of 3 pages, of 1 page, and a count.
pub(crate) const A: u64 = 0x7f31_0020_3000;
pub(crate) const B: u64 = 0x7f31_0040_0000;
pub(crate) const C: u64 = 0x7f31_0060_0100;
/// Where the same code object was loaded once more.
const AGAIN: u64 = CODE + 0x20_0000;
/// Words that a grid of `increment` has.
const WORDS: usize = 256;

/// Bytes at addresses.
pub(crate) type Bytes = Vec<(u64, Vec<u8>)>;

/// What a step does.
#[derive(Clone)]
pub(crate) enum Does {
    /// Runs a kernel of the first or of the second code object in memory on an address.
    Kernel(&'static str, u64, u64),
    Barrier,
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Fill {
        to: u64,
        bytes: u64,
        value: u32,
    },
    /// Memory is freed, and there is some of another kind instead.
    Renewed(u64, u64, AllocationKind),
}

#[derive(Clone)]
pub(crate) struct StoryStep {
    pub(crate) does: Does,
    pub(crate) delta: Bytes,
    pub(crate) evidence: Evidence,
    pub(crate) queue: u64,
    /// Work-items of a workgroup.
    pub(crate) workgroup: u16,
    /// Queues, and the first step that was not complete.
    pub(crate) waited: Vec<(u64, u64)>,
}

/// A region as an application would have made it.
#[derive(Clone)]
pub(crate) struct Story {
    /// The processor.
    arch: String,
    pub(crate) code: Vec<u8>,
    /// Code that is loaded behind it, as the kernels of `AGAIN`, and where that is.
    again: (Vec<u8>, u64),
    pub(crate) steps: Vec<StoryStep>,
    /// Memory of the GPU: addresses and bytes.
    pub(crate) allocations: Vec<(u64, u64)>,
    /// Behind which steps all memory is known, and what it is.
    pub(crate) checkpoints: BTreeMap<u64, Bytes>,
    pub(crate) after: Option<Bytes>,
    end: Option<bool>,
    pub(crate) has_dependencies: bool,
}

pub(crate) fn step(does: Does, delta: Bytes) -> StoryStep {
    StoryStep { does, delta, evidence: Evidence::Idle, queue: 1, workgroup: 64, waited: Vec::new() }
}

pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn incremented(words: &[u32]) -> Vec<u32> {
    let add = |(at, word): (usize, &u32)| word.wrapping_add(u32::from(at < WORDS));
    words.iter().enumerate().map(add).collect()
}

impl Story {
    /// Increments A, copies the beginning of it to B, increments B after the host has written into A, counts, and increments A.
    pub(crate) fn new() -> Story {
        Story::on(&harness::arch())
    }

    /// The same on a processor.
    pub(crate) fn on(arch: &str) -> Story {
        Story::of(arch, fs::read(harness::kernels(arch)).unwrap())
    }

    /// The same of code that has `increment` and `tally`.
    pub(crate) fn of(arch: &str, code: Vec<u8>) -> Story {
        let a: Vec<u32> = (0..3000u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let b = vec![7; 1024];
        let mut now = incremented(&a);
        let mut copied = b.clone();
        copied[1..513].copy_from_slice(&now[..512]);
        // Three bytes of the host's, across words.
        let host = vec![0xaa, 0xbb, 0xcc];
        let mut raw = bytes(&now);
        raw[403..406].copy_from_slice(&host);
        now = raw.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let b_now = incremented(&copied);
        let at_checkpoint = vec![(A, bytes(&now)), (B, bytes(&b_now))];
        let mut filled = b_now.clone();
        filled[100..104].fill(0x1234_5678);
        let after = vec![(A, bytes(&incremented(&now))), (B, bytes(&filled)), (C, bytes(&[42, 5]))];
        Story {
            arch: arch.to_owned(),
            again: (code.clone(), AGAIN),
            code,
            steps: vec![
                step(Does::Kernel("increment", CODE, A), vec![(A, bytes(&a))]),
                step(Does::Barrier, Vec::new()),
                step(Does::Copy { to: B + 4, from: A, bytes: 2048 }, vec![(B, bytes(&b))]),
                step(Does::Kernel("increment", CODE, B), vec![(A + 403, host)]),
                step(Does::Kernel("tally", AGAIN, C), vec![(C, bytes(&[41, 5]))]),
                step(Does::Fill { to: B + 400, bytes: 16, value: 0x1234_5678 }, Vec::new()),
                step(Does::Kernel("increment", CODE, A), Vec::new()),
            ],
            allocations: vec![(A, 12000), (B, 4096), (C, 8)],
            checkpoints: BTreeMap::from([(4, at_checkpoint)]),
            after: Some(after),
            end: Some(true),
            has_dependencies: true,
        }
    }

    /// B at the end if nothing is filled there.
    fn unfilled() -> Vec<u8> {
        Story::new().checkpoints[&4][1].1.clone()
    }

    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        let mut writer = Writer::create(path, &Options::default()).unwrap();
        writer.session(&Session { pid: 1, exe: "/a/program".to_owned(), ..Session::default() }).unwrap();
        let isa = format!("amdgcn-amd-amdhsa--{}", self.arch);
        writer.agent(&Agent { id: 1, isa: isa.clone(), ..Agent::default() }).unwrap();
        let mut kernels = BTreeMap::new();
        let (other, elsewhere) = &self.again;
        for (executable, of, code, base) in [(1, CODE, &self.code, CODE), (2, AGAIN, other, *elsewhere)] {
            let about = CodeObject { isa: isa.clone(), size: code.len() as u64, ..CodeObject::default() };
            let code_object = writer.code_object(&about, code).unwrap();
            let (_, size) = places(code, "increment.kd");
            let loaded = Loaded { executable, code_object, agent: 1, base, size, delta: base, uri: String::new() };
            writer.loaded(&loaded).unwrap();
            let known = amdgpu_code_object::CodeObject::parse(code).unwrap();
            let all = ["increment", "tally", "tell_time", "write_to", "wait_for", "meet", "hand_on"];
            for symbol in all.into_iter().filter(|symbol| known.kernel(symbol).is_some()) {
                let id = kernels.len() as u64 + 1;
                let object = base + places(code, &format!("{symbol}.kd")).0;
                let symbol = symbol.to_owned();
                let kernel = Kernel { id, symbol, code_object, executable, agent: 1, object, ..Kernel::default() };
                writer.kernel(&kernel).unwrap();
                kernels.insert((kernel.symbol, of), (id, object, code_object));
            }
        }
        let access = vec![1];
        let allocation = |base, size, kind| Allocation {
            base,
            size,
            kind,
            owner: 1,
            access: access.clone(),
            ..Allocation::default()
        };
        for &(base, size) in &self.allocations {
            writer.allocation(&allocation(base, size, AllocationKind::DeviceCoarse)).unwrap();
        }
        writer
            .region(&Region {
                id: 1,
                trigger: "dispatch:1..".to_owned(),
                scope: Scope::All,
                agent: 1,
                has_dependencies: self.has_dependencies,
            })
            .unwrap();
        // A packet's index in its queue is how many packets of it were before.
        let steps = self.steps.iter().filter(|step| !matches!(step.does, Does::Renewed(..)));
        let is_packet = |step: &&StoryStep| matches!(step.does, Does::Kernel(..) | Does::Barrier);
        let packets: Vec<(u64, u64)> =
            (1..).zip(steps).filter(|(_, step)| is_packet(step)).map(|(at, step)| (at, step.queue)).collect();
        let before = |of: u64, end: u64| packets.iter().filter(|(at, queue)| *at < end && *queue == of).count() as u64;
        let mut sequence = 0;
        for StoryStep { does, delta, evidence, queue, workgroup, waited } in &self.steps {
            let queue = *queue;
            let waited = waited.iter().map(|&(queue, end)| Completed { queue, index: before(queue, end) }).collect();
            if let Does::Renewed(base, size, kind) = *does {
                writer.freed(base).unwrap();
                writer.allocation(&allocation(base, size, kind)).unwrap();
                continue;
            }
            sequence += 1;
            let delta = (!delta.is_empty()).then(|| snapshot(&mut writer, delta));
            let mut step = Step {
                region: 1,
                sequence,
                delta,
                evidence: *evidence,
                queue,
                index: before(queue, sequence),
                waited,
                ..Step::default()
            };
            match *does {
                Does::Kernel(name, base, address) => {
                    let (kernel, object, code_object) = kernels[&(name.to_owned(), base)];
                    step.kind = StepKind::Dispatch;
                    step.dispatch = Some(Dispatch {
                        id: 10 + sequence,
                        queue,
                        index: before(queue, sequence),
                        packet: Packet(packet(object, WORDS as u32, *workgroup, 0)),
                        kernarg: address.to_le_bytes().to_vec(),
                        kernel,
                        code_object,
                        scope: Scope::All,
                        start_ns: 1000,
                        end_ns: 2000,
                        ..Dispatch::default()
                    });
                }
                Does::Barrier => step.kind = StepKind::Barrier,
                Does::Copy { to, from, bytes } => {
                    step = Step { kind: StepKind::Copy, to, from, bytes, queue: 0, index: 0, ..step };
                }
                Does::Fill { to, bytes, value } => {
                    step = Step { kind: StepKind::Fill, to, bytes, value, queue: 0, index: 0, ..step };
                }
                Does::Renewed(..) => unreachable!("no step"),
            }
            writer.step(&step).unwrap();
            if let Some(memory) = self.checkpoints.get(&sequence) {
                let snapshot = snapshot(&mut writer, memory);
                writer.checkpoint(&Checkpoint { region: 1, sequence, snapshot }).unwrap();
            }
        }
        if let Some(is_complete) = self.end {
            let after = self.after.as_ref().map(|after| snapshot(&mut writer, after));
            let reason = if is_complete { String::new() } else { "the application ended".to_owned() };
            writer
                .region_end(&RegionEnd {
                    region: 1,
                    steps: sequence,
                    after,
                    is_complete,
                    reason,
                    ..RegionEnd::default()
                })
                .unwrap();
        }
        writer.finish().unwrap();
        path.to_owned()
    }

    /// Runs a tool of `omniprobe` on it.
    pub(crate) fn tool(&self, name: &str, options: &[&str]) -> Outcome {
        let run = Run::new(built("omniprobe"));
        let file = self.write(&run.file("a.ldcap"));
        on_file(run, name, &file, &harness::arch(), &[&["--region"], options].concat())
    }

    /// Replays it without a runtime, and compares.
    pub(crate) fn verify(&self, options: &[&str]) -> Outcome {
        self.tool("verify", &[&["--backend", "emu"], options].concat())
    }
}

/// Writes memory as a snapshot.
pub(crate) fn snapshot<S: Storage>(writer: &mut Writer<S>, memory: &Bytes) -> SnapshotId {
    let mut snapshot = writer.snapshot(None);
    memory.iter().for_each(|(at, bytes)| snapshot.bytes(*at, bytes).unwrap());
    snapshot.finish().unwrap()
}

/// The memory of a snapshot.
pub(crate) fn memory(reader: &Reader, id: SnapshotId) -> Bytes {
    let snapshot = reader.snapshot(id).unwrap();
    let read = |range: std::ops::Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        snapshot.read(range.start, &mut bytes).unwrap();
        (range.start, bytes)
    };
    snapshot.ranges().into_iter().map(read).collect()
}

/// What an outcome says, for messages.
pub(crate) fn text(outcome: &Outcome) -> String {
    format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr)
}

/// The JSON objects that a tool has printed.
pub(crate) fn objects(outcome: &Outcome) -> Vec<serde_json::Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}
