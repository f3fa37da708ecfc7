//! Figure 10: the bandwidth of random writes, by size.

use std::rc::Rc;

use anyhow::Result;
use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rng::Rng;
use forebay_rt::Rt;

use crate::disks::{CacheSetup, CacheShape, virtually};
use crate::scale::PaperScale;

/// Sizes of the requests, in KiB.
pub(crate) const SIZES: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Bytes written with each size: 20 MB, as in the paper, or less.
const AMOUNT: u64 = 20_000_000;
const AMOUNT_QUICK: u64 = 5_000_000;
/// Transfer size of the paper's log, in KiB.
pub(crate) const SEGMENT_KIB: u64 = 128;

/// One curve of figure 10.
#[derive(Clone, Debug)]
pub(crate) struct BandwidthCurve {
    pub(crate) name: String,
    /// Bytes per second, for each of [`SIZES`].
    pub(crate) rates: Vec<f64>,
}

impl BandwidthCurve {
    /// Returns the bytes per second for requests of a size in [`SIZES`].
    pub(crate) fn rate(&self, kib: u64) -> f64 {
        let at = SIZES.iter().position(|size| *size == kib);
        at.map_or(f64::NAN, |at| self.rates[at])
    }

    /// Returns the ratio of the log's transfer rate to the rate of requests of this size.
    pub(crate) fn ratio(&self, kib: u64) -> f64 {
        self.rate(SEGMENT_KIB) / self.rate(kib)
    }
}

/// Measures all curves; the first curve is the plain disk.
pub(crate) fn curves(scale: PaperScale) -> Result<Vec<BandwidthCurve>> {
    let mut curves = Vec::new();
    for shape in CacheShape::REAL {
        curves.push(curve(shape.name(), CacheSetup::of(shape), scale)?);
    }
    let own_bus = CacheSetup {
        own_bus: true,
        ..CacheSetup::of(CacheShape::Plain)
    };
    curves.push(curve("plain disk, bus of 5 MB/s", own_bus, scale)?);
    Ok(curves)
}

fn curve(name: &str, setup: CacheSetup, scale: PaperScale) -> Result<BandwidthCurve> {
    let amount = match scale {
        PaperScale::Full => AMOUNT,
        PaperScale::Quick => AMOUNT_QUICK,
    };
    let each = SIZES.iter().map(|kib| {
        let size = kib << 10;
        virtually(move |rt| async move {
            let opened = setup.open(&rt).await?;
            rate(&rt, opened.device, size, amount.div_ceil(size)).await
        })
    });
    Ok(BandwidthCurve {
        name: name.to_owned(),
        rates: each.collect::<Result<_>>()?,
    })
}

/// Writes at random places, one request after the other, until all data is durable. Returns bytes per second.
async fn rate(rt: &Rt, device: Rc<dyn Device>, size: u64, requests: u64) -> Result<f64> {
    let random = Rng::new(1);
    let content: Buf = BufMut::copy_of(&random.bytes(size as usize)).freeze();
    let places = device.geometry().len / size;
    let began = rt.now();
    for _ in 0..requests {
        let at = random.below(places) * size;
        device.write(at, content.clone(), Durability::Flush).await?;
    }
    device.flush().await?;
    Ok((requests * size) as f64 / rt.now().since(began).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_grows_with_request_size_on_a_disk_and_small_requests_are_fast_in_a_log() {
        let plain = curve("", CacheSetup::of(CacheShape::Plain), PaperScale::Quick).unwrap();
        assert!(
            plain.rates.windows(2).all(|pair| pair[0] < pair[1]),
            "{plain:?}"
        );
        assert!(plain.ratio(1) > 30.0, "{plain:?}");
        let log = curve("", CacheSetup::of(CacheShape::Physical), PaperScale::Quick).unwrap();
        assert!(log.rate(4) > 5.0 * plain.rate(4), "{log:?}");
    }
}
