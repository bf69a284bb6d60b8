//! The vectors that LLVM tests its own disassembler with. `cargo xtask vectors` fetches them; without them there is
//! nothing to compare with, and `cargo xtask test --full` sees to it that they are there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use amdgpu_isa::coverage::is_absent;
use amdgpu_isa::decode::DecodeError;
use amdgpu_isa::{Arch, Decoder};

use crate::llvm_mc::{normal, ours};
use crate::random_words::{is_beyond_the_tables, operation};

/// One instruction of a file of vectors.
struct Vector {
    words: Vec<u32>,
    text: String,
}

/// Where the vectors are.
fn folder() -> Option<PathBuf> {
    std::env::var_os("LOGDUR_TEST_LLVM_VECTORS").map(PathBuf::from)
}

/// The processor that a file's `RUN` line names.
fn processor(content: &str) -> Option<Arch> {
    let run = content.lines().find(|line| line.contains("RUN:"))?;
    // These processors have waves of 64 lanes.
    if run.contains("wavefrontsize32") {
        return None;
    }
    let name = run.split("-mcpu=").nth(1)?.split_whitespace().next()?;
    // The name that MI300 had before it had a number.
    let name = if name == "gfx940" { "gfx942" } else { name };
    name.parse().ok()
}

/// The instructions of a file: a comment `PREFIX: text ; encoding: [bytes]` above or below a line of bytes.
fn read(content: &str) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let (mut text, mut above) = (None, None);
    for line in content.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            let expected = comment.split_once(": ").filter(|(prefix, _)| !prefix.contains("RUN"));
            text = expected.map(|(_, text)| normal(text.split("; encoding").next().unwrap_or(text)));
            if let (Some(words), Some(_)) = (above.take(), &text) {
                vectors.push(Vector { words, text: text.take().unwrap_or_default() });
            }
        } else if line.is_empty() {
            (text, above) = (None, None);
        } else if line.starts_with("0x") {
            let code = line.split('#').next().unwrap_or(line);
            let bytes: Result<Vec<u8>, _> = code
                .split([',', ' '])
                .filter(|b| !b.is_empty())
                .map(|b| u8::from_str_radix(b.trim_start_matches("0x"), 16))
                .collect();
            let bytes = bytes.unwrap_or_else(|e| panic!("{line:?} is no line of bytes: {e}"));
            let words = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
            match text.take() {
                Some(text) => vectors.push(Vector { words, text }),
                None => above = Some(words),
            }
        }
    }
    vectors
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

#[test]
fn every_vector_of_llvm_is_read_as_llvm_reads_it_or_is_not_in_the_tables() {
    let Some(folder) = folder() else { return };
    let (mut agreed, mut absent) = (0, 0);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(&folder) {
        let content = std::fs::read_to_string(&file).expect("a file of vectors");
        let Some(arch) = processor(&content) else { continue };
        let decoder = Decoder::new(arch);
        for Vector { words, text } in read(&content) {
            match ours(&decoder, &words) {
                Some((own, read)) if own == words && read == text => agreed += 1,
                None if is_absent(operation(&text), arch) || is_beyond_the_tables(&text) => absent += 1,
                // Several instructions, of which the first is absent.
                None if matches!(decoder.decode(&words), Err(DecodeError::Absent(name)) if is_absent(name, arch)) => {
                    absent += 1
                }
                other => {
                    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let line = format!("{arch} {words:08x?}: {text}, we read {other:?}");
                    wrong.entry(format!("{file} {}", operation(&text))).or_default().push(line);
                }
            }
        }
    }
    let listed: Vec<_> = wrong.iter().map(|(at, w)| format!("{at}, {} times: {}", w.len(), w[0])).collect();
    assert!(wrong.is_empty(), "{agreed} agree, {absent} are not in the tables:\n{}", listed.join("\n"));
    assert!(agreed > 10_000, "only {agreed} vectors in {}", folder.display());
    println!("{agreed} agree, {absent} are not in the tables");
}
