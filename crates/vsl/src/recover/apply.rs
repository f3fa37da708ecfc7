//! Application of the found records to the map and the table of segments.

use forebay_placement::WriteClock;
use std::rc::Rc;

use forebay_segment_log::{HEADER_BYTES, RecordEntry as _};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES};

use super::scan::FoundRecord;
use crate::error::{SpaceError, SpaceOpenError};
use crate::format::SpaceEntry;
use crate::homes::at_home;
use crate::prepared::unmap;
use crate::space::SpaceInner;
use forebay_extent_map::LogPlace;
use forebay_extent_map::{ExtentCheck, MapChanges, MapExtent};

/// Applies records in order. Returns the number of records that changed the map, and the number of their entries that
/// did.
pub(super) async fn apply(
    inner: &Rc<SpaceInner>,
    records: &[FoundRecord],
) -> Result<(u64, u64), SpaceOpenError> {
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

impl SpaceInner {
    /// Reopens the segment of a record if it was opened behind the cut: the slot's old contents are no longer live.
    fn come_to(&self, record: &FoundRecord) {
        let table = &mut self.commit.composer_mut().table;
        let known = *table.get(record.slot);
        if known.seq == record.segment && table.state(record.slot).has_number() {
            return;
        }
        let (stream, clock) = match record.entries.first() {
            Some(SpaceEntry::Opened { stream, clock }) => (*stream, *clock),
            _ => (known.stream, known.closed),
        };
        let detached = self.map.borrow().detached() > 0;
        table.reopen(record.slot, stream, record.segment, clock, detached);
    }
}

fn as_open_error(error: SpaceError) -> SpaceOpenError {
    match error {
        SpaceError::Device(error) => SpaceOpenError::Device(error),
        SpaceError::Node(place, error) => SpaceOpenError::Node(place, error),
        SpaceError::Failed(error) => SpaceOpenError::Failed(error),
        // Applied entries were accepted before, so these errors are not expected.
        SpaceError::Batch(_)
        | SpaceError::Full { .. }
        | SpaceError::Large { .. }
        | SpaceError::Damaged { .. }
        | SpaceError::Headers(_)
        | SpaceError::Failing { .. } => SpaceOpenError::Room("a record cannot be applied"),
    }
}

impl SpaceInner {
    async fn apply_entry(&self, entry: &SpaceEntry, place: LogPlace) -> Result<(), SpaceError> {
        let range = match *entry {
            SpaceEntry::Data {
                sector, sectors, ..
            }
            | SpaceEntry::Moved {
                sector, sectors, ..
            } => (sector, u64::from(sectors)),
            SpaceEntry::Trim { sector, sectors } => (sector, sectors),
            SpaceEntry::Home { line, .. } => (line.first_sector(), LINE_SECTORS),
            SpaceEntry::Opened { .. } | SpaceEntry::Node { .. } | SpaceEntry::Meta { .. } => {
                return Ok(());
            }
        };
        let huge = self.options.huge_trim;
        let mut pins = self.map.borrow().pins();
        match entry {
            SpaceEntry::Trim { .. } => {
                self.prepare_to_unmap(range.0, range.1, huge, &mut pins)
                    .await?;
            }
            _ => self.prepare(range.0, range.1, &mut pins).await?,
        }
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let mut changes = MapChanges::default();
        let (sector, sectors) = (range.0.0, range.1);
        match *entry {
            SpaceEntry::Data { crc, .. } => {
                let extent = MapExtent {
                    sector,
                    sectors,
                    place,
                    check: ExtentCheck::Inline(crc),
                };
                map.set(extent, &mut changes).expect("prepared");
                streams.clock = WriteClock(streams.clock.0 + sectors);
            }
            SpaceEntry::Moved {
                crc, from, born, ..
            } => {
                let to = MapExtent {
                    sector,
                    sectors,
                    place,
                    check: ExtentCheck::Inline(crc),
                };
                map.replace_if(from, to, &mut changes).expect("prepared");
                if let Some(slot) = streams.table.slot_at(place) {
                    streams.table.set_born(slot, born);
                }
            }
            SpaceEntry::Trim { .. } => unmap(&mut map, range.0, sectors, huge, &mut changes),
            SpaceEntry::Home {
                line,
                crc,
                from,
                place,
            } => {
                let to = at_home(line, place, crc);
                map.replace_if(from, to, &mut changes).expect("prepared");
            }
            SpaceEntry::Opened { .. } | SpaceEntry::Node { .. } | SpaceEntry::Meta { .. } => {}
        }
        streams.table.count(&changes);
        Ok(())
    }
}
