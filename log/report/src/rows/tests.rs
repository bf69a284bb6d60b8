use logdur_journal::lines::Format;

use super::*;
use crate::processes::LastRun;

const HEADER: &str = "kernel,dispatch,startNs,endNs,durationNs,id,agent,queue,grid,workgroup,ldsBytes,scratchBytes,kernargBytes,kernelObject,flags,replaced\n";
/// What later versions have added.
const LATER: &str = "kind,bytes,pid,rank,vgprs,agprs,sgprs,tid,code,symbol,site";

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
        code: "lib.so#12".into(),
        process: Process { rank: Some(3), pid: Some(99) },
        thread: Some(101),
        site: Some(4),
        kind: Kind::Dispatch,
    }
}

#[test]
fn rows_of_both_formats_are_the_same() {
    let header = HEADER.replace('\n', &format!(",{LATER}\n"));
    let csv = format!(
        "{header}\"f(a, \"\"b\"\")\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\"ab12\",dispatch,,99,3,8,0,16,101,\"lib.so#12\",,4\n"
    );
    let json = r##"{"kernel":"f(a, \"b\")","dispatch":1,"startNs":2,"endNs":5,"durationNs":3,"id":0,"agent":1,"queue":7,"grid":[64,2,1],"workgroup":[64,1,1],"flags":[],"replaced":"ab12","kind":"dispatch","bytes":null,"pid":99,"rank":3,"vgprs":8,"agprs":0,"sgprs":16,"tid":101,"code":"lib.so#12","symbol":null,"site":4}"##;
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
fn a_log_whose_header_was_cut_off_is_read_by_the_columns_of_its_version_or_refused_with_the_remedy() {
    let now =
        "\"f(a, \"\"b\"\")\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\"ab12\",dispatch,,99,3,8,0,16,101,\"lib.so#12\"";
    // What later versions have added is empty.
    let now = &*format!("{now}{}\n", ",".repeat(COLUMNS.len() - 25));
    let expected = format!("{:?}", Line::Row(Row { site: None, ..row() }));
    assert_eq!(all(now), [expected.as_str()]);
    // The columns are found again by the next header, and chosen ones without any.
    let later = all(&format!("# notice: a line\n{now}{now}kernel,dispatch,startNs,endNs\n\"g\",1,2,5\n"));
    assert_eq!(later[..4], ["Other", &expected, &expected, "Other"]);
    assert!(later[4].contains("\"g\"") && later[4].contains("Some((2, 5))"), "{later:?}");
    let mut log = Log::new(now.as_bytes());
    log.choose(&["sgprs", "kernel"]);
    assert!(matches!(log.next_line(), Ok(Some(Line::Row(_)))));
    assert_eq!(log.texts(), [Some("16".into()), Some("f(a, \"b\")".into())]);
    // A row of no version, rows of others, and a line that lacks its beginning.
    let fewer = now.replace(",8,0,16,", ",8,0,16");
    let shifted = now.replace("\"f(a, \"\"b\"\")\",1", "1,\"f\"");
    for foreign in [&*fewer, &shifted, "name,age,town,street\n", "a,,,\n", "\"g\",1,2,5\n", &now[20..]] {
        let read = all(foreign);
        assert!(read[0].starts_with("line 1: expected a header with kernel") && read.len() == 1, "{foreign}: {read:?}");
        assert!(
            read[0].contains(&format!("rows of {} columns", COLUMNS.len()))
                && read[0].contains("put the log's first line before it")
        );
    }
}

#[test]
fn names_of_a_safe_log_are_those_of_the_kernels_and_names_of_others_stay_as_they_are() {
    use logdur_journal::lines::{Format, Lines};
    let rows =
        "\"'=f\",1,2,5\n\"''g\",1,2,5\n\"h\",1,2,5\n".replace('\n', &format!("{}\n", ",".repeat(COLUMNS.len() - 4)));
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
fn sites_of_both_formats_are_the_same_and_torn_ones_are_no_sites() {
    use logdur_journal::lines::{Format, Lines};
    let frames = ["/a \"b\", c/app+0x12".to_owned(), "0x7f10".to_owned()];
    for format in [Format::Csv, Format::CsvSafe, Format::Json] {
        let mut text = Vec::new();
        Lines::of(format).site(&mut text, 17, 3, &frames);
        let text = String::from_utf8(text).unwrap();
        let expected = Line::Site { number: 3, pid: 17, frames: frames.to_vec() };
        assert_eq!(all(&text), [format!("{expected:?}")]);
        let torn = all(&text[..text.len() - 5]);
        assert!(!torn[0].starts_with("Site"), "{torn:?}");
    }
}

#[test]
fn lines_about_the_log_are_told_from_rows() {
    let found =
        all("# records: /x\n# agent 1: gfx90a, MI210\n# account: pid=3 seen=5 logged=4\n# notice: kernel,startNs\n\n");
    assert_eq!(found[1], "Agent { position: 1, name: Some(\"gfx90a, MI210\"), device: None }");
    assert_eq!(found[2], "Account([(\"pid\", 3), (\"seen\", 5), (\"logged\", 4)])");
    assert_eq!((found[0].as_str(), found[3].as_str(), found.len()), ("Other", "Other", 5));
    let found = all(
        "{\"agent\":1,\"name\":\"gfx90a\",\"product\":\"MI210\"}\n{\"account\":{\"pid\":3,\"seen\":5}}\n{\"notice\":\"x\"}\n",
    );
    assert_eq!(found[0], "Agent { position: 1, name: Some(\"gfx90a, MI210\"), device: None }");
    assert_eq!((found[1].as_str(), found[2].as_str()), ("Account([(\"pid\", 3), (\"seen\", 5)])", "Other"));
}

#[test]
fn rows_of_an_earlier_run_in_the_same_log_are_left_out() {
    let earlier = format!("{HEADER}\"f\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\n# account: pid=3 seen=1\n");
    let text = format!("{earlier}\"g\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,\n");
    let mut log = Log::new(text.as_bytes()).of_run(LastRun { from: earlier.len() as u64, pids: Vec::new() });
    let mut rows = Vec::new();
    while let Some(line) = log.next_line().unwrap() {
        rows.extend(Some(format!("{line:?}")).filter(|line| line != "Other"));
    }
    assert!(rows.len() == 1 && rows[0].contains("\"g\""), "{rows:?}");
}

#[test]
fn what_an_application_wrote_before_a_row_on_the_same_line_is_no_part_of_its_name() {
    let row = "\"f(int, char)\",1,2,5,3,0,1,7,64x2x1,64x1x1,0,0,8,0x10,,";
    let log = format!("....{HEADER}{row}\n....{row}\ndone: \"x\", {row}\n");
    let mut log = Log::new(log.as_bytes());
    let mut names = Vec::new();
    while let Some(line) = log.next_line().unwrap() {
        match line {
            Line::Row(row) => names.push(row.kernel.into_owned()),
            Line::Unreadable(_) => names.push("unreadable".to_owned()),
            _ => {}
        }
    }
    assert_eq!(names, ["f(int, char)", "f(int, char)", "unreadable"]);
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

#[path = "../../../journal/tests/packed/whole.rs"]
mod chunks;

#[test]
fn a_log_in_records_has_the_rows_lines_and_columns_of_one_in_text() {
    let (packed, text) = chunks::whole(Format::Csv);
    let names: &[&str] = &["kernel", "id", "durationNs", "grid", "flags", "kernelObject", "symbol", "none", "kind"];
    let read = |bytes: &[u8], run: &LastRun| {
        let mut log = Log::new(bytes).of_run(run.clone());
        log.choose(names);
        let mut all = Vec::new();
        while let Some(line) = log.next_line().unwrap() {
            let shown = format!("{line:?}");
            match line {
                // CSV says in two lines what chunks say in one.
                Line::Agent { .. } | Line::Other => {}
                Line::Row(_) => all.push((shown, format!("{:?}", log.texts()))),
                Line::Account(mut counters) => {
                    counters.sort();
                    all.push((format!("{counters:?}"), String::new()));
                }
                _ => all.push((shown, String::new())),
            }
        }
        (all, log.missing(), log.runs())
    };
    let all = LastRun::default();
    let expected = read(&text, &all);
    assert_eq!(expected.0.iter().filter(|(line, _)| line.starts_with("Row")).count() as u64, 2 * chunks::EACH);
    assert_eq!(read(&packed, &all), expected);
    // A later run in the same file begins at a byte of it.
    let both = [&packed[..], &packed[..]].concat();
    let later = LastRun { from: packed.len() as u64, pids: vec![18] };
    let of_text = read(&[&text[..], &text[..]].concat(), &LastRun { from: text.len() as u64, pids: vec![18] });
    assert_eq!(read(&both, &later).0, of_text.0);
    assert_eq!(
        read(&packed[..packed.len() - 5], &all).0.last().map(|(line, _)| line.starts_with("Unreadable")),
        Some(true)
    );
}
