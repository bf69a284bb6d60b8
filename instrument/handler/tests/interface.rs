//! The header as C and as C++, and the example handlers with messages that are known.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use logdur_handler::abi::{self, HandlerTable};
use logdur_handler::messages::{Access, AddressSpace, Header, Kind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A compiler with all warnings as errors.
fn compiler(name: &str, standard: &str) -> Command {
    let mut command = Command::new(name);
    command
        .args([standard, "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-I"])
        .arg(root().join("instrument/include"));
    command
}

#[test]
fn the_header_is_c_and_cxx() {
    let folder = tempfile::tempdir().unwrap();
    let languages =
        [("cc", "-std=c99", "c"), ("cc", "-std=c17", "c"), ("c++", "-std=c++11", "cpp"), ("c++", "-std=c++20", "cpp")];
    for (name, standard, suffix) in languages {
        let file = folder.path().join("twice").with_extension(suffix);
        std::fs::write(
            &file,
            "#include \"logdur_handler.h\"\n#include \"logdur_handler.h\"\nint main(void) { return 0; }\n",
        )
        .unwrap();
        run(compiler(name, standard).arg("-fsyntax-only").arg(file));
    }
}

/// What a handler has written.
#[derive(Default)]
struct Written(String);

unsafe extern "C" fn write(context: *mut c_void, bytes: *const c_char, length: usize) -> c_int {
    // SAFETY: the context is what `examples` passes, which nothing else uses meanwhile.
    let written = unsafe { &mut *context.cast::<Written>() };
    // SAFETY: the handler has so many bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), length) };
    written.0 += std::str::from_utf8(bytes).unwrap();
    0
}

/// A message of 3 lanes that read 4 bytes each, two pages apart, a block, and an interval.
fn messages() -> Vec<u8> {
    let access = Access { reads: true, writes: false, space: AddressSpace::Global, bytes: 4 };
    let address = Header {
        exec: 0b1011,
        lanes: 3,
        is_vector: true,
        data_bytes: 24,
        line: 7,
        user_data: access.number(),
        kind: Kind::Address,
        ..Header::default()
    };
    let block = Header { exec: 1, lanes: 1, line: 9, kind: Kind::BlockStart, ..Header::default() };
    let interval = Header { data_bytes: 16, kind: Kind::TimeInterval, ..block };
    let mut bytes = address.to_bytes().to_vec();
    bytes.extend([0x1000_u32, 0x3000, 0x3004, 1, 1, 1].iter().flat_map(|dword| dword.to_le_bytes()));
    bytes.extend(block.to_bytes());
    bytes.extend(interval.to_bytes());
    bytes.extend([0; 16]);
    bytes
}

/// What a library's handler writes about the messages above.
fn report(library: &Path, name: &str) -> String {
    let mut written = Written::default();
    let bytes = messages();
    let name = CString::new(name).unwrap();
    let mut error = [0 as c_char; 256];
    let (room, error) = (error.len(), error.as_mut_ptr());
    // SAFETY: the library is one of ours, without initialisers that matter.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the symbol has this type.
    let entry = unsafe { library.get::<abi::HandlerEntry>(b"logdur_handler") }.unwrap();
    // SAFETY: the name ends with 0.
    let unknown = unsafe { entry(c"no such handler".as_ptr(), abi::LOGDUR_HANDLER_VERSION) };
    assert!(unknown.is_null());
    // SAFETY: as above.
    let table = unsafe { entry(name.as_ptr(), abi::LOGDUR_HANDLER_VERSION) };
    // SAFETY: the table is valid as long as the library is loaded.
    let table = unsafe { table.as_ref() }.unwrap();
    assert_eq!((table.size, table.version), (size_of::<HandlerTable>() as u64, abi::LOGDUR_HANDLER_VERSION));
    let host = abi::Host {
        size: size_of::<abi::Host>() as u64,
        version: abi::LOGDUR_HANDLER_VERSION,
        context: ptr::from_mut(&mut written).cast(),
        write: Some(write),
        notice: None,
        source_file: None,
        source_position: None,
    };
    let info = abi::OpenInfo {
        size: size_of::<abi::OpenInfo>() as u64,
        host: &host,
        name: name.as_ptr(),
        options: ptr::null(),
        option_count: 0,
        output: ptr::null(),
        format: abi::LOGDUR_FORMAT_TEXT,
    };
    let mut context = ptr::null_mut();
    let text = || {
        // SAFETY: the text ends with 0, at the latest where the array was filled with it.
        unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
    };
    // SAFETY: all of the structure is valid.
    assert_eq!(unsafe { table.open.unwrap()(&info, &mut context, error, room) }, 0, "{}", text());
    let begin = abi::DispatchInfo {
        size: size_of::<abi::DispatchInfo>() as u64,
        dispatch: 5,
        agent: 0,
        processor: c"gfx90a".as_ptr(),
        kernel: c"add(float*)".as_ptr(),
        mangled: c"_Z3addPf".as_ptr(),
        clone: c"__amd_crk__Z3addPfPv".as_ptr(),
        grid: [64, 1, 1],
        workgroup: [64, 1, 1],
        code: ptr::null(),
        code_bytes: 0,
        code_uri: c"".as_ptr(),
        load_delta: 0,
    };
    if let Some(dispatch_begin) = table.dispatch_begin {
        // SAFETY: as above.
        assert_eq!(unsafe { dispatch_begin(context, &begin, error, room) }, 0, "{}", text());
    }
    let size = size_of::<abi::Batch>() as u64;
    let batch = abi::Batch { size, dispatch: 5, bytes: bytes.as_ptr(), length: bytes.len() as u64, messages: 3 };
    // SAFETY: as above.
    assert_eq!(unsafe { table.messages.unwrap()(context, &batch, error, room) }, 0, "{}", text());
    let result = abi::DispatchResult {
        size: size_of::<abi::DispatchResult>() as u64,
        dispatch: 5,
        duration_ns: 0,
        messages: 3,
        bytes: batch.length,
        bytes_sent: batch.length,
        errors: 0,
    };
    // SAFETY: as above.
    assert_eq!(unsafe { table.dispatch_end.unwrap()(context, &result, error, room) }, 0, "{}", text());
    // SAFETY: as above; the context is not used any more.
    unsafe { table.close.unwrap()(context) };
    written.0
}

#[test]
fn the_examples_read_messages_in_c_cxx_and_rust() {
    let folder = tempfile::tempdir().unwrap();
    let examples = root().join("docs/example/handlers");
    let library = |name: &str| folder.path().join(name);
    let shared = ["-shared", "-fPIC", "-o"];
    run(compiler("cc", "-std=c99").args(shared).arg(library("count.so")).arg(examples.join("count.c")));
    run(compiler("c++", "-std=c++11").args(shared).arg(library("lanes.so")).arg(examples.join("lanes.cpp")));
    run(Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "example-handler"])
        .arg("--target-dir")
        .arg(built()));
    assert_eq!(
        report(&library("count.so"), ""),
        "add(float*): dispatch 5: 1 addresses, 1 blocks, 1 intervals, 0 others, 12 bytes read, 0 written, errors 0\n"
    );
    assert_eq!(
        report(&library("lanes.so"), ""),
        "dispatch 5\n  ?:7: 1 messages, 3 active lanes\n  ?:9: 2 messages, 2 active lanes\n"
    );
    let pages = "dispatch 5 of add(float*): 2 pages\n  0x100001000: 1\n  0x100003000: 2\n";
    let rust = built().join("debug/libexample_handler.so");
    assert_eq!([report(&rust, ""), report(&rust, "Pages")], [pages, pages]);
}

/// Cargo's folder of built files.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}
