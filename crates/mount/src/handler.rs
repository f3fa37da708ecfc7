//! Dispatches requests.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use forebay_dfs::{AccessTimes, Fs, FsError, Result};
use forebay_fuse::files::{Asked, decode};
use forebay_fuse::{self as format, Op, Request, Room, init_flag, open_flag};
use forebay_rt::Instant;
use forebay_serve::fuse::{Arrival, Handler, IO_BYTES_MAX, Underway, Wishes};

use crate::cached::CachedFiles;
use crate::error::{errno, is_usual};
use crate::handles::{Handles, sync_mode};
use crate::medium::Medium;
use crate::transactions::Transactions;
use crate::waiters::Waiters;
use crate::writers::{Updates, Writers};

/// Time in seconds for which the kernel may cache names and attributes of files: only its own requests change them.
pub(crate) const VALID_S: u64 = 1 << 30;
/// Maximum read-ahead of the kernel.
const READ_AHEAD: u32 = 2 << 20;
/// Unit that `df` counts in, in bytes.
const UNIT: u64 = 4096;

/// The least space that a file takes, in bytes: its i-node and its name.
const FILE_BYTES: u64 = 1024;

/// Class of a request to a filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// A read of a file.
    Read,
    /// A write to a file.
    Write,
    /// A request to make changes durable.
    Sync,
    /// Creation, change or removal of a name or of attributes.
    Change,
    /// Any other request.
    Look,
}

/// Observer of completed requests.
pub trait Observer {
    /// Records a completed request of this number of bytes.
    fn did(&self, what: Did, bytes: u64, took: Duration);

    /// Records a failed request: the filesystem was full, or had an unusual error.
    fn failed(&self, is_full: bool);
}

/// Settings of a mounted filesystem.
#[derive(Clone, Default)]
pub struct Settings {
    /// Every change is durable when it is answered.
    pub sync: bool,
    /// Changes of names are durable when they are answered.
    pub sync_names: bool,
    /// Direct writes of one file run in parallel. A file that is open with `O_DIRECT` then cannot be mapped shared: see
    /// `Files::open_flags`.
    pub parallel_direct: bool,
    /// Policy for updating access times of all files except directories.
    pub access_times: AccessTimes,
    /// Policy for updating access times of directories.
    pub directory_access_times: AccessTimes,
    /// Observer of requests.
    pub observer: Option<Rc<dyn Observer>>,
    /// The device below, if known, for answers about the places of bytes.
    pub medium: Option<Medium>,
}

/// A mounted filesystem.
pub struct Files {
    pub(crate) fs: Fs,
    pub(crate) settings: Settings,
    pub(crate) handles: Handles,
    pub(crate) transactions: Transactions,
    pub(crate) waiters: Waiters,
    pub(crate) writers: Writers,
    pub(crate) updates: Rc<Updates>,
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
pub(crate) type Answer = Result<Vec<u8>>;

impl Files {
    /// Creates the handler for this filesystem.
    pub fn new(fs: Fs, settings: Settings) -> Files {
        fs.set_access_times(settings.access_times, settings.directory_access_times);
        Files {
            fs,
            settings,
            handles: Handles::default(),
            transactions: Transactions::default(),
            waiters: Waiters::default(),
            writers: Writers::default(),
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

    /// Returns the device below.
    pub(crate) fn medium(&self) -> Option<&Medium> {
        self.settings.medium.as_ref()
    }

    /// Returns true if every read of a file must update its access time.
    pub(crate) fn notes_all_reads(&self) -> bool {
        self.settings.access_times == AccessTimes::Always
    }

    /// Makes changes of a file, or of the names in a directory, durable where the settings or its flags require it.
    pub(crate) async fn keep(&self, what: Did, node: u64, answer: Answer) -> Answer {
        let keeps = match what {
            Did::Write => self.settings.sync,
            Did::Change => self.settings.sync_names || self.keeps_names(node),
            _ => false,
        };
        let answer = answer?;
        if keeps {
            self.fs.sync().await?;
        }
        Ok(answer)
    }

    /// Makes changes of a file durable where the flags of the open file require it.
    pub(crate) async fn durably(&self, file: u64, handle: u64, answer: Answer) -> Answer {
        let answer = answer?;
        self.make_durable(file, sync_mode(handle)).await?;
        Ok(answer)
    }

    pub(crate) fn tell(&self, what: Did, bytes: usize, request: &Underway) {
        if let Some(observer) = &self.settings.observer {
            observer.did(what, bytes as u64, request.took());
        }
    }

    pub(crate) fn finish(&self, request: &Underway, answer: Answer) {
        match answer {
            Ok(payload) => request.reply(&payload),
            Err(error) => self.failed(request, &error),
        }
    }

    pub(crate) fn failed(&self, request: &Underway, error: &FsError) {
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
    async fn answer(&self, underway: &Underway, request: Request, body: &[u8]) -> Answered {
        let node = request.node;
        let done = match decode(request.opcode, body, underway.agreed()) {
            None => return Answered::Errno(libc::EINVAL),
            Some(Asked::Forget(all)) => {
                self.forget(node, &all).await;
                return Answered::Nothing;
            }
            Some(Asked::Lookup(name)) => self.look_up(node, name).await,
            Some(Asked::SetAttr(new)) if new.size.is_some() && self.keeps_for(&request) => {
                return Answered::Errno(libc::EBUSY);
            }
            Some(Asked::SetAttr(new)) => self.set(node, &new).await,
            Some(Asked::ReadLink) => self.fs.read_link(node).await.map(|to| to.to_vec()),
            Some(Asked::Symlink(name, target)) => self.symlink(&request, name, target).await,
            Some(Asked::Mknod(make) | Asked::Mkdir(make)) => self.make(&request, &make).await,
            Some(Asked::Create(make)) => self.create(&request, &make).await,
            Some(Asked::Tmpfile(make)) => self.nameless(&request, &make).await,
            Some(Asked::Unlink(name)) => self.fs.unlink(node, name).await.map(nothing),
            Some(Asked::Rmdir(name)) => self.fs.remove_directory(node, name).await.map(nothing),
            Some(Asked::Rename {
                name,
                to,
                new,
                flags,
            }) => self.rename(&request, name, (to, new), flags).await,
            Some(Asked::Link(file, name)) => match self.fs.link(file, node, name).await {
                // Linux's own error for a second name of a directory.
                Err(FsError::IsDirectory) => return Answered::Errno(libc::EPERM),
                done => self.entry(done).await,
            },
            Some(Asked::Open { flags, .. }) => self.open(node, flags),
            Some(Asked::Fsync(data_only) | Asked::FsyncDir(data_only)) => {
                self.fs.sync_file(node, data_only).await.map(nothing)
            }
            Some(Asked::Statx) => self.known_of(node).await,
            Some(Asked::SyncFs) => self.fs.sync().await.map(nothing),
            Some(
                asked @ (Asked::SetXattr { .. }
                | Asked::GetXattr(..)
                | Asked::ListXattr(_)
                | Asked::RemoveXattr(_)),
            ) => return self.answer_attribute(&request, asked).await,
            Some(Asked::ReadDirPlus { at, len }) => self.list(node, at, len, true).await,
            Some(Asked::Lseek { at, whence }) => {
                return self.seek(underway, &request, (at, whence)).await;
            }
            Some(Asked::Ioctl(asked)) => return self.ioctl(underway, &request, &asked).await,
            // After this error, the kernel copies by reading and writing.
            Some(Asked::CopyFileRange(copy))
                if self.keeps_for(&request)
                    || self.transactions.joined(copy.to_handle).is_some() =>
            {
                return Answered::Errno(libc::EOPNOTSUPP);
            }
            Some(Asked::CopyFileRange(copy)) => {
                let copied = self.copy(underway, &request, &copy).await;
                self.durably(copy.to, copy.to_handle, copied).await
            }
            Some(Asked::Other) => return self.answer_fixed(underway, &request).await,
        };
        Answered::Done(done)
    }

    /// Answers requests without a body, or with a body that is already decoded.
    async fn answer_fixed(&self, underway: &Underway, request: &Request) -> Answered {
        let node = request.node;
        Answered::Done(match request.op {
            Op::GetAttr => self.attributes_of(node).await,
            Op::ReadDir { at, len } => self.list(node, at, len, false).await,
            Op::OpenDir => {
                let flags = open_flag::KEEP_CACHE | open_flag::CACHE_DIR;
                let handle = self.handles.next(libc::O_RDONLY.cast_unsigned());
                Ok(format::open_out(handle, flags).to_vec())
            }
            Op::Release | Op::ReleaseDir => return self.release(underway, request).await,
            Op::Destroy => self.fs.sync().await.map(nothing),
            Op::StatFs => Ok(self.room()),
            Op::Fallocate { .. } if self.keeps_for(request) => return Answered::Errno(libc::EBUSY),
            Op::Fallocate { at, len, mode } => {
                match self.fallocate(underway, request, (at, len, mode)).await {
                    Some(done) => {
                        let done = done.map(nothing);
                        self.durably(node, request.handle, done).await
                    }
                    None => return Answered::Errno(libc::EOPNOTSUPP),
                }
            }
            // The kernel takes "not implemented" as "never ask again". That is intended for flush on close, for locks
            // and access checks, which the kernel handles itself, and for interrupts, whose request is answered anyway.
            _ => return Answered::Errno(libc::ENOSYS),
        })
    }

    /// Returns true if changes through the open file of the request are kept for a transaction.
    fn keeps_for(&self, request: &Request) -> bool {
        !self.transactions.is_idle() && self.transactions.joined(request.handle).is_some()
    }

    fn room(&self) -> Vec<u8> {
        let room = self.fs.room();
        let files_left = room.files.saturating_sub(room.used_files);
        let files_free = files_left.min(room.free / FILE_BYTES);
        let room = Room {
            units: room.bytes / UNIT,
            free: room.free / UNIT,
            files: room.used_files + files_free,
            files_free,
            unit: UNIT as u32,
        };
        format::statfs_out(room).to_vec()
    }
}

/// Returns the class of a request by its opcode.
fn kind_of(opcode: u32) -> Did {
    match opcode {
        // FSYNC FSYNCDIR SYNCFS DESTROY
        20 | 30 | 38 | 50 => Did::Sync,
        // IOCTL (those that change files), COPY_FILE_RANGE
        39 | 47 => Did::Write,
        // SETATTR, names (SYMLINK to LINK, CREATE, RENAME2, TMPFILE), extended attributes, FALLOCATE
        4 | 6 | 8..=13 | 21 | 24 | 35 | 43 | 45 | 51 => Did::Change,
        _ => Did::Look,
    }
}

/// Answer for the kernel.
pub(crate) enum Answered {
    Done(Answer),
    /// An answer without a change, for any class of request.
    Looked(Answer),
    Errno(i32),
    Nothing,
}

/// Returns true if a request only releases something, or needs no answer.
fn is_of_the_end(op: Op) -> bool {
    matches!(
        op,
        Op::Release | Op::ReleaseDir | Op::Forget | Op::Destroy | Op::StatFs
    )
}

pub(crate) fn nothing(_: ()) -> Vec<u8> {
    Vec::new()
}

impl Handler for Files {
    fn wishes(&self) -> Wishes {
        use init_flag as flag;
        let mapped = if self.settings.parallel_direct {
            0
        } else {
            flag::DIRECT_IO_ALLOW_MMAP
        };
        // Without ATOMIC_O_TRUNC, so that the kernel itself truncates files that are opened with O_TRUNC. With the
        // flag, the kernel would truncate before it checks for a running program, and would truncate that program, too
        // (found by pjdfstest's `etxtbsy`).
        Wishes {
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

    async fn take(self: &Rc<Self>, mut arrival: Arrival<'_>) {
        let request = arrival.request();
        let files = Rc::clone(self);
        if self.is_shut_down.get() && !is_of_the_end(request.op) {
            return arrival.refuse(libc::EIO);
        }
        match request.op {
            Op::Read { at, len } => {
                let len = (len as usize).min(IO_BYTES_MAX);
                let lease = arrival.lease(len).await;
                arrival.begin(|underway| async move {
                    let _lease = lease;
                    files.read(&underway, &request, at, len).await;
                });
            }
            Op::Write {
                at,
                len,
                kill,
                delayed,
            } => {
                let (data, lease) = arrival.data(len as usize).await;
                arrival.begin(|underway| async move {
                    if !delayed && files.keeps_for(&request) {
                        let kept = (data, lease);
                        return files.keep_write(&underway, &request, at, kept).await;
                    }
                    let data = (at, data, lease);
                    let how = (kill, delayed);
                    files.answer_write(&underway, &request, data, how).await;
                });
            }
            _ => {
                let body = arrival.body();
                arrival.begin(|underway| async move {
                    match files.answer(&underway, request, &body).await {
                        Answered::Done(answer) => {
                            let what = kind_of(request.opcode);
                            let answer = files.keep(what, request.node, answer).await;
                            files.finish(&underway, answer);
                            files.tell(what, 0, &underway);
                        }
                        Answered::Looked(answer) => {
                            files.finish(&underway, answer);
                            files.tell(Did::Look, 0, &underway);
                        }
                        Answered::Errno(errno) => underway.refuse(errno),
                        Answered::Nothing => {}
                    }
                });
            }
        }
    }
}
