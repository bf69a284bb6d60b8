//! Tables of rocprofv3.

use std::fs;

use logdur_report::rows::{Kind, Process};
use logdur_report::{Line, Log};
use logdur_rocprof::trace::{self, Table};

/// As rocprofv3 writes it (rocprofiler-sdk 1.x); older versions have numbers in the place of `Agent 4`.
const KERNELS: &str = r#""Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,0,17,1,12,"void add<int>(int*, int)",1,100,140,512,16,32,4,16,256,1,1,4096,2,1
"KERNEL_DISPATCH",5,2,0,17,2,12,"a ""quoted"" name",2,150,151,0,0,8,0,16,64,1,1,64,1,1
"#;

const COPIES: &str = r#""Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 4",1,10,30
"MEMORY_COPY","DEVICE_TO_HOST",0,"Agent 4","Agent 0",2,40,50
"#;

fn lines(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.csv");
    fs::write(&file, text).unwrap();
    let table = Table::of_file(&file).unwrap().unwrap();
    let mut log = Log::new(trace::open(&file, table).unwrap());
    let mut all = Vec::new();
    loop {
        match log.next_line() {
            Ok(None) => return all,
            Ok(Some(Line::Row(row))) => {
                assert_eq!(row.process, Process::default());
                let (start, end) = row.times.unwrap();
                let what = match row.kind {
                    Kind::Dispatch => {
                        let thread = row.thread.unwrap();
                        format!("queue {} {:?} {:?} thread {thread}", row.queue, row.grid, row.workgroup)
                    }
                    other => format!("{other:?}"),
                };
                all.push(format!("{} {start} {end} agent {} {what}", row.kernel, row.agent));
            }
            Ok(Some(line)) => panic!("{line:?}"),
            Err(error) => {
                all.push(error.to_string());
                return all;
            }
        }
    }
}

#[test]
fn a_table_of_kernels_has_the_rows_of_a_log() {
    let expected = [
        "void add<int>(int*, int) 100 140 agent 4 queue 1 [4096, 2, 1] [256, 1, 1] thread 17",
        "a \"quoted\" name 150 151 agent 5 queue 2 [64, 1, 1] [64, 1, 1] thread 17",
    ];
    assert_eq!(lines(KERNELS), expected);
}

#[test]
fn a_table_of_copies_has_the_sides_of_each() {
    let expected = [
        "copy from host to GPU 4 10 30 agent 4 Copy { bytes: 0 }",
        "copy from GPU 4 to host 40 50 agent 4 Copy { bytes: 0 }",
    ];
    assert_eq!(lines(COPIES), expected);
}

#[test]
fn a_line_that_is_no_row_is_named_with_its_number_and_ends_the_reading() {
    let told = lines(&KERNELS.replace("150", "soon"));
    assert_eq!(told.last().unwrap(), "line 3: expected a number in Start_Timestamp, found \"soon\"");
    assert!(lines(&KERNELS.replace(",64,1,1\n", "\n")).last().unwrap().contains("line: 3"), "{told:?}");
}

#[test]
fn other_tables_are_told_apart_by_their_headers() {
    assert_eq!(Table::of("\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\"\n"), Some(Table::Sums));
    assert_eq!(Table::of("kernel,dispatch,startNs,endNs"), None);
    assert_eq!(Table::of(""), None);
}
