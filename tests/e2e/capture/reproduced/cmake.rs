//! Programs of dispatches and of regions, built by their `CMakeLists.txt`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::regions::reproduce;
use super::{failed, written};
use crate::replay::region::{Story, text};
use crate::replay::verify::increment;
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// Configures and builds a program as its README says, for the ROCm to test on; else what CMake says.
fn build(folder: &Path) -> Result<(), String> {
    let options: Vec<String> = harness::link_options().into_iter().map(|of| of.into_string().unwrap()).collect();
    let root = harness::rocm().unwrap_or_else(|| "/usr".into());
    let mut of_root = OsString::from("-DCMAKE_PREFIX_PATH=");
    of_root.push(root);
    let mut configure = Command::new("cmake");
    configure.args(["-S", ".", "-B", "build"]).arg(of_root).arg("-DCMAKE_CXX_FLAGS=-Wall -Wextra");
    configure.arg(format!("-DCMAKE_EXE_LINKER_FLAGS={}", options.join(" ")));
    let mut build = Command::new("cmake");
    build.args(["--build", "build"]);
    for command in [&mut configure, &mut build] {
        let output = command.current_dir(folder).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if !output.status.success() {
            return Err(format!("{command:?}: {said}"));
        }
    }
    Ok(())
}

/// Runs what CMake has built.
fn run(folder: &Path, arch: &str) -> Outcome {
    Run::new(folder.join("build/reproduce")).arch(arch).bare()
}

#[test]
fn cmake_builds_programs_of_launches_and_of_packets_that_find_their_files_and_check_what_they_compute() {
    let arch = harness::arch();
    let keep = Run::new(built("omniprobe"));
    let (_outcome, alone) = written(&increment(&arch).write(&keep.file("a.ldcap")), 7);
    let mut story = Story::new();
    // `tally` declares 64, and counts once, whatever its workgroups are.
    story.steps[4].workgroup = 128;
    let (outcome, with_packets) = reproduce(&story.write(&keep.file("b.ldcap")), &[]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    for (folder, is_of_hsa) in [(alone, false), (with_packets, true)] {
        let lists = fs::read_to_string(folder.join("CMakeLists.txt")).unwrap();
        assert_eq!(lists.contains("hsa-runtime64::hsa-runtime64"), is_of_hsa, "{lists}");
        let built = build(&folder);
        if !versions::cmake_finds_hip() {
            assert!(built.as_ref().is_err_and(|said| said.contains("hip-targets.cmake")), "{built:?}");
            continue;
        }
        built.unwrap_or_else(|said| panic!("{said}"));
        run(&folder, &arch).passed();
        let after = folder.join("allocation-0-0.after.bin");
        let mut bytes = fs::read(&after).unwrap();
        bytes[5] ^= 1;
        fs::write(&after, bytes).unwrap();
        assert!(failed(&run(&folder, &arch)).starts_with("allocation 0, arg0[1], offset 4: "));
    }
}
