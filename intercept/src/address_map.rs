//! A map from addresses to numbers that is read without a lock.
//!
//! # Threads
//! Any thread reads without waiting or allocating. Writers are rare and exclude each other.
//!
//! # Ordering
//! An entry's value is stored after its key, with release; a table that has become too small is replaced by a pointer
//! that is stored with release. Old tables are leaked: together they are smaller than the present one.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::lock::lock;

/// Entries of the first table.
const SMALLEST: usize = 1024;

/// The map. Addresses are not 0, and mostly 64 bytes apart; a value of 0 is none.
pub struct AddressMap {
    /// Null until the first address is entered.
    table: AtomicPtr<Table>,
    /// How many entries of the table are used.
    used: Mutex<usize>,
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
        AddressMap { table: AtomicPtr::new(ptr::null_mut()), used: Mutex::new(0) }
    }

    fn table(&self) -> Option<&'static Table> {
        // SAFETY: the pointer is null or comes from `Table::with_entries`, which leaks.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// The value of an address, 0 if there is none.
    #[inline]
    pub fn get(&self, address: u64) -> u64 {
        self.table().map_or(0, |table| table.find(address).value.load(Ordering::Acquire))
    }

    /// Gives an address a value; 0 takes it away.
    pub fn set(&self, address: u64, value: u64) {
        let mut used = lock(&self.used);
        if value == 0 && self.get(address) == 0 {
            return;
        }
        let table = self.table_with_room(&mut used);
        let entry = table.find(address);
        if entry.address.load(Ordering::Relaxed) == 0 {
            *used += 1;
            entry.address.store(address, Ordering::Release);
        }
        entry.value.store(value, Ordering::Release);
    }

    /// Takes all values away.
    pub fn clear(&self) {
        let _used = lock(&self.used);
        for entry in self.table().into_iter().flat_map(|t| &t.0) {
            entry.value.store(0, Ordering::Release);
        }
    }

    fn table_with_room(&self, used: &mut usize) -> &'static Table {
        let old = self.table();
        if let Some(table) = old.filter(|t| (*used + 1) * 2 <= t.0.len()) {
            return table;
        }
        let live = || old.into_iter().flat_map(|t| &t.0).filter(|e| e.value.load(Ordering::Relaxed) != 0);
        *used = live().count();
        let new = Table::with_entries(((*used + 1) * 4).next_power_of_two().max(SMALLEST));
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
    fn a_cleared_map_is_empty_and_can_be_filled_again() {
        let map = AddressMap::new();
        map.set(0x1000, 7);
        map.clear();
        assert_eq!(map.get(0x1000), 0);
        map.set(0x1000, 8);
        assert_eq!(map.get(0x1000), 8);
    }
}
