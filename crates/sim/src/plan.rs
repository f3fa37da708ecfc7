//! A world as a plan: all that is to happen in it, made from one number.
//!
//! Nothing is decided later but by what the plan holds, so a plan can be made smaller piece by piece
//! and run again.

mod scenes;
mod show;
mod troubles;

use std::ops::Range;
use std::time::Duration;

use forebay_device::Op;

use crate::disk::{Coin, Faults, Outage, Rot};
use crate::workload::{Bounds, Script, journal, mix as mixes, trace};
use forebay_rng::{Rng, mix};

/// What may go wrong in a world, beside power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Calm,
    /// The data device refuses requests now and then, for a while, or for good.
    DataFails,
    /// The data device has no more space.
    DataFull,
    /// The log device refuses a request, some, or all from then on.
    LogFails,
    /// Reads of the log fail now and then.
    LogReadsFail,
    /// Bits change on the log device.
    Rot,
    /// A write to the log lands elsewhere.
    Misdirect,
    /// The disks say that they flush and do not.
    Lies,
    /// After a crash, the log device is gone and another is in its place.
    LogLost,
    /// A device, or both as if they were parts of one, does not work for milliseconds or for hours, or
    /// ever again.
    Away,
    /// Places of the data device take no writes, or places of the log cannot be read.
    BadPlaces,
    /// The log fails, and its superblocks take no writes for longer, or only parts of them.
    Superblocks,
}

/// How a life ends, if the power does not go before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The power goes as soon as all is done.
    Cut,
    /// A flush, a quiet moment, and then the power goes.
    Quiet,
    /// The volume is closed.
    Close,
    /// The volume is drained and closed.
    Drain,
}

/// When a life is looked at as if the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// At one in so many requests that change something.
    OneIn(u64),
    /// At each of them, in several ways.
    Each {
        /// Where no more blocks than this are at stake, with every combination of kept and dropped.
        combinations: u64,
        /// At one in so many requests, the recovery is cut at each of its requests, and so is the
        /// recovery after each of those; 0: at none.
        recoveries: u64,
    },
}

/// From one attach to the next crash.
#[derive(Clone, Debug)]
pub struct Life {
    /// For the disks' choices.
    pub seed: u64,
    /// Bytes in a block of the log and of the data device; a volume goes on on devices of smaller
    /// blocks than it was made for.
    pub blocks: (u32, u32),
    /// What each lane does.
    pub scripts: Vec<Script>,
    /// The power goes at this request that changes something.
    pub cut_at: u64,
    /// Or the volume is closed at this moment, whatever is under way.
    pub stop_at: Option<Duration>,
    /// It is not the power that goes, but the process that dies: what the disks have in their caches
    /// stays there, and may go with the power in the next life.
    pub killed: bool,
    /// Or at the end of all scripts, so.
    pub after: After,
    /// What the cut at the end leaves.
    pub coin: Coin,
    /// When it is looked what a cut right there would leave.
    pub looks: Looks,
    /// Latencies of the log's and the data device's requests are at most so long.
    pub slowest: (Duration, Duration),
    /// What a flush of the log takes.
    pub flush_takes: Option<Duration>,
    /// What the log device does wrong.
    pub log: Faults,
    /// What the data device does wrong.
    pub data: Faults,
}

/// A world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number it is made from.
    pub seed: u64,
    /// What may go wrong.
    pub kind: Kind,
    /// Bytes in a block of both disks when the log is made.
    pub block: u32,
    /// The log device was something else before.
    pub used_log: bool,
    /// Bytes of the data device.
    pub data_len: u64,
    /// Where the lanes' regions begin and end.
    pub regions: Vec<Range<u64>>,
    /// A write is acknowledged when it is durable.
    pub durable_writes: bool,
    /// How long the log waits before it writes.
    pub max_delay: Duration,
    /// Writes from this length on go past the log.
    pub bypass: Option<u64>,
    /// The memory that the map may take, in bytes, if that is little.
    pub map_memory: Option<u64>,
    /// The clock leaps forward now and then: one in so many waits.
    pub clock_leaps: Option<u64>,
    /// One in so many writes is sent twice at the same time, as by a client that lost patience.
    pub resends: Option<u64>,
    /// Much is written at once, so that the log is full and wraps.
    pub flood: bool,
    /// One after the other.
    pub lives: Vec<Life>,
}

impl Life {
    /// When all disks work, if they do not now and will by the clock.
    pub fn well_again(&self) -> Option<Duration> {
        let all_well = self.log.refuse_nothing() && self.data.refuse_nothing();
        let end = self.log.end()?.max(self.data.end()?);
        (!all_well).then_some(end)
    }
}

impl Plan {
    /// The world of a seed.
    pub fn of_seed(seed: u64) -> Plan {
        let rng = Rng::new(mix(seed, 0x0f0e_eba1));
        let kind = kind(&rng);
        let block = if rng.one_in(4) { 4096 } else { 512 };
        let flood = rng.one_in(8) | is_hard_on_the_log(kind, seed);
        let data_len = (64 << 10)
            << if flood {
                3
            } else {
                rng.pick(&[0, 0, 0, 1, 1, 2, 3])
            };
        let regions = regions(&rng, data_len, block.into());
        let lives = 1 + rng.below(1 + rng.below(5));
        let mut plan = Plan {
            seed,
            kind,
            block,
            used_log: Rng::new(mix(seed, 0x05ed)).one_in(3),
            data_len,
            regions,
            durable_writes: rng.one_in(8),
            max_delay: Duration::from_micros(200 << rng.below(9)),
            bypass: rng.one_in(10).then(|| 4096 << rng.below(5)),
            map_memory: None,
            clock_leaps: rng.one_in(12).then(|| 2 << rng.below(6)),
            resends: resends(seed),
            flood,
            lives: Vec::new(),
        };
        for n in 0..lives {
            let life = plan.life(&rng, mix(seed, n + 1), n == 0);
            plan.lives.push(life);
        }
        troubles::add(&mut plan);
        plan
    }

    /// The world of a seed, in which the lanes do what a recorded trace says.
    pub fn with_trace(seed: u64, trace: &[trace::Traced]) -> Plan {
        let mut plan = Plan::of_seed(seed);
        let rng = Rng::new(mix(seed, 0x07_2a_ce));
        for life in &mut plan.lives {
            for (region, script) in plan.regions.iter().zip(&mut life.scripts) {
                let bounds = Bounds {
                    region: region.clone(),
                    volume: plan.data_len,
                    block: plan.block.into(),
                };
                let len = 20 + rng.below(100) as usize;
                *script = trace::script(&rng, &bounds, trace, len);
            }
        }
        plan
    }

    fn life(&self, rng: &Rng, seed: u64, first: bool) -> Life {
        let len = 4 + rng.below(60) as usize;
        let flood = self.flood;
        let scripts = self.regions.iter().map(|region| {
            let bounds = Bounds {
                region: region.clone(),
                volume: self.data_len,
                block: self.block.into(),
            };
            if flood {
                return mixes::flood(rng, &bounds, len);
            }
            let journal = rng
                .one_in(4)
                .then(|| journal::script(rng, &bounds, len))
                .flatten();
            journal.unwrap_or_else(|| mixes::script(rng, &bounds, len))
        });
        let scripts: Vec<Script> = scripts.collect();
        let requests = 20 + 3 * scripts.len() as u64 * len as u64;
        let (mut log, data) = faults(rng, self.kind, seed, requests);
        if flood {
            log.slow_reads = slow_reads(seed);
        }
        let us = |most: u64| Duration::from_micros(rng.below(most) + 1);
        let fast = rng.one_in(3);
        Life {
            seed,
            blocks: (self.block, self.block),
            scripts,
            stop_at: None,
            killed: false,
            cut_at: if first || rng.coin() {
                rng.below(requests)
            } else {
                rng.below(40)
            },
            after: rng.pick(&[
                After::Cut,
                After::Cut,
                After::Quiet,
                After::Close,
                After::Drain,
            ]),
            coin: coin(rng, seed),
            looks: Looks::OneIn(if flood {
                6 + rng.below(8)
            } else {
                1 + rng.below(3)
            }),
            slowest: if fast {
                (us(50), us(50))
            } else {
                (us(4000), us(20_000))
            },
            flush_takes: rng.one_in(3).then(|| us(40_000)),
            log,
            data,
        }
    }

    /// True if a request of a user may fail.
    pub fn may_fail(&self) -> bool {
        !matches!(self.kind, Kind::Calm | Kind::LogLost | Kind::Lies)
    }

    /// True if the log may give back something else than what was written to it.
    pub fn is_dishonest(&self) -> bool {
        matches!(self.kind, Kind::Rot | Kind::Misdirect | Kind::Lies)
    }
}

/// What fails the log shows more where it holds much.
fn is_hard_on_the_log(kind: Kind, seed: u64) -> bool {
    let rng = Rng::new(mix(seed, 0xf1_00d));
    matches!(kind, Kind::LogFails | Kind::LogReadsFail) && rng.one_in(3)
}

/// Chosen apart, so that the other choices of a seed do not depend on it.
fn resends(seed: u64) -> Option<u64> {
    let rng = Rng::new(mix(seed, 0x07_e5_e2));
    rng.one_in(4).then(|| 1 + rng.below(8))
}

fn kind(rng: &Rng) -> Kind {
    match rng.below(100) {
        0..=47 => Kind::Calm,
        48..=57 => Kind::DataFails,
        58..=61 => Kind::DataFull,
        62..=75 => Kind::LogFails,
        76..=81 => Kind::LogReadsFail,
        82..=87 => Kind::Rot,
        88..=92 => Kind::Misdirect,
        93..=96 => Kind::Lies,
        _ => Kind::LogLost,
    }
}

/// One to four regions next to each other, their borders in the middle of lines if blocks allow.
fn regions(rng: &Rng, data_len: u64, block: u64) -> Vec<Range<u64>> {
    let count = rng.pick(&[1, 1, 2, 3, 4]);
    let mut borders = vec![0];
    for n in 1..count {
        let around = data_len * n / count;
        borders.push((around + rng.below(8) * 512) / block * block);
    }
    borders.push(data_len);
    borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// What a cut leaves.
pub(crate) fn coin(rng: &Rng, seed: u64) -> Coin {
    match rng.below(8) {
        0 => Coin::Keep,
        1 | 2 => Coin::Drop,
        3 | 4 => Coin::Writes(mix(seed, rng.next())),
        _ => Coin::Blocks(mix(seed, rng.next())),
    }
}

fn faults(rng: &Rng, kind: Kind, seed: u64, requests: u64) -> (Faults, Faults) {
    let mut log = Faults {
        seed: mix(seed, 1),
        ..Faults::default()
    };
    let mut data = Faults {
        seed: mix(seed, 2),
        ..Faults::default()
    };
    let when = rng.below(requests);
    if rng.one_in(6) {
        let slow = (
            4 + rng.below(40),
            Duration::from_millis(1 + rng.below(3000)),
        );
        if rng.coin() {
            log.slow = Some(slow)
        } else {
            data.slow = Some(slow)
        }
    }
    match kind {
        Kind::Calm | Kind::LogLost | Kind::Away | Kind::BadPlaces | Kind::Superblocks => {}
        Kind::DataFails => refuse(rng, &mut data, when),
        Kind::DataFull => data.room = Some(rng.below(24)),
        Kind::LogFails => {
            // Reading goes on as a rule: what cannot be read back is lost.
            refuse(rng, &mut log, when);
            log.reads_fail = 0;
            linger(&mut data, seed);
            if rng.one_in(5) {
                refuse(rng, &mut data, when + rng.below(40));
                data.reads_fail = 0;
            }
        }
        Kind::LogReadsFail => {
            log.reads_fail = 2 + rng.below(30);
            deafen(&mut log, seed);
        }
        Kind::Rot => {
            log.rot = Some(Rot {
                at: when,
                places: 1 + rng.below(4),
            })
        }
        Kind::Misdirect => log.misdirect = Some(rng.below(requests / 4)),
        Kind::Lies => {
            log.lies = true;
            data.lies = rng.coin();
        }
    }
    (log, data)
}

/// So slow that all of the log may be written anew while something is read from it.
fn slow_reads(seed: u64) -> Option<(u64, Duration)> {
    let rng = Rng::new(mix(seed, 6));
    let span = Duration::from_millis(200 << rng.below(6));
    rng.coin().then(|| (8 + rng.below(60), span))
}

/// In every other such life no read of the log succeeds for some time, however often it is tried, so
/// that what only the log has is lost.
fn deafen(log: &mut Faults, seed: u64) {
    let rng = Rng::new(mix(seed, 3));
    if rng.coin() {
        log.reads_fail = 0;
        log.outage = Some(Outage {
            from: 34 + rng.below(120),
            op: Some(Op::Read),
            requests: rng.coin().then(|| 4 << rng.below(6)),
            reads: true,
        });
    }
}

/// In every other such life the data device takes long for some requests, so that what it was asked
/// before the log failed is still under way in the rescue.
fn linger(data: &mut Faults, seed: u64) {
    let rng = Rng::new(mix(seed, 4));
    if rng.coin() {
        let span = Duration::from_millis(20 + rng.below(400));
        data.slow = Some((1 + rng.below(8), span));
    }
}

fn refuse(rng: &Rng, faults: &mut Faults, when: u64) {
    faults.forgetful = rng.coin();
    let rate = 4 + rng.below(60);
    match rng.below(6) {
        0 => faults.writes_fail = rate,
        1 => faults.flushes_fail = rate,
        2 => {
            faults.discards_fail = 1 + rng.below(4);
            faults.reads_fail = rate;
        }
        3 | 4 => {
            let requests = Some(1 + rng.below(1 << rng.below(9)));
            let reads = rng.one_in(3);
            faults.outage = Some(Outage {
                from: when,
                op: None,
                requests,
                reads,
            });
        }
        _ => {
            let reads = rng.one_in(3);
            faults.outage = Some(Outage {
                from: when,
                op: None,
                requests: None,
                reads,
            });
        }
    }
}
