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
            "logdur-captured",
            "logdur-journal",
            "logdur-kernel-cache",
            "logdur-observe",
            "logdur-replay",
            "logdur-report",
            "logdur-rocprof",
            "logdur-self-test",
            "logdur-settings",
            "logdur-system",
            "omniprobe-exit",
        ],
    ),
    (
        "logdur-python",
        &[
            "amdgpu-processor",
            "logdur-capture",
            "logdur-captured",
            "logdur-journal",
            "logdur-report",
            "logdur-system",
            "omniprobe-exit",
        ],
    ),
    ("omniprobe-exit", &["amdgpu-listing", "logdur-capture", "logdur-captured"]),
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
            "logdur-system",
        ],
    ),
    ("logdur-intercept", &["hsa", "hsa-sys", "logdur-journal", "logdur-settings", "logdur-system"]),
    (
        "logdur-replay",
        &[
            "amdgpu-code-object",
            "amdgpu-emu",
            "amdgpu-listing",
            "hsa",
            "logdur-capture",
            "logdur-captured",
            "logdur-kernel-cache",
            "logdur-system",
        ],
    ),
    (
        "logdur-captured",
        &[
            "amdgpu-code-object",
            "amdgpu-listing",
            "hsa-sys",
            "logdur-capture",
            "logdur-demangle",
            "logdur-kernel-cache",
            "logdur-system",
        ],
    ),
    ("amdgpu-listing", &["amdgpu-code-object", "amdgpu-isa", "logdur-kernel-cache"]),
    ("logdur-observe", &["amdgpu-emu", "amdgpu-listing", "logdur-analysis", "logdur-system"]),
    ("logdur-analysis", &["amdgpu-isa", "amdgpu-processor", "logdur-system"]),
    ("logdur-analyzers", &["amdgpu-isa", "amdgpu-listing", "logdur-analysis", "logdur-handler"]),
    ("logdur-self-test", &["amdgpu-code-object", "hsa"]),
    ("logdur-kernel-cache", &["amdgpu-code-object", "amdgpu-isa", "amdgpu-processor", "logdur-system"]),
    ("kfd-emu", &["amdgpu-emu", "amdgpu-processor", "hsa-sys", "logdur-settings", "logdur-system"]),
    ("logdur-report", &["logdur-journal"]),
    ("logdur-rocprof", &["logdur-journal", "logdur-report"]),
    ("logdur-markers", &["logdur-journal", "logdur-system"]),
    ("hsa", &["hsa-sys"]),
    ("amdgpu-code-object", &["amdgpu-processor", "hsa-sys"]),
    ("amdgpu-emu", &["amdgpu-isa", "hsa-sys", "logdur-system"]),
    ("hsa-sys", &[]),
    ("amdgpu-isa", &["amdgpu-processor"]),
    ("amdgpu-processor", &[]),
    ("logdur-capture", &["logdur-system"]),
    ("logdur-journal", &["logdur-demangle", "logdur-system"]),
    ("logdur-demangle", &[]),
    ("logdur-handler", &["logdur-messages"]),
    ("example-handler", &["logdur-handler"]),
    ("logdur-messages", &["amdgpu-processor"]),
    ("logdur-settings", &[]),
    ("logdur-system", &[]),
    // The project's own commands: what needs the libraries is a package of its own.
    ("xtask", &["amdgpu-processor", "logdur-system"]),
    ("xtask-suites", &["amdgpu-code-object", "amdgpu-isa", "xtask"]),
    (
        "xtask-pages",
        &[
            "logdur-settings",
            "logdur-system",
            "amdgpu-code-object",
            "amdgpu-isa",
            "amdgpu-processor",
            "logdur-capture",
            "logdur-captured",
            "logdur-kernel-cache",
            "logdur-observe",
            "logdur-settings",
            "omniprobe-exit",
            "xtask",
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
    println!("{} packages, every arrow points down, no circle of modules is too large", names.len());
    Ok(())
}
