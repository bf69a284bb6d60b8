//! The handlers of messages, in libraries that are loaded when the first kernel is instrumented.
//!
//! # Threads
//! The drain thread.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use logdur_handler::abi::{self, HandlerTable, Host};
use logdur_intercept::{Interceptor as Core, library};
use logdur_system::text::one_line;

use super::buffers::Use;
use super::drain::{Total, Waiting};
use super::output::Output;
use super::{Instrument, Probe};

/// The library that has the handlers with names.
const ANALYZERS: &str = "liblogdur_analyzers.so";
/// Room for the text of an error.
const ERROR_ROOM: usize = 1024;

/// The handlers that are open.
pub(super) struct Handlers {
    open: Vec<Open>,
    interceptor: &'static Core,
    instrument: &'static Instrument,
    /// What the host's functions work on; its address is given to handlers.
    state: Box<State>,
}

/// A handler that is open.
struct Open {
    /// Its position among those that the user wants.
    position: usize,
    name: String,
    table: HandlerTable,
    context: *mut c_void,
}

/// What the functions work on that handlers call.
struct State {
    interceptor: &'static Core,
    output: Output,
    host: Host,
    /// The dispatches that have begun.
    running: HashMap<u64, &'static Probe>,
    sources: Sources,
}

/// Debug information, in a library that is loaded when it is asked for.
#[derive(Default)]
struct Sources {
    table: Option<Option<abi::SourcesTable>>,
    /// Of code objects, by their address.
    open: HashMap<usize, *mut c_void>,
}

/// Why a handler is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("its library cannot be loaded: {0}")]
    NotLoaded(#[from] libloading::Error),
    #[error("expected a file, found a folder, a pipe or a device")]
    NoFile,
    #[error("its library has no handler of this name")]
    Unknown,
    #[error("it needs version {0} of the interface, expected at most {known}", known = abi::LOGDUR_HANDLER_VERSION)]
    TooNew(u32),
    #[error("its table has {0} bytes, expected at least {least}", least = LEAST_TABLE)]
    TooSmall(u64),
    #[error("{0}")]
    Failed(String),
    #[error("its name has a byte 0")]
    Name(#[from] std::ffi::NulError),
}

/// Bytes of a table up to its first function.
const LEAST_TABLE: usize = offset_of!(HandlerTable, open) + size_of::<usize>();

impl Handlers {
    /// Opens the handlers that the user wants. Those that cannot be opened are notices.
    pub(super) fn open(instrument: &'static Instrument, interceptor: &'static Core) -> Handlers {
        let mut state = Box::new(State {
            interceptor,
            output: instrument.output.open(),
            host: Host {
                size: size_of::<Host>() as u64,
                version: abi::LOGDUR_HANDLER_VERSION,
                context: ptr::null_mut(),
                write: Some(write),
                notice: Some(notice),
                source_file: Some(source_file),
                source_position: Some(source_position),
            },
            running: HashMap::new(),
            sources: Sources::default(),
        });
        state.host.context = ptr::from_mut(&mut *state).cast();
        let mut handlers = Handlers { open: Vec::new(), interceptor, instrument, state };
        for (position, wanted) in instrument.handlers.iter().enumerate() {
            instrument.waiting.call(Some(position));
            let opened = open(position, wanted, instrument, &handlers.state);
            instrument.ends_first();
            match opened {
                Ok(handler) => handlers.open.push(handler),
                Err(why) => {
                    let name = wanted.to_string_lossy();
                    interceptor.off(format!("handler {name}: it is not used: {why}"));
                }
            }
        }
        instrument.waiting.call(None);
        handlers
    }

    /// A dispatch begins.
    pub(super) fn begin(&mut self, dispatch: &Use) {
        let probe = dispatch.probe;
        self.state.running.insert(dispatch.id, probe);
        let info = abi::DispatchInfo {
            size: size_of::<abi::DispatchInfo>() as u64,
            dispatch: dispatch.id,
            agent: probe.agent as u32,
            processor: probe.texts.processor.as_ptr(),
            kernel: probe.texts.kernel.as_ptr(),
            mangled: probe.texts.mangled.as_ptr(),
            clone: probe.texts.clone.as_ptr(),
            grid: dispatch.grid,
            workgroup: dispatch.workgroup.map(u32::from),
            code: probe.code.map_or(ptr::null(), <[u8]>::as_ptr),
            code_bytes: probe.code.map_or(0, |code| code.len() as u64),
            code_uri: probe.texts.uri.as_ptr(),
            load_delta: probe.load_delta,
        };
        self.each(|handler, error| {
            // SAFETY: the function is the handler's, and all of the structure is valid during the call.
            handler.table.dispatch_begin.map_or(0, |begin| unsafe { begin(handler.context, &info, error, ERROR_ROOM) })
        });
    }

    /// Messages of a dispatch, aligned to 8 bytes.
    pub(super) fn messages(&mut self, dispatch: u64, bytes: &[u8], messages: u64) {
        let batch = abi::Batch {
            size: size_of::<abi::Batch>() as u64,
            dispatch,
            bytes: bytes.as_ptr(),
            length: bytes.len() as u64,
            messages,
        };
        self.each(|handler, error| {
            // SAFETY: as above.
            handler.table.messages.map_or(0, |take| unsafe { take(handler.context, &batch, error, ERROR_ROOM) })
        });
    }

    /// A dispatch has ended.
    pub(super) fn end(&mut self, dispatch: u64, duration_ns: u64, total: &Total) {
        let result = abi::DispatchResult {
            size: size_of::<abi::DispatchResult>() as u64,
            dispatch,
            duration_ns,
            messages: total.messages,
            bytes: total.bytes,
            bytes_sent: total.sent,
            errors: total.errors,
        };
        self.each(|handler, error| {
            // SAFETY: as above.
            handler.table.dispatch_end.map_or(0, |end| unsafe { end(handler.context, &result, error, ERROR_ROOM) })
        });
        self.state.running.remove(&dispatch);
    }

    /// Closes the handlers.
    pub(super) fn close(&mut self) {
        self.open.drain(..).for_each(|handler| handler.close(self.instrument.waiting));
        self.state.sources.close();
    }

    /// Calls a function of each handler; one that fails is closed.
    fn each(&mut self, call: impl Fn(&Open, *mut c_char) -> c_int) {
        let (interceptor, instrument, waiting) = (self.interceptor, self.instrument, self.instrument.waiting);
        let failed = self.open.extract_if(.., |handler| {
            let mut error = [0 as c_char; ERROR_ROOM];
            waiting.call(Some(handler.position));
            let failed = call(handler, error.as_mut_ptr()) != 0;
            instrument.ends_first();
            waiting.call(None);
            if !failed {
                return false;
            }
            let (name, text) = (&handler.name, text_of(&error));
            interceptor.off(format!("handler {name}: it failed, and gets no more messages: {text}"));
            true
        });
        failed.for_each(|handler| handler.close(waiting));
    }
}

impl Open {
    fn close(self, waiting: &Waiting) {
        if let Some(close) = self.table.close {
            waiting.call(Some(self.position));
            // SAFETY: the function is the handler's, whose context is not used any more.
            unsafe { close(self.context) };
            waiting.call(None);
        }
    }
}

/// The text that a handler has written.
fn text_of(error: &[c_char; ERROR_ROOM]) -> String {
    let bytes: Vec<u8> = error.iter().map(|&c| c.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes);
    if text.is_empty() { "it gave no reason".to_owned() } else { one_line(&text).to_string() }
}

/// The library of a handler, and its name there: a path has only one.
fn place_of(wanted: &OsStr) -> (PathBuf, &OsStr) {
    let is_path = wanted.as_bytes().contains(&b'/') || wanted.as_bytes().ends_with(b".so");
    if !is_path {
        return (beside_us(ANALYZERS), wanted);
    }
    // Without a slash the loader would look in its own folders only.
    let path = if wanted.as_bytes().contains(&b'/') { wanted.into() } else { Path::new(".").join(wanted) };
    (path, OsStr::new(""))
}

/// The path of a file in our library's folder.
fn beside_us(name: &str) -> PathBuf {
    let ours = library::path_of(write as *const () as usize).map(|path| Path::new(OsStr::from_bytes(path)));
    ours.and_then(Path::parent).unwrap_or(Path::new("")).join(name)
}

/// Loads a library, which stays.
fn load(path: &Path) -> Result<&'static Library, libloading::Error> {
    // SAFETY: the user has named the library, whose initialisers run.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
    Ok(Box::leak(Box::new(library)))
}

fn open(position: usize, wanted: &OsStr, instrument: &Instrument, state: &State) -> Result<Open, Unusable> {
    let (path, name) = place_of(wanted);
    let name = CString::new(name.as_bytes())?;
    // The loader would wait for a pipe.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Unusable::NoFile);
    }
    let library = load(&path)?;
    // SAFETY: the interface says that the symbol has this type.
    let entry = unsafe { library.get::<abi::HandlerEntry>(b"logdur_handler\0") }?;
    // SAFETY: the name ends with 0.
    let table = unsafe { entry(name.as_ptr(), abi::LOGDUR_HANDLER_VERSION) };
    let table = table_of(ptr::NonNull::new(table.cast_mut()).ok_or(Unusable::Unknown)?)?;
    let shown = wanted.to_string_lossy().into_owned();
    let mut context = ptr::null_mut();
    let opened = Path::new(wanted).file_name().unwrap_or(wanted);
    let opened = CString::new(opened.as_bytes())?;
    let texts: Vec<[CString; 2]> = instrument
        .options
        .iter()
        .map(|(key, value)| Ok([CString::new(key.as_bytes())?, CString::new(value.as_bytes())?]))
        .collect::<Result<_, std::ffi::NulError>>()?;
    let options: Vec<abi::HandlerOption> =
        texts.iter().map(|[key, value]| abi::HandlerOption { key: key.as_ptr(), value: value.as_ptr() }).collect();
    let output = state.output.path().map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
    let info = abi::OpenInfo {
        size: size_of::<abi::OpenInfo>() as u64,
        host: &state.host,
        name: opened.as_ptr(),
        options: options.as_ptr(),
        option_count: options.len() as u64,
        output: output.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
        format: instrument.format,
    };
    let mut error = [0 as c_char; ERROR_ROOM];
    if let Some(open) = table.open {
        // SAFETY: all of the structure is valid during the call, and the host until the handlers are closed.
        let failed = unsafe { open(&info, &mut context, error.as_mut_ptr(), ERROR_ROOM) };
        if failed != 0 {
            return Err(Unusable::Failed(text_of(&error)));
        }
    }
    Ok(Open { position, name: shown, table, context })
}

/// A handler's table, as far as both sides know it. What it lacks is `None`.
fn table_of(from: ptr::NonNull<HandlerTable>) -> Result<HandlerTable, Unusable> {
    let words = from.cast::<u64>();
    // SAFETY: each table begins with its size.
    let size = unsafe { words.read() };
    if size < LEAST_TABLE as u64 {
        return Err(Unusable::TooSmall(size));
    }
    let mut table = HandlerTable {
        size: 0,
        version: 0,
        open: None,
        dispatch_begin: None,
        messages: None,
        dispatch_end: None,
        close: None,
    };
    let known = (size as usize).min(size_of::<HandlerTable>());
    // SAFETY: both have so many bytes; functions are null or of the interface's types.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>().as_ptr(), ptr::from_mut(&mut table).cast(), known) };
    if table.version > abi::LOGDUR_HANDLER_VERSION { Err(Unusable::TooNew(table.version)) } else { Ok(table) }
}

/// What the functions below were given.
///
/// # Safety
/// `context` must be that of a host of ours, and no other reference to its state may be in use.
unsafe fn state<'a>(context: *mut c_void) -> &'a mut State {
    // SAFETY: the caller's promise.
    unsafe { &mut *context.cast() }
}

unsafe extern "C" fn write(context: *mut c_void, bytes: *const c_char, length: usize) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: handlers pass on what they got, on the thread that calls them.
    let state = unsafe { state(context) };
    // SAFETY: the handler has so many bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), length) };
    match state.output.write(bytes) {
        Ok(()) => 0,
        Err(error) => {
            let text = format!("the output of handlers cannot be written: {error}");
            state.interceptor.notice_once("handler-output", text);
            1
        }
    }
}

unsafe extern "C" fn notice(context: *mut c_void, text: *const c_char) {
    // SAFETY: as above.
    let state = unsafe { state(context) };
    // SAFETY: the handler's text ends with 0.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    state.interceptor.notice(format!("handler: {}", one_line(&text)));
}

unsafe extern "C" fn source_file(context: *mut c_void, dispatch: u64, hash: u64) -> *const c_char {
    // SAFETY: as above.
    let state = unsafe { state(context) };
    let Some((table, sources)) = state.sources_of(dispatch) else { return ptr::null() };
    // SAFETY: the function is of the table, and `open` made what it gets.
    table.file.map_or(ptr::null(), |file| unsafe { file(sources, hash) })
}

unsafe extern "C" fn source_position(
    context: *mut c_void,
    dispatch: u64,
    address: u64,
    to: *mut abi::SourcePosition,
) -> c_int {
    // SAFETY: as above.
    let state = unsafe { state(context) };
    let Some((table, sources)) = state.sources_of(dispatch) else { return 1 };
    // SAFETY: as above; the handler has room for a position.
    table.position.map_or(1, |position| unsafe { position(sources, address, to) })
}

impl State {
    /// The debug information of a dispatch's code object.
    fn sources_of(&mut self, dispatch: u64) -> Option<(abi::SourcesTable, *mut c_void)> {
        let code = self.running.get(&dispatch)?.code?;
        let table = (*self.sources.table.get_or_insert_with(sources_table))?;
        let open = table.open?;
        // SAFETY: the code has so many bytes, for as long as the process lives.
        let made = || unsafe { open(code.as_ptr(), code.len() as u64) };
        let sources = *self.sources.open.entry(code.as_ptr().addr()).or_insert_with(made);
        (!sources.is_null()).then_some((table, sources))
    }
}

impl Sources {
    fn close(&mut self) {
        let Some(close) = self.table.flatten().and_then(|table| table.close) else { return };
        // SAFETY: `open` made them, and they are not used any more.
        self.open.drain().filter(|(_, sources)| !sources.is_null()).for_each(|(_, sources)| unsafe { close(sources) });
    }
}

/// The functions of the library that reads debug information; `None` if it is not there, or an older one.
fn sources_table() -> Option<abi::SourcesTable> {
    let library = load(&beside_us(ANALYZERS)).ok()?;
    // SAFETY: the interface says that the symbol has this type.
    let entry = unsafe { library.get::<abi::SourcesEntry>(b"logdur_sources\0") }.ok()?;
    // SAFETY: the function takes nothing.
    let table = unsafe { entry() };
    // SAFETY: the table is null, or stays valid and begins with its size.
    let size = unsafe { table.cast::<u64>().as_ref() }?;
    // SAFETY: the table is as large as the one that is known here.
    (*size >= size_of::<abi::SourcesTable>() as u64).then(|| unsafe { *table })
}
