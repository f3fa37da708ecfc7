//! Mixed block workloads: overlapping writes of all sizes, with flushes, zeroes, discards and pauses.

use std::ops::Range;
use std::time::Duration;

use forebay_rng::Rng;

use super::{ScriptBounds, WriterScript};

use crate::history::{ScriptAction, extent};

/// Parameters of a mix. All values are out of 100, unless stated otherwise.
#[derive(Clone, Copy, Debug)]
struct RequestMix {
    flushes: u64,
    fua: u64,
    reads: u64,
    zeroes: u64,
    discards: u64,
    pauses: u64,
    /// Pauses long enough for destaging, out of 100 pauses.
    long_pauses: u64,
    /// Maximum length of a write, in bytes.
    most: u64,
    /// Writes to a small hot place.
    hot: u64,
    /// Writes that begin at the end of the last one.
    runs: u64,
}

impl RequestMix {
    fn random(rng: &Rng) -> RequestMix {
        let rare = |most: u64| if rng.coin() { 0 } else { rng.below(most + 1) };
        RequestMix {
            flushes: rng.below(30),
            fua: rare(30),
            reads: rare(30),
            zeroes: rare(10),
            discards: rare(10),
            pauses: rng.below(12),
            long_pauses: rng.below(60),
            most: 512 << rng.below(8),
            hot: rare(70),
            runs: rare(50),
        }
    }
}

/// Returns a script of `len` actions.
pub fn script(rng: &Rng, bounds: &ScriptBounds, len: usize) -> WriterScript {
    let mix = RequestMix::random(rng);
    let room = bounds.region.end - bounds.region.start;
    // Some writes are longer than a record, a segment, or an atomic write.
    let huge = rng
        .one_in(4)
        .then(|| rng.pick(&[128 << 10, 300 << 10, (1 << 20) + 4096]));
    let mut last = bounds.region.start;
    let mut actions = Vec::with_capacity(len);
    while actions.len() < len {
        let most = match huge {
            Some(huge) if rng.one_in(16) => huge,
            _ => mix.most,
        };
        let most = most.clamp(bounds.block, room);
        let action = one(rng, bounds, &mix, most, &mut last);
        actions.push(action);
    }
    WriterScript {
        actions,
        rules: Vec::new(),
    }
}

/// Returns a script that fills a small log: large writes with few pauses.
pub fn flood(rng: &Rng, bounds: &ScriptBounds, len: usize) -> WriterScript {
    let mix = RequestMix {
        flushes: rng.below(8),
        reads: rng.pick(&[5, 5, 20]),
        pauses: rng.below(4),
        hot: 0,
        most: 64 << 10 << rng.below(3),
        ..RequestMix::random(rng)
    };
    let room = bounds.region.end - bounds.region.start;
    let mut last = bounds.region.start;
    let action = |_| one(rng, bounds, &mix, mix.most.min(room), &mut last);
    WriterScript {
        actions: (0..2 * len).map(action).collect(),
        rules: Vec::new(),
    }
}

fn one(
    rng: &Rng,
    bounds: &ScriptBounds,
    mix: &RequestMix,
    most: u64,
    last: &mut u64,
) -> ScriptAction {
    let (roll, mut upto) = (rng.below(100), 0);
    let mut is = |share: u64| {
        upto += share;
        roll < upto
    };
    if is(mix.flushes) {
        return ScriptAction::Flush;
    }
    if is(mix.pauses) {
        return ScriptAction::Pause(pause(rng, mix.long_pauses));
    }
    if is(mix.reads) {
        let whole = ScriptBounds {
            region: 0..bounds.volume,
            ..bounds.clone()
        };
        return ScriptAction::Read(whole.align(extent(rng, &whole.region, most)));
    }
    if is(mix.zeroes) {
        return ScriptAction::Zero(place(rng, bounds, mix, most, last));
    }
    if is(mix.discards) {
        return ScriptAction::Discard(place(rng, bounds, mix, most, last));
    }
    let fua = rng.below(100) < mix.fua;
    ScriptAction::Write {
        range: place(rng, bounds, mix, most, last),
        fua,
    }
}

fn pause(rng: &Rng, long: u64) -> Duration {
    if rng.below(100) < long {
        return Duration::from_millis(900 + rng.below(1200));
    }
    match rng.below(4) {
        0 => Duration::from_micros(rng.below(500)),
        1 => Duration::from_millis(190 + rng.below(30)),
        _ => Duration::from_millis(rng.below(70)),
    }
}

fn place(
    rng: &Rng,
    bounds: &ScriptBounds,
    mix: &RequestMix,
    most: u64,
    last: &mut u64,
) -> Range<u64> {
    let Range { start, end } = bounds.region;
    let roll = rng.below(100);
    let range = if roll < mix.hot {
        let hot = start..(start + 16384.max(most)).min(end);
        extent(rng, &hot, most)
    } else if roll < mix.hot + mix.runs && *last + most <= end {
        *last..*last + bounds.block.max(most / 2)
    } else {
        extent(rng, &bounds.region, most)
    };
    let range = bounds.align(range);
    *last = range.end;
    range
}
