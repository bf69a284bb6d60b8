//! What sysfs shows of the emulated GPUs as PCI devices: what ROCm-SMI, amd-smi, libdrm and monitoring programs read.
//!
//! Sources: the kernel's `Documentation/gpu/amdgpu`, "GPU Power/Thermal Controls and Monitoring" and "Misc AMDGPU driver
//! information", and `Documentation/ABI/testing/sysfs-bus-pci`. A file whose value the emulation does not have (load,
//! power, voltages, error counts) is absent, which the tools show as "not available". The temperature is a constant,
//! because programs divide by it and alarm on zero; the product's name says that it is emulated, and so do the serial
//! number and the version of the BIOS.

use std::fs;
use std::path::Path;

use logdur_settings::{Bar, Emulator};

use crate::board::{Board, MemoryMode, Mode, Node};
use crate::entries::{Entries, Entry, file};
use crate::host;
use crate::plan::plan;
use crate::product::{DRM_MAJOR, FIRST_RENDER_MINOR};

/// The bridge that the GPUs are behind.
const BRIDGE: &str = "/sys/devices/pci0000:00";

/// The part of a board's memory that a host reaches through an aperture that was not enlarged.
const SMALL_APERTURE: u64 = 256 << 20;

/// What every temperature sensor reads, in thousandths of a degree Celsius.
const TEMPERATURE: u32 = 25_000;

/// The PCI address of the board at a place in the list: domain, bus, device, function.
pub(crate) fn pci_address(board: usize) -> String {
    format!("0000:{:02x}:00.0", 3 + board)
}

/// `location_id` of the KFD topology: bus, device and function of the board in one number, and the partition in its highest four bits.
pub(crate) fn location_id(node: &Node) -> u64 {
    0x300 + 0x100 * node.board_index as u64 + (u64::from(node.partition) << 28)
}

/// The folder of a board.
fn device(board: usize) -> String {
    format!("{BRIDGE}/{}", pci_address(board))
}

/// Bytes of a board's memory that the host can be given access to.
pub(crate) fn visible_memory(board: &Board, settings: &Emulator) -> u64 {
    match board.bar(settings) {
        Bar::Large => board.memory(settings),
        Bar::Small => board.memory(settings).min(SMALL_APERTURE),
    }
}

/// A list of clocks of which the last is the one in use.
fn clocks(megahertz: &[u32]) -> String {
    let last = megahertz.len().saturating_sub(1);
    let line = |(n, mhz): (usize, &u32)| format!("{n}: {mhz}Mhz{}\n", if n == last { " *" } else { "" });
    megahertz.iter().enumerate().map(line).collect()
}

/// Everything of sysfs that is about these GPUs, but the KFD topology.
pub(crate) fn entries(nodes: &[Node], settings: &Emulator) -> Entries {
    let mut entries = Entries::new();
    let boards: Vec<&Node> = nodes.iter().filter(|node| node.partition == 0).collect();
    entries.extend(other_devices(boards.len()));
    for first in boards {
        entries.extend(pci_device(first, settings));
        entries.extend(monitor(first.board_index));
    }
    // Partitions but the first of a board are platform devices, numbered over all boards.
    let mut others = 0..;
    for (index, node) in nodes.iter().enumerate() {
        let parent = if node.partition == 0 {
            (format!("pci0000:00/{}", pci_address(node.board_index)), pci_address(node.board_index))
        } else {
            let name = format!("amdgpu_xcp_{}", others.next().unwrap_or(0));
            let device = format!("/sys/devices/platform/{name}");
            entries.push((format!("{device}/subsystem"), Entry::Link("../../../bus/platform".to_owned())));
            entries.push(("/sys/bus/platform".to_owned(), Entry::Folder));
            (format!("platform/{name}"), name)
        };
        entries.extend(drm_nodes(index, &parent.0, &parent.1));
    }
    entries
}

/// The machine's own devices, which are listed beside the emulated ones.
fn other_devices(gpus: usize) -> Entries {
    // By another way than the path that is redirected.
    let folder = Path::new("/proc/self/root/sys/bus/pci/devices");
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !(0..gpus).any(|index| pci_address(index) == *name));
    names.sort_unstable();
    let link = |name: String| {
        let to = fs::read_link(folder.join(&name)).ok()?;
        let to = to.to_str()?.trim_start_matches("../").to_owned();
        Some((format!("/sys/bus/pci/devices/{name}"), Entry::Link(format!("/sys/{to}"))))
    };
    names.into_iter().filter_map(link).collect()
}

/// The processors of the host's first NUMA node, as the kernel shows them: a mask, and a list.
fn host_processors() -> (String, String) {
    let node = Path::new("/sys/devices/system/node/node0");
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let read = |name: &str| fs::read_to_string(node.join(name)).ok().map(|text| text.trim().to_owned());
    let mask = read("cpumap").unwrap_or_else(|| format!("{:x}", (1u64 << count.min(63)) - 1));
    (mask, read("cpulist").unwrap_or_else(|| format!("0-{}", count - 1)))
}

fn pci_device(first: &Node, settings: &Emulator) -> Entries {
    let (board, p, index) = (&first.board, first.product(), first.board_index);
    let (device, pci) = (device(index), pci_address(index));
    let modes: Vec<&str> = board.modes().into_iter().map(Mode::shown).collect();
    let memory_modes: Vec<&str> = board.memory_modes().into_iter().map(MemoryMode::shown).collect();
    let (local_mask, local_list) = host_processors();
    let files = [
        ("vendor", "0x1002".to_owned()),
        ("device", format!("{:#06x}", p.device_id)),
        ("revision", format!("{:#04x}", p.revision)),
        ("subsystem_vendor", "0x1002".to_owned()),
        ("subsystem_device", "0x0c34".to_owned()),
        // Processing accelerator; what the boards without displays say.
        ("class", "0x120000".to_owned()),
        ("uevent", format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\nMODALIAS=pci")),
        // The topology has one node of the host, which is this.
        ("numa_node", "0".to_owned()),
        ("local_cpus", local_mask),
        ("local_cpulist", local_list),
        ("unique_id", format!("{:016x}", first.board_id())),
        ("product_name", p.name.to_owned()),
        ("product_number", "emulated".to_owned()),
        ("serial_number", format!("emulated-{index}")),
        ("vbios_version", "113-EMULATED".to_owned()),
        ("mem_info_vram_total", board.memory(settings).to_string()),
        ("mem_info_vis_vram_total", visible_memory(board, settings).to_string()),
        ("mem_info_gtt_total", host::memory_for_gpus().to_string()),
        ("power_dpm_force_performance_level", "auto".to_owned()),
        ("pp_dpm_sclk", clocks(&[500, p.engine_clock_mhz]).trim_end().to_owned()),
        ("pp_dpm_mclk", clocks(&[400, p.memory_clock_mhz]).trim_end().to_owned()),
        ("current_compute_partition", board.mode.shown().to_owned()),
        ("available_compute_partition", modes.join(", ")),
        ("current_memory_partition", board.memory_mode.shown().to_owned()),
        ("available_memory_partition", memory_modes.join(", ")),
        ("fw_version/mec_fw_version", format!("{:#010x}", p.firmware)),
        ("fw_version/sdma_fw_version", format!("{:#010x}", p.sdma_firmware)),
    ];
    let mut entries: Entries =
        files.into_iter().map(|(name, text)| file(format!("{device}/{name}"), text + "\n")).collect();
    entries.extend([
        (format!("{device}/subsystem"), Entry::Link("../../../bus/pci".to_owned())),
        (format!("{device}/driver"), Entry::Link("../../../bus/pci/drivers/amdgpu".to_owned())),
        ("/sys/bus/pci/drivers/amdgpu".to_owned(), Entry::Folder),
        (format!("/sys/bus/pci/devices/{pci}"), Entry::Link(format!("../../../devices/pci0000:00/{pci}"))),
    ]);
    // Source: the kernel's `amdgpu_discovery.c`: a folder for each block by its number, a link by its name, and its instances below.
    let instances = [p.xccs, p.sdma_engines + p.sdma_xgmi_engines, 1];
    for ((version, instances), (number, name)) in
        p.blocks.iter().flatten().zip(instances).zip([(11, "GC"), (42, "SDMA0"), (108, "NBIF")])
    {
        let die = format!("{device}/ip_discovery/die/0");
        entries.push((format!("{die}/{name}"), Entry::Link(number.to_string())));
        for instance in 0..instances {
            let parts = ["major", "minor", "revision"].iter().zip(version.map(|part| part.to_string()));
            let parts = parts.map(|(part, text)| (*part, text));
            let others =
                [("hw_id", number.to_string()), ("num_instance", instance.to_string()), ("harvest", "0x0".to_owned())];
            entries.extend(
                parts.chain(others).map(|(part, text)| file(format!("{die}/{number}/{instance}/{part}"), text + "\n")),
            );
        }
    }
    // Their text is made when they are opened; here they are only so that they are found.
    entries.extend(READINGS.iter().map(|(name, _)| file(format!("{device}/{name}"), "0\n")));
    entries
}

/// The files of a GPU's graphics devices, below the device at `parent`, a path in `/sys/devices`, whose last part is `name`.
fn drm_nodes(index: usize, parent: &str, name_of_parent: &str) -> Entries {
    let render = FIRST_RENDER_MINOR + index as u32;
    let mut entries = Entries::new();
    for (name, minor) in [(format!("card{index}"), index as u32), (format!("renderD{render}"), render)] {
        let node = format!("/sys/devices/{parent}/drm/{name}");
        let inside = format!("devices/{parent}/drm/{name}");
        entries.extend([
            file(format!("{node}/dev"), format!("{DRM_MAJOR}:{minor}\n")),
            (format!("{node}/device"), Entry::Link(format!("../../../{name_of_parent}"))),
            (format!("/sys/class/drm/{name}"), Entry::Link(format!("../../{inside}"))),
            (format!("/sys/dev/char/{DRM_MAJOR}:{minor}"), Entry::Link(format!("../../{inside}"))),
            file(format!("/dev/dri/{name}"), ""),
        ]);
    }
    entries
}

fn monitor(index: usize) -> Entries {
    let monitor = format!("{}/hwmon/hwmon{index}", device(index));
    let mut entries = vec![
        file(format!("{monitor}/name"), "amdgpu\n"),
        // A sensor without a value: ROCm-SMI 5 throws when not even its label is there.
        file(format!("{monitor}/in0_label"), "vddgfx\n"),
    ];
    for (n, label) in (1..).zip(["edge", "junction", "mem"]) {
        entries.push(file(format!("{monitor}/temp{n}_label"), format!("{label}\n")));
        entries.push(file(format!("{monitor}/temp{n}_input"), format!("{TEMPERATURE}\n")));
    }
    entries
}

/// A value that changes while programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Bytes of the GPU's memory that are allocated.
    Video,
    /// Those of them that the host can be given access to.
    Visible,
    /// Bytes of the host's memory that were allocated for the GPU.
    System,
}

const READINGS: &[(&str, Reading)] = &[
    ("mem_info_vram_used", Reading::Video),
    ("mem_info_vis_vram_used", Reading::Visible),
    ("mem_info_gtt_used", Reading::System),
];

/// Which value of which GPU a path names, by any of the ways to its folder. Only the first GPU of a board has them.
pub(crate) fn reading(path: &str) -> Option<(usize, Reading)> {
    let (folder, name) = path.rsplit_once('/')?;
    let &(_, reading) = READINGS.iter().find(|(known, _)| *known == name)?;
    let folder = folder.strip_suffix("/device").unwrap_or(folder);
    let last = folder.rsplit_once('/')?.1;
    let index = if let Some(card) = last.strip_prefix("card") {
        card.parse().ok()
    } else if let Some(minor) = last.strip_prefix("renderD").or_else(|| last.strip_prefix("226:")) {
        let minor: u32 = minor.parse().ok()?;
        Some(minor.checked_sub(FIRST_RENDER_MINOR).unwrap_or(minor) as usize)
    } else {
        let is_named = |node: &Node| node.partition == 0 && pci_address(node.board_index) == last;
        plan().nodes.iter().position(is_named)
    };
    index.filter(|&index| plan().nodes.get(index).is_some_and(|node| node.partition == 0)).map(|index| (index, reading))
}
