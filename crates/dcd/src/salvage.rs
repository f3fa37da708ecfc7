//! Salvage: bringing home what was lost with a log that was given up, and can be read from it now.
//!
//! A log that was given up names the sectors whose newest data could not be read from it. Its device
//! may give them back later. What stands in the log under the right checksum, and is the newest that
//! the log has of these sectors, is what was lost; nothing else is brought home, since all else is
//! there, or was written since. Only if the whole chain of records is found is it certain that it is
//! the newest.
//!
//! What was written to these sectors since, past the volume or just before a crash, nobody knows:
//! that would be replaced. So this is done only on an administrator's word.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_log::{OpenError, RingGeometry, SuperblockCopies};
use forebay_units::{ByteLen, SECTOR_BYTES};
use serde::Serialize;

use crate::format::{DataIdentity, Payload};
use crate::map::Map;
use crate::piece::Piece;
use crate::recover::{apply, fits};

/// Why nothing can be salvaged. Nothing was changed, but for [`SalvageError::Device`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum SalvageError {
    /// It is no log, or cannot be read.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// It is the log of something else.
    #[error("the log is not a write cache's: its superblock holds no description of a data device")]
    NotOurs,
    /// It counts still.
    #[error("this log was not given up: attaching recovers what it holds")]
    NotAbandoned,
    /// Not all of its records are found, so older data might be taken for the newest.
    #[error(
        "not all of the log's records can be found, so what it holds may not be the newest: {0}; try \
         again when its device works"
    )]
    Incomplete(String),
    /// The data device is not the one the log belongs to.
    #[error("this is not the data device that the log belongs to: {0}")]
    OtherData(String),
    /// A device failed. What is home by then is named as lost still, and can be salvaged again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What of the data that was lost with a log can be, or was, brought home.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SalvageReport {
    /// Bytes that the log says were lost.
    pub lost_bytes: u64,
    /// Of these, bytes that can be read from it now; after [`salvage`] they are home.
    pub found_bytes: u64,
    /// Bytes that cannot be read, or do not match their checksum.
    pub unreadable_bytes: u64,
    /// Bytes of which the log does not say where they are: it has no room to name more ranges.
    pub unnamed_bytes: u64,
    /// What was found: byte ranges of the volume, first byte and length, in order.
    pub found_ranges: Vec<(u64, u64)>,
}

/// A log that was given up, with what is needed to read it.
struct Abandoned {
    log: Rc<dyn Device>,
    copies: SuperblockCopies,
    payload: Payload,
    ring: RingGeometry,
    /// Pieces with live sectors that are lost, in the order of the log.
    pieces: Vec<Piece>,
}

/// Says what [`salvage`] would bring home now. Changes nothing.
///
/// # Errors
/// If it is no log that was given up, or not all of its records can be found.
pub async fn salvageable(log: Rc<dyn Device>) -> Result<SalvageReport, SalvageError> {
    let abandoned = Abandoned::open(log).await?;
    let mut found = Vec::new();
    for piece in &abandoned.pieces {
        if abandoned.read(piece).await.is_some() {
            found.extend(abandoned.lost_in(*piece));
        }
    }
    Ok(abandoned.report(found))
}

/// Brings home what was lost with a log that was given up and can be read now; then the log no longer
/// names it as lost. `log` and `data` must be held exclusively. What was written to these sectors of
/// `data` since is replaced, unless it was written through the volume and that was closed.
///
/// # Errors
/// As for [`salvageable`]; if `data` is not the log's data device; if a device fails.
pub async fn salvage(
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    identity: &DataIdentity,
) -> Result<SalvageReport, SalvageError> {
    let mut abandoned = Abandoned::open(log).await?;
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
    forebay_log::rewrite_abandoned(&*abandoned.log, &abandoned.copies, layer).await?;
    Ok(report)
}

impl Abandoned {
    async fn open(log: Rc<dyn Device>) -> Result<Abandoned, SalvageError> {
        let copies = forebay_log::read_superblocks(&*log).await?;
        let superblock = copies.newest().map_err(OpenError::from)?.clone();
        let payload = Payload::decode(&superblock.layer).ok_or(SalvageError::NotOurs)?;
        if !superblock.abandoned {
            return Err(SalvageError::NotAbandoned);
        }
        forebay_log::fits_device(&superblock, &*log)?;
        let ring = RingGeometry::of(&superblock);
        let mut abandoned = Abandoned {
            log,
            copies,
            payload,
            ring,
            pieces: Vec::new(),
        };
        if abandoned.payload.lost.is_empty() {
            return Ok(abandoned);
        }
        let mut map = Map::new(ring);
        let mut unfit = None;
        let payload = &abandoned.payload;
        let scan = forebay_log::scan(&*abandoned.log, &superblock, &mut |record| {
            match fits(record, payload) {
                Ok(()) => apply(&mut map, record),
                Err(why) => drop(unfit.get_or_insert((record.seq, why))),
            };
        })
        .await?;
        if let Some((record, why)) = unfit {
            return Err(OpenError::Unfit { record, why }.into());
        }
        if let Some(damage) = scan.damage {
            return Err(SalvageError::Incomplete(damage.to_string()));
        }
        let pieces = map.all_pieces();
        let lost = |piece: &Piece| abandoned.lost_in(*piece).next().is_some();
        let mut pieces: Vec<Piece> = pieces.filter(lost).collect();
        pieces.sort_unstable_by_key(|piece| piece.addr);
        abandoned.pieces = pieces;
        Ok(abandoned)
    }

    /// The live sectors of a piece that are lost.
    fn lost_in(&self, piece: Piece) -> impl Iterator<Item = Range<u64>> {
        let runs = piece.live_runs();
        runs.flat_map(|run| {
            let lost = self.payload.lost.iter().map(|(at, n)| *at..at + n);
            lost.filter_map(move |lost| {
                let both = lost.start.max(run.start)..lost.end.min(run.end);
                (both.start < both.end).then_some(both)
            })
        })
    }

    /// The bytes of a piece, if they can be read and are what was written.
    async fn read(&self, piece: &Piece) -> Option<Vec<u8>> {
        let blocks = self.ring.blocks_around(piece.addr, piece.sectors.into());
        let buf = BufMut::to_fill((blocks.end - blocks.start) as usize);
        let bytes = self.log.read(blocks.start, buf).await.ok()?;
        let from = (piece.addr.bytes() - blocks.start) as usize;
        let bytes = &bytes[from..from + piece.bytes()];
        piece.is_sound(bytes).then(|| bytes.to_vec())
    }

    /// Whether the sectors may be written there. That the content is as it was cannot be asked for: it
    /// changed when the log's data went home, and since.
    fn belongs_to(&self, data: &dyn Device, identity: &DataIdentity) -> Result<(), SalvageError> {
        let (geometry, payload) = (data.geometry(), &self.payload);
        if geometry.len < payload.data.len {
            let (have, want) = (ByteLen(geometry.len), ByteLen(payload.data.len));
            let text =
                format!("it has {have}, the log's had {want}: it is another device, or it shrank");
            return Err(SalvageError::OtherData(text));
        }
        let block = u64::from(geometry.block_size);
        let blocks = |(at, n): &(u64, u64)| {
            (at * SECTOR_BYTES).is_multiple_of(block) && (n * SECTOR_BYTES).is_multiple_of(block)
        };
        let fits = payload.block_size.is_multiple_of(geometry.block_size);
        if !fits || !payload.lost.iter().all(blocks) {
            let text = format!("it has blocks of {block} bytes, and smaller ones were lost");
            return Err(SalvageError::OtherData(text));
        }
        let known = &payload.data.names;
        if !known.is_empty() && !identity.names.iter().any(|name| known.contains(name)) {
            let text = format!("that was known as {}", known.join(", "));
            return Err(SalvageError::OtherData(text));
        }
        Ok(())
    }

    fn report(&self, found: Vec<Range<u64>>) -> SalvageReport {
        let bytes = |sectors: u64| sectors * SECTOR_BYTES;
        let named: u64 = self.payload.lost.iter().map(|(_, n)| n).sum();
        let found_sectors: u64 = found.iter().map(|range| range.end - range.start).sum();
        let lost = self.payload.lost_sectors.max(named);
        SalvageReport {
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

/// Ranges in order, neighbours as one.
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

/// The ranges (first, how many) without what is in `found`, of which each lies in one of them.
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
