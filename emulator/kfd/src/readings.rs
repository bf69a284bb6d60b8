//! Files of the device tree whose text is made when they are opened.

use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::board::gpu_id;
use crate::sysfs::{Reading, visible_memory};
use crate::{memfile, paths, plan, tree, usage};

/// The value now of a GPU's board, of all processes.
pub(crate) fn value(index: usize, reading: Reading) -> u64 {
    let machine = tree::root().map_or(0, usage::machine);
    let nodes = &plan::plan().nodes;
    let Some(node) = nodes.get(index) else { return 0 };
    let on_board = (0..).zip(nodes).filter(|(_, other)| other.board_index == node.board_index);
    let (video, system) = on_board
        .map(|(index, _)| usage::everywhere(machine, gpu_id(index)))
        .fold((0, 0), |sum, (video, system)| (sum.0 + video, sum.1 + system));
    match reading {
        Reading::Video => video,
        Reading::Visible => video.min(visible_memory(&node.board, plan::settings())),
        Reading::System => system,
    }
}

/// A file with what a path shows now; `None` if its text does not change, or if there is no memory for the file.
pub(crate) fn file(path: *const c_char) -> Option<OwnedFd> {
    let (index, reading) = paths::reading(path)?;
    let text = format!("{}\n", value(index, reading));
    let file = memfile::create(c"kfdemu-reading", text.len() as u64).ok()?;
    // SAFETY: a valid descriptor, and as many bytes as the text has.
    let written = unsafe { libc::pwrite(file.as_raw_fd(), text.as_ptr().cast(), text.len(), 0) };
    (written == text.len() as isize).then_some(file)
}

/// The path by which this process can open a file that it has open.
pub(crate) fn path(file: &OwnedFd) -> Option<CString> {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Opens what a path shows now; `None` as for [`file()`].
pub(crate) fn open(path: *const c_char, flags: i32) -> Option<RawFd> {
    let file = file(path)?;
    memfile::reopen(&format!("/proc/self/fd/{}", file.as_raw_fd()), flags & libc::O_CLOEXEC).ok()
}
