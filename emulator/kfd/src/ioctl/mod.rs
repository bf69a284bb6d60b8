//! The requests of the two devices: one table each.
//!
//! Requests are told by their number only. Their structures have grown from version to version, so each is copied in
//! and out by the size that the caller's request says, and what the caller does not have reads as zero.

mod drm;
mod event;
mod ipc;
mod memory;
mod process;
mod queue;
pub(crate) mod share;
mod svm;

use crate::Errno;
use crate::state::{Node, State};
use crate::uapi::kfd::*;

/// A request: its number, its name, and the code that answers it.
struct Request {
    number: u8,
    name: &'static str,
    answer: fn(&Call<'_>) -> Result<(), Errno>,
}

/// One call of `ioctl`.
struct Call<'a> {
    state: &'a State,
    /// The device that it is about, for render nodes.
    device: usize,
    /// The caller's structure.
    argument: *mut u8,
    /// Its size, by the request.
    size: usize,
}

impl Call<'_> {
    /// Copies the caller's structure in, lets `f` answer, and copies it out: as by the drivers, refused or not.
    fn with<T: Default + Copy>(&self, f: impl FnOnce(&State, &mut T) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut value = T::default();
        let bytes = self.size.min(size_of::<T>());
        if bytes > 0 && self.argument.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the request says that its argument has `size` bytes, of which at most those of `T` are copied; the
        // structures are plain integers.
        unsafe { std::ptr::copy_nonoverlapping(self.argument, (&raw mut value).cast(), bytes) };
        let result = f(self.state, &mut value);
        // SAFETY: as above; requests that are answered have a structure that may be written.
        unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast(), self.argument, bytes) };
        result
    }
}

/// Copies an answer into the caller's buffer, which may be shorter (an older library) or longer.
fn put<T: Copy>(to: u64, room: u32, value: &T) {
    let bytes = size_of::<T>().min(room as usize);
    let place: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
    // SAFETY: the caller says that its buffer has `room` bytes; at most that many are written.
    unsafe { std::ptr::copy_nonoverlapping((&raw const *value).cast(), place, bytes) };
}

/// Makes an entry whose code takes the state and the structure.
macro_rules! request {
    ($number:literal $name:literal $type:ty, $answer:path) => {
        Request { number: $number, name: $name, answer: |call| call.with::<$type>($answer) }
    };
}

/// The requests of `/dev/kfd`. Source: `kfd_ioctl.h`.
#[rustfmt::skip]
const KFD: &[Request] = &[
    request!(0x01 "GET_VERSION"            kfd_ioctl_get_version_args,               process::get_version),
    request!(0x02 "CREATE_QUEUE"           kfd_ioctl_create_queue_args,              queue::create),
    request!(0x03 "DESTROY_QUEUE"          kfd_ioctl_destroy_queue_args,             queue::destroy),
    request!(0x04 "SET_MEMORY_POLICY"      kfd_ioctl_set_memory_policy_args,         process::accept),
    request!(0x05 "GET_CLOCK_COUNTERS"     kfd_ioctl_get_clock_counters_args,        process::get_clock_counters),
    request!(0x07 "UPDATE_QUEUE"           kfd_ioctl_update_queue_args,              queue::update),
    request!(0x08 "CREATE_EVENT"           kfd_ioctl_create_event_args,              event::create),
    request!(0x09 "DESTROY_EVENT"          kfd_ioctl_destroy_event_args,             event::destroy),
    request!(0x0a "SET_EVENT"              kfd_ioctl_set_event_args,                 event::set),
    request!(0x0b "RESET_EVENT"            kfd_ioctl_reset_event_args,               event::reset),
    request!(0x0c "WAIT_EVENTS"            kfd_ioctl_wait_events_args,               event::wait),
    request!(0x11 "SET_SCRATCH_BACKING_VA" kfd_ioctl_set_scratch_backing_va_args,    process::accept),
    request!(0x12 "GET_TILE_CONFIG"        kfd_ioctl_get_tile_config_args,           process::get_tile_config),
    request!(0x13 "SET_TRAP_HANDLER"       kfd_ioctl_set_trap_handler_args,          process::accept),
    request!(0x14 "GET_PROCESS_APERTURES_NEW" kfd_ioctl_get_process_apertures_new_args, process::get_apertures),
    request!(0x15 "ACQUIRE_VM"             kfd_ioctl_acquire_vm_args,                process::acquire_vm),
    request!(0x16 "ALLOC_MEMORY_OF_GPU"    kfd_ioctl_alloc_memory_of_gpu_args,       memory::allocate),
    request!(0x17 "FREE_MEMORY_OF_GPU"     kfd_ioctl_free_memory_of_gpu_args,        memory::free),
    request!(0x18 "MAP_MEMORY_TO_GPU"      kfd_ioctl_map_memory_to_gpu_args,         memory::map),
    request!(0x19 "UNMAP_MEMORY_FROM_GPU"  kfd_ioctl_unmap_memory_from_gpu_args,     memory::unmap),
    request!(0x1a "SET_CU_MASK"            kfd_ioctl_set_cu_mask_args,               queue::set_cu_mask),
    request!(0x1c "GET_DMABUF_INFO"        kfd_ioctl_get_dmabuf_info_args,           ipc::info),
    request!(0x1d "IMPORT_DMABUF"          kfd_ioctl_import_dmabuf_args,             ipc::import_descriptor),
    request!(0x1e "ALLOC_QUEUE_GWS"        kfd_ioctl_alloc_queue_gws_args,           queue::allocate_gws),
    Request { number: 0x20, name: "SVM", answer: svm::attributes },
    request!(0x21 "SET_XNACK_MODE"         kfd_ioctl_set_xnack_mode_args,            svm::set_xnack_mode),
    request!(0x23 "AVAILABLE_MEMORY"       kfd_ioctl_get_available_memory_args,      memory::available),
    request!(0x24 "EXPORT_DMABUF"          kfd_ioctl_export_dmabuf_args,             share::export),
    request!(0x25 "RUNTIME_ENABLE"         kfd_ioctl_runtime_enable_args,            process::runtime_enable),
    // For the dump of a GPU's state after a fault. Refused as by a kernel that schedules queues without firmware, which
    // cannot suspend them.
    Request { number: 0x26, name: "DBG_TRAP", answer: |_| Err(libc::EINVAL) },
    // Of ROCm's own driver, never part of the kernel.
    request!(0x80 "IPC_IMPORT_HANDLE"      ipc::Import,                              ipc::import_words),
    request!(0x81 "IPC_EXPORT_HANDLE"      ipc::Export,                              ipc::export_words),
    // Another of ROCm 5's, which the runtime expects to be refused elsewhere.
    Request { number: 0x82, name: "DBG_TRAP (out of tree)", answer: |_| Err(libc::ENOTTY) },
];

/// Numbers of the ioctl types.
const KFD_TYPE: u64 = b'K' as u64;
const DRM_TYPE: u64 = b'd' as u64;

/// True for requests that may be for an emulated device: everything else is passed on at once.
pub(crate) fn may_be_ours(request: u64) -> bool {
    matches!(request >> 8 & 0xff, KFD_TYPE | DRM_TYPE)
}

/// Answers a request on a device.
pub(crate) fn answer(node: Node, request: u64, argument: *mut u8) -> Result<(), Errno> {
    let state = State::get().ok_or(libc::EBADF)?;
    let (table, device, kind) = match node {
        Node::Kfd => (KFD, 0, "kfd"),
        Node::Render(device) => (drm::TABLE, device, "drm"),
    };
    let (number, size) = ((request & 0xff) as u8, (request >> 16 & 0x3fff) as usize);
    let Some(entry) = table.iter().find(|r| r.number == number) else {
        state.log.once(format_args!("{kind} request {number:#04x} ({size} bytes) is not implemented"));
        return Err(libc::ENOTTY);
    };
    let result = (entry.answer)(&Call { state, device, argument, size });
    if let Err(error) = result
        && error != libc::ENOTTY
    {
        state.log.once(format_args!("{kind} request {} was refused with error {error}", entry.name));
    }
    result
}
