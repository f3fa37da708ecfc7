//! The reference for measurements of the FUSE front end: the `fuser` library serves a file that only copies memory,
//! until unmounted: `fuse_memcpy DIRECTORY [SIZE]`.
//!
//! `compare.sh` beside this file runs both under fio.
#![allow(missing_docs, reason = "an example")]
#![allow(unsafe_code, reason = "a session of one thread, see `main`")]

use std::cell::UnsafeCell;
use std::ffi::OsStr;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

const VALID: Duration = Duration::from_secs(3600);
const VOLUME: INodeNo = INodeNo(2);

/// Flat memory without any synchronization: one thread serves it.
struct FlatMemory(UnsafeCell<Vec<u8>>);

// SAFETY: the session has one thread, so accesses are never concurrent.
unsafe impl Sync for FlatMemory {}

impl FlatMemory {
    fn with<T>(&self, at: u64, len: usize, use_it: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        // SAFETY: the session has one thread, and calls of this function are never nested.
        let memory = unsafe { &mut *self.0.get() };
        let at = usize::try_from(at).ok()?;
        memory.get_mut(at..at.checked_add(len)?).map(use_it)
    }
}

struct MemcpyDevice {
    memory: FlatMemory,
    len: u64,
}

impl MemcpyDevice {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let file = ino == VOLUME;
        FileAttr {
            ino,
            size: if file { self.len } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for MemcpyDevice {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The limits of the front end that is compared.
        let refused = |_| io::Error::other("the kernel refuses a limit");
        config.set_max_write(1 << 20).map_err(refused)?;
        config.set_max_background(1024).map_err(|_| refused(0))?;
        config
            .set_congestion_threshold(1024)
            .map_err(|_| refused(0))?;
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "volume" {
            reply.entry(&VALID, &self.attributes(VOLUME), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut reply = Some(reply);
        let mut answer = |data: &mut [u8]| reply.take().expect("once").data(data);
        if self
            .memory
            .with(offset, size as usize, &mut answer)
            .is_none()
        {
            reply.expect("not used").error(Errno::EINVAL);
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let copied = self
            .memory
            .with(offset, data.len(), |to| to.copy_from_slice(data));
        match copied {
            Some(()) => reply.written(data.len() as u32),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or_else(|| anyhow::anyhow!("where to?"))?;
    let len = args.next().map_or(Ok(1 << 30), |len| len.parse())?;
    // Ones, not zeroes, so that all pages are allocated before the measurement begins.
    let memory = FlatMemory(UnsafeCell::new(vec![1; usize::try_from(len)?]));
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("memcpy".into())];
    config.n_threads = Some(1);
    fuser::mount(MemcpyDevice { memory, len }, dir, &config)?;
    Ok(())
}
