//! Salvage: moves lost data of an abandoned log to the data device, if it can be read from the log after all.
//!
//! An abandoned log names the sectors whose newest data could not be read. Its device may return this data later. Data
//! is lost data if the log holds it with a matching checksum, as the newest data of sectors that are named as lost.
//! Salvage writes nothing else: all other data is already on the data device, or was overwritten since. Only a complete
//! chain of records proves that the data is the newest in the log.
//!
//! Salvage would also replace data that was written to these sectors later, without the volume or just before a crash.
//! Such writes cannot be detected, so salvage runs only at an administrator's command.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_ring_log::{LogOpenError, RingGeometry, RingSuperblockPair};
use forebay_units::{ByteLen, SECTOR_BYTES};
use serde::Serialize;

use crate::format::{DataIdentity, SuperblockPayload};
use crate::map::CacheMap;
use crate::piece::LogFragment;
use crate::recover::{apply, fits};

/// Reason why nothing can be salvaged. No device was changed, except with [`SalvageError::Device`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum SalvageError {
    /// The device holds no log, or cannot be read.
    #[error(transparent)]
    Log(#[from] LogOpenError),
    /// The log belongs to something other than a write cache.
    #[error(
        "the log does not belong to a write cache: its superblock does not describe a data device"
    )]
    NotOurs,
    /// The log was not abandoned and is still valid.
    #[error("this log was not abandoned: attaching recovers its data")]
    NotAbandoned,
    /// Some of the log's records are missing, so older data might be taken for the newest.
    #[error(
        "some records of the log are missing, so its data may not be the newest: {0}; try again when the log \
         device works"
    )]
    Incomplete(String),
    /// The data device is not the device that the log belongs to.
    #[error("this is not the data device that the log belongs to: {0}")]
    OtherData(String),
    /// A device failed. Data that was already written is still named as lost, and can be salvaged again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Lost data of a log that can be salvaged, or was salvaged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LogSalvageReport {
    /// Bytes that the log records as lost.
    pub lost_bytes: u64,
    /// Lost bytes that can be read from the log now; after [`salvage`] they are on the data device.
    pub found_bytes: u64,
    /// Lost bytes that cannot be read, or do not match their checksum.
    pub unreadable_bytes: u64,
    /// Lost bytes at unknown positions: the superblock has no space to name more ranges.
    pub unnamed_bytes: u64,
    /// Ranges of the found data on the volume: first byte and length, in order.
    pub found_ranges: Vec<(u64, u64)>,
}

/// An abandoned log, with everything needed to read it.
struct AbandonedLog {
    log: Rc<dyn Device>,
    copies: RingSuperblockPair,
    payload: SuperblockPayload,
    ring: RingGeometry,
    /// Fragments with live sectors that are lost, in the order of the log.
    pieces: Vec<LogFragment>,
}

/// Reports the data that [`salvage`] would write now. Changes nothing.
///
/// # Errors
/// If the device holds no abandoned log, or some of its records are missing.
pub async fn salvageable(log: Rc<dyn Device>) -> Result<LogSalvageReport, SalvageError> {
    let abandoned = AbandonedLog::open(log).await?;
    let mut found = Vec::new();
    for piece in &abandoned.pieces {
        if abandoned.read(piece).await.is_some() {
            found.extend(abandoned.lost_in(*piece));
        }
    }
    Ok(abandoned.report(found))
}

/// Writes the lost data of an abandoned log to the data device, as far as the data can be read now. Afterwards the log
/// no longer names this data as lost. The caller must hold `log` and `data` exclusively. Data written to these sectors
/// of `data` in the meantime is replaced, unless it was written through the volume and the volume was closed.
///
/// # Errors
/// As for [`salvageable`]; if `data` is not the log's data device; if a device fails.
pub async fn salvage(
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    identity: &DataIdentity,
) -> Result<LogSalvageReport, SalvageError> {
    let mut abandoned = AbandonedLog::open(log).await?;
    abandoned.belongs_to(&*data, identity)?;
    let mut found = Vec::new();
    for piece in &abandoned.pieces {
        let Some(bytes) = abandoned.read(piece).await else {
            continue;
        };
        for range in abandoned.lost_in(*piece) {
            let at = |sector: u64| ((sector - piece.sector().0) * SECTOR_BYTES) as usize;
            let part = BufMut::copy_of(&bytes[at(range.start)..at(range.end)]).freeze();
            let home = range.start * SECTOR_BYTES;
            data.write(home, part, Durability::Flush).await?;
            found.push(range);
        }
    }
    if found.is_empty() {
        return Ok(abandoned.report(found));
    }
    data.flush().await?;
    let report = abandoned.report(found.clone());
    abandoned.payload.lost = without(&abandoned.payload.lost, &found);
    abandoned.payload.lost_sectors = (report.lost_bytes - report.found_bytes) / SECTOR_BYTES;
    let layer = abandoned.payload.encode();
    forebay_ring_log::rewrite_abandoned(&*abandoned.log, &abandoned.copies, layer).await?;
    Ok(report)
}

impl AbandonedLog {
    async fn open(log: Rc<dyn Device>) -> Result<AbandonedLog, SalvageError> {
        let copies = forebay_ring_log::read_superblocks(&*log).await?;
        let superblock = copies.newest().map_err(LogOpenError::from)?.clone();
        let payload = SuperblockPayload::decode(&superblock.layer).ok_or(SalvageError::NotOurs)?;
        if !superblock.abandoned {
            return Err(SalvageError::NotAbandoned);
        }
        forebay_ring_log::fits_device(&superblock, &*log)?;
        let ring = RingGeometry::of(&superblock);
        let mut abandoned = AbandonedLog {
            log,
            copies,
            payload,
            ring,
            pieces: Vec::new(),
        };
        if abandoned.payload.lost.is_empty() {
            return Ok(abandoned);
        }
        let mut map = CacheMap::new(ring);
        let mut unfit = None;
        let payload = &abandoned.payload;
        let scan = forebay_ring_log::scan(&*abandoned.log, &superblock, &mut |record| {
            let fit = fits(record, payload);
            match fit {
                Ok(()) => apply(&mut map, record),
                Err(why) => drop(unfit.get_or_insert((record.seq, why))),
            }
        })
        .await?;
        if let Some((record, why)) = unfit {
            return Err(LogOpenError::Unfit { record, why }.into());
        }
        if let Some(damage) = scan.damage {
            return Err(SalvageError::Incomplete(damage.to_string()));
        }
        let pieces = map.all_pieces();
        let lost = |piece: &LogFragment| abandoned.lost_in(*piece).next().is_some();
        let mut pieces: Vec<LogFragment> = pieces.filter(lost).collect();
        pieces.sort_unstable_by_key(|piece| piece.addr);
        abandoned.pieces = pieces;
        Ok(abandoned)
    }

    /// Returns the live sectors of a fragment that are lost.
    fn lost_in(&self, piece: LogFragment) -> impl Iterator<Item = Range<u64>> {
        let runs = piece.live_runs();
        runs.flat_map(|run| {
            let lost = self.payload.lost.iter().map(|(at, n)| *at..at + n);
            lost.filter_map(move |lost| {
                let both = lost.start.max(run.start)..lost.end.min(run.end);
                (both.start < both.end).then_some(both)
            })
        })
    }

    /// Returns the bytes of a fragment, if they can be read and match their checksum.
    async fn read(&self, piece: &LogFragment) -> Option<Vec<u8>> {
        let blocks = self.ring.blocks_around(piece.addr, piece.sectors.into());
        let buf = BufMut::to_fill((blocks.end - blocks.start) as usize);
        let bytes = self.log.read(blocks.start, buf).await.ok()?;
        let from = (piece.addr.bytes() - blocks.start) as usize;
        let bytes = &bytes[from..from + piece.bytes()];
        piece.is_sound(bytes).then(|| bytes.to_vec())
    }

    /// Checks that `data` is the log's data device and can hold the lost sectors. Its content cannot be compared: it
    /// changed when the log's data was written to it, and afterwards.
    ///
    /// # Errors
    /// [`SalvageError::OtherData`].
    fn belongs_to(&self, data: &dyn Device, identity: &DataIdentity) -> Result<(), SalvageError> {
        let (geometry, payload) = (data.geometry(), &self.payload);
        if geometry.len < payload.data.len {
            let (have, want) = (ByteLen(geometry.len), ByteLen(payload.data.len));
            let text = format!(
                "it has {have}, but the log's data device had {want}: it is another device, or it shrank"
            );
            return Err(SalvageError::OtherData(text));
        }
        let block = u64::from(geometry.block_size);
        let blocks = |(at, n): &(u64, u64)| {
            (at * SECTOR_BYTES).is_multiple_of(block) && (n * SECTOR_BYTES).is_multiple_of(block)
        };
        let fits = payload.block_size.is_multiple_of(geometry.block_size);
        if !fits || !payload.lost.iter().all(blocks) {
            let text =
                format!("it has blocks of {block} bytes, but the lost ranges need smaller blocks");
            return Err(SalvageError::OtherData(text));
        }
        let known = &payload.data.names;
        if !known.is_empty() && !identity.names.iter().any(|name| known.contains(name)) {
            let text = format!("the log's data device was known as {}", known.join(", "));
            return Err(SalvageError::OtherData(text));
        }
        Ok(())
    }

    fn report(&self, found: Vec<Range<u64>>) -> LogSalvageReport {
        let bytes = |sectors: u64| sectors * SECTOR_BYTES;
        let named: u64 = self.payload.lost.iter().map(|(_, n)| n).sum();
        let found_sectors: u64 = found.iter().map(|range| range.end - range.start).sum();
        let lost = self.payload.lost_sectors.max(named);
        LogSalvageReport {
            lost_bytes: bytes(lost),
            found_bytes: bytes(found_sectors),
            unreadable_bytes: bytes(named - found_sectors),
            unnamed_bytes: bytes(lost - named),
            found_ranges: joined(found)
                .map(|range| (bytes(range.start), bytes(range.end - range.start)))
                .collect(),
        }
    }
}

/// Sorts ranges, and merges adjacent ones.
fn joined(mut ranges: Vec<Range<u64>>) -> impl Iterator<Item = Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out.into_iter()
}

/// Returns the ranges (first, number of sectors) without those in `found`. Each range in `found` lies within one of the
/// ranges.
fn without(lost: &[(u64, u64)], found: &[Range<u64>]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let found: Vec<Range<u64>> = joined(found.to_vec()).collect();
    for (start, sectors) in lost {
        let (mut at, end) = (*start, start + sectors);
        for gone in &found {
            let gone = gone.start.clamp(at, end)..gone.end.clamp(at, end);
            if gone.start > at {
                left.push((at, gone.start - at));
            }
            at = at.max(gone.end);
        }
        if at < end {
            left.push((at, end - at));
        }
    }
    left
}
