//! The device tree that the runtime reads: the KFD topology, DRM's sysfs entries, libdrm's table of names.
//!
//! It is a real folder, so that every way of reading it works. Its name is a hash of its contents: processes with the
//! same settings share it, and it is written once.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use logdur_settings::{Bar, Emulator, Xnack};

use crate::board::{Node, gpu_id};
use crate::entries::{Entries, Entry, file};
use crate::host;
use crate::plan::plan;
use crate::process_log::ProcessLog;
use crate::product::FIRST_RENDER_MINOR;
use crate::sysfs;

/// Where the topology is.
pub(crate) const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";
/// libdrm's table of product names.
pub(crate) const AMDGPU_IDS: &str = "/usr/share/libdrm/amdgpu.ids";

/// The device tree; `None` if it could not be written, which is logged once.
pub(crate) fn root() -> Option<&'static Path> {
    static TREE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = TREE.get_or_init(|| {
        let plan = plan();
        prepare(&plan.nodes, &plan.settings)
            .inspect_err(|e| {
                ProcessLog::open(plan.settings.log.as_deref())
                    .line(format!("the device tree could not be written: {e}"))
            })
            .ok()
    });
    made.as_deref()
}

/// Properties as the kernel prints them.
fn properties(pairs: &[(&str, u64)]) -> String {
    pairs.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name} {value}");
        text
    })
}

/// Every file of the tree for these GPUs.
fn entries(nodes: &[Node], settings: &Emulator) -> Entries {
    let mut entries = vec![
        file(format!("{TOPOLOGY}/generation_id"), "1\n"),
        file(
            format!("{TOPOLOGY}/system_properties"),
            properties(&[("platform_oem", 0), ("platform_id", 0), ("platform_rev", 0)]),
        ),
        file("/sys/module/amdgpu/initstate", "live\n"),
        file("/sys/module/amdgpu/refcnt", "0\n"),
        ("/sys/module/amdgpu/holders".to_owned(), Entry::Folder),
        file("/proc/modules", "amdgpu 0 0 - Live 0x0000000000000000\n"),
        file(AMDGPU_IDS, names(nodes)),
    ];
    entries.extend(cpu_node(nodes, settings));
    for (index, node) in nodes.iter().enumerate() {
        entries.extend(gpu_node(index, nodes, node, settings));
    }
    // The driver makes the folders of links also where they stay empty.
    for node in 0..=nodes.len() {
        for links in ["io_links", "p2p_links"] {
            entries.push((format!("{TOPOLOGY}/nodes/{node}/{links}"), Entry::Folder));
        }
    }
    entries.extend(sysfs::entries(nodes, settings));
    entries
}

fn names(nodes: &[Node]) -> String {
    let mut text = "1.0.0\n".to_owned();
    for p in nodes.iter().filter(|node| node.partition == 0).map(Node::product) {
        let _ = writeln!(text, "{:04X},\t{:02X},\t{}", p.device_id, p.revision, p.name);
    }
    text
}

/// How two nodes are connected. Source: link types and weights of `kfd_crat.h`.
#[derive(Clone, Copy)]
struct Link {
    kind: u64,
    weight: u64,
    most_bandwidth: u64,
}

impl Link {
    /// PCI Express.
    const BUS: Link = Link { kind: 2, weight: 20, most_bandwidth: 32_000 };
    /// Over PCI Express, past a bridge.
    const PEER: Link = Link { weight: 40, ..Link::BUS };
    /// XGMI within a package.
    const PACKAGE: Link = Link { kind: 11, weight: 13, most_bandwidth: 819_200 };

    /// That of a GPU with the host.
    fn with_host(node: &Node) -> Link {
        if node.product().apu { Link::PACKAGE } else { Link::BUS }
    }
}

/// A link between two nodes.
fn link(from: usize, to: usize, link: Link) -> String {
    properties(&[
        ("type", link.kind),
        ("version_major", 0),
        ("version_minor", 0),
        ("node_from", from as u64),
        ("node_to", to as u64),
        ("weight", link.weight),
        ("min_latency", 0),
        ("max_latency", 0),
        ("min_bandwidth", 312),
        ("max_bandwidth", link.most_bandwidth),
        ("recommended_transfer_size", 0),
        ("flags", 1),
    ])
}

/// The host. It has links to the GPUs whose memory it can reach: the runtime concludes the one from the other.
fn cpu_node(nodes: &[Node], settings: &Emulator) -> Entries {
    let reachable: Vec<(usize, &Node)> =
        (1..).zip(nodes).filter(|(_, node)| node.board.bar(settings) == Bar::Large).collect();
    let node = format!("{TOPOLOGY}/nodes/0");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut files = vec![
        file(format!("{node}/gpu_id"), "0\n"),
        file(format!("{node}/name"), "\n"),
        file(
            format!("{node}/properties"),
            properties(&[
                ("cpu_cores_count", cores),
                ("simd_count", 0),
                ("mem_banks_count", 1),
                ("caches_count", 0),
                ("io_links_count", reachable.len() as u64),
                ("p2p_links_count", 0),
                ("cpu_core_id_base", 0),
                ("simd_id_base", 0),
                ("max_engine_clk_ccompute", 3000),
            ]),
        ),
        file(
            format!("{node}/mem_banks/0/properties"),
            properties(&[
                ("heap_type", 0),
                ("size_in_bytes", host::memory()),
                ("flags", 0),
                ("width", 64),
                ("mem_clk_max", 2666),
            ]),
        ),
    ];
    files.extend(
        reachable
            .iter()
            .enumerate()
            .map(|(n, &(to, gpu))| file(format!("{node}/io_links/{n}/properties"), link(0, to, Link::with_host(gpu)))),
    );
    files
}

/// Bits of the `capability` property. Source: `HSA_CAPABILITY` of the runtime's thunk library.
mod capability {
    const QUEUE_SIZE_POWER_OF_TWO: u64 = 1 << 3;
    const DOORBELL_64_BIT: u64 = 2 << 12;
    pub(super) const SRAM_EDC: u64 = 1 << 26;
    pub(super) const SHARED_VIRTUAL_MEMORY: u64 = 1 << 27;
    /// The firmware reports exceptions of queues. Without, the thunk library refuses `hsaKmtRuntimeEnable`, and ROCr 6.4
    /// and 7.2 then do not close the driver at `hsa_shut_down`, so that they cannot be started again.
    const DEBUG_FIRMWARE: u64 = 1 << 29;
    /// What every GPU has.
    pub(super) const COMMON: u64 = QUEUE_SIZE_POWER_OF_TWO | DOORBELL_64_BIT | DEBUG_FIRMWARE;
}

fn gpu_node(index: usize, all: &[Node], gpu: &Node, settings: &Emulator) -> Entries {
    let (p, shape, large) = (gpu.product(), gpu.shape(settings), gpu.board.bar(settings) == Bar::Large);
    let (host_engines, peer_engines) = gpu.copy_engines();
    let arrays = shape.dies.engines * shape.dies.count;
    let node = format!("{TOPOLOGY}/nodes/{}", index + 1);
    let row = p.arch.row();
    // Video memory that the host can map when the runtime asks for it, or cannot.
    let heap = if large { 1 } else { 2 };
    let cus = u64::from(shape.compute_units);
    let edc = if p.sramecc { capability::SRAM_EDC } else { 0 };
    let svm = if settings.xnack == Xnack::None { 0 } else { capability::SHARED_VIRTUAL_MEMORY };
    // Over PCI Express, another GPU is reached only through an aperture that shows all of its memory.
    let last = if large { all.len() } else { 0 };
    let peers: Vec<usize> = (1..=last).filter(|&n| n != index + 1).collect();
    let mut files = vec![
        file(format!("{node}/gpu_id"), format!("{}\n", gpu_id(index))),
        file(format!("{node}/name"), format!("{}\n", p.arch)),
        file(
            format!("{node}/properties"),
            properties(&[
                ("cpu_cores_count", 0),
                ("simd_count", cus * u64::from(row.simds)),
                ("mem_banks_count", 1),
                ("caches_count", 2),
                ("io_links_count", 1),
                ("p2p_links_count", peers.len() as u64),
                ("cpu_core_id_base", 0),
                ("simd_id_base", 0x8000_0000 + 0x100 * index as u64),
                ("max_waves_per_simd", row.waves.into()),
                ("lds_size_in_kb", u64::from(row.target.lds >> 10)),
                ("gds_size_in_kb", 0),
                ("num_gws", 64),
                ("wave_front_size", row.wave_size().lanes().into()),
                ("array_count", arrays.into()),
                ("simd_arrays_per_engine", 1),
                ("cu_per_simd_array", shape.dies.units.div_ceil(shape.dies.engines).into()),
                ("simd_per_cu", row.simds.into()),
                ("max_slots_scratch_cu", 32),
                ("gfx_target_version", row.target.version().into()),
                ("vendor_id", 0x1002),
                ("device_id", p.device_id.into()),
                ("location_id", sysfs::location_id(gpu)),
                ("domain", 0),
                ("drm_render_minor", u64::from(FIRST_RENDER_MINOR) + index as u64),
                ("hive_id", 0),
                ("num_sdma_engines", host_engines.into()),
                ("num_sdma_xgmi_engines", peer_engines.into()),
                ("num_sdma_queues_per_engine", 8),
                ("num_cp_queues", 24),
                ("max_engine_clk_fcompute", p.engine_clock_mhz.into()),
                ("local_mem_size", 0),
                ("fw_version", p.firmware.into()),
                ("capability", capability::COMMON | edc | svm),
                ("debug_prop", 0),
                ("sdma_fw_version", p.sdma_firmware.into()),
                ("unique_id", gpu.unique_id()),
                ("num_xcc", gpu.xccs().into()),
                ("max_engine_clk_ccompute", 3000),
            ]),
        ),
        file(
            format!("{node}/mem_banks/0/properties"),
            properties(&[
                ("heap_type", heap),
                ("size_in_bytes", gpu.memory(settings)),
                ("flags", 0),
                ("width", p.memory_width_bits.into()),
                ("mem_clk_max", p.memory_clock_mhz.into()),
            ]),
        ),
        file(format!("{node}/caches/0/properties"), cache(index, 1, 16)),
        file(format!("{node}/caches/1/properties"), cache(index, 2, p.l2_kib.into())),
    ];
    files.push(file(format!("{node}/io_links/0/properties"), link(index + 1, 0, Link::with_host(gpu))));
    // Between two GPUs, `io_links` are those of XGMI, and ROCm-SMI takes no other there. Source: the kernel's `kfd_topology.c`.
    for (n, &to) in peers.iter().enumerate() {
        files.push(file(format!("{node}/p2p_links/{n}/properties"), link(index + 1, to, Link::PEER)));
    }
    files
}

fn cache(index: usize, level: u64, kib: u64) -> String {
    // Types: bit 0 data, bit 3 GPU.
    let mut text = properties(&[
        ("processor_id_low", 0x8000_0000 + 0x100 * index as u64),
        ("level", level),
        ("size", kib),
        ("cache_line_size", 64),
        ("cache_lines_per_tag", 1),
        ("association", 16),
        ("latency", 1),
        ("type", 9),
    ]);
    text += "sibling_map 1\n";
    text
}

/// FNV-1a, which is stable from run to run.
fn hash(entries: &Entries) -> u64 {
    let bytes = entries.iter().flat_map(|(path, entry)| {
        let (kind, text) = match entry {
            Entry::File(text) => (0, text.as_str()),
            Entry::Folder => (1, ""),
            Entry::Link(to) => (2, to.as_str()),
        };
        path.bytes().chain([0, kind]).chain(text.bytes()).chain([0])
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// The user's own folder for trees.
fn parent(settings: &Emulator) -> io::Result<PathBuf> {
    if let Some(folder) = &settings.tree {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        fs::create_dir_all(folder).map_err(failed)?;
        return Ok(folder.clone());
    }
    // SAFETY: geteuid cannot fail.
    let user = unsafe { libc::geteuid() };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    // It may be another user's, after `su`.
    let runtime = runtime.filter(|p| p.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user));
    let bases: Vec<PathBuf> = runtime.into_iter().chain([std::env::temp_dir(), MEMORY_FOLDER.into()]).collect();
    private_folder(&bases, user)
}

/// Temporary files in memory: there also where other file systems are read-only, as in many containers.
const MEMORY_FOLDER: &str = "/dev/shm";
/// How many names of folders are tried in each place.
const NAMES: u32 = 16;

/// The first folder of this user that is there or can be made: another user may have taken a name.
fn private_folder(bases: &[PathBuf], user: u32) -> io::Result<PathBuf> {
    let mut refused = Vec::new();
    for base in bases {
        for number in 0..NAMES {
            let more = if number == 0 { String::new() } else { format!("-{number}") };
            let folder = base.join(format!("kfdemu-{user}{more}"));
            let made = fs::DirBuilder::new().mode(0o700).create(&folder);
            let found = fs::symlink_metadata(&folder);
            // A folder of another user, or one that others may write, could contain a forged tree.
            if found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0) {
                return Ok(folder);
            }
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    refused.push(format!("{}: {error}", folder.display()));
                    break;
                }
                _ if number == 0 => refused.push(format!("{} is not a folder of user {user} alone", folder.display())),
                _ => {}
            }
        }
    }
    Err(io::Error::other(format!("{}; {} names another folder for it", refused.join("; "), Emulator::tree)))
}

/// The folder that holds the tree, written if it is not there yet.
///
/// # Errors
/// When it cannot be written.
fn prepare(nodes: &[Node], settings: &Emulator) -> io::Result<PathBuf> {
    let entries = entries(nodes, settings);
    let parent = parent(settings)?;
    write_into(&parent, &entries).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{}: {error}; {} names another folder for it", parent.display(), Emulator::tree),
        )
    })
}

fn write_into(parent: &Path, entries: &Entries) -> io::Result<PathBuf> {
    let folder = parent.join(format!("{:016x}", hash(entries)));
    if folder.is_dir() {
        return Ok(folder);
    }
    let unfinished = parent.join(format!("unfinished-{}", std::process::id()));
    for (name, entry) in entries {
        let path = unfinished.join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(&unfinished))?;
        match entry {
            Entry::File(text) => fs::write(&path, text)?,
            Entry::Folder => fs::create_dir_all(&path)?,
            Entry::Link(to) => std::os::unix::fs::symlink(to, &path)?,
        }
    }
    if let Err(error) = fs::rename(&unfinished, &folder) {
        // Another process was faster: its tree is the same.
        fs::remove_dir_all(&unfinished).ok();
        if !folder.is_dir() {
            return Err(error);
        }
    }
    Ok(folder)
}

/// True when a path can be in the tree: a cheap test before the tree is made.
pub(crate) fn may_hold(path: &[u8]) -> bool {
    let prefixes: [&[u8]; 10] = [
        b"/sys/devices/virtual/kfd",
        b"/sys/devices/pci0000:00/0000:",
        b"/sys/devices/platform/amdgpu_xcp_",
        b"/sys/class/kfd",
        b"/sys/class/drm",
        b"/sys/bus/pci/devices",
        b"/sys/dev/char/226:",
        b"/sys/module/amdgpu",
        b"/dev/dri",
        b"/proc/modules",
    ];
    prefixes.iter().any(|p| path.starts_with(p)) || path == AMDGPU_IDS.as_bytes()
}

/// The path inside of the tree.
pub(crate) fn inside(tree: &Path, path: &str) -> PathBuf {
    let path = match path.strip_prefix("/sys/class/kfd/") {
        Some(rest) => format!("/sys/devices/virtual/kfd/{rest}"),
        None => path.to_owned(),
    };
    tree.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_tree_is_in_the_first_folder_that_is_this_users_alone_and_without_one_each_is_named() {
        // SAFETY: geteuid cannot fail.
        let user = unsafe { libc::geteuid() };
        let place = std::env::temp_dir().join(format!("kfdemu-test-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        let mode = |folder: &str, mode| fs::set_permissions(place.join(folder), Permissions::from_mode(mode));
        let name = format!("kfdemu-{user}");
        // A link that another user may have made, and a folder that all may write.
        std::os::unix::fs::symlink("/tmp", place.join(&name)).expect("a link");
        fs::create_dir(place.join(format!("{name}-1"))).expect("a folder");
        mode(&format!("{name}-1"), 0o777).expect("ours");
        let nowhere = place.join("nowhere");
        let found = private_folder(&[nowhere.clone(), place.clone()], user).expect("the third name");
        assert_eq!(found, place.join(format!("{name}-2")));
        assert_eq!(private_folder(std::slice::from_ref(&place), user).expect("the same again"), found);
        let refused = private_folder(&[nowhere.clone(), "/proc".into()], user).expect_err("there is none").to_string();
        for said in [&*nowhere.display().to_string(), "/proc/kfdemu-", "KFDEMU_TREE names another folder"] {
            assert!(refused.contains(said), "{said}: {refused}");
        }
        fs::remove_dir_all(&place).expect("ours");
    }
}
