//! How fast a device is, as far as a placement must know: measured when a volume is made on it.

use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_placement::cost::Disk;
use forebay_rt::Rt;
use futures_util::{StreamExt as _, stream};

/// Reads at places far from each other.
const PLACES: u64 = 32;
/// The arms are counted of media that take so long to get to a place. Others have none: the cost of writes there does not follow from what
/// reads at the same time take.
const ARM: Duration = Duration::from_millis(1);
/// Reads under way at once while arms are counted.
const AT_ONCE: usize = 16;
/// Bytes of each.
const PIECE: u64 = 4096;
/// Bytes read in sequence, in pieces of [`RUN`].
const SEQUENCE: u64 = 16 << 20;
/// Bytes of one read in sequence.
const RUN: u64 = 1 << 20;
/// Either part ends when it has taken this long.
const LONGEST: Duration = Duration::from_secs(2);
/// The golden ratio as a fraction of 2^64: its multiples are spread evenly, and no two neighbours are near.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Reads here and there, and then in sequence.
///
/// # Errors
/// The device's.
pub(super) async fn measure(rt: &Rt, device: &dyn Device) -> Result<Disk, DeviceError> {
    let len = device.geometry().len;
    let read = async |at: u64, bytes: u64| device.read(at, BufMut::zeroed(bytes as usize)).await;
    let (begin, mut reads) = (rt.now(), 0);
    while reads < PLACES && rt.now().since(begin) < LONGEST {
        let share = reads.wrapping_mul(GOLDEN);
        let piece = (u128::from(len / PIECE) * u128::from(share)) >> 64;
        read(piece as u64 * PIECE, PIECE).await?;
        reads += 1;
    }
    let random = rt.now().since(begin).as_secs_f64() / reads as f64;
    let (begin, mut done) = (rt.now(), 0);
    while done < SEQUENCE.min(len / RUN * RUN) && rt.now().since(begin) < LONGEST {
        read(done, RUN).await?;
        done += RUN;
    }
    let bandwidth = done as f64 / rt.now().since(begin).as_secs_f64().max(1e-6);
    Ok(Disk {
        positioning: (random - PIECE as f64 / bandwidth).max(0.0),
        bandwidth,
        // A device too slow for all of these reads is not asked for more.
        arms: match reads == PLACES && random >= ARM.as_secs_f64() {
            true => arms(rt, device).await?,
            false => 1.0,
        },
    })
}

/// The number of requests that the device positions at the same time: the time of reads at ascending places one by one, divided by that of the
/// same with several under way. In that order a single arm gains little by knowing the next ones.
async fn arms(rt: &Rt, device: &dyn Device) -> Result<f64, DeviceError> {
    let distance = device.geometry().len / PLACES / PIECE * PIECE;
    let sweep = async |first: u64, at_once: usize| {
        let begin = rt.now();
        // Not at even distances, or all could lie on one disk of an array.
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
    // Other blocks each time, or caches would answer.
    let alone = sweep(PLACES, 1).await?;
    let together = sweep(2 * PLACES, AT_ONCE).await?;
    Ok((alone / together.max(1e-6)).clamp(1.0, AT_ONCE as f64))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use forebay_device::{Asked, Hooks, RamDevice, Tap};
    use forebay_model::disk::{Options, named};
    use forebay_model::{Drive, Emulated};
    use forebay_raid::Striped;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    fn measured(disks: usize) -> Disk {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let disk = || -> Rc<dyn Device> {
            let drive = Drive::new(named("cheetah15k5-2003").unwrap(), Options::default());
            let memory = Rc::new(RamDevice::new(256 << 20, 512));
            Rc::new(Emulated::new(&rt, memory, drive).unwrap())
        };
        let device: Rc<dyn Device> = match disks {
            1 => disk(),
            disks => Rc::new(Striped::new((0..disks).map(|_| disk()).collect(), 64 << 10).unwrap()),
        };
        let on = rt.clone();
        executor.block_on(async move { measure(&on, &*device).await.unwrap() })
    }

    /// Each request takes a second.
    struct Slow(Rt);

    impl Hooks for Slow {
        async fn before(&self, _: &Asked) -> Result<(), DeviceError> {
            self.0.sleep(Duration::from_secs(1)).await;
            Ok(())
        }
    }

    #[test]
    fn a_very_slow_device_is_measured_for_seconds_only() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let device = Tap::new(RamDevice::new(64 << 20, 512), Slow(rt.clone()));
        let took = executor.block_on(async move {
            let begin = rt.now();
            let disk = measure(&rt, &device).await.unwrap();
            assert!(disk.positioning > 0.4 && disk.arms == 1.0, "{disk:?}");
            rt.now().since(begin)
        });
        assert!(took <= 3 * LONGEST, "{took:?}");
    }

    #[test]
    fn the_disks_of_an_array_are_told_from_one_fast_disk() {
        let (one, array) = (measured(1), measured(4));
        println!("{one:?} {array:?}");
        assert!(one.arms < 1.7, "{one:?}");
        assert!(array.arms > 2.0 * one.arms, "{one:?} {array:?}");
    }
}
