//! How long a whole file takes: the paper's `sleds_total_delivery_time` (section 4.2).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;

use crate::describe::{DescribeError, Describer, Sled, length, on_device, unknown};
use crate::level::Level;
use crate::memory;
use crate::read::Plan;
use crate::residency::{Presence, residency};
use crate::sys;
use crate::table::{Rates, Spread};

/// Requests that the reader keeps in flight on a device; that many latencies pass at once.
pub(crate) const DEPTH: usize = 4;

/// Bytes of a request to the device. As many as [`DEPTH`] are in memory at once, which is taken
/// from the page cache where memory is short.
pub(crate) const BLOCK: u64 = 128 << 10;
/// A device whose first byte takes this long has an arm, or a robot: it serves one at a time.
const ONE_AT_A_TIME_S: f64 = 2e-3;
/// The kernel's first window of read-ahead: while it comes, there is no other that it overlaps with.
const WINDOW_BYTES: u64 = 1 << 20;

/// A cached part up to this long is passed over by read-ahead, as long as the kernel reads ahead unless
/// told otherwise.
const READ_AHEAD: u64 = 128 << 10;

/// How long reading takes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Delivery {
    /// Seconds, for all but the bytes of which nothing is known.
    pub seconds: Spread,
    /// Bytes of which nothing is known.
    pub unknown_bytes: u64,
}

impl Delivery {
    const NOTHING: Delivery = Delivery {
        seconds: Spread::exactly(0.0),
        unknown_bytes: 0,
    };

    /// The estimate; `None` if there are bytes of which nothing is known.
    pub fn known(&self) -> Option<Spread> {
        (self.unknown_bytes == 0).then_some(self.seconds)
    }

    /// `length` more bytes at a bandwidth chosen from the rates; so many latencies are waited for.
    fn add(
        &mut self,
        rates: Option<Rates>,
        bandwidth: fn(&Rates) -> Spread,
        length: u64,
        latencies: f64,
    ) {
        let Some(rates) = rates else {
            self.unknown_bytes += length;
            return;
        };
        let (latency, bandwidth, length) = (rates.latency_s, bandwidth(&rates), length as f64);
        self.seconds.low += latencies * latency.low + length / bandwidth.high;
        self.seconds.median += latencies * latency.median + length / bandwidth.median;
        self.seconds.high += latencies * latency.high + length / bandwidth.low;
    }
}

/// The estimated time to read all that `sleds` describe by a plan; the lesser of both for
/// [`Plan::Auto`].
///
/// The linear plan waits for a latency where it gets to a device, as the kernel's read-ahead begins
/// anew there, with nothing to overlap with at first; for less after cached parts that are so short
/// that read-ahead goes on over them. If the cache has no room for what is read, cached parts are
/// gone when the linear plan gets to them (the paper's figure 3), and count as on the device. The
/// best plan reads each level at one go, with
/// several requests in flight; an arm passes over what is left out in no more time than reading it
/// would take. [`Plan::Auto`] reads over short cached parts, as [`Reader`](crate::Reader) does.
pub fn delivery_time(sleds: &[Sled], plan: Plan) -> Delivery {
    delivery_time_in(sleds, plan, room(sleds))
}

/// [`delivery_time`] if `room` bytes more can be read before the cache takes from what it has of
/// this file; `None` if nothing is lost.
pub fn delivery_time_in(sleds: &[Sled], plan: Plan, room: Option<u64>) -> Delivery {
    match plan {
        Plan::Linear => linear(sleds, room),
        Plan::Best => best(sleds),
        Plan::Auto => {
            let linear = linear(sleds, room);
            let mut sleds = sleds.to_vec();
            read_over(&mut sleds);
            let best = best(&sleds);
            match linear.seconds.median < best.seconds.median {
                true => linear,
                false => best,
            }
        }
    }
}

/// Bytes of cheap parts that are better read along with what is dear on both sides, than left out at
/// the price of one request more: what comes from the device meanwhile. Nothing above one request.
pub(crate) fn worth_reading_over(rates: Option<Rates>) -> u64 {
    rates.map_or(0, |rates| {
        let bytes = rates.latency_s.median * rates.bandwidth_Bps.median / DEPTH as f64;
        (bytes as u64).min(BLOCK)
    })
}

/// Makes the SLEDs what they are if one reads over short cheap parts.
pub(crate) fn read_over(sleds: &mut [Sled]) {
    for at in 1..sleds.len().saturating_sub(1) {
        let [before, over, after] = &sleds[at - 1..=at + 1] else {
            return;
        };
        if over.level == Level::Memory
            && before.level == after.level
            && over.length <= worth_reading_over(before.rates())
        {
            sleds[at] = Sled {
                offset: over.offset,
                length: over.length,
                ..before.clone()
            };
        }
    }
}

/// How much of the cache is free for reading the rest of a file without losing what is cached of
/// it; `None` if it makes no difference, or nothing says.
pub(crate) fn room(sleds: &[Sled]) -> Option<u64> {
    let sum = |memory: bool| -> u64 {
        let parts = sleds
            .iter()
            .filter(|sled| (sled.level == Level::Memory) == memory);
        parts.map(|sled| sled.length).sum()
    };
    let (cached, rest) = (sum(true), sum(false));
    if cached == 0 || rest == 0 {
        return None;
    }
    let capacity = memory::cache_capacity()?;
    Some(capacity.saturating_sub(cached))
}

fn linear(sleds: &[Sled], room: Option<u64>) -> Delivery {
    let mut delivery = Delivery::NOTHING;
    let mut read = 0_u64;
    let mut device = sleds.iter().find(|sled| sled.level != Level::Memory);
    let mut before: Option<(&Level, u64)> = None;
    let mut any_cached = false;
    for sled in sleds {
        // What was read on this pass is used again and stays; what was not yet goes, oldest first:
        // that is what comes next. Reading it evicts what comes after it, and so on.
        let lost = sled.level == Level::Memory && room.is_some_and(|room| read > room);
        let from = match lost {
            true => device.unwrap_or(sled),
            false => sled,
        };
        let mut latencies = 1.0;
        if from.level == Level::Memory {
            latencies = f64::from(u8::from(!std::mem::replace(&mut any_cached, true)));
        } else {
            if let Some((level, end)) = before
                && *level == from.level
            {
                let over = sled.offset.saturating_sub(end) as f64;
                latencies = (over / READ_AHEAD as f64).min(1.0);
            }
            read += sled.length;
            device = Some(from);
            before = Some((&from.level, sled.end()));
        }
        let alone = match from.level {
            Level::Memory => 0,
            _ => (latencies * sled.length.min(WINDOW_BYTES) as f64) as u64,
        };
        delivery.add(from.rates(), slower, alone, latencies);
        let overlapped = sled.length - alone;
        delivery.add(from.rates(), Rates::in_file_order, overlapped, 0.0);
    }
    delivery
}

/// The bandwidth of a lone window is not measured; it is near that of a few requests in flight, or that of
/// reading in file order if that is slower.
fn slower(rates: &Rates) -> Spread {
    let (best, linear) = (rates.bandwidth_Bps, rates.in_file_order());
    match best.median < linear.median {
        true => best,
        false => linear,
    }
}

fn best(sleds: &[Sled]) -> Delivery {
    let mut delivery = Delivery::NOTHING;
    // Each level, and the byte after the last that is read from it.
    let mut seen: Vec<(&Level, u64)> = Vec::new();
    for sled in sleds {
        let latencies = match seen.iter_mut().find(|(level, _)| **level == sled.level) {
            None => {
                seen.push((&sled.level, sled.end()));
                1.0
            }
            Some((_, end)) => {
                let over = sled.offset.saturating_sub(*end);
                *end = sled.end();
                latencies_over(sled, over)
            }
        };
        delivery.add(
            sled.rates(),
            |rates| rates.bandwidth_Bps,
            sled.length,
            latencies,
        );
    }
    delivery
}

/// Latencies that going on costs after so many bytes that were left out.
fn latencies_over(sled: &Sled, over: u64) -> f64 {
    let Some(rates) = sled.rates().filter(|_| over > 0) else {
        return 0.0;
    };
    let latency = rates.latency_s.median;
    match (&sled.level, latency >= ONE_AT_A_TIME_S) {
        (Level::Memory, _) => 1.0,
        (_, true) => (over as f64 / (rates.bandwidth_Bps.median * latency)).min(1.0),
        (_, false) => 1.0 / DEPTH as f64,
    }
}

/// What a file takes, estimated without looking at each page.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// Bytes in the file.
    pub length: u64,
    /// Bytes of it in memory; `None` if the kernel does not tell.
    pub cached: Option<u64>,
    /// The level that the rest comes from; [`Level::Memory`] if there is none.
    pub level: Level,
    /// The time to read it, in file order.
    pub delivery: Delivery,
}

/// Estimates for many files: one `fstat` and one `cachestat` a file, devices looked up once.
///
/// Where a part of a file is cached, [`describe`](crate::describe) knows which one, and this does
/// not. Holes count as what the filesystem did not allocate.
pub struct Estimator {
    describer: Describer,
}

impl Default for Estimator {
    fn default() -> Estimator {
        Estimator::new()
    }
}

impl Estimator {
    /// By this machine's table, or defaults: see [`Describer::problem`].
    pub fn new() -> Estimator {
        Estimator {
            describer: Describer::new(),
        }
    }

    /// By the table of a describer.
    pub fn with(describer: Describer) -> Estimator {
        Estimator { describer }
    }

    /// The describer used.
    pub fn describer(&self) -> &Describer {
        &self.describer
    }

    /// What `file`, open for reading, takes.
    ///
    /// # Errors
    /// If it is not a file with a length, or cannot be examined.
    pub fn estimate(&mut self, file: &File) -> Result<Estimate, DescribeError> {
        let length = length(file)?;
        let nothing = Estimate {
            length,
            cached: Some(0),
            level: Level::Memory,
            delivery: Delivery::NOTHING,
        };
        if length == 0 {
            return Ok(nothing);
        }
        let pages = length.div_ceil(sys::page_size());
        let stat = match sys::cachestat(file.as_fd(), 0, length) {
            Ok(stat) if stat.cached > 0 || !self.may_hide_pages(file)? => stat,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                let delivery = delivery_time_in(&[unknown(0, length)], Plan::Linear, None);
                return Ok(Estimate {
                    cached: None,
                    level: Level::Unknown,
                    delivery,
                    ..nothing
                });
            }
            _ => return self.exactly(file),
        };
        let cached = (stat.cached.min(pages) * sys::page_size()).min(length);
        Ok(self.of_parts(file, nothing, cached)?)
    }

    fn of_parts(&mut self, file: &File, of: Estimate, cached: u64) -> io::Result<Estimate> {
        let length = of.length;
        let located = self.describer.locate(file)?;
        let meta = file.metadata()?;
        let on_disk = match meta.mode() & libc::S_IFMT {
            libc::S_IFREG => meta.blocks().saturating_mul(512),
            _ => length,
        };
        // A hole that is cached is not told apart from data that is.
        let rest = (length - cached).min(on_disk);
        let zone = located.somewhere();
        let mut sleds = Vec::with_capacity(2);
        if rest > 0 {
            sleds.push(on_device(0, rest, zone));
        }
        if length > rest {
            sleds.push(self.describer.memory(rest, length - rest));
        }
        Ok(Estimate {
            cached: Some(cached),
            level: sleds[0].level.clone(),
            delivery: delivery_time_in(&sleds, Plan::Linear, None),
            ..of
        })
    }

    /// Whether "nothing cached" may be wrong: on overlayfs the pages are another inode's.
    fn may_hide_pages(&mut self, file: &File) -> io::Result<bool> {
        Ok(self
            .describer
            .locate(file)?
            .place
            .top()
            .identity
            .starts_with("mount:overlay:"))
    }

    fn exactly(&mut self, file: &File) -> Result<Estimate, DescribeError> {
        let sleds = self.describer.describe(file)?;
        let mut cached = Some(0);
        for run in residency(file, 0, sleds.last().map_or(0, Sled::end))? {
            cached = match run.presence {
                Presence::Cached => cached.map(|cached| cached + run.length),
                Presence::Absent => cached,
                Presence::Unknown => None,
            };
        }
        let level = sleds.iter().map(|sled| &sled.level).max();
        Ok(Estimate {
            length: sleds.last().map_or(0, Sled::end),
            cached,
            level: level.cloned().unwrap_or(Level::Memory),
            delivery: delivery_time_in(&sleds, Plan::Linear, None),
        })
    }
}
