//! Measures the cost of reading, like the paper's boot script (section 4.1), which ran lmbench.
//!
//! Calibration only reads. Latency is measured by direct reads of 4 KiB at random places, one at a time. Bandwidth is
//! measured by a long-running [`FileReader`], in best order and in file order. The bandwidth therefore includes every delay
//! that the callers of a reader see: copying, read-ahead, requests in flight.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_rng::Rng;
use rustix::fs::{Advice, MemfdFlags, fadvise, ftruncate, memfd_create};

use crate::delivery::BLOCK;
use crate::describe::{DescribeError, length};
use crate::device::{DeviceClass, FilePlace};
use crate::extents::{self, BackingExtent, BackingTier};
use crate::memory::cache_capacity;
use crate::plan::ReadPlan;
use crate::read::pool::ReadPool;
use crate::read::{FileReader, ReadOptions};
use crate::table::{DeviceEntry, DeviceZone, EstimateRange, ReadRates};

/// Minimum duration of a sample of a device's bandwidth. Limits (of control groups, of virtual machines) are enforced
/// over tenths of a second; within a shorter time the device is not limited.
const SAMPLE: Duration = Duration::from_millis(250);
/// Number of bytes that a sample must reach, since read-ahead arrives in units of megabytes. After [`SAMPLE_MAX`], a
/// sample ends with fewer bytes, but never with fewer than `SAMPLE_BYTES_MIN`: otherwise a latency would dominate the
/// sample.
const SAMPLE_BYTES: u64 = 16 << 20;
const SAMPLE_BYTES_MIN: u64 = 2 << 20;
const SAMPLE_MAX: Duration = Duration::from_secs(1);
/// Upper bound of the range given to one reader, since the reader first looks up the residency of the whole range.
const STRETCH_BYTES: u64 = 1 << 30;
/// Bytes of one sample of memory bandwidth. They are read in less than a time slice, so most samples are not
/// interrupted on a busy machine.
const MEMORY_SAMPLE_BYTES: u64 = 2 << 20;
/// Bytes read for measuring memory.
pub const MEMORY_BYTES: u64 = 32 << 20;
/// Minimum amount of data for a measurement.
const DATA_MIN: u64 = 4 << 20;
const PAGE: u64 = 4096;
const LATENCY_SAMPLES_MAX: usize = 400;
const MEMORY_PASSES_MAX: usize = 48;
const SAMPLES_MIN: usize = 5;
/// Zones of a disk, if their bandwidths differ. Tracks are longest at the outer edge, where addresses begin.
const ZONES: [&str; 3] = ["outer", "middle", "inner"];
/// Minimum ratio between the bandwidths of adjacent zones. Below it the zones are merged.
const ZONE_RATIO: f64 = 1.1;

/// Reasons for which a device could not be measured.
#[derive(thiserror::Error, Debug)]
pub enum CalibrateError {
    /// The file has too little data, or consists of holes.
    #[error("has less than {} MiB of data to read", DATA_MIN >> 20)]
    TooSmall,
    /// The file has no length.
    #[error(transparent)]
    Kind(#[from] DescribeError),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Measures reading from the page cache within about `budget`. The test reads `file`, or a file in memory for `None`.
/// `file` should lie on the filesystem that most files are on, since filesystems keep pages in units of various sizes.
/// Reads at most [`MEMORY_BYTES`] of the file, and moves its position.
///
/// # Errors
/// If the file is too short or cannot be read, or no memory is available for a file in memory.
pub fn memory(file: Option<&File>, budget: Duration) -> Result<ReadRates, CalibrateError> {
    let Some(file) = file else {
        return memory(Some(&in_memory()?), budget);
    };
    let room = cache_capacity().map_or(MEMORY_BYTES, |capacity| (capacity / 2).max(DATA_MIN));
    let bytes = length(file)?.min(MEMORY_BYTES).min(room);
    if bytes < DATA_MIN {
        return Err(CalibrateError::TooSmall);
    }
    let end = Instant::now() + budget;
    // A fixed seed: every run uses the same places.
    let random = Rng::new(1);
    let mut samples = RateSamples::default();
    pass(file, (0, bytes), ReadPlan::Linear, &mut |_, _| true)?;
    let mut passes = 0;
    while passes < SAMPLES_MIN || (Instant::now() < end && passes < MEMORY_PASSES_MAX) {
        passes += 1;
        for plan in [ReadPlan::Best, ReadPlan::Linear] {
            let bandwidths = samples.of(plan);
            let (mut bytes_read, mut seconds) = (0, 0.0);
            pass(file, (0, bytes), plan, &mut |more_bytes, more_seconds| {
                bytes_read += more_bytes;
                seconds += more_seconds;
                if bytes_read >= MEMORY_SAMPLE_BYTES {
                    bandwidths.push(bytes_read as f64 / seconds);
                    (bytes_read, seconds) = (0, 0.0);
                }
                true
            })?;
        }
        for _ in 0..16 {
            let at = random.below(bytes / PAGE) * PAGE;
            let begun = Instant::now();
            file.read_exact_at(&mut [0], at)?;
            samples
                .latencies
                .push(begun.elapsed().as_secs_f64().max(1e-9));
        }
    }
    samples.rates().ok_or(CalibrateError::TooSmall)
}

fn in_memory() -> io::Result<File> {
    let file = File::from(memfd_create("sleds-calibrate", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, MEMORY_BYTES)?;
    let block = vec![1; BLOCK as usize];
    for at in (0..MEMORY_BYTES).step_by(block.len()) {
        file.write_all_at(&block, at)?;
    }
    Ok(file)
}

/// Reads bytes `from` to `to` of `file` by `plan`. After each piece, calls `more` with the length of the piece in bytes
/// and the seconds since the previous piece. Stops when `more` returns false.
fn pass(
    mut file: &File,
    (from, to): (u64, u64),
    plan: ReadPlan,
    more: &mut dyn FnMut(u64, f64) -> bool,
) -> io::Result<()> {
    let mut before = Instant::now();
    file.seek(SeekFrom::Start(from))?;
    let options = ReadOptions {
        plan,
        ..ReadOptions::default()
    };
    let mut reader = FileReader::before(file, to, options)?.unobserved();
    while let Some(piece) = reader.next_piece()? {
        let now = Instant::now();
        let seconds = (now - before).as_secs_f64();
        before = now;
        if !more(piece.data.len() as u64, seconds) {
            break;
        }
    }
    Ok(())
}

/// Measures the device below `file` by reading the file, within about `budget`. A whole block device is measured zone
/// by zone. Evicts the file from the page cache, and moves its position. `progress` receives the share done, 0 to 1.
///
/// # Errors
/// If the file has too little data, or cannot be read.
pub fn device(
    file: &File,
    budget: Duration,
    progress: &mut dyn FnMut(f64),
) -> Result<DeviceEntry, CalibrateError> {
    let place = FilePlace::of(file)?;
    let length = length(file)?;
    let mut data = extents::extents(file, 0, length);
    data.retain(|extent| {
        extent.under != BackingTier::Nothing && extent.end - extent.offset >= PAGE
    });
    // Joins extents that are adjacent in the file, since their places on the device do not matter here.
    data.dedup_by(|next, before| {
        let joined = before.end == next.offset;
        before.end = if joined { next.end } else { before.end };
        joined
    });
    let bytes: u64 = data.iter().map(|extent| extent.end - extent.offset).sum();
    if bytes < DATA_MIN {
        return Err(CalibrateError::TooSmall);
    }
    let whole_disk = place.top().bytes == Some(length) && place.start == Some(0);
    let zones = if whole_disk && place.class() != DeviceClass::Ssd {
        ZONES.len()
    } else {
        1
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
    Ok(DeviceEntry {
        name: place.top().name.clone(),
        identity: place.top().identity.clone(),
        class: place.class(),
        measured: now.map_or(0, |since| since.as_secs()),
        zones: zoned(&samples).ok_or(CalibrateError::TooSmall)?,
    })
}

/// Measured seconds and bytes per second.
#[derive(Default)]
struct RateSamples {
    latencies: Vec<f64>,
    best: Vec<f64>,
    linear: Vec<f64>,
}

impl RateSamples {
    /// Bandwidths of reading by `plan`.
    fn of(&mut self, plan: ReadPlan) -> &mut Vec<f64> {
        match plan {
            ReadPlan::Linear => &mut self.linear,
            ReadPlan::Best | ReadPlan::Auto => &mut self.best,
        }
    }

    fn add(&mut self, more: &RateSamples) {
        self.latencies.extend(&more.latencies);
        self.best.extend(&more.best);
        self.linear.extend(&more.linear);
    }

    fn rates(&self) -> Option<ReadRates> {
        Some(ReadRates {
            latency_s: EstimateRange::of(&self.latencies)?,
            bandwidth_Bps: EstimateRange::of(&self.best)?,
            linear_Bps: Some(EstimateRange::of(&self.linear)?),
        })
    }
}

/// Returns a zone for each measured part if each part is clearly faster than the next. Otherwise returns a single zone.
fn zoned(samples: &[(u64, RateSamples)]) -> Option<Vec<DeviceZone>> {
    let each: Option<Vec<ReadRates>> = samples.iter().map(|(_, one)| one.rates()).collect();
    let each = each?;
    let median = |rates: &ReadRates| rates.bandwidth_Bps.median;
    let differ = each.len() == ZONES.len()
        && each
            .windows(2)
            .all(|pair| median(&pair[0]) > median(&pair[1]) * ZONE_RATIO);
    let zone = |name: &str, start, rates: ReadRates| DeviceZone {
        name: name.to_owned(),
        start,
        latency_s: rates.latency_s,
        bandwidth_Bps: rates.bandwidth_Bps,
        linear_Bps: rates.linear_Bps,
    };
    if differ {
        let zones = samples.iter().zip(&each).zip(ZONES);
        let zones = zones.map(|(((start, _), rates), name)| zone(name, *start, *rates));
        return Some(zones.collect());
    }
    let mut all = RateSamples::default();
    for (_, one) in samples {
        all.add(one);
    }
    Some(vec![zone("", 0, all.rates()?)])
}

/// Measures the bytes `from` to `to` of the data. A third of the time is spent on latency, and a third on each reading
/// order.
fn measure(
    file: &File,
    data: &[BackingExtent],
    part: (u64, u64),
    budget: Duration,
    progress: &mut dyn FnMut(f64),
) -> Result<RateSamples, CalibrateError> {
    let mut places = RandomPlaces {
        data,
        part,
        random: Rng::new(part.0 ^ part.1),
    };
    let third = budget / 3;
    let mut samples = RateSamples::default();
    let latencies = &mut samples.latencies;
    let begun = Instant::now();
    let mut pool = ReadPool::new(file, BLOCK as usize)?;
    while latencies.len() < SAMPLES_MIN
        || (latencies.len() < LATENCY_SAMPLES_MAX && begun.elapsed() < third)
    {
        let at = places.any(PAGE).0 / PAGE * PAGE;
        let begun = Instant::now();
        pool.ask(at, at + PAGE);
        let block = pool.wait()?;
        pool.recycle(block);
        latencies.push(begun.elapsed().as_secs_f64());
        progress(latencies.len() as f64 / LATENCY_SAMPLES_MAX as f64 / 3.0);
    }
    for (n, plan) in [(1.0, ReadPlan::Best), (2.0, ReadPlan::Linear)] {
        let mut progress = |share: f64| progress((n + share) / 3.0);
        let bandwidths = samples.of(plan);
        *bandwidths = measure_bandwidth(file, &mut places, plan, third, &mut progress)?;
    }
    Ok(samples)
}

/// Returns bytes per second of reading by `plan`, measured for about `budget`. Each sample continues at the end of the
/// previous sample, as a program would, until the data ends there.
fn measure_bandwidth(
    file: &File,
    places: &mut RandomPlaces<'_>,
    plan: ReadPlan,
    budget: Duration,
    progress: &mut dyn FnMut(f64),
) -> io::Result<Vec<f64>> {
    let begun = Instant::now();
    let is_over = |samples: &Vec<f64>| samples.len() >= SAMPLES_MIN && begun.elapsed() >= budget;
    let mut samples = Vec::new();
    let (mut bytes, mut seconds) = (0, 0.0);
    while !is_over(&samples) {
        // Otherwise the page cache would be measured, also where direct I/O is missing.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        let stretch = places.any(SAMPLE_BYTES_MIN);
        let mut any = false;
        pass(file, stretch, plan, &mut |more_bytes, more_seconds| {
            any = true;
            bytes += more_bytes;
            seconds += more_seconds;
            if is_sample(bytes, seconds) {
                samples.push(bytes as f64 / seconds);
                (bytes, seconds) = (0, 0.0);
                progress((begun.elapsed().as_secs_f64() / budget.as_secs_f64()).min(1.0));
            }
            !is_over(&samples)
        })?;
        if !any {
            // Another process truncated the file.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(samples)
}

fn is_sample(bytes: u64, seconds: f64) -> bool {
    let long = bytes >= SAMPLE_BYTES && seconds >= SAMPLE.as_secs_f64();
    long || bytes >= SAMPLE_BYTES_MIN && seconds >= SAMPLE_MAX.as_secs_f64()
}

/// Places in a part of the data.
struct RandomPlaces<'d> {
    data: &'d [BackingExtent],
    /// Bytes of data before the part, and before its end.
    part: (u64, u64),
    random: Rng,
}

impl RandomPlaces<'_> {
    /// Returns a range of bytes of the file. The range begins at a random place that is followed by about `length`
    /// bytes, and ends where the data ends there.
    fn any(&mut self, length: u64) -> (u64, u64) {
        let (from, to) = self.part;
        let room = (to - from).saturating_sub(length) / PAGE + 1;
        let nth = from + self.random.below(room) * PAGE;
        let at = at_data(self.data, nth);
        let extent = self.data.iter().find(|extent| extent.end > at);
        let end = extent.map_or(at, |extent| extent.end);
        (at, end.min(at + (to - nth).min(STRETCH_BYTES)))
    }
}

/// Returns the file offset of byte `nth` of the data.
fn at_data(data: &[BackingExtent], mut nth: u64) -> u64 {
    for extent in data {
        let length = extent.end - extent.offset;
        if nth < length {
            return extent.offset + nth;
        }
        nth -= length;
    }
    data.first().map_or(0, |extent| extent.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bandwidth: f64) -> RateSamples {
        RateSamples {
            latencies: vec![0.01; 5],
            best: vec![bandwidth; 5],
            linear: vec![bandwidth; 5],
        }
    }

    #[test]
    fn a_disk_that_is_slower_inside_has_zones_and_a_uniform_disk_has_one() {
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
    fn the_nth_byte_of_data_skips_holes() {
        let under = BackingTier::Data(None);
        let data = [(10, 20), (50, 60)].map(|(offset, end)| BackingExtent { offset, end, under });
        assert_eq!(
            [0, 9, 10, 19].map(|nth| at_data(&data, nth)),
            [10, 19, 50, 59]
        );
    }
}
