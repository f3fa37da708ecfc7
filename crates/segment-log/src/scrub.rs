//! A scrub of the two copies of a superblock in use.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Device, ScrubArea, ScrubFault, ScrubFaultKind, ScrubStep};
use forebay_rt::Lock;
use forebay_units::SECTOR_BYTES;

use crate::format::envelope::{FormatError, HEADER_BYTES, VolumeId};
use crate::pair::{PLACES, SuperblockFormat, read_copies};

/// The sector behind the second copy of a superblock.
pub const COPIES_END: u64 = (PLACES[1] + HEADER_BYTES as u64) / SECTOR_BYTES;
/// Bytes of both copies of a superblock.
pub const COPIES_BYTES: u64 = (PLACES.len() * HEADER_BYTES) as u64;

/// Reads the copies of the superblock of `volume` that begin in `range`, in sectors of the device. `turn` is held by
/// tasks that write a copy.
pub async fn scrub_copies<S: SuperblockFormat>(
    device: &dyn Device,
    volume: VolumeId,
    turn: &Rc<Lock>,
    area: ScrubArea,
    range: Range<u64>,
) -> ScrubStep {
    let mut found = faults::<S>(device, volume, area, &range).await;
    if !found.is_empty() {
        // A copy may have been written during the read.
        let _turn = turn.lock().await;
        found = faults::<S>(device, volume, area, &range).await;
    }
    ScrubStep {
        next: range.end,
        bytes: COPIES_BYTES,
        checked_bytes: COPIES_BYTES,
        faults: found,
    }
}

async fn faults<S: SuperblockFormat>(
    device: &dyn Device,
    volume: VolumeId,
    area: ScrubArea,
    range: &Range<u64>,
) -> Vec<ScrubFault> {
    let copies = match read_copies::<S>(device).await {
        Ok(copies) => [copies.a, copies.b],
        Err(error) => return vec![ScrubFault::damaged(area, range.clone(), error)],
    };
    let copies = copies.into_iter().zip(["A", "B"]).zip(PLACES);
    let faults = copies.filter_map(|((copy, name), at)| {
        let first = at / SECTOR_BYTES;
        let sectors = first..first + HEADER_BYTES as u64 / SECTOR_BYTES;
        let fault = match copy {
            Ok(copy) if copy.volume() == volume => return None,
            Ok(_) => ScrubFault::damaged(
                area,
                sectors,
                format!("copy {name} belongs to another volume"),
            ),
            Err(error) => ScrubFault {
                kind: match error {
                    FormatError::Unreadable(_) => ScrubFaultKind::Unreadable,
                    _ => ScrubFaultKind::Damaged,
                },
                ..ScrubFault::damaged(area, sectors, format!("copy {name}: {error}"))
            },
        };
        range.contains(&first).then_some(fault)
    });
    faults.collect()
}
