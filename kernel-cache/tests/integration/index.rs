//! An index whose checksum is right and whose contents are not.

use std::path::Path;

use amdgpu_code_object::container::{CodeLocation, Kind};
use logdur_kernel_cache::{Candidate, Stamp, index};

use crate::interfaces::scale;

const ROOT: &str = "/kernels";

fn whole() -> Vec<u8> {
    let place = CodeLocation {
        kind: Kind::Bare,
        in_host_elf: false,
        id: String::new(),
        container_offset: 0,
        container_length: 5000,
        offset: 0,
        length: 5000,
    };
    let candidate = |n: u32| {
        let mut interface = scale();
        interface.name = format!("kernel_{}", n / 2);
        interface.group_size = n;
        let path = Path::new(ROOT).join(format!("{n}.co"));
        let stamp = Stamp { modified: 1, changed: 2, size: 5000, inode: n.into() };
        Candidate { path, stamp, place: place.clone(), interface }
    };
    index::made(Path::new(ROOT), &(0..5).map(candidate).collect::<Vec<_>>())
}

#[test]
fn every_byte_of_an_index_may_be_any_and_it_is_decoded_or_refused() {
    let whole = whole();
    assert_eq!(index::examine(whole.clone(), Path::new(ROOT)), Ok(5));
    assert_eq!(
        index::examine(whole.clone(), Path::new("/others")).expect_err("another folder's"),
        "root: expected /others, found /kernels"
    );
    let (mut decoded, mut refused) = (0, 0);
    for at in 0..whole.len() {
        for value in [0, 0xff, whole[at].wrapping_add(1)] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            match index::examine(bytes, Path::new(ROOT)) {
                Ok(kernels) => decoded += usize::from(kernels <= 5),
                Err(_) => refused += 1,
            }
        }
    }
    assert_eq!(decoded + refused, whole.len() * 3);
    assert!(refused > 100, "damage of the header is seen: {refused}");
    for length in 0..whole.len() {
        let cut = index::examine(whole[..length].to_vec(), Path::new(ROOT));
        assert!(cut.as_ref().is_ok_and(|kernels| *kernels < 5) || cut.is_err(), "{length} bytes: {cut:?}");
    }
}
