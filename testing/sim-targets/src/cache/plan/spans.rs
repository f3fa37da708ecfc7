//! Durations of events, and numbers of concurrent requests.

use std::time::Duration;

use forebay_rng::Rng;
use forebay_sim::disk::TimedFault;

/// Maximum number of concurrent requests in an incarnation.
pub(super) const CROWD: u64 = 4096;

/// Returns a duration of 1 ms to 2^`upto` ms. Each order of magnitude has the same probability.
pub(super) fn span(rng: &Rng, upto: u64) -> Duration {
    let ms = 1 << rng.below(upto);
    Duration::from_micros(ms * 1000 + rng.below(ms * 1000))
}

pub(super) fn trouble(rng: &Rng) -> TimedFault {
    let from = match rng.below(4) {
        0 => Duration::ZERO,
        _ => span(rng, 12),
    };
    let most = rng.pick(&[13, 13, 17, 24]);
    TimedFault {
        from,
        to: (!rng.one_in(4)).then(|| from + span(rng, most)),
        range: None,
        reads: rng.coin(),
        changes: true,
        one_in: rng.pick(&[1, 1, 1, 2, 5]),
        takes: match rng.below(6) {
            0 => span(rng, 12),
            _ => Duration::ZERO,
        },
        fails: true,
    }
}
