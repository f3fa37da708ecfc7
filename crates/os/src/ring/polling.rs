//! Whether the executor's thread looks for completions for a while before it sleeps.
//!
//! To sleep and to be woken costs a request that comes soon 20 to 60 µs on two processors, and more processor time than to look
//! for it. So the thread looks first where that paid lately, as KVM's halt polling does for idle guests
//! (Linux, `Documentation/virt/kvm/halt-polling.rst`): each sleep that was shorter than the longest look makes the next look
//! longer, and each that was longer makes it shorter, soon to nothing. An idle thread does not look. One that others kept off its
//! processor while it looked does not look for a while, and for longer each time, until looks pay again: an interrupt takes as long now
//! and then, a program that wants the processor does so each time.

use std::time::Duration;

/// The longest look.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// The first look, and the shortest.
const LOOK_MIN: Duration = Duration::from_micros(12);
/// Between two steps of a look, longer than this was somebody else's time.
pub(super) const STEP_MAX: Duration = Duration::from_micros(30);
/// How long the thread sleeps without looking after somebody else wanted its processor: the first time, and at most.
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// How a wait went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waited {
    /// Something came while the thread looked.
    Found,
    /// Somebody else wanted the processor while the thread looked.
    Disturbed,
    /// The thread slept; from the beginning of the look, it was so long until something came.
    Slept(Duration),
}

/// What the last waits were like.
#[derive(Default)]
pub(super) struct Polling {
    look: Duration,
    /// What is left of a pause.
    pause: Duration,
    /// How long the next one is.
    next_pause: Duration,
}

impl Polling {
    /// How long the thread looks before it sleeps.
    pub(super) fn look(&self) -> Duration {
        match self.pause.is_zero() {
            true => self.look,
            false => Duration::ZERO,
        }
    }

    /// A wait is over.
    pub(super) fn note(&mut self, waited: Waited) {
        match waited {
            Waited::Found => self.next_pause /= 2,
            Waited::Disturbed => {
                self.pause = self.next_pause.max(PAUSE_MIN);
                self.next_pause = (4 * self.pause).min(PAUSE_MAX);
            }
            Waited::Slept(time) if time <= LOOK_MAX => {
                self.pause = self.pause.saturating_sub(time);
                self.look = (self.look * 2).clamp(LOOK_MIN, LOOK_MAX);
            }
            Waited::Slept(time) => {
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

    const SHORT: Waited = Waited::Slept(Duration::from_micros(60));
    const LONG: Waited = Waited::Slept(Duration::from_millis(1));

    fn after(waits: &[Waited]) -> Polling {
        let mut polling = Polling::default();
        waits.iter().for_each(|waited| polling.note(*waited));
        polling
    }

    #[test]
    fn short_sleeps_make_looks_longer_up_to_a_bound() {
        assert_eq!(after(&[]).look(), Duration::ZERO);
        assert_eq!(after(&[SHORT]).look(), LOOK_MIN);
        assert_eq!(after(&[SHORT, SHORT]).look(), 2 * LOOK_MIN);
        assert_eq!(after(&[SHORT; 20]).look(), LOOK_MAX);
        assert_eq!(after(&[SHORT, Waited::Found]).look(), LOOK_MIN);
    }

    #[test]
    fn an_idle_thread_does_not_look() {
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

    /// How long one that was just disturbed sleeps until it looks again.
    fn pause(polling: &mut Polling) -> Duration {
        polling.note(Waited::Disturbed);
        let mut time = Duration::ZERO;
        while polling.look().is_zero() {
            polling.note(SHORT);
            time += Duration::from_micros(60);
        }
        time
    }

    #[test]
    fn who_is_disturbed_does_not_look_for_a_while_and_for_longer_each_time() {
        let mut polling = after(&[SHORT, SHORT]);
        let pauses: Vec<Duration> = (0..6).map(|_| pause(&mut polling)).collect();
        assert!(
            pauses[0] >= PAUSE_MIN && pauses[0] < 2 * PAUSE_MIN,
            "{pauses:?}"
        );
        assert!(pauses.is_sorted() && pauses[5] >= PAUSE_MAX, "{pauses:?}");
        // Where looks pay, an interrupt now and then changes little.
        for _ in 0..20 {
            polling.note(Waited::Found);
        }
        assert!(pause(&mut polling) < 2 * PAUSE_MIN);
    }
}
