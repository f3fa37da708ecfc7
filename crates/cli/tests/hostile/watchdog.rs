//! A watchdog that tells a hang from slowness.

use std::time::Duration;

/// Part of the time in which an idle daemon may use a processor: for timers, and for the questions of the watchdog.
const IDLE_SHARE: u32 = 50;
/// Parts of the patience, in each of which it is seen whether the daemon works.
const WINDOWS: u32 = 10;
/// Times the patience after which a single thread is stuck, and a daemon that works in vain is a hang.
const LONG: u32 = 10;

/// Work of the daemon since its start.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DaemonWork {
    pub(crate) processor: Duration,
    /// Bytes read from and written to devices.
    pub(crate) bytes: u64,
}

/// A look at all threads and at the daemon.
pub(crate) struct WatchdogSample {
    /// Finished acts of each thread; `None` for a thread that has been stopped or has ended.
    pub(crate) done: Vec<Option<u64>>,
    pub(crate) work: DaemonWork,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum WatchdogVerdict {
    /// Threads finish acts.
    Progress,
    /// No thread has finished an act for the patience, and the daemon works.
    Slow,
    /// No thread has finished an act for the patience, and the daemon is idle; or for ten times the patience.
    Hang,
    /// Threads that have not finished an act for ten times the patience, beside others that have.
    Stuck(Vec<usize>),
}

pub(crate) struct Watchdog {
    patience: Duration,
    /// Per thread: finished acts, and the time at which they last changed.
    threads: Vec<(Option<u64>, Duration)>,
    /// The time at which a thread last finished an act.
    progress: Duration,
    /// The beginning of the current window, and the daemon's work until then.
    window: (Duration, DaemonWork),
    /// The end of the last window in which the daemon worked.
    worked: Duration,
    longest: Duration,
}

impl Watchdog {
    pub(crate) fn new(patience: Duration, now: Duration, work: DaemonWork) -> Watchdog {
        Watchdog {
            patience,
            threads: Vec::new(),
            progress: now,
            window: (now, work),
            worked: now,
            longest: Duration::ZERO,
        }
    }

    /// Returns the longest time in which a thread that still runs did not finish an act.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    pub(crate) fn look(&mut self, now: Duration, sample: &WatchdogSample) -> WatchdogVerdict {
        self.threads.resize(sample.done.len(), (None, now));
        let mut is_progress = sample.done.iter().all(Option::is_none);
        for (thread, &done) in self.threads.iter_mut().zip(&sample.done) {
            if thread.0 == done && done.is_some() {
                continue;
            }
            if thread.0.is_some() && done.is_some() {
                is_progress = true;
                self.longest = self.longest.max(now.saturating_sub(thread.1));
            }
            *thread = (done, now);
        }
        if is_progress {
            self.progress = now;
        }
        self.watch_daemon(now, sample.work);
        self.judge(now)
    }

    fn watch_daemon(&mut self, now: Duration, work: DaemonWork) {
        let (since, before) = self.window;
        let length = now.saturating_sub(since);
        if length < self.patience / WINDOWS {
            return;
        }
        let processor = work.processor.saturating_sub(before.processor);
        if processor * IDLE_SHARE >= length || work.bytes != before.bytes {
            self.worked = now;
        }
        self.window = (now, work);
    }

    fn judge(&self, now: Duration) -> WatchdogVerdict {
        let waited = now.saturating_sub(self.progress);
        if waited >= self.patience {
            let is_idle = now.saturating_sub(self.worked) >= self.patience / 2;
            let hangs = is_idle || waited >= self.patience * LONG;
            return if hangs {
                WatchdogVerdict::Hang
            } else {
                WatchdogVerdict::Slow
            };
        }
        let is_stuck = |thread: &(Option<u64>, Duration)| {
            thread.0.is_some() && now.saturating_sub(thread.1) >= self.patience * LONG
        };
        let all = self.threads.iter().enumerate();
        let stuck: Vec<usize> = all
            .filter_map(|(n, one)| is_stuck(one).then_some(n))
            .collect();
        if stuck.is_empty() {
            WatchdogVerdict::Progress
        } else {
            WatchdogVerdict::Stuck(stuck)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: u64 = 60;

    /// Looks once a second at two threads and the daemon, as `sample` describes them, until a verdict other than
    /// progress. Returns the time of the verdict, in seconds, and the verdict.
    fn watch(
        seconds: u64,
        sample: impl Fn(u64) -> (Option<u64>, Option<u64>, DaemonWork),
    ) -> (u64, WatchdogVerdict) {
        let mut watchdog = Watchdog::new(
            Duration::from_secs(PATIENCE),
            Duration::ZERO,
            DaemonWork::default(),
        );
        for second in 0..seconds {
            let (one, other, work) = sample(second);
            let sample = WatchdogSample {
                done: vec![one, other],
                work,
            };
            let verdict = watchdog.look(Duration::from_secs(second), &sample);
            if verdict != WatchdogVerdict::Progress {
                return (second, verdict);
            }
        }
        (seconds, WatchdogVerdict::Progress)
    }

    fn busy(second: u64) -> DaemonWork {
        DaemonWork {
            processor: Duration::from_millis(500 * second),
            bytes: 0,
        }
    }

    #[test]
    fn threads_that_finish_an_act_within_the_time_limit_make_progress() {
        let slowly = |second: u64| {
            (
                Some(second / (PATIENCE - 1)),
                Some(0),
                DaemonWork::default(),
            )
        };
        assert_eq!(watch(590, slowly), (590, WatchdogVerdict::Progress));
    }

    #[test]
    fn an_idle_daemon_without_progress_is_a_hang() {
        let hangs = |second: u64| {
            (
                Some(second.min(100)),
                Some(second.min(90)),
                DaemonWork::default(),
            )
        };
        assert_eq!(watch(1000, hangs), (100 + PATIENCE, WatchdogVerdict::Hang));
    }

    #[test]
    fn a_daemon_that_ends_its_work_after_the_last_act_is_a_hang() {
        let hangs = |second: u64| {
            let work = busy(second.min(110));
            let bytes = second.min(110);
            (Some(second.min(100)), Some(0), DaemonWork { bytes, ..work })
        };
        assert_eq!(watch(1000, hangs), (100 + PATIENCE, WatchdogVerdict::Hang));
    }

    #[test]
    fn a_daemon_that_works_without_progress_is_slow_and_finally_a_hang() {
        let computes = |second: u64| (Some(0), Some(0), busy(second));
        assert_eq!(watch(1000, computes), (PATIENCE, WatchdogVerdict::Slow));
        let writes = |second: u64| {
            let work = DaemonWork {
                processor: Duration::ZERO,
                bytes: second,
            };
            (Some(0), Some(0), work)
        };
        assert_eq!(watch(1000, writes), (PATIENCE, WatchdogVerdict::Slow));
        let work = busy(600);
        let mut watchdog = Watchdog::new(
            Duration::from_secs(PATIENCE),
            Duration::ZERO,
            DaemonWork::default(),
        );
        let sample = WatchdogSample {
            done: vec![Some(0)],
            work,
        };
        assert_eq!(
            watchdog.look(Duration::ZERO, &sample),
            WatchdogVerdict::Progress
        );
        assert_eq!(
            watchdog.look(Duration::from_secs(600), &sample),
            WatchdogVerdict::Hang
        );
    }

    #[test]
    fn a_thread_without_progress_among_others_is_stuck() {
        let one = |second: u64| (Some(0), Some(second), busy(second));
        assert_eq!(watch(1000, one), (600, WatchdogVerdict::Stuck(vec![0])));
    }

    #[test]
    fn a_stopped_thread_is_neither_stuck_nor_a_hang() {
        let one = |second: u64| (None, Some(second), DaemonWork::default());
        assert_eq!(watch(1000, one), (1000, WatchdogVerdict::Progress));
        let all = |_| (None, None, DaemonWork::default());
        assert_eq!(watch(1000, all), (1000, WatchdogVerdict::Progress));
    }
}
