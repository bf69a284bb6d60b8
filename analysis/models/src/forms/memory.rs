//! Cache lines and bank conflicts of each access, by source line: omniprobe's `MemoryAnalysis`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{About, Form, Out};
use crate::processor::row_of;

/// Its name.
pub const NAME: &str = "MemoryAnalysis";
/// The header line of its comma-separated values.
pub const COLUMNS: &str = "kernel,dispatch_id,report,file,line,column,type,execution_count,ir_bytes,isa_bytes,\
                           isa_instruction,needed,used,total_conflicts";

/// What executions of an access add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How often a wave did it.
    pub executions: u64,
    /// The fewest L2 lines that hold the distinct bytes.
    pub needed: u64,
    /// Distinct L2 lines.
    pub used: u64,
    /// Conflict cycles of LDS.
    pub conflicts: u64,
}

/// An access of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its file.
    pub file: String,
    /// Its line; 0 where it is not known.
    pub line: u64,
    /// Its column; 0 where it is not known.
    pub column: u64,
    /// The text of the line.
    pub text: String,
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// Bytes of a lane, as the source or its intermediate form has them.
    pub bytes: u32,
    /// The machine instruction, and its bytes of a lane.
    pub isa: Option<(u32, String)>,
    /// What was counted.
    pub total: Total,
}

/// Stands for the name of a file that is not known.
pub const UNKNOWN: &str = "<unknown source file>";

/// Writes the accesses of a dispatch to memory and to LDS.
pub fn write(about: &About<'_>, memory: &[Access], lds: &[Access], out: &mut Out) {
    match out.form {
        Form::Json => out.object(&report(about, memory, lds)),
        Form::Csv => {
            for (name, accesses) in [("cache", memory), ("lds", lds)] {
                accesses.iter().for_each(|access| access.csv(name, about, out));
            }
        }
        Form::Text => text(about, memory, lds, out),
    }
}

impl Access {
    /// What it does.
    fn does(&self) -> &'static str {
        match (self.reads, self.writes) {
            (true, true) => "read/write",
            (_, true) => "write",
            _ => "read",
        }
    }

    /// The fields that both parts of the report have.
    fn json(&self) -> Value {
        let (bytes, text) = self.isa.as_ref().map_or((None, None), |(bytes, text)| (Some(bytes), Some(text)));
        json!({
            "source_location": {"file": self.file, "line": self.line, "column": self.column},
            "code_context": self.text,
            "access_info": {
                "type": self.does(), "execution_count": self.total.executions, "ir_bytes": self.bytes,
                "isa_bytes": bytes, "isa_instruction": text,
            },
        })
    }

    fn csv(&self, report: &str, about: &About<'_>, out: &mut Out) {
        let (bytes, text) = self.isa.as_ref().map_or_else(Default::default, |(b, t)| (b.to_string(), t.clone()));
        let total = &self.total;
        out.row(&[
            &about.kernel,
            &about.id,
            &report,
            &self.file,
            &self.line,
            &self.column,
            &self.does(),
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
            if let Some(before) = usize::try_from(self.column).ok().and_then(|column| column.checked_sub(1)) {
                out.line(&format!("{}^", " ".repeat(before)));
            }
        }
        let isa = self
            .isa
            .as_ref()
            .map_or_else(String::new, |(bytes, text)| format!(" ({bytes} bytes at ISA level: \"{text}\")"));
        out.line(&format!("\t{} of {} bytes at IR level{isa}", self.does(), self.bytes));
        out.line(&format!("\texecuted {} times, {result}", self.total.executions));
    }
}

fn text(about: &About<'_>, memory: &[Access], lds: &[Access], out: &mut Out) {
    out.line(&format!("=== L2 cache line use report === {}[{}]", about.kernel, about.id));
    for access in memory.iter().filter(|access| access.total.used != access.total.needed) {
        let total = &access.total;
        access.text(&format!("{} cache lines needed, {} cache lines used", total.needed, total.used), out);
    }
    out.line(&format!("=== Bank conflicts report === {}[{}]", about.kernel, about.id));
    for access in lds.iter().filter(|access| access.total.conflicts != 0) {
        access.text(&format!("{} bank conflicts in total", access.total.conflicts), out);
    }
}

fn report(about: &About<'_>, memory: &[Access], lds: &[Access]) -> Value {
    let all = |accesses: &[Access], more: fn(&mut Value, &Total)| -> Vec<Value> {
        let object = |access: &Access| {
            let mut value = access.json();
            more(&mut value, &access.total);
            value
        };
        accesses.iter().map(object).collect()
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
            "gpu_info": {"architecture": about.processor, "cache_line_size": row_of(about.processor).l2_line},
        },
    })
}
