//! How fast a device is, as far as a placement must know: measured when a volume is made on it.

use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_placement::cost::Disk;
use forebay_rt::Rt;

/// Reads at places far from each other.
const PLACES: u64 = 32;
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
    })
}
