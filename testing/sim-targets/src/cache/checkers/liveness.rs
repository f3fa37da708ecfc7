//! How long anything may take, in virtual time. Everything ends: well, or with an error.

use std::time::Duration;

use forebay_ring_log::HEADER_BYTES;
use forebay_sim::subject::TimeBounds;

/// How long requests wait for a device in trouble before they fail, as volumes are attached.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// In a minute so much gets through a full log before any of these disks.
const TURN_BYTES: u64 = 1 << 20;

/// Where all disks answer.
pub const HEALTHY: TimeBounds = TimeBounds {
    request: Duration::from_secs(60),
    close: Duration::from_secs(60),
    drain: Duration::from_secs(300),
    turn_bytes: TURN_BYTES,
    write_bytes: HEADER_BYTES as u64,
};

/// Where disks fail: the patience, and for what else is in the queue; and a trouble that is over for
/// a moment begins anew.
pub const IN_TROUBLE: TimeBounds = TimeBounds {
    request: Duration::from_secs(4 * PATIENCE.as_secs()),
    close: Duration::from_secs(2 * PATIENCE.as_secs()),
    drain: Duration::from_secs(300),
    turn_bytes: TURN_BYTES,
    write_bytes: HEADER_BYTES as u64,
};
