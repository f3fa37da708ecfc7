//! Reads from the device with several requests in flight, without filling the page cache.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::delivery::DEPTH;
use crate::sys;

/// Alignment of memory and file offsets for direct I/O, unless the filesystem requires more.
const ALIGN: u64 = 4096;

/// Ways of reading past the page cache, best first, followed by plain reading. A way that fails is not tried again.
const DIRECT: u8 = 0;
const DONTCACHE: u8 = 1;

/// A file that is read past the page cache.
struct UncachedFile {
    direct: Option<File>,
    plain: File,
    way: AtomicU8,
    align: u64,
}

impl UncachedFile {
    fn new(file: &File) -> io::Result<UncachedFile> {
        let align = match direct_align(file.as_fd()) {
            Some((0, _) | (_, 0)) => None,
            Some((memory, offset)) => Some(u64::from(memory.max(offset)).max(ALIGN)),
            None => Some(ALIGN),
        };
        // The file is opened again because `O_DIRECT` belongs to the open file, which is the caller's.
        let again = align.filter(|align| align.is_power_of_two()).map(|_| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECT)
                .open(path)
        });
        let direct = again.and_then(Result::ok);
        Ok(UncachedFile {
            way: AtomicU8::new(if direct.is_some() { DIRECT } else { DONTCACHE }),
            direct,
            plain: file.try_clone()?,
            align: align.unwrap_or(ALIGN),
        })
    }

    /// Fills `buf` from `at` on, both aligned. Returns less only at the end of the file.
    fn fill(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(at + filled as u64, &mut buf[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // Direct reads end inside a block only at the end of the file.
            if !(filled as u64).is_multiple_of(ALIGN) && self.way.load(Ordering::Relaxed) == DIRECT
            {
                break;
            }
        }
        Ok(filled)
    }

    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let way = self.way.load(Ordering::Relaxed);
            let read = match (way, &self.direct) {
                (DIRECT, Some(direct)) => direct.read_at(buf, at),
                (DIRECT | DONTCACHE, _) => sys::read_dontcache(&self.plain, at, buf),
                _ => return self.plain.read_at(buf, at),
            };
            let refused = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS];
            match read {
                Err(error)
                    if error
                        .raw_os_error()
                        .is_some_and(|code| refused.contains(&code)) =>
                {
                    self.way.fetch_max(way + 1, Ordering::Relaxed);
                }
                other => return other,
            }
        }
    }
}

/// Returns the alignment of direct I/O on a file in bytes (memory, offset). `None` if the kernel does not report it,
/// zeroes if the file does not support direct I/O.
fn direct_align(fd: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let stat = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    known.then_some((stat.stx_dio_mem_align, stat.stx_dio_offset_align))
}

/// Memory that begins at an aligned address.
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    fn new(length: usize, align: u64) -> AlignedBuffer {
        let memory = vec![0; length + align as usize];
        let start = memory.as_ptr().align_offset(align as usize);
        AlignedBuffer { memory, start }
    }

    fn slice(&mut self, length: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + length]
    }
}

/// Bytes `from` to `to` of the file, with the buffer to read them into.
struct ReadJob {
    number: u64,
    from: u64,
    to: u64,
    buffer: AlignedBuffer,
}

/// A part of the file that was read.
pub(crate) struct ReadBlock {
    buffer: AlignedBuffer,
    skip: usize,
    /// Number of bytes; fewer than requested only at the end of the file.
    pub(crate) length: usize,
}

impl ReadBlock {
    pub(crate) fn bytes(&self) -> &[u8] {
        let start = self.buffer.start + self.skip;
        &self.buffer.memory[start..start + self.length]
    }
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<ReadJob>,
    done: BTreeMap<u64, io::Result<ReadBlock>>,
    stopped: bool,
}

struct PoolShared {
    access: UncachedFile,
    state: Mutex<PoolState>,
    work: Condvar,
    done: Condvar,
}

impl PoolShared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, mut job: ReadJob) -> io::Result<ReadBlock> {
        let align = self.access.align;
        let start = job.from / align * align;
        let length = (job.to.next_multiple_of(align) - start) as usize;
        let filled = self.access.fill(start, job.buffer.slice(length))?;
        let skip = (job.from - start) as usize;
        let wanted = (job.to - job.from) as usize;
        Ok(ReadBlock {
            buffer: job.buffer,
            skip,
            length: filled.saturating_sub(skip).min(wanted),
        })
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return;
            }
            let Some(job) = state.jobs.pop_front() else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let number = job.number;
            let outcome = self.carry_out(job);
            state = self.lock();
            state.done.insert(number, outcome);
            self.done.notify_all();
        }
    }
}

/// Threads that read ahead of their caller. The caller receives the parts in the order of its requests.
pub(crate) struct ReadPool {
    shared: Arc<PoolShared>,
    threads: usize,
    asked: u64,
    given: u64,
    block: usize,
    spare: Vec<AlignedBuffer>,
}

impl ReadPool {
    /// Makes a pool for parts of at most `block` bytes.
    pub(crate) fn new(file: &File, block: usize) -> io::Result<ReadPool> {
        Ok(ReadPool {
            shared: Arc::new(PoolShared {
                access: UncachedFile::new(file)?,
                state: Mutex::default(),
                work: Condvar::new(),
                done: Condvar::new(),
            }),
            threads: 0,
            asked: 0,
            given: 0,
            block,
            spare: Vec::new(),
        })
    }

    /// Returns the number of requested parts not yet returned.
    pub(crate) fn in_flight(&self) -> usize {
        (self.asked - self.given) as usize
    }

    /// Returns true if [`ReadPool::wait`] would not wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.lock().done.contains_key(&self.given)
    }

    /// Requests bytes `from` to `to`: at most a block, not empty.
    pub(crate) fn ask(&mut self, from: u64, to: u64) {
        let align = self.shared.access.align;
        let fresh = || AlignedBuffer::new(self.block + 2 * align as usize, align);
        let buffer = self.spare.pop().unwrap_or_else(fresh);
        let job = ReadJob {
            number: self.asked,
            from,
            to,
            buffer,
        };
        self.asked += 1;
        if self.threads < DEPTH && self.in_flight() > self.threads {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("sleds-read".to_owned());
            let stack = thread.stack_size(128 << 10);
            self.threads += usize::from(stack.spawn(move || shared.serve()).is_ok());
        }
        if self.threads == 0 {
            let outcome = self.shared.carry_out(job);
            self.shared.lock().done.insert(self.asked - 1, outcome);
            return;
        }
        self.shared.lock().jobs.push_back(job);
        self.shared.work.notify_one();
    }

    /// Waits for the earliest requested part not yet returned. At least one part must be in flight.
    pub(crate) fn wait(&mut self) -> io::Result<ReadBlock> {
        debug_assert!(self.in_flight() > 0);
        let mut state = self.shared.lock();
        loop {
            if let Some(outcome) = state.done.remove(&self.given) {
                self.given += 1;
                return outcome;
            }
            let waited = self.shared.done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes back the memory of a part.
    pub(crate) fn recycle(&mut self, block: ReadBlock) {
        self.spare.push(block.buffer);
    }
}

impl Drop for ReadPool {
    /// The threads end after their current reads. The drop does not wait for a slow device.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        state.jobs.clear();
        drop(state);
        self.shared.work.notify_all();
    }
}
