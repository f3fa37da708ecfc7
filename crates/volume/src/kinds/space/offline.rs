//! A log-structured volume that is not in use: its superblock, and a check of all of it.
//!
//! The check recovers the volume on a device whose changes stay in memory, and then reads everything. So its findings
//! are those that attaching would have.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, CheckVerdict, Device, DeviceError, Durability, MemoryOverlay};
use forebay_rt::Rt;
use forebay_segment_log::{FormatError, PLACES, PairError, SuperblockPair, read_copies};
use forebay_units::{SECTOR_BYTES, Sector};
use forebay_vsl::{
    SegmentLayout, Space, SpaceError, SpaceOpenError, SpaceSettings, SpaceSuperblock, fits_device,
    open, pending,
};
use serde::Serialize;

use super::hint::damaged_copy;

/// Bytes read at a time.
const READ_BYTES: u64 = 1 << 20;
/// Maximum number of ranges that are listed.
const RANGES_MAX: usize = 64;
/// Bytes erased at each superblock.
const SUPERBLOCK_BYTES: usize = 4096;

/// Findings of a check.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SpaceCheck {
    /// Verdict.
    pub(crate) verdict: CheckVerdict,
    /// The volume's id.
    pub(crate) volume: String,
    /// Version of the format.
    pub(crate) format_version: u32,
    /// Placement of data.
    pub(crate) placement: String,
    /// The volume's length in bytes.
    pub(crate) len: u64,
    /// Bytes in a segment.
    pub(crate) segment_bytes: u64,
    /// Number of segments on the device.
    pub(crate) segment_count: u64,
    /// Epoch: number of times that the volume was attached.
    pub(crate) epoch: u64,
    /// Records after the newest checkpoint that recovery would apply.
    pub(crate) records: u64,
    /// Bytes changed by these records.
    pub(crate) dirty_bytes: u64,
    /// Mapped bytes.
    pub(crate) mapped_bytes: u64,
    /// Bytes that can be mapped.
    pub(crate) mappable_bytes: u64,
    /// Bytes read and verified by checksum.
    pub(crate) bytes_checked: u64,
    /// Bytes that cannot be read.
    pub(crate) damaged_bytes: u64,
    /// The first ranges that cannot be read: first byte and length.
    pub(crate) damaged_ranges: Vec<(u64, u64)>,
    /// Bytes of the device that could become whole segments, but are unused because the device grew.
    pub(crate) grown_bytes: u64,
    /// Problems, in words.
    pub(crate) problems: Vec<String>,
}

/// Reads both superblocks.
///
/// # Errors
/// If the device is too short for them.
pub(crate) async fn superblocks(
    device: &dyn Device,
) -> Result<SuperblockPair<SpaceSuperblock>, PairError> {
    read_copies(device).await
}

/// Returns the valid superblock.
///
/// # Errors
/// If no superblock is valid, or the device cannot hold its volume.
pub(crate) async fn inspect(device: &dyn Device) -> Result<SpaceSuperblock, SpaceOpenError> {
    let copies = superblocks(device).await?;
    let superblock = copies.newest_readable()?.clone();
    Ok(superblock)
}

/// A space recognised on a device.
pub(crate) struct FoundSpace {
    /// Id of the volume; the error if no superblock can be read.
    pub(crate) volume: Result<String, FormatError>,
    /// True if the space belongs to a filesystem.
    pub(crate) is_of_files: bool,
}

/// Returns the space on a device, if it holds one. A space that cannot be read counts, because it is damaged or has
/// another version.
pub(crate) async fn find(device: &dyn Device) -> Option<FoundSpace> {
    let copies = superblocks(device).await.ok()?;
    let readable = copies.newest_readable().ok();
    let intact = || {
        [&copies.a, &copies.b]
            .into_iter()
            .find_map(|copy| copy.as_ref().ok())
    };
    if let Some(superblock) = readable.or_else(intact) {
        return Some(FoundSpace {
            volume: Ok(superblock.id().to_string()),
            is_of_files: is_of_files(superblock),
        });
    }
    let broken = |copy: &Result<SpaceSuperblock, FormatError>| match copy {
        Err(FormatError::Magic(_)) | Ok(_) => None,
        Err(error) => Some(FoundSpace {
            volume: Err(*error),
            is_of_files: false,
        }),
    };
    [&copies.a, &copies.b].into_iter().find_map(broken)
}

/// Checks a volume: superblocks, checkpoint, records, map and data. Changes nothing. `progress` receives the bytes done
/// and the total bytes.
///
/// # Errors
/// If the device does not hold a volume, or fails.
pub(crate) async fn check(
    rt: &Rt,
    device: &Rc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SpaceCheck, SpaceOpenError> {
    Ok(look(rt, device, progress).await?.report)
}

/// Result of inspecting a space that is not in use.
pub(crate) struct SpaceInspection {
    /// Report of the check.
    pub(crate) report: SpaceCheck,
    /// The first ranges of sectors that cannot be read.
    pub(crate) damaged: Vec<Range<u64>>,
    /// The space as recovery leaves it, in memory, if it could be recovered.
    pub(crate) space: Option<Space>,
}

/// Checks a volume as [`check`] does, and also returns the recovered space for further inspection.
///
/// # Errors
/// As [`check`].
pub(crate) async fn look(
    rt: &Rt,
    device: &Rc<dyn Device>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SpaceInspection, SpaceOpenError> {
    let copies = superblocks(&**device).await?;
    let superblock = copies.newest_readable()?.clone();
    let mut report = blank(&superblock);
    report.problems.extend(damaged_copy(&copies));
    fits_device(&superblock, &**device)?;
    report.grown_bytes = grown_bytes(&superblock, &**device);
    let overlay: Rc<dyn Device> = Rc::new(MemoryOverlay::new(Rc::clone(device)));
    let (mut damaged, mut taken_up) = (Vec::new(), None);
    let looked = async {
        let pending = pending(&overlay, &superblock).await?;
        report.records = pending.records;
        report.dirty_bytes = pending.bytes;
        if pending.entries > 0 {
            report.verdict = CheckVerdict::Dirty;
        }
        // Opened without background work: nothing is cleaned here.
        let (space, _, _) = open(
            rt.clone(),
            Rc::clone(&overlay),
            SpaceSettings::default(),
            false,
        )
        .await?;
        taken_up = Some(space.clone());
        read_all(&space, &mut report, &mut damaged, progress).await
    };
    match looked.await {
        Ok(()) => {}
        Err(SpaceOpenError::Device(error)) => return Err(SpaceOpenError::Device(error)),
        Err(error) => {
            report.verdict = CheckVerdict::Damaged;
            report.problems.push(error.to_string());
            report.problems.extend(lost_records(&error));
        }
    }
    if !damaged.is_empty() {
        report.verdict = CheckVerdict::Damaged;
    }
    if !is_of_files(&superblock) {
        let in_bytes = |run: &Range<u64>| (run.start * SECTOR_BYTES, run.end - run.start);
        let ranges = damaged.iter().map(in_bytes);
        let ranges = ranges.map(|(at, sectors)| (at, sectors * SECTOR_BYTES));
        report.damaged_ranges = ranges.collect();
    }
    Ok(SpaceInspection {
        report,
        damaged,
        space: taken_up,
    })
}

/// Returns true if a space belongs to a filesystem. Such a space is longer than any space served as a block device,
/// which ends at 2^63 bytes.
pub(crate) fn is_of_files(superblock: &SpaceSuperblock) -> bool {
    superblock.space_sectors > i64::MAX as u64 / SECTOR_BYTES
}

/// Describes the loss from missing records.
fn lost_records(error: &SpaceOpenError) -> Option<String> {
    let SpaceOpenError::Damaged { missing, stable } = error else {
        return None;
    };
    let records = (stable.0 + 1).saturating_sub(missing.0);
    Some(format!(
        "attaching with --accept-loss would lose {records} flushed records and all later ones; the amount of data in \
         them is unknown"
    ))
}

fn blank(superblock: &SpaceSuperblock) -> SpaceCheck {
    SpaceCheck {
        verdict: CheckVerdict::Clean,
        volume: superblock.id().to_string(),
        format_version: superblock.version(),
        placement: superblock.placement.to_string(),
        len: superblock.space_sectors.saturating_mul(SECTOR_BYTES),
        segment_bytes: superblock.segment_bytes.into(),
        segment_count: superblock.segment_count.into(),
        epoch: superblock.epoch.0,
        records: 0,
        dirty_bytes: 0,
        mapped_bytes: 0,
        mappable_bytes: 0,
        bytes_checked: 0,
        damaged_bytes: 0,
        damaged_ranges: Vec::new(),
        grown_bytes: 0,
        problems: Vec::new(),
    }
}

/// Returns the bytes of a device that its volume could use but does not use yet.
pub(super) fn grown_bytes(superblock: &SpaceSuperblock, device: &dyn Device) -> u64 {
    let layout = SegmentLayout::of(superblock);
    let wanted = layout.on_longer(device.geometry().len);
    u64::from(wanted.segment_count - layout.segment_count) * u64::from(layout.segment_bytes)
}

/// Recovers a volume for reading, on an overlay that keeps changes in memory.
///
/// # Errors
/// If it cannot be recovered.
pub(crate) async fn in_memory(rt: &Rt, device: &Rc<dyn Device>) -> Result<Space, SpaceOpenError> {
    let overlay: Rc<dyn Device> = Rc::new(MemoryOverlay::new(Rc::clone(device)));
    let (space, _, _) = open(rt.clone(), overlay, SpaceSettings::default(), false).await?;
    Ok(space)
}

/// Reads everything that is mapped.
async fn read_all(
    space: &Space,
    report: &mut SpaceCheck,
    damaged: &mut Vec<Range<u64>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), SpaceOpenError> {
    let capacity = space.capacity();
    report.mapped_bytes = capacity.mapped;
    report.mappable_bytes = capacity.mappable;
    let (mut at, end) = (0, space.sectors());
    while at < end {
        let next = space.next_mapped(at..end).await;
        let run = match next {
            Ok(Some(run)) => run,
            Ok(None) => break,
            Err(SpaceError::Node(place, error)) => return Err(SpaceOpenError::Node(place, error)),
            Err(SpaceError::Device(error)) => return Err(SpaceOpenError::Device(error)),
            Err(error) => {
                report.problems.push(error.to_string());
                report.verdict = CheckVerdict::Damaged;
                break;
            }
        };
        at = run.start;
        while at < run.end {
            let sectors = (run.end - at).min(READ_BYTES / SECTOR_BYTES);
            read_run(space, at, sectors, report, damaged).await?;
            at += sectors;
            progress(report.bytes_checked, capacity.mapped);
        }
    }
    Ok(())
}

/// Reads an extent; if part of it is damaged, reads it block by block.
async fn read_run(
    space: &Space,
    at: u64,
    sectors: u64,
    report: &mut SpaceCheck,
    damaged: &mut Vec<Range<u64>>,
) -> Result<(), SpaceOpenError> {
    let read = async |at: u64, sectors: u64| {
        let buf = BufMut::zeroed((sectors * SECTOR_BYTES) as usize);
        space.read(Sector(at), buf).await.map(|_| ())
    };
    report.bytes_checked += sectors * SECTOR_BYTES;
    match read(at, sectors).await {
        Ok(()) => return Ok(()),
        Err(SpaceError::Node(place, error)) => return Err(SpaceOpenError::Node(place, error)),
        Err(_) => {}
    }
    let (mut one, mut fails) = (at, None);
    while one < at + sectors {
        let line = (8 - one % 8).min(at + sectors - one);
        if let Err(error) = read(one, line).await {
            report.damaged_bytes += line * SECTOR_BYTES;
            note(damaged, one..one + line);
            fails = fails.or(match error {
                SpaceError::Device(error) => Some(format!("the device fails: {error}")),
                _ => None,
            });
        }
        one += line;
    }
    // The device fault is listed only once: a later check may succeed.
    let said = report
        .problems
        .iter()
        .any(|said| said.starts_with("the device fails"));
    report.problems.extend(fails.filter(|_| !said));
    Ok(())
}

/// Lists an extent that cannot be read, and merges it with the one before if they are adjacent.
fn note(damaged: &mut Vec<Range<u64>>, run: Range<u64>) {
    let listed = damaged.len();
    match damaged.last_mut() {
        Some(before) if before.end == run.start => before.end = run.end,
        _ if listed < RANGES_MAX => damaged.push(run),
        _ => {}
    }
}

/// Erases the structures by which a volume is recognised.
///
/// # Errors
/// Those of the device.
pub(crate) async fn erase(device: &dyn Device) -> Result<(), DeviceError> {
    for at in PLACES {
        let zeroes = BufMut::zeroed(SUPERBLOCK_BYTES).freeze();
        device.write(at, zeroes, Durability::Fua).await?;
    }
    Ok(())
}
