//! `cargo xtask bindings`: the generated files of `hsa-sys` and `kfd-emu`, made from the newest packaged headers.
//!
//! bindgen needs libclang, which an ordinary build must not need; so the command starts itself again with the feature
//! that has it.

#[cfg(not(feature = "bindings"))]
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let mut command = std::process::Command::new(crate::shell::cargo());
    command.env("LIBCLANG_PATH", crate::setup::libclang()?);
    command.args(["run", "--quiet", "--package", "xtask", "--features", "bindings", "--", "bindings"]).args(args);
    crate::shell::run(command.current_dir(crate::shell::root()))
}

#[cfg(feature = "bindings")]
pub(crate) use generate::run;

#[cfg(feature = "bindings")]
mod generate {
    use std::fs;
    use std::path::{Path, PathBuf};

    use anyhow::{Context, Result, bail};

    use crate::debian::Suite;
    use crate::shell::{cache, root};

    /// A generated file: what it is made of, and where it goes.
    struct Target {
        file: &'static str,
        package: &'static str,
        includes: &'static [&'static str],
        types: &'static [&'static str],
        constants: &'static [&'static str],
        cplusplus: bool,
    }

    /// The suite with the newest headers.
    const SUITE: &str = "experimental";

    const TARGETS: &[Target] = &[
        Target {
            file: "hsa-bindings/hsa-sys/src/raw.rs",
            package: "libhsa-runtime-dev",
            includes: &[
                "hsa/hsa.h",
                "hsa/hsa_ext_amd.h",
                "hsa/hsa_ven_amd_loader.h",
                "hsa/amd_hsa_queue.h",
                "hsa/amd_hsa_signal.h",
                "hsa/hsa_api_trace.h",
            ],
            types: &[
                "HsaApiTable",
                "CoreApiTable",
                "AmdExtTable",
                "ApiTableVersion",
                "hsa_ven_amd_loader_1_03_pfn_s",
                "amd_queue_(t|s|v2_t|v2_s)",
                "amd_signal_(t|s)",
                "hsa_.*_packet_(t|s)",
                "hsa_amd_.*_packet_(t|s)",
                "hsa_status_t",
                "hsa_agent_info_t",
                "hsa_amd_agent_info_s",
                "hsa_system_info_t",
                "hsa_amd_memory_pool_info_t",
                "hsa_queue_(t|s)",
                "hsa_executable_symbol_info_t",
                "hsa_isa_info_t",
                "hsa_device_type_t",
                "hsa_symbol_kind_t",
                "hsa_packet_type_t",
                "hsa_packet_header_t",
                "hsa_fence_scope_t",
                "hsa_extension_t",
                "hsa_queue_type_t",
                "hsa_kernel_dispatch_packet_setup_t",
                "hsa_packet_header_width_t",
                "hsa_amd_packet_type_t",
                "hsa_amd_signal_attribute_t",
                "hsa_amd_segment_t",
                "hsa_amd_memory_pool_global_flag_t",
                "amd_signal_kind_t",
                "hsa_amd_event_type_t",
                "hsa_amd_event_t",
                "hsa_ven_amd_loader_.*",
            ],
            constants: &["HSA_.*_API_TABLE_MAJOR_VERSION", "HSA_.*_API_TABLE_STEP_VERSION", "HSA_API_TABLE_.*"],
            cplusplus: true,
        },
        Target {
            file: "emulator/kfd/src/uapi/kfd.rs",
            package: "linux-libc-dev",
            includes: &["linux/kfd_ioctl.h"],
            types: &[
                "kfd_ioctl_.*",
                "kfd_event_.*",
                "kfd_memory_exception_.*",
                "kfd_process_device_apertures",
                "kfd_hsa_.*",
            ],
            constants: &["KFD_.*"],
            cplusplus: false,
        },
        Target {
            file: "emulator/kfd/src/uapi/drm.rs",
            package: "linux-libc-dev",
            includes: &["drm/drm.h", "drm/amdgpu_drm.h"],
            types: &[
                "drm_version",
                "drm_gem_close",
                "drm_prime_handle",
                "drm_get_cap",
                "drm_client",
                "drm_amdgpu_info",
                "drm_amdgpu_info_device",
                "drm_amdgpu_gem_create_in",
                "drm_amdgpu_gem_metadata",
                "drm_amdgpu_gem_mmap",
                "drm_amdgpu_gem_op",
                "drm_amdgpu_gem_va",
                "drm_amdgpu_memory_info",
                "drm_amdgpu_info_hw_ip",
                "drm_amdgpu_info_firmware",
            ],
            constants: &[
                "AMDGPU_INFO_.*",
                "AMDGPU_VA_OP_.*",
                "AMDGPU_FAMILY_.*",
                "AMDGPU_IDS_FLAGS_.*",
                "AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED",
                "AMDGPU_GEM_DOMAIN_(GTT|VRAM)",
                "AMDGPU_GEM_(METADATA_)?OP_.*",
                "DRM_AMDGPU_.*",
                "DRM_COMMAND_BASE",
            ],
            cplusplus: false,
        },
    ];

    pub(crate) fn run(args: &[String]) -> Result<()> {
        let check = match args {
            [] => false,
            [flag] if flag == "--check" => true,
            other => bail!("bindings takes --check or nothing, not {other:?}"),
        };
        let suite = Suite::open(SUITE)?;
        for target in TARGETS {
            let (folder, version) = unpacked(&suite, target.package)?;
            let path = root().join(target.file);
            let old = fs::read_to_string(&path).unwrap_or_default();
            if check && !old.is_empty() && !old.contains(&header(target, &version)) {
                println!("{}: not compared, {SUITE} now offers {} {version}", target.file, target.package);
                continue;
            }
            let new = generate(target, &folder, &version)?;
            if check && old != new {
                bail!("{} differs from what `cargo xtask bindings` makes of {} {version}", target.file, target.package);
            }
            if !check {
                fs::create_dir_all(path.parent().context("a generated file has a folder")?)?;
                fs::write(&path, new).with_context(|| format!("writing {}", path.display()))?;
            }
            println!("{}: {} {version}", target.file, target.package);
        }
        Ok(())
    }

    /// The folder that holds a package's files, and its version.
    fn unpacked(suite: &Suite, name: &str) -> Result<(PathBuf, String)> {
        let mut packages = suite.closure(name)?;
        packages.retain(|p| p.name == name);
        let version = packages[0].version.clone();
        let folder = cache().join("headers").join(format!("{name}_{}", version.replace([':', '~', '+'], "_")));
        if !folder.join("usr").is_dir() {
            suite.unpack(&packages, &folder)?;
        }
        Ok((folder, version))
    }

    /// The language that the workspace asks for.
    fn rust_version() -> Result<bindgen::RustTarget> {
        env!("CARGO_PKG_RUST_VERSION").parse().map_err(|e| anyhow::anyhow!("the workspace's rust-version: {e}"))
    }

    fn header(target: &Target, version: &str) -> String {
        format!(
            "// Generated by `cargo xtask bindings` from {} of Debian's {} {version}; do not edit.",
            target.includes.join(", "),
            target.package
        )
    }

    fn generate(target: &Target, folder: &Path, version: &str) -> Result<String> {
        let include = folder.join("usr/include");
        let source: String = target.includes.iter().map(|i| format!("#include <{i}>\n")).collect();
        let mut builder = bindgen::Builder::default()
            .header_contents(if target.cplusplus { "all.hpp" } else { "all.h" }, &source)
            .clang_arg(format!("-I{}", include.display()))
            .clang_arg(format!("-I{}", include.join("hsa").display()))
            // The installed header names its neighbours as in the source tree unless this is defined.
            .clang_arg("-DAMD_INTERNAL_BUILD")
            .clang_args(if target.cplusplus { ["-x", "c++", "-std=c++17"].as_slice() } else { &[] })
            .ignore_functions()
            .generate_comments(false)
            .derive_default(true)
            .layout_tests(true)
            .use_core()
            .rust_target(rust_version()?)
            .rust_edition(bindgen::RustEdition::Edition2024)
            .prepend_enum_name(false)
            .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: true })
            .formatter(bindgen::Formatter::Rustfmt)
            .rustfmt_configuration_file(Some(root().join("rustfmt.toml")))
            .raw_line(header(target, version));
        for pattern in target.types {
            builder = builder.allowlist_type(pattern);
        }
        for pattern in target.constants {
            builder = builder.allowlist_var(pattern);
        }
        let bindings = builder.generate().with_context(|| format!("generating {}", target.file))?;
        Ok(bindings.to_string())
    }
}
