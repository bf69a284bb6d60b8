//! The emulated GPUs as tools for the whole machine see them.

use std::process::Command;

use serde_json::Value;

use crate::support::harness::{self, Run};

/// What ROCm-SMI says of the GPUs.
fn rocm_smi(run: Run, options: &[&str]) -> Value {
    let command = run.command();
    let mut smi = Command::new("rocm-smi");
    smi.args(options).arg("--json");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => _ = smi.env(name, value),
            None => _ = smi.env_remove(name),
        }
    }
    let outcome = run.finish(smi);
    let json = outcome.stdout.lines().find(|line| line.starts_with('{'));
    let json = json.unwrap_or_else(|| panic!("no JSON in {}\n{}", outcome.stdout, outcome.stderr));
    serde_json::from_str(json).unwrap()
}

#[test]
fn rocm_smi_lists_the_gpus_by_name_with_their_memory_clocks_and_temperatures() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hsa("holds_memory").env("KFDEMU_GPUS", "gfx90a,gfx906").env("KFDEMU_VRAM", "3G");
    let options = ["--showproductname", "--showmeminfo", "vram", "vis_vram", "--showtemp", "--showclocks", "--showbus"];
    let said = rocm_smi(run, &options);
    for (card, name, bus, clock) in [
        ("card0", "AMD Instinct MI210 (emulated)", "0000:03:00.0", "1700Mhz"),
        ("card1", "AMD Radeon Instinct MI60 (emulated)", "0000:04:00.0", "1800Mhz"),
    ] {
        let value = |key: &str| said[card][key].as_str().unwrap_or_else(|| panic!("no {key:?} of {card} in {said}"));
        assert_eq!(value("Card series"), name);
        assert_eq!(value("PCI Bus"), bus);
        assert_eq!(value("VRAM Total Memory (B)"), (3u64 << 30).to_string());
        assert_eq!(value("Temperature (Sensor edge) (C)"), "25.0");
        assert!(value("sclk clock speed:").contains(clock), "{said}");
    }
    assert_eq!(said.as_object().unwrap().keys().filter(|key| key.starts_with("card")).count(), 2);
}

#[test]
fn rocm_smi_says_that_gpus_reach_each_other_over_pci_express() {
    if harness::on_hardware() {
        return;
    }
    // It ends by an assertion for links between GPUs of a type that it does not expect.
    for bar in ["large", "small"] {
        let run = Run::hsa("sysfs").env("KFDEMU_GPUS", "2*gfx90a").env("KFDEMU_BAR", bar);
        let said = &rocm_smi(run, &["--showtopo"])["system"];
        for (what, expected) in [("Link type", "PCIE"), ("Hops", "2"), ("Weight", "40")] {
            let key = format!("(Topology) {what} between DRM devices 0 and 1");
            assert_eq!(said[&key], expected, "{bar}: {said}");
        }
    }
}

#[test]
fn rocm_smi_in_another_process_sees_what_a_program_has_allocated() {
    if harness::on_hardware() {
        return;
    }
    const HELD: u64 = 64 << 20;
    let run = Run::hsa("holds_memory").args([&HELD.to_string(), "rocm-smi --showmeminfo vram --json"]);
    // Memory of a size that no other test has: processes on other GPUs do not count.
    let run = run.env("KFDEMU_VRAM", "3333M");
    let outcome = run.bare().passed();
    let used = outcome.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).map(|said| {
        let text = said["card0"]["VRAM Total Used Memory (B)"].as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("no memory in {said}")).parse::<u64>().unwrap()
    });
    let used: Vec<u64> = used.collect();
    let [before, meanwhile, after] = used[..] else { panic!("{}", outcome.stdout) };
    assert_eq!(meanwhile - before, HELD, "{used:?}");
    // The runtime keeps no block of this size.
    assert_eq!(after, before, "{used:?}");
}

#[test]
fn the_gpus_are_found_in_sysfs_where_the_runtime_says_at_the_numa_node_of_the_host() {
    let run = Run::hsa("sysfs").env("KFDEMU_GPUS", "2*gfx90a").bare().passed();
    assert!(harness::on_hardware() || run.stdout.starts_with("2 GPUs\n"), "{}", run.stdout);
}
