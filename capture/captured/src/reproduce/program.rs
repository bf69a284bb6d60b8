//! The text of the program.

use std::fmt::Write as _;

use logdur_capture::Dispatch;
use logdur_system::text;

use super::reach::{Piece, Reach};
use super::steps;
use super::subject::Subject;
use super::{after_file, piece_file};
use crate::dispatch::{CapturedDispatch, packet, processor};
use crate::verify::Type;

/// What is the same in every program.
const BODY: &str = include_str!("program.cpp");
/// The line of it that is replaced by how packets are given to the GPU.
const LAUNCHES: &str = "// Packets.\n";
/// With the HSA runtime.
const PACKETS: &str = include_str!("packets.cpp");
/// Where HIP makes all launches.
const NO_PACKETS: &str = "void give_packet(const Launch &, const std::vector<unsigned char> &) {}\n";

/// Builds with any compiler of C++: the program has no code for the GPU.
const MAKEFILE: &str = "\
# make; ./reproduce          ROCM=/path/to/rocm and CXX=... choose others
ROCM ?= /opt/rocm
CXX ?= c++
CXXFLAGS ?= -O1
CPPFLAGS += -I$(ROCM)/include
LDFLAGS += -L$(ROCM)/lib -Wl,-rpath,$(ROCM)/lib

reproduce: reproduce.cpp
\t$(CXX) -std=c++17 $(CPPFLAGS) $(CXXFLAGS) $< -o $@ $(LDFLAGS) -lamdhip64
";

/// The same with CMake.
const CMAKE: &str = "\
# cmake -S . -B build; cmake --build build; build/reproduce
cmake_minimum_required(VERSION 3.16)
project(reproduce LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
# HIP's own files of some versions were written for a CMake that later ones refuse.
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
list(APPEND CMAKE_PREFIX_PATH /opt/rocm)
find_package(hip REQUIRED CONFIG)
add_executable(reproduce reproduce.cpp)
target_link_libraries(reproduce PRIVATE hip::host)
";

/// The texts of `Makefile` and of `CMakeLists.txt`: one that gives packets to the GPU needs the HSA runtime, too.
pub(super) fn builds(subject: &Subject<'_>) -> [String; 2] {
    if !subject.has_packets() {
        return [MAKEFILE.to_owned(), CMAKE.to_owned()];
    }
    let with_hsa = "find_package(hip REQUIRED CONFIG)\nfind_package(hsa-runtime64 REQUIRED CONFIG)";
    [
        MAKEFILE.replace("-lamdhip64", "-lamdhip64 -lhsa-runtime64"),
        CMAKE
            .replace("find_package(hip REQUIRED CONFIG)", with_hsa)
            .replace("PRIVATE hip::host", "PRIVATE hip::host hsa-runtime64::hsa-runtime64"),
    ]
}

/// A text as a string of C++: others' names say nothing but themselves.
fn string(text: &str) -> String {
    let mut all = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => all.extend(['\\', char::from(byte)]),
            b' '..=b'~' => all.push(char::from(byte)),
            // Writing to a string cannot fail. Of three octal digits no more can follow.
            _ => _ = write!(all, "\\{byte:03o}"),
        }
    }
    all.push('"');
    all
}

/// A text in a comment, which its line ends: no backslash is its last character.
fn comment(text: &str) -> String {
    text::one_line(text).replace('\\', "/")
}

fn shape([x, y, z]: [u32; 3]) -> String {
    format!("{x}x{y}x{z}")
}

/// The letter of a type, and its bytes.
fn element(element_type: Type) -> (char, usize) {
    let letter = match element_type {
        Type::Bits(_) | Type::F16 | Type::Bf16 => 'b',
        Type::Int(_) => 'i',
        Type::Unsigned(_) => 'u',
        Type::F32 | Type::F64 => 'f',
    };
    (letter, element_type.size())
}

/// The text of a program. `called` is what a kernel is called, by its symbol.
pub(super) fn program(subject: &Subject<'_>, reach: &Reach<'_>, called: &dyn Fn(&str) -> String) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = head(&mut text, subject, reach, called);
    if subject.has_packets() {
        text.push_str("#include <hsa/hsa.h>\n#include <hsa/hsa_ext_amd.h>\n");
    }
    let _ = tables(&mut text, subject, reach);
    let _ = steps::tables(&mut text, subject, reach);
    let launches = if subject.has_packets() { PACKETS } else { NO_PACKETS };
    text + &BODY.replace(LAUNCHES, launches)
}

/// What the program is, for who opens it.
fn head(
    out: &mut String,
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    called: &dyn Fn(&str) -> String,
) -> std::fmt::Result {
    let captured = subject.captured;
    let isa = captured.agent.map_or("an unknown processor", |agent| &*agent.isa);
    let product = captured.agent.map_or("", |agent| &*agent.product);
    let emulated = if captured.agent.is_some_and(|agent| agent.emulated) { ", an emulated GPU" } else { "" };
    let capture = captured.reader.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (capture, version) = (comment(&capture), comment(&version(captured)));
    let processor = format!("{} {}{emulated}", comment(isa), comment(product));
    match subject.part {
        None => {
            let (packet, dispatch) = (captured.packet(), captured.dispatch);
            let symbol = &captured.original.kernel.name;
            let (grid, workgroup) = (shape(packet.grid_size()), shape(packet.workgroup_size().map(u32::from)));
            writeln!(
                out,
                "\
// Launches one kernel as an application did, and compares all memory that it reaches with what the application got.
//
// kernel:    {} .
// symbol:    {} .
// processor: {processor}.
// grid:      {grid} work-items in workgroups of {workgroup}, {} bytes of dynamic LDS.
// capture:   {capture} , dispatch {}, occurrence {} of the kernel; captured by {version} .",
                comment(&called(symbol)),
                comment(symbol),
                dynamic_lds(captured, dispatch),
                dispatch.id,
                dispatch.occurrence,
            )?;
        }
        Some(part) => {
            let counts = subject.counts();
            writeln!(
                out,
                "\
// Does what an application did in a stretch of its run, and compares all memory that this reaches with what the application got: {} launches of
// {} kernels, {} other steps, and what the host wrote between them, one after the other in the order in which they went to the GPU.
//
// processor: {processor}.
// capture:   {capture} , region {}, {}; captured by {version} .",
                counts.values().sum::<u64>(),
                counts.len(),
                subject.steps.len() as u64 - counts.values().sum::<u64>(),
                part.region.record.id,
                part.part.steps(),
            )?;
            for (kernel, count) in counts {
                let symbol = subject.kernels.get(kernel).map_or("", |kernel| &*kernel.original.kernel.name);
                writeln!(out, "// kernel:    {count} of {} , symbol {} .", comment(&called(symbol)), comment(symbol))?;
            }
        }
    }
    write!(
        out,
        "\
//
// HIP chooses where memory is: addresses may differ from those that the application had. Words that held addresses of captured memory
// are rewritten, {} before {noun}, {} in what is expected after {it}: fixups-before.txt and fixups-after.txt list them. README.md says which
// of them may be no addresses, and what else is not as it was.
//
// Ends with 0 and PASS, with 1 and the first elements that differ, or with 2 and an error.
// Generated by `omniprobe reproduce`; it needs HIP, and the files beside it.

#if !defined(__HIP_PLATFORM_AMD__)
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <hip/hip_runtime_api.h>
",
        reach.before.len(),
        reach.after.len(),
        noun = subject.noun(),
        it = if subject.part.is_some() { "them" } else { "it" },
    )
}

/// The version of what captured.
fn version(captured: &CapturedDispatch<'_>) -> String {
    let place = captured.dispatch.place;
    let session = captured.reader.sessions().iter().rfind(|session| session.place.offset < place.offset);
    session.map_or_else(|| "an unknown version".to_owned(), |session| session.tool_version.clone())
}

/// Bytes of LDS that the application added to those of a kernel.
pub(super) fn dynamic_lds(kernel: &CapturedDispatch<'_>, dispatch: &Dispatch) -> u32 {
    packet(dispatch).group_segment_size().saturating_sub(kernel.original.interface.group_size)
}

fn tables(out: &mut String, subject: &Subject<'_>, reach: &Reach<'_>) -> std::fmt::Result {
    let captured = subject.captured;
    out.push_str("\n#include <algorithm>\n#include <cerrno>\n#include <cstdarg>\n#include <cstddef>\n#include <cstdint>\n#include <cstdio>\n");
    out.push_str("#include <cstdlib>\n#include <cstring>\n#include <map>\n#include <string>\n#include <utility>\n#include <vector>\n\n");
    writeln!(
        out,
        "static const char PROCESSOR[] = {};",
        string(processor(captured.agent.map_or("", |agent| &agent.isa)))
    )?;
    writeln!(
        out,
        "static const uint64_t KERNARG_BYTES = {}, WRITTEN_BYTES = {};",
        reach.kernarg.len(),
        reach.writes.bytes
    )?;
    out.push_str(
        "\n// Code objects: the file, where the application had it (0: not known), bytes in memory.\n\
         struct Module {\n  const char *file;\n  uint64_t captured, size;\n};\n\
         static const std::vector<Module> MODULES = {\n",
    );
    for module in &subject.modules {
        let (base, size) = module.loaded().map_or((0, 0), |loaded| (loaded.base, loaded.size));
        writeln!(out, "    {{{}, {base:#x}, {size}}},", string(&module.file_name()))?;
    }
    out.push_str(
        "};\n\n// Kernels: the module, the symbol.\nstruct Kernel {\n  unsigned module;\n  const char *symbol;\n};\n\
         static const std::vector<Kernel> KERNELS = {\n",
    );
    for (kernel, module) in subject.kernels.iter().zip(&subject.module_of) {
        writeln!(out, "    {{{module}, {}}},", string(&kernel.original.kernel.name))?;
    }
    out.push_str(
        "};\n\nenum Kind { DEVICE, DEVICE_FINE, PINNED, REGISTERED, MANAGED, VARIABLE };\n\n\
         // Memory: the address that the application had, bytes, how it is allocated; of a managed variable its module, its symbol, and where it\n\
         // begins.\n\
         struct Allocation {\n  uint64_t captured, size;\n  Kind kind;\n  unsigned module;\n  const char *symbol;\n  uint64_t begins;\n};\n\
         static const std::vector<Allocation> ALLOCATIONS = {\n",
    );
    for (number, reached) in reach.allocations.iter().enumerate() {
        let size = reached.range.end - reached.range.start;
        let variable =
            reach.managed.iter().find_map(|managed| Some((managed, managed.at?)).filter(|(_, at)| at.0 == number));
        let (kind, module, symbol, begins) = match variable {
            Some((managed, (_, offset))) => ("VARIABLE", managed.module, string(&managed.pointer.symbol), offset),
            None => (reached.kind().row().0, 0, "nullptr".to_owned(), 0),
        };
        writeln!(out, "    {{{:#x}, {size}, {kind}, {module}, {symbol}, {begins}}},", reached.range.start)?;
    }
    out.push_str(
        "};\n\n// Variables of code objects: module, symbol, bytes, distance from where the code object begins in memory.\n\
         struct Variable {\n  unsigned module;\n  const char *symbol;\n  uint64_t size, in_code;\n};\n\
         static const std::vector<Variable> VARIABLES = {\n",
    );
    for variable in &reach.variables {
        let base =
            subject.modules.get(variable.module).and_then(|module| module.loaded()).map_or(0, |loaded| loaded.base);
        let global = variable.global;
        let in_code = global.address.wrapping_sub(base);
        writeln!(out, "    {{{}, {}, {}, {in_code}}},", variable.module, string(&global.symbol), global.size)?;
    }
    out.push_str(
        "};\n\n// Captured memory: `a` an allocation or `v` a variable, its number, offset, bytes, files before and afterwards; none\n\
         // afterwards if that was not captured.\n\
         struct Piece {\n  char place;\n  uint64_t number, offset, size;\n  const char *before, *after;\n};\n\
         static const std::vector<Piece> PIECES = {\n",
    );
    for piece in &reach.pieces {
        let (letter, number) = piece.place.row();
        let (before, after) = (string(&piece_file(piece, "before")), after_file(piece));
        let after = after.map_or_else(|| "nullptr".to_owned(), |file| string(&file));
        writeln!(out, "    {{'{letter}', {number}, {}, {}, {before}, {after}}},", piece.offset(), piece.size())?;
    }
    out.push_str(
        "};\n\n// What parts of memory are called and made of: place, number, offset, bytes, name, bytes of an element, its kind: `i`, `u`\n\
         // integers, `f` floats, `b` bits.\n\
         struct Buffer {\n  char place;\n  uint64_t number, offset, size;\n  const char *name;\n  unsigned element;\n  char kind;\n};\n\
         static const std::vector<Buffer> BUFFERS = {\n",
    );
    for buffer in &reach.buffers {
        let within = |piece: &&Piece| piece.range.start <= buffer.start && buffer.start < piece.range.end;
        let Some(piece) = reach.pieces.iter().find(within) else { continue };
        let ((letter, number), (kind, size)) = (piece.place.row(), element(buffer.element_type));
        let (offset, bytes) = (buffer.start - piece.base, buffer.end - buffer.start);
        writeln!(out, "    {{'{letter}', {number}, {offset}, {bytes}, {}, {size}, '{kind}'}},", string(&buffer.name))?;
    }
    out.push_str("};\n\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_nothing_but_strings_and_comments() {
        assert_eq!(string("a\"b\\c??/\n\u{e9}7"), r#""a\"b\\c\?\?/\012\303\2517""#);
        assert_eq!(comment("k */ int x; // \\\nint y;\\"), "k */ int x; // / int y;/");
        assert!(!comment("a\u{202e}\r\n").contains(['\u{202e}', '\r', '\n', '\\']));
    }
}
