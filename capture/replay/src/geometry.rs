//! Grids, workgroups and dynamic LDS other than the captured ones, as far as the kernel allows them.

use std::fmt;

use amdgpu_code_object::ValueKind;
use hsa::sys::abi::aql::Packet;
use logdur_kernel_cache::Interface;
use serde::{Deserialize, Serialize};

use crate::error::{ReplayError, Result};

/// What is to be other than it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Work-items of the grid.
    pub grid: Option<[u32; 3]>,
    /// Work-items of a workgroup.
    pub workgroup: Option<[u32; 3]>,
    /// Bytes of a workgroup's LDS that the launch adds to those that the code declares.
    #[serde(default)]
    pub lds: Option<u32>,
}

impl Geometry {
    /// Puts the LDS into the packet of the application's own kernel. Another kernel has as much more as it declares more.
    pub(crate) fn apply_lds(&self, packet: &mut Packet, original: &Interface) {
        if let Some(lds) = self.lds {
            let group = original.group_size.saturating_add(lds);
            packet.set_kernel(packet.kernel_object(), packet.private_segment_size(), group);
        }
    }

    /// Refuses less LDS than the captured launch's where an argument is an offset into what is no longer there. `segment` has the
    /// arguments.
    pub(crate) fn has_room(&self, packet: &Packet, original: &Interface, segment: &[u8]) -> Result<()> {
        let group = packet.group_segment_size();
        let offsets = original.explicit().filter(|a| a.kind == ValueKind::DynamicSharedPointer);
        let beyond = offsets.map(|a| u64::from_le_bytes(bytes_of(segment, a.offset, a.size))).max();
        match (self.lds, beyond) {
            (Some(lds), Some(offset)) if offset >= u64::from(group) => Err(ReplayError::Usage {
                what: format!("--lds of {}", original.name),
                expected: format!(
                    "more than {} bytes, where a local pointer points to",
                    offset - u64::from(group) + u64::from(lds)
                ),
                found: lds.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Puts grid and workgroup into a packet.
    ///
    /// # Errors
    /// When the kernel was not compiled for it: which limit, and what was asked for.
    pub fn apply(&self, packet: &mut Packet, interface: &Interface) -> Result<()> {
        let refuse = |what: &str, expected: String, found: String| {
            Err(ReplayError::Usage { what: format!("{what} of {}", interface.name), expected, found })
        };
        let shape = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
        let workgroup = self.workgroup.unwrap_or(packet.workgroup_size().map(u32::from));
        let grid = self.grid.unwrap_or(packet.grid_size());
        if let Some(required) = interface.required_workgroup_size.filter(|required| *required != workgroup) {
            return refuse("--workgroup", shape(required), shape(workgroup));
        }
        let items: u64 = workgroup.iter().map(|n| u64::from(*n)).product();
        let most = interface.max_flat_workgroup_size;
        if items == 0 || items > u64::from(most) || workgroup.iter().any(|n| u16::try_from(*n).is_err()) {
            return refuse("--workgroup", format!("1 to {most} work-items"), shape(workgroup));
        }
        if grid.contains(&0) {
            return refuse("--grid", "at least one work-item in each dimension".to_owned(), shape(grid));
        }
        let complete = grid.iter().zip(workgroup).all(|(grid, group)| grid % group == 0);
        if interface.uniform_workgroup_size && !complete {
            let expected = format!("a multiple of the workgroup {}", shape(workgroup));
            return refuse("--grid", expected, shape(grid));
        }
        if let Some(cluster) = interface.cluster_dims {
            let groups = grid.iter().zip(workgroup).map(|(grid, group)| grid.div_ceil(group));
            if groups.zip(cluster).any(|(groups, cluster)| cluster != 0 && groups % cluster != 0) {
                return refuse("--grid", format!("whole clusters of {} workgroups", shape(cluster)), shape(grid));
            }
        }
        let [x, y, z] = workgroup;
        let dimensions = match grid {
            [_, 1, 1] => 1,
            [_, _, 1] => 2,
            _ => 3,
        };
        let dimensions = u32::from(packet.dimensions()).max(dimensions);
        let [head, sizes, depth, grid_x, grid_y, grid_z, ..] = &mut packet.0;
        *head = *head & !(3 << 16) | dimensions << 16;
        (*sizes, *depth) = (x | y << 16, z);
        [*grid_x, *grid_y, *grid_z] = grid;
        Ok(())
    }

    /// True when something is to be other.
    pub fn is_other(&self) -> bool {
        *self != Geometry::default()
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = |of: &'static str| move |[x, y, z]: [u32; 3]| format!("{of} {x},{y},{z}");
        let lds = self.lds.map(|bytes| format!("{bytes} bytes of dynamic LDS"));
        let all = [self.grid.map(shape("grid")), self.workgroup.map(shape("workgroup")), lds];
        f.write_str(&all.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Bytes of arguments, at most 8; zeros where there are none.
pub(crate) fn bytes_of(segment: &[u8], at: u32, size: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    let there = segment.get(at as usize..).unwrap_or_default();
    bytes.iter_mut().zip(there).take(size as usize).for_each(|(to, byte)| *to = *byte);
    bytes
}

#[cfg(test)]
mod tests {
    use amdgpu_code_object::Target;

    use super::*;

    fn kernel() -> Interface {
        Interface::plain("k", Target::parse("gfx90a").unwrap())
    }

    fn packet() -> Packet {
        let mut packet = Packet([0; 16]);
        packet.0[..6].copy_from_slice(&[0x0001_0b02, 64 | 1 << 16, 1, 1024, 1, 1]);
        packet
    }

    #[test]
    fn another_geometry_is_in_the_packet_with_its_dimensions() {
        let mut packet = packet();
        let other = Geometry { grid: Some([64, 8, 1]), workgroup: Some([16, 8, 1]), lds: None };
        other.apply(&mut packet, &kernel()).unwrap();
        assert_eq!((packet.grid_size(), packet.workgroup_size(), packet.dimensions()), ([64, 8, 1], [16, 8, 1], 2));
        assert_eq!(packet.header(), 0x0b02);
    }

    #[test]
    fn lds_of_a_launch_is_added_to_that_of_the_code() {
        let (mut packet, mut kernel) = (packet(), kernel());
        kernel.group_size = 512;
        packet.set_kernel(0x1000, 16, 2048);
        Geometry::default().apply_lds(&mut packet, &kernel);
        assert_eq!(packet.group_segment_size(), 2048);
        Geometry { lds: Some(4096), ..Geometry::default() }.apply_lds(&mut packet, &kernel);
        let kept = (packet.kernel_object(), packet.private_segment_size());
        assert_eq!((kept, packet.group_segment_size()), ((0x1000, 16), 4608));
    }

    #[test]
    fn limits_of_the_kernel_are_named() {
        let refused = |geometry: Geometry, change: fn(&mut Interface)| {
            let mut kernel = kernel();
            change(&mut kernel);
            geometry.apply(&mut packet(), &kernel).unwrap_err().to_string()
        };
        let group = |x| Geometry { workgroup: Some([x, 1, 1]), ..Geometry::default() };
        assert_eq!(refused(group(1025), |_| ()), "--workgroup of k: expected 1 to 1024 work-items, found 1025,1,1");
        refused(group(0), |_| ());
        let required = refused(group(128), |k| k.required_workgroup_size = Some([64, 1, 1]));
        assert_eq!(required, "--workgroup of k: expected 64,1,1, found 128,1,1");
        let uneven = refused(group(100), |k| k.uniform_workgroup_size = true);
        assert_eq!(uneven, "--grid of k: expected a multiple of the workgroup 100,1,1, found 1024,1,1");
        let none = Geometry { grid: Some([0, 1, 1]), ..Geometry::default() };
        assert!(refused(none, |_| ()).contains("at least one work-item"));
    }
}
