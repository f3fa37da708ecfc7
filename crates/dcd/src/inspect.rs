//! Read-only examination of a log: its volume, its integrity and its contents.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_device::{BufMut, CheckVerdict, Device, DeviceError, Durability};
use forebay_ring_log::{
    HEADER_BYTES, LogOpenError, RecoveredRecord, RingEntry, RingGeometry, RingSuperblock,
    SUPERBLOCK_A_AT, SUPERBLOCK_B_AT,
};
use forebay_units::{SECTOR_BYTES, Sector};
use serde::Serialize;

use crate::error::DcdAttachError;
use crate::format::{DataIdentity, SuperblockPayload};
use crate::map::{CacheMap, LogFragment};
use crate::pairing::judge;
use crate::recover::{SuperblockContents, apply, fits, info};
use crate::salvage::{LogSalvageReport, salvageable};
use crate::witness::{FailedLogRegistry, is_recorded};

/// Longest read of a check, in bytes.
const STEP: u64 = 1 << 20;

/// Reason why a log cannot be examined.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InspectError {
    /// The device holds no log, or cannot be read.
    #[error(transparent)]
    Log(#[from] LogOpenError),
    /// The log belongs to something other than a write cache.
    #[error(
        "the log does not belong to a write cache: its superblock does not describe a data device"
    )]
    NotOurs,
    /// The failed-log record cannot be read.
    #[error(
        "the failed-log record cannot be read, so this log may have been abandoned after a failure: {0}"
    )]
    Witness(std::sync::Arc<std::io::Error>),
    /// A device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Result of a check.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DcdCheckReport {
    /// Verdict.
    pub verdict: CheckVerdict,
    /// Contents of the superblock.
    pub info: SuperblockContents,
    /// True if a failed-log record forbids the use of the log.
    pub recorded_as_failed: bool,
    /// Valid records; 0 for an abandoned log.
    pub records: u64,
    /// Bytes whose newest data is in the log; 0 for an abandoned log.
    pub dirty_bytes: u64,
    /// Bytes of data read and compared with their checksums.
    pub bytes_checked: u64,
    /// Problems, one sentence each.
    pub problems: Vec<String>,
    /// Ranges of the volume, in bytes (first, length), whose newest data is damaged, or cannot be applied because of
    /// earlier damage.
    pub damaged_ranges: Vec<(u64, u64)>,
    /// Bytes of the data device behind the volume's end, which the next attach adds to the volume.
    pub grown_bytes: u64,
    /// Result of [`crate::salvageable`], for an abandoned log with lost data. `None` for other logs, or if the search
    /// failed; the reason is among the problems then.
    pub salvage: Option<LogSalvageReport>,
}

/// One structure of a log.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogDumpItem {
    /// A superblock.
    Superblock {
        /// Copy: `A` or `B`.
        copy: &'static str,
        /// Contents; `None` if the superblock is not valid.
        info: Option<SuperblockContents>,
        /// Reason why the superblock is not valid.
        error: Option<String>,
    },
    /// A record of the chain.
    Record {
        /// Sequence number.
        record: u64,
        /// Segment.
        segment: u64,
        /// Entries.
        extents: Vec<LogDumpEntry>,
    },
    /// End of the chain.
    End {
        /// Next segment to be written.
        next_segment: u64,
        /// Next record.
        next_record: u64,
        /// Newest record known to be durable.
        stable: u64,
        /// Missing part, if the chain ends too early.
        damage: Option<String>,
    },
}

/// One entry of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LogDumpEntry {
    /// `data`, `zero`, `unmap` (zero, with the space released), `discard` or `lost`.
    pub what: &'static str,
    /// First byte on the volume.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
    /// Position of the data on the log device, in bytes.
    pub log_at: Option<u64>,
    /// CRC32C of the data.
    pub crc32c: Option<u32>,
}

async fn superblock(log: &dyn Device) -> Result<(RingSuperblock, SuperblockPayload), InspectError> {
    let copies = forebay_ring_log::read_superblocks(log).await?;
    let newest = copies.newest().map_err(LogOpenError::from)?;
    let payload = SuperblockPayload::decode(&newest.layer).ok_or(InspectError::NotOurs)?;
    Ok((newest.clone(), payload))
}

/// Reads a log's superblock.
///
/// # Errors
/// If the device holds no log of a write cache.
pub async fn inspect(log: Rc<dyn Device>) -> Result<SuperblockContents, InspectError> {
    let (superblock, payload) = superblock(&*log).await?;
    Ok(info(&superblock, &payload))
}

/// Checks a log in the same way as recovery, and also all live data. Changes nothing. `progress` receives the bytes
/// done and the total bytes.
///
/// # Errors
/// If the device holds no log of a write cache, or cannot be read.
pub async fn check(
    log: Rc<dyn Device>,
    data: Option<(Rc<dyn Device>, DataIdentity)>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DcdCheckReport, InspectError> {
    check_witnessed(log, data, None, progress).await
}

/// Checks a log like [`check`], with storage for failed-log records.
///
/// # Errors
/// As for [`check`]. Also if the failed-log record cannot be read.
pub async fn check_witnessed(
    log: Rc<dyn Device>,
    data: Option<(Rc<dyn Device>, DataIdentity)>,
    witness: Option<&dyn FailedLogRegistry>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DcdCheckReport, InspectError> {
    let copies = forebay_ring_log::read_superblocks(&*log).await?;
    let (superblock, payload) = superblock(&*log).await?;
    let mut problems = Vec::new();
    for (name, copy) in [("A", &copies.a), ("B", &copies.b)] {
        if let Err(error) = copy {
            problems.push(format!("copy {name} of the superblock: {error}"));
        }
    }
    forebay_ring_log::fits_device(&superblock, &*log)?;
    let recorded = is_recorded(witness, superblock.volume, superblock.epoch.0).await;
    let recorded = recorded.map_err(|error| InspectError::Witness(std::sync::Arc::new(error)))?;
    if superblock.abandoned || recorded {
        return Ok(check_abandoned(&log, &superblock, &payload, problems, recorded).await);
    }
    let map = RefCell::new(CacheMap::new(RingGeometry::of(&superblock)));
    let mut unfit = None;
    let scan = forebay_ring_log::scan(&*log, &superblock, &mut |record| {
        let fit = fits(record, &payload);
        match fit {
            Ok(()) => apply(&mut map.borrow_mut(), record),
            Err(why) => drop(unfit.get_or_insert((record.seq, why))),
        }
    })
    .await?;
    if let Some((record, why)) = unfit {
        problems.push(LogOpenError::Unfit { record, why }.to_string());
    }
    let map = map.into_inner();
    let mut unapplied = Vec::new();
    if let Some(damage) = &scan.damage {
        problems.push(damage.to_string());
        let bytes = |(start, sectors): &(Sector, u64)| (start.bytes(), sectors * SECTOR_BYTES);
        unapplied.extend(damage.later.iter().map(bytes));
    }
    let pair = data.as_ref().map(|(data, identity)| (&**data, identity));
    let grown_bytes = check_pair(&superblock, &payload, pair, &mut problems).await?;
    let (bytes_checked, mut damaged_ranges) = check_data(&*log, &map, progress).await;
    if !damaged_ranges.is_empty() {
        problems.push(format!(
            "{} ranges of data are damaged",
            damaged_ranges.len()
        ));
    }
    damaged_ranges.extend(unapplied);
    damaged_ranges.sort_unstable();
    let verdict = match (problems.is_empty(), map.is_empty()) {
        (false, _) => CheckVerdict::Damaged,
        (true, true) => CheckVerdict::Clean,
        (true, false) => CheckVerdict::Dirty,
    };
    Ok(DcdCheckReport {
        verdict,
        info: info(&superblock, &payload),
        recorded_as_failed: false,
        records: scan.records,
        dirty_bytes: map.live_sectors() * SECTOR_BYTES,
        bytes_checked,
        problems,
        damaged_ranges,
        grown_bytes,
        salvage: None,
    })
}

/// Reports on a log that was abandoned, according to its superblock or to the failed-log record. Its records are old
/// data: they are neither counted nor compared with the data device.
async fn check_abandoned(
    log: &Rc<dyn Device>,
    superblock: &RingSuperblock,
    payload: &SuperblockPayload,
    mut problems: Vec<String>,
    recorded_as_failed: bool,
) -> DcdCheckReport {
    // A log that could not be marked lists no lost data.
    let lists_lost = superblock.abandoned && payload.lost_sectors > 0;
    let salvage = look_for_lost(lists_lost.then_some(log), &mut problems).await;
    if lists_lost {
        problems.push("the log failed in use and was abandoned".into());
    }
    DcdCheckReport {
        verdict: if lists_lost {
            CheckVerdict::Damaged
        } else {
            CheckVerdict::Abandoned
        },
        info: info(superblock, payload),
        recorded_as_failed,
        records: 0,
        dirty_bytes: 0,
        bytes_checked: 0,
        problems,
        damaged_ranges: Vec::new(),
        grown_bytes: 0,
        salvage,
    }
}

/// Checks whether a log and a data device belong together. Returns the number of bytes by which the device is longer
/// than the volume.
async fn check_pair(
    superblock: &RingSuperblock,
    payload: &SuperblockPayload,
    data: Option<(&dyn Device, &DataIdentity)>,
    problems: &mut Vec<String>,
) -> Result<u64, InspectError> {
    let Some((data, identity)) = data else {
        return Ok(0);
    };
    match judge(payload, superblock.clean, data, identity, false).await {
        Ok(judged) => return Ok(judged.len - payload.data.len),
        Err(DcdAttachError::Device(error)) => return Err(error.into()),
        Err(error) => problems.push(error.to_string()),
    }
    Ok(0)
}

/// Returns the lost data of an abandoned log that can be read now. `None` without a log, or if the search fails.
async fn look_for_lost(
    log: Option<&Rc<dyn Device>>,
    problems: &mut Vec<String>,
) -> Option<LogSalvageReport> {
    let found = salvageable(Rc::clone(log?)).await;
    let noted = found.map_err(|error| {
        problems.push(format!("the search for lost data failed: {error}"));
    });
    noted.ok()
}

/// Compares every live fragment with its checksum, in the order of the log.
async fn check_data(
    log: &dyn Device,
    map: &CacheMap,
    progress: &mut dyn FnMut(u64, u64),
) -> (u64, Vec<(u64, u64)>) {
    let ring = map.ring();
    let mut pieces: Vec<LogFragment> = map.all_pieces().collect();
    pieces.sort_unstable_by_key(|piece| piece.addr);
    let total: u64 = pieces.iter().map(|piece| piece.bytes() as u64).sum();
    let (mut done, mut damaged, mut rest) = (0, Vec::new(), pieces.as_slice());
    while let Some(first) = rest.first() {
        let start = ring.blocks_around(first.addr, 1).start;
        let near = |piece: &&LogFragment| piece.addr.bytes() + piece.bytes() as u64 <= start + STEP;
        let count = rest.iter().take_while(near).count().max(1);
        let (run, after) = rest.split_at(count);
        rest = after;
        let last = &run[count - 1];
        let end = ring.blocks_around(last.addr, last.sectors.into()).end;
        let bytes = log
            .read(start, BufMut::to_fill((end - start) as usize))
            .await
            .ok();
        for piece in run {
            let from = (piece.addr.bytes() - start) as usize;
            let data = bytes
                .as_ref()
                .map(|bytes| &bytes[from..from + piece.bytes()]);
            if !data.is_some_and(|data| piece.is_sound(data)) {
                let runs = piece.live_runs();
                damaged.extend(
                    runs.map(|r| (r.start * SECTOR_BYTES, (r.end - r.start) * SECTOR_BYTES)),
                );
            }
            done += piece.bytes() as u64;
        }
        progress(done, total);
    }
    damaged.sort_unstable();
    (total, damaged)
}

fn dump_record(record: &RecoveredRecord) -> LogDumpItem {
    let extents = record.entries.iter().map(|placed| match placed.entry {
        RingEntry::Data {
            sector,
            sectors,
            crc,
        } => LogDumpEntry {
            what: "data",
            at: sector.bytes(),
            len: u64::from(sectors) * SECTOR_BYTES,
            log_at: Some(placed.addr.bytes()),
            crc32c: Some(crc),
        },
        RingEntry::Range {
            kind,
            sector,
            sectors,
        } => LogDumpEntry {
            what: match kind {
                forebay_ring_log::RangeKind::Zero => "zero",
                forebay_ring_log::RangeKind::Unmap => "unmap",
                forebay_ring_log::RangeKind::Discard => "discard",
                forebay_ring_log::RangeKind::Lost => "lost",
            },
            at: sector.0.saturating_mul(SECTOR_BYTES),
            len: sectors.saturating_mul(SECTOR_BYTES),
            log_at: None,
            crc32c: None,
        },
    });
    let (segment, extents) = (record.segment.0, extents.collect());
    LogDumpItem::Record {
        record: record.seq.0,
        segment,
        extents,
    }
}

/// Passes every valid structure of a log to `out`, in the log's order. Changes nothing.
///
/// # Errors
/// If the device holds no log, or cannot be read. The superblocks are passed to `out` before.
pub async fn dump(
    log: Rc<dyn Device>,
    out: &mut dyn FnMut(LogDumpItem),
) -> Result<(), InspectError> {
    let copies = forebay_ring_log::read_superblocks(&*log).await?;
    for (copy, found) in [("A", &copies.a), ("B", &copies.b)] {
        let payload = |superblock: &RingSuperblock| SuperblockPayload::decode(&superblock.layer);
        let info = found
            .as_ref()
            .ok()
            .and_then(|s| payload(s).map(|p| info(s, &p)));
        let error = found.as_ref().err().map(ToString::to_string);
        out(LogDumpItem::Superblock { copy, info, error });
    }
    let superblock = copies.newest().map_err(LogOpenError::from)?.clone();
    forebay_ring_log::fits_device(&superblock, &*log)?;
    let scan =
        forebay_ring_log::scan(&*log, &superblock, &mut |record| out(dump_record(record))).await?;
    out(LogDumpItem::End {
        next_segment: scan.next_segment.0,
        next_record: scan.next_record.0,
        stable: scan.stable.0,
        damage: scan
            .damage
            .map(|damage| LogOpenError::Damaged(damage).to_string()),
    });
    Ok(())
}

/// Erases both superblocks, so that the device is no longer recognised as a log.
///
/// # Errors
/// The device's.
pub async fn erase(log: Rc<dyn Device>) -> Result<(), DeviceError> {
    for at in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
        log.write(at, BufMut::zeroed(HEADER_BYTES).freeze(), Durability::Fua)
            .await?;
    }
    Ok(())
}
