//! Write indices: producers of a queue that is watched in place reserve packets by an index of ours.
//!
//! Every order that a caller may ask for is given the strongest one, which costs nothing on the hosts that ROCm has.

use std::sync::atomic::Ordering;

use hsa_sys::raw::hsa_queue_t;
use logdur_intercept::watch::inplace::ring_of;

use super::original;

macro_rules! index_hooks {
    (load: $($load:ident $load_fn:ident),*; store: $($store:ident $store_fn:ident),*;
     cas: $($cas:ident $cas_fn:ident),*; add: $($add:ident $add_fn:ident),*;) => {
        $(pub(super) unsafe extern "C" fn $load(queue: *const hsa_queue_t) -> u64 {
            match ring_of(queue) {
                Some(ring) => ring.write_index.load(Ordering::Acquire),
                None => original!(core.$load_fn(queue) else 0),
            }
        })*
        $(pub(super) unsafe extern "C" fn $store(queue: *const hsa_queue_t, value: u64) {
            match ring_of(queue) {
                Some(ring) => ring.reserve_up_to(value),
                None => original!(core.$store_fn(queue, value) else ()),
            }
        })*
        $(pub(super) unsafe extern "C" fn $cas(queue: *const hsa_queue_t, expected: u64, value: u64) -> u64 {
            match ring_of(queue) {
                Some(ring) => ring.reserve_from(expected, value),
                None => original!(core.$cas_fn(queue, expected, value) else 0),
            }
        })*
        $(pub(super) unsafe extern "C" fn $add(queue: *const hsa_queue_t, value: u64) -> u64 {
            match ring_of(queue) {
                Some(ring) => ring.reserve(value),
                None => original!(core.$add_fn(queue, value) else 0),
            }
        })*
    };
}

index_hooks! {
    load: load_relaxed hsa_queue_load_write_index_relaxed_fn, load_scacquire hsa_queue_load_write_index_scacquire_fn;
    store: store_relaxed hsa_queue_store_write_index_relaxed_fn,
        store_screlease hsa_queue_store_write_index_screlease_fn;
    cas: cas_relaxed hsa_queue_cas_write_index_relaxed_fn, cas_scacquire hsa_queue_cas_write_index_scacquire_fn,
        cas_screlease hsa_queue_cas_write_index_screlease_fn, cas_scacq_screl hsa_queue_cas_write_index_scacq_screl_fn;
    add: add_relaxed hsa_queue_add_write_index_relaxed_fn, add_scacquire hsa_queue_add_write_index_scacquire_fn,
        add_screlease hsa_queue_add_write_index_screlease_fn, add_scacq_screl hsa_queue_add_write_index_scacq_screl_fn;
}
