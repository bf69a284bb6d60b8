//! Two lanes of one store that write different values to one place: which of them stays is not defined.

use amdgpu_emu::isa::access::{Does, LaneAccess, Parts};
use amdgpu_emu::observer::Step;

use super::is_scratch;
use super::stored::Stored;

/// Two lanes, and the place: the lanes with the least numbers of those that collide at the lowest address.
pub(super) fn clash<'p>(step: &Step<'_>, parts: &'p Parts) -> Option<(u8, u8, &'p LaneAccess, u64)> {
    let stores = || parts.iter().enumerate().filter(|(_, part)| part.does == Does::Write && !is_scratch(part));
    let is_single = stores().count() == 1;
    if stores().all(|(_, part)| is_single && is_in_order(part)) {
        return None;
    }
    // Pieces of a dword where all accesses are of whole ones, else bytes.
    let aligned =
        |part: &LaneAccess| part.bytes.is_multiple_of(4) && part.active().all(|lane| part.at[lane].is_multiple_of(4));
    let unit = if stores().all(|(_, part)| aligned(part)) { 4 } else { 1 };
    let mut all = Vec::new();
    for (n, part) in stores() {
        let stored = Stored::of(step, n, part)?;
        for lane in part.active() {
            for (piece, (at, length)) in part.pieces(lane).enumerate() {
                let words = stored.of_piece(lane, piece);
                for byte in (0..u64::from(length)).step_by(unit) {
                    let word = words[(byte / 4) as usize & 3] >> (8 * (byte % 4));
                    let value = if unit == 4 { word } else { word & 0xff };
                    all.push((part.space, at.wrapping_add(byte), lane as u8, value, n));
                }
            }
        }
    }
    all.sort_unstable();
    let collides = |pair: &&[(_, u64, u8, u32, usize)]| {
        let [a, b] = pair else { return false };
        (a.0, a.1) == (b.0, b.1) && a.2 != b.2 && a.3 != b.3
    };
    let [first, second] = all.windows(2).find(collides)? else { return None };
    let part = parts.iter().nth(first.4)?;
    Some((second.2, first.2, part, first.1))
}

/// True for lanes that each write behind the one before, or in front of it.
fn is_in_order(part: &LaneAccess) -> bool {
    if part.step != 4 && part.bytes > 4 {
        return false;
    }
    let (mut up, mut down) = (true, true);
    let mut last: Option<u64> = None;
    for lane in part.active() {
        let at = part.at[lane];
        if let Some(last) = last {
            up &= at >= last.saturating_add(part.bytes.into());
            down &= last >= at.saturating_add(part.bytes.into());
        }
        last = Some(at);
    }
    up || down
}
