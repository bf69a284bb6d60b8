//! Handlers get the messages of instrumented kernels from `liblogdur.so`, in the application's process.
//!
//! [`abi`] is the C interface, of which `instrument/include/logdur_handler.h` is printed. Handlers in Rust implement [`Handler`] and call
//! [`export!`](crate::export!); [`messages`] reads what they get.
//!
//! ```
//! use logdur_handler::{Batch, DispatchResult, Handler, Open};
//!
//! struct Count {
//!     open: Open,
//!     addresses: u64,
//! }
//!
//! impl Handler for Count {
//!     const NAME: &'static str = "Count";
//!
//!     fn open(open: Open) -> Result<Count, String> {
//!         Ok(Count { open, addresses: 0 })
//!     }
//!
//!     fn messages(&mut self, batch: &Batch<'_>) -> Result<(), String> {
//!         self.addresses += batch.messages().map(|message| message.addresses().len() as u64).sum::<u64>();
//!         Ok(())
//!     }
//!
//!     fn dispatch_end(&mut self, result: &DispatchResult) -> Result<(), String> {
//!         self.open.write(&format!("dispatch {}: {} addresses\n", result.dispatch, self.addresses))
//!     }
//! }
//!
//! logdur_handler::export!(Count);
//! # fn main() {}
//! ```

pub mod abi;
mod export;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;

pub use logdur_messages as messages;
use logdur_messages::{Message, Messages};

pub use export::{Exported, error_into, find, table};

/// A handler. Every function but `open` is called on one thread at a time.
///
/// An error turns the handler off: its text is a notice in the log, and the handler is dropped.
pub trait Handler: Sized {
    /// The name by which users choose it.
    const NAME: &'static str;

    /// Opens the handler.
    ///
    /// # Errors
    /// Why it cannot work.
    fn open(open: Open) -> Result<Self, String>;

    /// A dispatch begins: its messages follow, between those of other dispatches.
    ///
    /// # Errors
    /// Why the handler cannot go on.
    fn dispatch_begin(&mut self, dispatch: &Dispatch<'_>) -> Result<(), String> {
        let _ = dispatch;
        Ok(())
    }

    /// Messages of a dispatch.
    ///
    /// # Errors
    /// Why the handler cannot go on.
    fn messages(&mut self, batch: &Batch<'_>) -> Result<(), String>;

    /// A dispatch has ended: there are no more messages of it.
    ///
    /// # Errors
    /// Why the handler cannot go on.
    fn dispatch_end(&mut self, result: &DispatchResult) -> Result<(), String> {
        let _ = result;
        Ok(())
    }

    /// The last call, at the end of the process. A handler that is dropped without it has failed.
    fn close(self) {}
}

/// How reports are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// Comma-separated values, with a header line.
    Csv,
    /// One JSON object a line.
    Json,
}

/// What a handler is opened with. It can be kept: its functions work as long as the handler lives.
#[derive(Debug)]
pub struct Open {
    /// The name that the user has written.
    pub name: String,
    /// The user's configuration: keys and values.
    pub options: Vec<(String, String)>,
    /// The file that [`write`](Open::write) appends to; `None` for standard output.
    pub output: Option<PathBuf>,
    /// How reports are written.
    pub format: Format,
    host: *const abi::Host,
}

// SAFETY: the host's functions may be called on each thread that calls the handler.
unsafe impl Send for Open {}

/// A dispatch of an instrumented kernel.
#[derive(Clone, Debug)]
pub struct Dispatch<'a> {
    /// The number of the dispatch in the process: the column `id` of its row. Batches name it.
    pub dispatch: u64,
    /// The position of the GPU among the GPUs.
    pub agent: u32,
    /// The GPU's processor, as `gfx90a`.
    pub processor: &'a str,
    /// The kernel's name, demangled.
    pub kernel: &'a str,
    /// The kernel's name, as in its code object.
    pub mangled: &'a str,
    /// The name of the instrumented kernel that runs in its place.
    pub clone: &'a str,
    /// Work-items.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub workgroup: [u32; 3],
    /// The code object of the instrumented kernel; empty if it is not known.
    pub code: &'a [u8],
    /// Where the code object comes from, as a URI; empty if it is not known.
    pub code_uri: &'a str,
    /// What is added to addresses of the file by where it was loaded.
    pub load_delta: u64,
}

/// Messages of one dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The dispatch.
    pub dispatch: u64,
    /// Whole messages, which were checked.
    pub bytes: &'a [u8],
}

/// How a dispatch ended, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchResult {
    /// The dispatch.
    pub dispatch: u64,
    /// Nanoseconds that the instrumented kernel ran; `None` if it is not known.
    pub duration_ns: Option<u64>,
    /// Messages that were delivered.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the kernel has sent, with those that were no messages.
    pub bytes_sent: u64,
    /// Bits `LOGDUR_ERROR_*` of [`abi`].
    pub errors: u32,
}

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub file: Option<String>,
    /// The line, 0 if it is not known.
    pub line: u32,
    /// The column, 0 if it is not known.
    pub column: u32,
}

impl<'a> Batch<'a> {
    /// The messages, in the order in which the waves of each sub-buffer sent them.
    pub fn messages(&self) -> impl Iterator<Item = Message<'a>> + use<'a> {
        Messages::new(self.bytes).flatten()
    }
}

impl Open {
    /// The value of an option, the last one of a key.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Appends text to the output of handlers: all of it or nothing. Texts of several handlers do not mix.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, text: &str) -> Result<(), String> {
        let (context, write) = self.host(|host| host.write)?;
        // SAFETY: the host's function takes so many bytes, and does not keep them.
        let status = unsafe { write(context, text.as_ptr().cast(), text.len()) };
        if status == 0 { Ok(()) } else { Err("the output of handlers cannot be written".to_owned()) }
    }

    /// Writes a line into the log.
    pub fn notice(&self, text: &str) {
        let (Ok((context, notice)), Ok(text)) = (self.host(|host| host.notice), CString::new(text)) else { return };
        // SAFETY: the host's function takes a text that ends with 0, and does not keep it.
        unsafe { notice(context, text.as_ptr()) };
    }

    /// The name of the source file with a hash, as the messages of a dispatch have it. For a dispatch that has begun and not ended.
    pub fn source_file(&self, dispatch: u64, hash: u64) -> Option<String> {
        let (context, file) = self.host(|host| host.source_file).ok()?;
        // SAFETY: the host's function takes any numbers.
        let name = unsafe { file(context, dispatch, hash) };
        // SAFETY: the host's text is valid until the dispatch has ended.
        unsafe { text(name) }.map(str::to_owned)
    }

    /// The source position of an instruction, by its address in the code object's file. For a dispatch that has begun and not ended.
    pub fn source_position(&self, dispatch: u64, address: u64) -> Option<Position> {
        let (context, position) = self.host(|host| host.source_position).ok()?;
        let size = size_of::<abi::SourcePosition>() as u64;
        let mut found = abi::SourcePosition { size, file: std::ptr::null(), line: 0, column: 0 };
        // SAFETY: the host's function takes any numbers, and writes a position of this size.
        let status = unsafe { position(context, dispatch, address, &mut found) };
        // SAFETY: the host's text is valid until the dispatch has ended.
        let file = || unsafe { text(found.file) }.map(str::to_owned);
        (status == 0).then(|| Position { file: file(), line: found.line, column: found.column })
    }

    /// A function of the host, and what it is called with.
    fn host<F>(&self, function: impl Fn(&abi::Host) -> Option<F>) -> Result<(*mut c_void, F), String> {
        // SAFETY: the pointer is null, or a host's, which lives until the handler is closed and is not changed.
        let host = unsafe { self.host.as_ref() };
        // Fields that are read here are in each host: version 1 has them.
        let found = host.and_then(|host| Some((host.context, function(host)?)));
        found.ok_or_else(|| "the library lacks a function".to_owned())
    }

    /// Of the structure that the library has made.
    ///
    /// # Safety
    /// `info` must be what `open` of a handler is called with.
    unsafe fn of(info: &abi::OpenInfo) -> Open {
        let options = match info.options.is_null() {
            true => &[][..],
            // SAFETY: the library has so many options there.
            false => unsafe { std::slice::from_raw_parts(info.options, info.option_count as usize) },
        };
        // SAFETY: keys and values are texts that end with 0.
        let owned = |from: *const c_char| unsafe { text(from) }.unwrap_or_default().to_owned();
        Open {
            name: owned(info.name),
            options: options.iter().map(|option| (owned(option.key), owned(option.value))).collect(),
            output: (!info.output.is_null()).then(|| owned(info.output).into()),
            format: match info.format {
                abi::LOGDUR_FORMAT_CSV => Format::Csv,
                abi::LOGDUR_FORMAT_JSON => Format::Json,
                _ => Format::Text,
            },
            host: info.host,
        }
    }
}

/// Reads a text that ends with 0. Returns `None` for null, and an empty text for bytes that are not UTF-8.
///
/// # Safety
/// `from` must be null, or point to a text that ends with 0 and stays for `'a`.
unsafe fn text<'a>(from: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_str().unwrap_or_default())
}
