//! Preallocated ranges: space that is reserved for a file and counts as used, also before the file is written there.
//!
//! A file's *preallocated ranges* are those that `fallocate` reserved and that no operation has released since. Their
//! unmapped sectors are counted twice: by file, and in the space, which refuses this space to other batches
//! ([`forebay_vsl::Batch::preallocate`]). A write into a range changes no record; it only reduces the number of
//! unmapped sectors.
//!
//! Invariants:
//! - A batch that maps or unmaps sectors of preallocated ranges, or changes ranges, changes the space's count by the
//!   difference ([`Fs::settle_preallocations`]). So the space's count is the sum over all files, and a crash leaves
//!   both changes or neither.
//! - The bytes that the batch changes are held, and where ranges change, the i-node is locked. So two concurrent
//!   batches never count the same sectors.
//! - The space does not store its count. [`Fs::load_preallocations`] counts anew from the records of ranges.

use std::collections::BTreeSet;
use std::ops::Range;

use forebay_device::BufMut;
use forebay_units::{RangeSet, SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, BatchOp};

use crate::change::FsChange;
use crate::error::{FsError, LATER, Result};
use crate::files::CachedFile;
use crate::format::preallocation::sectors_of;
use crate::format::{FileKind, Inode, Preallocation};
use crate::fs::Fs;
use crate::geometry::PREALLOCATION_SECTORS;
use crate::preallocated::{PreallocatedFile, RangeEdit, SettledFile};

impl Fs {
    /// Adds the change of preallocated space to a batch, and returns the change for
    /// [`PreallocationTable::settle`](crate::preallocated::Preallocations::settle).
    ///
    /// # Errors
    ///
    /// If the map cannot be read, or the file or the filesystem would have too many ranges.
    pub(crate) async fn settle_preallocations(
        &self,
        change: &mut FsChange<'_>,
    ) -> Result<Vec<SettledFile>> {
        let mut settled = Vec::new();
        for file in self.with_preallocated(change) {
            let before = self.0.preallocations.of(file).unwrap_or_default();
            let after = RangeEdit::apply_all(&before.ranges, change.edits_of(file));
            let one = if change.removes(file) {
                SettledFile {
                    file,
                    change: -(before.unmapped as i64),
                    ranges: Some(RangeSet::default()),
                }
            } else {
                self.settle_file(change, file, &before, after).await?
            };
            if one.change != 0 || one.ranges.is_some() {
                self.put_record(change, &before.ranges, &one)?;
                change.batch.preallocate(one.change);
                settled.push(one);
            }
        }
        Ok(settled)
    }

    /// Returns the files with preallocated ranges that a batch may affect.
    fn with_preallocated(&self, change: &FsChange<'_>) -> BTreeSet<u64> {
        let known = &self.0.preallocations;
        let mut files: BTreeSet<u64> = change.edited().collect();
        if !known.is_empty() {
            let starts = change.batch.ops().iter().map(sector_of);
            let data = starts.filter_map(|sector| self.geometry().data_of(sector));
            let removed = change.removed();
            let touched = data.map(|data| data.file).chain(removed);
            files.extend(touched.filter(|file| known.has(*file)));
        }
        files
    }

    async fn settle_file(
        &self,
        change: &FsChange<'_>,
        file: u64,
        before: &PreallocatedFile,
        after: RangeSet,
    ) -> Result<SettledFile> {
        let known = self.0.files.borrow().get(file);
        let old = known.map(|file| file.inode().clone());
        let Some(old) = old else {
            // A file that is being made has no preallocated ranges.
            return Ok(SettledFile {
                file,
                change: 0,
                ranges: None,
            });
        };
        let base = change.base_of(file).unwrap_or(old.base);
        let moves = base != old.base;
        let changed = if moves {
            union(&before.ranges, &after)
        } else {
            self.touched(change, file, &before.ranges, &after)
        };
        let mapped = self.mapped_of(&old, &changed).await?;
        let mut written = if moves {
            RangeSet::default()
        } else {
            mapped.clone()
        };
        self.add_mapped(&mut written, change, file, base);
        let was = unmapped_in(&before.ranges, &changed, &mapped);
        let is = unmapped_in(&after, &changed, &written);
        let more = is as i64 - was as i64;
        let left = before.unmapped.saturating_add_signed(more);
        // No record is written for a range that is fully mapped, if the file had no ranges before.
        let stays = after == before.ranges || before.ranges.is_empty() && left == 0;
        Ok(SettledFile {
            file,
            change: more,
            ranges: (!stays).then_some(after),
        })
    }

    /// Returns the sectors of a file's preallocated ranges that a batch may map, unmap, preallocate or release.
    fn touched(
        &self,
        change: &FsChange<'_>,
        file: u64,
        before: &RangeSet,
        after: &RangeSet,
    ) -> RangeSet {
        let mut touched = RangeSet::default();
        let all = union(before, after);
        let ops = change
            .batch
            .ops()
            .iter()
            .filter_map(|op| self.data_range(op, file));
        let edits = change.edits_of(file).map(|edit| match edit {
            RangeEdit::Add(range) | RangeEdit::Remove(range) => range.clone(),
        });
        for range in ops.map(|(_, range)| range).chain(edits) {
            all.parts(range)
                .into_iter()
                .for_each(|part| touched.insert(part));
        }
        touched
    }

    /// Adds the sectors of a file's data at `base` that a batch maps, and removes those that it unmaps.
    fn add_mapped(&self, mapped: &mut RangeSet, change: &FsChange<'_>, file: u64, base: u64) {
        for op in change.batch.ops() {
            let Some((_, range)) = self.data_range(op, file).filter(|(at, _)| *at == base) else {
                continue;
            };
            match op {
                BatchOp::Write { .. } => mapped.insert(range),
                BatchOp::Trim { .. } => mapped.remove(range),
            }
        }
    }

    /// Returns the base and the sector range, relative to the base, of a write or a trim of a file's data.
    fn data_range(&self, op: &BatchOp, file: u64) -> Option<(u64, Range<u64>)> {
        let (sector, sectors) = op.range().ok()?;
        let data = self
            .geometry()
            .data_of(sector)
            .filter(|data| data.file == file)?;
        Some((data.base, data.offset..data.offset + sectors))
    }

    /// Returns the mapped sectors among `sectors` of a file's data.
    async fn mapped_of(&self, inode: &Inode, sectors: &RangeSet) -> Result<RangeSet> {
        let mut mapped = RangeSet::default();
        if inode.base == 0 {
            return Ok(mapped);
        }
        let end = inode.base + self.geometry().sectors_at(inode);
        for range in sectors.iter() {
            let to = end.min(inode.base.saturating_add(range.end));
            let mut at = inode.base + range.start;
            while at < to
                && let Some(run) = self.space().next_mapped(at..to).await?
            {
                mapped.insert(run.start - inode.base..run.end - inode.base);
                at = run.end;
            }
        }
        Ok(mapped)
    }

    /// Adds the record of a file's new ranges to a batch.
    fn put_record(
        &self,
        change: &mut FsChange<'_>,
        before: &RangeSet,
        one: &SettledFile,
    ) -> Result<()> {
        let Some(ranges) = &one.ranges else {
            return Ok(());
        };
        let place = self.geometry().preallocation(one.file);
        let mut sectors = 0;
        if !ranges.is_empty() {
            let (before, after) = (before.ranges(), ranges.ranges());
            self.0.preallocations.must_take(before, after)?;
            let known = self.0.files.borrow().get(one.file);
            let generation = known.map_or(0, |file| file.inode().generation);
            let record = Preallocation {
                file: one.file,
                generation,
                ranges: ranges.clone(),
            };
            let bytes = record.encode();
            sectors = bytes.len() as u64 / SECTOR_BYTES;
            change.write(place, BufMut::copy_of(&bytes).freeze());
        }
        let had = if before.is_empty() {
            0
        } else {
            sectors_of(before.ranges()) as u64
        };
        if had > sectors {
            change.trim(place.plus(sectors), had - sectors);
        }
        Ok(())
    }

    /// Removes the record of a file's preallocated ranges if all of their sectors are mapped and the file is not in
    /// use.
    ///
    /// # Errors
    ///
    /// If the space fails. The record is removed when the filesystem is next opened.
    pub(crate) async fn drop_used_up(&self, file: &CachedFile) -> Result<()> {
        let number = file.number();
        if !self.0.preallocations.is_used_up(number) {
            return Ok(());
        }
        let _lock = file.lock.lock().await;
        let is_unused = file.users.get() == 0 && !file.is_going.get();
        if is_unused && self.0.preallocations.is_used_up(number) {
            self.0
                .preallocations
                .set(number, PreallocatedFile::default());
            self.trim_record(number).await?;
        }
        Ok(())
    }

    async fn trim_record(&self, file: u64) -> Result<()> {
        let mut batch = Batch::new();
        batch.trim(self.geometry().preallocation(file), PREALLOCATION_SECTORS);
        self.space().apply(&batch, LATER).await?;
        Ok(())
    }

    /// Reads all records of preallocated ranges, and counts their unmapped sectors. Removes records that are used up or
    /// damaged, or whose file is missing.
    ///
    /// # Errors
    ///
    /// If a structure cannot be read.
    pub(crate) async fn load_preallocations(&self) -> Result<()> {
        let geometry = self.geometry();
        let (first, end) = (
            geometry.preallocation(0).0,
            geometry.preallocation(geometry.files()).0,
        );
        let (mut at, mut all) = (first, 0);
        while let Some(run) = self.space().next_mapped(at..end).await? {
            let file = (run.start - first) / PREALLOCATION_SECTORS;
            at = geometry.preallocation(file + 1).0;
            match self.load_preallocation(file).await? {
                Some(one) if one.unmapped > 0 => {
                    all += one.unmapped;
                    self.0.preallocations.set(file, one);
                }
                _ => self.trim_record(file).await?,
            }
        }
        self.space().restore_preallocated(all);
        Ok(())
    }

    async fn load_preallocation(&self, number: u64) -> Result<Option<PreallocatedFile>> {
        let place = self.geometry().preallocation(number);
        let read = self.read_sectors(place, PREALLOCATION_SECTORS).await?;
        let Ok(Some(record)) = Preallocation::decode(&read) else {
            return Ok(None);
        };
        let file = match self.file(number).await {
            Ok(file) => file,
            Err(FsError::Space(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        let inode = file.inode().clone();
        if !is_of(&record, &inode) {
            return Ok(None);
        }
        let mapped = self.mapped_of(&inode, &record.ranges).await?;
        let unmapped = unmapped_in(&record.ranges, &record.ranges, &mapped);
        Ok(Some(PreallocatedFile {
            ranges: record.ranges,
            unmapped,
        }))
    }
}

/// Returns true if a record belongs to a file.
pub(crate) fn is_of(record: &Preallocation, inode: &Inode) -> bool {
    let same = record.file == inode.file && record.generation == inode.generation;
    same && inode.kind == FileKind::Regular
}

fn sector_of(op: &BatchOp) -> Sector {
    match op {
        BatchOp::Write { sector, .. } | BatchOp::Trim { sector, .. } => *sector,
    }
}

fn union(one: &RangeSet, other: &RangeSet) -> RangeSet {
    let mut all = one.clone();
    other.iter().for_each(|range| all.insert(range));
    all
}

/// Counts the numbers that are in both `ranges` and `within`, but not in `mapped`.
fn unmapped_in(ranges: &RangeSet, within: &RangeSet, mapped: &RangeSet) -> u64 {
    let mut left = RangeSet::default();
    for range in within.iter() {
        ranges
            .parts(range)
            .into_iter()
            .for_each(|part| left.insert(part));
    }
    let all = left.total();
    let there = left.iter().flat_map(|range| mapped.parts(range));
    all - there.map(|part| part.end - part.start).sum::<u64>()
}
