//! The C interface between `liblogdur.so` and handlers, from which `instrument/include/logdur_handler.h` is printed.
//!
//! Every structure begins with its size, as the side that made it knows it. Fields are added at the end only, so that a reader
//! looks at a field only if the size covers it.

use std::ffi::{c_char, c_int, c_void};

/// The version of this interface. It is raised when something changes that sizes of structures do not show.
pub const LOGDUR_HANDLER_VERSION: u32 = 1;

/// `format` of `logdur_open_info`: text for people.
pub const LOGDUR_FORMAT_TEXT: u32 = 0;
/// `format` of `logdur_open_info`: comma-separated values, with a header line.
pub const LOGDUR_FORMAT_CSV: u32 = 1;
/// `format` of `logdur_open_info`: one JSON object a line.
pub const LOGDUR_FORMAT_JSON: u32 = 2;

/// A message's `kind`: an address for each active lane.
pub const LOGDUR_KIND_ADDRESS: u32 = 0;
/// A message's `kind`: two clocks of the wave.
pub const LOGDUR_KIND_TIME_INTERVAL: u32 = 1;
/// A message's `kind`: the wave enters a block.
pub const LOGDUR_KIND_BLOCK_START: u32 = 2;

/// Bit of `errors` of `logdur_dispatch_result`: the kernel dropped messages that were larger than a sub-buffer.
pub const LOGDUR_ERROR_TOO_LARGE: u32 = 1;
/// Bit of `errors`: bytes of a sub-buffer were no messages. What was before them was delivered.
pub const LOGDUR_ERROR_CORRUPT: u32 = 2;
/// Bit of `errors`: the kernel did not end, or it is not known whether it did. Messages may be missing.
pub const LOGDUR_ERROR_NOT_ENDED: u32 = 4;

/// A key and its value, of the user's configuration.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HandlerOption {
    /// The key.
    pub key: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// Where an instruction or a message comes from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SourcePosition {
    /// Bytes of this structure; the caller sets it.
    pub size: u64,
    /// The file; `NULL` if it is not known. Valid until `dispatch_end` returns.
    pub file: *const c_char,
    /// The line, from 1 on; 0 if it is not known.
    pub line: u32,
    /// The column, from 1 on; 0 if it is not known.
    pub column: u32,
}

/// Functions of the library for handlers. They may be called on the thread that calls the handler, during any call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Bytes of this structure.
    pub size: u64,
    /// The version of the interface that the library has.
    pub version: u32,
    /// The library's own; handlers pass it on.
    pub context: *mut c_void,
    /// Writes bytes to the output of handlers, all of them or none. 0 if they are written.
    pub write: Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const c_char, length: usize) -> c_int>,
    /// Writes a line into the log, as a notice.
    pub notice: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char)>,
    /// The name of the source file with a hash, as the messages of a dispatch have it, by the debug information of the dispatch's
    /// code object. `NULL` if it is not known. Valid until `dispatch_end` returns.
    pub source_file: Option<unsafe extern "C" fn(context: *mut c_void, dispatch: u64, hash: u64) -> *const c_char>,
    /// The source position of an instruction, by its address in the code object's file. 0 if it is known.
    pub source_position: Option<
        unsafe extern "C" fn(context: *mut c_void, dispatch: u64, address: u64, position: *mut SourcePosition) -> c_int,
    >,
}

/// What a handler is opened with. It and what it points to are valid during `open` only, but for `host`, which is until `close`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OpenInfo {
    /// Bytes of this structure.
    pub size: u64,
    /// Functions of the library.
    pub host: *const Host,
    /// The name that the user has written, without a path.
    pub name: *const c_char,
    /// The user's configuration.
    pub options: *const HandlerOption,
    /// How many options there are.
    pub option_count: u64,
    /// The file that `write` appends to; `NULL` for standard output.
    pub output: *const c_char,
    /// One of `LOGDUR_FORMAT_*`.
    pub format: u32,
}

/// A dispatch of an instrumented kernel. It and what it points to are valid during `dispatch_begin`, but for `code`, which stays as
/// long as the process lives: dispatches of the same code object have the same address there, of others another one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchInfo {
    /// Bytes of this structure.
    pub size: u64,
    /// The number of the dispatch in the process: the column `id` of its row. Batches name it.
    pub dispatch: u64,
    /// The position of the GPU among the GPUs.
    pub agent: u32,
    /// The GPU's processor, as `gfx90a`.
    pub processor: *const c_char,
    /// The kernel's name, demangled.
    pub kernel: *const c_char,
    /// The kernel's name, as in its code object.
    pub mangled: *const c_char,
    /// The name of the instrumented kernel that runs in its place.
    pub clone: *const c_char,
    /// Work-items.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub workgroup: [u32; 3],
    /// The code object of the instrumented kernel, an ELF file; `NULL` if it is not known.
    pub code: *const u8,
    /// Bytes of the code object.
    pub code_bytes: u64,
    /// Where the code object comes from, as a URI; empty if it is not known. `file://PATH#offset=N&size=N` is a part of a file,
    /// without the numbers a whole file; `memory://PROCESS#offset=ADDRESS&size=N` is memory, which the application may have freed.
    /// Letters, digits and `/-_.~` of a path stand for themselves, another byte is `%` and two hexadecimal digits; other numbers
    /// are in C's notation. Source: LLVM's AMDGPUUsage, "Loaded Code Object Path Uniform Resource Identifier (URI)".
    pub code_uri: *const c_char,
    /// What is added to addresses of the file by where it was loaded.
    pub load_delta: u64,
}

/// Messages of one dispatch. It and its bytes are valid during `messages` only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Bytes of this structure.
    pub size: u64,
    /// The dispatch.
    pub dispatch: u64,
    /// Whole messages that were checked: `logdur_next` goes through them. Aligned to 8 bytes.
    pub bytes: *const u8,
    /// How many bytes there are.
    pub length: u64,
    /// How many messages there are.
    pub messages: u64,
}

/// How a dispatch ended, and what came of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchResult {
    /// Bytes of this structure.
    pub size: u64,
    /// The dispatch.
    pub dispatch: u64,
    /// Nanoseconds that the instrumented kernel ran; 0 if it is not known.
    pub duration_ns: u64,
    /// Messages that were delivered.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the kernel has sent, with those that were no messages.
    pub bytes_sent: u64,
    /// Bits `LOGDUR_ERROR_*`.
    pub errors: u32,
}

/// A handler. All its functions are called on one thread, or on threads that exclude each other.
///
/// A function that returns an `int` returns 0, or another number after it wrote a text that ends with 0 into `error`, of at most
/// `room` bytes. The library then prints one notice, calls `close`, and calls the handler no more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HandlerTable {
    /// Bytes of this structure.
    pub size: u64,
    /// `LOGDUR_HANDLER_VERSION` of the header that the handler was compiled with. The library refuses a later one than its own.
    pub version: u32,
    /// Opens the handler; what it stores in `context` is passed to the other functions.
    pub open: Option<
        unsafe extern "C" fn(
            info: *const OpenInfo,
            context: *mut *mut c_void,
            error: *mut c_char,
            room: usize,
        ) -> c_int,
    >,
    /// A dispatch begins: its messages follow, between those of other dispatches. May be `NULL`.
    pub dispatch_begin: Option<
        unsafe extern "C" fn(context: *mut c_void, info: *const DispatchInfo, error: *mut c_char, room: usize) -> c_int,
    >,
    /// Messages of a dispatch. May be `NULL`.
    pub messages: Option<
        unsafe extern "C" fn(context: *mut c_void, batch: *const Batch, error: *mut c_char, room: usize) -> c_int,
    >,
    /// A dispatch has ended: there are no more messages of it. May be `NULL`.
    pub dispatch_end: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            result: *const DispatchResult,
            error: *mut c_char,
            room: usize,
        ) -> c_int,
    >,
    /// The last call, at the end of the process or after an error. May be `NULL`.
    pub close: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

/// What a library of handlers exports as `logdur_handler`: its handler with a name, or its only one for an empty name; `NULL` if
/// it has none of that name. `version` is the library's `LOGDUR_HANDLER_VERSION`. The table stays valid.
pub type HandlerEntry = unsafe extern "C" fn(name: *const c_char, version: u32) -> *const HandlerTable;

/// What `liblogdur_analyzers.so` exports as `logdur_sources`: debug information of code objects, which is heavy, and is loaded
/// when the first handler asks for a source position.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SourcesTable {
    /// Bytes of this structure.
    pub size: u64,
    /// Reads a code object, which stays valid until `close`; `NULL` if it cannot be read.
    pub open: Option<unsafe extern "C" fn(code: *const u8, code_bytes: u64) -> *mut c_void>,
    /// As `source_file` of `logdur_host`.
    pub file: Option<unsafe extern "C" fn(sources: *mut c_void, hash: u64) -> *const c_char>,
    /// As `source_position` of `logdur_host`.
    pub position:
        Option<unsafe extern "C" fn(sources: *mut c_void, address: u64, position: *mut SourcePosition) -> c_int>,
    /// Frees what `open` made.
    pub close: Option<unsafe extern "C" fn(sources: *mut c_void)>,
}

/// The type of `logdur_sources`.
pub type SourcesEntry = unsafe extern "C" fn() -> *const SourcesTable;
