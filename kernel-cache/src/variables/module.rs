//! The data of a code object, as far as bindings depend on it.

use std::collections::HashMap;

use amdgpu_code_object::{CodeObject, DataKind, GlobalKind, Image, StoredAddress, Unreadable};

/// The data of a code object: its variables and constants, before it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// By address; of an application's code object none where that has no variables.
    pub(super) ranges: Vec<DataRange>,
    /// By address.
    pub(super) objects: Vec<Object>,
    /// Addresses that the loader stores, by place.
    pub(super) stored: Vec<StoredAddress>,
    /// True when symbols that only the code object itself needs are in the file: no variable is without a name.
    pub(super) has_all_names: bool,
}

/// A range of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataRange {
    pub(super) kind: DataKind,
    pub(super) start: u64,
    pub(super) size: u64,
    /// Those that are in the file; the rest is zero.
    bytes: Vec<u8>,
}

/// What has a name among the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) kind: GlobalKind,
    pub(super) exported: bool,
}

impl Object {
    pub(super) fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

impl DataRange {
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.size
    }
}

/// The application's modules in which a variable is looked for: that of the kernel, and others of the same agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modules<'m> {
    /// The kernel's own; `None` where nothing is known of it.
    pub own: Option<&'m Module>,
    /// Number 1 and so on; the kernel's own is number 0.
    pub others: &'m [&'m Module],
}

impl<'m> Modules<'m> {
    /// A module by its number.
    pub(super) fn get(&self, number: usize) -> Option<&'m Module> {
        number.checked_sub(1).map_or(self.own, |n| self.others.get(n).copied())
    }
}

impl Module {
    /// Of a code object.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn of(bytes: &[u8]) -> Result<Module, Unreadable> {
        let image = Image::parse(bytes)?;
        Module::of_object(&CodeObject::of(&image)?, &image)
    }

    /// Of a code object that was read, and its file.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn of_object(object: &CodeObject, image: &Image<'_>) -> Result<Module, Unreadable> {
        let mut module = Module::read(object, image)?;
        // What is only constant is compared with nothing.
        if module.is_empty() {
            module.ranges.clear();
        }
        Ok(module)
    }

    pub(super) fn read(object: &CodeObject, image: &Image<'_>) -> Result<Module, Unreadable> {
        let mut module = Module { has_all_names: image.has_all_names(), ..Module::default() };
        module.objects.extend(object.globals.iter().map(|g| Object {
            name: g.name.clone(),
            address: g.address,
            size: g.size,
            kind: g.kind,
            exported: g.exported,
        }));
        module.objects.sort_by_key(|object| object.address);
        module.ranges.extend(image.data().into_iter().map(|range| DataRange {
            kind: range.kind,
            start: range.start,
            size: range.size,
            bytes: range.bytes.to_vec(),
        }));
        module.stored = image.stored_addresses()?;
        module.stored.sort_by_key(|stored| stored.at);
        Ok(module)
    }

    /// Its variables, by address.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(|object| object.kind == GlobalKind::Variable)
    }

    /// True when the code object has no variable.
    pub fn is_empty(&self) -> bool {
        self.variables().next().is_none()
    }

    /// The range of an address.
    pub(super) fn range(&self, address: u64) -> Option<&DataRange> {
        self.ranges.iter().find(|range| range.contains(address))
    }

    /// The ranges of some kinds of data.
    pub(super) fn ranges_of(&self, kinds: &[DataKind]) -> Vec<(u64, u64)> {
        let ranges = self.ranges.iter().filter(|range| kinds.contains(&range.kind));
        ranges.map(|range| (range.start, range.end())).collect()
    }

    /// The initial bytes of some data, without trailing zeros; `None` if no single range has all of it.
    pub(super) fn bytes(&self, start: u64, size: u64) -> Option<&[u8]> {
        let range = self.range(start)?;
        let from = start - range.start;
        (size <= range.size - from).then_some(())?;
        // What is not in the file is zero, and there may be much of it.
        let there = range.bytes.get(usize::try_from(from).ok()?..).unwrap_or_default();
        let there = there.get(..usize::try_from(size).ok()?).unwrap_or(there);
        let zeros = there.iter().rev().take_while(|byte| **byte == 0).count();
        there.get(..there.len() - zeros)
    }

    /// The addresses that are stored in some data.
    pub(super) fn stored_in(&self, start: u64, end: u64) -> &[StoredAddress] {
        let first = self.stored.partition_point(|stored| stored.at < start);
        let last = self.stored.partition_point(|stored| stored.at < end);
        self.stored.get(first..last).unwrap_or_default()
    }

    /// Describes an address: a name and a distance.
    pub(super) fn named(&self, address: u64) -> String {
        let before = self.objects.partition_point(|object| object.address <= address);
        let near = before.checked_sub(1).and_then(|n| self.objects.get(n));
        match near.filter(|object| address < object.end().max(object.address.saturating_add(1))) {
            Some(object) if object.address == address => object.name.clone(),
            Some(object) => format!("{}+{}", object.name, address - object.address),
            None => format!("{address:#x}"),
        }
    }

    /// Every object by its name: two where several have the same.
    pub(super) fn by_name(&self) -> HashMap<&str, Vec<&Object>> {
        let mut all: HashMap<&str, Vec<&Object>> = HashMap::new();
        for object in &self.objects {
            all.entry(&object.name).or_default().push(object);
        }
        all
    }
}
