//! Inspection of a volume that is not in use. The volume is not changed.

use std::rc::Rc;

use forebay_device::Device;
use forebay_segment_log::{RecordEntry as _, read_copies};
use forebay_units::{SECTOR_BYTES, Sector};
use serde::Serialize;

use crate::error::SpaceOpenError;
use crate::format::{Checkpoint, FormatError, MetaKind, SpaceEntry, SpaceSuperblock};
use crate::geometry::SegmentLayout;
use crate::recover::QueueLookahead;
use crate::recover::read::read_checkpoint;
use crate::recover::scan::{RecoveryScan, scan};
use crate::segment::SegmentPhase;
use crate::store::{DeviceStore, SegmentStore};

/// Changes behind the newest checkpoint that recovery would apply.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UnappliedChanges {
    /// Records that change the map.
    pub records: u64,
    /// Entries of these records that change the map.
    pub entries: u64,
    /// Bytes of data of these entries.
    pub bytes: u64,
}

/// Returns the changes that recovery would apply.
///
/// # Errors
/// The device failed, or the checkpoint or durable data is missing.
pub async fn pending(
    device: &Rc<dyn Device>,
    superblock: &SpaceSuperblock,
) -> Result<UnappliedChanges, SpaceOpenError> {
    let store = DeviceStore::new(Rc::clone(device), SegmentLayout::of(superblock));
    let read = read_checkpoint(&store, superblock).await?;
    let found = behind(&store, superblock, &read.checkpoint).await?;
    if found.is_damaged() {
        return Err(SpaceOpenError::Damaged {
            missing: found.last.next(),
            stable: found.stable,
        });
    }
    let mut pending = UnappliedChanges::default();
    for record in &found.records {
        let before = pending.entries;
        for entry in record
            .entries
            .iter()
            .filter(|entry| entry.changes_the_map())
        {
            pending.entries += 1;
            pending.bytes += entry.payload_sectors() * SECTOR_BYTES;
        }
        pending.records += u64::from(pending.entries > before);
    }
    Ok(pending)
}

async fn behind(
    store: &dyn SegmentStore,
    superblock: &SpaceSuperblock,
    checkpoint: &Checkpoint,
) -> Result<RecoveryScan, SpaceOpenError> {
    Ok(scan(
        store,
        superblock,
        checkpoint,
        QueueLookahead::of(superblock),
    )
    .await?)
}

/// An on-disk structure, as `dump` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpaceDumpItem {
    /// A copy of the superblock.
    Superblock {
        /// `A` or `B`.
        copy: char,
        /// The volume that the superblock belongs to.
        volume: String,
        /// Number of the superblock: one more for each superblock written.
        generation: u64,
        /// Epoch of the records behind the checkpoint. Each attach uses a new epoch.
        epoch: u64,
        /// The newest record that was durable when the superblock was written.
        stable: u64,
        /// Bytes of the device in use.
        len: u64,
        /// Sectors of the space.
        space_sectors: u64,
        /// Bytes in a segment.
        segment_bytes: u32,
        /// Number of segments.
        segment_count: u32,
        /// Alignment of records, in bytes.
        block: u32,
        /// Sector of the checkpoint's index, counted from the start of the first segment.
        checkpoint: u64,
        /// Placement of data.
        placement: String,
        /// Sectors of a page.
        page_sectors: u32,
    },
    /// A copy of the superblock that is not valid.
    BrokenSuperblock {
        /// `A` or `B`.
        copy: char,
        /// The reason that the copy is not valid.
        problem: String,
    },
    /// The newest checkpoint.
    Checkpoint {
        /// The last record that the checkpoint covers.
        cut: u64,
        /// Number of the segment that is opened next.
        next_segment: u64,
        /// Sectors that clients had written.
        clock: u64,
        /// True if any sector is mapped.
        has_root: bool,
        /// Subtrees that were detached and not reaped yet.
        detached: usize,
        /// Segments that were being filled.
        open: Vec<u32>,
        /// Segments on the allocation queue.
        queue: usize,
    },
    /// A segment of the checkpoint's table. Segments that were never used are omitted.
    Segment {
        /// Slot of the segment.
        slot: usize,
        /// State of the segment.
        state: String,
        /// Stream of the segment.
        stream: u8,
        /// Live sectors in the segment.
        live_sectors: u32,
        /// Number of the segment in the order of openings.
        seq: u64,
        /// Number of openings of the slot.
        wear: u32,
    },
    /// A record behind the checkpoint.
    Record {
        /// Number of the record.
        seq: u64,
        /// Slot of its segment.
        slot: u32,
        /// Number of its segment.
        segment: u64,
        /// Offset in the segment, in bytes.
        offset: u32,
        /// True if the record is valid only together with the next record.
        continues: bool,
        /// Entries of the record.
        entries: Vec<String>,
    },
}

fn superblock_item(copy: char, found: &Result<SpaceSuperblock, FormatError>) -> SpaceDumpItem {
    match found {
        Ok(found) => SpaceDumpItem::Superblock {
            copy,
            volume: found.volume.to_string(),
            generation: found.generation,
            epoch: found.epoch.0,
            stable: found.stable.0,
            len: found.len,
            space_sectors: found.space_sectors,
            segment_bytes: found.segment_bytes,
            segment_count: found.segment_count,
            block: found.block,
            checkpoint: found.checkpoint,
            placement: found.placement.to_string(),
            page_sectors: found.page_sectors,
        },
        Err(error) => SpaceDumpItem::BrokenSuperblock {
            copy,
            problem: error.to_string(),
        },
    }
}

/// Passes every valid structure except the map to `out`.
///
/// # Errors
/// The device has no volume, or the volume cannot be read. The superblocks were passed before.
pub async fn dump(
    device: &Rc<dyn Device>,
    out: &mut dyn FnMut(SpaceDumpItem),
) -> Result<(), SpaceOpenError> {
    let copies = read_copies::<SpaceSuperblock>(&**device).await?;
    out(superblock_item('A', &copies.a));
    out(superblock_item('B', &copies.b));
    let superblock = copies.newest_readable()?;
    crate::recover::fits_device(superblock, &**device)?;
    let store = DeviceStore::new(Rc::clone(device), SegmentLayout::of(superblock));
    let read = read_checkpoint(&store, superblock).await?;
    let (checkpoint, segments) = (read.checkpoint, read.segments);
    out(SpaceDumpItem::Checkpoint {
        cut: checkpoint.cut.0,
        next_segment: checkpoint.next_segment.0,
        clock: checkpoint.clock.0,
        has_root: checkpoint.root.is_some(),
        detached: checkpoint.detached.len(),
        open: checkpoint.open.iter().map(|open| open.slot).collect(),
        queue: checkpoint.queue.len(),
    });
    let used = segments.iter().enumerate();
    for (slot, segment) in used.filter(|(_, segment)| (segment.wear, segment.live) != (0, 0)) {
        out(SpaceDumpItem::Segment {
            slot,
            state: phase_name(segment.phase).into(),
            stream: segment.stream.0,
            live_sectors: segment.live,
            seq: segment.seq.0,
            wear: segment.wear,
        });
    }
    let found = behind(&store, superblock, &checkpoint).await?;
    for (n, record) in (1..).zip(&found.records) {
        out(SpaceDumpItem::Record {
            seq: checkpoint.cut.0 + n,
            slot: record.slot.0,
            segment: record.segment.0,
            offset: record.offset,
            continues: record.continues,
            entries: record.entries.iter().map(in_words).collect(),
        });
    }
    Ok(())
}

/// Returns the name of a phase in a dump.
fn phase_name(phase: SegmentPhase) -> &'static str {
    match phase {
        SegmentPhase::Free => "free",
        SegmentPhase::Queued => "queued",
        SegmentPhase::Open => "open",
        SegmentPhase::Closed => "closed",
    }
}

/// Describes an entry of a record. Places are numbers of sectors in the log.
fn in_words(entry: &SpaceEntry) -> String {
    match *entry {
        SpaceEntry::Data {
            sector,
            sectors,
            crc,
        } => format!("data of {}, crc {crc:08x}", range(sector, sectors.into())),
        SpaceEntry::Moved {
            sector,
            sectors,
            crc,
            from,
            born,
        } => format!(
            "moved data of {}, crc {crc:08x}, from place {}, written at clock {}",
            range(sector, sectors.into()),
            from.0,
            born.0
        ),
        SpaceEntry::Trim { sector, sectors } => format!("trim of {}", range(sector, sectors)),
        SpaceEntry::Home {
            line,
            crc,
            from,
            place,
        } => format!(
            "block {} written in place, crc {crc:08x}, from place {} to place {}",
            line.0, from.0, place.0
        ),
        SpaceEntry::Opened { stream, clock } => {
            format!("segment opened in stream {} at clock {}", stream.0, clock.0)
        }
        SpaceEntry::Node { level, key, crc } => {
            format!("node of the map at level {level} from sector {key}, crc {crc:08x}")
        }
        SpaceEntry::Meta {
            kind,
            index,
            sectors,
            crc,
        } => {
            let kind = match kind {
                MetaKind::Table => "table of segments",
                MetaKind::Checkpoint => "checkpoint",
                MetaKind::Queue => "allocation queue",
                MetaKind::Index => "index of a checkpoint",
            };
            format!("{kind}, part {index}, {sectors} sectors, crc {crc:08x}")
        }
    }
}

fn range(sector: Sector, sectors: u64) -> String {
    match sectors {
        0 | 1 => sector.to_string(),
        more => format!(
            "sectors {} to {}",
            sector.0,
            sector.0.saturating_add(more - 1)
        ),
    }
}
