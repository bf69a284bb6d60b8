//! What every story needs.

pub(crate) mod captures;
pub(crate) mod compare;
pub(crate) mod harness;
pub(crate) mod launch;
pub(crate) mod log;
pub(crate) mod versions;
