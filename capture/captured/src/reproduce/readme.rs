//! The README beside the program.

use std::fmt::Write as _;

use logdur_system::text;

use super::fixups::{Aim, Fixup, Place, Sure};
use super::program::{dynamic_lds, kind};
use super::reach::Reach;
use crate::dispatch::{CapturedDispatch, processor};

/// Words that may be no addresses and are listed; the others are counted.
const LISTED: usize = 32;

/// A text between backticks.
fn code(text: &str) -> String {
    format!("`{}`", text::one_line(text).replace('`', "'"))
}

/// The text.
pub(super) fn readme(captured: &CapturedDispatch<'_>, reach: &Reach<'_>, kernel: &str, doubts: &[String]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, captured, reach, kernel, doubts);
    out
}

fn write(
    out: &mut String,
    captured: &CapturedDispatch<'_>,
    reach: &Reach<'_>,
    kernel: &str,
    doubts: &[String],
) -> std::fmt::Result {
    let packet = captured.packet();
    let processor = processor(captured.agent.map_or("", |agent| &agent.isa));
    writeln!(out, "# One dispatch of {}\n", code(kernel))?;
    writeln!(
        out,
        "This folder is a HIP program without the application: it launches the kernel with the captured arguments and memory, and compares\n\
         all memory that the kernel reaches with what the application got. It needs HIP and a GPU like {}. It has no code for the GPU of\n\
         its own: any compiler of C++17 builds it.\n",
        code(processor)
    )?;
    writeln!(
        out,
        "```sh\nmake                                   # ROCM=/usr if ROCm is not in /opt/rocm\n./reproduce                            # or: \
         cmake -S . -B build && cmake --build build && build/reproduce\n```\n"
    )?;
    writeln!(
        out,
        "It prints PASS and ends with 0, or prints the first elements that differ and ends with 1; an error is 2.\n\n\
         The files have memory of the application: share them like that.\n"
    )?;
    writeln!(out, "| | |\n|---|---|")?;
    writeln!(out, "| kernel | {} |", code(&captured.original.kernel.name))?;
    writeln!(out, "| grid, in work-items | {:?} |", packet.grid_size())?;
    writeln!(out, "| workgroup | {:?} |", packet.workgroup_size())?;
    writeln!(out, "| dynamic LDS, in bytes | {} |", dynamic_lds(captured))?;
    writeln!(
        out,
        "| dispatch | {}, occurrence {} of the kernel |\n",
        captured.dispatch.id, captured.dispatch.occurrence
    )?;
    writeln!(out, "## Memory\n\n| allocation | captured address | bytes | kind |\n|---|---|---|---|")?;
    for (number, reached) in reach.allocations.iter().enumerate() {
        let (start, size) = (reached.range.start, reached.range.end - reached.range.start);
        let unnamed = if reached.allocation.is_none() { ", of which no allocation is known" } else { "" };
        writeln!(out, "| {number} | {start:#x} | {size} | {}{unnamed} |", kind(reached).row().1)?;
    }
    if !reach.variables.is_empty() {
        writeln!(out, "\n| variable | symbol | bytes |\n|---|---|---|")?;
        for (number, variable) in reach.variables.iter().enumerate() {
            writeln!(out, "| {number} | {} | {} |", code(&variable.symbol), variable.size)?;
        }
    }
    addresses(out, reach)?;
    writeln!(out, "\n## What is not as it was\n")?;
    writeln!(
        out,
        "* Hidden arguments, queues, scratch and the order of workgroups are the runtime's of now. A kernel whose results depend on\n  them, \
         on addresses or on other threads of the application gives other results each time.\n\
         * Memory that the host wrote while the kernel ran is expected as it was afterwards.\n\
         * Memory to which no address leads is not there."
    )?;
    doubts.iter().try_for_each(|doubt| writeln!(out, "* {}.", text::one_line(doubt)))
}

fn addresses(out: &mut String, reach: &Reach<'_>) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Addresses\n\nHIP chooses other addresses than the application had. The program rewrites these words, of 8 bytes:\n\n\
         * `fixups-before.txt`: {} in the arguments, in memory and in variables before the kernel.\n\
         * `fixups-after.txt`: {} in what is expected after it. So bytes that differ only since they hold addresses do not count.\n\n\
         Only the code object knows which arguments are pointers (`pointer` in the lists). Another word counts as an address if its value is \
         inside of\ncaptured memory: in memory at multiples of 8 bytes, in arguments at every byte. One that is the end of an \
         allocation and the beginning\nof the next counts as the beginning (`boundary`). Addresses in another form, like half of one, are left as \
         they are.\n",
        reach.before.len(),
        reach.after.len()
    )?;
    let unsure: Vec<(&Fixup, &str)> =
        reach.before.iter().filter_map(|fixup| Some((fixup, fixup.sure.row().1?))).collect();
    if unsure.is_empty() {
        return writeln!(out, "No word before the kernel is ambiguous.");
    }
    writeln!(out, "{} words before the kernel are ambiguous; they are rewritten, too:\n", unsure.len())?;
    for (fixup, why) in unsure.iter().take(LISTED) {
        let place = match fixup.place {
            Place::Kernarg => "the arguments".to_owned(),
            Place::Allocation(number) => format!("allocation {number}"),
            Place::Variable(number) => format!("variable {number}"),
        };
        let aim = match fixup.aim {
            Aim::Allocation(number) => format!("allocation {number}"),
            Aim::Code => "the code object".to_owned(),
        };
        writeln!(out, "* byte {} of {place}, as byte {} of {aim}: {why}", fixup.offset, fixup.aim_offset)?;
    }
    let more = unsure.len().saturating_sub(LISTED);
    let words: Vec<String> = [Sure::Number, Sure::Unaligned, Sure::End].map(|sure| code(sure.row().0)).into();
    if more > 0 {
        writeln!(out, "\n{more} more are in `fixups-before.txt`, marked {}.", words.join(", "))?;
    }
    Ok(())
}
