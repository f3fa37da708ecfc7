//! Making a log, and taking one up again after a stop or a crash.
//!
//! Recovery is: read the superblocks, [`scan`] the chain, and only if that succeeds, in this order:
//! 1. flush, so that what was found cannot be lost any more;
//! 2. seal the last segment with a summary of what counts in it, and wipe the leftovers beyond the
//!    cut, there and further on, so that no later recovery can take them up; flush;
//! 3. write the superblock of the new epoch, which begins in the next segment.
//!
//! A crash at any point of this leaves a log in which the same chain is found again (I4): step 2
//! changes nothing that is in the chain, and until step 3 the old superblock still begins it.

use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability, Room};
use forebay_rt::Rt;
use forebay_segments::write_copies;
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

use crate::error::OpenError;
use crate::format::{HEADER_BYTES, SEGMENTS_AT, Superblock, VolumeId};
use crate::ring::RingGeometry;
use crate::scan::{RecoveredRecord, Scan, scan};
use crate::state::{Resume, State};
use crate::write::{Log, LogOptions, Workers};

/// Makes an empty log on `device`: wipes what other systems would recognise the device by (its first
/// MiB), and writes both superblocks.
///
/// # Errors
/// The device's.
pub async fn format_device(
    device: &dyn Device,
    ring: RingGeometry,
    volume: VolumeId,
    layer: Vec<u8>,
) -> Result<(), DeviceError> {
    device.write_zeroes(0..SEGMENTS_AT, Room::Keep).await?;
    device.flush().await?;
    let superblock = Superblock {
        volume,
        generation: 1,
        epoch: Epoch(0),
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

/// Whether the log that `superblock` describes can lie on this device. To be asked before anything is
/// done, or allocated, by its numbers.
///
/// # Errors
/// If the device is too short or has larger blocks.
pub fn fits_device(superblock: &Superblock, device: &dyn Device) -> Result<(), OpenError> {
    let geometry = device.geometry();
    let (have, need) = (geometry.len, superblock.len);
    if have < need {
        return Err(OpenError::Truncated { have, need });
    }
    let (have, want) = (geometry.block_size, superblock.block);
    if !want.is_multiple_of(have) {
        return Err(OpenError::Block { have, want });
    }
    Ok(())
}

/// What recovery found, for reports.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The scan of the chain.
    pub scan: Scan,
    /// True if the log had been stopped with nothing in it.
    pub was_clean: bool,
}

/// Takes up the log that `superblock` describes: gives its records to `apply` in order, and begins a
/// new epoch. `change` may set what the new superblock says beside that. What `apply` cannot apply it
/// says, and is given nothing after that.
///
/// # Errors
/// If the device fails, is too short, holds a record that `apply` refuses, or something durable is
/// missing and `accept_loss` is not given; then nothing on the device has been changed.
pub async fn open(
    rt: Rt,
    device: Rc<dyn Device>,
    options: LogOptions,
    superblock: &Superblock,
    accept_loss: bool,
    apply: &mut dyn FnMut(&RecoveredRecord) -> Result<(), String>,
    change: impl FnOnce(&mut Superblock),
) -> Result<(Log, Workers, Recovery), OpenError> {
    fits_device(superblock, &*device)?;
    let mut unfit = None;
    let scan = scan(&*device, superblock, &mut |record| {
        if unfit.is_none() {
            unfit = apply(record).err().map(|why| (record.seq, why));
        }
    })
    .await?;
    if let Some((record, why)) = unfit {
        return Err(OpenError::Unfit { record, why });
    }
    if let Some(damage) = &scan.damage
        && !accept_loss
    {
        return Err(OpenError::Damaged(damage.clone()));
    }
    let ring = RingGeometry::of(superblock);
    settle(&*device, &ring, &scan).await?;
    let mut next = superblock.clone();
    next.generation += 1;
    next.epoch = scan.epoch.next();
    next.epoch_segment = scan.next_segment;
    next.stable = scan.next_record.prev();
    // Of a log that was stopped clean nothing counts, nor do its gaps.
    next.gaps &= !next.clean;
    next.clean = false;
    change(&mut next);
    write_copies(&*device, &next).await?;
    let resume = Resume {
        epoch: next.epoch,
        tail: next.tail,
        next_segment: scan.next_segment,
        next_record: scan.next_record,
        firsts: scan.firsts.clone(),
    };
    let state = State::new(ring, superblock.volume, resume);
    let (log, workers) = Log::new(rt, device, options, state, next);
    let was_clean = superblock.clean;
    Ok((log, workers, Recovery { scan, was_clean }))
}

/// Makes what was found durable and what lies beyond it unfindable.
async fn settle(device: &dyn Device, ring: &RingGeometry, scan: &Scan) -> Result<(), DeviceError> {
    device.flush().await?;
    if let Some(summary) = &scan.seal {
        let bytes = summary.encode();
        let end = ring.segment_at(summary.segment) + u64::from(ring.segment_bytes);
        let at = end - bytes.len() as u64;
        device
            .write(at, BufMut::copy_of(&bytes).freeze(), Durability::Flush)
            .await?;
        // Should this summary rot, a record behind the last that counts would be taken for the next.
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

/// Makes sure that no header and no summary's end stands here, by one block of the device: of a longer
/// write a part might arrive, and what is torn there may lack just the zeroes of that part.
async fn wipe(device: &dyn Device, at: u64) -> Result<(), DeviceError> {
    let block = device.geometry().block_size as usize;
    let zeroes = BufMut::zeroed(block).freeze();
    device.write(at, zeroes, Durability::Flush).await
}
