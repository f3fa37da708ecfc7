//! Measures the speed of a device, as far as a placement needs it, when a volume is created.

use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_placement::cost::DiskParameters;
use forebay_rt::Rt;
use futures_util::{StreamExt as _, stream};

/// Number of reads at distant places.
const PLACES: u64 = 32;
/// Positioning time from which the arms of a device are counted. Faster devices have no arms: their cost of writes does
/// not follow from the duration of concurrent reads.
const ARM: Duration = Duration::from_millis(1);
/// Concurrent reads while arms are counted.
const AT_ONCE: usize = 16;
/// Bytes of each read at a distant place.
const PIECE: u64 = 4096;
/// Bytes read in sequence, in reads of [`RUN`].
const SEQUENCE: u64 = 16 << 20;
/// Bytes of one read in sequence.
const RUN: u64 = 1 << 20;
/// Time limit of each of the two parts.
const LONGEST: Duration = Duration::from_secs(2);
/// The golden ratio as a fraction of 2^64: its multiples are spread evenly, and no two neighbours are close.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of consecutive measurements that must agree.
const AGREE: usize = 3;
/// Largest ratio between the segment I/O efficiencies of agreeing measurements.
const APART: f64 = 1.1;
/// Maximum number of measurements, and the time limit of all of them.
const ROUNDS: usize = 8;
const LONGEST_ALL: Duration = Duration::from_secs(12);

/// Result of measuring a device.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DeviceMeasurement {
    /// The measurements used, the median first.
    pub(super) disks: Vec<DiskParameters>,
    /// True if the measurements agree.
    pub(super) is_stable: bool,
}

impl DeviceMeasurement {
    /// Returns the median measurement.
    pub(super) fn disk(&self) -> DiskParameters {
        self.disks[0]
    }
}

/// Measures until several consecutive measurements agree on the ratio between the speed of segments and of pages, or
/// the time limit is reached. A device that is busy or has a cache gives different figures each time.
///
/// # Errors
/// Those of the device.
pub(super) async fn measure(
    rt: &Rt,
    device: &dyn Device,
    page: u64,
    segment: u64,
) -> Result<DeviceMeasurement, DeviceError> {
    let (begin, mut disks) = (rt.now(), Vec::new());
    let efficiency = |disk: &DiskParameters| disk.efficiency(page, segment);
    let mut is_stable = false;
    while disks.len() < ROUNDS && (disks.is_empty() || rt.now().since(begin) < LONGEST_ALL) {
        disks.push(measure_once(rt, device, disks.len() as u64).await?);
        let Some(last) = disks.len().checked_sub(AGREE) else {
            continue;
        };
        let found = disks[last..].iter().map(efficiency);
        let (least, most) = found.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), one| {
            (least.min(one), most.max(one))
        });
        if most <= least * APART {
            disks.drain(..last);
            is_stable = true;
            break;
        }
    }
    disks.sort_by(|a, b| efficiency(a).total_cmp(&efficiency(b)));
    let middle = disks.len() / 2;
    disks.swap(0, middle);
    Ok(DeviceMeasurement { disks, is_stable })
}

/// Reads at distant places, and then in sequence. Each round reads other places, because caches would answer repeated
/// reads.
async fn measure_once(
    rt: &Rt,
    device: &dyn Device,
    round: u64,
) -> Result<DiskParameters, DeviceError> {
    let len = device.geometry().len;
    let read = async |at: u64, bytes: u64| device.read(at, BufMut::zeroed(bytes as usize)).await;
    let (begin, mut reads) = (rt.now(), 0);
    while reads < PLACES && rt.now().since(begin) < LONGEST {
        let share = (3 * PLACES * round + reads).wrapping_mul(GOLDEN);
        let piece = (u128::from(len / PIECE) * u128::from(share)) >> 64;
        read(piece as u64 * PIECE, PIECE).await?;
        reads += 1;
    }
    let random = rt.now().since(begin).as_secs_f64() / reads as f64;
    let sequence = SEQUENCE.min(len / RUN * RUN);
    let first = (len - sequence) / ROUNDS as u64 * round / RUN * RUN;
    let (begin, mut done) = (rt.now(), 0);
    while done < sequence && rt.now().since(begin) < LONGEST {
        read(first + done, RUN).await?;
        done += RUN;
    }
    let bandwidth = done as f64 / rt.now().since(begin).as_secs_f64().max(1e-6);
    Ok(DiskParameters {
        positioning: (random - PIECE as f64 / bandwidth).max(0.0),
        bandwidth,
        // A device too slow for all of these reads gets no further reads.
        arms: if reads == PLACES && random >= ARM.as_secs_f64() {
            arms(rt, device, 3 * PLACES * round).await?
        } else {
            1.0
        },
    })
}

/// Returns the number of requests that the device positions at the same time: the time of reads at ascending places one
/// by one, divided by the time of such reads with several in progress. In ascending order, a single arm gains little
/// from knowing the next requests.
async fn arms(rt: &Rt, device: &dyn Device, used: u64) -> Result<f64, DeviceError> {
    let distance = device.geometry().len / PLACES / PIECE * PIECE;
    let sweep = async |first: u64, at_once: usize| {
        let begin = rt.now();
        // The distances vary, because equally spaced places could all be on one disk of an array.
        let places = (0..PLACES).map(|n| {
            let share = (first + n).wrapping_mul(GOLDEN);
            let within = (u128::from(distance / PIECE) * u128::from(share)) >> 64;
            n * distance + within as u64 * PIECE
        });
        let reads = places.map(|at| device.read(at, BufMut::zeroed(PIECE as usize)));
        let mut reads = stream::iter(reads).buffered(at_once);
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok::<_, DeviceError>(rt.now().since(begin).as_secs_f64())
    };
    // Each sweep reads other blocks, because caches would answer repeated reads.
    let alone = sweep(used + PLACES, 1).await?;
    let together = sweep(used + 2 * PLACES, AT_ONCE).await?;
    Ok((alone / together.max(1e-6)).clamp(1.0, AT_ONCE as f64))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use forebay_device::{RamDevice, Tap, TapHooks, TapRequest};
    use forebay_disk_model::disk::{DiskOptions, named};
    use forebay_disk_model::{Drive, EmulatedDisk};
    use forebay_raid::StripedArray;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    async fn measured_on(rt: &Rt, device: &dyn Device) -> DeviceMeasurement {
        measure(rt, device, 8 << 10, 1 << 20).await.unwrap()
    }

    fn measured(disks: usize) -> DiskParameters {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let disk = || -> Rc<dyn Device> {
            let drive = Drive::new(named("cheetah15k5-2003").unwrap(), DiskOptions::default());
            let memory = Rc::new(RamDevice::new(256 << 20, 512));
            Rc::new(EmulatedDisk::new(&rt, memory, drive).unwrap())
        };
        let device: Rc<dyn Device> = match disks {
            1 => disk(),
            disks => {
                Rc::new(StripedArray::new((0..disks).map(|_| disk()).collect(), 64 << 10).unwrap())
            }
        };
        let on = rt.clone();
        executor.block_on(async move { measured_on(&on, &*device).await.disk() })
    }

    /// Each request takes a second.
    struct SecondLongHooks(Rt);

    impl TapHooks for SecondLongHooks {
        async fn before(&self, _: &TapRequest) -> Result<(), DeviceError> {
            self.0.sleep(Duration::from_secs(1)).await;
            Ok(())
        }
    }

    #[test]
    fn the_measurement_of_a_very_slow_device_is_limited_to_seconds() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device = Tap::new(RamDevice::new(64 << 20, 512), SecondLongHooks(rt.clone()));
        let took = executor.block_on(async move {
            let begin = rt.now();
            let disk = measured_on(&rt, &device).await.disk();
            assert!(disk.positioning > 0.4 && disk.arms == 1.0, "{disk:?}");
            rt.now().since(begin)
        });
        assert!(took <= LONGEST_ALL + 3 * LONGEST, "{took:?}");
    }

    /// A device whose latency changes every 40 requests.
    struct UnstableLatencyHooks(Rt, Cell<u64>);

    impl TapHooks for UnstableLatencyHooks {
        async fn before(&self, _: &TapRequest) -> Result<(), DeviceError> {
            let asked = self.1.replace(self.1.get() + 1);
            let took = [100, 20_000, 3000][(asked / 40) as usize % 3];
            self.0.sleep(Duration::from_micros(took)).await;
            Ok(())
        }
    }

    #[test]
    fn a_device_is_measured_until_results_agree_or_is_reported_as_unstable() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(async move {
            let drive = Drive::new(named("cheetah15k5-2003").unwrap(), DiskOptions::default());
            let memory = Rc::new(RamDevice::new(256 << 20, 512));
            let disk = EmulatedDisk::new(&rt, memory, drive).unwrap();
            let measured = measured_on(&rt, &disk).await;
            assert!(
                measured.is_stable && measured.disks.len() == AGREE,
                "{measured:?}"
            );
            let fickle = UnstableLatencyHooks(rt.clone(), Cell::new(0));
            let fickle = Tap::new(RamDevice::new(256 << 20, 512), fickle);
            let measured = measured_on(&rt, &fickle).await;
            assert!(!measured.is_stable, "{measured:?}");
        });
    }

    #[test]
    fn an_array_is_distinguished_from_one_fast_disk() {
        let (one, array) = (measured(1), measured(4));
        println!("{one:?} {array:?}");
        assert!(one.arms < 1.7, "{one:?}");
        assert!(array.arms > 2.0 * one.arms, "{one:?} {array:?}");
    }
}
