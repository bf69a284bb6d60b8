use super::*;

const HEADER: &str = "kernel,dispatch,startNs,endNs,durationNs,id,agent,queue,grid,workgroup,ldsBytes,scratchBytes,kernargBytes,kernelObject,flags,replaced\n";
/// What later versions have added.
const LATER: &str = "kind,bytes,pid,rank,vgprs,agprs,sgprs,tid";

fn all(text: &str) -> Vec<String> {
    let mut log = Log::new(text.as_bytes());
    let mut lines = Vec::new();
    loop {
        match log.next_line() {
            Ok(Some(line)) => lines.push(format!("{line:?}")),
            Ok(None) => return lines,
            Err(error) => {
                lines.push(error.to_string());
                return lines;
            }
        }
    }
}

fn row() -> Row<'static> {
    Row {
        kernel: "f(a, \"b\")".into(),
        dispatch: Some(1),
        times: Some((2, 5)),
        agent: 1,
        queue: 7,
        grid: [64, 2, 1],
        workgroup: [64, 1, 1],
        replaced: true,
        process: Process { rank: Some(3), pid: Some(99) },
        kind: Kind::Dispatch,
    }
}

#[test]
fn rows_of_both_formats_are_the_same() {
    let header = HEADER.replace('\n', &format!(",{LATER}\n"));
    let csv = format!(
        "{header}\"f(a, \"\"b\"\")\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\"ab12\",dispatch,,99,3,8,0,16,\n"
    );
    let json = r#"{"kernel":"f(a, \"b\")","dispatch":1,"startNs":2,"endNs":5,"durationNs":3,"id":0,"agent":1,"queue":7,"grid":[64,2,1],"workgroup":[64,1,1],"flags":[],"replaced":"ab12","kind":"dispatch","bytes":null,"pid":99,"rank":3,"vgprs":8,"agprs":0,"sgprs":16,"tid":null}"#;
    let expected = format!("{:?}", Line::Row(row()));
    assert_eq!(all(&csv), ["Other", expected.as_str()]);
    assert_eq!(all(json), [expected.as_str()]);
    // The columns of logduration, and a header in the middle.
    let few = all(&format!(
        "kernel,dispatch,startNs,endNs\n\"g\",1,2,5\n{HEADER}\"=1\",1,,,,0,1,7,64x2x1,64x1x1,0,0,8,0x10,no-times,\n"
    ));
    assert!(few[1].contains("\"g\"") && few[1].contains("Some((2, 5))"), "{few:?}");
    assert!(few[3].contains("\"=1\"") && few[3].contains("times: None"), "{few:?}");
}

#[test]
fn names_of_a_safe_log_are_those_of_the_kernels_and_names_of_others_stay_as_they_are() {
    use logdur_journal::lines::{Format, Lines};
    let rows = "\"'=f\",1,2,5\n\"''g\",1,2,5\n\"h\",1,2,5\n".replace('\n', &format!("{}\n", ",".repeat(20)));
    for (format, expected) in [(Format::CsvSafe, ["=f", "'g", "h"]), (Format::Csv, ["'=f", "''g", "h"])] {
        let text = format!("{}# notice: a line\n{rows}", Lines::of(format).header());
        let mut log = Log::new(text.as_bytes());
        log.choose(&["kernel"]);
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        while let Some(line) = log.next_line().unwrap() {
            if let Line::Row(row) = line {
                names.push(row.kernel.into_owned());
                texts.extend(log.texts().into_iter().flatten().map(Cow::into_owned));
            }
        }
        assert_eq!((names, texts), (expected.map(str::to_owned).to_vec(), expected.map(str::to_owned).to_vec()));
    }
}

#[test]
fn lines_about_the_log_are_told_from_rows() {
    let found =
        all("# records: /x\n# agent 1: gfx90a, MI210\n# account: pid=3 seen=5 logged=4\n# notice: kernel,startNs\n\n");
    assert_eq!(found[1], "Agent { position: 1, name: \"gfx90a, MI210\" }");
    assert_eq!(found[2], "Account([(\"pid\", 3), (\"seen\", 5), (\"logged\", 4)])");
    assert_eq!((found[0].as_str(), found[3].as_str(), found.len()), ("Other", "Other", 5));
    let found = all(
        "{\"agent\":1,\"name\":\"gfx90a\",\"product\":\"MI210\"}\n{\"account\":{\"pid\":3,\"seen\":5}}\n{\"notice\":\"x\"}\n",
    );
    assert_eq!(found[0], "Agent { position: 1, name: \"gfx90a, MI210\" }");
    assert_eq!((found[1].as_str(), found[2].as_str()), ("Account([(\"pid\", 3), (\"seen\", 5)])", "Other"));
}

#[test]
fn rows_of_an_earlier_run_in_the_same_log_are_left_out() {
    let earlier = format!("{HEADER}\"f\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\n# account: pid=3 seen=1\n");
    let text = format!("{earlier}\"g\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\n");
    let mut log = Log::new(text.as_bytes()).appended_after(earlier.len() as u64);
    let mut rows = Vec::new();
    while let Some(line) = log.next_line().unwrap() {
        rows.extend(Some(format!("{line:?}")).filter(|line| line != "Other"));
    }
    assert!(rows.len() == 1 && rows[0].contains("\"g\""), "{rows:?}");
}

#[test]
fn what_is_cut_off_or_damaged_is_named_and_what_is_no_log_is_refused() {
    for damaged in [
        "\"f\",1,2,5",
        "\"f\",1,2,5,3,0,1,x,64x2x1,64x1x1,0,0,8,0x10,,",
        "\"f\",1,2,5,3,0,1,7,64x2,64x1x1,0,0,8,0x10,,",
        "{\"kernel\":\"f",
    ] {
        let found = all(&format!("{HEADER}{damaged}"));
        assert!(found[1].starts_with("Unreadable"), "{damaged}: {found:?}");
    }
    for foreign in ["Name,Calls\nf,1\n", "\u{7f}ELF\n", "\"f\",1,2,5\n"] {
        assert!(all(foreign)[0].starts_with("line 1: expected a header"), "{foreign:?}");
    }
    let long =
        format!("{HEADER}\"{}\"\n\"f\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\n", "x".repeat(LONGEST_LINE + 5));
    let found = all(&long);
    assert!(found[1].contains("longer than") && found[2].starts_with("Row"), "{}", found[1]);
}
