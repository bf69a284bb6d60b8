//! Safe wrappers over a table of AMD's HSA runtime functions.
//!
//! An [`Api`] is a private copy of the function pointers that were in the runtime's tables when it was made — before any
//! hook of ours was written there — so a call through it never comes back to us. It has two sources: the table that
//! `OnLoad` is given ([`Api::copy`]) and, with the feature `dlopen`, a runtime that this process opens itself
//! (`Api::open`).
//!
//! What a runtime's version lacks is `None` in the copy and [`HsaError::Missing`] when it is called: nothing is ever read
//! past the size that a table states.

mod agent;
mod allocate;
mod api;
mod code;
mod dispatch;
mod error;
mod executable;
mod fault;
mod live;
mod memory;
#[cfg(feature = "dlopen")]
mod open;
mod queue;
mod signal;
mod watch;

pub use agent::{Agent, AgentKind, Identity};
pub use api::Api;
pub use dispatch::{DispatchTime, OwnQueue};
pub use error::{HsaError, Result};
pub use executable::{Executable, KernelSymbol, LoadedAt, Loader, VariableSymbol};
pub use fault::{MemoryFault, fault};
pub use hsa_sys as sys;
pub use live::{LiveTable, Slot};
pub use memory::{MappedPart, Pool};
pub use queue::QueueErrorCallback;
pub use signal::OwnSignal;
pub use watch::{Refusal, RingMemory, Wanted, Way, way};
