//! Shared virtual memory: what the driver was told of ranges of the process's own memory.
//!
//! The memory stays where it is, in the host: a preferred place or a prefetch is remembered and told again, and moves
//! nothing. Ranges that a GPU may access are in its page tables at the host's addresses.
//!
//! # Threads
//! Any; one lock, held while page tables change, so that they follow the order of the requests.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use amdgpu_emu::memory::Backing;

use crate::device::Device;
use crate::lock;
use crate::uapi::kfd::*;

/// What GPUs may do with a range, by a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Access {
    migrate: u64,
    in_place: u64,
    none: u64,
}

/// The attributes of a range. Source of the defaults: `svm_range_set_default_attributes` of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    preferred: u32,
    prefetch: u32,
    flags: u32,
    granularity: u8,
    access: Access,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            preferred: KFD_IOCTL_SVM_LOCATION_UNDEFINED.0,
            prefetch: KFD_IOCTL_SVM_LOCATION_UNDEFINED.0,
            flags: KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
            granularity: 9,
            access: Access::default(),
        }
    }
}

/// The ranges of a process, by their first address; with their ends. They do not overlap.
#[derive(Default)]
struct Ranges(BTreeMap<u64, (u64, Attributes)>);

impl Ranges {
    /// Cuts ranges in two where one reaches across an address.
    fn cut(&mut self, at: u64) {
        let across =
            self.0.range(..at).next_back().filter(|(_, (end, _))| *end > at).map(|(&start, &range)| (start, range));
        if let Some((start, (end, attributes))) = across {
            self.0.insert(start, (at, attributes));
            self.0.insert(at, (end, attributes));
        }
    }

    /// Changes the attributes of every byte from `start` to `end`.
    fn change(&mut self, start: u64, end: u64, change: impl Fn(&mut Attributes)) {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while at < end {
            let next = self.0.range(at..end).next().map(|(&start, &(end, _))| (start, end));
            match next {
                Some((next, to)) if next == at => {
                    if let Some((_, attributes)) = self.0.get_mut(&at) {
                        change(attributes);
                    }
                    at = to;
                }
                gap => {
                    let to = gap.map_or(end, |(next, _)| next);
                    let mut attributes = Attributes::default();
                    change(&mut attributes);
                    self.0.insert(at, (to, attributes));
                    at = to;
                }
            }
        }
    }

    /// The attributes of all that is known from `start` to `end`; the defaults where nothing is.
    fn attributes(&self, start: u64, end: u64) -> Vec<Attributes> {
        let before = self.0.range(..=start).next_back().filter(|(_, (to, _))| *to > start);
        let inside = self.0.range(start + 1..end);
        let found: Vec<Attributes> = before.into_iter().chain(inside).map(|(_, &(_, attributes))| attributes).collect();
        if found.is_empty() { vec![Attributes::default()] } else { found }
    }
}

/// One attribute of a request: kind and value.
pub(crate) type Attribute = kfd_ioctl_svm_attribute;

/// The shared virtual memory of a process.
#[derive(Default)]
pub(crate) struct SharedVirtual {
    ranges: Mutex<Ranges>,
    /// Faults of GPUs are retried, so that every range can be accessed.
    retries: AtomicBool,
}

/// The GPU at a place in the list, as a bit.
fn bit(device: usize) -> u64 {
    1u64.checked_shl(device as u32).unwrap_or(0)
}

impl SharedVirtual {
    /// Whether faults of GPUs are retried.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Ordering::Acquire)
    }

    /// From now on they are, or not.
    pub(crate) fn set_retries(&self, retries: bool, devices: &[Device]) {
        self.retries.store(retries, Ordering::Release);
        for device in devices {
            device.gpu.space.set_pageable(retries);
        }
    }

    /// Sets attributes of whole pages.
    ///
    /// # Errors
    /// EINVAL for a number of a GPU that is none, and for a kind that is none.
    pub(crate) fn set(&self, devices: &[Device], start: u64, end: u64, attributes: &[Attribute]) -> Result<(), i32> {
        let index = |gpu_id: u32| devices.iter().position(|d| d.gpu_id == gpu_id).ok_or(libc::EINVAL);
        // Looked at before anything is changed.
        for attribute in attributes {
            match kfd_ioctl_svm_attr_type(attribute.type_) {
                KFD_IOCTL_SVM_ATTR_ACCESS | KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE | KFD_IOCTL_SVM_ATTR_NO_ACCESS => {
                    index(attribute.value)?;
                }
                KFD_IOCTL_SVM_ATTR_PREFERRED_LOC
                | KFD_IOCTL_SVM_ATTR_PREFETCH_LOC
                | KFD_IOCTL_SVM_ATTR_SET_FLAGS
                | KFD_IOCTL_SVM_ATTR_CLR_FLAGS
                | KFD_IOCTL_SVM_ATTR_GRANULARITY => {}
                _ => return Err(libc::EINVAL),
            }
        }
        let mut ranges = lock(&self.ranges);
        ranges.change(start, end, |range| {
            for &Attribute { type_, value } in attributes {
                let gpu = index(value).map_or(0, bit);
                let Access { migrate, in_place, none } = &mut range.access;
                match kfd_ioctl_svm_attr_type(type_) {
                    KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => range.preferred = value,
                    KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => range.prefetch = value,
                    KFD_IOCTL_SVM_ATTR_SET_FLAGS => range.flags |= value,
                    KFD_IOCTL_SVM_ATTR_CLR_FLAGS => range.flags &= !value,
                    KFD_IOCTL_SVM_ATTR_GRANULARITY => range.granularity = value.min(0x3f) as u8,
                    KFD_IOCTL_SVM_ATTR_ACCESS => {
                        (*migrate, *in_place, *none) = (*migrate | gpu, *in_place & !gpu, *none & !gpu);
                    }
                    KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE => {
                        (*migrate, *in_place, *none) = (*migrate & !gpu, *in_place | gpu, *none & !gpu);
                    }
                    _ => (*migrate, *in_place, *none) = (*migrate & !gpu, *in_place & !gpu, *none | gpu),
                }
            }
        });
        for (n, device) in devices.iter().enumerate() {
            let named = attributes.iter().any(|a| a.value == device.gpu_id && (2..=4).contains(&a.type_));
            if !named {
                continue;
            }
            let known = ranges.attributes(start, end);
            if known.iter().all(|range| (range.access.migrate | range.access.in_place) & bit(n) != 0) {
                let base = std::ptr::with_exposed_provenance_mut(start as usize);
                let writable = known.iter().all(|range| range.flags & KFD_IOCTL_SVM_FLAG_GPU_RO == 0);
                // SAFETY: the application told the driver, through the runtime, that GPUs use these whole pages. Like the
                // driver, the emulator follows what the application does with them between kernels.
                device.gpu.space.map(start, unsafe { Backing::registered(base, end - start) }, writable);
            } else {
                device.gpu.space.unmap(start, end - start);
            }
        }
        Ok(())
    }

    /// Fills in the values of attributes of whole pages: what all of them have in common. Source: `svm_range_get_attr`.
    ///
    /// # Errors
    /// As [`SharedVirtual::set`].
    pub(crate) fn get(
        &self,
        devices: &[Device],
        start: u64,
        end: u64,
        attributes: &mut [Attribute],
    ) -> Result<(), i32> {
        let ranges = lock(&self.ranges).attributes(start, end);
        let same = |of: fn(&Attributes) -> u32| {
            let first = ranges.first().map_or(KFD_IOCTL_SVM_LOCATION_UNDEFINED.0, of);
            if ranges.iter().all(|range| of(range) == first) { first } else { KFD_IOCTL_SVM_LOCATION_UNDEFINED.0 }
        };
        for attribute in attributes {
            match kfd_ioctl_svm_attr_type(attribute.type_) {
                KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => attribute.value = same(|range| range.preferred),
                KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => attribute.value = same(|range| range.prefetch),
                KFD_IOCTL_SVM_ATTR_SET_FLAGS => attribute.value = ranges.iter().fold(u32::MAX, |all, r| all & r.flags),
                KFD_IOCTL_SVM_ATTR_CLR_FLAGS => attribute.value = !ranges.iter().fold(0, |any, r| any | r.flags),
                KFD_IOCTL_SVM_ATTR_GRANULARITY => {
                    attribute.value = ranges.iter().map(|r| r.granularity).min().unwrap_or_default().into();
                }
                KFD_IOCTL_SVM_ATTR_ACCESS | KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE | KFD_IOCTL_SVM_ATTR_NO_ACCESS => {
                    let gpu = devices.iter().position(|d| d.gpu_id == attribute.value).map(bit).ok_or(libc::EINVAL)?;
                    let all = |has: fn(&Access) -> u64| ranges.iter().all(|range| has(&range.access) & gpu != 0);
                    let denied = ranges.iter().any(|range| range.access.none & gpu != 0);
                    let kind = if all(|access| access.migrate) {
                        KFD_IOCTL_SVM_ATTR_ACCESS
                    } else if all(|access| access.migrate | access.in_place) {
                        KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
                    } else if self.retries() && !denied {
                        KFD_IOCTL_SVM_ATTR_ACCESS
                    } else {
                        KFD_IOCTL_SVM_ATTR_NO_ACCESS
                    };
                    attribute.type_ = kind.0;
                }
                _ => return Err(libc::EINVAL),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_their_attributes_differ_and_gaps_have_the_defaults() {
        let mut ranges = Ranges::default();
        let granularity = |ranges: &Ranges, start, end| -> Vec<u8> {
            ranges.attributes(start, end).iter().map(|range| range.granularity).collect()
        };
        assert_eq!(granularity(&ranges, 0x1000, 0x9000), [9]);
        ranges.change(0x2000, 0x4000, |range| range.granularity = 1);
        ranges.change(0x6000, 0x8000, |range| range.granularity = 2);
        ranges.change(0x3000, 0x7000, |range| range.flags = 0);
        assert_eq!(granularity(&ranges, 0x2000, 0x8000), [1, 1, 9, 2, 2]);
        let flags: Vec<u32> = ranges.attributes(0x2000, 0x8000).iter().map(|range| range.flags).collect();
        assert_eq!(flags, [3, 0, 0, 0, 3]);
        assert_eq!(granularity(&ranges, 0x2800, 0x2900), [1], "a part of one");
    }
}
