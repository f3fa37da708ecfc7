//! Measuring what reading costs: the paper's boot script (section 4.1), which ran lmbench.
//!
//! Only reads. Latency is that of direct reads of 4 KiB at random places, one at a time; bandwidth
//! that of sequential direct reads with several in flight, as [`Reader`](crate::Reader) makes them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Advice, MemfdFlags, fadvise, ftruncate, memfd_create};

use crate::delivery::DEPTH;
use crate::describe::{DescribeError, length};
use crate::device::{Class, Place};
use crate::extents::{self, Extent, Under};
use crate::read::device::BLOCK;
use crate::read::pool::Pool;
use crate::table::{Entry, Rates, Spread, Zone};

/// Bytes of one sample of bandwidth.
const RUN_BYTES: u64 = 8 << 20;
/// Less data cannot be measured.
const DATA_MIN: u64 = 4 << 20;
const PAGE: u64 = 4096;
const LATENCY_SAMPLES_MAX: usize = 400;
const BANDWIDTH_SAMPLES_MAX: usize = 48;
const SAMPLES_MIN: usize = 3;
/// Zones of a disk, as far as they differ: tracks are longest at the outside, where addresses begin.
const ZONES: [&str; 3] = ["outer", "middle", "inner"];
/// How much faster a zone must be than the next one to count as another.
const ZONE_RATIO: f64 = 1.1;

/// Why a device could not be measured.
#[derive(thiserror::Error, Debug)]
pub enum CalibrateError {
    /// There is too little to read, or it is all holes.
    #[error("has less than {} MiB of data to read", DATA_MIN >> 20)]
    TooSmall,
    /// It has no length.
    #[error(transparent)]
    Kind(#[from] DescribeError),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Measures reading from the page cache, within about `budget`.
///
/// # Errors
/// If there is no memory for a file.
pub fn memory(budget: Duration) -> io::Result<Rates> {
    const BYTES: u64 = 32 << 20;
    let file = File::from(memfd_create("sleds-calibrate", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, BYTES)?;
    let mut buf = vec![1; BLOCK as usize];
    for at in (0..BYTES).step_by(buf.len()) {
        file.write_all_at(&buf, at)?;
    }
    let end = Instant::now() + budget;
    let mut random = Random(1);
    let (mut latencies, mut bandwidths) = (Vec::new(), Vec::new());
    while bandwidths.len() < SAMPLES_MIN
        || (Instant::now() < end && bandwidths.len() < BANDWIDTH_SAMPLES_MAX)
    {
        let begun = Instant::now();
        for at in (0..BYTES).step_by(buf.len()) {
            file.read_exact_at(&mut buf, at)?;
        }
        bandwidths.push(BYTES as f64 / begun.elapsed().as_secs_f64());
        for _ in 0..16 {
            let at = random.below(BYTES / PAGE) * PAGE;
            let begun = Instant::now();
            file.read_exact_at(&mut buf[..1], at)?;
            latencies.push(begun.elapsed().as_secs_f64().max(1e-9));
        }
    }
    Ok(rates(&latencies, &bandwidths).expect("there are samples"))
}

fn rates(latencies: &[f64], bandwidths: &[f64]) -> Option<Rates> {
    Some(Rates {
        latency_s: Spread::of(latencies)?,
        bandwidth_Bps: Spread::of(bandwidths)?,
    })
}

/// Measures the device that `file` lies on, by reading the file, within about `budget`; a block
/// device by reading it, zone by zone. `progress` gets the share done, 0 to 1.
///
/// # Errors
/// If there is too little to read, or it cannot be read.
pub fn device(
    file: &File,
    budget: Duration,
    progress: &mut dyn FnMut(f64),
) -> Result<Entry, CalibrateError> {
    let place = Place::of(file)?;
    let length = length(file)?;
    let mut data = extents::extents(file, 0, length);
    data.retain(|extent| extent.under != Under::Nothing && extent.end - extent.offset >= PAGE);
    let bytes: u64 = data.iter().map(|extent| extent.end - extent.offset).sum();
    if bytes < DATA_MIN {
        return Err(CalibrateError::TooSmall);
    }
    // What is in the cache would be measured where there is no direct I/O.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let whole_disk = place.top().bytes == Some(length) && place.start == Some(0);
    let zones = match whole_disk && place.class() != Class::Ssd {
        true => ZONES.len(),
        false => 1,
    };
    let mut samples = Vec::new();
    for zone in 0..zones as u64 {
        let (from, to) = (
            bytes / zones as u64 * zone,
            bytes / zones as u64 * (zone + 1),
        );
        let mut of_zone = |done: f64| progress((zone as f64 + done) / zones as f64);
        let budget = budget / zones as u32;
        let measured = measure(file, &data, (from, to), budget, &mut of_zone)?;
        samples.push((from, measured));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(Entry {
        name: place.top().name.clone(),
        identity: place.top().identity.clone(),
        class: place.class(),
        measured: now.map_or(0, |since| since.as_secs()),
        zones: zoned(&samples).ok_or(CalibrateError::TooSmall)?,
    })
}

/// Seconds and bytes per second that were measured.
#[derive(Default)]
struct Samples {
    latencies: Vec<f64>,
    bandwidths: Vec<f64>,
}

/// One zone for each part that was measured if each is clearly faster than the next; else one.
fn zoned(samples: &[(u64, Samples)]) -> Option<Vec<Zone>> {
    let each: Option<Vec<Rates>> = samples
        .iter()
        .map(|(_, one)| rates(&one.latencies, &one.bandwidths))
        .collect();
    let each = each?;
    let median = |rates: &Rates| rates.bandwidth_Bps.median;
    let differ = each.len() == ZONES.len()
        && each
            .windows(2)
            .all(|pair| median(&pair[0]) > median(&pair[1]) * ZONE_RATIO);
    let zone = |name: &str, start, rates: Rates| Zone {
        name: name.to_owned(),
        start,
        latency_s: rates.latency_s,
        bandwidth_Bps: rates.bandwidth_Bps,
    };
    if differ {
        let zones = samples.iter().zip(&each).zip(ZONES);
        let zones = zones.map(|(((start, _), rates), name)| zone(name, *start, *rates));
        return Some(zones.collect());
    }
    let all = |of: fn(&Samples) -> &Vec<f64>| -> Vec<f64> {
        samples
            .iter()
            .flat_map(|(_, one)| of(one))
            .copied()
            .collect()
    };
    let all = rates(&all(|one| &one.latencies), &all(|one| &one.bandwidths))?;
    Some(vec![zone("", 0, all)])
}

/// Measures the part of the data from its byte `from` to `to`.
fn measure(
    file: &File,
    data: &[Extent],
    (from, to): (u64, u64),
    budget: Duration,
    progress: &mut dyn FnMut(f64),
) -> Result<Samples, CalibrateError> {
    let mut random = Random(from ^ to);
    let mut place = |length: u64| {
        let room = (to - from).saturating_sub(length) / PAGE + 1;
        at_data(data, from + random.below(room) * PAGE)
    };
    let begun = Instant::now();
    let mut pool = Pool::new(file, BLOCK as usize)?;
    let mut samples = Samples::default();
    let mut done = |samples: &Samples| {
        let time = begun.elapsed().as_secs_f64() / budget.as_secs_f64();
        let count = samples.latencies.len() as f64 / LATENCY_SAMPLES_MAX as f64
            + samples.bandwidths.len() as f64 / BANDWIDTH_SAMPLES_MAX as f64;
        progress(time.max(count / 2.0).min(1.0));
        begun.elapsed()
    };
    // A third of the time is for latency.
    while samples.latencies.len() < LATENCY_SAMPLES_MAX
        && (samples.latencies.len() < SAMPLES_MIN || done(&samples) < budget / 3)
    {
        let at = place(PAGE) / PAGE * PAGE;
        let begun = Instant::now();
        pool.ask(at, at + PAGE);
        let block = pool.wait()?;
        pool.recycle(block);
        samples.latencies.push(begun.elapsed().as_secs_f64());
    }
    while samples.bandwidths.len() < BANDWIDTH_SAMPLES_MAX
        && (samples.bandwidths.len() < SAMPLES_MIN || done(&samples) < budget)
    {
        let at = place(RUN_BYTES);
        let left = data
            .iter()
            .find(|extent| extent.end > at)
            .map_or(0, |one| one.end - at);
        let (bytes, seconds) = run(&mut pool, at, at + left.min(RUN_BYTES))?;
        // A small extent measures the latency once more, a large one the bandwidth.
        if bytes >= BLOCK || samples.bandwidths.len() < SAMPLES_MIN {
            samples.bandwidths.push(bytes as f64 / seconds);
        }
    }
    Ok(samples)
}

/// Reads bytes `from` to `to` with several requests in flight: how many, and the seconds taken.
fn run(pool: &mut Pool, from: u64, to: u64) -> io::Result<(u64, f64)> {
    let begun = Instant::now();
    let (mut asked, mut read) = (from, 0);
    while asked < to || pool.in_flight() > 0 {
        while asked < to && pool.in_flight() < DEPTH {
            let end = to.min((asked / BLOCK + 1) * BLOCK);
            pool.ask(asked, end);
            asked = end;
        }
        let block = pool.wait()?;
        read += block.length as u64;
        pool.recycle(block);
    }
    Ok((read, begun.elapsed().as_secs_f64().max(1e-9)))
}

/// The file's byte that holds byte `nth` of its data.
fn at_data(data: &[Extent], mut nth: u64) -> u64 {
    for extent in data {
        let length = extent.end - extent.offset;
        if nth < length {
            return extent.offset + nth;
        }
        nth -= length;
    }
    data.first().map_or(0, |extent| extent.offset)
}

/// Where to read: the same places each time, in no order.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bandwidth: f64) -> Samples {
        Samples {
            latencies: vec![0.01; 5],
            bandwidths: vec![bandwidth; 5],
        }
    }

    #[test]
    fn a_disk_that_slows_down_inwards_has_zones_and_one_that_does_not_has_one() {
        let slowing = [(0, samples(9e7)), (100, samples(7e7)), (200, samples(5e7))];
        let zones = zoned(&slowing).unwrap();
        let names: Vec<_> = zones
            .iter()
            .map(|zone| (zone.name.as_str(), zone.start))
            .collect();
        assert_eq!(names, [("outer", 0), ("middle", 100), ("inner", 200)]);
        let even = [
            (0, samples(9e7)),
            (100, samples(8.9e7)),
            (200, samples(5e7)),
        ];
        assert_eq!(zoned(&even).unwrap().len(), 1);
    }

    #[test]
    fn the_nth_byte_of_data_is_not_in_a_hole() {
        let under = Under::Data(None);
        let data = [(10, 20), (50, 60)].map(|(offset, end)| Extent { offset, end, under });
        assert_eq!(
            [0, 9, 10, 19].map(|nth| at_data(&data, nth)),
            [10, 19, 50, 59]
        );
    }
}
