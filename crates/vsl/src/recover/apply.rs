//! Application of the found records to the map and the table of segments.

use forebay_placement::WriteClock;
use std::rc::Rc;

use forebay_segments::{Entry as _, HEADER_BYTES};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES};

use super::scan::FoundRecord;
use crate::error::{OpenError, SpaceError};
use crate::format::Entry;
use crate::homes::at_home;
use crate::prepared::unmap;
use crate::space::Inner;
use forebay_extents::Place;
use forebay_extents::{Changes, Check, Extent};

/// Applies records in order. Returns the number of records that changed the map, and the number of their entries that
/// did.
pub(super) async fn apply(
    inner: &Rc<Inner>,
    records: &[FoundRecord],
) -> Result<(u64, u64), OpenError> {
    let layout = inner.commit.composer().layout;
    let (mut entries, mut changed, mut changes) = (0, 0, 0);
    for record in records {
        let here = record
            .entries
            .iter()
            .filter(|entry| entry.changes_the_map());
        let here = here.count() as u64;
        changes += here;
        changed += u64::from(here > 0);
        inner.come_to(record);
        let mut at = record.offset + HEADER_BYTES as u32;
        for entry in &record.entries {
            let place = layout.place(record.segment, at);
            inner
                .apply_entry(entry, place)
                .await
                .map_err(as_open_error)?;
            at += (entry.payload_sectors() * SECTOR_BYTES) as u32;
            entries += 1;
        }
        inner
            .map
            .borrow_mut()
            .shrink(inner.options.map_bytes as usize);
    }
    let detached = inner.map.borrow().detached() > 0;
    let mut streams = inner.commit.composer_mut();
    streams.table.retire_queued(detached);
    streams.table.close_all();
    drop(streams);
    inner.entries_since.set(entries);
    Ok((changed, changes))
}

impl Inner {
    /// Reopens the segment of a record if it was opened behind the cut: the slot's old contents are no longer live.
    fn come_to(&self, record: &FoundRecord) {
        let table = &mut self.commit.composer_mut().table;
        let known = *table.get(record.slot);
        if known.seq == record.segment && table.state(record.slot).has_number() {
            return;
        }
        let (stream, clock) = match record.entries.first() {
            Some(Entry::Opened { stream, clock }) => (*stream, *clock),
            _ => (known.stream, known.closed),
        };
        let detached = self.map.borrow().detached() > 0;
        table.reopen(record.slot, stream, record.segment, clock, detached);
    }
}

fn as_open_error(error: SpaceError) -> OpenError {
    match error {
        SpaceError::Device(error) => OpenError::Device(error),
        SpaceError::Node(place, error) => OpenError::Node(place, error),
        SpaceError::Failed(error) => OpenError::Failed(error),
        // Applied entries were accepted before, so these errors are not expected.
        SpaceError::Batch(_)
        | SpaceError::Full { .. }
        | SpaceError::Large { .. }
        | SpaceError::Damaged { .. }
        | SpaceError::Headers(_)
        | SpaceError::Failing { .. } => OpenError::Room("a record cannot be applied"),
    }
}

impl Inner {
    async fn apply_entry(&self, entry: &Entry, place: Place) -> Result<(), SpaceError> {
        let range = match *entry {
            Entry::Data {
                sector, sectors, ..
            }
            | Entry::Moved {
                sector, sectors, ..
            } => (sector, u64::from(sectors)),
            Entry::Trim { sector, sectors } => (sector, sectors),
            Entry::Home { line, .. } => (line.first_sector(), LINE_SECTORS),
            Entry::Opened { .. } | Entry::Node { .. } | Entry::Meta { .. } => return Ok(()),
        };
        let huge = self.options.huge_trim;
        let mut pins = self.map.borrow().pins();
        match entry {
            Entry::Trim { .. } => {
                self.prepare_to_unmap(range.0, range.1, huge, &mut pins)
                    .await?;
            }
            _ => self.prepare(range.0, range.1, &mut pins).await?,
        }
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let mut changes = Changes::default();
        let (sector, sectors) = (range.0.0, range.1);
        match *entry {
            Entry::Data { crc, .. } => {
                let extent = Extent {
                    sector,
                    sectors,
                    place,
                    check: Check::Inline(crc),
                };
                map.set(extent, &mut changes).expect("prepared");
                streams.clock = WriteClock(streams.clock.0 + sectors);
            }
            Entry::Moved {
                crc, from, born, ..
            } => {
                let to = Extent {
                    sector,
                    sectors,
                    place,
                    check: Check::Inline(crc),
                };
                map.replace_if(from, to, &mut changes).expect("prepared");
                if let Some(slot) = streams.table.slot_at(place) {
                    streams.table.set_born(slot, born);
                }
            }
            Entry::Trim { .. } => unmap(&mut map, range.0, sectors, huge, &mut changes),
            Entry::Home {
                line,
                crc,
                from,
                place,
            } => {
                let to = at_home(line, place, crc);
                map.replace_if(from, to, &mut changes).expect("prepared");
            }
            Entry::Opened { .. } | Entry::Node { .. } | Entry::Meta { .. } => {}
        }
        streams.table.count(&changes);
        Ok(())
    }
}
