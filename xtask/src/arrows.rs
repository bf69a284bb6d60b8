//! `cargo xtask arrows`: the workspace's dependencies against the list of those that may be, and circles of modules.

mod modules;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// Each package, and all packages that it may depend on. ARCHITECTURE.md shows the same list.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "omniprobe",
        &[
            "amdgpu-code-object",
            "amdgpu-listing",
            "hsa",
            "logdur-analysis",
            "logdur-capture",
            "logdur-journal",
            "logdur-kernel-cache",
            "logdur-observe",
            "logdur-replay",
            "logdur-report",
            "logdur-self-test",
            "logdur-settings",
        ],
    ),
    ("logdur-python", &["logdur-capture", "logdur-journal", "logdur-replay", "logdur-report"]),
    (
        "logdur",
        &[
            "amdgpu-code-object",
            "hsa",
            "hsa-sys",
            "logdur-capture",
            "logdur-handler",
            "logdur-intercept",
            "logdur-journal",
            "logdur-kernel-cache",
            "logdur-messages",
            "logdur-settings",
        ],
    ),
    ("logdur-intercept", &["hsa", "hsa-sys", "logdur-journal", "logdur-settings"]),
    (
        "logdur-replay",
        &["amdgpu-code-object", "amdgpu-emu", "amdgpu-listing", "hsa", "logdur-capture", "logdur-kernel-cache"],
    ),
    ("amdgpu-listing", &["amdgpu-code-object", "amdgpu-isa", "logdur-kernel-cache"]),
    ("logdur-observe", &["amdgpu-emu", "amdgpu-listing", "logdur-analysis"]),
    ("logdur-analysis", &["amdgpu-isa"]),
    ("logdur-analyzers", &["amdgpu-isa", "amdgpu-listing", "logdur-analysis", "logdur-handler"]),
    ("logdur-self-test", &["amdgpu-code-object", "hsa"]),
    ("logdur-kernel-cache", &["amdgpu-code-object", "amdgpu-isa"]),
    ("kfd-emu", &["amdgpu-emu", "hsa-sys", "logdur-settings"]),
    ("logdur-report", &["logdur-journal"]),
    ("logdur-markers", &["logdur-journal"]),
    ("hsa", &["hsa-sys"]),
    ("amdgpu-code-object", &["hsa-sys"]),
    ("amdgpu-emu", &["amdgpu-isa", "hsa-sys"]),
    ("hsa-sys", &[]),
    ("amdgpu-isa", &[]),
    ("logdur-capture", &[]),
    ("logdur-journal", &[]),
    ("logdur-handler", &["logdur-messages"]),
    ("example-handler", &["logdur-handler"]),
    ("logdur-messages", &[]),
    ("logdur-settings", &[]),
    // Prints the tables' documentation, reads corpora, and measures.
    (
        "xtask",
        &[
            "logdur-settings",
            "amdgpu-code-object",
            "amdgpu-isa",
            "logdur-capture",
            "logdur-kernel-cache",
            "logdur-observe",
            "logdur-replay",
        ],
    ),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("arrows takes no arguments, found {args:?}");
    }
    let text = shell::output(Command::new(shell::cargo()).args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).context("the output of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let names: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            bail!("the package {name} is not in the list of arrows");
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // What only tests use is no arrow.
        for dependency in dependencies.filter(|d| d["kind"].as_str() != Some("dev")) {
            let to = dependency["name"].as_str().unwrap_or_default();
            if names.contains(to) && !allowed.contains(&to) {
                bail!("{name} may not depend on {to}: the list of arrows has {allowed:?}");
            }
        }
    }
    for package in packages {
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let folder = Path::new(manifest).parent().context("a manifest without a folder")?;
        let folder = folder.strip_prefix(shell::root()).unwrap_or(folder);
        modules::check(&shell::root(), &folder.to_string_lossy())?;
    }
    println!("{} packages, every arrow points down, no large circle of modules is new", names.len());
    Ok(())
}
