//! A map from addresses to numbers that is read without a lock.
//!
//! # Threads
//! Any thread reads without waiting or allocating. Writers are rare and exclude each other.
//!
//! # Ordering
//! An entry's value is stored after its key, with release; a table that has become too small is replaced by a pointer
//! that is stored with release. A table that was replaced is used again. Before that the number of reuses changes: a reader that sees
//! another number behind its look than before it looks again.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use logdur_system::lock;

/// Entries of the first table.
const SMALLEST: usize = 1024;

/// The map. Addresses are not 0, and mostly 64 bytes apart; a value of 0 is none.
pub struct AddressMap {
    /// Null until the first address is entered.
    table: AtomicPtr<Table>,
    /// How often a table was used again.
    reuses: AtomicU64,
    /// How often a value has changed.
    changes: AtomicU64,
    writer: Mutex<Writer>,
}

/// What the thread needs that changes the map.
struct Writer {
    /// How many entries of the table are used.
    used: usize,
    /// Tables that were replaced.
    old: Vec<&'static Table>,
}

/// Open addressing; a power of two of entries, at most half of them used.
struct Table(Box<[Entry]>);

#[derive(Default)]
struct Entry {
    address: AtomicU64,
    value: AtomicU64,
}

impl Table {
    fn with_entries(count: usize) -> &'static Table {
        Box::leak(Box::new(Table((0..count).map(|_| Entry::default()).collect())))
    }

    /// Makes it empty.
    fn clear(&self) {
        for entry in &self.0 {
            entry.value.store(0, Ordering::Relaxed);
            entry.address.store(0, Ordering::Relaxed);
        }
    }

    /// The entry of an address, or the free one where it would be.
    #[inline]
    fn find(&self, address: u64) -> &Entry {
        let mask = self.0.len() - 1;
        let mut at = (address >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 7;
        loop {
            let entry = &self.0[at & mask];
            match entry.address.load(Ordering::Acquire) {
                key if key == address || key == 0 => return entry,
                _ => at += 1,
            }
        }
    }
}

impl Default for AddressMap {
    fn default() -> AddressMap {
        AddressMap::new()
    }
}

impl AddressMap {
    /// A map in which every address has 0.
    pub const fn new() -> AddressMap {
        AddressMap {
            table: AtomicPtr::new(ptr::null_mut()),
            reuses: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            writer: Mutex::new(Writer { used: 0, old: Vec::new() }),
        }
    }

    fn table(&self) -> Option<&'static Table> {
        // SAFETY: the pointer is null or comes from `Table::with_entries`, which leaks.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// The value of an address, 0 if there is none.
    #[inline]
    pub fn get(&self, address: u64) -> u64 {
        loop {
            let reuses = self.reuses.load(Ordering::Acquire);
            let value = self.table().map_or(0, |table| table.find(address).value.load(Ordering::Acquire));
            fence(Ordering::Acquire);
            if self.reuses.load(Ordering::Relaxed) == reuses {
                return value;
            }
        }
    }

    /// How often a value has changed: while it stays, so do all values that were read after it.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Gives an address a value; 0 takes it away.
    pub fn set(&self, address: u64, value: u64) {
        let mut writer = lock(&self.writer);
        if value == 0 && self.get(address) == 0 {
            return;
        }
        let table = self.table_with_room(&mut writer);
        let entry = table.find(address);
        if entry.address.load(Ordering::Relaxed) == 0 {
            writer.used += 1;
            entry.address.store(address, Ordering::Release);
        }
        entry.value.store(value, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Takes all values away.
    pub fn clear(&self) {
        let _writer = lock(&self.writer);
        for entry in self.table().into_iter().flat_map(|t| &t.0) {
            entry.value.store(0, Ordering::Release);
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn table_with_room(&self, writer: &mut Writer) -> &'static Table {
        let old = self.table();
        if let Some(table) = old.filter(|t| (writer.used + 1) * 2 <= t.0.len()) {
            return table;
        }
        let live = || old.into_iter().flat_map(|t| &t.0).filter(|e| e.value.load(Ordering::Relaxed) != 0);
        writer.used = live().count();
        let count = ((writer.used + 1) * 4).next_power_of_two().max(SMALLEST);
        let new = match writer.old.iter().position(|table| table.0.len() == count) {
            Some(at) => {
                self.reuses.fetch_add(1, Ordering::Relaxed);
                // Whoever reads what is stored from here on sees the number.
                fence(Ordering::Release);
                let table = writer.old.swap_remove(at);
                table.clear();
                table
            }
            None => Table::with_entries(count),
        };
        writer.old.extend(old);
        for from in live() {
            let to = new.find(from.address.load(Ordering::Relaxed));
            to.value.store(from.value.load(Ordering::Relaxed), Ordering::Relaxed);
            to.address.store(from.address.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.table.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_come_and_go_do_not_fill_the_table() {
        let map = AddressMap::new();
        assert_eq!(map.get(64), 0);
        for round in 0..50u64 {
            let address = |i: u64| (round * 7000 + i + 1) * 64;
            (0..3000).for_each(|i| map.set(address(i), i + 1));
            assert!((0..3000).all(|i| map.get(address(i)) == i + 1));
            (0..3000).for_each(|i| map.set(address(i), 0));
            assert!((0..3000).all(|i| map.get(address(i)) == 0));
        }
        let entries = map.table().map_or(0, |t| t.0.len());
        assert!(entries <= 32768, "{entries} entries for 3000 addresses");
    }

    #[test]
    fn old_tables_are_used_again_and_readers_find_no_entry_of_another_time() {
        let map = AddressMap::new();
        // Its value stays while thousands of others come and go, which use the two tables in turn.
        map.set(64, 1);
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(map.get(64), 1);
                }
            });
            for n in 2..200_000_u64 {
                map.set(n * 64, n);
                assert_eq!(map.get(n * 64), n);
                map.set(n * 64, 0);
            }
            ended.store(true, Ordering::Relaxed);
        });
        let old = lock(&map.writer).old.len();
        assert!(old <= 2 && map.reuses.load(Ordering::Relaxed) > 100, "{old} tables");
        assert!((2..200_000).all(|n| map.get(n * 64) == 0));
    }

    #[test]
    fn a_cleared_map_is_empty_and_can_be_filled_again() {
        let map = AddressMap::new();
        map.set(0x1000, 7);
        let changes = map.changes();
        assert_eq!((map.get(0x1000), map.changes()), (7, changes));
        map.clear();
        assert_eq!(map.get(0x1000), 0);
        assert_ne!(map.changes(), changes);
        let changes = map.changes();
        map.set(0x1000, 8);
        assert_eq!(map.get(0x1000), 8);
        assert_ne!(map.changes(), changes);
    }
}
