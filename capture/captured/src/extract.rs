//! Writes the contents of a capture into files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use logdur_capture::{Id, Memory, Reader};
use logdur_system::output::{Output, Readers};

use crate::buffers::buffers;
use crate::dispatch::CapturedDispatch;
use crate::error::{CapturedError, Result};
use crate::npy;
use crate::verify::{Buffer, Rule};

/// Bytes that are read at once.
const STEP: u64 = 4 << 20;

fn failed(path: &Path) -> impl Fn(std::io::Error) -> CapturedError {
    let path = path.display().to_string();
    move |source| CapturedError::File { path: path.clone(), source }
}

/// A folder for files that are made here. A link in its place is not followed.
pub(crate) fn own_folder(folder: &Path) -> Result<()> {
    if folder.is_symlink() {
        let error = io::Error::other("expected a folder, found a link");
        return Err(failed(folder)(error));
    }
    fs::create_dir_all(folder).map_err(failed(folder))
}

/// Writes a code object into a folder, named by its hash; the file.
///
/// # Errors
/// When it is damaged, or the file cannot be written.
pub fn code_object(reader: &Reader, id: Id, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let name = format!("{id}.hsaco");
    let path = folder.join(&name);
    let mut file = Output::begin_in(folder, &name, Readers::Those, &[reader.path()])?;
    file.write_all(&reader.code_object(id)?).map_err(failed(&path))?;
    file.finish()?;
    Ok(path)
}

/// Writes the memory of a dispatch into a folder, a file for each buffer before and after the kernel: `.npy` where it is
/// known what its elements are, `.bin` otherwise. Allocations that no argument and no variable names are left out unless
/// `all` is asked for. The files.
///
/// # Errors
/// When the capture is damaged, or a file cannot be written.
pub fn memory(captured: &CapturedDispatch<'_>, rules: &[Rule], all: bool, folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = folder.join(format!("dispatch-{}", captured.dispatch.id));
    own_folder(&folder)?;
    let mut files = Vec::new();
    for buffer in buffers(captured, rules)?.iter().filter(|b| all || b.is_named()) {
        for (when, memory) in [("before", Some(&captured.before)), ("after", captured.after.as_ref())] {
            if let Some(memory) = memory.filter(|memory| holds(memory, buffer)) {
                files.push(write(captured.reader, memory, buffer, when, &folder)?);
            }
        }
    }
    Ok(files)
}

fn holds(memory: &Memory<'_>, buffer: &Buffer) -> bool {
    memory.ranges().iter().any(|range| range.start <= buffer.start && buffer.end <= range.end)
}

fn write(reader: &Reader, memory: &Memory<'_>, buffer: &Buffer, when: &str, folder: &Path) -> Result<PathBuf> {
    let (length, size) = (buffer.end - buffer.start, buffer.element_type.size() as u64);
    let header = npy::header(buffer.element_type, length / size).filter(|_| length % size == 0);
    // Names are the source's; what a file system has other uses for is not taken over.
    let name = buffer.name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
    let ending = if header.is_some() { "npy" } else { "bin" };
    let name = format!("{name}.{when}.{ending}");
    let path = folder.join(&name);
    let mut file = Output::begin_in(folder, &name, Readers::Owner, &[reader.path()])?;
    file.write_all(&header.unwrap_or_default()).map_err(failed(&path))?;
    let mut at = buffer.start;
    let mut bytes = Vec::new();
    while at < buffer.end {
        bytes.resize((buffer.end - at).min(STEP) as usize, 0);
        memory.read(at, &mut bytes)?;
        file.write_all(&bytes).map_err(failed(&path))?;
        at += bytes.len() as u64;
    }
    file.finish()?;
    Ok(path)
}
