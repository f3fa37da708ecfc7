//! Data of files.

use std::ops::Range;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_dfs::{Edits, Fallocate, FileFlags, FsError, RequestClass, Result};
use forebay_fuse::codec::{self as format, CopyRange, FuseOp, FuseRequest, open_flag};
use forebay_fuse::{ActiveRequest, StaleCache};
use forebay_rt::BudgetLease;

use crate::handler::{FileWrite, FuseReply, MountedFiles, ReplyBytes};
use crate::handles;
use crate::sync_mode::SyncMode;
use crate::writers::without;

// Modes of FALLOCATE (`linux/falloc.h`).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// Maximum number of direct writes that wait for the kernel without a time limit.
const DIRECT_WAITING_MAX: usize = 64;
/// Time limit for all other direct writes.
const MOMENT: Duration = Duration::from_millis(20);
/// Maximum number of bytes in one copy from file to file.
const COPIED_AT_ONCE: u64 = 4 << 20;
/// Approximate maximum number of data extents and holes in one copy. Each needs up to three writes and trims of a
/// batch, which may have 8,192. The kernel then reports a shorter copy, and programs continue where it ended.
const COPIED_PIECES_MAX: usize = 2048;

impl MountedFiles {
    pub(crate) fn open(&self, file: u64, flags: u32) -> ReplyBytes {
        self.may_open(file, flags)?;
        Ok(format::open_out(self.opened(file, flags), self.open_flags(flags)).to_vec())
    }

    /// Returns a handle for a file that is opened with these flags.
    pub(crate) fn opened(&self, file: u64, flags: u32) -> u64 {
        let handle = self.handles.next(flags);
        self.writers.opened(file, handle);
        handle
    }

    /// Returns the open flags for the kernel's answer. The page cache stays correct, but buffered reads from it are not
    /// visible here.
    ///
    /// Direct writes of one file run in parallel only where files that are open with `O_DIRECT` cannot be mapped
    /// shared. Linux (including 6.18) makes the first such mapping wait for parallel direct writes while it holds the
    /// lock of the process's memory. The direct writes need that lock for the memory that they write from. All
    /// processes that wanted the file's lock, and then its directory's lock, hung with that process. Asynchronous
    /// writes always run in parallel.
    pub(crate) fn open_flags(&self, flags: u32) -> u32 {
        let is_direct = flags & libc::O_DIRECT.cast_unsigned() != 0;
        match (is_direct, self.notes_all_reads()) {
            (true, _) if self.settings.parallel_direct => {
                open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES
            }
            (true, _) => open_flag::DIRECT_IO,
            (false, true) => 0,
            (false, false) => open_flag::KEEP_CACHE,
        }
    }

    /// Answers a write.
    pub(crate) async fn answer_write(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        write: FileWrite,
        lease: BudgetLease,
    ) {
        let (node, at, delayed) = (request.node, write.at, write.delayed);
        let bytes = write.data.len();
        let is_direct = is_direct(request) && !delayed;
        let mut waiter = None;
        if is_direct && self.cached.has(node) {
            // The write will wait for the kernel.
            waiter = self.waiters.enter(request.user);
            if waiter.is_none() {
                return underway.refuse(libc::ENOMEM);
            }
        }
        let written = self.written(underway, request, write).await;
        // Other requests need the buffer while this write waits.
        drop(lease);
        if is_direct {
            // Data may have been written even if making it durable failed.
            let place = *written.as_ref().unwrap_or(&at);
            let end = place.saturating_add(bytes as u64);
            let stale = self.cached.written(node, place..end);
            if let Some(bytes) = stale {
                // The first buffered read may have happened during the write.
                waiter = waiter.or_else(|| self.waiters.enter(request.user));
                let stale = [pages(node, bytes)];
                self.forget_written_directly(underway, &stale, waiter.is_some())
                    .await;
            }
        }
        // The page cache holds data that the file did not accept.
        let is_refused = delayed && matches!(written, Err(FsError::Protected));
        let is_elsewhere = written.as_ref().is_ok_and(|place| *place != at);
        let written = written.map(|_| format::write_out(bytes as u32).to_vec());
        let written = self.keep(RequestClass::Write, node, written).await;
        self.finish(underway, written);
        self.tell(RequestClass::Write, bytes, underway);
        if is_elsewhere || is_refused {
            // The page cache holds the data at the offset that the kernel assumed to be the end.
            underway.forget_later(&[pages(node, at..at.saturating_add(bytes as u64))]);
        }
    }

    /// Tells the kernel to forget pages after a direct write. The kernel sends at most 1024 asynchronous requests at a
    /// time. One of them may be the request that the locked page depends on, so only a few writes may wait for longer
    /// than [`MOMENT`].
    async fn forget_written_directly(
        &self,
        underway: &ActiveRequest,
        stale: &[StaleCache],
        may_wait: bool,
    ) {
        let waiting = self.direct_waiting.get();
        if !may_wait {
            return underway.forget_later(stale);
        }
        if waiting >= DIRECT_WAITING_MAX {
            underway.forget_within(stale, MOMENT).await;
            return;
        }
        self.direct_waiting.set(waiting + 1);
        underway.forget(stale).await;
        self.direct_waiting.set(self.direct_waiting.get() - 1);
    }

    /// Executes a write as the kernel requests it. Returns the offset of the data.
    pub(crate) async fn written(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        write: FileWrite,
    ) -> Result<u64> {
        let FileWrite { at, data, .. } = write;
        self.may_write(request, at).await?;
        if write.kill {
            self.take_privileges(underway, request, request.node)
                .await?;
        }
        if write.delayed {
            return self.write_delayed(request, at, data).await;
        }
        self.write(request.node, at, data, request.file_flags).await
    }

    /// Writes pages of a mapping that the kernel writes back. The handle and its flags belong to any process that has
    /// the file open. Bytes that a transaction holds were stored in the pages, too, and are left out because they are
    /// not committed. Bytes that an update in progress changes are also left out, because the pages may be older.
    async fn write_delayed(&self, request: &FuseRequest, at: u64, data: Buf) -> Result<u64> {
        let flags = request.file_flags & !libc::O_APPEND.cast_unsigned();
        let file = request.node;
        if self.fs.flags(file).has(FileFlags::PROTECT) {
            return Err(FsError::Protected);
        }
        let bytes = at..at.saturating_add(data.len() as u64);
        let mut not_of_it = self.updates.changed(file, &bytes);
        not_of_it.extend(self.transactions.kept(file, &bytes));
        if not_of_it.is_empty() {
            return self.write(file, at, data, flags).await;
        }
        let mut edits = Edits::new();
        for part in without(bytes, not_of_it) {
            let of_data = (part.start - at) as usize..(part.end - at) as usize;
            edits.write(part.start, data.slice(of_data));
        }
        self.fs.edit(&[(file, edits)].into()).await?;
        self.make_durable(file, SyncMode::of_flags(flags)).await?;
        Ok(at)
    }

    /// Writes all of `data` atomically. The offset is `at`; if `flags` have `O_APPEND` and the kernel's end of the file
    /// may be wrong, it is the real end of the file. The durability requested by `flags` (`O_DSYNC`, `O_SYNC`) holds
    /// when this returns. `flags` combine the flags of the open file and of the call. Returns the offset of the data.
    ///
    /// # Errors
    /// If the data cannot be written, or cannot be made durable. In the second case the data was written.
    pub async fn write(&self, file: u64, at: u64, data: Buf, flags: u32) -> Result<u64> {
        let at = if self.appends_anew(file, flags) {
            self.end_for(file).await?
        } else {
            Some(at)
        };
        let place = self.fs.write(file, at, data).await?;
        self.make_durable(file, SyncMode::of_flags(flags)).await?;
        Ok(place)
    }

    /// Returns true if appended data goes to the end of the file instead of the kernel's offset. The kernel's size of a
    /// file may be wrong after an atomic update only. Otherwise its offset is right, and it may send fragments of one
    /// direct write in parallel.
    pub(crate) fn appends_anew(&self, file: u64, flags: u32) -> bool {
        flags & libc::O_APPEND.cast_unsigned() != 0 && self.resized.borrow().contains(&file)
    }

    /// Records that an atomic update of a file has ended, so the file's size may differ from the kernel's.
    pub(crate) fn note_resized(&self, file: u64) {
        self.resized.borrow_mut().insert(file);
    }

    /// Returns the offset for appended data; `None` for the end of the file. While a transaction grows the file, the
    /// offset is the file's new end.
    async fn end_for(&self, file: u64) -> Result<Option<u64>> {
        let grown = if self.transactions.is_idle() {
            0
        } else {
            self.transactions.size(file)
        };
        let size = self.fs.inode(file).await?.size;
        Ok((grown > size).then_some(grown))
    }

    /// Makes changes of a file durable, as far as `mode` or a flag of the file requires it.
    pub(crate) async fn make_durable(&self, file: u64, mode: SyncMode) -> Result<()> {
        let mode = if self.fs.flags(file).has(FileFlags::SYNC) {
            SyncMode::File
        } else {
            mode
        };
        match mode {
            SyncMode::Nothing => Ok(()),
            SyncMode::Data => self.fs.sync_file(file, true).await,
            SyncMode::File => self.fs.sync_file(file, false).await,
        }
    }

    /// Finds the next data of a file, or the next hole, from byte `at` on. If programs may have changed the file
    /// through memory, the kernel writes back the pages of a hole before the hole is reported.
    pub(crate) async fn seek(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        at: u64,
        whence: u32,
    ) -> FuseReply {
        let is_hole = match whence.cast_signed() {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return FuseReply::Errno(libc::EINVAL),
        };
        let file = request.node;
        let found = if self.writers.has(file) {
            // The request will wait for the kernel.
            let Some(_waiter) = self.waiters.enter(request.user) else {
                return FuseReply::Errno(libc::ENOMEM);
            };
            if is_hole {
                self.seek_hole_written(underway, file, at).await
            } else {
                self.seek_data_written(underway, file, at).await
            }
        } else {
            self.fs.seek(file, at, is_hole).await
        };
        FuseReply::Done(found.map(|found| format::seek_out(found).to_vec()))
    }

    async fn seek_data_written(&self, underway: &ActiveRequest, file: u64, at: u64) -> Result<u64> {
        let hole = self.hole_from(file, at).await?;
        self.write_back(underway, &[pages(file, hole)]).await;
        self.fs.seek(file, at, false).await
    }

    /// Finds the next hole that is still a hole after the kernel has written back its pages.
    async fn seek_hole_written(&self, underway: &ActiveRequest, file: u64, at: u64) -> Result<u64> {
        let mut from = at;
        loop {
            let start = self.fs.seek(file, from, true).await?;
            let hole = self.hole_from(file, start).await?;
            if hole.is_empty() {
                return Ok(start);
            }
            let end = hole.end;
            self.write_back(underway, &[pages(file, hole)]).await;
            let found = self.fs.seek(file, start, true).await?;
            if found < end || end >= self.fs.inode(file).await?.size {
                return Ok(found);
            }
            // The whole range holds data now.
            from = end;
        }
    }

    /// Makes the kernel write back the changes that programs made through memory. It applies to those files of `stale`
    /// that are open for reading and writing. The kernel writes pages back when it is told to forget them.
    pub(crate) async fn write_back(&self, underway: &ActiveRequest, stale: &[StaleCache]) {
        let of = stale.iter().filter(|one| self.writers.has(one.node));
        let of: Vec<StaleCache> = of.cloned().collect();
        if !of.is_empty() {
            underway.forget(&of).await;
        }
    }

    /// Returns the bytes of a file from `at` to its next data, or to its end.
    async fn hole_from(&self, file: u64, at: u64) -> Result<Range<u64>> {
        let end = match self.fs.seek(file, at, false).await {
            Err(FsError::BeyondEnd) => self.fs.inode(file).await?.size,
            found => found?,
        };
        Ok(at..end)
    }

    /// Copies data from one file to another, atomically. It may copy less than requested. Returns the number of copied
    /// bytes.
    pub(crate) async fn copy(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        copy: &CopyRange,
    ) -> ReplyBytes {
        let from = request.node;
        let size = self.fs.inode(from).await?.size;
        let left = size.saturating_sub(copy.at);
        let len = left.min(copy.len).min(COPIED_AT_ONCE);
        let end = copy.at + len;
        let (mut edits, mut at) = (Edits::new(), copy.at);
        let there = |at: u64| copy.to_at + (at - copy.at);
        if len > 0 && copy.to_at.checked_add(len).is_none() {
            return Err(FsError::Invalid(
                "the end of the range exceeds the largest offset",
            ));
        }
        while at < end && edits.pieces() < COPIED_PIECES_MAX {
            let data = self.next_data(from, at, end).await?;
            edits.punch(there(at), data.start - at);
            if data.start < data.end {
                let wanted = (data.end - data.start) as usize;
                let read = self.fs.read(from, data.start, wanted).await?;
                if read.is_empty() {
                    break;
                }
                at = data.start + read.len() as u64;
                edits.write(there(data.start), read);
            } else {
                at = end;
            }
        }
        if at == end && len > 0 && edits.end() < there(end) {
            // A hole at the end extends the file like data does.
            let last = there(end) - 1;
            edits.write(last, BufMut::zeroed(1).freeze());
        }
        let copied = at.min(end) - copy.at;
        self.take_privileges_for(underway, request, copy.to).await?;
        self.fs.edit(&[(copy.to, edits)].into()).await?;
        Ok(format::write_out(copied as u32).to_vec())
    }

    /// Returns the next data of a file within a range; an empty range at the end if no data follows.
    async fn next_data(&self, file: u64, at: u64, end: u64) -> Result<Range<u64>> {
        let start = match self.fs.seek(file, at, false).await {
            Err(FsError::BeyondEnd) => end,
            start => start?.min(end),
        };
        if start == end {
            return Ok(end..end);
        }
        Ok(start..self.fs.seek(file, start, true).await?.min(end))
    }

    /// Executes a `fallocate`. `None` if the mode is unknown.
    pub(crate) async fn fallocate(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        at: u64,
        len: u64,
        mode: u32,
    ) -> Option<Result<()>> {
        let keep_size = mode & KEEP_SIZE != 0;
        let what = match mode & !KEEP_SIZE {
            0 => Fallocate::Reserve { keep_size },
            PUNCH_HOLE if keep_size => Fallocate::Punch,
            ZERO_RANGE => Fallocate::Zero { keep_size },
            _ => return None,
        };
        let file = request.node;
        if let Err(error) = self.take_privileges_for(underway, request, file).await {
            return Some(Err(error));
        }
        Some(self.fs.fallocate(file, at, len, what).await)
    }
}

/// Returns true if a read or a write bypasses the page cache and holds no page of it. The flags of a write are not
/// sufficient: a program can change them while the kernel writes a page, which it holds until the answer.
pub(crate) fn is_direct(request: &FuseRequest) -> bool {
    let has_flag = request.file_flags & libc::O_DIRECT.cast_unsigned() != 0;
    handles::is_direct(request.handle) && (has_flag || !matches!(request.op, FuseOp::Read { .. }))
}

/// Returns these bytes of a file as a range of the page cache.
pub(crate) fn pages(file: u64, bytes: Range<u64>) -> StaleCache {
    StaleCache {
        node: file,
        bytes: Some(bytes),
    }
}
