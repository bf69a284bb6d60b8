//! How kernels are shown.

use anyhow::Result;
use logdur_kernel_cache::{Candidate, Interface, Parameter};
use serde_json::{Value, json};

use crate::output::{demangled, lines};

/// Rows under a head, each column as wide as its widest cell; the last one is not filled up.
pub(super) fn print<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> Result<()> {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        // A width in a format is limited, and a name is not.
        let pad = |cell: &str, width: usize| " ".repeat(width.saturating_sub(cell.chars().count()));
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell}{}", pad(cell, width))).collect();
        padded.join("  ").trim_end().to_owned()
    };
    lines(std::iter::once(line(head)).chain(rows.iter().map(|row| line(row.each_ref().map(String::as_str)))))
}

/// An argument in a word: its kind, and its size where the kind does not say it.
fn argument(a: &Parameter) -> String {
    match &a.address_space {
        Some(space) => format!("{}:{space}", a.kind),
        None => format!("{}:{}", a.kind, a.size),
    }
}

/// The explicit arguments, and how many hidden ones there are.
pub(super) fn arguments(interface: &Interface) -> String {
    let explicit: Vec<String> = interface.explicit().map(argument).collect();
    match interface.hidden().count() {
        0 => explicit.join(" "),
        hidden => format!("{} +{hidden}", explicit.join(" ")).trim_start().to_owned(),
    }
}

/// A kernel as an object of JSON.
pub(super) fn json(candidate: &Candidate, hash: Option<&str>) -> Value {
    let i = &candidate.interface;
    let arguments: Vec<Value> = i
        .arguments
        .iter()
        .map(|a| {
            let space = a.address_space.as_ref().map(|space| space.name());
            json!({ "offset": a.offset, "size": a.size, "kind": a.kind.name(), "address_space": space })
        })
        .collect();
    json!({
        "file": candidate.path.display().to_string(),
        "place": candidate.place.to_string(),
        "hash": hash,
        "kernel": i.name,
        "demangled": demangled(&i.name),
        "target": i.target.to_string(),
        "abi": format!("{:?}", i.abi),
        "arguments": arguments,
        "kernarg_size": i.kernarg_size,
        "kernarg_align": i.kernarg_align,
        "group_size": i.group_size,
        "private_size": i.private_size,
        "wavefront_size": i.wavefront_size,
        "max_flat_workgroup_size": i.max_flat_workgroup_size,
        "required_workgroup_size": i.required_workgroup_size,
        "uniform_workgroup_size": i.uniform_workgroup_size,
        "uses_dynamic_stack": i.uses_dynamic_stack,
        "cluster_dims": i.cluster_dims,
        "vgprs": i.vgprs,
        "agprs": i.agprs,
        "sgprs": i.sgprs,
        "variables": &*i.variables,
        "stored_functions": &*i.stored_functions,
    })
}
