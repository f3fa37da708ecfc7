//! Maximum durations, in virtual time. Each request ends within its limit, with success or with an error.

use std::time::Duration;

use forebay_ring_log::HEADER_BYTES;
use forebay_sim::system::TimeBounds;

/// Time for which requests wait for a failing device before they fail: the patience of an attached volume.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that pass through a full log in a minute, on any disk of the scenarios.
const TURN_BYTES: u64 = 1 << 20;

/// Limits if all disks answer.
pub const HEALTHY: TimeBounds = TimeBounds {
    request: Duration::from_secs(60),
    close: Duration::from_secs(60),
    drain: Duration::from_secs(300),
    turn_bytes: TURN_BYTES,
    write_bytes: HEADER_BYTES as u64,
};

/// Limits if disks fail. They contain the patience, and time for the other queued requests. A fault that ends for a
/// moment starts the patience again.
pub const IN_TROUBLE: TimeBounds = TimeBounds {
    request: Duration::from_secs(4 * PATIENCE.as_secs()),
    close: Duration::from_secs(2 * PATIENCE.as_secs()),
    drain: Duration::from_secs(300),
    turn_bytes: TURN_BYTES,
    write_bytes: HEADER_BYTES as u64,
};
