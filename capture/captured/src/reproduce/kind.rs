//! The kinds of memory that a HIP program allocates.

use logdur_capture::{Allocation, AllocationKind};

/// How an allocation is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `hipMalloc`.
    Device,
    /// `hipExtMallocWithFlags`, coherent at once.
    DeviceFine,
    /// `hipHostMalloc`.
    Pinned,
    /// `hipHostRegister`.
    Registered,
    /// `hipMallocManaged`.
    Managed,
}

impl Kind {
    /// Of an allocation.
    ///
    /// # Errors
    /// What its memory is, if HIP has none such.
    pub(super) fn of(allocation: &Allocation) -> Result<Kind, &'static str> {
        match allocation.kind {
            AllocationKind::Virtual => Kind::of_memory(allocation.backing),
            kind => Kind::of_memory(kind),
        }
    }

    fn of_memory(kind: AllocationKind) -> Result<Kind, &'static str> {
        match kind {
            AllocationKind::DeviceCoarse => Ok(Kind::Device),
            AllocationKind::DeviceFine => Ok(Kind::DeviceFine),
            AllocationKind::HostPool | AllocationKind::Kernarg => Ok(Kind::Pinned),
            AllocationKind::LockedHost => Ok(Kind::Registered),
            AllocationKind::Managed => Ok(Kind::Managed),
            AllocationKind::DeviceExtended => Err("of extended scope"),
            AllocationKind::Virtual => Err("that is mapped, of an unknown kind"),
            AllocationKind::Ipc => Err("of another process"),
            AllocationKind::Foreign => Err("of another device or library"),
            AllocationKind::Other(_) => Err("of an unknown kind"),
        }
    }

    /// Its name in the program, and what the README calls it.
    pub(super) fn row(self) -> (&'static str, &'static str) {
        match self {
            Kind::Device => ("DEVICE", "GPU"),
            Kind::DeviceFine => ("DEVICE_FINE", "GPU, fine-grained"),
            Kind::Pinned => ("PINNED", "host, pinned"),
            Kind::Registered => ("REGISTERED", "host, registered"),
            Kind::Managed => ("MANAGED", "managed"),
        }
    }

    /// True for memory of one GPU.
    pub(super) fn is_of_gpu(self) -> bool {
        match self {
            Kind::Device | Kind::DeviceFine => true,
            Kind::Pinned | Kind::Registered | Kind::Managed => false,
        }
    }
}
