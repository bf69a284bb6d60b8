//! Which GPU a row is of. Each process counts the GPUs that it sees from 0, so GPU 0 of two ranks may be two devices.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a log says about the device behind a GPU of a process. Empty where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The device's number for life; `GPU-XX` where it has none (`hsa_ext_amd.h`, `HSA_AMD_AGENT_INFO_UUID`).
    pub uuid: String,
    /// Its place on the bus of its host.
    pub bdf: String,
    /// Its part, where it is divided.
    pub partition: String,
    /// The process that numbers it; `None` in logs that have one process each.
    pub pid: Option<u64>,
}

impl Device {
    /// From `NAME=VALUE` with blanks in between; other names are left out.
    pub(crate) fn parse(text: &str) -> Device {
        let mut device = Device::default();
        for (name, value) in text.split(' ').filter_map(|word| word.split_once('=')) {
            match name {
                "uuid" => value.clone_into(&mut device.uuid),
                "bdf" => value.clone_into(&mut device.bdf),
                "partition" => value.clone_into(&mut device.partition),
                "pid" => device.pid = value.parse().ok(),
                _ => {}
            }
        }
        device
    }

    /// What two descriptions of one device have in common; `None` if nothing tells devices apart.
    fn identity(&self) -> Option<String> {
        let has_uuid = !self.uuid.is_empty() && !self.uuid.ends_with("-XX");
        let id = if has_uuid { &self.uuid } else { &self.bdf };
        (!id.is_empty()).then(|| format!("{id} {}", self.partition))
    }
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Its position in the process that named it first.
    position: u64,
    /// Its name and its product's; empty if no log says.
    pub name: String,
    /// Empty if no log says.
    pub uuid: String,
    /// Empty if no log says.
    pub bdf: String,
}

/// The devices of logs, in the order in which they are named.
#[derive(Clone, Debug, Default)]
pub struct Gpus {
    all: Vec<Gpu>,
    by_identity: HashMap<String, usize>,
    /// Those of logs that do not describe devices: one for each position.
    by_position: HashMap<u64, usize>,
    /// Of the log that is read now: which device a process has at a position.
    seen: HashMap<(Option<u64>, u64), usize>,
    /// Of that log: names of GPUs that no line has described yet.
    named: BTreeMap<u64, String>,
}

impl Gpus {
    /// Begins a log.
    pub(crate) fn begin(&mut self) {
        self.end();
        self.seen.clear();
    }

    /// Ends a log. A GPU that has a name and no description is identified by its position.
    pub(crate) fn end(&mut self) {
        for (position, name) in std::mem::take(&mut self.named) {
            let gpu = self.at_position(position);
            self.all[gpu].name = name;
        }
    }

    /// What a line says of a GPU of a process: its name and its product's, or which device it is, or both.
    pub(crate) fn learn(&mut self, position: u64, name: Option<String>, device: Option<&Device>) {
        if let Some(name) = name {
            self.named.insert(position, name);
        }
        let Some((device, identity)) = device.and_then(|device| Some((device, device.identity()?))) else { return };
        let name = self.named.remove(&position).unwrap_or_default();
        let all = &mut self.all;
        let gpu = *self.by_identity.entry(identity).or_insert_with(|| {
            all.push(Gpu { position, name, uuid: device.uuid.clone(), bdf: device.bdf.clone() });
            all.len() - 1
        });
        self.seen.insert((device.pid, position), gpu);
    }

    /// The place in the list of the device that a process has at a position.
    pub(crate) fn of(&mut self, pid: Option<u64>, position: u64) -> usize {
        let seen = self.seen.get(&(pid, position)).or_else(|| self.seen.get(&(None, position)));
        seen.copied().unwrap_or_else(|| self.at_position(position))
    }

    fn at_position(&mut self, position: u64) -> usize {
        let all = &mut self.all;
        *self.by_position.entry(position).or_insert_with(|| {
            all.push(Gpu { position, ..Gpu::default() });
            all.len() - 1
        })
    }

    /// The devices, each with the number by which it is shown: its position, or its place in this list if positions repeat.
    pub fn numbered(&self) -> Vec<(u64, &Gpu)> {
        let positions: BTreeSet<u64> = self.all.iter().map(|gpu| gpu.position).collect();
        let are_unique = positions.len() == self.all.len();
        self.all.iter().zip(0..).map(|(gpu, place)| (if are_unique { gpu.position } else { place }, gpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_0_of_two_processes_is_two_devices_if_the_log_says_so_and_one_otherwise() {
        let mut gpus = Gpus::default();
        for (pid, uuid) in [(17, "GPU-a"), (18, "GPU-b"), (19, "GPU-a")] {
            gpus.learn(0, Some("gfx90a, MI210".to_owned()), None);
            gpus.learn(0, None, Some(&Device::parse(&format!("uuid={uuid} bdf=0:3 partition=0 node=1 pid={pid}"))));
        }
        assert_eq!([17, 18, 19].map(|pid| gpus.of(Some(pid), 0)), [0, 1, 0]);
        // Another log's process of the same number, without a description.
        gpus.begin();
        gpus.learn(0, Some("gfx906, MI50".to_owned()), None);
        assert_eq!([gpus.of(Some(18), 0), gpus.of(Some(17), 0)], [2, 2]);
        gpus.end();
        let shown: Vec<_> = gpus.numbered().into_iter().map(|(number, gpu)| (number, gpu.name.as_str())).collect();
        assert_eq!(shown, [(0, "gfx90a, MI210"), (1, "gfx90a, MI210"), (2, "gfx906, MI50")]);
    }

    #[test]
    fn a_device_without_a_number_for_life_is_told_by_its_place_and_partitions_are_devices() {
        let mut gpus = Gpus::default();
        for (position, text) in [
            (0, "uuid=GPU-XX bdf=0000:03:00.0 partition=0 pid=1"),
            (1, "uuid=GPU-XX bdf=0000:43:00.0 partition=0 pid=1"),
            (2, "uuid=GPU-c bdf=0000:44:00.0 partition=0 pid=1"),
            (3, "uuid=GPU-c bdf=0000:44:00.0 partition=1 pid=1"),
        ] {
            gpus.learn(position, None, Some(&Device::parse(text)));
        }
        assert_eq!([0, 1, 2, 3].map(|position| gpus.of(Some(1), position)), [0, 1, 2, 3]);
        assert_eq!(gpus.numbered().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
