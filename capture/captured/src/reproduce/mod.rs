//! Writes a stand-alone HIP program that launches what was captured, and checks what it computes: one dispatch, or the steps of a region.
//!
//! The program needs no part of this project. HIP chooses where memory is, so that addresses in arguments and in memory are rewritten:
//! which words those are is decided here (`fixups`) and listed in files. What HIP cannot recreate is refused by its name (`refuse`).

mod fixups;
mod kind;
mod program;
mod reach;
mod readme;
mod refuse;
mod steps;
mod subject;
mod writes;

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use logdur_capture::{Dispatch, Memory};
use logdur_system::output::{Output, Readers};

use crate::dispatch::CapturedDispatch;
use crate::error::{CapturedError, Result};
use crate::region::CapturedPart;

use fixups::{Fixup, Place};
use reach::{After, Piece, Reach};
use subject::Subject;

/// Bytes that are read at once.
const STEP: u64 = 4 << 20;

/// A program that was written.
#[derive(Debug)]
pub struct Reproduced {
    /// Its files.
    pub files: Vec<PathBuf>,
    /// What it recreates in part only, one line each.
    pub doubts: Vec<String>,
}

/// Checks that a dispatch has memory at all, before it is taken out of a capture.
///
/// # Errors
/// When only its arguments were captured.
pub fn has_memory(dispatch: &Dispatch) -> Result<()> {
    refuse::scope(dispatch.scope, dispatch.id)
}

/// Writes the program of a dispatch into a folder, which is made, or is empty. `kernel` is what the kernel is called in texts.
///
/// # Errors
/// When the folder has something in it, the capture lacks what is needed or is damaged, or HIP cannot recreate it: every reason, by name.
/// Then no file is left.
pub fn reproduce(captured: &CapturedDispatch<'_>, kernel: &str, folder: &Path) -> Result<Reproduced> {
    written(&Subject::of_dispatch(captured), &|_| kernel.to_owned(), folder)
}

/// Writes the program of a part of a region into a folder, which is made, or is empty. `called` is what a kernel is called in texts, by its
/// symbol.
///
/// # Errors
/// As for [`reproduce`].
pub fn reproduce_part(part: &CapturedPart<'_>, called: &dyn Fn(&str) -> String, folder: &Path) -> Result<Reproduced> {
    written(&Subject::of_part(part), called, folder)
}

fn written(subject: &Subject<'_>, called: &dyn Fn(&str) -> String, folder: &Path) -> Result<Reproduced> {
    let is_ours = is_free(folder)?;
    subject.captured.look_for_called()?;
    let reach = Reach::of(subject)?;
    let doubts = refuse::check(subject, &reach)?;
    if is_ours {
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    let mut files = Files { subject, folder, written: Vec::new() };
    match files.all(&reach, called, &doubts) {
        Ok(()) => Ok(Reproduced { files: files.written, doubts }),
        Err(error) => {
            // What cannot be removed is left: the error says more than that.
            files.written.iter().for_each(|file| drop(fs::remove_file(file)));
            if is_ours {
                drop(fs::remove_dir(folder));
            }
            Err(error)
        }
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CapturedError {
    let path = path.display().to_string();
    move |source| CapturedError::File { path: path.clone(), source }
}

/// True for a folder that is not there, false for an empty one.
fn is_free(folder: &Path) -> Result<bool> {
    let found = |found: String| CapturedError::Usage {
        what: folder.display().to_string(),
        expected: "a new or an empty folder".to_owned(),
        found,
    };
    match folder.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failed(folder)(error)),
        Ok(about) if about.is_symlink() => Err(found("a link".to_owned())),
        Ok(about) if !about.is_dir() => Err(found("a file".to_owned())),
        Ok(_) => match fs::read_dir(folder).map_err(failed(folder))?.count() {
            0 => Ok(false),
            count => Err(found(format!("{count} files in it"))),
        },
    }
}

/// The name of a piece's file.
fn piece_file(piece: &Piece, when: &str) -> String {
    let (of, number) = match piece.place {
        Place::Kernarg => ("kernarg", 0),
        Place::Allocation(number) => ("allocation", number),
        Place::Variable(number) => ("variable", number),
        Place::Writes => ("writes", 0),
    };
    format!("{of}-{number}-{}.{when}.bin", piece.offset())
}

/// The file with a piece after the kernel; `None` if that is not known.
fn after_file(piece: &Piece) -> Option<String> {
    match piece.after {
        After::Same => Some(piece_file(piece, "before")),
        After::Changed => Some(piece_file(piece, "after")),
        After::Unknown => None,
    }
}

/// The file with what is written between steps.
const WRITES: &str = "writes.bin";

/// The files of a program.
struct Files<'a> {
    subject: &'a Subject<'a>,
    folder: &'a Path,
    written: Vec<PathBuf>,
}

impl Files<'_> {
    /// Writes all; the program comes last.
    fn all(&mut self, reach: &Reach<'_>, called: &dyn Fn(&str) -> String, doubts: &[String]) -> Result<()> {
        let subject = self.subject;
        for (_, module) in subject.modules.iter().enumerate().filter(|(number, module)| module.file == *number) {
            self.file(&module.file_name(), |out| out.write_all(&module.code().bytes))?;
        }
        self.file("kernarg.bin", |out| out.write_all(&reach.kernarg))?;
        let (before, after) = (&subject.captured.before, subject.captured.after.as_ref());
        for piece in &reach.pieces {
            self.memory(&piece_file(piece, "before"), [(before, piece.range.clone())].into_iter())?;
            if let Some(after) = after.filter(|_| piece.after == After::Changed) {
                self.memory(&piece_file(piece, "after"), [(after, piece.range.clone())].into_iter())?;
            }
        }
        if reach.writes.bytes > 0 {
            self.memory(WRITES, reach.writes.own().map(|write| (write.memory, write.range.clone())))?;
        }
        let noun = subject.noun();
        self.fixups("fixups-before.txt", &format!("before {noun}"), &reach.before)?;
        self.fixups("fixups-after.txt", &format!("after {noun}"), &reach.after)?;
        let [makefile, cmake] = program::builds(subject);
        for (name, text) in [
            ("Makefile", makefile),
            ("CMakeLists.txt", cmake),
            ("README.md", readme::readme(subject, reach, called, doubts)),
            ("reproduce.cpp", program::program(subject, reach, called)),
        ] {
            self.file(name, |out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let path = self.folder.join(name);
        let output = Output::begin_in(self.folder, name, Readers::Owner, &[self.subject.captured.reader.path()])?;
        let mut buffered = io::BufWriter::new(output);
        write(&mut buffered).map_err(failed(&path))?;
        buffered.into_inner().map_err(|error| failed(&path)(error.into_error()))?.finish()?;
        self.written.push(path);
        Ok(())
    }

    /// Writes ranges of memories, one after the other.
    fn memory<'m>(&mut self, name: &str, all: impl Iterator<Item = (&'m Memory<'m>, Range<u64>)>) -> Result<()> {
        let mut damaged = None;
        let written = self.file(name, |out| {
            let mut bytes = Vec::new();
            for (memory, range) in all {
                let mut at = range.start;
                while at < range.end {
                    bytes.resize((range.end - at).min(STEP) as usize, 0);
                    if let Err(error) = memory.read(at, &mut bytes) {
                        damaged = Some(error);
                        return Err(io::Error::other("the capture is damaged"));
                    }
                    out.write_all(&bytes)?;
                    at += bytes.len() as u64;
                }
            }
            Ok(())
        });
        damaged.map_or(written, |error| Err(error.into()))
    }

    fn fixups(&mut self, name: &str, when: &str, fixups: &[Fixup]) -> Result<()> {
        self.file(name, |out| {
            writeln!(out, "# Words of 8 bytes that hold addresses {when}: place, offset, target, offset, how sure.")?;
            writeln!(
                out,
                "# k0: kernarg.bin; w0: {WRITES}; aN: allocation N; vN: variable N; cN: the code object of module N."
            )?;
            fixups.iter().try_for_each(|fixup| writeln!(out, "{fixup}"))
        })
    }
}
