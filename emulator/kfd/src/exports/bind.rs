//! The libraries of the process as the dynamic loader knows them, and what their references are bound to.
//!
//! # Threads
//! Any. The loader does not unload a library while the thread that has loaded it is here.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::memfile::PAGE;

/// A library in memory: where its addresses begin, its dynamic section, and what the loader has made read-only.
pub(super) struct Object {
    base: usize,
    dynamic: usize,
    read_only: Range<usize>,
}

/// All libraries of the caller's namespace.
pub(super) fn objects() -> Vec<Object> {
    let mut all: Vec<Object> = Vec::new();
    // SAFETY: the function calls back before it returns, with the pointer that it is given.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut all).cast()) };
    all
}

/// Adds one.
///
/// # Safety
/// `info` is of the loader, and `all` points to a `Vec<Object>` that nothing else uses.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, all: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure.
    let info = unsafe { info.read() };
    let base = info.dlpi_addr as usize;
    let mut object = Object { base, dynamic: 0, read_only: 0..0 };
    for n in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: there are so many headers.
        let place = unsafe { info.dlpi_phdr.add(n) };
        // SAFETY: as above.
        let header = unsafe { place.read() };
        let start = base.wrapping_add(header.p_vaddr as usize);
        match header.p_type {
            libc::PT_DYNAMIC => object.dynamic = start,
            libc::PT_GNU_RELRO => object.read_only = start..start.wrapping_add(header.p_memsz as usize),
            _ => {}
        }
    }
    if object.dynamic != 0 {
        // SAFETY: as promised.
        unsafe { (*all.cast::<Vec<Object>>()).push(object) };
    }
    0
}

/// Binds references of libraries that were not among `before` to functions of this library, where they are bound to the next
/// definition, or not yet.
pub(super) fn bind_new(before: &[Object]) {
    let Some(own) = LinkMap::at(bind_new as *const c_void) else { return };
    // The map of a library that was preloaded is no handle yet.
    // SAFETY: the loader's name of this library, which is loaded.
    let handle = unsafe { libc::dlopen(own.links().name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return;
    }
    for object in objects().iter().filter(|object| before.iter().all(|other| other.base != object.base)) {
        for (name, slot) in object.references() {
            // SAFETY: the handle of a library that stays, and a C string.
            let ours = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if LinkMap::at(ours) == Some(own) && is_bound_past(object, &name, slot) {
                object.write(slot, ours as usize);
            }
        }
    }
    // Names that are none of ours have left errors, which the application has not made.
    // SAFETY: only this thread's error is taken.
    unsafe { libc::dlerror() };
}

/// True if a reference is bound to the library with the next definition of its name, or to the object itself, which asks the loader at
/// the first call.
fn is_bound_past(object: &Object, name: &CStr, slot: usize) -> bool {
    // SAFETY: a place in the object that the loader has filled with an address.
    let bound = unsafe { std::ptr::with_exposed_provenance::<*const c_void>(slot).read() };
    // SAFETY: a C string; RTLD_NEXT is valid in a shared library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let bound = LinkMap::at(bound);
    bound == LinkMap::at(next) || bound == LinkMap::at(std::ptr::with_exposed_provenance(object.dynamic))
}

/// Tags of a dynamic section. Source: System V ABI, "Dynamic Section".
mod tag {
    pub(super) const PLT_BYTES: u64 = 2;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const SYMBOLS: u64 = 6;
    pub(super) const RELOCATIONS: u64 = 7;
    pub(super) const RELOCATION_BYTES: u64 = 8;
    pub(super) const PLT: u64 = 23;
}

/// Relocations whose place gets the address of a symbol. Source: System V ABI, AMD64 supplement: `R_X86_64_64`, `GLOB_DAT`, `JUMP_SLOT`.
const OF_SYMBOLS: [u64; 3] = [1, 6, 7];

/// A relocation: place, symbol and type, addend.
type Relocation = [u64; 3];
/// A symbol: its name's offset, then in the upper half of the second word its section; value and size.
type Symbol = [u32; 6];

impl Object {
    /// An entry of the dynamic section; 0 without one.
    fn entry(&self, tag: u64) -> usize {
        let mut at = std::ptr::with_exposed_provenance::<[u64; 2]>(self.dynamic);
        loop {
            // SAFETY: the section ends with an entry of tag 0, behind which nothing is read.
            let [found, value] = unsafe { at.read() };
            if found == tag {
                return value as usize;
            }
            if found == 0 {
                return 0;
            }
            // SAFETY: this one was not the last.
            at = unsafe { at.add(1) };
        }
    }

    /// The address in an entry. The loader has added the base in those of libraries, but not in that of the kernel.
    fn address(&self, tag: u64) -> usize {
        let value = self.entry(tag);
        if value < self.base { self.base + value } else { value }
    }

    /// Names of symbols of others, and the places with their addresses.
    fn references(&self) -> Vec<(std::ffi::CString, usize)> {
        let (symbols, strings) = (self.address(tag::SYMBOLS), self.address(tag::STRINGS));
        let tables = [(tag::RELOCATIONS, tag::RELOCATION_BYTES), (tag::PLT, tag::PLT_BYTES)];
        let mut all = Vec::new();
        for (table, bytes) in tables {
            let table = std::ptr::with_exposed_provenance::<Relocation>(self.address(table));
            for n in 0..self.entry(bytes) / size_of::<Relocation>() {
                // SAFETY: the table has so many entries.
                let place = unsafe { table.add(n) };
                // SAFETY: as above.
                let [place, what, addend] = unsafe { place.read() };
                if addend != 0 || !OF_SYMBOLS.contains(&(what & 0xffff_ffff)) {
                    continue;
                }
                let symbol = symbols + (what >> 32) as usize * size_of::<Symbol>();
                // SAFETY: a relocation of a library that is loaded names a symbol of its table.
                let symbol = unsafe { std::ptr::with_exposed_provenance::<Symbol>(symbol).read() };
                if symbol[1] >> 16 == 0 {
                    let name = std::ptr::with_exposed_provenance(strings + symbol[0] as usize);
                    // SAFETY: a symbol's name is a C string of the table of strings.
                    let name = unsafe { CStr::from_ptr(name) };
                    all.push((name.to_owned(), self.base + place as usize));
                }
            }
        }
        all
    }

    /// Writes the address of a function to a place.
    fn write(&self, slot: usize, address: usize) {
        let page = std::ptr::with_exposed_provenance_mut::<c_void>(slot & !(PAGE as usize - 1));
        let protect = |protection| {
            if !self.read_only.contains(&slot) {
                return true;
            }
            // SAFETY: a page of the object, which stays readable.
            unsafe { libc::mprotect(page, PAGE as usize, protection) == 0 }
        };
        if protect(libc::PROT_READ | libc::PROT_WRITE) {
            // SAFETY: an aligned place for the address of a function, which threads read whole.
            unsafe { std::ptr::with_exposed_provenance_mut::<usize>(slot).write_volatile(address) };
            protect(libc::PROT_READ);
        }
    }
}

/// A library as the loader knows it. Source: glibc's `link.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkMap(*mut Links);

#[repr(C)]
struct Links {
    address: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *mut Links,
    previous: *mut Links,
}

/// The folders in which the loader looks for what a library needs. Source: `Dl_serinfo` and `Dl_serpath` of glibc's `dlfcn.h`.
#[repr(C)]
struct Folders {
    bytes: usize,
    count: u32,
    first: MaybeUninit<[Folder; 1]>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Folder {
    path: *const c_char,
    from: u32,
}

/// The folder is one that every library has. Source: `LA_SER_DEFAULT` of glibc's `link.h`.
const OF_ALL: u32 = 0x40;
/// Asks `dladdr1` for the map. Source: `RTLD_DL_LINKMAP` of glibc's `dlfcn.h`.
const ASK_FOR_MAP: c_int = 2;

impl LinkMap {
    /// The library of a handle.
    pub(super) fn of(handle: *mut c_void) -> Option<LinkMap> {
        let mut map: *mut Links = std::ptr::null_mut();
        // SAFETY: a handle of the loader, and a place for the pointer that is asked for.
        let status = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        (status == 0 && !map.is_null()).then_some(LinkMap(map))
    }

    /// The library that has an address.
    pub(super) fn at(address: *const c_void) -> Option<LinkMap> {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        let mut map: *mut Links = std::ptr::null_mut();
        // SAFETY: the address is only compared, and both places have the types that are asked for.
        let known = unsafe { libc::dladdr1(address, info.as_mut_ptr(), (&raw mut map).cast(), ASK_FOR_MAP) };
        (known != 0 && !map.is_null()).then_some(LinkMap(map))
    }

    fn links(self) -> Links {
        // SAFETY: a map of the loader, whose library stays while this is used.
        unsafe { self.0.read() }
    }

    /// The paths of all libraries of its namespace.
    pub(super) fn of_namespace(self) -> Vec<PathBuf> {
        let mut first = self;
        while !first.links().previous.is_null() {
            first = LinkMap(first.links().previous);
        }
        let all =
            std::iter::successors(Some(first), |map| Some(LinkMap(map.links().next)).filter(|map| !map.0.is_null()));
        // SAFETY: the names of the loader end with a zero.
        let name = |map: LinkMap| unsafe { CStr::from_ptr(map.links().name) };
        all.map(|map| PathBuf::from(OsStr::from_bytes(name(map).to_bytes()))).collect()
    }

    /// The folders that this library names, in their order.
    pub(super) fn folders(self) -> Vec<PathBuf> {
        let handle = self.0.cast();
        let mut size = MaybeUninit::<Folders>::zeroed();
        // SAFETY: the structure without folders gets their number and the bytes of all.
        if unsafe { libc::dlinfo(handle, libc::RTLD_DI_SERINFOSIZE, size.as_mut_ptr().cast()) } != 0 {
            return Vec::new();
        }
        // SAFETY: zeroes, of which two were written.
        let size = unsafe { size.assume_init() };
        let mut room = vec![0u64; size.bytes.div_ceil(8) + 1];
        let all = room.as_mut_ptr().cast::<Folders>();
        // SAFETY: the beginning of the room, which is large enough and aligned.
        unsafe { all.write(size) };
        // SAFETY: the structure has the number and the bytes that the call before gave, and room for so much.
        if unsafe { libc::dlinfo(handle, libc::RTLD_DI_SERINFO, all.cast()) } != 0 {
            return Vec::new();
        }
        // SAFETY: the call above has written it.
        let count = unsafe { (*all).count } as usize;
        // SAFETY: as above; the folders begin here, and go on behind the structure.
        let first = unsafe { &raw const (*all).first }.cast::<Folder>();
        let folder = |n| {
            // SAFETY: there are so many folders.
            let place = unsafe { first.add(n) };
            // SAFETY: the call above has written it.
            unsafe { place.read() }
        };
        let own = (0..count).map(folder).filter(|folder| folder.from & OF_ALL == 0);
        // SAFETY: the paths are C strings in the room.
        own.map(|folder| PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(folder.path) }.to_bytes()))).collect()
    }
}
