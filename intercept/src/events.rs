//! KFD's events of signals that a tool waits for by an ioctl of its own, as rocprofiler-sdk does.
//!
//! A GPU raises the event of a signal for each packet that completes on it. ROCr raises it only while a thread waits in the runtime
//! (`InterruptSignal::SetEvent`). The library therefore raises it when it completes a signal whose event a tool has asked for.
//!
//! # Threads
//! Any.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::address_map::AddressMap;

/// `AMDKFD_IOC_SET_EVENT`: the driver reads 8 bytes; number 10 of group `K`. Source: `kfd_ioctl.h`.
const SET_EVENT: libc::c_ulong = 0x4008_4b0a;

/// `struct kfd_ioctl_set_event_args` of `kfd_ioctl.h`.
#[repr(C)]
struct SetEvent {
    event: u32,
    padding: u32,
}

/// The events that tools have asked for.
#[derive(Default)]
pub(crate) struct AwaitedEvents {
    /// By the signal's handle.
    events: AddressMap,
    /// The driver, which has one state for all descriptors of a process.
    driver: OnceLock<io::Result<File>>,
}

impl AwaitedEvents {
    /// A tool has asked for the event of a signal.
    ///
    /// # Errors
    /// Why its event cannot be raised.
    pub(crate) fn given(&self, signal: u64, event: u32) -> Result<(), &io::Error> {
        let open = || File::options().read(true).write(true).open("/dev/kfd");
        self.driver.get_or_init(open).as_ref()?;
        self.events.set(signal, event.into());
        Ok(())
    }

    /// A signal is destroyed.
    pub(crate) fn forget(&self, signal: u64) {
        if self.events.get(signal) != 0 {
            self.events.set(signal, 0);
        }
    }

    /// The library has changed the value of a signal.
    #[inline]
    pub(crate) fn raise(&self, signal: u64) {
        let event = self.events.get(signal) as u32;
        if event != 0 {
            self.set(event);
        }
    }

    #[cold]
    fn set(&self, event: u32) {
        let Some(Ok(driver)) = self.driver.get() else { return };
        let args = SetEvent { event, padding: 0 };
        // SAFETY: the request reads the structure, which outlives the call. For an event that is gone, the driver returns an error.
        unsafe { libc::ioctl(driver.as_raw_fd(), SET_EVENT, &raw const args) };
    }
}
