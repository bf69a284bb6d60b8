//! `omniprobe doctor`: what there is, and whether the library would be loaded.

mod glibc;
mod self_test;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use hsa::{AgentKind, Api};
use logdur_replay::{Exit, ReplayError};
use logdur_settings::Interceptor;

use crate::cmd::file;
use crate::environment::Environment;
use crate::{PlaceOptions, RunOptions, find, private_folder};

/// What is asked of the doctor.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    self_test: self_test::SelfTest,
}

/// Prints the findings; fails when nothing could be logged.
///
/// # Errors
/// When the libraries of this project are not there.
pub(crate) fn run(options: &DoctorOptions) -> Result<Exit> {
    let place = &options.place;
    if options.self_test.is_wanted() {
        return self_test::run(place, &options.self_test);
    }
    let options = RunOptions { place: place.clone(), log_location: Some("/dev/null".into()), ..Default::default() };
    let mut environment = Environment::of(&options)?;
    let hello = environment.folder()?.hello()?;
    environment.set(Interceptor::hello, &hello);
    // In a process of its own: it gets the environment that applications get, and may crash.
    let output = find::this_program(place.rocm.as_deref())?
        .arg("probe")
        .envs(environment.iter())
        .output()
        .context("starting the probe")?;
    let said = private_folder::read(&hello)?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        let text = format!("the HSA runtime cannot be used here ({})", output.status);
        return Err(ReplayError::Told { exit: Exit::Environment, text }.into());
    }
    let loaded = !said.is_empty();
    println!(
        "{:<10} {}",
        "tool",
        if loaded { "liblogdur.so is loaded by the runtime" } else { "liblogdur.so is NOT loaded by the runtime" }
    );
    let enough = glibc_is_enough()?;
    Ok(if loaded && enough { Exit::Success } else { Exit::Environment })
}

/// Says which glibc the library needs and which one is here; false when it is too old.
fn glibc_is_enough() -> Result<bool> {
    let library = find::library("liblogdur.so")?;
    let bytes = fs::read(&library).with_context(|| library.display().to_string())?;
    let (Some(needed), Some(here)) = (glibc::Version::needed(&bytes), glibc::Version::here()) else { return Ok(true) };
    let (line, enough) = glibc::compared(needed, here);
    println!("{:<10} {line}", "glibc");
    Ok(enough)
}

/// What is asked of the process of its own.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProbeOptions {
    /// Print the version of the runtime, and nothing else.
    #[arg(long)]
    runtime: bool,
    #[command(flatten)]
    part: self_test::PartOptions,
}

/// What runs in the process of its own: starts the runtime and says what it finds.
///
/// # Errors
/// When the runtime cannot be opened or started.
pub(crate) fn probe(options: &ProbeOptions) -> Result<Exit> {
    if let Some(exit) = self_test::part(&options.part)? {
        return Ok(exit);
    }
    let api = Api::open(None).context("opening the HSA runtime")?;
    if options.runtime {
        api.init().context("starting the HSA runtime")?;
        println!("{}", api.build_version());
        return Ok(Exit::Success);
    }
    let runtime = mapped("libhsa-runtime64.so")?;
    println!("{:<10} {}", "rocm", rocm_of(&runtime));
    println!("{:<10} {}", "runtime", described(&runtime));
    println!("{:<10} {}", "hip", hip(&runtime).map_or("not found".to_owned(), |p| described(&p)));
    api.init().context(
        "starting the HSA runtime; is the driver loaded, and may this user open /dev/kfd? (or try --emulate gfx90a)",
    )?;
    let (major, minor) = api.version()?;
    println!("{:<10} {major}.{minor}, build {}", "hsa", api.build_version());
    let agents = api.agents()?;
    for gpu in agents.iter().filter(|a| a.kind == AgentKind::Gpu) {
        let nature = if gpu.is_emulated() { "emulated" } else { "real" };
        println!("{:<10} {} {} [{nature}]", "gpu", gpu.name, gpu.product);
    }
    if !agents.iter().any(|a| a.kind == AgentKind::Gpu) {
        println!("{:<10} none", "gpu");
    }
    api.shut_down()?;
    Ok(Exit::Success)
}

/// The file behind a library that is in this process.
fn mapped(name: &str) -> Result<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let path = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find(|path| path.contains(name));
    path.map(PathBuf::from).with_context(|| format!("{name} is not in the process that opened it"))
}

/// A library's name, with its version as the files have it: `libhsa-runtime64.so.1.5.50203` is ROCm 5.2.3's.
fn described(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let release = name.rsplit('.').next().and_then(|digits| digits.parse::<u32>().ok()).filter(|&n| n >= 50_000);
    let release = release.map_or(String::new(), |n| format!(" (ROCm {}.{}.{})", n / 10_000, n / 100 % 100, n % 100));
    format!("{}{release}", file(path))
}

fn rocm_of(runtime: &Path) -> String {
    let folder = runtime.parent().unwrap_or(runtime);
    let root =
        folder.ancestors().find(|f| !f.ends_with("x86_64-linux-gnu") && !f.ends_with("lib") && !f.ends_with("lib64"));
    file(root.unwrap_or(folder))
}

/// HIP's library beside the runtime's.
fn hip(runtime: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(runtime.parent()?).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    found.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libamdhip64.so")));
    found.into_iter().filter_map(|p| p.canonicalize().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_file_names() {
        assert!(described(Path::new("/x/libhsa-runtime64.so.1.5.50203")).ends_with("(ROCm 5.2.3)"));
        assert!(described(Path::new("/x/libamdhip64.so.7.2.70204")).ends_with("(ROCm 7.2.4)"));
        assert_eq!(described(Path::new("/x/libhsa-runtime64.so.1")), "/x/libhsa-runtime64.so.1");
        assert_eq!(rocm_of(Path::new("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1")), "/usr");
        assert_eq!(rocm_of(Path::new("/opt/rocm-6.2.0/lib/libhsa-runtime64.so.1")), "/opt/rocm-6.2.0");
    }
}
