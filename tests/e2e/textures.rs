//! Textures: what reads them runs where nothing is moved, and is refused by name elsewhere.

use std::fs;

use crate::captures::{Buffer, Captured};
use crate::harness::{self, Run, built};
use crate::replay::{ended, on_file, tool};

/// The emulated processor that has instructions for textures.
const ARCH: &str = "gfx906";

#[test]
fn kernels_that_read_textures_are_replayed_at_their_addresses_and_refused_by_name_elsewhere() {
    if harness::on_hardware() {
        return;
    }
    let object = harness::hip_object("textures", ARCH, "-O1");
    let run = Run::new(harness::hip_target("textures", ARCH)).arch(ARCH);
    let (cache, indexes, file) = (run.file("cache"), run.file("indexes"), run.file("run.ldcap"));
    fs::create_dir(&cache).unwrap();
    fs::copy(&object, cache.join("o.hsaco")).unwrap();
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).env("LOGDUR_CAPTURE", &file);
    let run = run.watched().passed();
    // Its code object has a variable, and the instruction is not known to leave the addresses of variables alone.
    let notices = run.log().notices;
    let stays = notices.iter().find(|n| n.contains("cache: sampled on agent 0 stays as it is")).unwrap();
    let operation = ["buffer_load_format_x", "image_load"].into_iter().find(|name| stays.contains(name));
    let operation = operation.unwrap_or_else(|| panic!("{stays}"));
    let verify = |options: &[&str]| {
        let options = [&["--kernel", "^sampled$"], options].concat();
        on_file(Run::new(built("omniprobe")), "verify", &file, ARCH, &options)
    };
    ended(&verify(&[]), "PASS", 0);
    let other = format!("all={}", object.display());
    for options in [&["--backend", "emu"][..], &["--hsaco", &other]] {
        let refused = verify(options);
        assert_eq!(refused.status.code(), Some(7), "{options:?}: {}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("sampled") && refused.stderr.contains(operation), "{}", refused.stderr);
    }
    // What rewrites addresses does not take the words that say where a texture is for some.
    let out = Buffer::words(0x1000, &[7; 64], &std::array::from_fn::<u32, 64, _>(|i| 3 * i as u32));
    let low = Captured {
        code: fs::read(&object).unwrap(),
        grid: 64,
        kernarg: [0x1000u64, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect(),
        ..Captured::of("sampled", ARCH, 0, vec![out])
    };
    let refused = tool("verify", &low, &["--place-retries", "1"]);
    assert_eq!(refused.status.code(), Some(7), "{}{}", refused.stdout, refused.stderr);
    let said = format!("sampled: {operation} finds memory by a descriptor");
    assert!(refused.stderr.contains(&said), "{}", refused.stderr);
}
