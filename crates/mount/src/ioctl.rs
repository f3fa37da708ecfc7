//! Atomic updates: ioctls beside the system's own file operations.
//!
//! A transaction is kept in memory and committed as one batch. While it is open, data written through the page cache is
//! evicted from there before the write is acknowledged. So if the writer is killed, no process reads data that was
//! never committed. After any process has read data of an open transaction, the pages are evicted, too.

use std::ops::Range;
use std::time::Duration;

use forebay_atomic::ioctls::{
    self as atomic, AtomicCommand, AtomicLimits, DFS_ATOMIC_WRITE_SET, F2FS_ABORT_ATOMIC_WRITE,
    F2FS_COMMIT_ATOMIC_WRITE, F2FS_FEATURE_ATOMIC_WRITE, F2FS_GET_FEATURES,
    F2FS_START_ATOMIC_WRITE, FileChange,
};
use forebay_device::{Buf, BufMut};
use forebay_dfs::{Edits, FileFlags, FileKind, FsError, RequestClass, Result};
use forebay_frontend::freeze::WriteClass;
use forebay_fuse::codec::{FuseIoctl, FuseRequest, ioctl_out, write_out};
use forebay_fuse::{ActiveRequest, IO_BYTES_MAX, StaleCache};
use forebay_rt::BudgetLease;
use forebay_vsl::{BATCH_BYTES_MAX, BATCH_PIECES_MAX};

use crate::attributes::attributes_of;
use crate::data::{is_direct, pages};
use crate::error::{IoctlError, IoctlResult};
use crate::flags::is_about_flags;
use crate::handler::{FuseReply, MountedFiles, nothing};
use crate::handles::{is_both, is_writable};
use crate::sync_mode::SyncMode;
use crate::transactions::{OpenHandle, RefusalErrno};
use crate::trim::FITRIM;

/// `_IOR('X', 125, __u32)`: of ext4, XFS and others.
const FS_IOC_SHUTDOWN: u32 = 0x8004_587d;
/// Pages of the page cache, in bytes.
const PAGE: u64 = 4096;
/// Longest time that a write waits until its data has left the page cache. Usually that takes microseconds. But a
/// kernel that keeps pages locked while it writes them waits for the answer to the write, and a kernel that waits for
/// other pages may take long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time after a timeout during which no write waits.
const LOCKED_FOR: Duration = Duration::from_secs(60);

impl MountedFiles {
    pub(crate) async fn ioctl(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        asked: &FuseIoctl,
    ) -> FuseReply {
        if let Some(told) = self.told_places(request.node, asked).await {
            return told;
        }
        let _passed = self.pass(WriteClass::Client).await;
        // The request may wait for the kernel.
        let Some(_waiter) = self.waiters.enter(request.user) else {
            return FuseReply::Errno(libc::ENOMEM);
        };
        let done = match self.fs.inode(request.node).await {
            Ok(inode) if is_about_flags(asked.command) => {
                self.on_flags(underway, request, asked, &inode).await
            }
            Ok(_) if asked.command == FITRIM => self.trim(request, &asked.data).await,
            Ok(inode) => self.asked(underway, request, asked, inode.kind).await,
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(data) => {
                let done = Ok(ioctl_out(0, &data));
                FuseReply::Done(self.durably(request.node, request.handle, done).await)
            }
            Err(IoctlError::Errno(errno)) => FuseReply::Errno(errno),
            Err(IoctlError::Fs(error)) => FuseReply::Done(Err(error)),
        }
    }

    async fn asked(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        asked: &FuseIoctl,
        kind: FileKind,
    ) -> IoctlResult {
        let own = AtomicCommand::of(asked.command);
        if asked.command == FS_IOC_SHUTDOWN {
            return self.shut_down(request).await;
        }
        match (kind, own) {
            (FileKind::Regular, _) => {}
            (
                FileKind::Directory,
                Some(
                    AtomicCommand::Features
                    | AtomicCommand::Begin
                    | AtomicCommand::Commit
                    | AtomicCommand::Abort,
                ),
            ) => {}
            _ => return Err(libc::ENOTTY.into()),
        }
        let handle = request.handle;
        match asked.command {
            // Each write is one batch anyway, up to the size of the kernel's largest write.
            DFS_ATOMIC_WRITE_SET => return Ok(Vec::new()),
            F2FS_GET_FEATURES => return Ok(F2FS_FEATURE_ATOMIC_WRITE.to_ne_bytes().to_vec()),
            F2FS_START_ATOMIC_WRITE => {
                must_be_writable(handle)?;
                let id = self.transactions.begin(opened(request), request.user)?;
                if let Err(error) = self.join(id, request).await {
                    self.abort(underway, id).await;
                    return Err(error);
                }
                return Ok(Vec::new());
            }
            F2FS_COMMIT_ATOMIC_WRITE => return self.commit(underway, request).await,
            F2FS_ABORT_ATOMIC_WRITE => return self.abort_own(underway, handle).await,
            _ => {}
        }
        match own {
            None => Err(libc::ENOTTY.into()),
            Some(AtomicCommand::Features) => {
                let features = AtomicLimits {
                    version: 1,
                    pieces_max: BATCH_PIECES_MAX as u32,
                    bytes_max: BATCH_BYTES_MAX,
                };
                Ok(features.encode().to_vec())
            }
            Some(AtomicCommand::Begin) => {
                let id = self.transactions.begin(opened(request), request.user)?;
                Ok(id.to_ne_bytes().to_vec())
            }
            Some(AtomicCommand::Join) => self.join(id_in(&asked.data)?, request).await,
            Some(AtomicCommand::Change) => self.change(underway, request, &asked.data).await,
            Some(AtomicCommand::Commit) => self.commit(underway, request).await,
            Some(AtomicCommand::Abort) => self.abort_own(underway, handle).await,
            Some(AtomicCommand::Exchange) => {
                self.exchange(underway, request, id_in(&asked.data)?).await
            }
        }
    }

    /// Makes everything durable, and then fails all requests until the filesystem is unmounted and mounted again. This
    /// serves `xfs_io -c shutdown` and similar programs. (The kernel does not pass on the flag to drop data, so data is
    /// kept.)
    async fn shut_down(&self, request: &FuseRequest) -> IoctlResult {
        if request.user != 0 {
            return Err(libc::EPERM.into());
        }
        self.fs.sync().await?;
        self.is_shut_down.set(true);
        tracing::warn!("the filesystem was shut down by an ioctl: mount it again to use it");
        Ok(Vec::new())
    }

    /// Adds an open file to a transaction.
    async fn join(&self, id: u64, request: &FuseRequest) -> IoctlResult {
        must_be_writable(request.handle)?;
        self.admit(id, request).await?;
        self.transactions.join(id, request.handle)?;
        Ok(Vec::new())
    }

    /// Adds a file to a transaction. The file stays in use until the transaction ends.
    async fn admit(&self, id: u64, request: &FuseRequest) -> std::result::Result<(), IoctlError> {
        let file = request.node;
        self.fs.inode(file).await?.may_change()?;
        if self.transactions.may_join(id, request.user, file)? {
            return Ok(());
        }
        self.fs.look_at(file).await?;
        if !self.transactions.add(id, file) {
            self.fs.forget(file, 1).await?;
        }
        Ok(())
    }

    /// Changes parts of a file, immediately or with a transaction.
    async fn change(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        data: &[u8],
    ) -> IoctlResult {
        must_be_writable(request.handle)?;
        let (id, parts) = atomic::decode_parts(data).ok_or(libc::EINVAL)?;
        let file = request.node;
        let mut edits = Edits::new();
        for part in parts {
            match part {
                FileChange::Write(at, data) => edits.write(at, BufMut::copy_of(data).freeze()),
                FileChange::Punch(range) => edits.punch(range.start, range.end - range.start),
            }
        }
        if id != 0 {
            self.admit(id, request).await?;
            self.transactions.keep(id, file, &edits, false)?;
            return Ok(Vec::new());
        }
        if self.transactions.joined(request.handle).is_some() {
            return Err(libc::EBUSY.into());
        }
        self.take_privileges_for(underway, request, file).await?;
        let stale = crate::transactions::stale(file, &edits);
        // Otherwise the kernel would later write a whole mapped page over the change.
        self.write_back(underway, &stale).await;
        let exactly = crate::transactions::ranges(&edits);
        let update = self.updates.begin([(file, exactly)].into());
        // Writes back stores that were made since.
        self.write_back(underway, &stale).await;
        self.note_resized(file);
        self.fs.edit(&[(file, edits)].into()).await?;
        underway.forget_keeping(&stale, update).await;
        Ok(Vec::new())
    }

    /// Exchanges the data of a file and of the file whose open file began a transaction.
    async fn exchange(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        id: u64,
    ) -> IoctlResult {
        let other = self.transactions.begun_by(id, request.user)?;
        if !is_both(request.handle) || !is_both(other.handle) {
            return Err(libc::EBADF.into());
        }
        self.transactions.close(id)?;
        let stale = [request.node, other.file].map(|file| pages(file, 0..i64::MAX as u64));
        // Data that a program has stored in the memory of a file belongs to that file.
        self.write_back(underway, &stale).await;
        let all = |file| (file, std::iter::once(0..u64::MAX).collect());
        let update = self
            .updates
            .begin([all(request.node), all(other.file)].into());
        let mut done = Ok(());
        for file in [request.node, other.file] {
            self.note_resized(file);
            done = done.and(self.take_privileges_for(underway, request, file).await);
        }
        if done.is_ok() {
            done = self.fs.exchange_data(request.node, other.file).await;
        }
        if done.is_ok() {
            underway.forget_keeping(&stale, update).await;
        }
        self.finish_transaction(underway, id, false).await;
        done?;
        Ok(Vec::new())
    }

    async fn commit(&self, underway: &ActiveRequest, request: &FuseRequest) -> IoctlResult {
        let id = self
            .transactions
            .begun(request.handle)
            .ok_or(libc::EINVAL)?;
        let all = match self.transactions.close(id) {
            Err(errno) => {
                if errno != libc::EBUSY {
                    self.abort(underway, id).await;
                }
                return Err(errno.into());
            }
            Ok(all) => all,
        };
        let kept = all.iter().filter(|(_, edits)| !edits.is_empty());
        let stale: Vec<StaleCache> = kept
            .flat_map(|(file, edits)| crate::transactions::stale(*file, edits))
            .collect();
        self.write_back(underway, &stale).await;
        let mut done = Ok(());
        for file in all.keys() {
            self.note_resized(*file);
            done = done.and(self.take_privileges_for(underway, request, *file).await);
        }
        if done.is_ok() {
            done = self.fs.edit(&all).await;
        }
        for file in all.keys() {
            done = done.and(self.make_durable(*file, SyncMode::Nothing).await);
        }
        self.finish_transaction(underway, id, done.is_ok()).await;
        done?;
        Ok(Vec::new())
    }

    async fn abort_own(&self, underway: &ActiveRequest, owner: u64) -> IoctlResult {
        let id = self.transactions.begun(owner).ok_or(libc::EINVAL)?;
        self.abort(underway, id).await;
        Ok(Vec::new())
    }

    async fn abort(&self, underway: &ActiveRequest, id: u64) {
        self.finish_transaction(underway, id, false).await;
    }

    async fn finish_transaction(&self, underway: &ActiveRequest, id: u64, done: bool) {
        // Until the kernel has forgotten the pages, written-back pages skip the bytes of this transaction.
        let update = self.updates.begin(self.transactions.ranges(id));
        let Some(ended) = self.transactions.end(id) else {
            return;
        };
        let mut stale = if done { ended.stale } else { ended.undone };
        ended.files.iter().for_each(|file| self.note_resized(*file));
        // Times and sizes of all files have changed.
        stale.extend(ended.files.iter().map(|file| attributes_of(*file)));
        if !stale.is_empty() {
            underway.forget_keeping(&stale, update).await;
        }
        let all: Vec<(u64, u64)> = ended.files.into_iter().map(|file| (file, 1)).collect();
        self.forget(&all).await;
    }

    /// Closes an open file, and aborts the transaction that it began.
    pub(crate) async fn release(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
    ) -> FuseReply {
        self.writers.closed(request.node, request.handle);
        if !self.transactions.is_idle() {
            self.transactions.leave(request.handle);
            if let Some(id) = self.transactions.begun(request.handle) {
                self.abort(underway, id).await;
            }
        }
        FuseReply::Done(Ok(nothing(())))
    }

    /// Reads for an open file, including the data of the transaction that it takes part in.
    pub(crate) async fn read(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        at: u64,
        len: usize,
    ) {
        if !is_direct(request) {
            // Recorded before the read, so that a direct write during the read makes the kernel forget the data.
            self.cached.note_read(request.node);
        }
        match self.read_with_kept(underway, request, at, len).await {
            Err(error) => return self.failed(underway, &error),
            Ok(read) => {
                if request.file_flags & libc::O_NOATIME.cast_unsigned() == 0 {
                    self.fs.note_read(request.node);
                }
                underway.reply(&read);
                self.tell(RequestClass::Read, read.len(), underway);
            }
        }
        let bytes = at..at.saturating_add(len as u64);
        // The page cache now holds uncommitted data of this transaction, or lacks uncommitted data that its writer must
        // read.
        if !is_direct(request) && self.transactions.touch(request.node, &bytes) {
            let told = [StaleCache {
                node: request.node,
                bytes: Some(bytes),
            }];
            underway.forget_later(&told);
        }
    }

    async fn read_with_kept(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        at: u64,
        len: usize,
    ) -> Result<Buf> {
        let (handle, file) = (request.handle, request.node);
        // Needs more than the leased buffer only if a read begins or ends inside a sector.
        let memory = |len: usize| {
            if len <= IO_BYTES_MAX {
                underway.buffer(len)
            } else {
                BufMut::zeroed(len)
            }
        };
        if self.transactions.is_idle() {
            return self.fs.read_into(file, at, len, memory).await;
        }
        // Recorded before the read, so that a change during the read makes the kernel forget the data.
        self.transactions.note_cached(file);
        let read = self.fs.read_into(file, at, len, memory).await?;
        Ok(self.transactions.read(handle, file, at, len, read))
    }

    /// Keeps a write of an open file that takes part in a transaction, and answers it.
    pub(crate) async fn keep_write(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        at: u64,
        data: Buf,
        lease: BudgetLease,
    ) {
        let Some(id) = self.transactions.joined(request.handle) else {
            return underway.refuse(libc::EIO);
        };
        // The request may wait for the kernel.
        let Some(_waiter) = self.waiters.enter(request.user) else {
            return underway.refuse(libc::ENOMEM);
        };
        let (file, len) = (request.node, data.len() as u64);
        if self.fs.flags(file).has(FileFlags::PROTECT) {
            return self.failed(underway, &FsError::Protected);
        }
        let place = match self.place_of_kept(request, at).await {
            Ok(place) => place,
            Err(error) => return self.failed(underway, &error),
        };
        if place.saturating_add(len) > self.fs.superblock().geometry.size_max() {
            return underway.refuse(libc::EFBIG);
        }
        let bytes = at..at.saturating_add(len);
        let is_direct = is_direct(request);
        let whole = bytes.start.next_multiple_of(PAGE)..bytes.end / PAGE * PAGE;
        let is_whole = !is_direct && whole == bytes && place == at;
        let mut edits = Edits::new();
        // The data is copied out of the request buffers, which other requests need while this write waits.
        edits.write(place, BufMut::copy_of(&data).freeze());
        drop((data, lease));
        if let Err(errno) = self.transactions.keep(id, file, &edits, is_whole) {
            return underway.refuse(errno);
        }
        let mut is_left = !is_whole;
        if !is_direct && whole.start < whole.end {
            is_left |= !self.forget_written(underway, file, whole).await;
        }
        if is_left {
            self.transactions.note_cached(file);
        }
        underway.reply(&write_out(len as u32));
        self.tell(RequestClass::Write, len as usize, underway);
        if !is_direct && is_left {
            underway.forget_later(&[pages(file, bytes)]);
        }
    }

    /// Returns the offset of a kept write: the kernel's offset, or the end of the file.
    async fn place_of_kept(&self, request: &FuseRequest, at: u64) -> Result<u64> {
        if !self.appends_anew(request.node, request.file_flags) {
            return Ok(at);
        }
        let size = self.fs.inode(request.node).await?.size;
        Ok(size.max(self.transactions.size(request.node)))
    }

    /// Makes the kernel forget pages that are being written, before the write is answered. Returns false if the kernel
    /// will forget them only later. A kernel that keeps the pages locked is not waited for again for [`LOCKED_FOR`].
    async fn forget_written(&self, underway: &ActiveRequest, file: u64, whole: Range<u64>) -> bool {
        if underway.now() < self.pages_are_locked_until.get() {
            return false;
        }
        let is_told = underway
            .forget_within(&[pages(file, whole)], PATIENCE)
            .await;
        if !is_told {
            let until = underway.now().plus(LOCKED_FOR);
            self.pages_are_locked_until.set(until);
            tracing::warn!(
                seconds = LOCKED_FOR.as_secs(),
                "the kernel keeps cached pages of a transaction; for this time other programs may read uncommitted data"
            );
        }
        is_told
    }
}

/// Returns the open file of a request.
fn opened(request: &FuseRequest) -> OpenHandle {
    OpenHandle {
        handle: request.handle,
        file: request.node,
    }
}

fn id_in(data: &[u8]) -> std::result::Result<u64, RefusalErrno> {
    let id = data.try_into().map_err(|_| libc::EINVAL)?;
    Ok(u64::from_ne_bytes(id))
}

fn must_be_writable(handle: u64) -> std::result::Result<(), RefusalErrno> {
    if is_writable(handle) {
        Ok(())
    } else {
        Err(libc::EBADF)
    }
}
