//! Random words: the instructions that we read are those that LLVM reads.

use std::collections::{BTreeMap, HashSet};

use amdgpu_isa::coverage::is_absent;
use amdgpu_isa::decode::DecodeError;
use amdgpu_isa::{Arch, Decoder};

use crate::llvm_mc::{assemble, bytes, disassemble, ours};
use crate::seeded::{Seeded, crashes_llvm, has_small_literal, words};

/// How many words each processor gets.
fn count() -> usize {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { 600_000 } else { 60_000 }
}

/// Mnemonics without the suffix of their form.
pub(crate) fn operation(text: &str) -> &str {
    let name = text.split(' ').next().unwrap_or_default();
    ["_e32", "_e64", "_sdwa", "_dpp"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// What is in the tables only in part, and refused where it goes beyond them: texture-fault codes, LDS as an operand,
/// saturation of integer operations that have none in their other forms, a NOP that reads other lanes, formatted loads into LDS.
pub(crate) fn is_beyond_the_tables(text: &str) -> bool {
    text.ends_with(" tfe")
        || text.contains("src_lds_direct")
        || text.contains("_sdwa") && text.contains(" clamp")
        || text.starts_with("v_nop")
        || text.starts_with("buffer_load_format_") && text.ends_with(" lds")
        // LLVM has modifiers where the operation has no float.
        || text.contains("sext(") && !text.contains("_sdwa")
        || text.starts_with("v_frexp_exp") && text.contains("_e64")
        || text.starts_with("v_pk_fmac_f16_sdwa")
        // Bytes have no sign in the place of a single's.
        || text.starts_with("v_cvt_scalef32_") && is_widened_with_modifiers(text)
        // It chooses parts of what has none.
        || text.starts_with("v_alignb") && text.contains("op_sel")
        || has_no_format(text)
}

/// True for a product of matrices in a format that has no meaning.
fn has_no_format(text: &str) -> bool {
    let named = |field: &str| (5..8).any(|format| text.contains(&format!(" {field}:{format}")));
    operation(text).ends_with("_f8f6f4") && (named("cbsz") || named("blgp"))
}

/// True for a conversion of codes of four and eight bits, whose register LLVM gives the modifiers of a single.
fn is_widened_with_modifiers(text: &str) -> bool {
    let from = ["fp8", "bf8", "fp4"].iter().any(|format| operation(text).ends_with(format));
    from && text.split(", ").nth(1).is_some_and(|source| source.starts_with(['-', '|']) || source.starts_with("neg("))
}

/// What LLVM 22 lacks: packed sums in memory with a scalar base and accumulation registers; factors in the last registers, of which it reads
/// eight before it finds that a format needs fewer.
pub(crate) fn llvm_lacks(text: &str) -> bool {
    let is_last = ["[250:", "[252:"].iter().any(|first| text.contains(first));
    text.starts_with("global_atomic_pk_add_") && text.contains(" a") || operation(text).ends_with("_f8f6f4") && is_last
}

#[test]
fn llvm_and_we_read_the_same_instructions_in_random_words() {
    let mut report = Vec::new();
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let known: HashSet<&str> = amdgpu_isa::rows().filter(|op| op.archs.contains(arch)).map(|op| op.name).collect();
        let mut random = Seeded(arch as u64);
        let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut read = 0;
        for _ in 0..count() / 20_000 {
            let words: Vec<[u32; 2]> = (0..20_000)
                .map(|_| words(&mut random))
                .filter(|w| !crashes_llvm(*w) && !has_small_literal(*w))
                .collect();
            let ours: Vec<_> = words.iter().map(|w| ours(&decoder, w)).collect();
            let instructions: Vec<Vec<u32>> =
                ours.iter().zip(&words).map(|(o, w)| o.as_ref().map_or(w.to_vec(), |(own, _)| own.clone())).collect();
            let theirs = disassemble(arch, &instructions);
            read += ours.iter().flatten().count();
            let mut refused = Vec::new();
            for ((words, ours), theirs) in instructions.iter().zip(ours).zip(theirs) {
                match (ours.map(|(_, text)| text), theirs) {
                    (Some(text), None) if llvm_lacks(&text) => {}
                    (Some(text), theirs) if theirs.as_ref() != Some(&text) => {
                        let line = format!("{words:08x?}: {text}, LLVM reads {theirs:?}");
                        wrong.entry(operation(&text).to_owned()).or_default().push(line);
                    }
                    // What the tables lack must be refused.
                    (None, Some(text)) if known.contains(operation(&text)) => refused.push((words, text)),
                    // And the coverage page says that they lack it.
                    (None, Some(text)) if !is_absent(operation(&text), arch) => {
                        let line = format!("{words:08x?}: {text} is neither in the tables nor on their page");
                        wrong.entry(operation(&text).to_owned()).or_default().push(line);
                    }
                    // Whose opcodes have the names that LLVM has for them.
                    (None, Some(text)) => {
                        let why = decoder.decode(words).err();
                        let named = matches!(why, Some(DecodeError::Absent(name)) if name == operation(&text));
                        // What is refused for its form, operands or bits is in the tables, or has a name by its opcode.
                        if !named
                            && matches!(
                                why,
                                Some(DecodeError::Absent(_) | DecodeError::Opcode(..) | DecodeError::Encoding)
                            )
                        {
                            let line = format!("{words:08x?}: {text} is refused as {why:?}");
                            wrong.entry(operation(&text).to_owned()).or_default().push(line);
                        }
                    }
                    _ => {}
                }
            }
            // What they have may be refused only if bits are set that have no meaning: then LLVM makes other words.
            let texts: Vec<String> = refused.iter().map(|(_, text)| text.clone()).collect();
            for ((words, text), encoding) in refused.into_iter().zip(assemble(arch, &texts)) {
                if encoding == Some(bytes(words)) && !is_beyond_the_tables(&text) {
                    let line = format!("{words:08x?}: refused, LLVM reads {text}");
                    wrong.entry(operation(&text).to_owned()).or_default().push(line);
                }
            }
        }
        assert!(read > count() / 10, "{arch}: only {read} of {} words were instructions", count());
        let listed: Vec<_> = wrong.values().map(|w| format!("{} times: {}", w.len(), w[0])).collect();
        if !wrong.is_empty() {
            report.push(format!("{arch}, {read} instructions:\n{}", listed.join("\n")));
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// Compilers set hints in cache instructions that the assembler has no words for.
#[test]
fn hints_of_cache_instructions_are_read_where_llvm_reads_them() {
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let caches = amdgpu_isa::rows().filter(|op| op.archs.contains(arch) && op.name.starts_with("buffer_"));
        let caches = caches.filter(|op| ["wb", "inv"].iter().any(|kind| op.name["buffer_".len()..].starts_with(kind)));
        let hints = [14, 15, 17].map(|bit| 1 << bit);
        let words: Vec<[u32; 2]> = caches
            .flat_map(|op| {
                hints.map(|hint| {
                    [0b11_1000 << 26 | u32::from(op.code(arch.row().generation).expect("a number")) << 18 | hint, 0]
                })
            })
            .collect();
        assert!(!words.is_empty(), "{arch} has no cache instructions");
        let theirs = disassemble(arch, &words.iter().map(|w| w.to_vec()).collect::<Vec<_>>());
        for (words, theirs) in words.iter().zip(theirs) {
            let ours = ours(&decoder, words).map(|(_, text)| text);
            assert_eq!(ours, theirs, "{arch}, {words:08x?}");
        }
    }
}

#[test]
fn graphics_instructions_are_refused_by_the_names_that_llvm_has_for_them() {
    // Prefix, place of the opcode, opcodes, bits that some need: images, typed buffers, interpolation, export.
    let families = [
        (0b11_1100, 18, 128, vec![0x100, 0xf00]),
        (0b11_1010, 15, 16, vec![3 << 19]),
        (0b11_0101, 16, 4, vec![0]),
        (0b11_0001, 18, 1, vec![0xf]),
    ];
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        for (prefix, shift, opcodes, others) in &families {
            for more in others {
                let words: Vec<Vec<u32>> =
                    (0..*opcodes).map(|code| vec![prefix << 26 | code << shift | more, 0x8001_0204]).collect();
                // Interpolation is one word.
                let given: Vec<Vec<u32>> =
                    words.iter().map(|w| if *prefix == 0b11_0101 { w[..1].to_vec() } else { w.clone() }).collect();
                for (words, text) in words.iter().zip(disassemble(arch, &given)) {
                    let Some(text) = text else { continue };
                    let named = match decoder.decode(words) {
                        Err(DecodeError::Absent(name)) => name,
                        _ => "no name",
                    };
                    assert_eq!(named, operation(&text), "{arch}, {words:08x?}: {text}");
                }
            }
        }
    }
}
