//! Writing where data lies: what placements ask for that keep cold pages in place.
//!
//! A write of its own may be done in place, a part of a larger batch never: there a disk's semantics hold, and no more.
//! What is overwritten in a segment no longer matches its checksums. So before it is overwritten for the first
//! time, a record says that it is not to be checked any more. That has to be durable before anybody overwrites it.
//!
//! - While something in a segment is overwritten, that is neither cleaned nor used again.
//! - Only what is on the medium and mapped as it was when the write began is overwritten. What somebody else
//!   has written meanwhile came later, so it stays.

use std::collections::VecDeque;
use std::rc::Rc;

use forebay_device::{Buf, Durability};
use forebay_extents::{Check, Extent};
use forebay_placement::placement::UserPlace;
use forebay_segments::Composer as _;
use forebay_units::{LINE_SECTORS, RecordSeq, SECTOR_BYTES, Sector, round_down, round_up};
use futures_util::future::join_all;

use crate::batch::Batch;
use crate::error::SpaceError;
use crate::format::Stream;
use crate::geometry::Slot;
use crate::prepared::mapped;
use crate::space::{Inner, is_durable};

/// Segments of which something is being overwritten.
struct Claim {
    inner: Rc<Inner>,
    slots: Vec<Slot>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut free = false;
        for slot in &self.slots {
            let usage = &mut self.inner.commit.composer_mut().usage;
            free |= usage.end_overwriting(*slot);
        }
        if free {
            self.inner.commit.notify();
        }
    }
}

/// What is to be done of a write.
struct Parts {
    /// To be appended: from where on, how many sectors, to which stream.
    append: Vec<(Sector, u64, Stream)>,
    /// To be overwritten.
    overwrite: Vec<Extent>,
    /// Not to be overwritten, but perhaps written as one piece with that, so that its checksum no longer holds.
    beside: Vec<Extent>,
}

impl Parts {
    /// What is not to be checked any more.
    fn unchecked(&self) -> Vec<Extent> {
        let all = self.overwrite.iter().chain(&self.beside);
        let checked = all.filter(|part| part.check != Check::None);
        checked.copied().collect()
    }
}

/// The lines that have a part of a range: no piece was written that reaches beyond its line.
fn in_lines(sector: Sector, sectors: u64) -> (Sector, u64) {
    let from = round_down(sector.0, LINE_SECTORS);
    let to = round_up(sector.0 + sectors, LINE_SECTORS);
    (Sector(from), to - from)
}

impl Inner {
    /// Does a user's write, in place as far as the placement wants that and it can be done.
    pub(crate) async fn write_somewhere(
        self: &Rc<Self>,
        sector: Sector,
        data: &Buf,
        durability: Durability,
    ) -> Result<(), SpaceError> {
        if let Some(failure) = self.commit.failure() {
            return Err(failure.into());
        }
        let sectors = data.len() as u64 / SECTOR_BYTES;
        let mut pins = self.map.borrow().pins();
        let (lines, lines_len) = in_lines(sector, sectors);
        self.prepare(lines, lines_len, &mut pins).await?;
        let mut parts = self.parts(sector, sectors);
        let claim = self.claim(&parts.overwrite);
        let mut target = RecordSeq(0);
        if !parts.append.is_empty() || !parts.unchecked().is_empty() {
            let whole = Batch::of_write(sector, data.clone());
            self.admit(&whole, &[(sector, sectors)]).await?;
            // Others may have written while this waited.
            self.demote(&mut parts);
            target = self.append_parts(sector, data, &parts);
            if !parts.unchecked().is_empty() {
                self.unchecked.set(self.close_open());
            }
            self.after_batch();
        } else {
            self.stats.borrow_mut().batches += 1;
        }
        if !parts.overwrite.is_empty() {
            // Perhaps by somebody else, just now.
            self.commit.flush(self.unchecked.get()).await?;
        }
        drop(pins);
        self.overwrite(sector, data, &parts.overwrite, durability)
            .await?;
        drop(claim);
        if is_durable(durability) && !parts.append.is_empty() {
            let target = target.max(self.close_open());
            self.commit.flush(target).await?;
        } else if parts.overwrite.is_empty() {
            self.portions.did(&self.rt, data.len() as u64).await;
        }
        Ok(())
    }

    /// Makes durable what was written in place.
    pub(crate) async fn flush_in_place(&self) -> Result<(), SpaceError> {
        let target = self.overwritten.get();
        if self.overwritten_durable.get() >= target {
            return Ok(());
        }
        // One flush for all who wait for their turn.
        let _turn = self.flush_turn.lock().await;
        if self.overwritten_durable.get() >= target {
            return Ok(());
        }
        // A flush that failed may have lost what it was for: no later one makes that durable.
        if let Some(failure) = self.commit.failure() {
            return Err(failure.into());
        }
        let covered = self.overwritten.get();
        let flushed = self.device.flush().await;
        flushed.map_err(|error| self.commit.fail(&error.to_string()))?;
        self.overwritten_durable.set(covered);
        Ok(())
    }

    /// What the placement wants, as far as it can be done.
    fn parts(&self, sector: Sector, sectors: u64) -> Parts {
        let mut parts = Parts {
            append: Vec::new(),
            overwrite: Vec::new(),
            beside: Vec::new(),
        };
        let mut at = sector;
        for (place, sectors) in self.ask_placement(sector, sectors) {
            let (UserPlace::Append(n) | UserPlace::InPlace(n)) = place;
            let wanted = matches!(place, UserPlace::InPlace(_));
            match self.overwritable(at, sectors).filter(|_| wanted) {
                Some(extents) => {
                    parts.beside.extend(self.beside(at, sectors, &extents));
                    parts.overwrite.extend(extents);
                }
                None => parts.append.push((at, sectors, Stream(n))),
            }
            at = at.plus(sectors);
        }
        parts
    }

    /// Where a range lies, if all of it may be overwritten there.
    fn overwritable(&self, sector: Sector, sectors: u64) -> Option<Vec<Extent>> {
        let streams = self.commit.composer();
        let block = u64::from(self.device.geometry().block_size);
        let extents = mapped(&self.map.borrow(), sector, sectors);
        let fits = |extent: &Extent| {
            let slot = streams.layout.slot_of(extent.place);
            let seq = streams.usage.get(slot).seq;
            streams.usage.may_overwrite(slot)
                && streams.flight().segment(seq).is_none()
                && extent.place.bytes().is_multiple_of(block)
                && (extent.sectors * SECTOR_BYTES).is_multiple_of(block)
        };
        let there: u64 = extents.iter().map(|extent| extent.sectors).sum();
        (there == sectors && extents.iter().all(fits)).then_some(extents)
    }

    /// What of the lines of a range lies in the segments of these parts of it, but is not of the range.
    fn beside(&self, sector: Sector, sectors: u64, parts: &[Extent]) -> Vec<Extent> {
        let layout = self.commit.composer().layout;
        let slots: Vec<Slot> = parts
            .iter()
            .map(|part| layout.slot_of(part.place))
            .collect();
        let (lines, lines_len) = in_lines(sector, sectors);
        let outside = |extent: &Extent| {
            [
                extent.part(0..sector.0),
                extent.part(sector.0 + sectors..u64::MAX),
            ]
        };
        let all = mapped(&self.map.borrow(), lines, lines_len);
        let beside = all.iter().flat_map(outside).flatten();
        beside
            .filter(|part| slots.contains(&layout.slot_of(part.place)))
            .collect()
    }

    fn claim(self: &Rc<Self>, extents: &[Extent]) -> Claim {
        let mut streams = self.commit.composer_mut();
        let layout = streams.layout;
        let slots: Vec<Slot> = extents
            .iter()
            .map(|part| layout.slot_of(part.place))
            .collect();
        for slot in &slots {
            streams.usage.begin_overwriting(*slot);
        }
        drop(streams);
        Claim {
            inner: Rc::clone(self),
            slots,
        }
    }

    /// What no longer lies where it was to be overwritten is appended instead.
    fn demote(&self, parts: &mut Parts) {
        let map = self.map.borrow();
        let stays = |extent: &Extent| {
            let now = mapped(&map, Sector(extent.sector), extent.sectors);
            let there: u64 = now.iter().map(|part| part.sectors).sum();
            let same = |part: &Extent| part.place == extent.place.plus(part.sector - extent.sector);
            there == extent.sectors && now.iter().all(same)
        };
        let (overwrite, append) = std::mem::take(&mut parts.overwrite)
            .into_iter()
            .partition(stays);
        parts.overwrite = overwrite;
        let append: Vec<Extent> = append;
        let demoted = append
            .iter()
            .map(|part| (Sector(part.sector), part.sectors, Stream(0)));
        parts.append.extend(demoted);
    }

    /// Appends what is to be appended, and says what is not to be checked any more, in one go.
    fn append_parts(&self, sector: Sector, data: &Buf, parts: &Parts) -> RecordSeq {
        let mut batch = Batch::new();
        let mut plan = VecDeque::new();
        for (at, sectors, stream) in &parts.append {
            let from = ((at.0 - sector.0) * SECTOR_BYTES) as usize;
            let len = (sectors * SECTOR_BYTES) as usize;
            batch.write(*at, data.slice(from..from + len));
            plan.push_back((*stream, *sectors));
        }
        self.do_all(&batch, u64::MAX, &mut plan, &parts.unchecked())
    }

    /// Overwrites what is still mapped as it was.
    async fn overwrite(
        &self,
        sector: Sector,
        data: &Buf,
        extents: &[Extent],
        durability: Durability,
    ) -> Result<(), SpaceError> {
        let mut writes = Vec::new();
        for extent in extents {
            for part in mapped(&self.map.borrow(), Sector(extent.sector), extent.sectors) {
                let same = part.place == extent.place.plus(part.sector - extent.sector);
                if !same || part.check != Check::None {
                    continue;
                }
                let from = ((part.sector - sector.0) * SECTOR_BYTES) as usize;
                let len = (part.sectors * SECTOR_BYTES) as usize;
                let at = self.commit.composer().layout.place_at(part.place);
                let mut stats = self.stats.borrow_mut();
                stats.bytes_in_place += len as u64;
                stats.bytes_written += len as u64;
                writes.push(
                    self.device
                        .write(at, data.slice(from..from + len), durability),
                );
            }
        }
        let any = !writes.is_empty() && !is_durable(durability);
        // Of all: what is under way must not land behind what comes next.
        let written = join_all(writes).await;
        if any {
            self.overwritten.set(self.overwritten.get() + 1);
        }
        Ok(written.into_iter().collect::<Result<(), _>>()?)
    }
}
