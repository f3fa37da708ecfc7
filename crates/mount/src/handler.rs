//! Dispatches requests.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Buf;
use forebay_dfs::{AccessTimes, Fs, FsError, RequestClass, Result};
use forebay_frontend::freeze::{PassedWrite, VolumeFreeze, WriteClass};
use forebay_fuse::codec::{self as format, FuseOp, FuseRequest, StatfsReply, init_flag, open_flag};
use forebay_fuse::{ActiveRequest, FuseHandler, IO_BYTES_MAX, IncomingRequest, InitOptions};
use forebay_rt::Instant;

use crate::cached::CachedFiles;
use crate::error::{errno, is_usual};
use crate::handles::{HandleGenerator, sync_mode};
use crate::medium::FilesystemBacking;
use crate::transactions::OpenTransactions;
use crate::waiters::KernelWaiters;
use crate::writers::{AtomicUpdates, ReadWriteHandles};

/// Time in seconds for which the kernel may cache names and attributes of files: only its own requests change them.
pub(crate) const VALID_S: u64 = 1 << 30;
/// Maximum read-ahead of the kernel.
const READ_AHEAD: u32 = 2 << 20;
/// Unit that `df` counts in, in bytes.
const UNIT: u64 = 4096;

/// The least space that a file takes, in bytes: its i-node and its name.
const FILE_BYTES: u64 = 1024;

/// Observer of completed requests.
pub trait RequestObserver {
    /// Records a completed request of this number of bytes.
    fn record(&self, what: RequestClass, bytes: u64, took: Duration);

    /// Records a failed request: the filesystem was full, or had an unusual error.
    fn failed(&self, is_full: bool);
}

/// Settings of a mounted filesystem.
#[derive(Clone, Default)]
pub struct MountSettings {
    /// Every change is durable when it is answered.
    pub sync: bool,
    /// Changes of names are durable when they are answered.
    pub sync_names: bool,
    /// Direct writes of one file run in parallel. A file that is open with `O_DIRECT` then cannot be mapped shared: see
    /// `MountedFiles::open_flags`.
    pub parallel_direct: bool,
    /// Policy for updating access times of all files except directories.
    pub access_times: AccessTimes,
    /// Policy for updating access times of directories.
    pub directory_access_times: AccessTimes,
    /// Observer of requests.
    pub observer: Option<Rc<dyn RequestObserver>>,
    /// The freeze that holds changes back, if any.
    pub freeze: Option<VolumeFreeze>,
    /// The device below, if known, for answers about the places of bytes.
    pub medium: Option<FilesystemBacking>,
}

/// A mounted filesystem.
pub struct MountedFiles {
    pub(crate) fs: Fs,
    pub(crate) settings: MountSettings,
    pub(crate) handles: HandleGenerator,
    pub(crate) transactions: OpenTransactions,
    pub(crate) waiters: KernelWaiters,
    pub(crate) writers: ReadWriteHandles,
    pub(crate) updates: Rc<AtomicUpdates>,
    pub(crate) cached: CachedFiles,
    /// Direct writes that wait for the kernel without a time limit.
    pub(crate) direct_waiting: Cell<usize>,
    /// Files whose size or end an atomic update may have changed since the kernel last read it.
    pub(crate) resized: RefCell<BTreeSet<u64>>,
    /// Until then, the kernel is assumed to keep pages locked while it writes them.
    pub(crate) pages_are_locked_until: Cell<Instant>,
    errors: Cell<u64>,
    /// True after root has shut down the filesystem: every further request fails.
    pub(crate) is_shut_down: Cell<bool>,
}

/// The data of an answer.
pub(crate) type ReplyBytes = Result<Vec<u8>>;

impl MountedFiles {
    /// Creates the handler for this filesystem.
    pub fn new(fs: Fs, settings: MountSettings) -> MountedFiles {
        fs.set_access_times(settings.access_times, settings.directory_access_times);
        MountedFiles {
            fs,
            settings,
            handles: HandleGenerator::default(),
            transactions: OpenTransactions::default(),
            waiters: KernelWaiters::default(),
            writers: ReadWriteHandles::default(),
            updates: Rc::default(),
            cached: CachedFiles::default(),
            direct_waiting: Cell::new(0),
            resized: RefCell::default(),
            pages_are_locked_until: Cell::default(),
            errors: Cell::new(0),
            is_shut_down: Cell::new(false),
        }
    }

    /// Returns the filesystem.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// Waits while a freeze holds back changes of this class.
    pub(crate) async fn pass(&self, class: WriteClass) -> Option<PassedWrite> {
        match &self.settings.freeze {
            Some(freeze) => Some(freeze.pass(class).await),
            None => None,
        }
    }

    /// Returns the device below.
    pub(crate) fn medium(&self) -> Option<&FilesystemBacking> {
        self.settings.medium.as_ref()
    }

    /// Returns true if every read of a file must update its access time.
    pub(crate) fn notes_all_reads(&self) -> bool {
        self.settings.access_times == AccessTimes::Always
    }

    /// Makes changes of a file, or of the names in a directory, durable where the settings or its flags require it.
    pub(crate) async fn keep(
        &self,
        what: RequestClass,
        node: u64,
        answer: ReplyBytes,
    ) -> ReplyBytes {
        let keeps = match what {
            RequestClass::Write => self.settings.sync,
            RequestClass::Change => self.settings.sync_names || self.keeps_names(node),
            _ => false,
        };
        let answer = answer?;
        if keeps {
            self.fs.sync().await?;
        }
        Ok(answer)
    }

    /// Makes changes of a file durable where the flags of the open file require it.
    pub(crate) async fn durably(&self, file: u64, handle: u64, answer: ReplyBytes) -> ReplyBytes {
        let answer = answer?;
        self.make_durable(file, sync_mode(handle)).await?;
        Ok(answer)
    }

    pub(crate) fn tell(&self, what: RequestClass, bytes: usize, request: &ActiveRequest) {
        if let Some(observer) = &self.settings.observer {
            observer.record(what, bytes as u64, request.took());
        }
    }

    pub(crate) fn finish(&self, request: &ActiveRequest, answer: ReplyBytes) {
        match answer {
            Ok(payload) => request.reply(&payload),
            Err(error) => self.failed(request, &error),
        }
    }

    pub(crate) fn failed(&self, request: &ActiveRequest, error: &FsError) {
        let is_full = matches!(error, FsError::Space(error) if error.lacks_space());
        let is_noted = is_full || !is_usual(error);
        if let Some(observer) = self.settings.observer.as_ref().filter(|_| is_noted) {
            observer.failed(is_full);
        }
        if is_noted && !is_full {
            let count = self.errors.get() + 1;
            self.errors.set(count);
            // A failed device fails every request, so the log messages become ever more rare.
            if count.is_power_of_two() {
                tracing::warn!(%error, count, "a request to the filesystem failed");
            }
        }
        request.refuse(errno(error));
    }

    /// Answers all requests except reads and writes.
    async fn answer(&self, underway: &ActiveRequest, request: &FuseRequest) -> FuseReply {
        let node = request.node;
        let done = match &request.op {
            FuseOp::Forget(all) => {
                self.forget(all).await;
                return FuseReply::Nothing;
            }
            FuseOp::Lookup(name) => self.look_up(node, name).await,
            FuseOp::SetAttr(new) if new.size.is_some() && self.keeps_for(request) => {
                return FuseReply::Errno(libc::EBUSY);
            }
            FuseOp::SetAttr(new) => self.set(node, new).await,
            FuseOp::ReadLink => self.fs.read_link(node).await.map(|to| to.to_vec()),
            FuseOp::Symlink(name, target) => self.symlink(request, name, target).await,
            FuseOp::Mknod(make) | FuseOp::Mkdir(make) => self.make(request, make).await,
            FuseOp::Create(make) => self.create(request, make).await,
            FuseOp::Tmpfile(make) => self.nameless(request, make).await,
            FuseOp::Unlink(name) => self.fs.unlink(node, name).await.map(nothing),
            FuseOp::Rmdir(name) => self.fs.remove_directory(node, name).await.map(nothing),
            FuseOp::Rename {
                name,
                to,
                new,
                flags,
            } => self.rename(request, name, (*to, new), *flags).await,
            FuseOp::Link(file, name) => match self.fs.link(*file, node, name).await {
                // Linux's own error for a second name of a directory.
                Err(FsError::IsDirectory) => return FuseReply::Errno(libc::EPERM),
                done => self.entry(done).await,
            },
            FuseOp::Open { flags, .. } => self.open(node, *flags),
            FuseOp::Fsync(data_only) | FuseOp::FsyncDir(data_only) => {
                self.fs.sync_file(node, *data_only).await.map(nothing)
            }
            FuseOp::Statx => self.known_of(node).await,
            FuseOp::SyncFs => self.fs.sync().await.map(nothing),
            asked @ (FuseOp::SetXattr { .. }
            | FuseOp::GetXattr(..)
            | FuseOp::ListXattr(_)
            | FuseOp::RemoveXattr(_)) => return self.answer_attribute(request, asked).await,
            FuseOp::ReadDirPlus { at, len } => self.list(node, *at, *len, true).await,
            FuseOp::Lseek { at, whence } => {
                return self.seek(underway, request, *at, *whence).await;
            }
            FuseOp::Ioctl(asked) => return self.ioctl(underway, request, asked).await,
            // After this error, the kernel copies by reading and writing.
            FuseOp::CopyFileRange(copy)
                if self.keeps_for(request)
                    || self.transactions.joined(copy.to_handle).is_some() =>
            {
                return FuseReply::Errno(libc::EOPNOTSUPP);
            }
            FuseOp::CopyFileRange(copy) => {
                let copied = self.copy(underway, request, copy).await;
                self.durably(copy.to, copy.to_handle, copied).await
            }
            _ => return self.answer_fixed(underway, request).await,
        };
        FuseReply::Done(done)
    }

    /// Answers the other requests, most of which have no body.
    async fn answer_fixed(&self, underway: &ActiveRequest, request: &FuseRequest) -> FuseReply {
        let node = request.node;
        FuseReply::Done(match request.op {
            FuseOp::GetAttr => self.attributes_of(node).await,
            FuseOp::ReadDir { at, len } => self.list(node, at, len, false).await,
            FuseOp::OpenDir => {
                let flags = open_flag::KEEP_CACHE | open_flag::CACHE_DIR;
                let handle = self.handles.next(libc::O_RDONLY.cast_unsigned());
                Ok(format::open_out(handle, flags).to_vec())
            }
            FuseOp::Release | FuseOp::ReleaseDir => return self.release(underway, request).await,
            FuseOp::Destroy => self.fs.sync().await.map(nothing),
            FuseOp::StatFs => Ok(self.room()),
            FuseOp::Fallocate { .. } if self.keeps_for(request) => {
                return FuseReply::Errno(libc::EBUSY);
            }
            FuseOp::Fallocate { at, len, mode } => {
                match self.fallocate(underway, request, at, len, mode).await {
                    Some(done) => {
                        let done = done.map(nothing);
                        self.durably(node, request.handle, done).await
                    }
                    None => return FuseReply::Errno(libc::EOPNOTSUPP),
                }
            }
            // The kernel takes "not implemented" as "never ask again". That is intended for flush on close, for locks
            // and access checks, which the kernel handles itself, and for interrupts, whose request is answered anyway.
            _ => return FuseReply::Errno(libc::ENOSYS),
        })
    }

    /// Returns true if changes through the open file of the request are kept for a transaction.
    fn keeps_for(&self, request: &FuseRequest) -> bool {
        !self.transactions.is_idle() && self.transactions.joined(request.handle).is_some()
    }

    fn room(&self) -> Vec<u8> {
        let room = self.fs.room();
        let files_left = room.files.saturating_sub(room.used_files);
        let files_free = files_left.min(room.free / FILE_BYTES);
        let room = StatfsReply {
            units: room.bytes / UNIT,
            free: room.free / UNIT,
            files: room.used_files + files_free,
            files_free,
            unit: UNIT as u32,
        };
        format::statfs_out(room).to_vec()
    }
}

/// Returns the class of a request.
fn class_of(op: &FuseOp) -> RequestClass {
    match op {
        FuseOp::Fsync(_) | FuseOp::FsyncDir(_) | FuseOp::Destroy | FuseOp::SyncFs => {
            RequestClass::Sync
        }
        // Of ioctls, only those that change files reach this.
        FuseOp::Ioctl(_) | FuseOp::CopyFileRange(_) => RequestClass::Write,
        FuseOp::SetAttr(_)
        | FuseOp::Symlink(..)
        | FuseOp::Mknod(_)
        | FuseOp::Mkdir(_)
        | FuseOp::Unlink(_)
        | FuseOp::Rmdir(_)
        | FuseOp::Rename { .. }
        | FuseOp::Link(..)
        | FuseOp::SetXattr { .. }
        | FuseOp::RemoveXattr(_)
        | FuseOp::Create(_)
        | FuseOp::Fallocate { .. }
        | FuseOp::Tmpfile(_) => RequestClass::Change,
        _ => RequestClass::Look,
    }
}

/// A write to a file, as the kernel requests it.
pub(crate) struct FileWrite {
    /// Offset in the file, in bytes.
    pub(crate) at: u64,
    pub(crate) data: Buf,
    /// True if the write clears the privileges of the file.
    pub(crate) kill: bool,
    /// True if the kernel writes back pages of a mapping.
    pub(crate) delayed: bool,
}

/// Answer for the kernel.
pub(crate) enum FuseReply {
    Done(ReplyBytes),
    /// An answer without a change, for any class of request.
    Looked(ReplyBytes),
    Errno(i32),
    Nothing,
}

/// Returns the class by which a freeze holds a request back; `None` if the request changes nothing. An ioctl passes the
/// freeze later, if it changes files.
fn frozen_as(op: &FuseOp) -> Option<WriteClass> {
    match op {
        FuseOp::Ioctl(_) => None,
        FuseOp::Forget(_) | FuseOp::Release | FuseOp::ReleaseDir => Some(WriteClass::Kernel),
        op => match class_of(op) {
            RequestClass::Write | RequestClass::Change => Some(WriteClass::Client),
            _ => None,
        },
    }
}

/// Returns true if a request only releases something, or needs no answer.
fn is_of_the_end(op: &FuseOp) -> bool {
    matches!(
        op,
        FuseOp::Release | FuseOp::ReleaseDir | FuseOp::Forget(_) | FuseOp::Destroy | FuseOp::StatFs
    )
}

pub(crate) fn nothing(_: ()) -> Vec<u8> {
    Vec::new()
}

impl FuseHandler for MountedFiles {
    fn wishes(&self) -> InitOptions {
        use init_flag as flag;
        let mapped = if self.settings.parallel_direct {
            0
        } else {
            flag::DIRECT_IO_ALLOW_MMAP
        };
        // Without ATOMIC_O_TRUNC, so that the kernel itself truncates files that are opened with O_TRUNC. With the
        // flag, the kernel would truncate before it checks for a running program, and would truncate that program, too
        // (found by pjdfstest's `etxtbsy`).
        InitOptions {
            flags: flag::ASYNC_READ
                | flag::EXPORT_SUPPORT
                | flag::BIG_WRITES
                | flag::DONT_MASK
                | flag::DO_READDIRPLUS
                | flag::READDIRPLUS_AUTO
                | flag::ASYNC_DIO
                | flag::PARALLEL_DIROPS
                | flag::POSIX_ACL
                | flag::ABORT_ERROR
                | flag::MAX_PAGES
                | flag::CACHE_SYMLINKS
                | flag::HANDLE_KILLPRIV_V2
                | flag::SETXATTR_EXT
                | mapped
                | flag::OVER_IO_URING,
            read_ahead: READ_AHEAD,
        }
    }

    async fn take(self: &Rc<Self>, mut arrival: IncomingRequest<'_>, request: FuseRequest) {
        let files = Rc::clone(self);
        if self.is_shut_down.get() && !is_of_the_end(&request.op) {
            return arrival.refuse(libc::EIO);
        }
        match request.op {
            FuseOp::Read { at, len } => {
                let len = (len as usize).min(IO_BYTES_MAX);
                let lease = arrival.lease(len).await;
                arrival.begin(|underway| async move {
                    let _lease = lease;
                    files.read(&underway, &request, at, len).await;
                });
            }
            FuseOp::Write {
                at,
                len,
                kill,
                delayed,
            } => {
                let (data, lease) = arrival.data(len as usize).await;
                arrival.begin(|underway| async move {
                    let class = if delayed {
                        WriteClass::Kernel
                    } else {
                        WriteClass::Client
                    };
                    let _passed = files.pass(class).await;
                    if !delayed && files.keeps_for(&request) {
                        let kept = files.keep_write(&underway, &request, at, data, lease);
                        return kept.await;
                    }
                    let write = FileWrite {
                        at,
                        data,
                        kill,
                        delayed,
                    };
                    files.answer_write(&underway, &request, write, lease).await;
                });
            }
            _ => {
                arrival.begin(|underway| async move {
                    let _passed = match frozen_as(&request.op) {
                        Some(class) => files.pass(class).await,
                        None => None,
                    };
                    match files.answer(&underway, &request).await {
                        FuseReply::Done(answer) => {
                            let what = class_of(&request.op);
                            let answer = files.keep(what, request.node, answer).await;
                            files.finish(&underway, answer);
                            files.tell(what, 0, &underway);
                        }
                        FuseReply::Looked(answer) => {
                            files.finish(&underway, answer);
                            files.tell(RequestClass::Look, 0, &underway);
                        }
                        FuseReply::Errno(errno) => underway.refuse(errno),
                        FuseReply::Nothing => {}
                    }
                });
            }
        }
    }
}
