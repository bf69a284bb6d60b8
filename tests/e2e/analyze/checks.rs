//! Checks of captured dispatches: each fires where something is wrong, and nowhere else.

use std::collections::BTreeSet;

use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::Family;
use amdgpu_isa::uses::{Registers, Set, Uses};
use serde_json::Value;

use crate::analyze::instructions::{analyzed, captured, captured_on, each_kernel, found, of};
use crate::support::harness::{archs, on_hardware};

#[test]
fn an_access_behind_a_part_of_a_pool_is_found_when_the_part_is_given() {
    let (_kept, file) = captured("checked", "-O3 -g");
    let check = |options: &[&str]| {
        let all: Vec<&str> = ["-k", "pooled", "--check", "memory"].iter().chain(options).copied().collect();
        analyzed(&file, &all)
    };
    let (status, all, said) = check(&[]);
    assert_eq!((status, found(&all[0], "memory").len()), (0, 0), "{said}");
    for bounds in [&["--bounds", "arg0=256", "--bounds", "arg1=256"][..], &["--bounds", "arg0+0=0x100"]] {
        let (status, all, said) = check(bounds);
        assert_eq!(status, 6, "{said}");
        let found = &all[0]["findings"].as_array().unwrap()[..];
        let [finding] = found else { panic!("{found:?}") };
        assert_eq!(finding["what"], "memory is read outside of all buffers");
        assert!(finding["instruction"]["source"]["text"].as_str().unwrap().contains("pooled load"), "{finding}");
        assert_eq!((&finding["place"]["lane"], &finding["count"]), (&63.into(), &1.into()));
        assert!(finding["memory"].as_str().unwrap().ends_with("+0x100"), "{finding}");
        assert_eq!(finding["detail"], "0 bytes behind the end of a buffer");
    }
    // One element more is enough for it.
    assert_eq!(check(&["--bounds", "arg0=260", "--bounds", "arg1=256"]).0, 0);
    for (bounds, expected) in [
        ("input=256", "an address, found input"),
        ("arg0=1000000000", "expected bytes of the allocation at 0x"),
        ("arg0-4=8", "expected bytes of the allocation at 0x"),
        ("0x10=4", "expected memory of a captured allocation, found 0x10, which is in none"),
        ("arg0=none", "expected NAME=BYTES or NAME+OFFSET=BYTES"),
    ] {
        let (status, _, said) = check(&["--bounds", bounds]);
        assert!(status != 0 && said.contains(expected), "{bounds}: {status} {said}");
    }
    let (status, _, said) = analyzed(&file, &["-k", "pooled", "--check", "wait", "--bounds", "arg0=256"]);
    assert!(status == 1 && said.contains("--check memory"), "{status} {said}");
}

#[test]
fn atomics_of_a_byte_at_the_end_of_an_allocation_are_inside_and_reads_of_the_dword_are_not() {
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "checked", "-O3 -g");
        let (status, all, said) = analyzed(&file, &["-k", "byte_atomics|over_the_end", "--check", "memory"]);
        assert_eq!(status, 6, "{said}");
        assert_eq!(found(of(&all, "byte_atomics"), "memory"), [], "{arch}");
        // The compiler makes a loop of a load and a compare-and-swap of one of them.
        let (_, objects, _) = analyzed(&file, &["-k", "byte_atomics"]);
        let texts: Vec<&str> =
            objects[0]["instructions"].as_array().unwrap().iter().map(|inst| inst["text"].as_str().unwrap()).collect();
        assert!(texts.iter().any(|text| text.contains("_atomic_cmpswap ")), "{arch}: {texts:?}");
        let [(what, text)] = &found(of(&all, "over_the_end"), "memory")[..] else { panic!("{arch}: {all:?}") };
        assert!(
            what.starts_with("memory is read outside") && text.contains("read over the end"),
            "{arch}: {what} {text}"
        );
    }
}

#[test]
fn copied_padding_and_bit_fields_are_no_findings_and_what_decides_by_an_unwritten_byte_is() {
    let (_kept, file) = captured("padded", "-O3 -g");
    let (status, all, said) = analyzed(&file, &["-k", "right_|wrong_", "--check", "init"]);
    assert_eq!((status, all.len()), (6, 21), "{said}");
    for object in &all {
        let kernel = object["kernel"].as_str().unwrap();
        let found = found(object, "init");
        if kernel.contains("right_") {
            assert_eq!(found, [], "{kernel}");
        } else {
            let decides = if kernel.contains("wrong_branch") { "the active lanes depend" } else { "stored to memory" };
            assert!(found.iter().any(|(what, _)| what.contains(decides)), "{kernel}: {found:?}");
        }
    }
}

#[test]
fn an_instruction_that_follows_too_early_is_found_and_one_wait_state_more_is_enough() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "checked", "-O3 -g");
        let (status, all, said) = analyzed(&file, &["-k", "_(early|late)", "--check", "hazard"]);
        assert_eq!(status, 6, "{said}");
        let mut pairs = 0;
        for object in &all {
            let kernel = object["kernel"].as_str().unwrap();
            let found = object["findings"].as_array().unwrap();
            if kernel.contains("_late") {
                assert!(found.is_empty(), "{arch} {kernel}: {found:?}");
                continue;
            }
            pairs += 1;
            let [finding] = &found[..] else { panic!("{arch} {kernel}: {found:?}") };
            assert!(finding["detail"].as_str().unwrap().ends_with("s_nop 0 is missing"), "{arch} {kernel}: {finding}");
        }
        let expected = match &*arch {
            "gfx90a" => 15,
            "gfx942" => 14,
            "gfx950" => 19,
            "gfx908" => 11,
            _ => 8,
        };
        assert_eq!(pairs, expected, "{arch}");
    }
}

/// The `s_nop`s of a kernel that are executed and can be moved behind the instruction that follows: their numbers.
fn nops(code: &[(u64, usize, u32, Inst)], is_executed: impl Fn(u64) -> bool) -> Vec<usize> {
    let targets: BTreeSet<u64> = code.iter().filter_map(|(address, .., inst)| inst.target(*address)).collect();
    let can_move = |pair: &[(u64, usize, u32, Inst)]| {
        let (at, .., nop) = &pair[0];
        let (next, .., inst) = &pair[1];
        let stays =
            inst.op.name == "s_nop" || inst.target(*next).is_some() || inst.is_indirect() || !inst.falls_through();
        nop.op.name == "s_nop" && !stays && !targets.contains(next) && is_executed(*at)
    };
    code.windows(2).enumerate().filter(|(_, pair)| can_move(pair)).map(|(n, _)| n).collect()
}

/// True where nothing that hardware leaves to programs is before an instruction: no vector arithmetic, and no scalar arithmetic on M0,
/// writes what it uses within the wait states of any rule; matrix instructions are not looked at. `nop` is the `s_nop` in front of it.
fn is_needless(code: &[(u64, usize, u32, Inst)], nop: usize) -> bool {
    let registers = |set: &Set| -> BTreeSet<u32> {
        let of = |r: &Registers| (0..r.count).map(move |n| u32::from(r.first.0) + n).collect::<Vec<_>>();
        set.ranges().iter().flat_map(of).collect()
    };
    let next = &code[nop + 1].3;
    let uses = Uses::of(next);
    let mut used = &registers(&uses.reads) | &registers(&uses.writes);
    // For memory, hardware waits itself for vector registers that plain arithmetic writes. So it does where lanes are written one after
    // another: LLVM spills a pair of scalar registers so, and takes the first write for one of the pair itself.
    let writes_lane = next.op.name.starts_with("v_writelane");
    let is_memory =
        matches!(code[nop + 1].3.op.family, Family::Global | Family::Flat | Family::Scratch | Family::Mubuf);
    if is_memory || writes_lane {
        used.retain(|register| *register < 128);
    }
    // A lane that a constant chooses gets a scalar register after two.
    let is_data = |register: &u32| *register < 102;
    let has_one = used.iter().filter(|register| is_data(register)).count() == 1;
    let of_scalars = |register: &u32| if writes_lane && has_one && is_data(register) { 2 } else { 5 };
    // Instructions that a wave may come from, and the wait states that follow them, on all ways back.
    let (mut open, mut seen) = (vec![(nop, 0)], BTreeSet::new());
    while let Some((at, states)) = open.pop() {
        let branches = (0..code.len()).filter(|n| code[*n].3.target(code[*n].0) == Some(code[at].0));
        let previous = at.checked_sub(1).filter(|n| code[*n].3.falls_through());
        let before: Vec<usize> = branches.chain(previous).collect();
        if before.is_empty() && at > 0 {
            // Only an indirect branch leads here.
            return false;
        }
        for n in before {
            let inst = &code[n].3;
            let matrix = inst.op.is_matrix() || inst.op.name.starts_with("v_accvgpr");
            // Of vector registers, rules ask for two of DPP and matrix instructions, and else for one.
            let near = if next.dpp().is_some() || next.op.is_matrix() { 2 } else { 1 };
            let meets = |register: &u32| {
                used.contains(register) && states < if *register < 128 { of_scalars(register) } else { near }
            };
            let writes = inst.op.name.starts_with("v_") && registers(&Uses::of(inst).writes).iter().any(meets);
            if matrix || writes || inst.op.name.starts_with("s_setreg") {
                return false;
            }
            let states = states + if inst.op.name == "s_nop" { (inst.imm as u32 & 15) + 1 } else { 1 };
            if states < 5 && seen.insert((n, states)) {
                open.push((n, states));
            }
        }
    }
    true
}

/// Programs in which LLVM inserts wait states.
const WITH_NOPS: &[&str] = &["matrices", "lanes", "local_memory", "halves", "primitives"];

#[test]
fn wait_states_that_llvm_inserts_are_found_when_they_are_moved_behind_the_instruction_that_needs_them() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (mut moved, mut needless) = (0, 0);
        for program in WITH_NOPS {
            each_kernel(program, "-O3", &arch, "hazard", |kernel| {
                let code = &kernel.code;
                let all = kernel.analysed["instructions"].as_array().unwrap();
                let executed: BTreeSet<u64> = all.iter().map(|i| i["address"].as_u64().unwrap()).collect();
                let nops = nops(code, |address| executed.contains(&address));
                // One that is moved is in front of the next but one: only every other is moved at a time.
                for round in 0..2 {
                    let chosen: Vec<usize> = nops.iter().copied().skip(round).step_by(2).collect();
                    if chosen.is_empty() {
                        continue;
                    }
                    let mut mutant = kernel.bytes.clone();
                    for n in &chosen {
                        let (offset, size) = (code[*n].1, usize::from(code[n + 1].3.size));
                        mutant.copy_within(offset + 4..offset + 4 + size, offset);
                        mutant[offset + size..offset + size + 4].copy_from_slice(&code[*n].2.to_le_bytes());
                    }
                    let found = kernel.found_in(&mutant, "hazard");
                    for n in chosen {
                        let (address, inst) = (code[n].0, code[n + 1].3.op.name);
                        moved += 1;
                        if !found.contains(&address) {
                            // LLVM waits behind loads and in front of DPP, too, and cuts groups of loads where they may be repeated.
                            assert!(is_needless(code, n), "{arch}, {program}, {} {address:#x}: {inst}", kernel.symbol);
                            needless += 1;
                        }
                    }
                }
            });
        }
        println!("{arch}: {moved} s_nop moved, {} found, {needless} that no rule asks for", moved - needless);
        assert!(moved - needless > 15, "{arch}: {moved} {needless}");
    }
}

#[test]
fn loops_that_exchange_values_in_lds_are_no_races_where_a_processor_has_no_atomic_of_their_own() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "atomics", "-O3");
        let (status, all, said) = analyzed(&file, &["-k", "float_sums", "--check", "all"]);
        assert!(status == 0 && !all.is_empty(), "{arch}: {status} {said} {all:?}");
    }
}

/// Of each kernel of `checked.hip` that is looked at: what `race` finds, by its words, the line and the number of times; of how many
/// accesses it says that they were not judged.
fn races(all: &[Value], kernel: &str) -> (Vec<(String, String, u64)>, u64) {
    let object = of(all, kernel);
    let about = |f: &Value| {
        let text = f["instruction"]["source"]["text"].as_str().unwrap_or_default().to_owned();
        (f["what"].as_str().unwrap().to_owned(), text, f["count"].as_u64().unwrap())
    };
    let found = object["findings"].as_array().unwrap().iter().map(about).collect();
    (found, object["race"]["not_judged"].as_u64().unwrap())
}

#[test]
fn workgroups_that_use_memory_that_others_write_are_found_and_those_in_an_order_or_with_atomics_are_not() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "checked", "-O3 -g");
        let (status, all, said) =
            analyzed(&file, &["-k", "neighbours|one_|own_|first_|last_block|histogram", "--check", "race"]);
        assert_eq!(status, 6, "{said}");
        let is_read = |what: &str| what.starts_with("memory is read that another workgroup writes");
        let is_written = |what: &str| what.starts_with("memory is written by two workgroups");

        // Four workgroups read each 64 words of the next one.
        let (found, _) = races(&all, "neighbours");
        let [(what, text, 256)] = &found[..] else { panic!("{arch}: {found:?}") };
        assert!(is_read(what) && text.contains("read of a neighbour"), "{arch}: {found:?}");
        let finding = &of(&all, "neighbours")["findings"][0];
        // Workgroup 0 reads what workgroup 1 writes: lane 0 of wave 0 both, 64 words from the beginning of the buffer.
        assert_eq!(finding["place"]["workgroup"], serde_json::json!([0, 0, 0]), "{arch}: {finding}");
        assert_eq!(finding["other"]["workgroup"], serde_json::json!([1, 0, 0]), "{arch}: {finding}");
        assert_eq!((&finding["place"]["lane"], &finding["other"]["lane"]), (&0.into(), &0.into()));
        assert!(finding["memory"].as_str().unwrap().ends_with("+0x100"), "{arch}: {finding}");
        assert!(finding["other"]["instruction"]["text"].as_str().unwrap().contains("store"), "{arch}: {finding}");

        for (kernel, text) in [("one_word", "write of one word"), ("first_halves", "write of one half")] {
            let (found, _) = races(&all, kernel);
            let [(what, line, 1)] = &found[..] else { panic!("{arch}: {found:?}") };
            assert!(is_written(what) && line.contains(text), "{arch}: {found:?}");
        }
        let (found, _) = races(&all, "plain_histogram");
        assert!(
            found.iter().any(|(what, ..)| is_read(what)) && found.iter().all(|f| f.1.contains("plain increment")),
            "{arch}: {found:?}"
        );

        for kernel in
            ["one_value", "one_counter", "own_bytes", "own_halves", "own_tiles", "atomic_histogram", "last_block"]
        {
            let (found, not_judged) = races(&all, kernel);
            assert_eq!((found, not_judged), (Vec::new(), 0), "{arch}: {kernel}");
        }
    }
}

#[test]
fn stores_into_lds_by_two_waves_are_compared_byte_by_byte_and_none_is_forgotten() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "checked", "-O3 -g");
        let (status, all, said) = analyzed(&file, &["-k", "same_|other_|different_|stored_again", "--check", "race"]);
        assert_eq!(status, 6, "{said}");
        for kernel in ["same_bytes", "same_halves", "other_bytes"] {
            assert_eq!(races(&all, kernel).0, [], "{arch}: {kernel}");
        }
        // 64 bytes and 64 halves, counted in dwords.
        for (kernel, dwords) in [("different_bytes", 16), ("different_halves", 32)] {
            let (found, _) = races(&all, kernel);
            let [(what, text, count)] = &found[..] else { panic!("{arch} {kernel}: {found:?}") };
            assert_eq!(*count, dwords, "{arch} {kernel}: {found:?}");
            assert!(
                what.starts_with("LDS is written by two waves") && text.contains("store by two"),
                "{arch} {kernel}: {found:?}"
            );
        }
        // Whichever wave stores last, 64 words are stored differently.
        let (found, _) = races(&all, "stored_again");
        assert!(
            found.iter().any(|(what, _, count)| what.starts_with("LDS is written by two waves") && *count == 64),
            "{arch}: {found:?}"
        );
    }
}
