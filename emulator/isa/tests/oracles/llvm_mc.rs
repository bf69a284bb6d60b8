//! LLVM's disassembler as a program: instructions in, text out.

use std::io::Write;
use std::process::{Command, Stdio};

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::{Arch, Decoder};

/// The programs that may be LLVM's; the first is the one that everything was compared with.
const PROGRAMS: &[&str] = &["llvm-mc-22", "llvm-mc"];

/// Runs LLVM's assembler or disassembler; what it cannot read is missing in its output.
fn run(arch: Arch, options: &[&str], input: &str) -> String {
    for program in PROGRAMS {
        let child = Command::new(program)
            .arg("-triple=amdgcn-amd-amdhsa")
            .arg(format!("-mcpu={arch}"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { continue };
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input.as_bytes()).expect("llvm-mc reads its input"));
            child.wait_with_output().expect("llvm-mc ends")
        });
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("is not a recognized processor"), "{program} does not know {arch}");
        assert!(output.status.code().is_some(), "{program} crashed:\n{errors}");
        return String::from_utf8_lossy(&output.stdout).into_owned();
    }
    panic!("none of {PROGRAMS:?} is in PATH: install the package llvm-22");
}

/// Words as LLVM writes them.
pub(crate) fn bytes(words: &[u32]) -> String {
    let bytes: Vec<_> = words.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:#04x}")).collect();
    format!("[{}]", bytes.join(","))
}

/// An instruction that stands behind each other one, to see which line of output belongs to what.
const MARK: (&str, &str) = ("s_setprio 0xd431", "[0x31,0xd4,0x8f,0xbf]");

/// The output between marks, where that is one line.
fn between_marks(output: &str, expected: usize) -> Vec<Option<&str>> {
    let mut found = Vec::with_capacity(expected);
    let mut current = Vec::new();
    for line in output.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('.')) {
        if line.starts_with(MARK.0) {
            found.push(if current.len() == 1 { Some(current[0]) } else { None });
            current.clear();
        } else {
            current.push(line);
        }
    }
    assert_eq!(found.len(), expected, "llvm-mc printed one mark for each instruction");
    found
}

/// What LLVM reads in each instruction, `None` where it reads nothing. An instruction must be all that is read.
pub(crate) fn disassemble(arch: Arch, instructions: &[Vec<u32>]) -> Vec<Option<String>> {
    let input: String = instructions.iter().map(|words| format!("{}\n{}\n", bytes(words), MARK.1)).collect();
    let output = run(arch, &["-disassemble"], &input);
    // What LLVM has doubts about is in a C comment.
    let sure = |line: &&str| !line.contains("/*");
    between_marks(&output, instructions.len()).into_iter().map(|line| line.filter(sure).map(normal)).collect()
}

/// The encoding of each text, as [`bytes`] writes it; `None` where there is none.
pub(crate) fn assemble(arch: Arch, texts: &[String]) -> Vec<Option<String>> {
    let input: String = texts.iter().map(|text| format!("{text}\n{}\n", MARK.0)).collect();
    let output = run(arch, &["-show-encoding"], &input);
    let encoding = |line: &str| line.split_once("; encoding: ").map(|(_, encoding)| encoding.to_owned());
    between_marks(&output, texts.len()).into_iter().map(|line| line.and_then(encoding)).collect()
}

/// Text with single spaces and without comments; numbers as the newer and the older LLVM agree on.
pub(crate) fn normal(line: &str) -> String {
    let code = line.split(" ;").next().unwrap_or(line).split(" //").next().unwrap_or(line);
    let words: Vec<&str> = code.split_whitespace().collect();
    words.join(" ")
}

/// What we read at the beginning of `words`: the instruction's own words and its text.
pub(crate) fn ours(decoder: &Decoder, words: &[u32]) -> Option<(Vec<u32>, String)> {
    let inst = decoder.decode(words).ok()?;
    let text = Disassembly { inst: &inst, arch: decoder.arch() }.to_string();
    Some((words[..usize::from(inst.size) / 4].to_vec(), normal(&text)))
}
