//! A folder of contents that captures share: a file for each chunk, named by its hash.
//!
//! ```text
//! FOLDER/ab/abcd…          one frame of type Chunk: the chunk whose id begins with abcd
//! FOLDER/ab/.N-M.part      one that is being written, or that a killed process has left
//! ```
//! A file that has its name is whole: it was written under another one, closed, and renamed. So nothing is locked and nothing is
//! mapped, two writers of one chunk are harmless, and a killed writer leaves only files that [`Store::collect`] recognises.
//!
//! # Threads
//! Any number, of any number of processes and machines.

mod collect;
mod path;

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::compress::{self, Compress};
use crate::error::CaptureError;
use crate::frame::{Codec, HEAD, Head, Seal, kind};
use crate::header::{CHUNK, array};
use crate::id::Id;
use crate::storage::{PRIVATE, size_limit};

pub use collect::Collected;

/// Chunks with fewer bytes stay in the capture: a file of their own would take more.
pub(crate) const LEAST: usize = 4096;
/// A chunk that is used again gets the present time if it is older: it is not removed then for as long as a new one.
const FRESH: Duration = Duration::from_secs(600);
/// How the name of a file ends that is being written.
const PART: &str = ".part";

/// A folder of chunks.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Of new files.
    mode: u32,
    /// Names of files that are being written: no other process has the first number.
    unique: (u64, AtomicU64),
    /// Bytes of files that were written.
    written: AtomicU64,
}

impl Store {
    /// A folder that is only read.
    pub fn open(folder: &Path) -> Store {
        Store {
            folder: folder.to_owned(),
            mode: PRIVATE,
            unique: (u64::from_le_bytes(array(&crate::id::random(), 0)), AtomicU64::new(0)),
            written: AtomicU64::new(0),
        }
    }

    /// A folder that chunks are written to. It is made if it is not there, and a file is made and removed in it. `mode` is that of
    /// new files; a folder can be searched by who may read them.
    ///
    /// # Errors
    /// When the folder cannot be made, or no file in it.
    pub fn create(folder: &Path, mode: u32) -> Result<Store, CaptureError> {
        let failed = |source| CaptureError::File { path: folder.to_owned(), source };
        // The application may change its working directory.
        let store = Store { mode, ..Store::open(&std::path::absolute(folder).map_err(failed)?) };
        store.make_folder(&store.folder, true).map_err(failed)?;
        let probe = store.part(&store.folder);
        store.make_file(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)?;
        Ok(store)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that this value has added to the folder.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The file of a chunk.
    pub(crate) fn path(&self, id: &Id) -> PathBuf {
        let name = id.to_string();
        self.folder.join(name.get(..2).unwrap_or_default()).join(name)
    }

    /// Puts a chunk into the folder, unless it is there. True for one that was compressed.
    ///
    /// # Errors
    /// When it cannot be written: which file, and why.
    pub(crate) fn put(&self, id: &Id, bytes: &[u8], compress: Compress, packed: &mut Vec<u8>) -> io::Result<bool> {
        let path = self.path(id);
        let mut put = || -> io::Result<bool> {
            if is_kept(&path, id)? {
                return Ok(true);
            }
            let codec = compress::compressed(bytes, compress, packed);
            if codec == Codec::Raw {
                packed.clear();
                packed.resize(HEAD, 0);
                packed.extend_from_slice(bytes);
            }
            let Seal { stored, crc } = Seal::put(packed);
            let raw = bytes.len() as u64;
            let head = Head { kind: kind::CHUNK, flags: 0, sequence: 0, stored, raw, codec, crc };
            if let Some(to) = packed.first_chunk_mut() {
                *to = head.to_bytes(tag(id));
            }
            self.write(&path, packed)?;
            self.written.fetch_add(packed.len() as u64, Ordering::Relaxed);
            Ok(codec != Codec::Raw)
        };
        put().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Writes a file beside its place, and renames it when it is whole.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        size_limit(bytes.len() as u64)?;
        let folder = path.parent().unwrap_or(&self.folder);
        let part = self.part(folder);
        let file = match self.make_file(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(folder, false)?;
                self.make_file(&part)?
            }
            made => made?,
        };
        fill(file, bytes).and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
            // What is left is recognised by its name.
            let _ = fs::remove_file(&part);
        })
    }

    fn part(&self, folder: &Path) -> PathBuf {
        let (process, number) = (self.unique.0, self.unique.1.fetch_add(1, Ordering::Relaxed));
        folder.join(format!(".{process:016x}-{number}{PART}"))
    }

    fn make_file(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(path)?;
        if self.mode != PRIVATE {
            // Whatever the umask.
            file.set_permissions(Permissions::from_mode(self.mode))?;
        }
        Ok(file)
    }

    /// Makes a folder, unless it is there.
    fn make_folder(&self, path: &Path, with_parents: bool) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        // Who may read may search; who may write may add.
        let mode = self.mode | (self.mode & 0o444) >> 2;
        match DirBuilder::new().recursive(with_parents).mode(mode).create(path) {
            Ok(()) if self.mode != PRIVATE => {
                // One of another user has its own mode.
                let _ = fs::set_permissions(path, Permissions::from_mode(mode));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// The bytes of a chunk; what they are instead, if the file is not what its name says.
    pub(crate) fn get(&self, id: &Id) -> Result<Vec<u8>, Unread> {
        let path = self.path(id);
        // A file that was replaced meanwhile is there under its name (NFS: ESTALE).
        let read = read(&path).or_else(|error| if is_stale(&error) { read(&path) } else { Err(error) });
        decode(read.map_err(|error| Unread { path: path.clone(), why: Why::Read(error) })?, id)
            .map_err(|found| Unread { path, why: Why::Other(found) })
    }
}

/// Why a chunk was not read.
#[derive(Debug)]
pub(crate) struct Unread {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Read(io::Error),
    /// It has other bytes.
    Other(String),
}

/// The bytes of a chunk from those of its file.
///
/// # Errors
/// What the file has instead of the chunk with this id.
pub fn decode(mut file: Vec<u8>, id: &Id) -> Result<Vec<u8>, String> {
    let Some(head) = file.first_chunk::<HEAD>() else { return Err(format!("{} bytes", file.len())) };
    let head = Head::parse(head, tag(id), 0).map_err(|error| error.to_string())?;
    if head.kind != kind::CHUNK || head.raw > CHUNK || head.frame_bytes() != file.len() as u64 {
        let (kind, raw, frame) = (head.kind, head.raw, head.frame_bytes());
        return Err(format!("{} bytes: a frame of type {kind} with {raw} bytes in {frame}", file.len()));
    }
    file.drain(..HEAD);
    let bytes = head.body(file, 0).map_err(|error| error.to_string())?;
    let is = Id::of(&bytes);
    if is == *id { Ok(bytes) } else { Err(format!("{} bytes named {is}", bytes.len())) }
}

/// What the head of a chunk's frame has in place of a file's tag.
fn tag(id: &Id) -> u32 {
    u32::from_le_bytes(array(&id.0, 0))
}

fn is_stale(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESTALE)
}

fn opened(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // One byte more than a chunk can have is enough to tell that it is none.
    let most = HEAD as u64 + CHUNK + 8;
    let mut bytes = Vec::new();
    opened(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// True for a chunk that is there and is going to stay: its head is whole, and its file as long as that says. A crash of the machine
/// leaves others, which are written again.
fn is_kept(path: &Path, id: &Id) -> io::Result<bool> {
    let mut file = match opened(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_stale(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut head = [0; HEAD];
    let is_whole = file.read_exact(&mut head).is_ok()
        && Head::parse(&head, tag(id), 0).is_ok_and(|head| {
            head.kind == kind::CHUNK && file.metadata().is_ok_and(|file| file.len() == head.frame_bytes())
        });
    if !is_whole {
        return Ok(false);
    }
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    // Of another user's file only the server's present time can be set; where that fails too, a file of ours takes its place.
    // SAFETY: the descriptor is that of `file`; without times, no memory is read.
    Ok(age < FRESH || unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) } == 0)
}

/// Writes a new file, and closes it: a network file system may say only then that it has no room.
fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    let identity = file.metadata().map(|file| (file.dev(), file.ino()))?;
    let is_ours = |file: &File| file.metadata().is_ok_and(|now| (now.dev(), now.ino()) == identity);
    let taken = || io::Error::other("the application has closed its descriptor");
    let written = if is_ours(&file) { file.write_all(bytes) } else { Err(taken()) };
    let is_ours = is_ours(&file);
    let fd = file.into_raw_fd();
    if !is_ours {
        // It is another file's by now, and the application's to close.
        return Err(taken());
    }
    // SAFETY: `into_raw_fd` has given the descriptor to us, and nothing uses it afterwards.
    let closed = if unsafe { libc::close(fd) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    written.and(closed)
}

/// The folders that a capture's chunks are looked for in, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    all: Vec<Store>,
    /// The capture; empty if it is no file.
    capture: PathBuf,
}

impl Stores {
    /// Looks in a folder before those that are known.
    pub(crate) fn first(&mut self, folder: &Path) {
        self.all.insert(0, Store::open(folder));
    }

    /// Looks in a folder after those that are known.
    pub(crate) fn last(&mut self, folder: &Path) {
        if !self.all.iter().any(|store| store.folder == folder) {
            self.all.push(Store::open(folder));
        }
    }

    /// Why no chunk can be found, if none of the folders is there.
    pub(crate) fn missing(&self) -> Option<String> {
        if self.all.iter().any(|store| store.folder.is_dir()) {
            return None;
        }
        let folders: Vec<String> = self.all.iter().map(|store| store.folder.display().to_string()).collect();
        Some(if folders.is_empty() { "none is named".to_owned() } else { format!("{} not there", folders.join(", ")) })
    }

    /// A chunk of a length, to which an offset of the capture refers.
    pub(crate) fn get(&self, id: &Id, length: u32, offset: u64) -> Result<Vec<u8>, CaptureError> {
        let (mut places, mut wrong) = (String::new(), None);
        for store in &self.all {
            match store.get(id) {
                Ok(bytes) if bytes.len() == length as usize => return Ok(bytes),
                Ok(bytes) => {
                    let (expected, found) = (format!("chunk {id} of {length} bytes"), bytes.len().to_string());
                    return Err(CaptureError::damaged(offset, expected, found));
                }
                Err(Unread { path, why: Why::Read(error) }) => {
                    let sign = if places.is_empty() { "" } else { "; " };
                    // Writing to a string cannot fail.
                    let _ = write!(places, "{sign}{}: {error}", path.display());
                }
                Err(Unread { path, why: Why::Other(found) }) => wrong = wrong.or(Some((path, found))),
            }
        }
        let capture = self.capture.clone();
        Err(match wrong {
            Some((path, found)) => CaptureError::WrongChunk { capture, path, id: *id, offset, found },
            None => {
                let places = if places.is_empty() { "none is named".to_owned() } else { places };
                CaptureError::NoChunk { capture, id: *id, offset, places }
            }
        })
    }
}
