//! Requests to a volume, and their execution.

use std::ops::Range;
use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError, Durability, ZeroedSpace};
use forebay_rng::Rng;
use forebay_rt::Rt;
use futures_util::future::join_all;

use super::{SharedHistory, StepContent};
use crate::stamp::{SECTOR, stamp_into};

/// A request of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptAction {
    /// A write, with or without FUA.
    Write {
        /// Range in bytes.
        range: Range<u64>,
        /// True if the write is durable at completion.
        fua: bool,
    },
    /// Concurrent writes of the same stamp, in any order.
    Batch(Vec<Range<u64>>),
    /// Write-zeroes.
    Zero(Range<u64>),
    /// Discard.
    Discard(Range<u64>),
    /// A read, compared with its permitted results.
    Read(Range<u64>),
    /// Flush.
    Flush,
    /// A pause.
    Pause(Duration),
}

impl ScriptAction {
    /// Returns the range that the action changes, if any.
    pub fn range(&self) -> Option<Range<u64>> {
        match self {
            ScriptAction::Write { range, .. }
            | ScriptAction::Zero(range)
            | ScriptAction::Discard(range) => Some(range.clone()),
            ScriptAction::Batch(_)
            | ScriptAction::Read(_)
            | ScriptAction::Flush
            | ScriptAction::Pause(_) => None,
        }
    }
}

impl std::fmt::Display for ScriptAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let in_sectors = |range: &Range<u64>| {
            let (start, end) = (range.start / SECTOR as u64, range.end / SECTOR as u64);
            format!("sectors {start}..{end}")
        };
        match self {
            ScriptAction::Write { range, fua: false } => write!(f, "write {}", in_sectors(range)),
            ScriptAction::Write { range, fua: true } => {
                write!(f, "write {} with FUA", in_sectors(range))
            }
            ScriptAction::Batch(ranges) => {
                write!(f, "{} writes at once", ranges.len())?;
                let few = if ranges.len() <= 8 { ranges.len() } else { 3 };
                for range in &ranges[..few] {
                    write!(f, ", {}", in_sectors(range))?;
                }
                Ok(())
            }
            ScriptAction::Zero(range) => write!(f, "zero {}", in_sectors(range)),
            ScriptAction::Discard(range) => write!(f, "discard {}", in_sectors(range)),
            ScriptAction::Read(range) => write!(f, "read {}", in_sectors(range)),
            ScriptAction::Flush => f.write_str("flush"),
            ScriptAction::Pause(span) => write!(f, "pause {span:?}"),
        }
    }
}

/// Executes the action and adds it to the history. Does not check reads.
///
/// # Errors
/// If the volume fails.
pub async fn perform(
    volume: &dyn Device,
    rt: &Rt,
    history: &SharedHistory,
    action: &ScriptAction,
) -> Result<(), DeviceError> {
    match action {
        ScriptAction::Write { range, fua } => {
            let id = history.borrow().next_id();
            let step = history
                .borrow_mut()
                .step(range.clone(), StepContent::Data(id));
            let mut bytes = BufMut::zeroed((range.end - range.start) as usize);
            stamp_into(id, range.start, &mut bytes);
            let durability = if *fua {
                Durability::Fua
            } else {
                Durability::Flush
            };
            volume
                .write(range.start, bytes.freeze(), durability)
                .await?;
            history.borrow_mut().acknowledged = step;
            if *fua {
                history.borrow_mut().set_durable(step);
            }
        }
        ScriptAction::Batch(ranges) => {
            let id = history.borrow().next_id();
            let step = history.borrow_mut().batch(ranges, StepContent::Data(id));
            let writes = ranges.iter().map(|range| {
                let mut bytes = BufMut::zeroed((range.end - range.start) as usize);
                stamp_into(id, range.start, &mut bytes);
                volume.write(range.start, bytes.freeze(), Durability::Flush)
            });
            for done in join_all(writes).await {
                done?;
            }
            history.borrow_mut().acknowledged = step;
        }
        ScriptAction::Zero(range) => {
            let step = history.borrow_mut().step(range.clone(), StepContent::Zero);
            volume.write_zeroes(range.clone(), room_for(range)).await?;
            history.borrow_mut().acknowledged = step;
        }
        ScriptAction::Discard(range) => {
            let step = history.borrow_mut().step(range.clone(), StepContent::Open);
            volume.discard(range.clone()).await?;
            history.borrow_mut().acknowledged = step;
        }
        ScriptAction::Read(range) => {
            let buf = BufMut::zeroed((range.end - range.start) as usize);
            volume.read(range.start, buf).await?;
        }
        ScriptAction::Flush => {
            let covered = history.borrow().acknowledged;
            volume.flush().await?;
            history.borrow_mut().set_durable(covered);
        }
        ScriptAction::Pause(span) => rt.sleep(*span).await,
    }
    Ok(())
}

/// Returns the treatment of a zeroed range's space: one variant for half of all places, the other elsewhere.
pub(crate) fn room_for(range: &Range<u64>) -> ZeroedSpace {
    match range.start / 512 % 2 {
        0 => ZeroedSpace::Release,
        _ => ZeroedSpace::Keep,
    }
}

/// Returns a range inside `region`, usually short, at most `most` bytes, often in whole 4 KiB blocks.
pub fn extent(rng: &Rng, region: &Range<u64>, most: u64) -> Range<u64> {
    let sectors = most / 512;
    let len = 512 * (1 + rng.below(1 + rng.below(sectors)).min(sectors - 1));
    let len = if rng.below(3) == 0 && len.next_multiple_of(4096) <= most {
        len.next_multiple_of(4096)
    } else {
        len
    };
    let align = if len.is_multiple_of(4096) { 4096 } else { 512 };
    let room = region.end - region.start - len;
    let at = region.start + rng.below(room / align + 1) * align;
    at..at + len
}

/// Returns a random action inside `region`.
pub fn random_action(rng: &Rng, region: &Range<u64>, most: u64) -> ScriptAction {
    match rng.below(24) {
        0 => ScriptAction::Discard(extent(rng, region, most)),
        1 | 2 => ScriptAction::Zero(extent(rng, region, most)),
        3..=6 => ScriptAction::Flush,
        7 => ScriptAction::Pause(Duration::from_millis(1 + rng.below(300))),
        8 => ScriptAction::Pause(Duration::from_millis(1000 + rng.below(500))),
        9 | 10 => {
            let range = extent(rng, region, most.min(16 << 10));
            ScriptAction::Write { range, fua: true }
        }
        11..=14 => {
            let range = extent(rng, region, most);
            ScriptAction::Write { range, fua: false }
        }
        _ => {
            let range = extent(rng, region, most.min(12 << 10));
            ScriptAction::Write { range, fua: false }
        }
    }
}
