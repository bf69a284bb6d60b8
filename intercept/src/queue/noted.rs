//! Doorbells of queues, for readers of the records: what was rung for and never given to the GPU has no record.
//!
//! # Threads
//! Any. A queue has its doorbell until it is destroyed.

use std::ops::Deref;
use std::sync::Mutex;

use logdur_journal::Records;
use logdur_journal::layout::{Doorbell, MAX_QUEUES};
use logdur_system::lock;

/// The positions that no queue has.
static FREE: Mutex<Positions> = Mutex::new(Positions { returned: Vec::new(), next: 0 });

struct Positions {
    returned: Vec<usize>,
    /// No queue has had this one or those behind it.
    next: usize,
}

/// A doorbell in the records.
#[derive(Debug)]
pub(crate) struct Noted {
    position: usize,
    doorbell: &'static Doorbell,
}

impl Noted {
    /// One that no other queue has; `None` where all are taken.
    pub(crate) fn new(records: &'static Records) -> Option<Noted> {
        let mut free = lock(&FREE);
        let position = free.returned.pop().or_else(|| {
            let next = free.next;
            free.next += usize::from(next < MAX_QUEUES);
            Some(next)
        })?;
        let doorbell = records.header().doorbell(position)?;
        Some(Noted { position, doorbell })
    }

    /// The queue is about to be destroyed: another one may have the doorbell. Once.
    pub(crate) fn give_back(&self) {
        self.doorbell.clear();
        lock(&FREE).returned.push(self.position);
    }
}

impl Deref for Noted {
    type Target = Doorbell;

    fn deref(&self) -> &Doorbell {
        self.doorbell
    }
}
