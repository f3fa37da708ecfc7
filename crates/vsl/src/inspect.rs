//! Looking at a volume that is not in use. Changes nothing.

use std::rc::Rc;

use forebay_device::Device;
use forebay_segments::{Entry as _, read_copies};
use forebay_units::SECTOR_BYTES;
use serde::Serialize;

use crate::error::OpenError;
use crate::format::{Checkpoint, FormatError, Superblock};
use crate::geometry::Layout;
use crate::recover::Ahead;
use crate::recover::read::read_checkpoint;
use crate::recover::scan::{Scan, scan};
use crate::store::{DeviceStore, SegmentStore};

/// What recovery would take up behind the newest checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pending {
    /// Records that change what is mapped.
    pub records: u64,
    /// Entries in them that change what is mapped.
    pub entries: u64,
    /// Bytes of data in those.
    pub bytes: u64,
}

/// What recovery would take up.
///
/// # Errors
/// If the device fails, or the checkpoint or something that was durable is missing.
pub async fn pending(
    device: &Rc<dyn Device>,
    superblock: &Superblock,
) -> Result<Pending, OpenError> {
    let store = DeviceStore::new(Rc::clone(device), Layout::of(superblock));
    let read = read_checkpoint(&store, superblock).await?;
    let found = behind(&store, superblock, &read.checkpoint).await?;
    if found.is_damaged() {
        return Err(OpenError::Damaged {
            missing: found.last.next(),
            stable: found.stable,
        });
    }
    let mut pending = Pending::default();
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
    superblock: &Superblock,
    checkpoint: &Checkpoint,
) -> Result<Scan, OpenError> {
    Ok(scan(store, superblock, checkpoint, Ahead::of(superblock)).await?)
}

/// A structure on the medium, as `dump` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DumpItem {
    /// A copy of the superblock.
    Superblock {
        /// `A` or `B`.
        copy: char,
        /// Whose it is.
        volume: String,
        /// Grows with every one written.
        generation: u64,
        /// How often the volume was taken up.
        epoch: u64,
        /// The newest record that was durable when it was written.
        stable: u64,
        /// Bytes of the device in use.
        len: u64,
        /// Sectors of the space.
        space_sectors: u64,
        /// Bytes in a segment.
        segment_bytes: u32,
        /// Segments.
        segment_count: u32,
        /// What records are padded to, in bytes.
        block: u32,
        /// Where the checkpoint lies: sectors from the first segment's beginning.
        checkpoint: u64,
        /// How data is placed.
        placement: String,
        /// Sectors of a page.
        page_sectors: u32,
    },
    /// A copy of the superblock that does not count.
    BrokenSuperblock {
        /// `A` or `B`.
        copy: char,
        /// What is wrong with it.
        problem: String,
    },
    /// The newest checkpoint.
    Checkpoint {
        /// The last record that it covers.
        cut: u64,
        /// The number of the segment that is opened next.
        next_segment: u64,
        /// Sectors that users had written.
        clock: u64,
        /// Whether anything is mapped.
        has_root: bool,
        /// Subtrees that were cut out and not looked at yet.
        detached: usize,
        /// Segments that were being filled.
        open: Vec<u32>,
        /// Segments on the allocation queue.
        queue: usize,
    },
    /// A segment as the checkpoint's table has it; those that were never used are left out.
    Segment {
        /// Its place.
        slot: usize,
        /// What it is doing.
        state: String,
        /// The stream it is of.
        stream: u8,
        /// Sectors of it that are live.
        live_sectors: u32,
        /// Its number in the order in which segments were opened.
        seq: u64,
        /// How often it was opened.
        wear: u32,
    },
    /// A record behind the checkpoint.
    Record {
        /// Its number.
        seq: u64,
        /// Where its segment lies.
        slot: u32,
        /// Its segment's number.
        segment: u64,
        /// Where in it, in bytes.
        offset: u32,
        /// True if it counts only together with the next.
        continues: bool,
        /// What it does.
        entries: Vec<String>,
    },
}

fn superblock_item(copy: char, found: &Result<Superblock, FormatError>) -> DumpItem {
    match found {
        Ok(found) => DumpItem::Superblock {
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
        Err(error) => DumpItem::BrokenSuperblock {
            copy,
            problem: error.to_string(),
        },
    }
}

/// Gives every structure that counts to `out`, but for the map.
///
/// # Errors
/// If there is no volume, or it cannot be read; after the superblocks have been given.
pub async fn dump(device: &Rc<dyn Device>, out: &mut dyn FnMut(DumpItem)) -> Result<(), OpenError> {
    let copies = read_copies::<Superblock>(&**device).await?;
    out(superblock_item('A', &copies.a));
    out(superblock_item('B', &copies.b));
    let superblock = copies.newest_readable()?;
    crate::recover::fits_device(superblock, &**device)?;
    let store = DeviceStore::new(Rc::clone(device), Layout::of(superblock));
    let read = read_checkpoint(&store, superblock).await?;
    let (checkpoint, segments) = (read.checkpoint, read.segments);
    out(DumpItem::Checkpoint {
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
        out(DumpItem::Segment {
            slot,
            state: format!("{:?}", segment.phase).to_lowercase(),
            stream: segment.stream.0,
            live_sectors: segment.live,
            seq: segment.seq.0,
            wear: segment.wear,
        });
    }
    let found = behind(&store, superblock, &checkpoint).await?;
    for (n, record) in (1..).zip(&found.records) {
        out(DumpItem::Record {
            seq: checkpoint.cut.0 + n,
            slot: record.slot.0,
            segment: record.segment.0,
            offset: record.offset,
            continues: record.continues,
            entries: record
                .entries
                .iter()
                .map(|entry| format!("{entry:?}"))
                .collect(),
        });
    }
    Ok(())
}
