//! Back-pressure smoothness: nobody waits for a whole log to be emptied.
//!
//! A writer to a full log waits for as much as a part of a window takes, not for several windows. The
//! bound is in units of the slowest request there is, so it holds for any disk. And nobody waits for room
//! that is there.

use std::time::Duration;

use forebay_dcd::DcdStatus;
use forebay_sim::Violation;

/// The longest a write may wait, in requests of the slower device. Room is kept in reserve, and what of a
/// window is home counts for the writers' pace as it gets there; but in these worlds the reserve of a
/// small log is less than a window, which is one segment of 128 KiB: 32 lines, and two flushes and two
/// superblocks.
const REQUESTS: u32 = 32;
/// What goes home in that many.
const WINDOW_BYTES: u64 = 128 << 10;

/// Looks at how long a write took on disks without faults whose requests take at most `slowest`, on a
/// log that waits at most `max_delay` before it writes. So many bytes of others' batches may have gone
/// `ahead`: a thousand writes at once are a log of this size many times over, and room is given in turn.
///
/// # Errors
/// If it was held up for too long.
pub fn check(
    took: Duration,
    slowest: Duration,
    max_delay: Duration,
    ahead: u64,
) -> Result<(), Violation> {
    let turns = 1 + ahead.div_ceil(WINDOW_BYTES) as u32;
    let most = slowest * REQUESTS * turns + 4 * max_delay;
    if took <= most {
        Ok(())
    } else {
        let text = format!("a write waited for {took:?}, on disks that answer within {slowest:?}");
        Err(Violation::new("smoothness", text))
    }
}

/// How often somebody is seen to wait for room in a log that is half empty, before that is wrong: the
/// clock may have leapt between two looks.
const IN_VAIN: u32 = 4;

/// Who waited for room, when a volume was looked at again and again.
#[derive(Clone, Copy, Default)]
pub struct StarvationChecker {
    /// Writes that had been done.
    writes: u64,
    /// Looks since at which somebody waited and there was room.
    in_vain: u32,
}

impl StarvationChecker {
    /// Looks at what a volume that serves says of itself.
    ///
    /// # Errors
    /// If writes have been waiting for some time though neither the log nor its map is half full (I7).
    pub fn look(&mut self, status: &DcdStatus) -> Result<(), Violation> {
        let &DcdStatus {
            log_bytes,
            log_used_bytes,
            map_bytes,
            map_bytes_max,
            waiting_writes,
            writes,
            ..
        } = status;
        let room = 2 * log_used_bytes < log_bytes && 2 * map_bytes < map_bytes_max;
        let waits = waiting_writes > 0 && writes == self.writes;
        self.in_vain = if room && waits { self.in_vain + 1 } else { 0 };
        self.writes = writes;
        if self.in_vain >= IN_VAIN {
            let text = format!(
                "{waiting_writes} writes wait for room, {log_used_bytes} of {log_bytes} bytes of \
                 the log are used"
            );
            Err(Violation::new("room (I7)", text))
        } else {
            Ok(())
        }
    }
}
