//! Differences, for people and for programs.

use std::collections::HashSet;

use logdur_capture::Id;
use logdur_captured::diff::{Argument, BufferDiff, CodeDiff, Compared, Diff, Fact, Value as Given};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use crate::output::demangled;

/// The word for an end.
fn word(end: Exit) -> &'static str {
    match end {
        Exit::Success => "SAME",
        Exit::Mismatch => "DIFFERENT",
        Exit::Incomplete => "INCOMPLETE",
        _ => "NOT_COMPARED",
    }
}

fn fact(fact: &Fact) -> String {
    format!("{}: A {}, B {}", fact.name, fact.a, fact.b)
}

/// Lines for people. Code is told of once for each pair of code objects.
pub(super) fn text(diff: &Diff, told: &mut HashSet<[Id; 2]>) -> Vec<String> {
    let [a, b] = diff.dispatches;
    let mut all = vec![format!("{}: dispatch {a} and {b}: {}", demangled(&diff.kernels[0]), word(diff.into()))];
    all.extend(diff.geometry.iter().map(|f| format!("  {}", fact(f))));
    all.extend(diff.arguments.iter().map(argument));
    if let Some(code) = &diff.code {
        all.push(format!("  code: A {}, B {}", code.ids[0], code.ids[1]));
        if told.insert(code.ids) {
            all.extend(metadata(code));
        }
    }
    all.extend(diff.buffers.iter().flat_map(buffer));
    all.extend(diff.alone.iter().map(|f| format!("  {}", fact(f))));
    all.extend(diff.missing.iter().map(|what| format!("  not compared: {what}")));
    all
}

fn argument(argument: &Argument) -> String {
    let of = argument.type_name.as_deref().map_or_else(String::new, |of| format!(" ({of})"));
    let shown = |value: &Option<Given>| match value {
        Some(Given { shown, points_to: Some(to) }) => format!("{shown}, {to}"),
        Some(Given { shown, points_to: None }) => shown.clone(),
        None => "none".to_owned(),
    };
    let [a, b] = &argument.values;
    format!("  {}{of}: A {}; B {}", argument.name, shown(a), shown(b))
}

fn metadata(code: &CodeDiff) -> Vec<String> {
    let mut all: Vec<String> = code.target.iter().map(|f| format!("    {}", fact(f))).collect();
    if code.kernels.is_empty() {
        all.push("    the kernels' metadata are the same".to_owned());
    }
    for kernel in &code.kernels {
        let facts: Vec<String> = kernel.facts.iter().map(fact).collect();
        all.push(format!("    {}: {}", demangled(&kernel.name), facts.join("; ")));
    }
    all
}

fn buffer(buffer: &BufferDiff) -> Vec<String> {
    let [a, b] = buffer.sizes;
    let size = if a == b { format!("{a} bytes") } else { format!("sizes: A {a} bytes, B {b} bytes") };
    let limits = if buffer.tolerance.is_exact() { String::new() } else { format!(" ({})", buffer.tolerance) };
    let mut all = vec![format!("  {} {}{limits}, {size}", buffer.name, buffer.element_type)];
    all.push(compared(buffer, "before", &buffer.before));
    all.extend(buffer.after.as_ref().map(|after| compared(buffer, "after", after)));
    all
}

fn compared(buffer: &BufferDiff, when: &str, compared: &Compared) -> String {
    let mut line = match (compared.differing, compared.near) {
        (0, 0) => format!("    {when}: same"),
        (differing, near) => format!("    {when}: {differing} elements differ, {near} are near"),
    };
    if let Some(first) = &compared.first {
        line += &format!(", first {}[{}]: A {}, B {}", buffer.name, first.index, first.a, first.b);
    }
    let largest = [
        ("abs", compared.max_abs.map(|v| format!("{v:e}"))),
        ("rel", compared.max_rel.map(|v| format!("{v:e}"))),
        ("ulp", compared.max_ulp.map(|v| v.to_string())),
    ];
    for (name, value) in largest {
        if let Some(value) = value {
            line += &format!(", max {name} {value}");
        }
    }
    line
}

/// A dispatch that only one of the captures has.
pub(super) fn alone(kernel: &str, numbers: [Option<u64>; 2]) -> String {
    let which = match numbers {
        [Some(a), _] => format!("dispatch {a} of A"),
        [None, Some(b)] => format!("dispatch {b} of B"),
        [None, None] => "no dispatch".to_owned(),
    };
    format!("{}: {which} has no partner", demangled(kernel))
}

/// The last line.
pub(super) fn summary(ends: &[Exit]) -> String {
    let count = |end: Exit| ends.iter().filter(|e| **e == end).count();
    let same = count(Exit::Success);
    let (different, incomplete) = (count(Exit::Mismatch), count(Exit::Incomplete));
    let failed = ends.len() - same - different - incomplete;
    format!("{same} same, {different} different or alone, {incomplete} incomplete, {failed} not compared")
}

fn fact_json(fact: &Fact) -> Value {
    json!({ "name": fact.name, "a": fact.a, "b": fact.b })
}

/// An object for programs.
pub(super) fn json(diff: &Diff) -> Value {
    let facts = |all: &[Fact]| all.iter().map(fact_json).collect::<Vec<Value>>();
    let given = |value: &Option<Given>| value.as_ref().map(|v| json!({ "value": v.shown, "points_to": v.points_to }));
    let argument = |a: &Argument| {
        let [first, second] = &a.values;
        json!({ "name": a.name, "type": a.type_name, "a": given(first), "b": given(second) })
    };
    let code = diff.code.as_ref().map(|code| {
        let kernel =
            |k: &logdur_captured::diff::KernelDiff| json!({ "kernel": k.name, "differences": facts(&k.facts) });
        json!({
            "a": code.ids[0].to_string(),
            "b": code.ids[1].to_string(),
            "target": code.target.as_ref().map(fact_json),
            "kernels": code.kernels.iter().map(kernel).collect::<Vec<_>>(),
        })
    });
    let [a, b] = &diff.kernels;
    json!({
        "kernel": a,
        "kernel_b": b,
        "demangled": demangled(a),
        "dispatch_a": diff.dispatches[0],
        "dispatch_b": diff.dispatches[1],
        "result": word(diff.into()),
        "status": Exit::from(diff) as u8,
        "geometry": facts(&diff.geometry),
        "arguments": diff.arguments.iter().map(argument).collect::<Vec<_>>(),
        "code": code,
        "buffers": diff.buffers.iter().map(buffer_json).collect::<Vec<_>>(),
        "alone": facts(&diff.alone),
        "not_compared": diff.missing,
    })
}

fn buffer_json(buffer: &BufferDiff) -> Value {
    // JSON has no infinities.
    let number = |value: Option<f64>| value.map(|v| if v.is_finite() { json!(v) } else { json!(v.to_string()) });
    let compared = |c: &Compared| {
        json!({
            "differing": c.differing, "near": c.near, "read": c.read,
            "max_abs": number(c.max_abs), "max_rel": number(c.max_rel), "max_ulp": c.max_ulp,
            "first": c.first.as_ref().map(|f| json!({ "index": f.index, "a": f.a, "b": f.b })),
        })
    };
    json!({
        "name": buffer.name, "type": buffer.element_type.to_string(),
        "tolerance": (!buffer.tolerance.is_exact()).then(|| buffer.tolerance.to_string()),
        "start_a": buffer.starts[0], "start_b": buffer.starts[1],
        "size_a": buffer.sizes[0], "size_b": buffer.sizes[1],
        "before": compared(&buffer.before), "after": buffer.after.as_ref().map(compared),
    })
}

/// A dispatch that only one of the captures has, as an object for programs.
pub(super) fn alone_json(kernel: &str, [a, b]: [Option<u64>; 2]) -> Value {
    json!({
        "kernel": kernel, "demangled": demangled(kernel), "dispatch_a": a, "dispatch_b": b,
        "result": "NO_PARTNER", "status": Exit::Mismatch as u8,
    })
}

/// An error as an object for programs.
pub(super) fn error([a, b]: [u64; 2], error: &anyhow::Error, status: Exit) -> Value {
    json!({
        "dispatch_a": a, "dispatch_b": b, "result": word(status), "status": status as u8,
        "error": format!("{error:#}"),
    })
}
