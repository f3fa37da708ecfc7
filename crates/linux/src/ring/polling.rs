//! Adaptive polling: the executor's thread may look for completions for a while before it sleeps.
//!
//! If the next request comes soon, sleeping and waking delays it by 20 to 60 µs on two processors, and takes more
//! processor time than looking for it. So the thread looks first if that paid off recently, as KVM's halt polling does
//! for idle guests (Linux, `Documentation/virt/kvm/halt-polling.rst`). Each sleep that was shorter than the longest
//! look makes the next look longer. Each sleep that was longer makes it shorter, and soon zero. An idle thread does not
//! look.
//!
//! If another program used the processor while the thread looked, the thread pauses looking, for longer each time,
//! until looks pay off again. An interrupt causes such a delay only now and then; a program that wants the processor
//! causes it each time.

use std::time::Duration;

/// The longest look.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// The first look, and the shortest.
const LOOK_MIN: Duration = Duration::from_micros(12);
/// If the time between two steps of a look exceeds this, another program used the processor.
pub(super) const STEP_MAX: Duration = Duration::from_micros(30);
/// First and longest pause without looking after another program wanted the processor.
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// Result of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitOutcome {
    /// A completion or wake arrived while the thread looked.
    Found,
    /// Another program used the processor while the thread looked.
    Disturbed,
    /// The thread slept. The duration runs from the beginning of the look to the wake.
    Slept(Duration),
}

/// State derived from the last waits.
#[derive(Default)]
pub(super) struct PollPacing {
    look: Duration,
    /// Remaining time of the present pause.
    pause: Duration,
    /// Length of the next pause.
    next_pause: Duration,
}

impl PollPacing {
    /// Returns the time for which the thread looks before it sleeps.
    pub(super) fn look(&self) -> Duration {
        if self.pause.is_zero() {
            self.look
        } else {
            Duration::ZERO
        }
    }

    /// Records the result of a wait.
    pub(super) fn note(&mut self, waited: WaitOutcome) {
        match waited {
            WaitOutcome::Found => self.next_pause /= 2,
            WaitOutcome::Disturbed => {
                self.pause = self.next_pause.max(PAUSE_MIN);
                self.next_pause = (4 * self.pause).min(PAUSE_MAX);
            }
            WaitOutcome::Slept(time) if time <= LOOK_MAX => {
                self.pause = self.pause.saturating_sub(time);
                self.look = (self.look * 2).clamp(LOOK_MIN, LOOK_MAX);
            }
            WaitOutcome::Slept(time) => {
                self.pause = self.pause.saturating_sub(time);
                self.look /= 2;
                if self.look < LOOK_MIN {
                    self.look = Duration::ZERO;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: WaitOutcome = WaitOutcome::Slept(Duration::from_micros(60));
    const LONG: WaitOutcome = WaitOutcome::Slept(Duration::from_millis(1));

    fn after(waits: &[WaitOutcome]) -> PollPacing {
        let mut polling = PollPacing::default();
        for waited in waits {
            polling.note(*waited);
        }
        polling
    }

    #[test]
    fn short_sleeps_extend_the_polling_time_up_to_a_bound() {
        assert_eq!(after(&[]).look(), Duration::ZERO);
        assert_eq!(after(&[SHORT]).look(), LOOK_MIN);
        assert_eq!(after(&[SHORT, SHORT]).look(), 2 * LOOK_MIN);
        assert_eq!(after(&[SHORT; 20]).look(), LOOK_MAX);
        assert_eq!(after(&[SHORT, WaitOutcome::Found]).look(), LOOK_MIN);
    }

    #[test]
    fn an_idle_thread_stops_polling() {
        let mut polling = after(&[SHORT; 20]);
        let mut looks = Vec::new();
        while !polling.look().is_zero() {
            looks.push(polling.look());
            polling.note(LONG);
        }
        assert!(looks.len() < 5, "{looks:?}");
        polling.note(LONG);
        assert_eq!(polling.look(), Duration::ZERO);
    }

    /// Returns the time for which a thread that was just disturbed sleeps before it looks again.
    fn pause(polling: &mut PollPacing) -> Duration {
        polling.note(WaitOutcome::Disturbed);
        let mut time = Duration::ZERO;
        while polling.look().is_zero() {
            polling.note(SHORT);
            time += Duration::from_micros(60);
        }
        time
    }

    #[test]
    fn an_interrupted_thread_stops_polling_for_increasing_times() {
        let mut polling = after(&[SHORT, SHORT]);
        let pauses: Vec<Duration> = (0..6).map(|_| pause(&mut polling)).collect();
        assert!(
            pauses[0] >= PAUSE_MIN && pauses[0] < 2 * PAUSE_MIN,
            "{pauses:?}"
        );
        assert!(pauses.is_sorted() && pauses[5] >= PAUSE_MAX, "{pauses:?}");
        // While looks pay off, an occasional interrupt changes little.
        for _ in 0..20 {
            polling.note(WaitOutcome::Found);
        }
        assert!(pause(&mut polling) < 2 * PAUSE_MIN);
    }
}
