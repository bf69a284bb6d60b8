//! Files that describe where a buffer's memory is. Their descriptors are the buffer's dma-buf descriptors, in each process.
//!
//! Such a file is as long as its buffer, because libraries ask it for the size. It begins with a [`Record`]; the
//! [`Metadata`] that users of the buffer exchange follows. An application must never map it: its own memory is not the
//! buffer's. Each holder of a descriptor, and each user of the buffer, holds a shared lock (`flock`) on its own open file
//! description. The lock ends with the last descriptor, also if the process is killed. The owner frees the memory once
//! it gets the exclusive lock.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::Errno;
use crate::memfile::{self, Identity, Mapping, MemFile, PAGE, identity, map_of_other};
use crate::uapi::drm::drm_amdgpu_gem_metadata__bindgen_ty_1;

/// The name of these files.
const NAME: &CStr = c"kfdemu-dmabuf";

/// The first word of a record; its last character is the layout's version.
const MAGIC: u64 = u64::from_ne_bytes(*b"kfdemu-1");

/// Words of a record: the magic, the process and its descriptor, the GPU and the flags, the offset, the length.
const WORDS: usize = 5;

/// Opaque data that users of a buffer exchange; the driver only stores it. Source: `struct drm_amdgpu_gem_metadata`.
pub(crate) type Metadata = drm_amdgpu_gem_metadata__bindgen_ty_1;

/// Offset of the metadata in the file, in bytes.
const METADATA_AT: u64 = 512;

/// Its words of 32 bits: two of each of the flags, one size, then the data.
const METADATA_WORDS: usize = 2 + 2 + 1 + 64;

/// Where a buffer's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The process that has allocated it.
    owner: u32,
    /// Its descriptor of the file that is the GPU's memory.
    file: u32,
    /// The GPU's number.
    pub(crate) gpu_id: u32,
    /// `KFD_IOC_ALLOC_MEM_FLAGS_*`.
    pub(crate) flags: u32,
    /// Offset in that file, in bytes.
    offset: u64,
    /// Bytes, whole pages.
    pub(crate) size: u64,
}

impl Record {
    /// Describes memory of this process.
    pub(crate) fn new(memory: &MemFile, offset: u64, size: u64, gpu_id: u32, flags: u32) -> Record {
        Record { owner: std::process::id(), file: memory.number().cast_unsigned(), gpu_id, flags, offset, size }
    }

    fn to_bytes(self) -> Vec<u8> {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let words: [u64; WORDS] =
            [MAGIC, pair(self.owner, self.file), pair(self.gpu_id, self.flags), self.offset, self.size];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// The record of a file; `None` if that has none, or is not as long as its record says.
    fn of(file: &File) -> Option<Record> {
        let mut bytes = [0; WORDS * 8];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [magic, place, kind, offset, size] = words;
        let low_and_high = |word: u64| (word as u32, (word >> 32) as u32);
        let ((owner, file_number), (gpu_id, flags)) = (low_and_high(place), low_and_high(kind));
        let sound = magic == MAGIC && size > 0 && size.is_multiple_of(PAGE) && file.metadata().ok()?.len() == size;
        sound.then_some(Record { owner, file: file_number, gpu_id, flags, offset, size })
    }
}

/// A file that stands for a buffer.
#[derive(Debug)]
pub(crate) struct Dmabuf {
    file: File,
    identity: Identity,
    pub(crate) record: Record,
}

impl Dmabuf {
    /// A new file for a buffer of this process.
    ///
    /// # Errors
    /// When the kernel refuses (a limit on file sizes or descriptors).
    pub(crate) fn new(record: Record) -> io::Result<Dmabuf> {
        let file = File::from(memfile::create(NAME, record.size)?);
        file.write_all_at(&record.to_bytes(), 0)?;
        let identity = identity(file.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        Ok(Dmabuf { file, identity, record })
    }

    /// The file behind a descriptor, which any process may have made.
    ///
    /// # Errors
    /// EINVAL if it describes no buffer, or a freed one.
    pub(crate) fn behind(fd: RawFd) -> Result<Dmabuf, Errno> {
        Dmabuf::at(&format!("/proc/self/fd/{fd}"))
    }

    /// The file that the owner has open as this descriptor.
    ///
    /// # Errors
    /// EINVAL if there is no such process, or if its descriptor describes no buffer, or a freed one.
    pub(crate) fn of_other(process: u32, number: u32) -> Result<Dmabuf, Errno> {
        Dmabuf::at(&format!("/proc/{process}/fd/{number}"))
    }

    fn at(path: &str) -> Result<Dmabuf, Errno> {
        let file = File::from(memfile::open_named(path, NAME, libc::O_RDWR).map_err(|_| libc::EINVAL)?);
        // Before it is read: the owner may be taking it back.
        if !lock(&file, libc::LOCK_SH) {
            return Err(libc::EINVAL);
        }
        let identity = identity(file.as_raw_fd()).ok_or(libc::EINVAL)?;
        let record = Record::of(&file).ok_or(libc::EINVAL)?;
        Ok(Dmabuf { file, identity, record })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// This process's descriptor of the file, for [`Dmabuf::of_other`].
    pub(crate) fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// A new descriptor to give away. It cannot be mapped, since it cannot be read.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn give(&self) -> io::Result<RawFd> {
        let path = format!("/proc/self/fd/{}", self.number());
        let fd = memfile::reopen(&path, libc::O_WRONLY | libc::O_CLOEXEC)?;
        // Only `take_back` holds a conflicting lock, and no descriptor is given away after it.
        // SAFETY: a valid descriptor, just made.
        unsafe { libc::flock(fd, libc::LOCK_SH | libc::LOCK_NB) };
        Ok(fd)
    }

    /// Empties the owner's file, so that a process that still finds it finds no buffer. Returns false, and changes
    /// nothing, if another descriptor or user exists.
    pub(crate) fn take_back(&self) -> bool {
        lock(&self.file, libc::LOCK_EX) && self.file.set_len(0).is_ok()
    }

    /// The metadata that any process stored last by [`Dmabuf::set_metadata`]; zeros before.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        let mut bytes = [0; METADATA_WORDS * 4];
        self.file.read_exact_at(&mut bytes, METADATA_AT)?;
        let mut words = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let mut pair = || u64::from(next()) | u64::from(next()) << 32;
        let (flags, tiling_info, data_size_bytes) = (pair(), pair(), next());
        Ok(Metadata { flags, tiling_info, data_size_bytes, data: std::array::from_fn(|_| next()) })
    }

    /// Stores metadata.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn set_metadata(&self, metadata: &Metadata) -> io::Result<()> {
        let Metadata { flags, tiling_info, data_size_bytes, data } = metadata;
        let pairs = [flags, tiling_info].into_iter().flat_map(|&pair| [pair as u32, (pair >> 32) as u32]);
        let words = pairs.chain([*data_size_bytes]).chain(*data);
        self.file.write_all_at(&words.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>(), METADATA_AT)
    }

    /// The file that has the buffer's memory, and its offset there.
    ///
    /// # Errors
    /// When the owner is gone.
    pub(crate) fn open_memory(&self) -> io::Result<(OwnedFd, u64)> {
        let Record { owner, file, offset, .. } = self.record;
        Ok((memfile::open_of_other(owner, file)?, offset))
    }

    /// Maps the buffer's memory for the emulator itself.
    ///
    /// # Errors
    /// When the owner is gone, or the address space is used up.
    pub(crate) fn map(&self) -> io::Result<Arc<Mapping>> {
        let Record { owner, file, offset, size, .. } = self.record;
        map_of_other(owner, file, offset, size)
    }
}

/// Locks an open file. Returns false if a conflicting lock exists.
fn lock(file: &File, kind: i32) -> bool {
    // SAFETY: a valid descriptor.
    let result = unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) };
    // A kernel without such locks knows no holders.
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EWOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;
    use crate::memfile::MEMORY;

    /// A GPU's memory, and the file for its second page.
    fn page() -> (MemFile, Dmabuf) {
        let memory = MemFile::new(MEMORY, 4 * PAGE, 0).expect("a file");
        let file = Dmabuf::new(Record::new(&memory, PAGE, PAGE, 5, 3)).expect("a file");
        (memory, file)
    }

    fn given(file: &Dmabuf) -> OwnedFd {
        // SAFETY: a descriptor that was just made and belongs to no other code.
        unsafe { OwnedFd::from_raw_fd(file.give().expect("a descriptor")) }
    }

    /// What is behind a file with a name and contents.
    fn behind(name: &CStr, size: u64, contents: &[u8]) -> Result<Record, Errno> {
        let file = File::from(memfile::create(name, size).expect("a file"));
        file.write_all_at(contents, 0).expect("room");
        Dmabuf::behind(file.as_raw_fd()).map(|file| file.record)
    }

    #[test]
    fn who_has_a_descriptor_finds_the_memory_and_what_it_is() {
        let (memory, file) = page();
        let found = Dmabuf::behind(given(&file).as_raw_fd()).expect("a buffer");
        assert_eq!((found.record, found.identity()), (file.record, file.identity()));
        let Record { gpu_id, flags, size, .. } = found.record;
        assert_eq!((gpu_id, flags, size), (5, 3, PAGE));
        let (owner, other) = (memory.map(PAGE, PAGE).expect("mapped"), found.map().expect("mapped"));
        // SAFETY: one mapped byte that no other code uses.
        unsafe { owner.base().write(7) };
        // SAFETY: as above, by another mapping.
        assert_eq!(unsafe { other.base().read() }, 7);
    }

    #[test]
    fn metadata_reach_everybody_and_are_empty_before() {
        let (_memory, file) = page();
        let fd = given(&file);
        let other = Dmabuf::behind(fd.as_raw_fd()).expect("a buffer");
        let of = |file: &Dmabuf| {
            let Metadata { flags, tiling_info, data_size_bytes, data } = file.metadata().expect("a whole file");
            (flags, tiling_info, data_size_bytes, data[0], data[63])
        };
        assert_eq!(of(&file), (0, 0, 0, 0, 0));
        let (flags, tiling_info, mut data) = (1 << 40 | 2, 3 << 40 | 4, [6; 64]);
        data[63] = 7;
        other.set_metadata(&Metadata { flags, tiling_info, data_size_bytes: 5, data }).expect("room");
        assert_eq!([of(&file), of(&other)], [(flags, tiling_info, 5, 6, 7); 2]);
        assert_eq!(Dmabuf::behind(fd.as_raw_fd()).map(|f| f.record), Ok(file.record), "the record is as it was");
    }

    #[test]
    fn a_descriptor_tells_its_size_and_cannot_be_mapped() {
        let (_memory, file) = page();
        let fd = given(&file);
        // SAFETY: a valid descriptor.
        assert_eq!(unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_END) }, PAGE as i64);
        // What it would show is not the buffer's memory.
        // SAFETY: a new mapping wherever there is room, which no other code uses.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), PAGE as usize, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        assert_eq!(place, libc::MAP_FAILED);
    }

    #[test]
    fn other_files_and_records_that_are_not_whole_stand_for_nothing() {
        let (_memory, Dmabuf { record, .. }) = page();
        let bytes = record.to_bytes();
        assert_eq!(behind(NAME, PAGE, &bytes), Ok(record));
        assert_eq!(behind(c"other", PAGE, &bytes), Err(libc::EINVAL), "another name");
        assert_eq!(behind(NAME, PAGE, &[]), Err(libc::EINVAL), "no record");
        assert_eq!(behind(NAME, 0, &bytes[..bytes.len() - 1]), Err(libc::EINVAL), "a byte less");
        assert_eq!(behind(NAME, 0, &bytes), Err(libc::EINVAL), "a file that was cut off behind its record");
        assert_eq!(behind(NAME, 2 * PAGE, &bytes), Err(libc::EINVAL), "a file that is too long");
        let unaligned = Record { size: PAGE - 1, ..record };
        assert_eq!(behind(NAME, PAGE - 1, &unaligned.to_bytes()), Err(libc::EINVAL), "no whole pages");
        assert!(Dmabuf::behind(-1).is_err(), "no descriptor");
        let this = File::open("/proc/self/exe").expect("this program");
        assert!(Dmabuf::behind(this.as_raw_fd()).is_err(), "a file of the disk");
    }

    #[test]
    fn a_file_is_taken_back_only_when_no_other_process_has_it_and_stands_for_nothing_then() {
        let (_memory, file) = page();
        let find = || Dmabuf::of_other(std::process::id(), file.number().cast_unsigned());
        let fd = given(&file);
        assert!(!file.take_back());
        let found = find().expect("a buffer");
        drop(fd);
        assert!(!file.take_back());
        drop(found);
        assert!(file.take_back());
        assert!(find().is_err());
    }
}
