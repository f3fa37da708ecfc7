//! Growing: adds segments to a volume whose device became longer, and sectors for its clients, while the volume is in
//! use.
//!
//! The superblock records both numbers. A checkpoint writes it together with the table of segments, so a crash leaves
//! the volume either unchanged or grown (`checkpoint.rs::make_checkpoint`). The new segments are free only when that
//! checkpoint is valid: no segment is opened that recovery does not know of.
//!
//! A checkpoint writes all of a table that becomes longer. The existing segments must have free space for this
//! checkpoint, and for another checkpoint if a crash interrupts the first. So one checkpoint makes a volume at most
//! twice as large, and less if little space is free (`room.rs`). Clients get their sectors with the last of these
//! checkpoints.

use std::rc::Rc;

use forebay_device::{Device, DeviceError};
use forebay_units::ByteLen;

use crate::changed::checkpoint_segments;
use crate::error::SpaceError;
use crate::format::TABLE_CHUNK_SEGMENTS;
use crate::geometry::SegmentLayout;
use crate::space::{Space, SpaceInner};
use crate::volume_change::VolumeChange;

/// The reason that a volume cannot grow.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GrowError {
    /// The device became shorter.
    #[error(
        "the device has {have} now, but the volume uses {need} of it: a volume cannot become smaller. Restore the \
         device's length; until then, requests for data beyond its end fail"
    )]
    Shrunk {
        /// Length of the device.
        have: ByteLen,
        /// The length that the volume uses.
        need: ByteLen,
    },
    /// The device failed to report its length.
    #[error("the device fails to report its length: {0}")]
    Device(#[from] DeviceError),
    /// The volume failed.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl SpaceInner {
    /// Returns the number of segments that a volume of `now` segments can have after one checkpoint, at most `wanted`.
    /// Free space is required for this checkpoint, and for another checkpoint of the unchanged volume if a crash
    /// interrupts the first. The cleaner always keeps enough space free for one more chunk of the table.
    fn segments_that_fit(&self, now: u32, wanted: u32) -> u32 {
        let changed = self.map.borrow().dirty_bytes();
        let streams = self.commit.composer();
        let changed = changed + streams.frozen_bytes;
        let (layout, queued) = (streams.layout, streams.table.queued());
        let needs = |segments| {
            let longer = layout.of_at_least(segments);
            checkpoint_segments(&longer, changed) + checkpoint_segments(&layout, changed) + 1
        };
        let chunk = TABLE_CHUNK_SEGMENTS as u32;
        let mut more = wanted - now;
        while more > chunk && needs(now + more) > queued {
            more = (more / 2).max(chunk);
        }
        now + more
    }
}

impl Space {
    /// Returns the device of the volume.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.inner.device
    }

    /// Returns the current layout, and the layout that would use the whole device at its current length.
    ///
    /// # Errors
    /// The device is shorter than the volume, or fails to report its length.
    pub fn layouts(&self) -> Result<(SegmentLayout, SegmentLayout), GrowError> {
        let have = self.inner.device.refresh_len()?;
        let now = SegmentLayout::of(&self.superblock());
        if have < now.len {
            Err(GrowError::Shrunk {
                have: ByteLen(have),
                need: ByteLen(now.len),
            })
        } else {
            Ok((now, now.on_longer(have)))
        }
    }

    /// Uses the whole device at its current length, and grows the space to `sectors` sectors if it is shorter.
    ///
    /// # Errors
    /// The device became shorter, or failed. The volume then has its old size, or a part of the growth.
    pub async fn grow(&self, sectors: u64) -> Result<(), GrowError> {
        let (_, wanted) = self.layouts()?;
        loop {
            let now = {
                let superblock = self.superblock();
                (superblock.segment_count, superblock.space_sectors)
            };
            if now.0 >= wanted.segment_count && now.1 >= sectors {
                return Ok(());
            }
            let segments = now.0.saturating_mul(2).min(wanted.segment_count);
            let segments = self.inner.segments_that_fit(now.0, segments);
            let change = VolumeChange {
                segments,
                space_sectors: if segments == wanted.segment_count {
                    sectors
                } else {
                    now.1
                },
                placement: None,
            };
            let made = self.inner.checkpoint_with(Some(change)).await;
            made.map_err(SpaceError::Failed)?;
        }
    }
}
