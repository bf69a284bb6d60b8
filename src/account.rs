//! What became of every dispatch that was seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter, cumulative over the life of the process.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes the struct of counters and the table that the log's last line is written from.
macro_rules! counters {
    ($( $(#[doc = $doc:literal])+ $field:ident = $name:literal, $always:literal; )*) => {
        /// The counters. `seen` = `logged` + `filtered` + `unwritten`; the others say more about those logged.
        #[derive(Debug, Default)]
        pub(crate) struct Account {
            $( $(#[doc = $doc])+ pub(crate) $field: Counter, )*
        }

        impl Account {
            /// Name and value of every counter that is to be shown.
            pub(crate) fn shown(&self) -> Vec<(&'static str, u64)> {
                let all = [$( ($name, self.$field.get(), $always), )*];
                all.into_iter().filter(|&(_, value, always)| always || value != 0).map(|(name, value, _)| (name, value)).collect()
            }
        }
    };
}

counters! {
    /// Dispatch packets that passed.
    seen = "seen", true;
    /// Rows written.
    logged = "logged", true;
    /// Dispatches whose kernel `LOGDUR_LOG_FILTER` does not want.
    filtered = "filtered", false;
    /// Rows that could not be written to the log.
    unwritten = "unwritten", false;
    /// Of the rows: complete, but with no times from the GPU.
    no_times = "no-times", false;
    /// Of the rows: never seen complete.
    incomplete = "incomplete", false;
    /// Queues whose packets somebody writes around us.
    bypassed = "bypassed-queues", false;
    /// Packets of those queues, dispatches or not, that were consumed unseen.
    unseen_packets = "unseen-packets", false;
    /// Of the rows: of a kernel whose name is not known.
    unknown_kernel = "unknown-kernel", false;
}
