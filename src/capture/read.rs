//! Reading memory of hosts and GPUs, a piece at a time.
//!
//! # Threads
//! The capture thread.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::{AgentKind, Api, OwnSignal, Pool};

use super::copies::{Blocked, Copies};
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
    /// The application has unmapped what it had locked.
    #[error("it is not mapped: {0}")]
    Unmapped(io::Error),
    /// It is somebody else's.
    #[error("it is memory of another process, and no GPU is known that can read it")]
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

    /// Fills `to`, at most [`PIECE`], with what is in memory from an address on, by an engine that no
    /// waiting copy blocks.
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
        copies: &Copies,
        deadline: Instant,
    ) -> Result<(), Unread> {
        let skipped = address - memory.base;
        if let Kind::Locked { host } = memory.kind {
            return own_memory(host + skipped, to);
        }
        if let Some(host) = memory.host() {
            let from = ptr::with_exposed_provenance((host + skipped) as usize);
            // SAFETY: the caller's promise. The application may write there: what is read then is neither old nor new.
            unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            return Ok(());
        }
        let (Kind::Pool(Pool { agent, .. }) | Kind::Variable { agent, .. } | Kind::Foreign { agent: Some(agent) }) =
            memory.kind
        else {
            return Err(Unread::Foreign);
        };
        if self.lost {
            return Err(Unread::Expired);
        }
        self.copied.memory().value.store(1, Ordering::Release);
        // ROCr chooses the engine by the agents that it is told: there is one for each direction, and what it takes for
        // memory of one GPU is copied by a kernel if it is large.
        let (to_agent, from_agent) = match copies.blocked(agent) {
            Blocked { to_host: false, .. } => (self.host, agent),
            Blocked { to_gpu: false, .. } => (agent, self.host),
            _ => (agent, agent),
        };
        let from = (ptr::with_exposed_provenance(address as usize), from_agent);
        // SAFETY: the caller's promise, and the room's size. The GPU can access both.
        unsafe { self.api.start_copy((self.room.as_ptr(), to_agent), from, to.len(), self.copied) }?;
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

/// Reads the application's own memory, which it may have unmapped though it is locked: the kernel says so, instead of a
/// fault.
fn own_memory(from: u64, to: &mut [u8]) -> Result<(), Unread> {
    let process = std::process::id().cast_signed();
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let from = ptr::with_exposed_provenance_mut(from as usize + done);
        let remote = libc::iovec { iov_base: from, iov_len: rest.len() };
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        // SAFETY: the kernel writes at most as many bytes as `rest` has, and reads only what is mapped.
        let read = unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) };
        if read <= 0 {
            return Err(Unread::Unmapped(io::Error::last_os_error()));
        }
        done += read.cast_unsigned();
    }
    Ok(())
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.lost {
            // The copy may still write there.
            return;
        }
        // SAFETY: no copy is under way that would end it, and nobody else knows it.
        let signal = unsafe { self.api.destroy_own_signal(self.copied) };
        // SAFETY: no copy is under way that would write there, and nobody else knows it.
        let room = unsafe { self.api.free(self.room) };
        // What the runtime keeps is of no harm.
        drop((signal, room));
    }
}
