//! Files that a command makes: whole, or not at all.
//!
//! A regular file is written without a name, or beside its place, and gets its name when it is whole. A pipe, a device, and a
//! descriptor that is open already are written as they are.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::path::Target;

/// The mode of a file that its owner alone may read and write.
const PRIVATE: u32 = 0o600;
/// The mode of a file that is nobody's secret, before the umask.
const PUBLIC: u32 = 0o666;
/// How long a pipe may have no reader.
const READER: Duration = Duration::from_secs(10);
/// How often it is looked for one.
const LOOK: Duration = Duration::from_millis(20);
/// Names that are tried for a file that is not whole.
const NAMES: u32 = 100;

/// Why a file cannot be made.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The system refuses.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// It would destroy what the command reads.
    #[error("{0}: expected another file than {1}, which is read")]
    IsInput(String, String),
    /// It is no file.
    #[error("{0}: expected a file that can be written, found {1}")]
    Kind(String, &'static str),
    /// Nothing reads a pipe.
    #[error("{0}: expected a process that reads this pipe, found none in {n} s", n = READER.as_secs())]
    NoReader(String),
}

/// Who may read a file that is new. One that is replaced keeps its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone: it has memory of an application, or command lines.
    Owner,
    /// Whoever may read each of the inputs, as far as the umask lets them.
    Those,
}

/// A file that is being made. Dropped before [`finish`](Output::finish), it leaves nothing.
#[derive(Debug)]
pub struct Output {
    shown: String,
    /// Closed with this, unless it is another's descriptor.
    to: ManuallyDrop<File>,
    is_borrowed: bool,
    place: Option<Unfinished>,
}

/// A regular file that is not whole.
#[derive(Debug)]
struct Unfinished {
    /// Its name until then; absent if the file system makes files without one.
    beside: Option<PathBuf>,
    path: PathBuf,
}

impl Output {
    /// Begins a file. `inputs` are what the command reads; `-` is the standard input.
    ///
    /// # Errors
    /// When it is one of them, or cannot be written.
    pub fn begin(path: &Path, readers: Readers, inputs: &[&Path]) -> Result<Output, OutputError> {
        let shown = crate::text::escaped(&path.display().to_string());
        let failed = |error| OutputError::Io(shown.clone(), error);
        let place = match Target::of(path).map_err(failed)? {
            Target::Descriptor(number) => {
                let output = Output::borrowed(shown.clone(), number);
                refuse_input(&shown, &output.to.metadata().map_err(failed)?, inputs)?;
                return Ok(output);
            }
            Target::File(place) => place,
        };
        let before = match fs::metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.map_err(failed)?),
        };
        if let Some(before) = &before {
            refuse_input(&shown, before, inputs)?;
            let kind = before.file_type();
            if kind.is_dir() || kind.is_socket() {
                let found = if kind.is_dir() { "a folder" } else { "a socket" };
                return Err(OutputError::Kind(shown, found));
            }
            if !kind.is_file() {
                let to = ManuallyDrop::new(open_special(&place, &shown)?);
                return Ok(Output { shown, to, is_borrowed: false, place: None });
            }
        }
        Output::replacing(shown, place, before.as_ref(), readers, inputs)
    }

    /// Begins a file in a folder that is the command's own. What has its name is replaced if it is a regular file.
    ///
    /// # Errors
    /// When it is something else, a link too, or one of `inputs`, or cannot be written.
    pub fn begin_in(folder: &Path, name: &str, readers: Readers, inputs: &[&Path]) -> Result<Output, OutputError> {
        let path = folder.join(name);
        let shown = crate::text::escaped(&path.display().to_string());
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => Err(OutputError::Kind(shown, "a link")),
            Ok(found) if !found.is_file() => Err(OutputError::Kind(shown, "something else")),
            _ => Output::begin(&path, readers, inputs),
        }
    }

    fn borrowed(shown: String, number: RawFd) -> Output {
        // SAFETY: the file is never closed here. A number that is not open gives errors only.
        let to = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        Output { shown, to, is_borrowed: true, place: None }
    }

    fn replacing(
        shown: String,
        path: PathBuf,
        before: Option<&Metadata>,
        readers: Readers,
        inputs: &[&Path],
    ) -> Result<Output, OutputError> {
        let failed = |error| OutputError::Io(shown.clone(), error);
        let mode = match readers {
            Readers::Owner => PRIVATE,
            Readers::Those => inputs
                .iter()
                .filter_map(|input| about(input))
                .fold(PUBLIC, |mode, input| if input.is_file() { mode & (input.mode() | PRIVATE) } else { mode }),
        };
        if before.is_some() {
            // It must be writable: to rename another over it asks for its folder only.
            OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(&path).map_err(failed)?;
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let (to, beside) = match nameless(folder, mode) {
            Ok(file) => (file, None),
            Err(_) => beside(&path, mode).map(|(file, path)| (file, Some(path))).map_err(failed)?,
        };
        let output = Output {
            shown: shown.clone(),
            to: ManuallyDrop::new(to),
            is_borrowed: false,
            place: Some(Unfinished { beside, path }),
        };
        before.map_or(Ok(()), |before| keep(&output.to, before)).map_err(failed)?;
        Ok(output)
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.to
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When that is not possible; then nothing is left.
    pub fn finish(mut self) -> Result<(), OutputError> {
        let done = self.place.take().map_or(Ok(()), |place| {
            let beside = match place.beside {
                Some(beside) => beside,
                None => named(&self.to, &place.path)?,
            };
            fs::rename(&beside, &place.path).inspect_err(|_| {
                // If it cannot be removed either, it is left under a name that says what it is.
                let _ = fs::remove_file(&beside);
            })
        });
        done.map_err(|error| OutputError::Io(self.shown.clone(), error))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_borrowed {
            // SAFETY: the file is ours, and is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.to) };
        }
        if let Some(beside) = self.place.take().and_then(|place| place.beside) {
            // If it cannot be removed, it is left under a name that says what it is.
            let _ = fs::remove_file(beside);
        }
    }
}

/// What an input is. A terminal, and the device that is empty, may be input and output.
fn about(input: &Path) -> Option<Metadata> {
    if input == Path::new("-") { fs::metadata("/dev/stdin") } else { fs::metadata(input) }.ok()
}

/// Refuses an output that is one of the inputs, by whichever name.
fn refuse_input(shown: &str, output: &Metadata, inputs: &[&Path]) -> Result<(), OutputError> {
    if output.file_type().is_char_device() {
        return Ok(());
    }
    let same = |input: &&&Path| about(input).is_some_and(|i| (i.dev(), i.ino()) == (output.dev(), output.ino()));
    match inputs.iter().find(same) {
        Some(input) => {
            let input = crate::text::escaped(&input.display().to_string());
            Err(OutputError::IsInput(shown.to_owned(), input))
        }
        None => Ok(()),
    }
}

/// Opens a pipe or a device. A pipe's reader is waited for, not for ever.
fn open_special(path: &Path, shown: &str) -> Result<File, OutputError> {
    let failed = |error| OutputError::Io(shown.to_owned(), error);
    let start = Instant::now();
    let open = || OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && start.elapsed() < READER => {
                std::thread::sleep(LOOK);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                return Err(OutputError::NoReader(shown.to_owned()));
            }
            opened => break opened.map_err(failed)?,
        }
    };
    // SAFETY: the descriptor is open; no memory is involved. Writes wait again for a reader that is slow.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
    if done == 0 { Ok(file) } else { Err(failed(io::Error::last_os_error())) }
}

/// A file that has no name yet, where the system can give it one later.
fn nameless(folder: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder)?;
    fs::symlink_metadata(own(&file))?;
    Ok(file)
}

/// The path of an open file of this process.
fn own(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Names beside a path that no other process uses.
fn names_beside(path: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let name = path.file_name().unwrap_or_default();
    (0..NAMES).map(move |number| {
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}-{number}.part", std::process::id()));
        path.with_file_name(part)
    })
}

/// A new file beside its place.
fn beside(path: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let mut made = Err(io::ErrorKind::AlreadyExists.into());
    for name in names_beside(path) {
        let mut options = OpenOptions::new();
        made = options.read(true).write(true).create_new(true).mode(mode).open(&name).map(|file| (file, name));
        if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    made
}

/// Gives a file without a name one beside its place.
fn named(file: &File, path: &Path) -> io::Result<PathBuf> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let from = text(&own(file))?;
    let mut failed = io::ErrorKind::AlreadyExists.into();
    for name in names_beside(path) {
        let to = text(&name)?;
        // SAFETY: both are texts that end with a zero. The first is a link of the kernel's, which is to be followed.
        let done = unsafe {
            libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
        };
        if done == 0 {
            return Ok(name);
        }
        failed = io::Error::last_os_error();
        if failed.kind() != io::ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(failed)
}

/// Gives a file the owner and the mode of the one that it replaces. Where the group cannot be kept, it may do nothing.
fn keep(file: &File, before: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    let is_same = (now.uid(), now.gid()) == (before.uid(), before.gid());
    let kept = is_same || std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid())).is_ok();
    let mode = before.mode() & if kept { 0o777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn made(path: &Path, text: &str, inputs: &[&Path]) -> Result<(), String> {
        let mut output = Output::begin(path, Readers::Those, inputs).map_err(|error| error.to_string())?;
        output.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        output.finish().map_err(|error| error.to_string())
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn an_output_that_is_an_input_by_any_name_is_refused_and_the_input_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("in"), "rows").unwrap();
        fs::hard_link(at("in"), at("hard")).unwrap();
        symlink("in", at("soft")).unwrap();
        for name in ["in", "hard", "soft", "./in"] {
            let refused = made(&at(name), "page", &[&at("other"), &at("in")]).unwrap_err();
            assert!(refused.contains("expected another file than ") && refused.ends_with("/in, which is read"));
        }
        assert_eq!(fs::read_to_string(at("in")).unwrap(), "rows");
        let null = Path::new("/dev/null");
        assert_eq!(made(null, "page", &[null]), Ok(()), "nothing is lost");
    }

    #[test]
    fn a_file_is_replaced_when_the_new_one_is_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), "before").unwrap();
        fs::set_permissions(at("old"), Permissions::from_mode(0o640)).unwrap();
        symlink("old", at("link")).unwrap();
        let mut given_up = Output::begin(&at("link"), Readers::Owner, &[]).unwrap();
        given_up.write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "before");
        made(&at("link"), "after", &[]).unwrap();
        assert!(at("link").is_symlink(), "a link leads to the file as before");
        assert_eq!((fs::read_to_string(at("old")).unwrap(), mode(&at("old"))), ("after".to_owned(), 0o640));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no part of a file is left");
    }

    #[test]
    fn a_new_file_is_read_by_nobody_who_may_not_read_the_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("capture"), "memory").unwrap();
        fs::set_permissions(at("capture"), Permissions::from_mode(0o600)).unwrap();
        made(&at("page"), "page", &[&at("capture")]).unwrap();
        assert_eq!(mode(&at("page")), 0o600);
        Output::begin(&at("own"), Readers::Owner, &[]).unwrap().finish().unwrap();
        assert_eq!(mode(&at("own")), 0o600);
    }

    #[test]
    fn what_is_no_regular_file_is_written_as_it_is_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: the text ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let reader = std::thread::spawn({
            let pipe = at("pipe");
            move || fs::read_to_string(pipe).unwrap()
        });
        assert_eq!(made(&at("pipe"), "page", &[]), Ok(()));
        assert_eq!(
            (reader.join().unwrap(), at("pipe").metadata().unwrap().file_type().is_fifo()),
            ("page".into(), true)
        );
        assert!(made(folder.path(), "page", &[]).unwrap_err().ends_with("found a folder"));
        assert!(made(Path::new("/dev/full"), "page", &[]).is_err());
        for name in ["pipe", "link"] {
            let _ = symlink("/dev/null", at("link"));
            assert!(Output::begin_in(folder.path(), name, Readers::Owner, &[]).is_err(), "{name}");
        }
    }

    #[test]
    fn an_open_descriptor_is_neither_cut_nor_closed() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = File::create(folder.path().join("file")).unwrap();
        open.write_all(b"first ").unwrap();
        made(&own(&open), "second ", &[]).unwrap();
        open.write_all(b"third").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "first second third");
    }
}
