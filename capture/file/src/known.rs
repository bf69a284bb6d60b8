//! A table of contents that are in the file already. It may forget some.
//!
//! The table has a fixed size: 32 bytes for each content, in sets of eight. A ninth content of a set replaces the oldest, which the
//! writer stores again at its next occurrence: the file gets larger, never wrong.

use crate::chunk::Key;

/// Where a content is: the number of the pack among those of the writer, from 1 on, and the number of the chunk in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) pack: u64,
    pub(crate) chunk: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    /// 0 is an empty slot.
    pack: u64,
    chunk: u32,
}

const WAYS: usize = 8;
const EMPTY: [Slot; WAYS] = [Slot { key: Key([0; 16]), pack: 0, chunk: 0 }; WAYS];

/// Bytes of a slot.
pub(crate) const SLOT: usize = size_of::<Slot>();
const _: () = assert!(SLOT == 32);

#[derive(Debug)]
pub(crate) struct Known {
    sets: Vec<[Slot; WAYS]>,
    most: usize,
    held: usize,
}

impl Known {
    /// A table that grows to a number of bytes.
    pub(crate) fn new(bytes: usize) -> Known {
        let most = (bytes / size_of::<[Slot; WAYS]>()).max(1);
        // A power of two, so that a table that has grown has its contents where they are looked for.
        let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
        Known { sets: vec![EMPTY; most.min(256)], most, held: 0 }
    }

    fn set(&self, key: &Key) -> usize {
        key.hash() as usize & (self.sets.len() - 1)
    }

    /// Where a content is.
    pub(crate) fn find(&self, key: &Key) -> Option<Spot> {
        let set = self.sets.get(self.set(key))?;
        set.iter().find(|s| s.pack != 0 && s.key == *key).map(|s| Spot { pack: s.pack, chunk: s.chunk })
    }

    /// Remembers where a content is.
    pub(crate) fn put(&mut self, key: Key, spot: Spot) {
        if self.held >= self.sets.len() * WAYS / 2 && self.sets.len() < self.most {
            let old = std::mem::take(&mut self.sets);
            self.sets = vec![EMPTY; old.len() * 2];
            self.held = 0;
            for slot in old.into_iter().flatten().filter(|s| s.pack != 0) {
                self.put_slot(slot);
            }
        }
        self.put_slot(Slot { key, pack: spot.pack, chunk: spot.chunk });
    }

    fn put_slot(&mut self, slot: Slot) {
        let at = self.set(&slot.key);
        // Later in the file is younger; empty is oldest.
        let oldest = self.sets.get_mut(at).and_then(|set| set.iter_mut().min_by_key(|s| (s.pack, s.chunk)));
        if let Some(oldest) = oldest {
            self.held += usize::from(oldest.pack == 0);
            *oldest = slot;
        }
    }

    /// Bytes of memory that it has.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[Slot; WAYS]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    fn key(n: u64) -> Key {
        Key::of_id(&Id::of(&n.to_le_bytes()))
    }

    #[test]
    fn what_was_put_is_found_until_the_table_is_full_and_then_the_oldest_go() {
        let mut known = Known::new(1 << 20);
        let spot = |n: u64| Spot { pack: 128 + n, chunk: n as u32 };
        let capacity = (1 << 20) / SLOT as u64;
        for n in 0..capacity / 4 {
            known.put(key(n), spot(n));
        }
        let found = (0..capacity / 4).filter(|n| known.find(&key(*n)) == Some(spot(*n))).count() as u64;
        assert!(found > capacity / 4 * 98 / 100, "{found} of {}", capacity / 4);
        assert_eq!(known.find(&key(u64::MAX)), None);
        for n in capacity / 4..8 * capacity {
            known.put(key(n), spot(n));
        }
        assert!(known.bytes() <= 1 << 20);
        assert_eq!(known.find(&key(0)), None);
        let young = (8 * capacity - capacity / 8..8 * capacity).filter(|n| known.find(&key(*n)).is_some()).count();
        assert!(young as u64 > capacity / 8 * 98 / 100);
    }
}
