//! How long anything may take, in virtual time. Everything ends: well, or with an error.

use std::time::Duration;

/// How long requests wait for a device in trouble before they fail, as volumes are attached.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest that anything takes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A request of a user.
    pub request: Duration,
    /// Closing a volume, with whatever is under way.
    pub close: Duration,
    /// Draining it on disks on which nothing is wrong, or not any more.
    pub drain: Duration,
}

/// Where all disks answer.
pub const HEALTHY: Bounds = Bounds {
    request: Duration::from_secs(60),
    close: Duration::from_secs(60),
    drain: Duration::from_secs(300),
};

/// Where disks fail: the patience, and for what else is in the queue; and a trouble that is over for
/// a moment begins anew.
pub const IN_TROUBLE: Bounds = Bounds {
    request: Duration::from_secs(4 * PATIENCE.as_secs()),
    close: Duration::from_secs(2 * PATIENCE.as_secs()),
    drain: Duration::from_secs(300),
};
