//! Which request goes where.

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

/// How long the kernel may believe names and what is known of files, in seconds: nobody else changes them.
pub(crate) const VALID_S: u64 = 1 << 30;
/// How far the kernel may read ahead of who reads.
const READ_AHEAD: u32 = 2 << 20;
/// What `df` counts in, in bytes.
const UNIT: u64 = 4096;

/// The least space that a file takes, in bytes: its i-node and its name.
const FILE_BYTES: u64 = 1024;

/// What was asked of a filesystem, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// A read of a file.
    Read,
    /// A write to a file.
    Write,
    /// Something was to be durable.
    Sync,
    /// A name or attributes were made, changed or removed.
    Change,
    /// Anything else.
    Look,
}

/// Who is told what was done.
pub trait Observer {
    /// Something was done, of so many bytes.
    fn did(&self, what: Did, bytes: u64, took: Duration);

    /// Something failed, since the filesystem was full, or for what is not usual.
    fn failed(&self, is_full: bool);
}

/// How a filesystem is served.
#[derive(Clone, Default)]
pub struct Settings {
    /// All is durable when it is answered.
    pub sync: bool,
    /// Changes of names are.
    pub sync_names: bool,
    /// Direct writes of one file go in parallel. Then a file that is open with `O_DIRECT` cannot be mapped shared: see
    /// `Files::open_flags`.
    pub parallel_direct: bool,
    /// Which reads are noted, of all files but directories.
    pub access_times: AccessTimes,
    /// And of directories.
    pub directory_access_times: AccessTimes,
    /// Who is told what was done.
    pub observer: Option<Rc<dyn Observer>>,
    /// What it is on, as far as that is known: who asks where bytes lie is told.
    pub medium: Option<Medium>,
}

/// A filesystem behind a mount.
pub struct Files {
    pub(crate) fs: Fs,
    pub(crate) settings: Settings,
    pub(crate) handles: Handles,
    pub(crate) transactions: Transactions,
    pub(crate) waiters: Waiters,
    pub(crate) writers: Writers,
    pub(crate) updates: Rc<Updates>,
    pub(crate) cached: CachedFiles,
    /// Direct writes that wait for the kernel for as long as it takes.
    pub(crate) direct_waiting: Cell<usize>,
    /// Files whose size an atomic update may have changed, or its end, since the kernel came to know them.
    pub(crate) resized: RefCell<BTreeSet<u64>>,
    /// Until then the kernel is taken to keep pages locked while it writes them.
    pub(crate) pages_are_locked_until: Cell<Instant>,
    errors: Cell<u64>,
    /// Root had it shut down: nothing is done any more.
    pub(crate) is_shut_down: Cell<bool>,
}

/// What is answered.
pub(crate) type Answer = Result<Vec<u8>>;

impl Files {
    /// One that answers for this filesystem.
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

    /// The filesystem.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// What it is on.
    pub(crate) fn medium(&self) -> Option<&Medium> {
        self.settings.medium.as_ref()
    }

    /// Returns true if no read of a file may go unnoted.
    pub(crate) fn notes_all_reads(&self) -> bool {
        self.settings.access_times == AccessTimes::Always
    }

    /// Makes durable what was done to a file, or to the names in a directory, where that is asked for.
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

    /// Makes durable what was done to a file, where the open file that asked for it wants that.
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
            // A dead device fails every request: say so ever more rarely.
            if count.is_power_of_two() {
                tracing::warn!(%error, count, "a request to the filesystem failed");
            }
        }
        request.refuse(errno(error));
    }

    /// Answers all but reads and writes.
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
                // Linux's own answer to a second name of a directory.
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
            // The kernel copies by reading and writing then.
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

    /// Answers what has no body to be looked at, or one that was already.
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
            // The kernel takes "not implemented" as "never ask again", which is meant: for flush on close, locks, access,
            // which it sees to itself, interrupts (whose request is answered anyway).
            _ => return Answered::Errno(libc::ENOSYS),
        })
    }

    /// Whether what is done by the open file that is asked about is kept for a transaction.
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

/// What a request is, by its number.
fn kind_of(opcode: u32) -> Did {
    match opcode {
        // FSYNC FSYNCDIR SYNCFS DESTROY
        20 | 30 | 38 | 50 => Did::Sync,
        // IOCTL (what changes files by one), COPY_FILE_RANGE
        39 | 47 => Did::Write,
        // SETATTR, names (SYMLINK to LINK, CREATE, RENAME2, TMPFILE), extended attributes, FALLOCATE
        4 | 6 | 8..=13 | 21 | 24 | 35 | 43 | 45 | 51 => Did::Change,
        _ => Did::Look,
    }
}

/// What is to be said to the kernel.
pub(crate) enum Answered {
    Done(Answer),
    /// Nothing was done, whatever kind of request it was.
    Looked(Answer),
    Errno(i32),
    Nothing,
}

/// Whether a request only lets go of something, or wants no answer.
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
        let mapped = match self.settings.parallel_direct {
            true => 0,
            false => flag::DIRECT_IO_ALLOW_MMAP,
        };
        // Without ATOMIC_O_TRUNC, so that the kernel itself cuts off what is opened with O_TRUNC: with it, it would do so before it
        // looks whether the file is a program that runs, and that would be cut off too (found by pjdfstest's `etxtbsy`).
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
