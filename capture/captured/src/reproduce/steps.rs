//! What a program does, as tables of its text.

use std::fmt::Write as _;

use super::program::dynamic_lds;
use super::reach::Reach;
use super::subject::{Subject, is_packet};
use super::writes::Source;
use crate::dispatch::packet;
use crate::region::Work;

/// A row of a table for each thing that is done, and the order.
#[derive(Default)]
struct Rows {
    launches: Vec<String>,
    copies: Vec<String>,
    fills: Vec<String>,
    writes: Vec<String>,
    steps: Vec<String>,
}

/// A place in memory, as the program has it.
fn at(reach: &Reach<'_>, address: u64, bytes: u64) -> String {
    // What is in none has been refused.
    let found = reach.at(address, bytes).map(|(place, offset)| (place.row(), offset));
    let ((letter, number), offset) = found.unwrap_or((('a', 0), 0));
    format!("{{'{letter}', {number}, {offset}}}")
}

/// The tables.
pub(super) fn tables(out: &mut String, subject: &Subject<'_>, reach: &Reach<'_>) -> std::fmt::Result {
    let rows = rows(subject, reach);
    out.push_str(
        "// A place in memory: `a` an allocation or `v` a variable, its number, offset.\n\
         struct At {\n  char place;\n  uint64_t number, offset;\n};\n\n\
         // Kernel, work-items, work-items of a workgroup, dynamic LDS, where its arguments are in kernarg.bin, bytes of them; of a packet that\n\
         // HIP refuses: true, bytes of LDS and of scratch.\n\
         struct Launch {\n  unsigned kernel;\n  uint32_t grid[3], group[3], lds;\n  uint64_t arguments, size;\n  bool is_packet;\n  \
         uint32_t group_bytes, private_bytes;\n};\n\
         // To, from, bytes.\n\
         struct Copy {\n  At to, from;\n  uint64_t size;\n};\n\
         // To, bytes, the value of 4 bytes.\n\
         struct Fill {\n  At to;\n  uint64_t size;\n  uint32_t value;\n};\n\
         // What the host writes: to, bytes, the piece whose file has them (-1: writes.bin), where in it.\n\
         struct Write {\n  At to;\n  uint64_t size;\n  int64_t piece;\n  uint64_t offset;\n};\n\
         enum Does { LAUNCH, COPY, FILL, WRITE, WAIT };\n\
         // The number in the capture, what is done, its row.\n\
         struct Step {\n  uint64_t number;\n  Does does;\n  size_t index;\n};\n",
    );
    for (of, name, all) in [
        ("Launch", "LAUNCHES", &rows.launches),
        ("Copy", "COPIES", &rows.copies),
        ("Fill", "FILLS", &rows.fills),
        ("Write", "WRITES", &rows.writes),
        ("Step", "STEPS", &rows.steps),
    ] {
        writeln!(out, "static const std::vector<{of}> {name} = {{")?;
        all.iter().try_for_each(|row| writeln!(out, "    {{{row}}},"))?;
        out.push_str("};\n");
    }
    out.push_str(
        "\n// As hip/hip_ext.h declares it, which only HIP's compiler takes.\n\
         hipError_t hipExtModuleLaunchKernel(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t, hipStream_t,\n\
         \x20                                   void **, void **, hipEvent_t, hipEvent_t, uint32_t);\n\n",
    );
    Ok(())
}

fn rows(subject: &Subject<'_>, reach: &Reach<'_>) -> Rows {
    let mut rows = Rows::default();
    let mut places = reach.launches.iter();
    let mut writes = reach.writes.all.iter().peekable();
    for (at_step, step) in subject.steps.iter().enumerate() {
        let mut does = |word: &str, index: usize| rows.steps.push(format!("{}, {word}, {index}", step.number));
        while let Some(write) = writes.next_if(|write| write.step == at_step) {
            does("WRITE", rows.writes.len());
            let ((letter, number), size) = (write.place.row(), write.range.end - write.range.start);
            let piece = match write.source {
                Source::Own => "-1".to_owned(),
                Source::Piece(number) => number.to_string(),
            };
            let (offset, source) = (write.range.start - write.base, write.source_offset);
            rows.writes.push(format!("{{'{letter}', {number}, {offset}}}, {size}, {piece}, {source}"));
        }
        match step.work {
            Work::Dispatch { kernel, dispatch } => {
                does("LAUNCH", rows.launches.len());
                let packet = packet(dispatch);
                let lds = subject.kernels.get(kernel).map_or(0, |kernel| dynamic_lds(kernel, dispatch));
                let ([x, y, z], [gx, gy, gz]) = (packet.grid_size(), packet.workgroup_size());
                let place = places.next().cloned().unwrap_or_default();
                let (from, size) = (place.start, place.end - place.start);
                let is_packet = subject.kernels.get(kernel).is_some_and(|kernel| is_packet(kernel, dispatch));
                let (group, private) = match is_packet {
                    true => (packet.group_segment_size(), packet.private_segment_size()),
                    false => (0, 0),
                };
                rows.launches.push(format!(
                    "{kernel}, {{{x}, {y}, {z}}}, {{{gx}, {gy}, {gz}}}, {lds}, {from}, {size}, {is_packet}, {group}, {private}"
                ));
            }
            // One of 0 bytes has what was written at the end of the region.
            Work::Copy { bytes: 0, .. } | Work::Fill { bytes: 0, .. } => {}
            Work::Copy { to, from, bytes } => {
                does("COPY", rows.copies.len());
                rows.copies.push(format!("{}, {}, {bytes}", at(reach, to, bytes), at(reach, from, bytes)));
            }
            Work::Fill { to, bytes, value } => {
                does("FILL", rows.fills.len());
                rows.fills.push(format!("{}, {bytes}, {value:#010x}", at(reach, to, bytes)));
            }
            Work::Barrier => does("WAIT", 0),
        }
    }
    rows
}
