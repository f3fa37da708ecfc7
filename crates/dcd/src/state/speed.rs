//! Recent speed of both devices, which limits the requests that destaging has under way.
//!
//! A disk has one queue: a client's request waits behind the requests of destaging. A fixed number of requests takes no
//! noticeable time on a flash drive and a second on an old disk. So the limit is a time: requests under way must be
//! completed within the policy's patience.

use std::time::Duration;

/// Assumptions before the first measurement: the slow end of existing devices.
const LOG_BYTES_A_SECOND: f64 = 16e6;
const HOME_WRITE: f64 = 0.004;
/// Weight of the last measurement.
const LAST: f64 = 0.2;

/// Measured speed of the devices.
pub(crate) struct DeviceSpeeds {
    /// Rate of large reads of the log, in bytes per second.
    log_rate: f64,
    /// Time between two completed writes to the data device, in seconds.
    home_write: f64,
}

impl DeviceSpeeds {
    pub(crate) fn new() -> DeviceSpeeds {
        DeviceSpeeds {
            log_rate: LOG_BYTES_A_SECOND,
            home_write: HOME_WRITE,
        }
    }

    /// Records that a read of the log took `span`, while `depth` reads of `bytes` bytes each were under way.
    pub(crate) fn note_log_read(&mut self, bytes: u64, depth: usize, span: Duration) {
        let rate = bytes as f64 * depth as f64 / span.as_secs_f64().max(1e-6);
        self.log_rate = mix(self.log_rate, rate);
    }

    /// Records that a write to the data device took `span`, while `depth` writes were under way.
    pub(crate) fn note_home_write(&mut self, depth: usize, span: Duration) {
        let each = span.as_secs_f64() / depth.max(1) as f64;
        self.home_write = mix(self.home_write, each);
    }

    /// Returns the bytes of the log that can be read within `patience`; `u64::MAX` without a bound.
    pub(crate) fn log_bytes(&self, patience: Option<Duration>) -> u64 {
        patience.map_or(u64::MAX, |patience| {
            (self.log_rate * patience.as_secs_f64()) as u64
        })
    }

    /// Returns the number of writes to the data device that can be completed within `patience`, at least one.
    pub(crate) fn home_writes(&self, patience: Option<Duration>) -> usize {
        patience.map_or(usize::MAX, |patience| {
            let writes = patience.as_secs_f64() / self.home_write.max(1e-6);
            (writes as usize).max(1)
        })
    }
}

fn mix(old: f64, last: f64) -> f64 {
    (1.0 - LAST) * old + LAST * last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_requests_in_flight_follow_the_measured_speed() {
        let (mut speed, patience) = (DeviceSpeeds::new(), Some(Duration::from_millis(20)));
        for _ in 0..50 {
            speed.note_log_read(128 << 10, 2, Duration::from_millis(32));
            speed.note_home_write(4, Duration::from_millis(40));
        }
        // 8.2 MB per second, and one write per 10 ms.
        assert_eq!(speed.log_bytes(patience) >> 10, 160);
        assert_eq!(speed.home_writes(patience), 2);
        for _ in 0..50 {
            speed.note_log_read(128 << 10, 2, Duration::from_micros(200));
            speed.note_home_write(4, Duration::from_micros(200));
        }
        assert!(speed.log_bytes(patience) > 20 << 20);
        assert!(speed.home_writes(patience) > 300);
    }

    #[test]
    fn no_patience_means_no_limit_and_a_single_write_is_always_allowed() {
        let mut speed = DeviceSpeeds::new();
        assert_eq!(speed.log_bytes(None), u64::MAX);
        assert_eq!(speed.home_writes(None), usize::MAX);
        speed.note_home_write(1, Duration::from_secs(100));
        assert_eq!(speed.home_writes(Some(Duration::from_millis(1))), 1);
    }
}
