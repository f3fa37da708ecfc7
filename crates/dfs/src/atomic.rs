//! Atomic changes of many ranges in many files.
//!
//! All locks are held before any data is read. The byte ranges of all files are claimed together, so that a client that
//! claims several ranges never waits for a client that came later. Then the i-nodes that change are locked, in the
//! order of i-numbers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, is_zero};
use forebay_rt::{LockGuard, RangeGuard};
use forebay_units::{SECTOR_BYTES, Sector, round_down, round_up};
use forebay_vsl::{BATCH_BYTES_MAX, BATCH_PIECES_MAX};
use futures_util::future::join_all;

use crate::change::FsChange;
use crate::data::{ALL, FileLocation, LockedRange, become_like, modify, regular};
use crate::edits::Edits;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::Inode;
use crate::fs::Fs;

/// Data of neighbouring edits is written together, up to this many bytes.
const TOGETHER: u64 = 1 << 20;

/// A file and the edits to apply to it.
struct EditedFile<'a> {
    file: Rc<CachedFile>,
    edits: &'a Edits,
}

impl Fs {
    /// Applies edits to any number of files, given by i-number. Either all edits are applied, or none.
    ///
    /// # Errors
    ///
    /// If a file is missing, has no data or would be too large; if the edits exceed the limits of one batch; or if the
    /// space is full. In these cases nothing was changed.
    pub async fn edit(&self, all: &BTreeMap<u64, Edits>) -> Result<()> {
        let mut edited = Vec::new();
        for (number, edits) in all {
            let file = self.file(*number).await?;
            regular(&file.inode())?;
            self.range(0, edits.end())?;
            if !edits.is_empty() {
                edited.push(EditedFile { file, edits });
            }
        }
        must_fit(edited.iter().map(|one| one.edits.bytes()).sum(), 0)?;
        let held = self.hold_edited(&edited).await;
        held.iter()
            .try_for_each(|(held, _)| held.inode.may_change())?;
        let mut change = self.change();
        let now = self.time();
        let (mut locks, mut overwritten): (Vec<LockGuard>, _) = (Vec::new(), Vec::new());
        for (EditedFile { file, edits }, (held, _)) in edited.iter().zip(&held) {
            let end = held.inode.size.max(edits.end());
            if end == held.inode.size && !held.inode.is_inline() {
                self.put_edits(&mut change, &held.inode, &held.inode, edits)
                    .await?;
                if edits.have_holes() {
                    // Holes release preallocated ranges, which needs the i-node's lock.
                    locks.push(file.lock.lock().await);
                }
                overwritten.push(file);
                continue;
            }
            let (mut new, lock) = self.grow(&mut change, held, end).await?;
            locks.push(lock);
            if new.is_inline() {
                edits.over(0, &mut new.inline);
            } else {
                self.put_edits(&mut change, &held.inode, &new, edits)
                    .await?;
            }
            change.inode(file, |inode| become_like(inode, new, now));
        }
        must_fit(change.batch.bytes(), change.batch.ops().len())?;
        change.apply().await?;
        for file in overwritten {
            file.note(|inode| modify(inode, now));
            file.counted.forget();
        }
        Ok(())
    }

    /// Exchanges the data and the sizes of two files atomically. The preallocated ranges of both are released. The data
    /// is copied, since its location follows from the i-number, so the amount is limited like that of a batch. (To
    /// exchange locations instead, the filesystem would have to record them; this design avoids such records. Names can
    /// be exchanged for files of any size: [`crate::RenameTarget::Exchange`].)
    ///
    /// # Errors
    ///
    /// If a file is missing or has no data, if both together have more data than one batch can hold, or if the space is
    /// full.
    pub async fn exchange_data(&self, one: u64, other: u64) -> Result<()> {
        let files = [self.file(one).await?, self.file(other).await?];
        regular(&files[0].inode())?;
        regular(&files[1].inode())?;
        if one == other {
            return Ok(());
        }
        let whole = files.iter().map(|file| file.ranges.lock(ALL));
        let held = join_all(whole).await.into_iter().zip(&files);
        let held: Vec<LockedRange> = held
            .map(|(range, file)| LockedRange::new(Rc::clone(file), range))
            .collect();
        let (first, second) = (&held[0].inode, &held[1].inode);
        first.may_change()?;
        second.may_change()?;
        let sizes = [
            self.data_bytes(first).await?,
            self.data_bytes(second).await?,
        ];
        must_fit(sizes.iter().sum(), 0)?;
        let mut change = self.change();
        let new = [
            self.replace_data(&mut change, first, second).await?,
            self.replace_data(&mut change, second, first).await?,
        ];
        let _locks = self.lock_all(&files).await;
        let now = self.time();
        for (file, new) in files.iter().zip(new) {
            change.inode(file, |inode| become_like(inode, new, now));
        }
        must_fit(change.batch.bytes(), change.batch.ops().len())?;
        change.apply().await?;
        Ok(())
    }

    /// Returns the number of bytes of a file that occupy space outside its i-node.
    async fn data_bytes(&self, inode: &Inode) -> Result<u64> {
        let mut bytes = 0;
        if inode.is_inline() {
            return Ok(bytes);
        }
        let (mut at, end) = (inode.base, inode.base + inode.size.div_ceil(SECTOR_BYTES));
        while let Some(run) = self.space().next_mapped(at..end).await? {
            bytes += (run.end - run.start) * SECTOR_BYTES;
            at = run.end;
        }
        Ok(bytes)
    }

    /// Replaces the data of a file with a copy of another file's data.
    async fn replace_data(
        &self,
        change: &mut FsChange<'_>,
        old: &Inode,
        from: &Inode,
    ) -> Result<Inode> {
        let mut new = old.clone();
        (new.size, new.base) = (from.size, 0);
        new.inline.clear();
        change.trim_data(old, 0);
        change.release(old.file, 0..u64::MAX);
        match self.home(old, from.size) {
            _ if from.size == 0 => {}
            FileLocation::Inline => {
                let bytes = self.read_bytes(from, 0..from.size).await?;
                new.inline = bytes.to_vec();
            }
            FileLocation::At(base) => {
                new.base = base.0;
                self.copy(change, from, base).await?;
            }
        }
        Ok(new)
    }

    /// Holds the byte ranges of all files that will be edited.
    async fn hold_edited(&self, edited: &[EditedFile<'_>]) -> Vec<(LockedRange, Vec<RangeGuard>)> {
        let needed = |one: &EditedFile<'_>| self.to_edit(&one.file.inode(), one.edits);
        let mut wanted: Vec<Vec<Range<u64>>> = edited.iter().map(needed).collect();
        loop {
            // All ranges are queued before any of them is awaited.
            let claims = edited.iter().zip(&wanted).flat_map(|(one, ranges)| {
                let lock = |range: &Range<u64>| {
                    let (file, range) = (Rc::clone(&one.file), range.clone());
                    async move { file.ranges.lock(range).await }
                };
                ranges.iter().map(lock).collect::<Vec<_>>()
            });
            let mut guards = join_all(claims).await.into_iter();
            let now: Vec<Vec<Range<u64>>> = edited.iter().map(needed).collect();
            if now.iter().zip(&wanted).all(|(now, held)| within(now, held)) {
                let held = edited.iter().zip(&wanted).map(|(one, ranges)| {
                    let mut own = guards.by_ref().take(ranges.len());
                    let first = own.next().expect("something is edited");
                    let file = Rc::clone(&one.file);
                    (LockedRange::new(file, first), own.collect())
                });
                return held.collect();
            }
            wanted = now;
        }
    }

    /// Returns the byte ranges to hold while edits are applied to a file in its present state.
    fn to_edit(&self, inode: &Inode, edits: &Edits) -> Vec<Range<u64>> {
        let end = inode.size.max(edits.end());
        if inode.is_inline() || end > inode.size {
            let hull = edits.hull();
            let hull = hull.start..hull.end.min(self.geometry().size_max());
            return vec![self.to_grow(inode, &hull, end)];
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (piece, _) in edits.runs() {
            let start = round_down(piece.start, SECTOR_BYTES);
            let end = piece
                .end
                .checked_next_multiple_of(SECTOR_BYTES)
                .unwrap_or(u64::MAX);
            match ranges.last_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Applies edits to a file whose data lies outside its i-node and which was grown for the edits.
    async fn put_edits(
        &self,
        change: &mut FsChange<'_>,
        old: &Inode,
        new: &Inode,
        edits: &Edits,
    ) -> Result<()> {
        let end = round_up(new.size, SECTOR_BYTES);
        // Sectors that the edits cover only in part, each once.
        let mut torn = None;
        for (piece, is_data) in edits.runs() {
            let piece = piece.start..piece.end.min(end);
            if piece.start >= piece.end {
                break;
            }
            let whole = round_up(piece.start, SECTOR_BYTES)..round_down(piece.end, SECTOR_BYTES);
            for at in [piece.start, piece.end - 1] {
                let first = round_down(at, SECTOR_BYTES);
                if !whole.contains(&first) && torn.is_none_or(|torn| torn < first) {
                    self.put_torn(change, old, new, edits, first).await?;
                    torn = Some(first);
                }
            }
            if whole.start < whole.end {
                put_whole(change, new, edits, whole, is_data);
            }
        }
        Ok(())
    }

    /// Writes a sector that the edits cover only in part.
    async fn put_torn(
        &self,
        change: &mut FsChange<'_>,
        old: &Inode,
        new: &Inode,
        edits: &Edits,
        first: u64,
    ) -> Result<()> {
        let mut bytes = BufMut::zeroed(SECTOR_BYTES as usize);
        let there = first..(first + SECTOR_BYTES).min(old.size);
        if there.start < there.end && !edits.cover(there.clone()) {
            let read = self.read_bytes(old, there).await?;
            bytes[..read.len()].copy_from_slice(&read);
        }
        edits.over(first, &mut bytes);
        let sector = first / SECTOR_BYTES;
        // A mapped sector stays mapped: its other bytes may be preallocated.
        if is_zero(&bytes) && old.base == new.base && !old.is_inline() {
            let at = new.base + sector;
            if self.space().next_mapped(at..at + 1).await?.is_none() {
                return Ok(());
            }
        }
        change.write(Sector(new.base + sector), bytes.freeze());
        Ok(())
    }
}

/// Fails if the edits exceed the limits of one batch.
fn must_fit(bytes: u64, pieces: usize) -> Result<()> {
    if bytes > BATCH_BYTES_MAX || pieces > BATCH_PIECES_MAX {
        return Err(FsError::TooMuch { bytes, pieces });
    }
    Ok(())
}

/// Writes or trims whole sectors.
fn put_whole(
    change: &mut FsChange<'_>,
    new: &Inode,
    edits: &Edits,
    whole: Range<u64>,
    is_data: bool,
) {
    let sector = |at: u64| Sector(new.base + at / SECTOR_BYTES);
    if !is_data {
        let sectors = whole.start / SECTOR_BYTES..whole.end / SECTOR_BYTES;
        change.trim(sector(whole.start), sectors.end - sectors.start);
        change.release(new.file, sectors);
        return;
    }
    let mut at = whole.start;
    while at < whole.end {
        let end = whole.end.min(at + TOGETHER);
        change.write(sector(at), edits.data(at..end));
        at = end;
    }
}

/// Returns true if all needed ranges are held. Both lists are sorted.
fn within(needed: &[Range<u64>], held: &[Range<u64>]) -> bool {
    let mut held = held.iter().peekable();
    needed.iter().all(|range| {
        while held.next_if(|held| held.end <= range.start).is_some() {}
        held.peek()
            .is_some_and(|held| held.start <= range.start && range.end <= held.end)
    })
}
