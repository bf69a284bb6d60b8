//! Textures of one dimension: elements of memory in a format that a descriptor has.

use std::fs;

use crate::replay::verify::{ended, on_file, tool};
use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Run, built};

/// Emulated processors on which HIP has such textures.
const ARCHS: [&str; 2] = ["gfx90a", "gfx906"];
/// The operation that reads them.
const OPERATION: &str = "buffer_load_format_x";

#[test]
fn textures_are_read_as_the_host_has_them_in_kernels_that_are_swapped_captured_and_replayed() {
    if harness::on_hardware() {
        return;
    }
    for arch in ARCHS {
        // A compiler may make the same of -O1 and -O3.
        let object = harness::hip_object("textures", arch, "-O1 -g");
        let run = Run::new(harness::hip_targets("textures", &[arch])).arch(arch);
        let (cache, indexes, file) = (run.file("cache"), run.file("indexes"), run.file("run.ldcap"));
        fs::create_dir(&cache).unwrap();
        fs::copy(&object, cache.join("o.hsaco")).unwrap();
        let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).env("LOGDUR_CAPTURE", &file);
        let run = run.watched().passed();
        let log = run.log();
        let replaced = log.rows.iter().filter(|row| !row.text("replaced").is_empty()).count();
        assert!(replaced > 0, "{arch}: {:?}", log.notices);
        let verify = |options: &[&str]| {
            let options = [&["--kernel", "^sampled$"], options].concat();
            on_file(Run::new(built("omniprobe")), "verify", &file, arch, &options)
        };
        let other = format!("all={}", object.display());
        for options in [&[][..], &["--backend", "emu"], &["--hsaco", &other]] {
            ended(&verify(options), "PASS", 0);
        }
    }
}

#[test]
fn a_kernel_that_reads_a_texture_is_refused_by_name_where_memory_is_moved() {
    if harness::on_hardware() {
        return;
    }
    for arch in ARCHS {
        let object = harness::hip_object("textures", arch, "-O1");
        // What rewrites addresses does not take the words that say where a texture is for some.
        let out = Buffer::words(0x1000, &[7; 64], &std::array::from_fn::<u32, 64, _>(|i| 3 * i as u32));
        let low = Captured {
            code: fs::read(&object).unwrap(),
            grid: 64,
            kernarg: [0x1000u64, 0].iter().flat_map(|word| word.to_le_bytes()).collect(),
            ..Captured::of("sampled", arch, 0, vec![out])
        };
        let refused = tool("verify", &low, &["--place-retries", "1"]);
        assert_eq!(refused.status.code(), Some(7), "{}{}", refused.stdout, refused.stderr);
        let said = format!("sampled: {OPERATION} finds memory by a descriptor");
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
    }
}
