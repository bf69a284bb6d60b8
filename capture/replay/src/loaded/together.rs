//! Launches that run beside each other: each has memory for its arguments, and a queue.

use super::{Launch, LoadedDispatch};
use crate::contents;
use crate::error::Result;
use crate::placed::Placed;

/// Arguments begin where addresses are multiples of this, and have as many bytes of a pattern behind them: more than any kernel asks for.
const ALIGNED: usize = 256;

impl LoadedDispatch<'_> {
    /// Has so many queues.
    ///
    /// # Errors
    /// When the device cannot have them.
    pub(crate) fn make_queues(&mut self, count: usize) -> Result<()> {
        self.device.make_queues(count)
    }

    /// Memory for the arguments of launches, and where those of each are in it.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn place_arguments<'l>(
        &mut self,
        launches: impl IntoIterator<Item = Option<&'l Launch>>,
    ) -> Result<Vec<Placed>> {
        let (mut offsets, mut bytes) = (Vec::new(), 0);
        for launch in launches {
            offsets.push(bytes as u64);
            bytes += launch.map_or(0, |launch| launch.segment.len().next_multiple_of(ALIGNED) + ALIGNED);
        }
        let first = self.device.kernarg(bytes)?;
        Ok(offsets.into_iter().map(|offset| first.plus(offset)).collect())
    }

    /// Writes the arguments of a launch, and a pattern behind them.
    ///
    /// # Errors
    /// When the device cannot be written to.
    pub(crate) fn write_arguments(&self, launch: &Launch, at: Placed) -> Result<()> {
        let bytes = launch.segment.len().next_multiple_of(ALIGNED) + ALIGNED;
        let behind = (at.0..at.0 + bytes as u64).skip(launch.segment.len()).map(contents::pattern);
        let bytes: Vec<u8> = launch.segment.iter().copied().chain(behind).collect();
        // SAFETY: `place_arguments` has so many bytes for it, and no kernel runs.
        unsafe { self.device.write(&[(at, &bytes)]) }
    }

    /// Publishes a launch, whose arguments are at an address: behind all others of the queue, or as its packet says.
    ///
    /// # Errors
    /// When there is no such queue.
    ///
    /// # Safety
    /// [`IN_FLIGHT`](crate::device::IN_FLIGHT) launches of the queue are not in flight.
    pub(crate) unsafe fn submit(
        &mut self,
        queue: usize,
        launch: &Launch,
        at: Placed,
        is_behind_all: bool,
        ticket: usize,
    ) -> Result<()> {
        let mut packet = launch.packet;
        if is_behind_all {
            packet.set_barrier_bit();
        }
        packet.set_kernarg_address(at.0);
        // SAFETY: kernel and segment are loaded and stay as long as the process; the caller's promise.
        unsafe { self.device.submit(queue, packet, ticket) }
    }

    /// Says how many workgroups meet in a launch that is about to run alone.
    ///
    /// # Errors
    /// When the device has no way to say that.
    pub(crate) fn meet(&self, launch: &Launch) -> Result<()> {
        launch.meeting.map_or(Ok(()), |workgroups| self.device.meet(workgroups))
    }

    /// Waits for launches that were published: their tickets, and nanoseconds on the GPU.
    ///
    /// # Errors
    /// A fault, by the buffer that is nearest; kernels that do not end. The device is of no use then.
    pub(crate) fn completed(&mut self) -> Result<Vec<(usize, u64)>> {
        self.device.completed(self.limit)
    }
}

impl Launch {
    /// True if its kernel meets at a barrier of the whole grid, of which a GPU has one at a time.
    pub(crate) fn meets(&self) -> bool {
        self.meeting.is_some()
    }
}
