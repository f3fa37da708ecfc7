//! Estimates the delivery time of a whole file: the paper's `sleds_total_delivery_time` (section 4.2).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;

use crate::describe::{DescribeError, Describer, Sled, length, on_device, unknown};
use crate::level::StorageLevel;
use crate::memory;
use crate::plan::ReadPlan;
use crate::residency::{Presence, residency};
use crate::sys;
use crate::table::{EstimateRange, ReadRates};

/// Requests that the reader keeps in flight on a device. Their latencies overlap.
pub(crate) const DEPTH: usize = 4;

/// Bytes of a request to the device. [`DEPTH`] requests are in memory at the same time; if memory is short, their
/// buffers displace pages of the page cache.
pub(crate) const BLOCK: u64 = 128 << 10;
/// Latency from which a device is assumed to have an arm or a robot, and to serve one request at a time.
const ONE_AT_A_TIME_S: f64 = 2e-3;
/// The kernel's first read-ahead window. While it is read, no other window overlaps with it.
const WINDOW_BYTES: u64 = 1 << 20;

/// Length up to which read-ahead continues across a cached part. This is the kernel's default read-ahead size.
const READ_AHEAD: u64 = 128 << 10;

/// Time that reading takes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DeliveryTime {
    /// Seconds for all bytes whose rates are known.
    pub seconds: EstimateRange,
    /// Bytes whose rates are not known.
    pub unknown_bytes: u64,
}

impl DeliveryTime {
    const NOTHING: DeliveryTime = DeliveryTime {
        seconds: EstimateRange::exactly(0.0),
        unknown_bytes: 0,
    };

    /// Returns the estimate; `None` if the rates of some bytes are not known.
    pub fn known(&self) -> Option<EstimateRange> {
        (self.unknown_bytes == 0).then_some(self.seconds)
    }

    /// Adds `length` bytes at a bandwidth selected from the rates, and the wait for `latencies` latencies.
    fn add(
        &mut self,
        rates: Option<ReadRates>,
        bandwidth: fn(&ReadRates) -> EstimateRange,
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

/// Estimates the time to read everything that `sleds` describe by a plan. For [`ReadPlan::Auto`], returns the lesser of
/// both orders.
///
/// The linear plan waits for a latency at each transition to a device, since the kernel's read-ahead starts again
/// there, with nothing to overlap with at first. It waits for less after cached parts that are so short that read-ahead
/// continues across them. If the cache has no space for the bytes to be read, cached parts are evicted before the
/// linear plan reaches them (the paper's figure 3), and are estimated as parts on the device. The best plan reads each
/// level in one pass, with several requests in flight; an arm skips omitted bytes in no more time than reading them
/// would take. [`ReadPlan::Auto`] reads over short cached parts, as [`FileReader`](crate::FileReader) does.
pub fn delivery_time(sleds: &[Sled], plan: ReadPlan) -> DeliveryTime {
    delivery_time_in(sleds, plan, room(sleds))
}

/// Estimates like [`delivery_time`], with `room` as the number of bytes that can be read before the cache evicts parts
/// of this file. `None` means that nothing is evicted.
pub fn delivery_time_in(sleds: &[Sled], plan: ReadPlan, room: Option<u64>) -> DeliveryTime {
    match plan {
        ReadPlan::Linear => linear(sleds, room),
        ReadPlan::Best => best(sleds),
        ReadPlan::Auto => {
            let linear = linear(sleds, room);
            let mut sleds = sleds.to_vec();
            read_over(&mut sleds);
            let best = best(&sleds);
            if linear.seconds.median < best.seconds.median {
                linear
            } else {
                best
            }
        }
    }
}

/// Returns the length up to which a cheap part between two expensive parts is better read along with them. To skip the
/// part costs an additional request; in that time the device delivers this number of bytes. At most one request.
pub(crate) fn worth_reading_over(rates: Option<ReadRates>) -> u64 {
    rates.map_or(0, |rates| {
        let bytes = rates.latency_s.median * rates.bandwidth_Bps.median / DEPTH as f64;
        (bytes as u64).min(BLOCK)
    })
}

/// Changes the SLEDs as if the reader reads over short cheap parts.
pub(crate) fn read_over(sleds: &mut [Sled]) {
    for at in 1..sleds.len().saturating_sub(1) {
        let [before, over, after] = &sleds[at - 1..=at + 1] else {
            return;
        };
        if over.level == StorageLevel::Memory
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

/// Returns the number of bytes of the rest of a file that can be read into the cache before its cached parts are
/// evicted. `None` if eviction makes no difference, or the capacity is not known.
pub(crate) fn room(sleds: &[Sled]) -> Option<u64> {
    let sum = |memory: bool| -> u64 {
        let parts = sleds
            .iter()
            .filter(|sled| (sled.level == StorageLevel::Memory) == memory);
        parts.map(|sled| sled.length).sum()
    };
    let (cached, rest) = (sum(true), sum(false));
    if cached == 0 || rest == 0 {
        return None;
    }
    let capacity = memory::cache_capacity()?;
    Some(capacity.saturating_sub(cached))
}

fn linear(sleds: &[Sled], room: Option<u64>) -> DeliveryTime {
    let mut delivery = DeliveryTime::NOTHING;
    let mut read = 0_u64;
    let mut device = sleds.iter().find(|sled| sled.level != StorageLevel::Memory);
    let mut before: Option<(&StorageLevel, u64)> = None;
    let mut any_cached = false;
    for sled in sleds {
        // Pages that this pass has read are used again and stay. Pages not yet read are evicted, oldest first: the
        // pages that are read next. Reading them evicts the pages after them, and so on.
        let lost = sled.level == StorageLevel::Memory && room.is_some_and(|room| read > room);
        let from = if lost { device.unwrap_or(sled) } else { sled };
        let mut latencies = 1.0;
        if from.level == StorageLevel::Memory {
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
            StorageLevel::Memory => 0,
            _ => (latencies * sled.length.min(WINDOW_BYTES) as f64) as u64,
        };
        delivery.add(from.rates(), slower, alone, latencies);
        let overlapped = sled.length - alone;
        delivery.add(from.rates(), ReadRates::in_file_order, overlapped, 0.0);
    }
    delivery
}

/// Returns the slower of both bandwidths. The bandwidth of a single window is not measured; it is close to the
/// bandwidth of a few requests in flight, or of reading in file order if that order is slower.
fn slower(rates: &ReadRates) -> EstimateRange {
    let (best, linear) = (rates.bandwidth_Bps, rates.in_file_order());
    if best.median < linear.median {
        best
    } else {
        linear
    }
}

fn best(sleds: &[Sled]) -> DeliveryTime {
    let mut delivery = DeliveryTime::NOTHING;
    // Each level, and the end of the last range read from the level.
    let mut seen: Vec<(&StorageLevel, u64)> = Vec::new();
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

/// Returns the number of latencies that continuing costs after `over` omitted bytes.
fn latencies_over(sled: &Sled, over: u64) -> f64 {
    let Some(rates) = sled.rates().filter(|_| over > 0) else {
        return 0.0;
    };
    let latency = rates.latency_s.median;
    match (&sled.level, latency >= ONE_AT_A_TIME_S) {
        (StorageLevel::Memory, _) => 1.0,
        (_, true) => (over as f64 / (rates.bandwidth_Bps.median * latency)).min(1.0),
        (_, false) => 1.0 / DEPTH as f64,
    }
}

/// Estimated reading time of a file, made without looking at each page.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReadEstimate {
    /// Bytes in the file.
    pub length: u64,
    /// Bytes of the file in memory; `None` if the kernel does not report them.
    pub cached: Option<u64>,
    /// Level of the other bytes; [`StorageLevel::Memory`] if the whole file is cached.
    pub level: StorageLevel,
    /// Time to read the file in file order.
    pub delivery: DeliveryTime,
}

/// Estimates for many files, by one `fstat` and one `cachestat` per file. Each device is looked up once.
///
/// [`describe`](crate::describe) determines which part of a file is cached; an estimate does not. Space that the
/// filesystem did not allocate is taken for holes.
pub struct Estimator {
    describer: Describer,
}

impl Default for Estimator {
    fn default() -> Estimator {
        Estimator::new()
    }
}

impl Estimator {
    /// Makes an estimator with this machine's table, or with defaults: see [`Describer::problem`].
    pub fn new() -> Estimator {
        Estimator {
            describer: Describer::new(),
        }
    }

    /// Makes an estimator with the table of a describer.
    pub fn with(describer: Describer) -> Estimator {
        Estimator { describer }
    }

    /// Returns the describer in use.
    pub fn describer(&self) -> &Describer {
        &self.describer
    }

    /// Estimates the time to read `file`, which must be open for reading.
    ///
    /// # Errors
    /// If `file` has no length, or cannot be examined.
    pub fn estimate(&mut self, file: &File) -> Result<ReadEstimate, DescribeError> {
        let length = length(file)?;
        let nothing = ReadEstimate {
            length,
            cached: Some(0),
            level: StorageLevel::Memory,
            delivery: DeliveryTime::NOTHING,
        };
        if length == 0 {
            return Ok(nothing);
        }
        let pages = length.div_ceil(sys::page_size());
        let stat = match sys::cachestat(file.as_fd(), 0, length) {
            Ok(stat) if stat.cached > 0 || !self.may_hide_pages(file)? => stat,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                let delivery = delivery_time_in(&[unknown(0, length)], ReadPlan::Linear, None);
                return Ok(ReadEstimate {
                    cached: None,
                    level: StorageLevel::Unknown,
                    delivery,
                    ..nothing
                });
            }
            _ => return self.exactly(file),
        };
        let cached = (stat.cached.min(pages) * sys::page_size()).min(length);
        Ok(self.of_parts(file, nothing, cached)?)
    }

    fn of_parts(&mut self, file: &File, of: ReadEstimate, cached: u64) -> io::Result<ReadEstimate> {
        let length = of.length;
        let located = self.describer.locate(file)?;
        let meta = file.metadata()?;
        let on_disk = match meta.mode() & libc::S_IFMT {
            libc::S_IFREG => meta.blocks().saturating_mul(512),
            _ => length,
        };
        // Cached holes cannot be distinguished from cached data.
        let rest = (length - cached).min(on_disk);
        let zone = located.somewhere();
        let mut sleds = Vec::with_capacity(2);
        if rest > 0 {
            sleds.push(on_device(0, rest, zone));
        }
        if length > rest {
            sleds.push(self.describer.memory(rest, length - rest));
        }
        Ok(ReadEstimate {
            cached: Some(cached),
            level: sleds[0].level.clone(),
            delivery: delivery_time_in(&sleds, ReadPlan::Linear, None),
            ..of
        })
    }

    /// Returns true if "nothing cached" may be wrong: on overlayfs the pages belong to another inode.
    fn may_hide_pages(&mut self, file: &File) -> io::Result<bool> {
        Ok(self
            .describer
            .locate(file)?
            .place
            .top()
            .identity
            .starts_with("mount:overlay:"))
    }

    fn exactly(&mut self, file: &File) -> Result<ReadEstimate, DescribeError> {
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
        Ok(ReadEstimate {
            length: sleds.last().map_or(0, Sled::end),
            cached,
            level: level.cloned().unwrap_or(StorageLevel::Memory),
            delivery: delivery_time_in(&sleds, ReadPlan::Linear, None),
        })
    }
}
