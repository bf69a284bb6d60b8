//! What a program in the process can ask about progress: a runtime does not tell a kernel that waits from one that works.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// Where a wave of the first dispatch without progress was.
static STUCK: OnceLock<CString> = OnceLock::new();

/// Keeps what is known of a dispatch without progress, if it is the first.
pub(crate) fn tell(place: &str) {
    if let Ok(place) = CString::new(place) {
        STUCK.get_or_init(|| place);
    }
}

/// Where a wave of the first dispatch without progress was, as text that stays; null while each dispatch makes progress.
#[unsafe(no_mangle)]
pub extern "C" fn kfdemu_no_progress() -> *const c_char {
    STUCK.get().map_or(std::ptr::null(), |place| place.as_ptr())
}
