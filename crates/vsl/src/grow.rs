//! A volume on a device that became longer gets more segments, and its users more sectors, while it is in use.
//!
//! Both are recorded in the superblock, which a checkpoint writes anew with the table of segments, so a crash leaves the
//! volume as it was or as it is to be (`checkpoint.rs::checkpoint_with`). Only when that checkpoint is valid, the new
//! segments are free: nothing is opened in a segment that recovery does not know of.
//!
//! A checkpoint writes the whole of a table that becomes longer, and there has to be room for that in the segments that
//! the volume has, and then for another checkpoint if a crash cuts it. So a volume becomes at most twice as large with
//! one checkpoint, and by less where less is free (`room.rs`). Users get their sectors with the last of these checkpoints.

use std::rc::Rc;

use forebay_device::{Device, DeviceError};
use forebay_units::ByteLen;

use crate::changed::checkpoint_segments;
use crate::checkpoint::Growth;
use crate::error::SpaceError;
use crate::format::TABLE_CHUNK_SEGMENTS;
use crate::geometry::Layout;
use crate::space::{Inner, Space};

/// Why a volume does not become longer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GrowError {
    /// The device became shorter.
    #[error(
        "the device has {have} now, and the volume uses {need} of it: a volume cannot be made smaller. Give the device \
         back its length; what lies behind its end gives errors until then"
    )]
    Shrunk {
        /// The device's length.
        have: ByteLen,
        /// The length that the volume uses.
        need: ByteLen,
    },
    /// The device cannot be asked.
    #[error("the device does not tell its length: {0}")]
    Device(#[from] DeviceError),
    /// The volume fails.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl Inner {
    /// How many segments a volume that has `now` may get with one checkpoint, `wanted` at most: there has to be room for that
    /// checkpoint, and for another of the volume as it is, if a crash cuts the first. One chunk of the table more is
    /// always within what the cleaner keeps free.
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
    /// The device that the volume is on.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.inner.device
    }

    /// The segments that the volume has, and those that it would have if it took all of its device, as long as that is now.
    ///
    /// # Errors
    /// If the device became shorter than what the volume uses, or cannot be asked.
    pub fn layouts(&self) -> Result<(Layout, Layout), GrowError> {
        let have = self.inner.device.refresh_len()?;
        let now = Layout::of(&self.superblock());
        match have < now.len {
            true => Err(GrowError::Shrunk {
                have: ByteLen(have),
                need: ByteLen(now.len),
            }),
            false => Ok((now, now.on_longer(have))),
        }
    }

    /// Takes all of the device, as long as that is now, and makes the space `sectors` sectors long, if it is shorter.
    ///
    /// # Errors
    /// If the device became shorter, cannot be asked, or fails. Then the volume has what it had, or a part of what it was to
    /// get.
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
            let growth = Growth {
                segments,
                space_sectors: match segments == wanted.segment_count {
                    true => sectors,
                    false => now.1,
                },
                placement: None,
            };
            let made = self.inner.checkpoint_with(Some(growth)).await;
            made.map_err(SpaceError::Failed)?;
        }
    }
}
