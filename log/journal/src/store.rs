//! The records of a process: made, grown and removed by the process itself.
//!
//! # Threads
//! Any. A thread that makes the file grow holds a lock; none is needed for records in blocks that are there.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use logdur_system::signals::Quiet;
use logdur_system::{lock, network};

use crate::filter::RowFilter;
use crate::layout::{Body, CHUNK_ALIGN, ChunkHead, HEADER_BYTES, Header, Kind};
use crate::left;
use crate::lines::Format;
use crate::names::{Kernel, Naming};
use crate::pages;
use crate::process;
use crate::record::{BLOCK_BYTES, Block};

const PAGE: u64 = pages::PAGE as u64;
/// Names that are tried: one for each image that a process replaced itself by, and some left by earlier processes.
const NAMES: usize = 100;
/// How often it is tried to reserve room when signals interrupt.
const INTERRUPTIONS: usize = 100;

/// Where rows go and how: what recovery needs to write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// How they are written.
    pub format: Format,
    /// The file; `None` for the standard output.
    pub log: Option<PathBuf>,
    /// Which dispatches have rows.
    pub filter: RowFilter,
    /// The process's rank in a parallel job.
    pub rank: Option<u32>,
    /// Which names of kernels rows have.
    pub naming: Naming,
}

impl Origin {
    pub(crate) fn body(&self) -> Vec<u8> {
        let text = |body: Body, text: Option<&OsStr>| match text {
            Some(text) => body.number(1).text(text.as_bytes()),
            None => body.number(0),
        };
        let body = Body::default().number(self.format as u32);
        let body = text(body, self.log.as_ref().map(|p| p.as_os_str()));
        let RowFilter { only, except, agents } = &self.filter;
        let body = text(body, only.as_ref().map(OsStr::new)).known(self.rank);
        let body = text(body, except.as_ref().map(OsStr::new)).number(agents.len() as u32);
        let body = agents.iter().fold(body, |body, range| body.number(*range.start()).number(*range.end()));
        body.number(self.naming as u32).bytes()
    }
}

/// The records of this process.
#[derive(Debug)]
pub struct Records {
    header: NonNull<Header>,
    file: Option<RecordFile>,
}

// SAFETY: a header consists of atomics, and is never freed.
unsafe impl Send for Records {}
// SAFETY: as above.
unsafe impl Sync for Records {}

/// The file. It is opened anew whenever it has to grow: an application may close any descriptor of its process.
#[derive(Debug)]
struct RecordFile {
    path: PathBuf,
    inode: (u64, u64),
    /// True when its folder is in memory.
    in_memory: bool,
    /// Others have removed it.
    gone: AtomicBool,
    /// It was removed here.
    removed: AtomicBool,
    growth: Mutex<Growth>,
}

#[derive(Debug)]
struct Growth {
    /// Where the next chunk begins; `None` once the file could not grow.
    end: Option<u64>,
    /// Why, until it is asked for.
    problem: Option<String>,
}

impl Records {
    /// Records in private memory, which end with the process.
    pub fn private() -> Records {
        let header = Box::<Header>::new_zeroed();
        // SAFETY: zeros are a value of a header.
        let header = Box::leak(unsafe { header.assume_init() });
        header.stream.store(process::unique(), Ordering::Relaxed);
        Records { header: NonNull::from(header), file: None }
    }

    /// Records in a new file in a folder. Says, too, which files of earlier processes have the names that were tried
    /// before one was free: they are left alone.
    ///
    /// # Errors
    /// When the file cannot be made, or there is no room for its beginning, or a store to it might wait for another machine: a page that
    /// is not there any more would even end the process if that does not answer.
    pub fn create(folder: &Path, origin: &Origin) -> io::Result<(Records, Vec<PathBuf>)> {
        if network::has_path(folder) {
            let text = "expected a folder in memory or on a disk, found one on a network, where dispatches would wait for a page";
            return Err(io::Error::other(text));
        }
        let pid = std::process::id();
        let _quiet = Quiet::new();
        let (file, path, earlier) = create_file(folder, pid)?;
        let made = Records::in_file(&file, &path, pid, origin);
        if made.is_err() {
            // Nothing is in it. If it cannot be removed either, it is an empty file.
            let _ = fs::remove_file(&path);
        }
        Ok((made?, earlier))
    }

    fn in_file(file: &File, path: &Path, pid: u32, origin: &Origin) -> io::Result<Records> {
        // The process's umask does not count: only this user may open it again.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        let metadata = file.metadata()?;
        let header = map(file, 0, HEADER_BYTES)?.cast::<Header>();
        // SAFETY: the mapping has the size of a header, is zeroed, aligned to pages, and never unmapped.
        unsafe { header.as_ref() }.fill(pid, process::start_time(pid).unwrap_or(0));
        let records = Records {
            header,
            file: Some(RecordFile {
                path: path.to_owned(),
                inode: (metadata.dev(), metadata.ino()),
                in_memory: is_in_memory(file),
                gone: AtomicBool::new(false),
                removed: AtomicBool::new(false),
                growth: Mutex::new(Growth { end: Some(HEADER_BYTES as u64), problem: None }),
            }),
        };
        records.append(Kind::Origin, &origin.body());
        match records.take_problem() {
            Some(problem) => Err(io::Error::other(problem)),
            None => Ok(records),
        }
    }

    /// Counters and clocks.
    pub fn header(&self) -> &'static Header {
        // SAFETY: the header is leaked or in a mapping that is never unmapped.
        unsafe { self.header.as_ref() }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        Some(&self.file.as_ref()?.path)
    }

    /// False when a store to a record may have to wait for a disk.
    pub fn are_in_memory(&self) -> bool {
        self.file.as_ref().is_none_or(|f| f.in_memory)
    }

    /// New empty blocks that live as long as the process. If the file cannot grow, they are in private memory; there are fewer if the
    /// system has none left.
    pub fn blocks(&self, count: usize) -> Vec<NonNull<Block>> {
        if count == 0 {
            return Vec::new();
        }
        if let Some(file) = &self.file
            && let Some(blocks) = file.grow(|at, end| file.reserve(at, end, count))
        {
            return blocks;
        }
        let blocks: Vec<_> = (0..count).map_while(|_| Block::new()).collect();
        self.header().private_blocks.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        blocks
    }

    /// Gives the memory of an empty block back to the system, but for the page that makes it a chunk of the file.
    ///
    /// # Safety
    /// The block is one of [`blocks`](Self::blocks), and nothing is recorded in it before [`reserve_again`](Self::reserve_again).
    pub unsafe fn rest(&self, block: NonNull<Block>) {
        // SAFETY: blocks live as long as the process.
        let kept = usize::from(unsafe { block.as_ref() }.is_in_file());
        // SAFETY: blocks are mappings of `BLOCK_BYTES`; records that are zeros are free, as those of an empty block are.
        unsafe { pages::give_back(block, kept) };
    }

    /// Has room for a block again that was at rest, in pages that are there; false if there is none.
    pub fn reserve_again(&self, block: &'static Block) -> bool {
        if let Some(offset) = block.offset() {
            let Some(file) = &self.file else { return false };
            if file.grow(|at, _| reserve(at, offset, BLOCK_BYTES)).is_none() {
                return false;
            }
        }
        // SAFETY: a block is a mapping of `BLOCK_BYTES`, which is never unmapped, or memory of `pages::zeroed`.
        unsafe { pages::make_ready(NonNull::from(block)) };
        if block.offset().is_none() {
            block.become_chunk(0);
        }
        true
    }

    /// Names a GPU for readers of the file.
    pub fn agent(&self, position: usize, name: &str, product: &str) {
        let body = Body::default().number(position as u32).text(name.as_bytes()).text(product.as_bytes());
        self.append(Kind::Agent, &body.bytes());
    }

    /// Names kernels for readers of the file, by their numbers.
    pub fn kernels<'a>(&self, kernels: impl ExactSizeIterator<Item = (u32, &'a Kernel)>) {
        if self.file.is_none() || kernels.len() == 0 {
            return;
        }
        let body = Body::default().number(kernels.len() as u32);
        let body = kernels.fold(body, |body, (number, kernel)| body.kernel(number, kernel));
        self.append(Kind::Kernels, &body.bytes());
    }

    fn append(&self, kind: Kind, body: &[u8]) {
        let Some(file) = &self.file else { return };
        file.grow(|at, end| {
            let bytes = ((ChunkHead::BYTES + body.len()) as u64).next_multiple_of(CHUNK_ALIGN);
            let mut padded = body.to_vec();
            padded.resize(bytes as usize - ChunkHead::BYTES, 0);
            at.write_all_at(&padded, *end + ChunkHead::BYTES as u64)?;
            // The body is there: now the chunk counts.
            at.write_all_at(&ChunkHead::bytes_of(kind, bytes), *end)?;
            *end += bytes;
            Ok(())
        });
    }

    /// Why the file could not grow, once.
    pub fn take_problem(&self) -> Option<String> {
        lock(&self.file.as_ref()?.growth).problem.take()
    }

    /// Looks whether the file is still there. If others have removed it, it does not grow any more: see
    /// [`take_problem`](Self::take_problem).
    pub fn look(&self) {
        let Some(file) = self.file.as_ref().filter(|file| !file.gone.load(Ordering::Relaxed)) else { return };
        let mut growth = lock(&file.growth);
        if !file.removed.load(Ordering::Relaxed) && !file.is_there() {
            file.gone.store(true, Ordering::Relaxed);
            growth.fail(&file.path, &io::Error::other("others have removed the file"));
        }
    }

    /// True once a look has found that others have removed the file.
    pub fn is_gone(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.gone.load(Ordering::Relaxed))
    }

    /// Removes the file: every row is written. The records stay usable, in memory that ends with the process.
    pub fn remove(&self) {
        let Some(file) = &self.file else { return };
        lock(&file.growth).end = None;
        file.removed.store(true, Ordering::Relaxed);
        if file.is_there() {
            // What cannot be removed stays, and says itself that there is nothing left to write.
            let _ = fs::remove_file(&file.path);
        }
    }
}

impl RecordFile {
    /// Appends to the file. If that fails it is cut to what it was, and does not grow again.
    fn grow<T>(&self, append: impl FnOnce(&File, &mut u64) -> io::Result<T>) -> Option<T> {
        let _quiet = Quiet::new();
        let mut growth = lock(&self.growth);
        let start = growth.end?;
        let file = self.open().inspect_err(|e| growth.fail(&self.path, e)).ok()?;
        let mut end = start;
        let done = append(&file, &mut end).inspect_err(|e| {
            growth.fail(&self.path, e);
            // If this fails, too, a reader says that the end of the file is no chunk.
            let _ = file.set_len(start);
        });
        growth.end = growth.end.map(|_| end);
        done.ok()
    }

    /// True while the name is this file's.
    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.inode)
    }

    fn open(&self) -> io::Result<File> {
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != self.inode {
            return Err(io::Error::other("another file is in its place"));
        }
        Ok(file)
    }

    fn reserve(&self, file: &File, end: &mut u64, count: usize) -> io::Result<Vec<NonNull<Block>>> {
        let start = end.next_multiple_of(PAGE);
        let bytes = count * BLOCK_BYTES;
        let memory = map(file, start, bytes)?;
        if start > *end {
            file.write_all_at(&ChunkHead::bytes_of(Kind::Padding, start - *end), *end)?;
        }
        *end = start + bytes as u64;
        let block = |i: usize| {
            // SAFETY: the mapping has room for `count` blocks.
            let block = unsafe { memory.byte_add(i * BLOCK_BYTES) }.cast::<Block>();
            // SAFETY: it is zeroed, aligned as `BLOCK_BYTES` and the page are, and never unmapped.
            unsafe { block.as_ref() }.become_chunk(start + (i * BLOCK_BYTES) as u64);
            block
        };
        Ok((0..count).map(block).collect())
    }
}

impl Growth {
    fn fail(&mut self, path: &Path, error: &io::Error) {
        self.end = None;
        self.problem = Some(format!("{}: {error}", path.display()));
    }
}

fn create_file(folder: &Path, pid: u32) -> io::Result<(File, PathBuf, Vec<PathBuf>)> {
    let mut earlier = Vec::new();
    for number in 0..NAMES {
        let (begin, end) = left::NAME;
        let name = if number == 0 { format!("{begin}{pid}{end}") } else { format!("{begin}{pid}.{number}{end}") };
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        match options.open(&path) {
            Ok(file) => return Ok((file, path, earlier)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => earlier.push(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{NAMES} files of earlier processes are there")))
}

/// Reserves a part of a file, so that a store to it cannot fail for want of room, and maps it for as long as the process
/// lives. The pages are there when this returns. A fork's child does not have them.
fn map(file: &File, offset: u64, bytes: usize) -> io::Result<NonNull<u8>> {
    reserve(file, offset, bytes)?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), offset as libc::off_t) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping was just made. Should it fail, the child has it, and does not use it.
    unsafe { libc::madvise(memory, bytes, libc::MADV_DONTFORK) };
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
}

/// Reserves a part of a file.
fn reserve(file: &File, offset: u64, bytes: usize) -> io::Result<()> {
    let reserve = || {
        // SAFETY: no memory is involved.
        unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, bytes as libc::off_t) }
    };
    // A signal of the application's interrupts it on tmpfs.
    match (0..INTERRUPTIONS).map(|_| reserve()).find(|&e| e != libc::EINTR).unwrap_or(libc::EINTR) {
        0 => Ok(()),
        failed => Err(io::Error::from_raw_os_error(failed)),
    }
}

fn is_in_memory(file: &File) -> bool {
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the kernel writes the structure.
    let failed = unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) };
    // SAFETY: zeros are a value of the structure, and so is what the kernel wrote.
    let about = unsafe { about.assume_init() };
    // Source: linux/magic.h.
    failed == 0 && matches!(about.f_type, libc::TMPFS_MAGIC | 0x8584_58f6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Shape, State};

    /// Faults of the calling thread that no disk takes part in.
    fn page_faults_of(work: impl FnOnce()) -> i64 {
        let faults = || {
            let mut usage = MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: the kernel writes the structure.
            unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
            // SAFETY: zeros are a value of the structure, and so is what the kernel wrote.
            unsafe { usage.assume_init() }.ru_minflt
        };
        let before = faults();
        work();
        faults() - before
    }

    #[test]
    fn a_block_at_rest_takes_no_room_in_memory_or_its_file_and_is_empty_when_it_is_used_again() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let origin = Origin {
            format: Format::Csv,
            log: None,
            filter: RowFilter::default(),
            rank: None,
            naming: Naming::Demangled,
        };
        let (in_file, _) = Records::create(folder.path(), &origin).unwrap();
        for records in [in_file, Records::private()] {
            let used = || records.path().map(|path| path.metadata().unwrap().blocks() * 512);
            let blocks = records.blocks(3);
            let before = used();
            // SAFETY: blocks live as long as the process.
            let [first, second, _] = [0, 1, 2].map(|n| -> &'static Block { unsafe { blocks[n].as_ref() } });
            for record in first.records.iter().chain(&second.records) {
                record.set_state(State::InFlight);
            }
            second.clear();
            // SAFETY: it is empty, and reserved again below.
            unsafe { records.rest(blocks[1]) };
            if let (Some(before), Some(now)) = (before, used()) {
                assert_eq!(before - now, (BLOCK_BYTES - pages::PAGE) as u64);
                let read = crate::snapshot::Snapshot::read(records.path().unwrap()).unwrap();
                assert_eq!((read.dispatches.len(), read.problems.as_slice()), (511, &[][..]));
            }
            assert!(records.reserve_again(second));
            // Whoever records in it does not wait for its ten pages.
            let faults = page_faults_of(|| second.records.iter().for_each(|record| record.set_state(State::Free)));
            assert!(faults < 5, "{faults} page faults");
            assert!(second.records.iter().all(|record| record.state() == State::Free));
            assert_eq!(used(), before);
            assert_eq!((records.blocks(0).len(), records.take_problem()), (0, None));
            second.records[510].set_state(State::InFlight);
            assert!(
                first.records.iter().all(|record| record.state() == State::InFlight),
                "another one has lost its own"
            );
        }
    }

    #[test]
    fn a_block_in_private_memory_is_empty_and_shared_by_a_writer_and_a_reader() {
        let records = Records::private();
        let blocks = records.blocks(2);
        assert_eq!(records.header().private_blocks.load(Ordering::Relaxed), 2);
        // SAFETY: blocks live as long as the process.
        let blocks: Vec<&'static Block> = blocks.iter().map(|block| unsafe { block.as_ref() }).collect();
        assert!(blocks.iter().all(|block| block.records.iter().all(|record| record.state() == State::Free)));
        assert!(blocks.iter().all(|block| !block.is_in_file() && block.queue() == 0 && block.agent() == 0));
        let [block, _] = blocks[..] else { panic!("two blocks") };
        block.assign(7, 3);
        let count = 16;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (n, record) in block.records.iter().enumerate().take(count) {
                    record.id.store(n as u64, Ordering::Relaxed);
                    record.set_shape(Shape { kernel: n as u32, ..Shape::default() });
                    record.set_state(State::InFlight);
                }
            });
            for (n, record) in block.records.iter().enumerate().take(count) {
                while record.state() == State::Free {
                    std::thread::yield_now();
                }
                assert_eq!((record.id.load(Ordering::Relaxed), record.shape().kernel), (n as u64, n as u32));
            }
        });
        block.clear();
        assert!(block.records.iter().all(|record| record.state() == State::Free));
        assert_eq!((block.queue(), block.agent()), (7, 3));
    }
}
