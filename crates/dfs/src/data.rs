//! Reading and writing of file data.
//!
//! A small amount of data lies in the i-node. Data that fits a slot lies in the slot, and larger data in a chunk. Data
//! that outgrows its location is copied to the next larger location.
//!
//! Invariants:
//! - The bytes between the end of a file and the end of its last sector are zeroes, and no later sector is mapped.
//! - The base and the size of a file do not change while a client holds bytes of the file. A change of the base holds
//!   all bytes; a change of the size holds the bytes from the lower of the two sizes on.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_rt::{LockGuard, RangeGuard};
use forebay_units::{SECTOR_BYTES, Sector, round_down, round_up};

use crate::accesses::AccessTimes;
use crate::change::FsChange;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::{FileFlags, FileKind, FileTime, INLINE_MAX, Inode};
use crate::fs::Fs;

/// The most bytes that can be written or read at once. A write up to this size is atomic.
pub const WRITE_MAX: usize = 16 << 20;

/// All bytes of a file, at any size.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

/// The location of the data of a file of a given size.
pub(crate) enum FileLocation {
    Inline,
    At(Sector),
}

/// A file with a held byte range: no other operation changes these bytes, nor the base and the size that they depend
/// on.
pub(crate) struct LockedRange {
    pub(crate) file: Rc<CachedFile>,
    pub(crate) inode: Inode,
    _range: RangeGuard,
}

impl LockedRange {
    /// Wraps a file and the guard of its held range.
    pub(crate) fn new(file: Rc<CachedFile>, range: RangeGuard) -> LockedRange {
        let inode = file.inode().clone();
        LockedRange {
            file,
            inode,
            _range: range,
        }
    }
}

impl Fs {
    /// Reads up to `len` bytes from `offset` on, fewer at the end of the file.
    ///
    /// # Errors
    ///
    /// If the file has no data or cannot be read.
    pub async fn read(&self, file: u64, offset: u64, len: usize) -> Result<Buf> {
        let read = self.read_into(file, offset, len, BufMut::zeroed).await?;
        self.note_read(file);
        Ok(read)
    }

    /// Like [`Fs::read`], but without recording the access ([`Fs::note_read`]), and into memory of the caller. `memory`
    /// returns a buffer of the requested length (up to one sector more at each end), with any content. It is called
    /// again if the file was moved meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Fs::read`].
    pub async fn read_into(
        &self,
        file: u64,
        offset: u64,
        len: usize,
        memory: impl Fn(usize) -> BufMut,
    ) -> Result<Buf> {
        let file = self.file(file).await?;
        self.look_into(&file, async |inode| {
            regular(&inode)?;
            let left = inode.size.saturating_sub(offset);
            let len = left.min(len.min(WRITE_MAX) as u64);
            let bytes = offset..offset.saturating_add(len);
            self.read_bytes_into(&inode, bytes, &memory).await
        })
        .await
    }

    /// Calls `look` with the i-node to look at data. The data may move or end elsewhere meanwhile; then `look` is
    /// called again.
    pub(crate) async fn look_into<T>(
        &self,
        file: &CachedFile,
        look: impl AsyncFn(Inode) -> Result<T>,
    ) -> Result<T> {
        loop {
            if file.is_moving() {
                drop(file.lock.lock().await);
            }
            let (moves, inode) = (file.moves(), file.inode().clone());
            let seen = look(inode).await;
            // Otherwise `look` may have seen the data's previous location, which is no longer mapped.
            if file.moves() == moves && !file.is_moving() {
                return seen;
            }
        }
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// If the file is not a symbolic link or cannot be read.
    pub async fn read_link(&self, file: u64) -> Result<Buf> {
        let file = self.file(file).await?;
        let inode = file.inode().clone();
        if inode.kind != FileKind::Symlink {
            return Err(FsError::Invalid("the file is not a symbolic link"));
        }
        self.note_access(&file, &inode);
        self.read_bytes(&inode, 0..inode.size).await
    }

    /// Reads bytes of a file. They must lie before its end.
    pub(crate) async fn read_bytes(&self, inode: &Inode, bytes: Range<u64>) -> Result<Buf> {
        self.read_bytes_into(inode, bytes, BufMut::to_fill).await
    }

    async fn read_bytes_into(
        &self,
        inode: &Inode,
        bytes: Range<u64>,
        memory: impl Fn(usize) -> BufMut,
    ) -> Result<Buf> {
        if bytes.start >= bytes.end {
            return Ok(BufMut::zeroed(0).freeze());
        }
        if inode.is_inline() {
            let bytes = bytes.start as usize..bytes.end as usize;
            let some = inode.inline.get(bytes).unwrap_or_default();
            return Ok(BufMut::copy_of(some).freeze());
        }
        let first = bytes.start / SECTOR_BYTES;
        let sectors = bytes.end.div_ceil(SECTOR_BYTES) - first;
        let buf = memory((sectors * SECTOR_BYTES) as usize);
        let read = self.space().read(Sector(inode.base + first), buf).await?;
        let skip = (bytes.start - first * SECTOR_BYTES) as usize;
        let len = (bytes.end - bytes.start) as usize;
        Ok(read.freeze().slice(skip..skip + len))
    }

    /// Sets the rules for recording accesses: for directories, and for all other files.
    pub fn set_access_times(&self, of_files: AccessTimes, of_directories: AccessTimes) {
        self.0.access_times.set((of_files, of_directories));
    }

    /// Records no accesses at all while `ignores` is true, whatever the rules.
    pub fn ignore_reads(&self, ignores: bool) {
        self.0.ignores_reads.set(ignores);
    }

    /// Records that a file in use was read now, if the rules require it.
    pub fn note_read(&self, file: u64) {
        let known = self.0.files.borrow().get(file);
        if let Some(file) = known {
            let inode = file.inode().clone();
            self.note_access(&file, &inode);
        }
    }

    fn note_access(&self, file: &CachedFile, inode: &Inode) {
        if self.0.ignores_reads.get() {
            return;
        }
        let now = self.time();
        let (of_files, of_directories) = self.0.access_times.get();
        let rule = match inode.kind {
            FileKind::Directory => of_directories,
            _ => of_files,
        };
        if rule.notes(inode, now) && !inode.flags.has(FileFlags::NO_ACCESS_TIME) {
            file.note_access(now);
        }
    }

    /// Holds the bytes of a file that `needed` returns for its i-node, also if the i-node changes meanwhile.
    pub(crate) async fn hold(
        &self,
        file: &Rc<CachedFile>,
        needed: impl Fn(&Inode) -> Range<u64>,
    ) -> LockedRange {
        let mut held = needed(&file.inode());
        loop {
            let range = file.ranges.lock(held.clone()).await;
            let inode = file.inode().clone();
            let now = needed(&inode);
            if held.start <= now.start && now.end <= held.end {
                return LockedRange {
                    file: Rc::clone(file),
                    inode,
                    _range: range,
                };
            }
            held = now;
        }
    }

    /// Returns the bytes to hold, in whole sectors, to change bytes of a file and possibly extend it to `end`.
    pub(crate) fn to_grow(&self, inode: &Inode, bytes: &Range<u64>, end: u64) -> Range<u64> {
        let sectors = round_down(bytes.start, SECTOR_BYTES)..round_up(bytes.end, SECTOR_BYTES);
        if inode.is_inline() {
            return ALL;
        }
        if end <= inode.size {
            return sectors;
        }
        let moves =
            inode.base != self.geometry().chunk(inode.file).0 && end > self.geometry().slot_bytes();
        if moves {
            ALL
        } else {
            sectors.start.min(inode.size)..ALL.end
        }
    }

    /// Writes `data` atomically at `offset`, or at the end of the file if `offset` is `None`. Returns the offset of the
    /// write.
    ///
    /// # Errors
    ///
    /// If the file would be too large or has no data, or if the space is full. Then nothing was written.
    pub async fn write(&self, file: u64, offset: Option<u64>, data: Buf) -> Result<u64> {
        let file = self.file(file).await?;
        if data.len() > WRITE_MAX {
            return Err(FsError::Invalid("a single write is limited to 16 MiB"));
        }
        regular(&file.inode())?;
        let len = data.len() as u64;
        let (held, offset) = if let Some(offset) = offset {
            let bytes = self.range(offset, len)?;
            let held = self.hold(&file, |inode| self.to_grow(inode, &bytes, bytes.end));
            (held.await, offset)
        } else {
            let held = self.hold(&file, |_| ALL).await;
            let size = held.inode.size;
            (held, size)
        };
        held.inode.may_grow()?;
        if data.is_empty() {
            return Ok(offset);
        }
        let bytes = self.range(offset, len)?;
        let mut change = self.change();
        let now = self.time();
        if bytes.end <= held.inode.size && !held.inode.is_inline() {
            self.put(&mut change, &held.inode, bytes.start, data)
                .await?;
            let writing = file.counted.write();
            let (_, more) = change.apply_counted().await?;
            held.file.note(|inode| modify(inode, now));
            writing.done(more);
            return Ok(offset);
        }
        let (mut new, _lock) = self.grow(&mut change, &held, bytes.end).await?;
        if new.is_inline() {
            new.inline[bytes.start as usize..bytes.end as usize].copy_from_slice(&data);
        } else {
            self.put_new(&mut change, &held.inode, &new, bytes.start, data)
                .await?;
        }
        change.only_writes = new.base == held.inode.base;
        let writing = change.only_writes.then(|| file.counted.write());
        change.inode(&held.file, |inode| {
            become_like(inode, new, now);
        });
        let (_, more) = change.apply_counted().await?;
        if let Some(writing) = writing {
            writing.done(more);
        }
        Ok(offset)
    }

    /// Returns the byte range of length `len` at an offset. Fails if it exceeds the largest file.
    pub(crate) fn range(&self, offset: u64, len: u64) -> Result<Range<u64>> {
        let most = self.geometry().size_max();
        let end = offset.checked_add(len).filter(|end| *end <= most);
        Ok(offset..end.ok_or(FsError::TooLarge(most))?)
    }

    /// Extends a file to at least `end`, and copies its data to another location if its size requires one. Returns the
    /// new i-node, which is locked but not yet part of the change.
    pub(crate) async fn grow(
        &self,
        change: &mut FsChange<'_>,
        held: &LockedRange,
        end: u64,
    ) -> Result<(Inode, LockGuard)> {
        let old = &held.inode;
        let mut new = old.clone();
        new.size = old.size.max(end);
        match self.home(old, new.size) {
            FileLocation::Inline => new.inline.resize(new.size as usize, 0),
            FileLocation::At(base) => {
                new.inline.clear();
                new.base = base.0;
                if new.base != old.base {
                    self.copy(change, old, base).await?;
                    change.trim_data(old, 0);
                }
            }
        }
        let lock = held.file.lock.lock().await;
        if end <= old.size {
            // An operation that does not hold the end of the file does not keep other operations from moving it.
            new.size = held.file.inode().size;
        }
        Ok((new, lock))
    }

    /// Returns the location of a file's data at a given size. Data never moves back to a smaller location.
    pub(crate) fn home(&self, inode: &Inode, size: u64) -> FileLocation {
        let geometry = self.geometry();
        let (slot, chunk) = (geometry.slot(inode.file), geometry.chunk(inode.file));
        match size {
            _ if inode.base == chunk.0 => FileLocation::At(chunk),
            _ if size > geometry.slot_bytes() => FileLocation::At(chunk),
            _ if inode.base == slot.0 || size > INLINE_MAX as u64 => FileLocation::At(slot),
            _ => FileLocation::Inline,
        }
    }

    /// Copies the mapped data to another location.
    pub(crate) async fn copy(
        &self,
        change: &mut FsChange<'_>,
        old: &Inode,
        to: Sector,
    ) -> Result<()> {
        if old.is_inline() {
            if old.size > 0 {
                let bytes = crate::names::sectors_of(&old.inline);
                change.write(to, bytes.freeze());
            }
            return Ok(());
        }
        let end = old.base + old.size.div_ceil(SECTOR_BYTES);
        let mut at = old.base;
        while let Some(run) = self.space().next_mapped(at..end).await? {
            let read = self
                .read_sectors(Sector(run.start), run.end - run.start)
                .await?;
            change.write(to.plus(run.start - old.base), read.freeze());
            at = run.end;
        }
        Ok(())
    }

    /// Writes bytes to a file that was grown for them, and whose data may just have been copied.
    async fn put_new(
        &self,
        change: &mut FsChange<'_>,
        old: &Inode,
        new: &Inode,
        start: u64,
        data: Buf,
    ) -> Result<()> {
        // The surrounding old bytes are still at the previous location.
        let end = start + data.len() as u64;
        let first = round_down(start, SECTOR_BYTES);
        let last = round_up(end, SECTOR_BYTES);
        if first == start && last == end {
            change.write(Sector(new.base + start / SECTOR_BYTES), data);
            return Ok(());
        }
        let mut buf = BufMut::zeroed((last - first) as usize);
        for part in [first..start, end..last.min(old.size.max(end))] {
            let part = part.start..part.end.min(old.size);
            if part.start < part.end {
                let at = (part.start - first) as usize;
                let bytes = self.read_bytes(old, part).await?;
                buf[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        buf[(start - first) as usize..(end - first) as usize].copy_from_slice(&data);
        change.write(Sector(new.base + first / SECTOR_BYTES), buf.freeze());
        Ok(())
    }

    /// Writes bytes to a file in place.
    pub(crate) async fn put(
        &self,
        change: &mut FsChange<'_>,
        inode: &Inode,
        start: u64,
        data: Buf,
    ) -> Result<()> {
        self.put_new(change, inode, inode, start, data).await
    }

    /// Makes all earlier changes of a file durable, including its times unless `data_only` is set.
    ///
    /// # Errors
    ///
    /// If the space has failed.
    pub async fn sync_file(&self, file: u64, data_only: bool) -> Result<()> {
        let file = self.file(file).await?;
        if !data_only {
            self.write_newer(&file).await?;
        }
        Ok(self.space().flush().await?)
    }

    /// Makes all earlier changes durable.
    ///
    /// # Errors
    ///
    /// If the space has failed.
    pub async fn sync(&self) -> Result<()> {
        let newer = self.0.files.borrow().newer();
        for file in newer {
            self.write_newer(&file).await?;
        }
        Ok(self.space().flush().await?)
    }

    /// Writes an i-node that is newer in memory than in the space.
    pub(crate) async fn write_newer(&self, file: &Rc<CachedFile>) -> Result<()> {
        if !file.is_newer() {
            return Ok(());
        }
        let _lock = file.lock.lock().await;
        if !file.is_newer() || file.is_going.get() {
            return Ok(());
        }
        let mut change = self.change();
        change.inode(file, |_| {});
        change.apply().await?;
        Ok(())
    }
}

/// Takes size, location and inline data from `new`, and updates the times.
pub(crate) fn become_like(inode: &mut Inode, new: Inode, now: FileTime) {
    (inode.size, inode.base, inode.inline) = (new.size, new.base, new.inline);
    modify(inode, now);
}

/// Updates the times of a file whose data was changed.
pub(crate) fn modify(inode: &mut Inode, now: FileTime) {
    inode.modified = now;
    inode.changed = now;
}

/// Fails if the file is not a regular file.
pub(crate) fn regular(inode: &Inode) -> Result<()> {
    match inode.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid("the file is not a regular file")),
    }
}
