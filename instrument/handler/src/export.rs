//! The functions of the C interface around a [`Handler`]. Panics become errors: none leaves the library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Batch, Dispatch, DispatchResult, Handler, Open, abi, text};

/// A handler's name and table, for `export!`.
pub struct Exported {
    /// By which users choose it.
    pub name: &'static str,
    /// Its functions.
    pub table: &'static abi::HandlerTable,
}

/// Exports handlers from a library of the type `cdylib`: `export!(First, Second);`. It can be used once in a library.
#[macro_export]
macro_rules! export {
    ($($handler:ty),+ $(,)?) => {
        /// Finds a handler of this library by its name.
        ///
        /// # Safety
        /// `name` must be null, or a text that ends with 0.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn logdur_handler(
            name: *const ::std::ffi::c_char,
            _version: u32,
        ) -> *const $crate::abi::HandlerTable {
            static ALL: &[$crate::Exported] = &[$($crate::Exported {
                name: <$handler as $crate::Handler>::NAME,
                table: const { &$crate::table::<$handler>() },
            }),+];
            // SAFETY: the caller's promise.
            unsafe { $crate::find(ALL, name) }
        }
    };
}

/// The handler with a name, or the only one for an empty name; null if there is none.
///
/// # Safety
/// `name` must be null, or a text that ends with 0.
pub unsafe fn find(all: &[Exported], name: *const c_char) -> *const abi::HandlerTable {
    // SAFETY: the caller's promise.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    let found = match (name.to_bytes(), all) {
        (b"", [only]) => Some(only),
        (name, all) => all.iter().find(|exported| exported.name.as_bytes() == name),
    };
    found.map_or(std::ptr::null(), |exported| exported.table)
}

/// The table of a handler.
pub const fn table<H: Handler>() -> abi::HandlerTable {
    abi::HandlerTable {
        size: size_of::<abi::HandlerTable>() as u64,
        version: abi::LOGDUR_HANDLER_VERSION,
        open: Some(open::<H>),
        dispatch_begin: Some(dispatch_begin::<H>),
        messages: Some(messages::<H>),
        dispatch_end: Some(dispatch_end::<H>),
        close: Some(close::<H>),
    }
}

/// Writes an error's text as the interface wants it: cut to the room, with a 0 at its end.
///
/// # Safety
/// `error` must be null, or have `room` bytes.
pub unsafe fn error_into(text: &str, error: *mut c_char, room: usize) {
    let Some(most) = room.checked_sub(1).filter(|_| !error.is_null()) else { return };
    let length = text.floor_char_boundary(most);
    // SAFETY: the room has the text and one byte more.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), error, length) };
    // SAFETY: as above.
    let end = unsafe { error.add(length) };
    // SAFETY: as above.
    unsafe { end.write(0) };
}

/// Runs code of a handler: 0, or 1 with a text.
///
/// # Safety
/// `error` must be null, or have `room` bytes.
unsafe fn run(error: *mut c_char, room: usize, body: impl FnOnce() -> Result<(), String>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("it panicked: {}", text.unwrap_or_default()))
    });
    let Err(text) = result else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { error_into(&text, error, room) };
    1
}

unsafe extern "C" fn open<H: Handler>(
    info: *const abi::OpenInfo,
    context: *mut *mut c_void,
    error: *mut c_char,
    room: usize,
) -> c_int {
    let body = || {
        // SAFETY: the library calls it with its structure, whose fields of version 1 are there.
        let info = unsafe { &*info };
        // SAFETY: it is what the library has made.
        let open = unsafe { Open::of(info) };
        let handler = Box::new(H::open(open)?);
        // SAFETY: the library has a place for the pointer.
        unsafe { *context = Box::into_raw(handler).cast() };
        Ok(())
    };
    // SAFETY: the library has room for the text.
    unsafe { run(error, room, body) }
}

unsafe extern "C" fn dispatch_begin<H: Handler>(
    context: *mut c_void,
    info: *const abi::DispatchInfo,
    error: *mut c_char,
    room: usize,
) -> c_int {
    let body = || {
        // SAFETY: `open` made the context, and no other thread uses it now.
        let handler = unsafe { &mut *context.cast::<H>() };
        // SAFETY: the library calls it with its structure, whose fields of version 1 are there.
        let info = unsafe { &*info };
        // SAFETY: the texts of the structure end with 0, and are valid during the call.
        let text = |from| unsafe { text(from) }.unwrap_or_default();
        let code = match info.code.is_null() {
            true => &[][..],
            // SAFETY: the code has so many bytes, which are not written.
            false => unsafe { std::slice::from_raw_parts(info.code, info.code_bytes as usize) },
        };
        handler.dispatch_begin(&Dispatch {
            dispatch: info.dispatch,
            agent: info.agent,
            processor: text(info.processor),
            kernel: text(info.kernel),
            mangled: text(info.mangled),
            clone: text(info.clone),
            grid: info.grid,
            workgroup: info.workgroup,
            code,
            code_uri: text(info.code_uri),
            load_delta: info.load_delta,
        })
    };
    // SAFETY: the library has room for the text.
    unsafe { run(error, room, body) }
}

unsafe extern "C" fn messages<H: Handler>(
    context: *mut c_void,
    batch: *const abi::Batch,
    error: *mut c_char,
    room: usize,
) -> c_int {
    let body = || {
        // SAFETY: `open` made the context, and no other thread uses it now.
        let handler = unsafe { &mut *context.cast::<H>() };
        // SAFETY: the library calls it with its structure, whose fields of version 1 are there.
        let batch = unsafe { &*batch };
        // SAFETY: the batch has so many bytes, which no thread writes during the call.
        let bytes = unsafe { std::slice::from_raw_parts(batch.bytes, batch.length as usize) };
        handler.messages(&Batch { dispatch: batch.dispatch, bytes })
    };
    // SAFETY: the library has room for the text.
    unsafe { run(error, room, body) }
}

unsafe extern "C" fn dispatch_end<H: Handler>(
    context: *mut c_void,
    result: *const abi::DispatchResult,
    error: *mut c_char,
    room: usize,
) -> c_int {
    let body = || {
        // SAFETY: `open` made the context, and no other thread uses it now.
        let handler = unsafe { &mut *context.cast::<H>() };
        // SAFETY: the library calls it with its structure, whose fields of version 1 are there.
        let result = unsafe { &*result };
        handler.dispatch_end(&DispatchResult {
            dispatch: result.dispatch,
            duration_ns: Some(result.duration_ns).filter(|&ns| ns > 0),
            messages: result.messages,
            bytes: result.bytes,
            bytes_sent: result.bytes_sent,
            errors: result.errors,
        })
    };
    // SAFETY: the library has room for the text.
    unsafe { run(error, room, body) }
}

unsafe extern "C" fn close<H: Handler>(context: *mut c_void) {
    if context.is_null() {
        return;
    }
    // SAFETY: `open` made the context, and this is its last use.
    let handler = unsafe { Box::from_raw(context.cast::<H>()) };
    // SAFETY: no text is written.
    unsafe {
        run(std::ptr::null_mut(), 0, || {
            handler.close();
            Ok(())
        })
    };
}
