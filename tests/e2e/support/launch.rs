//! Kernels of any code object, launched with arguments that a test chose: the kernarg segment is laid out here, by the
//! object's own metadata.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use rmpv::Value;

use crate::support::harness::{Outcome, Run};

/// `NT_AMDGPU_METADATA` of LLVM's `AMDGPUUsage`, "Code Object V3 and Above Note Records".
const METADATA_NOTE: object::elf::NoteType = object::elf::NoteType(32);
/// Bytes on both sides of every buffer, which no kernel may change.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xA5;

/// An argument of a kernel.
#[derive(Clone)]
pub(crate) enum Arg {
    /// Memory: its bytes before the launch.
    Buffer(Vec<u8>),
    /// By value.
    Value(Vec<u8>),
    /// So many bytes of local memory.
    Local(u32),
}

/// One launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: String,
    /// Size of the grid in work-items, for each dimension there is.
    pub(crate) grid: Vec<u32>,
    pub(crate) workgroup: Vec<u32>,
    /// Dynamic LDS besides that of [`Arg::Local`], bytes.
    pub(crate) lds: u32,
    pub(crate) args: Vec<Arg>,
}

/// What a code object says of one argument.
struct Slot {
    offset: usize,
    size: usize,
    kind: String,
}

/// What a code object says of a kernel.
struct Metadata {
    kernarg: usize,
    lds: u32,
    slots: Vec<Slot>,
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn number(map: &Value, name: &str) -> Option<usize> {
    usize::try_from(field(map, name)?.as_u64()?).ok()
}

impl Metadata {
    fn of(object: &[u8], kernel: &str) -> Option<Metadata> {
        let header = FileHeader64::<LittleEndian>::parse(object).ok()?;
        let sections = header.sections(LittleEndian, object).ok()?;
        for section in sections.iter() {
            let Some(mut notes) = section.notes(LittleEndian, object).ok()? else { continue };
            while let Some(note) = notes.next().ok()? {
                if note.name() != b"AMDGPU" || note.n_type(LittleEndian) != METADATA_NOTE {
                    continue;
                }
                let root = rmpv::decode::read_value(&mut note.desc()).ok()?;
                let kernels = field(&root, "amdhsa.kernels")?.as_array()?;
                let found = kernels.iter().find(|k| field(k, ".name").and_then(Value::as_str) == Some(kernel));
                if let Some(found) = found {
                    return Metadata::read(found);
                }
            }
        }
        None
    }

    fn read(kernel: &Value) -> Option<Metadata> {
        let slots = field(kernel, ".args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter();
        let slots = slots.map(|arg| {
            let kind = field(arg, ".value_kind")?.as_str()?.to_owned();
            Some(Slot { offset: number(arg, ".offset")?, size: number(arg, ".size")?, kind })
        });
        Some(Metadata {
            kernarg: number(kernel, ".kernarg_segment_size")?,
            lds: number(kernel, ".group_segment_fixed_size")? as u32,
            slots: slots.collect::<Option<_>>()?,
        })
    }
}

/// What a launch needs in the folder of a run: its part of the description.
struct Described {
    text: String,
    /// File and size of each buffer.
    buffers: Vec<(String, usize)>,
}

impl Launch {
    /// The sizes of the three dimensions, those that are not there 1.
    fn sizes(of: &[u32]) -> [u32; 3] {
        std::array::from_fn(|i| of.get(i).copied().unwrap_or(1))
    }

    /// The value of a hidden argument; `None` if it is no number. Source: LLVM's `AMDGPUUsage`, "Code Object V5 Metadata".
    fn hidden(&self, kind: &str) -> Option<u64> {
        let (grid, workgroup) = (Self::sizes(&self.grid), Self::sizes(&self.workgroup));
        let axis = match kind.as_bytes().last()? {
            last @ b'x'..=b'z' => usize::from(last - b'x'),
            _ => 0,
        };
        Some(u64::from(match kind {
            "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => grid[axis] / workgroup[axis],
            "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => workgroup[axis],
            "hidden_remainder_x" | "hidden_remainder_y" | "hidden_remainder_z" => grid[axis] % workgroup[axis],
            "hidden_grid_dims" => self.grid.len() as u32,
            "hidden_dynamic_lds_size" => self.lds,
            // Offsets are 0; there is no host call, no heap, no other grid and no queue to enqueue to.
            "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" | "hidden_none" => 0,
            "hidden_printf_buffer" | "hidden_hostcall_buffer" | "hidden_heap_v1" | "hidden_multigrid_sync_arg" => 0,
            "hidden_default_queue" | "hidden_completion_action" => 0,
            _ => return None,
        }))
    }

    /// Writes a file for each buffer, between guards of a size, and says so in the description.
    fn describe_buffers(&self, folder: &Path, index: usize, guard: usize) -> Described {
        let mut described = Described { text: String::new(), buffers: Vec::new() };
        for arg in &self.args {
            let Arg::Buffer(bytes) = arg else { continue };
            let file = format!("{index}.{}.buffer", described.buffers.len());
            let guard = vec![GUARD_BYTE; guard];
            let bytes = [&*guard, bytes, &*guard].concat();
            fs::write(folder.join(&file), &bytes).unwrap();
            writeln!(described.text, "buffer {file} {}", bytes.len()).unwrap();
            described.buffers.push((file, bytes.len()));
        }
        described
    }

    fn describe_launch(&self, described: &mut Described, lds: u32) {
        let [x, y, z] = Self::sizes(&self.grid);
        let [a, b, c] = Self::sizes(&self.workgroup);
        let dimensions = self.grid.len();
        writeln!(described.text, "launch {} {dimensions} {x} {y} {z} {a} {b} {c} {lds}", self.kernel).unwrap();
    }

    fn describe_for_hsa(&self, object: &[u8], folder: &Path, index: usize) -> Described {
        let metadata = Metadata::of(object, &self.kernel).unwrap_or_else(|| panic!("no metadata of {}", self.kernel));
        let mut described = self.describe_buffers(folder, index, GUARD);
        let mut kernarg = vec![0; metadata.kernarg];
        // Local memory that the launch asks for lies behind what the kernel has by itself.
        let mut lds = metadata.lds;
        let (mut explicit, mut buffer) = (self.args.iter(), 0);
        for slot in &metadata.slots {
            let mut put = |bytes: &[u8]| kernarg[slot.offset..][..bytes.len()].copy_from_slice(bytes);
            let kernel = &self.kernel;
            if let Some(value) = self.hidden(&slot.kind) {
                put(&value.to_le_bytes()[..slot.size]);
            } else if slot.kind == "hidden_queue_ptr" {
                writeln!(described.text, "queue {}", slot.offset).unwrap();
            } else {
                let kind = slot.kind.as_str();
                match (kind, explicit.next().unwrap_or_else(|| panic!("{kernel} has more arguments: {kind}"))) {
                    ("global_buffer", Arg::Buffer(_)) => {
                        writeln!(described.text, "relocate {} {buffer} {GUARD}", slot.offset).unwrap();
                        buffer += 1;
                    }
                    // A null pointer.
                    ("global_buffer", Arg::Value(bytes)) => put(bytes),
                    ("by_value", Arg::Value(bytes)) => {
                        assert_eq!(bytes.len(), slot.size, "{kernel}: bytes of the argument at {}", slot.offset);
                        put(bytes);
                    }
                    ("dynamic_shared_pointer", Arg::Local(size)) => {
                        lds = lds.next_multiple_of(128);
                        put(&lds.to_le_bytes());
                        lds += size;
                    }
                    _ => panic!("{kernel}: the argument at {} is a {kind}, which the test has not", slot.offset),
                }
            }
        }
        assert!(explicit.next().is_none(), "{} takes fewer arguments", self.kernel);
        fs::write(folder.join(format!("{index}.kernarg")), &kernarg).unwrap();
        writeln!(described.text, "kernarg {index}.kernarg {}", kernarg.len()).unwrap();
        self.describe_launch(&mut described, self.lds + lds - metadata.lds);
        described
    }

    fn describe_for_opencl(&self, folder: &Path, index: usize) -> Described {
        let mut described = self.describe_buffers(folder, index, 0);
        let mut buffer = 0;
        for (number, arg) in self.args.iter().enumerate() {
            match arg {
                Arg::Buffer(_) => {
                    writeln!(described.text, "pointer {buffer}").unwrap();
                    buffer += 1;
                }
                Arg::Local(size) => writeln!(described.text, "local {size}").unwrap(),
                Arg::Value(bytes) => {
                    let file = format!("{index}.{number}.value");
                    fs::write(folder.join(&file), bytes).unwrap();
                    writeln!(described.text, "value {file} {}", bytes.len()).unwrap();
                }
            }
        }
        self.describe_launch(&mut described, 0);
        described
    }
}

/// The buffers of each launch, as the kernels left them.
pub(crate) type Buffers = Vec<Vec<Vec<u8>>>;

fn results(folder: &Path, launches: &[Launch], described: &[Described], guard: usize) -> Buffers {
    let read = |launch: &Launch, (file, size): &(String, usize)| {
        let bytes = fs::read(folder.join(file)).unwrap();
        assert_eq!(bytes.len(), *size, "{file}");
        let (before, rest) = bytes.split_at(guard);
        let (inside, after) = rest.split_at(rest.len() - guard);
        let untouched = before.iter().chain(after).all(|b| *b == GUARD_BYTE);
        assert!(untouched, "{} wrote outside of its buffer {file}", launch.kernel);
        inside.to_vec()
    };
    let each = launches.iter().zip(described);
    each.map(|(launch, described)| described.buffers.iter().map(|b| read(launch, b)).collect()).collect()
}

fn description(folder: &Path, described: &[Described]) {
    fs::write(folder.join("launches"), described.iter().map(|d| d.text.as_str()).collect::<String>()).unwrap();
}

/// Launches kernels of a code object on the GPU, one after the other, the library watching or not.
pub(crate) fn on_gpu(object: &Path, arch: &str, launches: &[Launch], watched: bool) -> (Buffers, Outcome) {
    try_on_gpu(object, arch, launches, watched).unwrap_or_else(|outcome| {
        let device = fs::read_to_string(outcome.folder.path().join("kfdemu.log")).unwrap_or_default();
        panic!("{}:\n{}\n{}\n{device}", object.display(), outcome.stdout, outcome.stderr)
    })
}

/// As [`on_gpu`]; what came of the run if the program said that it failed.
pub(crate) fn try_on_gpu(
    object: &Path,
    arch: &str,
    launches: &[Launch],
    watched: bool,
) -> Result<(Buffers, Outcome), Outcome> {
    launched_by(launcher(arch), object, launches, watched)
}

/// What launches kernels.
pub(crate) fn launcher(arch: &str) -> Run {
    Run::hsa("launch_kernel").arch(arch)
}

/// As [`try_on_gpu`], by a [`launcher`] with variables of its own.
pub(crate) fn launched_by(
    run: Run,
    object: &Path,
    launches: &[Launch],
    watched: bool,
) -> Result<(Buffers, Outcome), Outcome> {
    let run = run.env("TEST_KERNELS", object).args(["launches"]);
    let bytes = fs::read(object).unwrap();
    let folder = run.file("");
    let described: Vec<Described> =
        launches.iter().enumerate().map(|(index, launch)| launch.describe_for_hsa(&bytes, &folder, index)).collect();
    description(&folder, &described);
    let outcome = if watched { run.watched() } else { run.bare() };
    if !outcome.status.success() || !outcome.stdout.ends_with("PASS\n") {
        return Err(outcome);
    }
    Ok((results(outcome.folder.path(), launches, &described, GUARD), outcome))
}

/// Launches kernels of an OpenCL C source on the CPU.
pub(crate) fn on_cpu(source: &Path, options: &str, launches: &[Launch]) -> Buffers {
    let folder = tempfile::Builder::new().prefix("logdur-test-").tempdir().unwrap();
    let described: Vec<Described> =
        launches.iter().enumerate().map(|(index, launch)| launch.describe_for_opencl(folder.path(), index)).collect();
    description(folder.path(), &described);
    let mut command = std::process::Command::new(crate::support::harness::opencl("launch_opencl"));
    command.arg("launches").arg(source).arg(options).current_dir(folder.path());
    let output =
        command.env("POCL_CACHE_DIR", crate::support::harness::root().join("target/tests/pocl")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = || format!("{}: {text}{}", source.display(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.ends_with("PASS\n"), "{}", said());
    results(folder.path(), launches, &described, 0)
}
