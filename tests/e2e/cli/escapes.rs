//! Names that command terminals, break lines and turn the direction of text: of kernels, files and folders. Nothing that is
//! printed or written has them as they are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::harness::{self, Run, built};

/// What `increment`, the kernel of the programs, is called instead: as long, and valid UTF-8 or not.
const EVIL: [&[u8; 9]; 2] = [b"i\nZ\x1b\xe2\x80\xaeen", b"i\nZ\x1b\t\x9b\xffen"];
/// A part of the paths of all files.
const FOLDER: &str = "p\nZ\u{1b}[2J\u{202e}\u{200f}";

/// A file with another name of the kernel.
fn renamed(from: &Path, to: PathBuf, name: &[u8; 9]) -> PathBuf {
    let mut bytes = fs::read(from).unwrap();
    let places: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, w)| w == b"increment").map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{} has no kernel `increment`", from.display());
    places.into_iter().for_each(|at| bytes[at..at + name.len()].copy_from_slice(name));
    fs::write(&to, bytes).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    to
}

/// Checks that a text commands no terminal, and that none of its lines begins with what follows a line break in a name.
fn is_harmless(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|e| panic!("{what}: {e}"));
    let control = |c: char| (c.is_control() && c != '\n' && c != '\t') || "\u{202e}\u{200f}".contains(c);
    assert!(!text.contains(control), "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with('Z')), "{what}: {text}");
}

#[test]
fn names_of_kernels_and_files_neither_command_the_terminal_nor_break_a_line_of_any_output() {
    for name in EVIL {
        let arch = harness::arch();
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(format!("{name}\nZ"));
        fs::create_dir(at("cache")).unwrap();
        let object = renamed(&harness::kernels(&arch), at("object.hsaco"), name);
        renamed(&harness::hip_object("kernels", &arch, "-O1"), at("cache").join("other\nZ.hsaco"), name);
        let program = renamed(&harness::hsa("signals"), at("program"), name);
        let (capture, log, json) = (at("capture"), at("log"), at("json"));
        let arguments = |text: &str| -> Vec<std::ffi::OsString> {
            let word = |word: &str| match word {
                "CAPTURE" => capture.clone().into(),
                "LOG" => log.clone().into(),
                "JSON" => json.clone().into(),
                "OBJECT" => object.clone().into(),
                "PROGRAM" => program.clone().into(),
                "CACHE" => at("cache").into(),
                "NOTHING" => at("nothing").into(),
                "TIMELINE" => folder.join("timeline\nZ.json").into(),
                "FOLDER" => at("folder").into(),
                word => word.into(),
            };
            text.split(' ').map(word).collect()
        };
        let omniprobe = |text: &str| -> Output {
            let mut command = Run::new(built("omniprobe")).command();
            command.env_remove("LD_PRELOAD").env_remove("KFDEMU_GPUS").env("TEST_KERNELS", &object);
            command.env("XDG_CACHE_HOME", at("indexes")).args(arguments(text)).current_dir(&folder);
            for name in ["KFDEMU_LOG", "KFDEMU_TRACE"] {
                command.env_remove(name);
            }
            let output = command.output().unwrap();
            is_harmless(&format!("{text}: stdout"), &output.stdout);
            is_harmless(&format!("{text}: stderr"), &output.stderr);
            output
        };
        let device = if harness::on_hardware() { String::new() } else { format!("--emulate {arch} ") };
        let all = "-v -l LOG -c CACHE --capture CAPTURE --stats --trace TIMELINE -- PROGRAM none 4";
        let ran = omniprobe(&format!("{device}{all}"));
        assert!(ran.stdout.ends_with(b"PASS\n"), "{}", String::from_utf8_lossy(&ran.stderr));
        omniprobe(&format!("{device}-t json -l JSON -- PROGRAM none 4"));
        for file in [&log, &json, &folder.join("timeline\nZ.json")] {
            is_harmless(&file.display().to_string(), &fs::read(file).unwrap());
        }
        let rows = fs::read_to_string(&json).unwrap();
        rows.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
        for text in COMMANDS {
            let output = omniprobe(text);
            if text.contains("json") && !text.contains("JSON") {
                let text_of = String::from_utf8(output.stdout).unwrap();
                let whole = serde_json::from_str::<serde_json::Value>(&text_of).is_ok();
                let lines = text_of.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
                assert!(whole || lines, "{text}: {text_of}");
            }
        }
    }
}

/// Each subcommand with what it takes, and with what it refuses.
const COMMANDS: &[&str] = &[
    "summary LOG",
    "summary LOG JSON",
    "summary LOG --json",
    "summary LOG --csv",
    "summary LOG --against JSON",
    "summary OBJECT",
    "summary NOTHING",
    "trace LOG -o TIMELINE",
    "trace LOG -o FOLDER",
    "log LOG",
    "log NOTHING",
    "info CAPTURE",
    "info CAPTURE --json",
    "info OBJECT",
    "dump CAPTURE",
    "dump CAPTURE --format json",
    "fsck CAPTURE",
    "fsck CAPTURE --json",
    "fsck LOG",
    "extract CAPTURE -o FOLDER",
    "replay CAPTURE --backend emu",
    "replay CAPTURE --backend emu --json",
    "verify CAPTURE --backend emu",
    "verify CAPTURE --backend emu --json",
    "verify CAPTURE --backend emu --hsaco all=OBJECT",
    "verify CAPTURE --backend emu --hsaco all=NOTHING",
    "verify CAPTURE --backend emu --kernel nothing",
    "bench CAPTURE --backend emu -r 3",
    "bench CAPTURE --backend emu -r 3 --json",
    "diff CAPTURE CAPTURE",
    "diff CAPTURE CAPTURE --json",
    "isa OBJECT",
    "isa OBJECT --all",
    "isa OBJECT --all --json",
    "isa NOTHING",
    "cache ls CACHE",
    "cache ls CACHE --json",
    "cache ls NOTHING",
    "cache check CACHE OBJECT",
    "cache check CACHE OBJECT --json",
    "cache add FOLDER OBJECT",
    "doctor --rocm NOTHING",
    "NOTHING",
    "info --NOTHING",
];
