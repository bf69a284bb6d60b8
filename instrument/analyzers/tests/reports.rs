//! The analyzers through the C interface, with messages whose accesses are known.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use logdur_handler::abi::{self, LOGDUR_FORMAT_CSV, LOGDUR_FORMAT_JSON, LOGDUR_FORMAT_TEXT};
use logdur_handler::messages::{Access, AddressSpace, Header, Kind};
use serde_json::Value;

/// Takes what a handler writes.
unsafe extern "C" fn write(context: *mut c_void, bytes: *const c_char, length: usize) -> c_int {
    // SAFETY: the handler has so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    // SAFETY: the context is the report of `report`, which waits for the handler.
    unsafe { (*context.cast::<Vec<u8>>()).extend_from_slice(bytes) };
    0
}

unsafe extern "C" fn notice(_context: *mut c_void, _text: *const c_char) {}

/// A message of some lanes.
fn message(header: Header, addresses: &[u64]) -> Vec<u8> {
    let halves = |shift: u32| addresses.iter().flat_map(move |a| ((a >> shift) as u32).to_le_bytes());
    let data: Vec<u8> = halves(0).chain(halves(32)).collect();
    let header = Header { data_bytes: data.len() as u64, is_vector: !data.is_empty(), ..header };
    [header.to_bytes().to_vec(), data].concat()
}

fn access(line: u32, access: Access, addresses: &[u64]) -> Vec<u8> {
    let (lanes, exec) = (addresses.len() as u8, u64::MAX >> (64 - addresses.len()));
    let user_data = access.number();
    message(Header { line, kind: Kind::Address, user_data, lanes, exec, ..Header::default() }, addresses)
}

fn block(number: u32, time: u64, exec: u64) -> Vec<u8> {
    let lanes = exec.count_ones() as u8;
    let header = Header { kind: Kind::BlockStart, user_data: number, line: 10 + number, ..Header::default() };
    message(Header { timestamp: time, exec, lanes, ..header }, &[])
}

const READ: Access = Access { reads: true, writes: false, space: AddressSpace::Global, bytes: 4 };
const LDS: Access = Access { reads: false, writes: true, space: AddressSpace::Lds, bytes: 4 };

/// What an analyzer writes of one dispatch of a kernel with a comma and quotes in its name.
fn report(name: &str, format: u32, messages: &[Vec<u8>]) -> String {
    let mut written: Vec<u8> = Vec::new();
    let host = abi::Host {
        size: size_of::<abi::Host>() as u64,
        version: abi::LOGDUR_HANDLER_VERSION,
        context: (&raw mut written).cast(),
        write: Some(write),
        notice: Some(notice),
        source_file: None,
        source_position: None,
    };
    let [name, kernel, empty, processor] =
        [name, "f<\"x\">(int, float)", "", "gfx90a"].map(|text| CString::new(text).unwrap());
    // SAFETY: the name ends with 0.
    let table = unsafe { logdur_analyzers::logdur_handler(name.as_ptr(), abi::LOGDUR_HANDLER_VERSION) };
    // SAFETY: it is null, or a table that stays.
    let table = unsafe { table.as_ref() }.unwrap();
    let info = abi::OpenInfo {
        size: size_of::<abi::OpenInfo>() as u64,
        host: &raw const host,
        name: name.as_ptr(),
        options: ptr::null(),
        option_count: 0,
        output: ptr::null(),
        format,
    };
    let dispatch = abi::DispatchInfo {
        size: size_of::<abi::DispatchInfo>() as u64,
        dispatch: 7,
        agent: 0,
        processor: processor.as_ptr(),
        kernel: kernel.as_ptr(),
        mangled: empty.as_ptr(),
        clone: empty.as_ptr(),
        grid: [64, 1, 1],
        workgroup: [64, 1, 1],
        code: ptr::null(),
        code_bytes: 0,
        code_uri: empty.as_ptr(),
        load_delta: 0,
    };
    let bytes = messages.concat();
    let (size, count) = (size_of::<abi::Batch>() as u64, messages.len() as u64);
    let batch = abi::Batch { size, dispatch: 7, bytes: bytes.as_ptr(), length: bytes.len() as u64, messages: count };
    let size = size_of::<abi::DispatchResult>() as u64;
    let (sent, none) = (bytes.len() as u64, 0);
    let result = abi::DispatchResult {
        size,
        dispatch: 7,
        duration_ns: 1,
        messages: count,
        bytes: sent,
        bytes_sent: sent,
        errors: none,
    };
    let (mut context, mut error) = (ptr::null_mut(), [0; 256]);
    let (text, room) = (error.as_mut_ptr(), error.len());
    // SAFETY: the structure is whole and lives until the call returns.
    assert_eq!(unsafe { table.open.unwrap()(&raw const info, &raw mut context, text, room) }, 0);
    // SAFETY: as above; the context is what `open` has stored.
    assert_eq!(unsafe { table.dispatch_begin.unwrap()(context, &raw const dispatch, text, room) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { table.messages.unwrap()(context, &raw const batch, text, room) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { table.dispatch_end.unwrap()(context, &raw const result, text, room) }, 0);
    // SAFETY: as above, and the context is used no more.
    unsafe { table.close.unwrap()(context) };
    String::from_utf8(written).unwrap()
}

/// 64 lanes, so many bytes apart.
fn strided(start: u64, stride: u64) -> Vec<u64> {
    (0..64).map(|lane| start + lane * stride).collect()
}

fn all() -> Vec<Vec<u8>> {
    vec![
        block(0, 1000, u64::MAX),
        access(20, READ, &strided(0x10_0000, 16)),
        access(20, READ, &strided(0x10_0000, 0)),
        block(1, 1500, 0xffff),
        access(21, LDS, &strided(0x1_0000_0000_0000, 128)),
        access(22, Access { space: AddressSpace::Flat, ..READ }, &strided(0x1_0000_0000_0000, 4)),
        block(0, 1800, u64::MAX),
    ]
}

#[test]
fn cache_lines_and_bank_conflicts_are_those_of_the_lanes() {
    let report: Value = serde_json::from_str(&report("MemoryAnalysis", LOGDUR_FORMAT_JSON, &all())).unwrap();
    let kernel = &report["kernel_analysis"];
    assert_eq!(kernel["kernel_info"]["dispatch_id"], 7);
    let lines = kernel["cache_analysis"]["accesses"].as_array().unwrap();
    assert_eq!(lines.len(), 1);
    // 64 lanes 16 bytes apart are in eight lines of 128 bytes, and 256 bytes would be in two; one dword is in one.
    assert_eq!(lines[0]["access_info"]["execution_count"], 2);
    assert_eq!(lines[0]["access_info"]["cache_lines"], serde_json::json!({"needed": 3, "used": 9}));
    let lds = kernel["bank_conflicts"]["accesses"].as_array().unwrap();
    let found: Vec<_> =
        lds.iter().map(|a| (&a["source_location"]["line"], &a["access_info"]["total_conflicts"])).collect();
    // A column of a tile of 32 dwords: each half of the wave needs 32 cycles.
    assert_eq!(format!("{found:?}"), "[(Number(21), Number(62)), (Number(22), Number(0))]");
    assert_eq!(report["metadata"]["gpu_info"]["cache_line_size"], 128);
}

#[test]
fn blocks_have_their_own_lanes_and_the_time_until_the_next_block() {
    let text = report("BasicBlockAnalysis", LOGDUR_FORMAT_JSON, &all());
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |number: u64| objects.iter().find(|o| o["block"] == number).unwrap();
    let [first, second] = [of(0), of(1)];
    assert_eq!(
        (&first["block_count"], &first["block_duration"], &first["block_timed"]),
        (&2.into(), &500.into(), &1.into())
    );
    assert_eq!((&second["block_duration"], &second["block_branchiness"]), (&300.into(), &0.75.into()));
    assert_eq!((&first["block_start_line"], &first["block_end_line"]), (&10.into(), &20.into()));
}

#[test]
fn pages_count_lanes_in_global_memory_only() {
    let report: Value = serde_json::from_str(&report("Heatmap", LOGDUR_FORMAT_JSON, &all())).unwrap();
    let page = serde_json::json!([{"start_address": 0x10_0000, "end_address": 0x1f_ffff, "accesses": 128}]);
    assert_eq!((&report["dispatch_id"], &report["pages"]), (&7.into(), &page));
}

#[test]
fn each_analyzer_writes_whole_objects_and_rows_of_one_length() {
    let names =
        ["Heatmap", "MemoryAnalysis", "BasicBlockAnalysis", "MessageLogger", "AddressLogger", "BasicBlockLogger"];
    for name in names {
        let objects = report(name, LOGDUR_FORMAT_JSON, &all());
        for line in objects.lines() {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}: {line}"));
            assert!(object.to_string().contains("f<\\\"x\\\">(int, float)"), "{name}: {object}");
        }
        let rows = report(name, LOGDUR_FORMAT_CSV, &all());
        let mut reader = csv::Reader::from_reader(rows.as_bytes());
        let rows: Vec<_> = reader.records().collect();
        assert!(rows.iter().all(Result::is_ok), "{name}: {rows:?}");
        assert!(!rows.is_empty() && objects.lines().count() > 0, "{name}");
        assert!(report(name, LOGDUR_FORMAT_TEXT, &all()).contains("f<\"x\">(int, float)"), "{name}");
    }
}
