//! Size, holes and space of a file.

use std::ops::Range;

use forebay_units::{SECTOR_BYTES, Sector, round_down, round_up};

use crate::attributes::{NewAttributes, WithAttributes};
use crate::change::FsChange;
use crate::data::{ALL, become_like, regular};
use crate::error::{FsError, Result};
use crate::format::{FileKind, Inode};
use crate::fs::Fs;

/// An operation on a range of a file (`fallocate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallocate {
    /// Preallocates space for the range, in blocks of at least 4 KiB: later writes there do not fail for lack of space.
    /// The file is extended to the end of the range unless `keep_size` is set.
    Reserve {
        /// Keeps the size of the file.
        keep_size: bool,
    },
    /// Makes the range a hole: it reads as zeroes and occupies no space. Preallocated space in it is released. The size
    /// is kept.
    Punch,
    /// Zeroes the range and preallocates space for it. The file is extended to the end of the range unless `keep_size`
    /// is set.
    Zero {
        /// Keeps the size of the file.
        keep_size: bool,
    },
}

impl Fallocate {
    pub(crate) fn may_be_done(self, inode: &Inode) -> Result<()> {
        match self {
            Fallocate::Reserve { .. } => inode.may_grow(),
            Fallocate::Punch | Fallocate::Zero { .. } => inode.may_change(),
        }
    }
}

impl Fs {
    /// Changes attributes of a file atomically.
    ///
    /// # Errors
    ///
    /// If a size is set and the file has no data or would be too large, or if the space is full.
    pub async fn set(&self, file: u64, new: &NewAttributes) -> Result<Inode> {
        let decided = *new;
        let decide = |inode: &Inode, _: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            decided.may_be_given(inode, false).map(|()| decided)
        };
        self.alter(file, new.size, None, decide).await
    }

    /// Changes attributes of a file atomically, as `decide` returns. `decide` gets the present i-node and, if
    /// `attributes` is `Some`, the extended attributes, whose names and values it may change. With a `size`, the file
    /// is also resized.
    ///
    /// # Errors
    ///
    /// As [`Fs::set`]; if the extended attributes are too large; or any error of `decide`.
    pub async fn alter(
        &self,
        file: u64,
        size: Option<u64>,
        attributes: Option<WithAttributes>,
        decide: impl FnOnce(&Inode, &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<NewAttributes>,
    ) -> Result<Inode> {
        let file = match size {
            Some(size) => {
                self.range(0, size)?;
                let file = self.file(file).await?;
                regular(&file.inode())?;
                file
            }
            None => self.file(file).await?,
        };
        let mut change = self.change();
        let (_held, sized, _lock) = match size {
            None => (None, None, file.lock.lock().await),
            Some(size) => {
                let held = self.hold(&file, |inode| self.to_resize(inode, size)).await;
                let mut sized = held.inode.clone();
                let lock = if size <= sized.size {
                    self.shrink(&mut change, &mut sized, size).await?;
                    file.lock.lock().await
                } else {
                    let (grown, lock) = self.grow(&mut change, &held, size).await?;
                    sized = grown;
                    lock
                };
                (Some(held), Some(sized), lock)
            }
        };
        let mut inode = file.inode().clone();
        let before = match attributes {
            Some(WithAttributes) => self.stored_attributes(&file).await?,
            None => Vec::new(),
        };
        let mut all = before.clone();
        let new = decide(&inode, &mut all)?;
        if all != before {
            self.put_attributes(&mut change, &mut inode, &all)?;
        }
        let (now, len) = (self.time(), inode.attributes);
        change.inode(&file, |inode| {
            if let Some(sized) = sized {
                become_like(inode, sized, now);
            }
            inode.attributes = len;
            new.apply_to(inode, now);
        });
        change.apply().await?;
        let inode = file.inode().clone();
        Ok(inode)
    }

    /// Returns the bytes to hold while a file is resized.
    fn to_resize(&self, inode: &Inode, size: u64) -> Range<u64> {
        let tail = size.min(inode.size)..size;
        match size {
            0 => ALL,
            _ if size > inode.size => self.to_grow(inode, &tail, size),
            _ if inode.is_inline() => ALL,
            _ => round_down(size, SECTOR_BYTES)..ALL.end,
        }
    }

    /// Truncates a file.
    async fn shrink(&self, change: &mut FsChange<'_>, inode: &mut Inode, size: u64) -> Result<()> {
        if inode.is_inline() {
            inode.inline.truncate(size as usize);
        } else if size == 0 {
            change.trim_data(inode, 0);
            inode.base = 0;
        } else if size < inode.size {
            let end = round_up(size, SECTOR_BYTES).min(inode.size);
            self.zero_part(change, inode, inode.base, size..end).await?;
            change.trim_data(inode, size.div_ceil(SECTOR_BYTES));
        }
        change.release(inode.file, size.div_ceil(SECTOR_BYTES)..u64::MAX);
        inode.size = size;
        Ok(())
    }

    /// Writes zeroes to a part of a sector, if the sector is mapped. `base` is the location of the file's data after
    /// the change.
    async fn zero_part(
        &self,
        change: &mut FsChange<'_>,
        inode: &Inode,
        base: u64,
        bytes: Range<u64>,
    ) -> Result<()> {
        let sector = bytes.start / SECTOR_BYTES;
        let at = inode.base + sector;
        if bytes.start >= bytes.end || self.space().next_mapped(at..at + 1).await?.is_none() {
            return Ok(());
        }
        let mut read = self.read_sectors(Sector(at), 1).await?;
        let skip = (bytes.start % SECTOR_BYTES) as usize;
        read[skip..skip + (bytes.end - bytes.start) as usize].fill(0);
        change.write(Sector(base + sector), read.freeze());
        Ok(())
    }

    /// Applies `what` to a range of a file atomically.
    ///
    /// # Errors
    ///
    /// If the file has no data or would be too large, or if the space is full.
    pub async fn fallocate(&self, file: u64, offset: u64, len: u64, what: Fallocate) -> Result<()> {
        if len == 0 {
            return Err(FsError::Invalid("the range is empty"));
        }
        let bytes = self.range(offset, len)?;
        let file = self.file(file).await?;
        regular(&file.inode())?;
        let keep_size = match what {
            Fallocate::Punch => true,
            Fallocate::Reserve { keep_size } | Fallocate::Zero { keep_size } => keep_size,
        };
        let end = if keep_size { 0 } else { bytes.end };
        let mut held = self
            .hold(&file, |inode| self.to_grow(inode, &bytes, end))
            .await;
        what.may_be_done(&held.inode)?;
        let size = held.inode.size;
        let zeroed = match what {
            Fallocate::Reserve { .. } => 0..0,
            // If the range reaches the end of the file, the last sector is unmapped too, also if the file ends within
            // it.
            _ if bytes.end >= round_up(size, SECTOR_BYTES) && !held.inode.is_inline() => {
                bytes.start..round_up(size, SECTOR_BYTES)
            }
            _ => bytes.start..bytes.end.min(size),
        };
        let mut change = self.change();
        if held.inode.is_inline() && zeroed.start < zeroed.end {
            held.inode.inline[zeroed.start as usize..zeroed.end as usize].fill(0);
        }
        let (new, _lock) = self.grow(&mut change, &held, end).await?;
        if !held.inode.is_inline() && zeroed.start < zeroed.end {
            self.zero(&mut change, &held.inode, new.base, zeroed)
                .await?;
        }
        match what {
            Fallocate::Punch => {
                let whole =
                    round_up(bytes.start, SECTOR_BYTES)..round_down(bytes.end, SECTOR_BYTES);
                change.release(file.number(), sectors_of(&whole));
            }
            Fallocate::Reserve { .. } | Fallocate::Zero { .. } => {
                change.preallocate(file.number(), sectors_of(&bytes));
            }
        }
        let now = self.time();
        change.inode(&file, |inode| {
            become_like(inode, new, now);
        });
        change.apply().await?;
        Ok(())
    }

    /// Makes bytes of a file read as zeroes; `base` is the location of its data after the change. Fully covered sectors
    /// are unmapped.
    async fn zero(
        &self,
        change: &mut FsChange<'_>,
        inode: &Inode,
        base: u64,
        bytes: Range<u64>,
    ) -> Result<()> {
        let first = round_up(bytes.start, SECTOR_BYTES);
        let last = round_down(bytes.end, SECTOR_BYTES);
        if first > last {
            // The range lies within one sector.
            return self.zero_part(change, inode, base, bytes).await;
        }
        self.zero_part(change, inode, base, bytes.start..first)
            .await?;
        if first < last {
            change.trim(
                Sector(base + first / SECTOR_BYTES),
                (last - first) / SECTOR_BYTES,
            );
        }
        self.zero_part(change, inode, base, last..bytes.end).await
    }

    /// Returns the offset of the next data or the next hole, from an offset on. The end of the file counts as a hole.
    ///
    /// # Errors
    ///
    /// If the offset is behind the end, if no more data follows, or if the file cannot be read.
    pub async fn seek(&self, file: u64, offset: u64, hole: bool) -> Result<u64> {
        let file = self.file(file).await?;
        let found = self.look_into(&file, async |inode| {
            self.seek_in(&inode, offset, hole).await
        });
        found.await
    }

    async fn seek_in(&self, inode: &Inode, offset: u64, hole: bool) -> Result<u64> {
        regular(inode)?;
        if offset >= inode.size {
            return Err(FsError::BeyondEnd);
        }
        if inode.is_inline() {
            return Ok(if hole { inode.size } else { offset });
        }
        let end = inode.base + inode.size.div_ceil(SECTOR_BYTES);
        let at = inode.base + offset / SECTOR_BYTES;
        let run = self.space().next_mapped(at..end).await?;
        let byte = |sector: u64| (sector - inode.base) * SECTOR_BYTES;
        match (run, hole) {
            (None, false) => Err(FsError::BeyondEnd),
            (None, true) => Ok(offset),
            (Some(run), false) => Ok(byte(run.start).max(offset)),
            (Some(run), true) if run.start > at => Ok(offset),
            (Some(mut run), true) => {
                while let Some(next) = self.space().next_mapped(run.end..end).await? {
                    if next.start > run.end {
                        break;
                    }
                    run.end = next.end;
                }
                Ok(byte(run.end).min(inode.size))
            }
        }
    }

    /// Returns the number of sectors that a file occupies beside its i-node, including preallocated sectors.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn sectors(&self, file: u64) -> Result<u64> {
        let file = self.file(file).await?;
        let inode = file.inode().clone();
        let attributes = u64::from(inode.attributes).div_ceil(SECTOR_BYTES);
        if inode.kind == FileKind::Directory {
            // A directory has a sector for each name. To count the mapped sectors would take as long as to list the
            // directory.
            return Ok(attributes + inode.size);
        }
        let beside = attributes + self.0.preallocations.unmapped(inode.file);
        if inode.is_inline() {
            return Ok(beside);
        }
        if let Some(known) = file.counted.known() {
            return Ok(beside + known);
        }
        let count = file.counted.begin();
        let data = inode.base..inode.base + self.geometry().sectors_at(&inode);
        let sectors = self.space().mapped_sectors(data).await?;
        file.counted.end(count, sectors);
        Ok(beside + sectors)
    }
}

/// Returns the sectors that contain a range of bytes.
fn sectors_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES)
}
