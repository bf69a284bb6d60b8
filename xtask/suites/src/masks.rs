//! `cargo xtask masks PROCESSOR [--llvm VERSION]`: which rows of the instruction tables a processor has, as LLVM's disassembler says.
//!
//! Each row is probed with words that our decoder takes for it on a processor that has the row. LLVM reads the words for that processor
//! and for the one in question. For a processor of the tables, the answers must be the masks of the rows. For another one, the
//! command prints each mask with its rows, so that a `since` is not taken for an `only`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use amdgpu_isa::op::{Family, Op};
use amdgpu_isa::{Arch, Decoder};
use anyhow::{Context, Result, bail};

use xtask::instrument;

/// The LLVM that is asked unless another one is named: it knows processors that the tables lack.
const LLVM: &str = "22";
/// Words for each row.
const SAMPLES: usize = 16;
/// Words that are tried to find them.
const TRIES: usize = 20_000;
/// Rows whose masks are not what this LLVM says: mnemonic, processor, why.
const DIFFERENCES: &[(&str, Arch, &str)] = &[];
/// Stand behind each instruction, to see which line of output belongs to what. The first is missing if LLVM takes it for a literal.
const MARKS: [(&str, &str); 2] =
    [("s_setprio 0xd431", "0x31,0xd4,0x8f,0xbf"), ("s_setprio 0xd432", "0x32,0xd4,0x8f,0xbf")];

/// What LLVM says of one row.
struct Answer {
    op: &'static Op,
    /// On some processor of the tables that has the row; false where LLVM does not know the words even there.
    here: bool,
    /// On the processor in question.
    there: bool,
    /// What LLVM reads there instead.
    instead: Option<String>,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (processor, llvm) = match words[..] {
        [processor] => (processor, LLVM),
        [processor, "--llvm", version] => (processor, version),
        _ => bail!("masks takes a processor and --llvm VERSION, found {args:?}"),
    };
    let program = instrument::tools(instrument::version(llvm)?)?.join("llvm-mc");
    let answers = ask(&program, processor)?;
    let unknown: Vec<_> = answers.iter().filter(|answer| !answer.here).map(|answer| answer.op.name).collect();
    if !unknown.is_empty() {
        println!("LLVM {llvm} does not read on any processor of the tables: {}", unknown.join(", "));
    }
    match processor.parse::<Arch>() {
        Ok(arch) => compare(&answers, arch),
        Err(_) => {
            list(&answers, processor);
            Ok(())
        }
    }
}

/// A processor of the tables: LLVM's answers are the masks.
fn compare(answers: &[Answer], arch: Arch) -> Result<()> {
    let mut wrong: Vec<_> =
        answers.iter().filter(|answer| answer.here && answer.there != is_in(answer.op, arch)).collect();
    for (name, _, why) in DIFFERENCES.iter().filter(|(_, of, _)| *of == arch) {
        println!("{arch}: {name} differs: {why}");
        wrong.retain(|answer| answer.op.name != *name);
    }
    let wrong: Vec<_> = wrong.into_iter().map(line).collect();
    if !wrong.is_empty() {
        bail!("{arch}: the masks of {} rows are not LLVM's:\n{}", wrong.len(), wrong.join("\n"));
    }
    println!("{arch}: the masks of {} rows are LLVM's", answers.iter().filter(|answer| answer.here).count());
    Ok(())
}

/// True when a processor of the tables has the row, or one that reads the same: where the formats of numbers differ between processors, an
/// instruction has a row for each, which the words do not tell apart.
fn is_in(op: &Op, arch: Arch) -> bool {
    let read_alike = |other: &Op| (other.family, other.codes, other.name) == (op.family, op.codes, op.name);
    amdgpu_isa::rows().any(|other| other.archs.contains(arch) && read_alike(other))
}

/// Any other processor: the masks, and which of their rows it has.
fn list(answers: &[Answer], processor: &str) {
    let mut masks: BTreeMap<String, (Vec<&Answer>, Vec<&Answer>)> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| answer.here) {
        let archs: Vec<_> = Arch::ALL.into_iter().filter(|&a| is_in(answer.op, a)).map(Arch::name).collect();
        let (accepted, refused) = masks.entry(archs.join(", ")).or_default();
        if answer.there { accepted.push(answer) } else { refused.push(answer) }
    }
    for (mask, (accepted, refused)) in &masks {
        println!("{mask}: {processor} has {} rows and lacks {}", accepted.len(), refused.len());
        // The fewer are the exceptions.
        let (word, few) = if accepted.len() < refused.len() { ("has", accepted) } else { ("lacks", refused) };
        for answer in few {
            println!("  {word} {}", line(answer));
        }
    }
}

fn line(answer: &Answer) -> String {
    let Op { name, family, .. } = answer.op;
    let code = answer.op.codes.iter().flatten().next().copied().unwrap_or_default();
    let instead = answer.instead.as_ref().map(|text| format!(", LLVM reads `{text}`")).unwrap_or_default();
    format!("{name} ({family:?} {code:#x}){instead}")
}

/// Asks LLVM about every row.
fn ask(program: &Path, processor: &str) -> Result<Vec<Answer>> {
    let decoders = Arch::ALL.map(Decoder::new);
    let mut random = Random(0);
    let mut rows: Vec<(&'static Op, Vec<Vec<u32>>)> = Vec::new();
    for op in amdgpu_isa::rows() {
        let decoder = decoders.iter().rev().find(|d| op.archs.contains(d.arch())).context("a row of no processor")?;
        let found = samples(op, decoder, &mut random);
        if found.is_empty() {
            bail!("no words were found that are {} on {}", op.name, decoder.arch());
        }
        rows.push((op, found));
    }
    let all: Vec<_> = rows.iter().flat_map(|(_, words)| words.clone()).collect();
    let there = disassemble(program, processor, &all)?;
    let mut here = Vec::new();
    for arch in Arch::ALL {
        here.push((arch, disassemble(program, arch.name(), &all)?));
    }
    let (mut answers, mut at) = (Vec::new(), 0);
    for (op, words) in rows {
        let range = at..at + words.len();
        at = range.end;
        let is = |text: &String| operation(text) == operation(op.name);
        let of_mask = here.iter().filter(|(arch, _)| op.archs.contains(*arch));
        let there = &there[range.clone()];
        answers.push(Answer {
            op,
            here: of_mask.flat_map(|(_, texts)| &texts[range.clone()]).flatten().any(is),
            there: there.iter().flatten().any(is),
            instead: there.iter().flatten().find(|text| !is(text)).cloned(),
        });
    }
    Ok(answers)
}

/// Words that a decoder takes for a row.
fn samples(op: &Op, decoder: &Decoder, random: &mut Random) -> Vec<Vec<u32>> {
    let Some(code) = op.code(decoder.arch().row().generation) else { return Vec::new() };
    let (first, mask) = encoding(op.family, code.into());
    let mut found = Vec::new();
    for attempt in 0..TRIES {
        // Few bits at first: encodings have many reserved ones.
        let mut word = || (0..attempt % 4).fold(if attempt == 0 { 0 } else { random.word() }, |w, _| w & random.word());
        let mut words = match op.family {
            // Scales in registers.
            Family::Vop3px2 => vec![0xd3ac_0000, 0x0002_0100],
            _ => Vec::new(),
        };
        words.extend([first | word() & !mask, word()]);
        let Ok(inst) = decoder.decode(&words) else { continue };
        if std::ptr::eq(inst.op, op) {
            found.push(words[..usize::from(inst.size) / 4].to_vec());
            if found.len() == SAMPLES {
                break;
            }
        }
    }
    found
}

/// The first word of an opcode, and the bits of it that are fixed. Source: Vega ISA manual, "Microcode Formats".
const fn encoding(family: Family, code: u32) -> (u32, u32) {
    match family {
        Family::Sop2 => (0b10 << 30 | code << 23, 0xff80_0000),
        Family::Sopk => (0b1011 << 28 | code << 23, 0xff80_0000),
        Family::Sop1 => (0b1_0111_1101 << 23 | code << 8, 0xff80_ff00),
        Family::Sopc => (0b1_0111_1110 << 23 | code << 16, 0xffff_0000),
        Family::Sopp => (0b1_0111_1111 << 23 | code << 16, 0xffff_0000),
        Family::Smem => (0b11_0000 << 26 | code << 18, 0xfffc_0000),
        Family::Vop2 => (code << 25, 0xfe00_0000),
        Family::Vop1 => (0b11_1111 << 25 | code << 9, 0xfe01_fe00),
        Family::Vopc => (0b11_1110 << 25 | code << 17, 0xfffe_0000),
        Family::Vop3 => (0b11_0100 << 26 | code << 16, 0xffff_0000),
        Family::Vop3p => (0b1_1010_0111 << 23 | code << 16, 0xffff_0000),
        // ABID says that there are scales.
        Family::Vop3px2 => (0b1_1010_0111 << 23 | code << 16 | 1 << 11, 0xffff_7800),
        Family::Ds => (0b11_0110 << 26 | code << 17, 0xfdfe_0000),
        Family::Flat => (0b11_0111 << 26 | code << 18, 0xfdfc_c000),
        Family::Scratch => (0b11_0111 << 26 | 1 << 14 | code << 18, 0xfdfc_c000),
        Family::Global => (0b11_0111 << 26 | 2 << 14 | code << 18, 0xfdfc_c000),
        Family::Mubuf => (0b11_1000 << 26 | code << 18, 0xfdfc_0000),
    }
}

/// What LLVM reads in each instruction; `None` where it is none, or not all of it.
fn disassemble(program: &Path, processor: &str, instructions: &[Vec<u32>]) -> Result<Vec<Option<String>>> {
    let mut input = String::new();
    for words in instructions {
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:#x}")).collect();
        input += &format!("{}\n{}\n{}\n", bytes.join(","), MARKS[0].1, MARKS[1].1);
    }
    let mut command = Command::new(program);
    command.args(["--disassemble", "--show-encoding", "--triple=amdgcn-amd-amdhsa"]).arg(format!("--mcpu={processor}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    })?;
    if String::from_utf8_lossy(&output.stderr).contains("is not a recognized processor") {
        bail!("{} does not know {processor}", program.display());
    }
    let (mut found, mut current) = (Vec::new(), Vec::<String>::new());
    let mut asked = instructions.iter();
    for line in String::from_utf8_lossy(&output.stdout).lines().map(str::trim) {
        if line.starts_with(MARKS[1].0) {
            // What LLVM has doubts about is in a C comment.
            let words = asked.next().map_or(0, Vec::len);
            found.push(match &current[..] {
                [one, mark] if mark.starts_with(MARKS[0].0) && !one.contains("/*") => whole(one, words),
                _ => None,
            });
            current.clear();
        } else if !line.is_empty() && !line.starts_with('.') {
            current.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    if found.len() != instructions.len() {
        bail!("{} read {} of {} instructions", program.display(), found.len(), instructions.len());
    }
    Ok(found)
}

/// The text before its encoding, if that has so many words: LLVM goes on behind a word that it does not know.
fn whole(line: &str, words: usize) -> Option<String> {
    let (text, encoding) = line.split_once(" ; encoding: ")?;
    (encoding.matches("0x").count() == 4 * words).then(|| text.to_owned())
}

/// The mnemonic without the suffix of its form.
fn operation(text: &str) -> &str {
    let name = text.split(' ').next().unwrap_or_default();
    ["_e64_dpp", "_e32", "_e64", "_sdwa", "_dpp"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// A generator (SplitMix64, by Vigna): the same numbers in each run.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as u32
    }
}
