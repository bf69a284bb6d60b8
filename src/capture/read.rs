//! Reading memory of hosts and GPUs, a piece at a time.
//!
//! # Threads
//! The capture thread.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::{AgentKind, Api, OwnSignal, Pool};

use super::memory::{Allocation, Kind};

/// Bytes that are read at once.
pub(super) const PIECE: usize = 4 << 20;
/// How long to sleep between two looks at a copy.
const LOOK: Duration = Duration::from_micros(20);

/// Why memory could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The runtime does not copy it.
    #[error(transparent)]
    Runtime(#[from] hsa::HsaError),
    /// The copy is not complete.
    #[error("the time was over before it was copied")]
    Expired,
    /// It is somebody else's.
    #[error("it is memory of another process")]
    Foreign,
    /// The machine has no processor.
    #[error("the runtime has no agent for the host")]
    NoHost,
}

/// What memory is read with: room that a GPU can write, and a signal.
pub(super) struct Reader {
    api: &'static Api,
    host: u64,
    room: NonNull<u8>,
    copied: OwnSignal,
    /// A copy into the room was not complete in time, and may go on.
    lost: bool,
}

// SAFETY: the room is the reader's own.
unsafe impl Send for Reader {}

impl Reader {
    /// For copies from every GPU.
    ///
    /// # Errors
    /// When the runtime has no memory or signal for it.
    pub(super) fn new(api: &'static Api) -> Result<Reader, Unread> {
        let agents = api.agents()?;
        let host = agents.iter().find(|a| a.kind == AgentKind::Cpu).ok_or(Unread::NoHost)?.handle;
        let gpus: Vec<u64> = agents.iter().filter(|a| a.kind == AgentKind::Gpu).map(|a| a.handle).collect();
        Ok(Reader { api, host, room: api.kernarg_memory(&gpus, PIECE)?, copied: api.own_signal(0)?, lost: false })
    }

    /// Fills `to`, at most [`PIECE`], with what is in memory from an address on.
    ///
    /// # Errors
    /// Why that could not be done.
    ///
    /// # Safety
    /// The memory must stay allocated meanwhile, and have all of the bytes.
    pub(super) unsafe fn read(
        &mut self,
        memory: &Allocation,
        address: u64,
        to: &mut [u8],
        deadline: Instant,
    ) -> Result<(), Unread> {
        let skipped = address - memory.base;
        if let Some(host) = memory.host() {
            let from = ptr::with_exposed_provenance((host + skipped) as usize);
            // SAFETY: the caller's promise. The application may write there: what is read then is neither old nor new.
            unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            return Ok(());
        }
        let (Kind::Pool(Pool { agent, .. }) | Kind::Variable { agent, .. }) = memory.kind else {
            return Err(Unread::Foreign);
        };
        if self.lost {
            return Err(Unread::Expired);
        }
        self.copied.memory().value.store(1, Ordering::Release);
        let from = (ptr::with_exposed_provenance(address as usize), agent);
        // SAFETY: the caller's promise, and the room's size.
        unsafe { self.api.start_copy((self.room.as_ptr(), self.host), from, to.len(), self.copied) }?;
        while self.copied.memory().value.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                self.lost = true;
                return Err(Unread::Expired);
            }
            std::thread::sleep(LOOK);
        }
        // SAFETY: the copy into the room is complete.
        unsafe { ptr::copy_nonoverlapping(self.room.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}
