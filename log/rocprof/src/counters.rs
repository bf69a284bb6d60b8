//! The table `counter_collection.csv` of `rocprofv3 --pmc`: a row for each counter of each dispatch.
//!
//! Source of the columns: `generateCSV.cpp` of rocprofiler-sdk (rocm-systems, 2025). Older versions lack `Accum_VGPR_Count`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::RocprofError;

/// Columns that are read.
const DISPATCH: &str = "Dispatch_Id";
const KERNEL: &str = "Kernel_Name";
const COUNTER: &str = "Counter_Name";
const VALUE: &str = "Counter_Value";

/// The end of the name of such a file.
pub const FILE: &str = "counter_collection.csv";

/// A counter of a dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The number of the dispatch in its process.
    pub dispatch: u64,
    /// The kernel, as the table spells it.
    pub kernel: String,
    /// The counter.
    pub counter: String,
    /// Its value.
    pub value: f64,
}

/// The rows of a file.
///
/// # Errors
/// When it cannot be read, or lacks a column; a row without a number.
pub fn read(path: &Path) -> Result<Vec<Counted>, RocprofError> {
    rows(File::open(path)?)
}

fn rows(from: impl Read) -> Result<Vec<Counted>, RocprofError> {
    let mut file = csv::Reader::from_reader(from);
    let names = file.headers()?.clone();
    let at = |column: &'static str| {
        names.iter().position(|name| name == column).ok_or_else(|| RocprofError::Cell {
            line: 1,
            column,
            expected: "that column",
            found: names.iter().collect::<Vec<_>>().join(",").chars().take(40).collect(),
        })
    };
    let (dispatch, kernel, counter, value) = (at(DISPATCH)?, at(KERNEL)?, at(COUNTER)?, at(VALUE)?);
    let mut all = Vec::new();
    for record in file.records() {
        let record = record?;
        let text = |at: usize| record.get(at).unwrap_or_default();
        let error = |at: usize, column| RocprofError::Cell {
            line: record.position().map_or(0, csv::Position::line),
            column,
            expected: "a number",
            found: text(at).chars().take(40).collect(),
        };
        all.push(Counted {
            dispatch: text(dispatch).parse().map_err(|_| error(dispatch, DISPATCH))?,
            kernel: text(kernel).to_owned(),
            counter: text(counter).to_owned(),
            // A quotient may be none: `nan`.
            value: text(value).parse().map_err(|_| error(value, VALUE))?,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As rocprofv3 writes it.
    const TABLE: &str = r#""Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 2",1,34679,34679,1048576,19,"vectoradd(float*, int)",256,0,0,8,0,16,"SQ_INSTS_SALU",98304.000000,1209908919889,1209909170247
1,2,"Agent 2",1,34679,34679,1048576,19,"vectoradd(float*, int)",256,0,0,8,0,16,"VALUBusy",24.657900,1209908919889,1209909170247
"#;

    #[test]
    fn each_row_is_a_counter_of_a_dispatch() {
        let counted = |dispatch, counter: &str, value| Counted {
            dispatch,
            kernel: "vectoradd(float*, int)".to_owned(),
            counter: counter.to_owned(),
            value,
        };
        let expected = [counted(1, "SQ_INSTS_SALU", 98304.0), counted(2, "VALUBusy", 24.6579)];
        assert_eq!(rows(TABLE.as_bytes()).unwrap(), expected);
        // Older versions have fewer columns.
        let older = TABLE.replace("\"Accum_VGPR_Count\",", "").replace(",8,0,16,", ",8,16,");
        assert_eq!(rows(older.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_such_table_or_row_is_an_error_that_names_it() {
        let told = |text: &str| rows(text.as_bytes()).unwrap_err().to_string();
        assert!(told("").contains("line 1: expected that column in Dispatch_Id"), "{}", told(""));
        let other = TABLE.replace("Counter_Value", "Value");
        assert!(told(&other).contains("in Counter_Value, found \"Correlation_Id,Dispatch_Id"), "{}", told(&other));
        assert!(rows(TABLE.replace("24.657900", "nan").as_bytes()).unwrap()[1].value.is_nan());
        for value in ["many", ""] {
            let bad = told(&TABLE.replace("24.657900", value));
            assert_eq!(bad, format!("line 3: expected a number in Counter_Value, found {value:?}"));
        }
        let short = TABLE.replace(",1209908919889,1209909170247\n", "\n");
        assert!(told(&short).contains("line: 2"), "{}", told(&short));
    }
}
