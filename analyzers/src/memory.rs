//! Cache lines and bank conflicts of each access, by source line.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use amdgpu_isa::Arch;
use logdur_analysis::banks::{self, Direction};
use logdur_analysis::lines::Bytes;
use logdur_analysis::processor::processor;
use logdur_handler::messages::{AddressSpace, Kind, Message};
use logdur_handler::{Format, Open};
use serde_json::{Value, json};

use crate::each::{About, Analyzer, Out};

/// Bytes that a lane accesses in LDS at once, at most.
const MOST: u64 = 16;

/// Where an address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Global memory.
    Memory,
    /// LDS.
    Lds,
    /// Scratch, GDS, and what is read as constant.
    Elsewhere,
}

/// Where an address points to, by its address space. Flat addresses with these upper bits are in the apertures of LDS and scratch, which
/// the driver puts there (the Linux kernel's `kfd_flat_memory.c`, for gfx9).
pub(crate) fn place(space: AddressSpace, address: u64) -> Where {
    match (space, address >> 48) {
        (AddressSpace::Global, _) | (AddressSpace::Flat, 0) => Where::Memory,
        (AddressSpace::Lds, _) | (AddressSpace::Flat, 1) => Where::Lds,
        _ => Where::Elsewhere,
    }
}

/// An access of the source: file, line, column, bytes of a lane, and whether it reads and writes.
type Key = (u64, u32, u32, u16, bool, bool);

/// What executions of an access add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    executions: u64,
    /// The fewest lines that hold the distinct bytes.
    needed: u64,
    /// Distinct lines.
    used: u64,
    conflicts: u64,
}

/// Accesses of a dispatch.
#[derive(Default)]
pub(crate) struct Memory {
    memory: BTreeMap<Key, Total>,
    lds: BTreeMap<Key, Total>,
    bytes: Bytes,
}

impl Analyzer for Memory {
    const NAME: &'static str = "MemoryAnalysis";
    const COLUMNS: &'static str = "kernel,dispatch_id,report,file,line,column,type,execution_count,ir_bytes,isa_bytes,\
                                   isa_instruction,needed,used,total_conflicts";
    const NEEDS_CODE: bool = true;

    fn begin(_open: &Open) -> Result<Memory, String> {
        Ok(Memory::default())
    }

    fn message(&mut self, about: &About, message: &Message<'_>, _out: &mut Out) {
        let header = &message.header;
        if header.kind != Kind::Address {
            return;
        }
        let access = header.access();
        let key = (header.file, header.line, header.column, access.bytes, access.reads, access.writes);
        let (mut at, mut lds, mut memory) = ([0; 64], 0u64, false);
        self.bytes.clear();
        for (lane, address) in message.lanes().zip(message.addresses()) {
            match place(access.space, address) {
                Where::Memory => {
                    memory = true;
                    self.bytes.push(address, access.bytes.into());
                }
                Where::Lds => {
                    lds |= 1 << lane;
                    at[lane as usize] = address & 0xffff_ffff;
                }
                Where::Elsewhere => {}
            }
        }
        if memory {
            self.bytes.join();
            let touched = self.bytes.touched(line_bytes(&about.processor).into());
            let total = self.memory.entry(key).or_default();
            total.executions += 1;
            total.needed += touched.least;
            total.used += touched.lines;
        }
        if lds != 0 {
            let direction = if access.writes { Direction::Write } else { Direction::Read };
            let total = self.lds.entry(key).or_default();
            total.executions += 1;
            for part in (0..u64::from(access.bytes)).step_by(MOST as usize) {
                let bytes = MOST.min(u64::from(access.bytes) - part);
                let at = at.map(|at| at + part);
                total.conflicts += u64::from(banks::conflicts(&at, lds, bytes as u8, direction));
            }
        }
    }

    fn end(self, about: &About, open: &Open, out: &mut Out) {
        let rows = |totals: &BTreeMap<Key, Total>, lds| -> Vec<Row> {
            totals.iter().map(|(key, total)| Row::of(*key, *total, lds, about, open)).collect()
        };
        let (memory, lds) = (rows(&self.memory, false), rows(&self.lds, true));
        match out.format {
            Format::Json => out.object(&report(about, &memory, &lds)),
            Format::Csv => {
                for (name, rows) in [("cache", &memory), ("lds", &lds)] {
                    for row in rows {
                        row.csv(name, about, out);
                    }
                }
            }
            Format::Text => text(about, &memory, &lds, out),
        }
    }
}

/// Bytes of a line of the L2 cache.
fn line_bytes(name: &str) -> u32 {
    let arch = name.split(':').next().unwrap_or_default().parse::<Arch>();
    arch.map_or(128, |arch| processor(arch).l2_line)
}

/// An access as it is reported.
struct Row {
    file: String,
    line: u32,
    column: u32,
    /// The text of the source line.
    text: String,
    does: &'static str,
    bytes: u16,
    /// Bytes of a lane, and the instruction.
    isa: Option<(u32, String)>,
    total: Total,
}

impl Row {
    fn of((file, line, column, bytes, reads, writes): Key, total: Total, lds: bool, about: &About, open: &Open) -> Row {
        let known = about.code.line(file, line);
        let isa = known.and_then(|line| line.access(reads, writes, lds)).map(|(text, bytes)| (bytes, text.to_owned()));
        let name = known.map(|line| line.file.clone()).or_else(|| open.source_file(about.id, file));
        Row {
            file: name.unwrap_or_else(|| "<unknown source file>".to_owned()),
            line,
            column,
            text: known.map(|line| line.text.clone()).unwrap_or_default(),
            does: match (reads, writes) {
                (true, true) => "read/write",
                (_, true) => "write",
                _ => "read",
            },
            bytes,
            isa,
            total,
        }
    }

    /// The fields that both reports have.
    fn json(&self) -> Value {
        let (bytes, text) = self.isa.as_ref().map_or((None, None), |(bytes, text)| (Some(bytes), Some(text)));
        json!({
            "source_location": {"file": self.file, "line": self.line, "column": self.column},
            "code_context": self.text,
            "access_info": {
                "type": self.does, "execution_count": self.total.executions, "ir_bytes": self.bytes,
                "isa_bytes": bytes, "isa_instruction": text,
            },
        })
    }

    fn csv(&self, report: &str, about: &About, out: &mut Out) {
        let (bytes, text) = self.isa.as_ref().map_or_else(Default::default, |(b, t)| (b.to_string(), t.clone()));
        let total = &self.total;
        out.row(&[
            &about.kernel,
            &about.id,
            &report,
            &self.file,
            &self.line,
            &self.column,
            &self.does,
            &total.executions,
            &self.bytes,
            &bytes,
            &text,
            &total.needed,
            &total.used,
            &total.conflicts,
        ]);
    }

    fn text(&self, result: &str, out: &mut Out) {
        out.line(&format!("{}:{}:{}", self.file, self.line, self.column));
        if !self.text.is_empty() {
            out.line(&self.text);
            if let Some(before) = (self.column as usize).checked_sub(1) {
                out.line(&format!("{}^", " ".repeat(before)));
            }
        }
        let isa = self
            .isa
            .as_ref()
            .map_or_else(String::new, |(bytes, text)| format!(" ({bytes} bytes at ISA level: \"{text}\")"));
        out.line(&format!("\t{} of {} bytes at IR level{isa}", self.does, self.bytes));
        out.line(&format!("\texecuted {} times, {result}", self.total.executions));
    }
}

fn text(about: &About, memory: &[Row], lds: &[Row], out: &mut Out) {
    out.line(&format!("=== L2 cache line use report === {}[{}]", about.kernel, about.id));
    for row in memory.iter().filter(|row| row.total.used != row.total.needed) {
        row.text(&format!("{} cache lines needed, {} cache lines used", row.total.needed, row.total.used), out);
    }
    out.line(&format!("=== Bank conflicts report === {}[{}]", about.kernel, about.id));
    for row in lds.iter().filter(|row| row.total.conflicts != 0) {
        row.text(&format!("{} bank conflicts in total", row.total.conflicts), out);
    }
}

fn report(about: &About, memory: &[Row], lds: &[Row]) -> Value {
    let all = |rows: &[Row], more: fn(&mut Value, &Total)| -> Vec<Value> {
        let row = |row: &Row| {
            let mut value = row.json();
            more(&mut value, &row.total);
            value
        };
        rows.iter().map(row).collect()
    };
    let lines = all(memory, |value, total| {
        value["access_info"]["cache_lines"] = json!({"needed": total.needed, "used": total.used});
    });
    let conflicts = all(lds, |value, total| value["access_info"]["total_conflicts"] = total.conflicts.into());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    json!({
        "kernel_analysis": {
            "kernel_info": {"name": about.kernel, "dispatch_id": about.id},
            "cache_analysis": {"accesses": lines},
            "bank_conflicts": {"accesses": conflicts},
        },
        "metadata": {
            "version": env!("CARGO_PKG_VERSION"), "timestamp": time,
            "gpu_info": {"architecture": about.processor, "cache_line_size": line_bytes(&about.processor)},
        },
    })
}
