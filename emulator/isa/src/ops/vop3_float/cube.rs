//! Cube maps: the face that a direction points at, and where on it. Source: Vega ISA manual, `V_CUBEID_F32` and those
//! after it.

/// The axis that is longest; z before y before x where two are.
enum Axis {
    X,
    Y,
    Z,
}

#[inline(always)]
fn axis(x: f32, y: f32, z: f32) -> Axis {
    if z.abs() >= x.abs() && z.abs() >= y.abs() {
        Axis::Z
    } else if y.abs() >= x.abs() {
        Axis::Y
    } else {
        Axis::X
    }
}

/// The coordinate along the longest axis.
#[inline(always)]
pub(super) fn major(x: f32, y: f32, z: f32) -> f32 {
    match axis(x, y, z) {
        Axis::X => x,
        Axis::Y => y,
        Axis::Z => z,
    }
}

/// The number of the face: two to an axis, the positive one first.
#[inline(always)]
pub(super) fn face(x: f32, y: f32, z: f32) -> f32 {
    let first = match axis(x, y, z) {
        Axis::X => 0.0,
        Axis::Y => 2.0,
        Axis::Z => 4.0,
    };
    if major(x, y, z) < 0.0 { first + 1.0 } else { first }
}

/// The horizontal coordinate on the face.
#[inline(always)]
pub(super) fn s(x: f32, y: f32, z: f32) -> f32 {
    match axis(x, y, z) {
        Axis::X if x < 0.0 => z,
        Axis::X => -z,
        Axis::Y => x,
        Axis::Z if z < 0.0 => -x,
        Axis::Z => x,
    }
}

/// The vertical coordinate on the face.
#[inline(always)]
pub(super) fn t(x: f32, y: f32, z: f32) -> f32 {
    match axis(x, y, z) {
        Axis::Y if y < 0.0 => -z,
        Axis::Y => z,
        Axis::X | Axis::Z => -y,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_face_is_found_and_seen_from_inside() {
        // Faces +x -x +y -y +z -z; s and t as graphics interfaces define them.
        let directions =
            [[3.0, 1.0, 2.0], [-3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, -3.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, -3.0]];
        let expected = [[-2.0, -1.0], [2.0, -1.0], [1.0, 2.0], [1.0, -2.0], [1.0, -2.0], [-1.0, -2.0]];
        for (n, ([x, y, z], [sc, tc])) in directions.into_iter().zip(expected).enumerate() {
            assert_eq!((face(x, y, z), major(x, y, z).abs()), (n as f32, 3.0));
            assert_eq!((s(x, y, z), t(x, y, z)), (sc, tc));
        }
        assert_eq!(face(1.0, 1.0, 1.0), 4.0, "z wins");
    }
}
