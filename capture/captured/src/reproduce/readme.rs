//! The README beside the program.

use std::fmt::Write as _;

use logdur_system::text;

use super::fixups::{Aim, Fixup, Place, Sure};
use super::program::dynamic_lds;
use super::reach::Reach;
use super::subject::Subject;
use crate::dispatch::{CapturedDispatch, processor};
use crate::region::Work;

/// Words that may be no addresses and are listed; the others are counted.
const LISTED: usize = 32;

/// A text between backticks.
fn code(text: &str) -> String {
    format!("`{}`", text::one_line(text).replace('`', "'"))
}

/// The text. `called` is what a kernel is called, by its symbol.
pub(super) fn readme(
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    called: &dyn Fn(&str) -> String,
    doubts: &[String],
) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, subject, reach, called, doubts);
    out
}

fn write(
    out: &mut String,
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    called: &dyn Fn(&str) -> String,
    doubts: &[String],
) -> std::fmt::Result {
    let captured = subject.captured;
    let symbol = &captured.original.kernel.name;
    let does = match subject.part {
        None => {
            writeln!(out, "# One dispatch of {}\n", code(&called(symbol)))?;
            "launches the kernel with the captured arguments and memory, and compares\nall memory that the kernel reaches"
        }
        Some(part) => {
            writeln!(out, "# Region {}, {}\n", part.region.record.id, part.part.steps())?;
            "does the captured steps with the captured arguments and memory, and compares\nall memory that they reach"
        }
    };
    let processor = processor(captured.agent.map_or("", |agent| &agent.isa));
    writeln!(
        out,
        "This folder is a HIP program without the application: it {does} with what the application got. It needs HIP and a GPU like {}. It has \
         no code for the GPU of\nits own: any compiler of C++17 builds it.\n",
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
    match subject.part {
        None => dispatch(out, captured)?,
        Some(_) => steps(out, subject, reach, called)?,
    }
    writeln!(out, "## Memory\n\n| allocation | captured address | bytes | kind |\n|---|---|---|---|")?;
    for (number, reached) in reach.allocations.iter().enumerate() {
        let (start, size) = (reached.range.start, reached.range.end - reached.range.start);
        let unnamed = if reached.allocations.is_empty() { ", of which no allocation is known" } else { "" };
        writeln!(out, "| {number} | {start:#x} | {size} | {}{unnamed} |", reached.kind().row().1)?;
    }
    if !reach.variables.is_empty() {
        writeln!(out, "\n| variable | symbol | bytes |\n|---|---|---|")?;
        for (number, variable) in reach.variables.iter().enumerate() {
            writeln!(out, "| {number} | {} | {} |", code(&variable.global.symbol), variable.global.size)?;
        }
    }
    addresses(out, subject, reach)?;
    writeln!(out, "\n## What is not as it was\n")?;
    writeln!(
        out,
        "* Hidden arguments, queues, scratch and the order of workgroups are the runtime's of now. A kernel whose results depend on\n  them, \
         on addresses or on other threads of the application gives other results each time.\n\
         * Memory that the host wrote while the kernel ran is expected as it was afterwards.\n\
         * Memory to which no address leads is not there."
    )?;
    if subject.part.is_some() {
        writeln!(
            out,
            "* All steps are on one stream, one after the other: what ran beside each other in the application does not here.\n\
             * What the application freed stays allocated. What it allocated at the same addresses later is the same memory."
        )?;
    }
    doubts.iter().try_for_each(|doubt| writeln!(out, "* {}.", text::one_line(doubt)))
}

fn dispatch(out: &mut String, captured: &CapturedDispatch<'_>) -> std::fmt::Result {
    let (packet, dispatch) = (captured.packet(), captured.dispatch);
    writeln!(out, "| | |\n|---|---|")?;
    writeln!(out, "| kernel | {} |", code(&captured.original.kernel.name))?;
    writeln!(out, "| grid, in work-items | {:?} |", packet.grid_size())?;
    writeln!(out, "| workgroup | {:?} |", packet.workgroup_size())?;
    writeln!(out, "| dynamic LDS, in bytes | {} |", dynamic_lds(captured, dispatch))?;
    writeln!(out, "| dispatch | {}, occurrence {} of the kernel |\n", dispatch.id, dispatch.occurrence)
}

fn steps(
    out: &mut String,
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    called: &dyn Fn(&str) -> String,
) -> std::fmt::Result {
    writeln!(out, "| kernel | symbol | launches |\n|---|---|---|")?;
    for (kernel, count) in subject.counts() {
        let symbol = subject.kernels.get(kernel).map_or("", |kernel| &*kernel.original.kernel.name);
        writeln!(out, "| {} | {} | {count} |", code(&called(symbol)), code(symbol))?;
    }
    let of = |is: fn(&Work<'_>) -> bool| subject.steps.iter().filter(|step| is(&step.work)).count();
    writeln!(
        out,
        "\n{} copies, {} fills, {} barriers. What the host wrote between the steps is {} pieces of memory. `STEPS` in `reproduce.cpp` has the \
         order,\nwith the numbers of the capture.\n",
        of(|work| matches!(work, Work::Copy { bytes, .. } if *bytes > 0)),
        of(|work| matches!(work, Work::Fill { bytes, .. } if *bytes > 0)),
        of(|work| matches!(work, Work::Barrier)),
        reach.writes.all.len()
    )
}

fn addresses(out: &mut String, subject: &Subject<'_>, reach: &Reach<'_>) -> std::fmt::Result {
    let noun = subject.noun();
    writeln!(
        out,
        "\n## Addresses\n\nHIP chooses other addresses than the application had. The program rewrites these words, of 8 bytes:\n\n\
         * `fixups-before.txt`: {} in the arguments, in memory and in variables before {noun}{between}.\n\
         * `fixups-after.txt`: {} in what is expected afterwards. So bytes that differ only since they hold addresses do not count.\n\n\
         Only the code object knows which arguments are pointers (`pointer` in the lists). Another word counts as an address if its value is \
         inside of\ncaptured memory: in memory at multiples of 8 bytes, in arguments at every byte. One that is the end of an \
         allocation and the beginning\nof the next counts as the beginning (`boundary`). Addresses in another form, like half of one, are left as \
         they are.\n",
        reach.before.len(),
        reach.after.len(),
        between = if subject.part.is_some() { ", and in what the host writes" } else { "" }
    )?;
    if subject.part.is_some() {
        writeln!(
            out,
            "Where the host writes a part of a word only, the program puts it into the word as the application had it, and rewrites what comes of \
             that.\n"
        )?;
    }
    let unsure: Vec<(&Fixup, &str)> =
        reach.before.iter().filter_map(|fixup| Some((fixup, fixup.sure.row().1?))).collect();
    if unsure.is_empty() {
        return writeln!(out, "No word before {noun} is ambiguous.");
    }
    writeln!(out, "{} words before {noun} are ambiguous; they are rewritten, too:\n", unsure.len())?;
    for (fixup, why) in unsure.iter().take(LISTED) {
        let place = match fixup.place {
            Place::Kernarg => "the arguments".to_owned(),
            Place::Allocation(number) => format!("allocation {number}"),
            Place::Variable(number) => format!("variable {number}"),
            Place::Writes => "what the host writes".to_owned(),
        };
        let aim = match fixup.aim {
            Aim::Allocation(number) => format!("allocation {number}"),
            Aim::Code(number) => format!("the code object of module {number}"),
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
