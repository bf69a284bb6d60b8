//! `omniprobe cache` on what compilers and LLVM's tools make, which are the oracles.

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use harness::{Harness, tool};

/// Two kernels; with LDS, one has another argument.
const SOURCE: &str = "
#ifdef LARGER
typedef int index;
#else
typedef long index;
#endif
kernel void first(global float* data, int n) {
#ifdef LARGER
    local float shared[256];
    shared[n & 255] = data[n];
    __builtin_amdgcn_s_barrier();
    data[n + 1] = shared[(n + 1) & 255];
#endif
    data[n] *= 2;
}
kernel void second(global float* data, index n) { data[n] += 1; }
";

fn compiled(harness: &Harness, output: &str, arch: &str, options: &[&str]) -> PathBuf {
    harness.compile(output, arch, &[options, &["-O3"]].concat())
}

/// A bundle of code objects for some processors, as clang makes it.
fn bundle(harness: &Harness, output: &str, parts: &[(&str, &Path)]) -> PathBuf {
    let path = harness.path(output);
    let ids: String = parts.iter().map(|(arch, _)| format!(",hipv4-amdgcn-amd-amdhsa--{arch}")).collect();
    let mut command = Command::new("clang-offload-bundler-19");
    command.args(["--type=o", "--compress", "--input=/dev/null"]);
    command.arg(format!("--targets=host-x86_64-unknown-linux-gnu-{ids}"));
    command.args(parts.iter().map(|(_, part)| format!("--input={}", part.display())));
    tool(command.arg(format!("--output={}", path.display())));
    path
}

fn omniprobe(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    harness::omniprobe("cache", arguments)
}

fn stdout(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The number of a key of a kernel in what `llvm-readelf` prints of the metadata: an entry of the list for each kernel.
fn by_readelf(object: &Path, kernel: &str, key: &str) -> u64 {
    let text = tool(Command::new("llvm-readelf-19").arg("--notes").arg(object));
    let value = |entry: &str, key: &str| {
        // The first key of an entry is on the line of its dash.
        let mut lines = entry.lines().filter_map(|line| line.strip_prefix("    .").or(line.strip_prefix('.')));
        lines.find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
    };
    let entry = text.split("\n  - ").find(|entry| value(entry, "name").as_deref() == Some(kernel));
    let number = entry.and_then(|entry| value(entry, key)?.parse().ok());
    number.unwrap_or_else(|| panic!("{key} of {kernel} in {text}"))
}

/// Keys of JSON and of the metadata for the same.
const KEYS: [(&str, &str); 8] = [
    ("group_size", "group_segment_fixed_size"),
    ("private_size", "private_segment_fixed_size"),
    ("kernarg_size", "kernarg_segment_size"),
    ("kernarg_align", "kernarg_segment_align"),
    ("wavefront_size", "wavefront_size"),
    ("max_flat_workgroup_size", "max_flat_workgroup_size"),
    ("vgprs", "vgpr_count"),
    ("sgprs", "sgpr_count"),
];

#[test]
fn a_listing_says_of_every_kernel_what_readelf_says() {
    let harness = Harness::of(SOURCE);
    let object = compiled(&harness, "cache/larger.co", "gfx90a", &["-DLARGER"]);
    let rows = json(&omniprobe(&[&"ls", &"--json", &object]));
    assert_eq!(rows.iter().map(|row| row["kernel"].as_str()).collect::<Vec<_>>(), [Some("first"), Some("second")]);
    for row in &rows {
        for (ours, theirs) in KEYS {
            let kernel = row["kernel"].as_str().expect("a name");
            assert_eq!(row[ours].as_u64(), Some(by_readelf(&object, kernel, theirs)), "{ours} of {kernel}");
        }
        assert_eq!(row["target"], "gfx90a");
    }
    let table = stdout(&omniprobe(&[&"ls", &harness.path("cache"), &"-k", &"^fir"]));
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("HASH") && lines[1].contains(" 1024 "), "{table}");
}

#[test]
fn a_check_names_the_swap_or_every_reason_and_its_status_says_which() {
    let harness = Harness::of(SOURCE);
    let application = compiled(&harness, "application.co", "gfx90a", &[]);
    let larger = compiled(&harness, "cache/larger.co", "gfx90a", &["-DLARGER"]);
    let output = omniprobe(&[&"check", &harness.path("cache"), &application]);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(output.status.success(), "{text}");
    assert_eq!((lines[0], lines[2]), ("first [gfx90a]: swapped", "    LDS: 0 bytes becomes 1024 bytes"));
    assert!(lines[1].ends_with(&format!("{} (code object at 0x0)", larger.display())), "{text}");
    let refusal = "argument: expected argument 2 of 8 bytes at 8, by_value, found argument 2 of 4 bytes at 8, by_value";
    assert!(text.contains("second [gfx90a]: not swapped\n") && text.contains(refusal), "{text}");
    let refused = omniprobe(&[&"check", &"--json", &"-k", &"second", &harness.path("cache"), &application]);
    assert_eq!(refused.status.code(), Some(7));
    let rows = json(&refused);
    assert_eq!((rows.len(), &rows[0]["decision"]), (1, &Value::from("refused")));
    assert_eq!(rows[0]["candidates"][0]["refusals"][0]["reason"], "argument");
    // The application's own code beside it, until the user chooses.
    fs::copy(&application, harness.path("cache/own.co")).expect("it can be copied");
    let decision = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| {
        let cache = harness.path("cache");
        let all: Vec<&dyn AsRef<std::ffi::OsStr>> = [&"check" as &dyn AsRef<_>, &"--json", &"-k", &"first"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let all: Vec<&dyn AsRef<std::ffi::OsStr>> =
            all.into_iter().chain([&cache as &dyn AsRef<_>, &application]).collect();
        json(&omniprobe(&all))[0]["decision"].as_str().map(str::to_owned)
    };
    assert_eq!(decision(&[]).as_deref(), Some("running"));
    let hash = json(&omniprobe(&[&"ls", &"--json", &larger]))[0]["hash"].as_str().expect("a hash").to_owned();
    assert_eq!(decision(&[&"--pick", &&hash[..12]]).as_deref(), Some("swap"));
}

#[test]
fn kernels_of_triton_are_checked_for_the_number_of_warps_that_they_are_launched_with() {
    let harness = Harness::of(SOURCE);
    let described = |name: &str, warps: u32, options: &[&str]| {
        let path = compiled(&harness, name, "gfx90a", options);
        let description = format!("{{\"shared\": 0, \"num_warps\": {warps}, \"warp_size\": 64}}");
        fs::write(path.with_extension("json"), description).expect("it can be written");
        path
    };
    let application = described("application/first.hsaco", 4, &[]);
    let check = |name: &str, warps: u32| {
        let cache = described(name, warps, &["-DLARGER"]);
        omniprobe(&[&"check", &"-k", &"^first$", &cache.parent().expect("a folder"), &application])
    };
    let same = check("same/first.hsaco", 4);
    assert!(same.status.success() && stdout(&same).starts_with("first [gfx90a]: swapped"), "{}", stdout(&same));
    let others = check("others/first.hsaco", 8);
    let text = stdout(&others);
    assert_eq!(others.status.code(), Some(7), "{text}");
    assert!(text.contains("workgroup size of Triton: expected 512, found 256"), "{text}");
}

#[test]
fn code_objects_are_taken_out_of_bundles_as_clangs_bundler_does_it() {
    let harness = Harness::of(SOURCE);
    let parts = [compiled(&harness, "a.co", "gfx90a", &[]), compiled(&harness, "b.co", "gfx906", &[])];
    let bundle = bundle(&harness, "both.co", &[("gfx90a", &parts[0]), ("gfx906", &parts[1])]);
    let folder = harness.path("cache/of/mine");
    let text = stdout(&omniprobe(&[&"add", &folder, &bundle]));
    assert_eq!(text.lines().count(), 2, "{text}");
    let contents = || {
        let mut all: Vec<Vec<u8>> = fs::read_dir(&folder)
            .expect("the folder was made")
            .map(|entry| fs::read(entry.expect("an entry").path()).expect("a file"))
            .collect();
        all.sort();
        all
    };
    let mut expected: Vec<Vec<u8>> = ["gfx90a", "gfx906"]
        .map(|arch| {
            let output = harness.path("unbundled");
            let mut command = Command::new("clang-offload-bundler-19");
            command.args(["--unbundle", "--type=o"]).arg(format!("--targets=hipv4-amdgcn-amd-amdhsa--{arch}"));
            command.arg(format!("--input={}", bundle.display())).arg(format!("--output={}", output.display()));
            tool(&mut command);
            fs::read(output).expect("it was unbundled")
        })
        .into();
    expected.sort();
    assert_eq!(contents(), expected);
    // Once more changes nothing; a file that is not what its name says is not overwritten.
    let again = stdout(&omniprobe(&[&"add", &folder, &bundle]));
    assert!(again.lines().all(|line| line.ends_with("2 kernels, was there")), "{again}");
    let file = fs::read_dir(&folder).expect("it is there").next().expect("a file").expect("an entry").path();
    fs::write(&file, b"mine").expect("it can be written");
    let refused = omniprobe(&[&"add", &folder, &bundle]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("expected the contents of its name, found others"), "{said}");
    assert_eq!(fs::read(&file).expect("it is there"), b"mine");
    // Only one of the two.
    let one = stdout(&omniprobe(&[&"add", &harness.path("other"), &bundle, &"--arch", &"gfx906"]));
    assert!(one.lines().count() == 1 && one.contains(": gfx906, 2 kernels"), "{one}");
}

#[test]
fn what_is_not_there_or_broken_is_named() {
    let harness = Harness::of(SOURCE);
    let said = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| {
        let output = omniprobe(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    };
    let missing = harness.path("missing");
    let expected = format!("omniprobe: {}: No such file or directory (os error 2)", missing.display());
    assert_eq!(said(&[&"ls", &missing]), (Some(1), expected));
    let source = harness.path("source.cl");
    let expected = format!("omniprobe: {}: expected kernels, found none", source.display());
    assert_eq!(said(&[&"add", &harness.path("cache"), &source]), (Some(1), expected));
    let whole = fs::read(compiled(&harness, "whole.co", "gfx90a", &[])).expect("it was made");
    let cut = harness.path("cut.co");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("it can be written");
    let (code, text) = said(&[&"ls", &cut]);
    assert!(
        code == Some(0) && text.starts_with(&format!("omniprobe: {}: code object at 0x0: ", cut.display())),
        "{text}"
    );
    let (code, text) = said(&[&"check", &harness.path("."), &cut, &"--pick", &"latest"]);
    assert!(code == Some(1) && text.contains("expected 4 to 64 hexadecimal digits"), "{text}");
}
