//! Smooth back-pressure: no writer waits until a whole log is empty.
//!
//! A writer to a full log waits for the duration of a part of a window, not for several windows. The unit of the bound
//! is the duration of the slowest request, so the bound applies to any disk. No writer waits for space that is free.

use std::time::Duration;

use forebay_dcd::DcdStatus;
use forebay_sim::Violation;

/// The longest wait of a write, in requests of the slower device.
///
/// The cache keeps space in reserve, and paces writers by the data that a window has already destaged. In these
/// scenarios, the reserve of a small log is smaller than a window. A window is one segment of 128 KiB: 32 blocks, two
/// flushes and two superblocks.
const REQUESTS: u32 = 32;
/// Bytes that are destaged in `REQUESTS` requests.
const WINDOW_BYTES: u64 = 128 << 10;

/// Checks the duration of a write on disks without faults.
///
/// The disks' requests take at most `slowest`, and the log waits at most `max_delay` before it writes. `ahead` is the
/// number of bytes in batches of other writers that may precede the write. A thousand concurrent writes are many times
/// larger than a log of this size, and receive space one after the other.
///
/// # Errors
/// If the write waited too long.
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

/// Minimum number of consecutive observations that are a violation. Each observation sees a waiting writer and a log
/// that is less than half full. Fewer observations are permitted: the clock may have leapt between two observations, and
/// a segment is not overwritten while it is read. The slowest read of these scenarios takes 6.4 s.
const IN_VAIN: u32 = 8;

/// Checker for writers that wait for space, over repeated observations of a volume.
#[derive(Clone, Copy, Default)]
pub struct StarvationChecker {
    /// Completed writes at the last observation.
    writes: u64,
    /// Consecutive observations of a waiting write and free space.
    in_vain: u32,
}

impl StarvationChecker {
    /// Checks the status of a volume in service.
    ///
    /// # Errors
    /// If writes have been waiting for some time although the log and its map are both less than half full (I7).
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
