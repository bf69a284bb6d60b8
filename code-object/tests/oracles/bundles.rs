//! Bundles, against `clang-offload-bundler`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use amdgpu_code_object::container::{self, Entry, Kind};

use crate::compiled::{self, run};

/// The host's entry and some targets, with a code object for each.
fn parts() -> Vec<(&'static str, Option<PathBuf>)> {
    let object = |target| compiled::object(19, 5, target, "arguments.cl", &["-O3"]);
    vec![
        ("host-x86_64-unknown-linux--", None),
        ("hipv4-amdgcn-amd-amdhsa--gfx906:sramecc-", Some(object("gfx906:sramecc-"))),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", Some(object("gfx90a:sramecc+:xnack-"))),
        ("hipv4-amdgcn-amd-amdhsa--gfx1030", Some(object("gfx1030"))),
        ("openmp-amdgcn-amd-amdhsa--gfx942", Some(object("gfx942"))),
    ]
}

/// A bundle of them, as the compiler's own tool makes it.
fn bundled(name: &str, options: &[&str]) -> PathBuf {
    let parts = parts();
    let sources: Vec<PathBuf> = parts.iter().filter_map(|(_, path)| path.clone()).collect();
    compiled::make(name, &sources, |output| {
        let mut command = Command::new("clang-offload-bundler-19");
        // The bundler adds the last parts of a triple that it is given without.
        let targets: Vec<&str> = parts.iter().map(|(id, _)| id.strip_suffix("--").unwrap_or(id)).collect();
        command.arg("-type=o").arg(format!("-targets={}", targets.join(","))).args(options);
        for (_, path) in &parts {
            let path = path.as_deref().unwrap_or(Path::new("/dev/null"));
            command.arg(format!("-input={}", path.display()));
        }
        command.arg(format!("-output={}", output.display()));
        command
    })
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    container::entries(&bytes).expect("a slice can be read")
}

/// What every form of the bundle has to give.
fn assert_holds_the_parts(bytes: &[u8], kind: Kind) {
    let entries = entries(bytes);
    let parts = parts();
    assert_eq!(entries.len(), parts.len());
    for (entry, (id, path)) in entries.iter().zip(&parts) {
        let expected = path.as_ref().map_or(Vec::new(), |path| fs::read(path).expect("it was compiled"));
        assert_eq!((&*entry.id, entry.kind, &entry.problem), (*id, kind, &None));
        assert_eq!(entry.read(&bytes), Ok(expected));
        assert_eq!(entry.is_code_object(), path.is_some(), "{id}");
        let target = entry.target().map(|target| target.to_string());
        assert_eq!(target.as_deref(), path.as_ref().and(id.split_once("--")).map(|(_, target)| target));
    }
    // In one pass, whatever the order.
    let mut reversed = entries.clone();
    reversed.reverse();
    let mut found = vec![None; reversed.len()];
    container::read_each(&bytes, &reversed, &mut |index, bytes| found[index] = bytes.ok());
    let expected: Vec<_> = reversed.iter().map(|entry| entry.read(&bytes).ok()).collect();
    assert_eq!(found, expected);
}

/// Bundles of every form, for tests that change them.
pub(crate) fn every_form() -> Vec<Vec<u8>> {
    let plain = fs::read(bundled("plain.hipfb", &[])).unwrap();
    let zlib = miniz_oxide::deflate::compress_to_vec_zlib(&plain, 6);
    let zstd = fs::read(bundled("compressed.hipfb", &["-compress"])).unwrap();
    let (hash, zstd) = (&zstd[16..24], &zstd[24..]);
    let mut forms = vec![fs::read(bundled("aligned.hipfb", &["-bundle-align=4096"])).unwrap()];
    for version in 1..=3 {
        for (method, packed) in [(0, &zlib[..]), (1, zstd)] {
            forms.push(compressed(version, method, packed, plain.len(), hash));
        }
    }
    forms.push([&forms[1][..], &plain, &forms[4]].concat());
    forms.push(plain);
    forms.push(fs::read(packaged()).unwrap());
    forms.extend(host_programs().iter().map(|path| fs::read(path).unwrap()));
    forms
}

#[test]
fn a_bundle_has_the_entries_that_clangs_bundler_put_into_it() {
    for (name, options) in [("plain.hipfb", &[][..]), ("aligned.hipfb", &["-bundle-align=4096"])] {
        let path = bundled(name, options);
        assert_holds_the_parts(&fs::read(&path).unwrap(), Kind::Bundle);
        let mut listed: Vec<String> = list(&path);
        let mut ours: Vec<String> = entries(&fs::read(&path).unwrap()).into_iter().map(|e| e.place.id).collect();
        listed.sort();
        ours.sort();
        assert_eq!(ours, listed);
    }
}

/// The same code objects in packages, and an image that is none.
fn packaged() -> PathBuf {
    let mut images: Vec<(PathBuf, String)> = parts()
        .into_iter()
        .filter_map(|(id, path)| {
            let (kind, architecture) = (id.split_once('-')?.0.trim_end_matches("v4"), id.split_once("--")?.1);
            Some((path?, format!("triple=amdgcn-amd-amdhsa,arch={architecture},kind={kind}")))
        })
        .collect();
    let bitcode = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image.bc");
    fs::write(&bitcode, b"BC\xc0\xdeno bitcode that anybody reads").unwrap();
    images.push((bitcode, "triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=openmp".to_owned()));
    let sources: Vec<PathBuf> = images.iter().map(|(path, _)| path.clone()).collect();
    compiled::make("images.package", &sources, |output| {
        let mut command = Command::new("clang-offload-packager-19");
        command.arg("-o").arg(output);
        command.args(images.iter().map(|(path, about)| format!("--image=file={},{about}", path.display())));
        command
    })
}

#[test]
fn packages_have_the_images_that_clangs_packager_put_into_them() {
    let bytes = fs::read(packaged()).unwrap();
    let found = entries(&bytes);
    let parts: Vec<_> = parts().into_iter().filter_map(|(id, path)| Some((id, path?))).collect();
    assert_eq!(found.len(), parts.len() + 1);
    for (entry, (id, path)) in found.iter().zip(&parts) {
        assert_eq!((entry.id.replace("hip-", "hipv4-"), entry.kind), ((*id).to_owned(), Kind::Package));
        assert_eq!(entry.read(&bytes), Ok(fs::read(path).unwrap()));
        assert_eq!(entry.target().map(|target| target.to_string()).as_deref(), id.split_once("--").map(|(_, t)| t));
        assert!(entry.is_code_object());
    }
    assert!(found.last().is_some_and(|bitcode| !bitcode.is_code_object() && bitcode.problem.is_none()));
    // One that leads outside is told.
    let mut broken = bytes;
    broken[32 + 32 + 5] = 1;
    assert!(entries(&broken)[0].read(&broken).unwrap_err().to_string().starts_with("image of an offload package"));
}

/// The IDs that clang's bundler finds in a file.
fn list(path: &Path) -> Vec<String> {
    let mut command = Command::new("clang-offload-bundler-19");
    command.args(["-list", "-type=o"]).arg(format!("-input={}", path.display()));
    run(&mut command).lines().map(str::to_owned).collect()
}

#[test]
fn a_bundle_that_clangs_bundler_compressed_has_the_same_entries() {
    for level in ["-compression-level=1", "-compression-level=3", "-compression-level=19"] {
        let path = bundled(&format!("compressed{level}.hipfb"), &["-compress", level]);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(&bytes[..8], b"CCOB\x02\0\x01\0", "version 2, zstd");
        assert_holds_the_parts(&bytes, Kind::CompressedBundle);
    }
}

/// A compressed bundle of a version, with the hash that another one of the same contents has.
fn compressed(version: u16, method: u16, packed: &[u8], unpacked: usize, hash: &[u8]) -> Vec<u8> {
    let mut bytes = b"CCOB".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(method.to_le_bytes());
    let length = packed.len() + [20, 24, 32][usize::from(version) - 1];
    match version {
        1 => {}
        2 => bytes.extend((length as u32).to_le_bytes()),
        _ => bytes.extend((length as u64).to_le_bytes()),
    }
    match version {
        1 | 2 => bytes.extend((unpacked as u32).to_le_bytes()),
        _ => bytes.extend((unpacked as u64).to_le_bytes()),
    }
    bytes.extend(hash);
    bytes.extend(packed);
    bytes
}

#[test]
fn every_version_of_the_header_and_both_methods_hold_the_same() {
    let zstd = fs::read(bundled("compressed.hipfb", &["-compress"])).unwrap();
    let plain = fs::read(bundled("plain.hipfb", &[])).unwrap();
    let (hash, zstd) = (&zstd[16..24], &zstd[24..]);
    let zlib = miniz_oxide::deflate::compress_to_vec_zlib(&plain, 6);
    for version in 1..=3 {
        for (method, packed) in [(0, &zlib[..]), (1, zstd)] {
            let bytes = compressed(version, method, packed, plain.len(), hash);
            assert_holds_the_parts(&bytes, Kind::CompressedBundle);
            // Two of them, and a plain one, as the linker lays them.
            let mut several = bytes.clone();
            several.resize(several.len().next_multiple_of(4096), 0);
            several.extend(&bytes);
            several.resize(several.len().next_multiple_of(4096) + 3 * 4096, 0);
            several.extend(&plain);
            let ids: Vec<String> = entries(&bytes).into_iter().map(|e| e.place.id).collect();
            let found = entries(&several);
            let expected: Vec<&String> = ids.iter().chain(&ids).chain(&ids).collect();
            assert_eq!(found.iter().map(|e| &e.id).collect::<Vec<_>>(), expected, "{version} {method}");
            for (entry, first) in found.iter().zip(entries(&bytes).iter().cycle()) {
                assert_eq!(entry.read(&several.as_slice()), first.read(&bytes.as_slice()), "{version} {method}");
            }
            // LLVM 19 knows the first two versions.
            if version < 3 {
                let path = compiled::folder().join(format!("rewritten-v{version}-{method}.hipfb"));
                fs::write(&path, &bytes).unwrap();
                let mut listed = list(&path);
                let mut ours = ids;
                listed.sort();
                ours.sort();
                assert_eq!(ours, listed, "{version} {method}");
            }
        }
    }
}

/// A program and its object file; and programs whose section of bundles has another name, so that what is left are the
/// records that they give to the runtime.
fn host_programs() -> Vec<PathBuf> {
    let source = compiled::source("globals.hip");
    let archs = compiled::HIP_ARCHS.map(|arch| format!("--offload-arch={arch}"));
    let hip = |name: &str, options: &[&str]| {
        let archs = archs.iter().map(String::as_str);
        compiled::hip(name, &source, &archs.chain(options.iter().copied()).collect::<Vec<_>>())
    };
    let renamed = |name: &str, program: &PathBuf| {
        compiled::make(name, std::slice::from_ref(program), |output| {
            let mut command = Command::new("objcopy");
            command.args(["--rename-section", ".hip_fatbin=.elsewhere"]).arg(program).arg(output);
            command
        })
    };
    let program = hip("globals.exe", &[]);
    let fixed = hip("globals-fixed.exe", &["-no-pie", "-fno-pic"]);
    vec![
        hip("globals.o", &["-c"]),
        renamed("globals-renamed.exe", &program),
        renamed("globals-fixed-renamed.exe", &fixed),
        program,
    ]
}

#[test]
fn a_hip_program_and_its_object_file_have_the_code_of_each_processor() {
    let source = compiled::source("globals.hip");
    for path in host_programs() {
        let bytes = fs::read(&path).unwrap();
        let entries = entries(&bytes);
        assert!(entries.iter().all(|e| e.in_host_elf && e.problem.is_none()), "{}: {entries:?}", path.display());
        let code: Vec<_> = entries.iter().filter(|e| e.is_code_object()).collect();
        let targets: Vec<_> = code.iter().filter_map(|e| e.target()).map(|t| t.processor).collect();
        assert_eq!(targets, compiled::HIP_ARCHS, "{}", path.display());
        for (entry, arch) in code.iter().zip(compiled::HIP_ARCHS) {
            let arch = format!("--offload-arch={arch}");
            let options = [&*arch, "--cuda-device-only", "--no-gpu-bundle-output", "-c", "-O3"];
            let alone = compiled::hip(&format!("globals{arch}-O3.co"), &source, &options);
            let kernels = |bytes: &[u8]| amdgpu_code_object::CodeObject::parse(bytes).unwrap().kernels;
            assert_eq!(kernels(&entry.read(&bytes.as_slice()).unwrap()), kernels(&fs::read(alone).unwrap()));
        }
    }
}
