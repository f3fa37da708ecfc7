//! Elapsed time of some work, and the processor time of the machine meanwhile.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Time of some work.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimeTaken {
    /// Elapsed time.
    pub time: Duration,
    /// Processor time of all processes and of the kernel. Kernel threads and servers of filesystems are included, and
    /// so are unrelated processes.
    pub processor: Duration,
}

impl TimeTaken {
    /// Returns the rate of `count` items per second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Returns the processor time of each of `count` items, in microseconds.
    pub fn micros_each(&self, count: u64) -> f64 {
        self.processor.as_secs_f64() * 1e6 / count.max(1) as f64
    }
}

/// Runs `work` and measures its time.
///
/// # Errors
/// Those of `work`.
pub fn measured<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, TimeTaken)> {
    let (began, busy) = (Instant::now(), busy());
    let done = work()?;
    let took = TimeTaken {
        time: began.elapsed(),
        processor: self::busy().saturating_sub(busy),
    };
    Ok((done, took))
}

/// Returns the busy time of all processors since boot; zero on a system without this information.
fn busy() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(busy_ticks(&text) * (1_000_000_000 / per_second))
}

/// Returns the busy ticks from the line of all processors: user, nice, system, interrupts and soft interrupts, without
/// idle, waiting and stolen time.
fn busy_ticks(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map_while(|number| number.parse().ok())
        .collect();
    let at = |n: usize| numbers.get(n).copied().unwrap_or(0);
    at(0) + at(1) + at(2) + at(5) + at(6)
}

/// Makes the kernel write back and drop its caches of files, if the process has the permission.
pub fn forget_caches() {
    rustix::fs::sync();
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_counted_as_busy() {
        assert_eq!(
            busy_ticks("cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 9\n"),
            31
        );
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn rates_are_relative_to_the_elapsed_time() {
        let took = TimeTaken {
            time: Duration::from_millis(500),
            processor: Duration::from_millis(250),
        };
        assert!((took.rate(100) - 200.0).abs() < 1e-6);
        assert!((took.micros_each(1000) - 250.0).abs() < 1e-6);
    }
}
