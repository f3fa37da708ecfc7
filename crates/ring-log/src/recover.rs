//! Formatting a log, and opening one after a stop or a crash.
//!
//! Recovery reads the superblocks and [`scan`]s the chain. Only if both succeed, recovery does in this order:
//! 1. flush, so that the records found cannot be lost;
//! 2. seal the last segment with a summary of its valid records, and wipe the leftovers beyond the end, there and
//!    further
//!    on, so that no later recovery can find them; flush;
//! 3. write the superblock of the new epoch, which begins in the next segment.
//!
//! After a crash at any point, recovery finds the same chain (I4): step 2 changes nothing in the chain, and until step
//! 3 the chain still starts at the old superblock.

use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability, ZeroedSpace};
use forebay_rt::Rt;
use forebay_segment_log::write_copies;
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::error::LogOpenError;
use crate::format::{HEADER_BYTES, RingSuperblock, SEGMENTS_AT, VolumeId};
use crate::ring::RingGeometry;
use crate::scan::{RecoveredRecord, ScanReport, scan};
use crate::state::{LogResumption, RingState};
use crate::write::{LogOptions, LogWorkers, RingLog};

/// Makes an empty log on `device`. Wipes the first MiB, since other systems could recognise the device by its content,
/// and writes both superblocks.
///
/// The log begins after `epoch`, which is 0 for a new volume. For another log of an existing volume it must be greater
/// than the epoch of every earlier log of the volume, because the device may still contain records of such a log.
///
/// # Errors
/// If the device fails.
pub async fn format_device(
    device: &dyn Device,
    ring: RingGeometry,
    volume: VolumeId,
    epoch: Epoch,
    layer: Vec<u8>,
) -> Result<(), DeviceError> {
    device
        .write_zeroes(0..SEGMENTS_AT, ZeroedSpace::Keep)
        .await?;
    device.flush().await?;
    let superblock = RingSuperblock {
        volume,
        generation: 1,
        epoch,
        epoch_segment: SegmentSeq(0),
        tail: SegmentSeq(0),
        tail_record: RecordSeq(1),
        stable: RecordSeq(0),
        len: ring.len,
        segment_bytes: ring.segment_bytes,
        segment_count: ring.segment_count,
        block: ring.block,
        clean: true,
        abandoned: false,
        gaps: false,
        layer,
    };
    write_copies(device, &superblock).await
}

/// Checks that the log of `superblock` can lie on this device. Callers must check before they use the superblock's
/// numbers for anything, such as an allocation.
///
/// # Errors
/// If the device is too short or has larger blocks.
pub fn fits_device(superblock: &RingSuperblock, device: &dyn Device) -> Result<(), LogOpenError> {
    let geometry = device.geometry();
    let (have, need) = (geometry.len, superblock.len);
    if have < need {
        return Err(LogOpenError::Truncated { have, need });
    }
    let (have, want) = (geometry.block_size, superblock.block);
    if !want.is_multiple_of(have) {
        return Err(LogOpenError::Block { have, want });
    }
    Ok(())
}

/// Result of recovery, for reports.
#[derive(Clone, Debug)]
pub struct LogRecovery {
    /// The scan of the chain.
    pub scan: ScanReport,
    /// True if the log was empty and stopped cleanly.
    pub was_clean: bool,
}

/// Opens the log of `superblock`: passes its records to `apply` in order, and begins a new epoch. `change` may set
/// other fields of the new superblock. `apply` returns a reason if it cannot apply a record, and then gets no more
/// records.
///
/// # Errors
/// If the device fails or is too short, if `apply` refuses a record, or if durable data is missing and `accept_loss` is
/// false. In these cases the device is unchanged.
pub async fn open(
    rt: Rt,
    device: Rc<dyn Device>,
    options: LogOptions,
    superblock: &RingSuperblock,
    accept_loss: bool,
    apply: &mut dyn FnMut(&RecoveredRecord) -> Result<(), String>,
    change: impl FnOnce(&mut RingSuperblock),
) -> Result<(RingLog, LogWorkers, LogRecovery), LogOpenError> {
    fits_device(superblock, &*device)?;
    let mut unfit = None;
    let scan = scan(&*device, superblock, &mut |record| {
        if unfit.is_none() {
            unfit = apply(record).err().map(|why| (record.seq, why));
        }
    })
    .await?;
    if let Some((record, why)) = unfit {
        return Err(LogOpenError::Unfit { record, why });
    }
    if let Some(damage) = &scan.damage
        && !accept_loss
    {
        return Err(LogOpenError::Damaged(damage.clone()));
    }
    let ring = RingGeometry::of(superblock);
    settle(&*device, &ring, &scan).await?;
    let mut next = superblock.clone();
    next.generation += 1;
    next.epoch = scan.epoch.next();
    next.epoch_segment = scan.next_segment;
    next.stable = scan.next_record.prev();
    // A clean log has no valid records, so it has no offsets between them.
    next.gaps &= !next.clean;
    next.clean = false;
    change(&mut next);
    write_copies(&*device, &next).await?;
    let resume = LogResumption {
        epoch: next.epoch,
        tail: next.tail,
        next_segment: scan.next_segment,
        next_record: scan.next_record,
        firsts: scan.firsts.clone(),
    };
    let state = RingState::new(ring, superblock.volume, resume);
    let (log, workers) = RingLog::new(rt, device, options, state, next);
    let was_clean = superblock.clean;
    Ok((log, workers, LogRecovery { scan, was_clean }))
}

/// Makes the records found durable, and the leftovers beyond them unreadable for later scans.
async fn settle(
    device: &dyn Device,
    ring: &RingGeometry,
    scan: &ScanReport,
) -> Result<(), DeviceError> {
    device.flush().await?;
    if let Some(summary) = &scan.seal {
        let bytes = summary.encode();
        let end = ring.segment_at(summary.segment) + u64::from(ring.segment_bytes);
        let at = end - bytes.len() as u64;
        device
            .write(at, BufMut::copy_of(&bytes).freeze(), Durability::Flush)
            .await?;
        // If this summary becomes unreadable, a scan could take a leftover after the last valid record for the next
        // record.
        for offset in &scan.behind {
            let behind = ring.segment_at(summary.segment) + u64::from(*offset);
            if behind + HEADER_BYTES as u64 <= at {
                wipe(device, behind).await?;
            }
        }
    }
    for segment in &scan.leftovers {
        let at = ring.segment_at(*segment);
        wipe(device, at).await?;
        let end = at + u64::from(ring.segment_bytes);
        wipe(device, end - HEADER_BYTES as u64).await?;
    }
    device.flush().await
}

/// Overwrites a header or the end of a summary with one block of zeroes. A longer write could be torn: a torn leftover
/// may lack just the zeroes that the torn write brings.
async fn wipe(device: &dyn Device, at: u64) -> Result<(), DeviceError> {
    let block = device.geometry().block_size as usize;
    let zeroes = BufMut::zeroed(block).freeze();
    device.write(at, zeroes, Durability::Flush).await
}
