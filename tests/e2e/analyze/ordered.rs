//! Races, and what orders accesses: barriers, atomics that release and acquire.

use crate::analyze::instructions::{analyzed, captured_on, found};
use crate::support::harness::{archs, on_hardware};

/// Kernels with a race: the words of the finding and of the source line.
const RACES: &[(&str, &str, &str)] = &[
    ("behind_scratch", "memory is written by two workgroups", "behind scratch"),
    ("byte_race", "LDS is read that another wave writes", "read of bytes"),
    ("lanes_of_bytes", "two lanes of one instruction write different values", "bytes of lanes"),
    ("lanes_of_pairs", "two lanes of one instruction write different values", "pairs of lanes"),
    ("loads_to_lds", "its write is not waited for before the barrier", "read of what is loaded"),
    ("loads_to_lds", "the wave's own load into it has not been waited for", "read of what is loaded"),
    ("plain_and_atomic", "by an atomic and by an access that is none", ""),
    ("overlapping_tickets", "memory is written by two workgroups", "overlapping tiles"),
    ("flag_before_data", "memory is read that another workgroup writes", "read of data"),
    ("flag_without_release", "memory is read that another workgroup writes", "read of data"),
    ("flag_without_acquire", "no cache was invalidated since", "read of data"),
    ("mates", "memory is read that another wave of the workgroup writes", "read of a mate's"),
];

#[test]
fn atomics_that_release_and_acquire_order_waves_and_workgroups_and_without_them_a_race_is_found() {
    if on_hardware() {
        return;
    }
    for arch in archs() {
        let (_kept, file) = captured_on(&arch, "ordered", "-O3 -g");
        let (status, all, said) = analyzed(&file, &["--what", "mix", "--check", "race"]);
        assert_eq!(status, 6, "{said}");
        let mut judged = 0;
        for object in all.iter().filter(|object| !object["kernel"].as_str().unwrap().contains("amd_rocclr")) {
            let kernel = object["kernel"].as_str().unwrap();
            let found = found(object, "race");
            let expected = || RACES.iter().filter(|(name, ..)| kernel.contains(name));
            // gfx942 and gfx950 have no such load by this name.
            let is_empty = kernel.contains("right_")
                || kernel.contains("loads_to_lds") && ["gfx942", "gfx950"].contains(&arch.as_str());
            assert_eq!(found.is_empty(), is_empty, "{arch}: {kernel}: {found:?}");
            assert!(is_empty || expected().count() > 0, "{kernel}");
            for (_, what, line) in expected().filter(|_| !is_empty) {
                let is_it = |(said, text): &(String, String)| said.contains(what) && text.contains(line);
                assert!(found.iter().any(is_it), "{arch}: {kernel}: {what}: {found:?}");
                judged += 1;
            }
            assert_eq!(object["race"]["not_judged"], 0, "{arch}: {kernel}");
        }
        assert!(judged >= RACES.len() - 2, "{arch}: {judged}");
    }
}
