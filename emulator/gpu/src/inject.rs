//! Fault injection: chosen packets of a queue fail as firmware and hardware make them fail.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Trap;
use crate::driver::{PacketError, QueueError};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// In place of the packet's work, a read of [`NOWHERE`]: a memory fault.
    MemoryFault,
    /// In place of the packet's work, a wave stops for this reason.
    Wave(Trap),
    /// The packet processor refuses the packet.
    Packet(PacketError),
    /// The packet is taken this much later; without a time, neither it nor any after it is ever taken.
    Stall(Option<Duration>),
    /// The completion signal is decremented this much after the packet's end. Its times are the true ones.
    Delay(Duration),
    /// The completion signal is never decremented. The packet's slot is released all the same.
    Lose,
}

/// An address that is mapped nowhere.
pub const NOWHERE: u64 = 0x0bad_0000_0000;

impl Effect {
    /// The error that the queue stops with; `None` for an effect without an error.
    pub(crate) fn error(self) -> Option<QueueError> {
        match self {
            Effect::Wave(trap) => Some(QueueError::Injected(trap)),
            Effect::Packet(error) => Some(QueueError::Packet(error)),
            _ => None,
        }
    }
}

/// What goes wrong at some packets of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The packets' ids.
    pub packets: RangeInclusive<u64>,
    /// What happens to each of them.
    pub effect: Effect,
}
