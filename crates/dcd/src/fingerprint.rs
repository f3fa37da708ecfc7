//! Knowing whether a data device was changed behind the cache's back.
//!
//! Filesystems and partition tables keep what changes at every mount in a device's first 128 KiB
//! and last 64 KiB. A checksum of each 4 KiB of these, taken of the home copy, is kept in the
//! superblock. While a destage may touch a block its checksum is marked unknown, durably and first,
//! so that a crash cannot make the cache's own writes look like somebody else's.

use std::ops::Range;

use forebay_device::{BufMut, Device, Result};

/// Blocks that are fingerprinted.
pub const BLOCKS: usize = HEAD + TAIL;
const HEAD: usize = 32;
const TAIL: usize = 16;
const BLOCK: u64 = 4096;

/// Checksums of a device's ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// CRC32C of each block: 32 from the start, then 16 up to the end.
    pub crcs: [u32; BLOCKS],
    /// Blocks whose checksum does not count, one bit each.
    pub unknown: u64,
}

/// Every block unknown.
const ALL: u64 = (1 << BLOCKS) - 1;

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint {
            crcs: [0; BLOCKS],
            unknown: ALL,
        }
    }
}

/// Where on a device of `len` bytes block `n` lies; `None` if the device has no such block. Cut at
/// the device's end.
fn place(n: usize, len: u64) -> Option<Range<u64>> {
    let start = if n < HEAD {
        n as u64 * BLOCK
    } else {
        // Counted back from the very end, where a partition table keeps its copy.
        len.checked_sub((BLOCKS - n) as u64 * BLOCK)?
    };
    let end = (start + BLOCK).min(len);
    (start < end).then_some(start..end)
}

impl Fingerprint {
    /// The blocks that a change of `range` (bytes) touches, one bit each.
    pub fn touched(range: &Range<u64>, len: u64) -> u64 {
        let touches = |n: &usize| {
            place(*n, len).is_some_and(|block| block.start < range.end && range.start < block.end)
        };
        (0..BLOCKS).filter(touches).map(|n| 1 << n).sum()
    }

    /// Takes the checksums of the blocks in `which` anew from the device.
    ///
    /// # Errors
    /// The device's.
    pub async fn refresh(&mut self, which: u64, data: &dyn Device) -> Result<()> {
        let len = data.geometry().len;
        for n in (0..BLOCKS).filter(|n| which >> n & 1 == 1) {
            let Some(block) = place(n, len) else { continue };
            let bytes = BufMut::zeroed((block.end - block.start) as usize);
            self.crcs[n] = crc32c::crc32c(&data.read(block.start, bytes).await?);
            self.unknown &= !(1 << n);
        }
        Ok(())
    }

    /// The fingerprint of a device as it is.
    ///
    /// # Errors
    /// The device's.
    pub async fn take(data: &dyn Device) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::default();
        fingerprint.refresh(ALL, data).await?;
        Ok(fingerprint)
    }

    /// The first byte at which the device is known to differ from this fingerprint.
    ///
    /// # Errors
    /// The device's.
    pub async fn mismatch(&self, data: &dyn Device) -> Result<Option<u64>> {
        let now = Fingerprint::take(data).await?;
        let known = !(self.unknown | now.unknown);
        let differs = |n: &usize| known >> n & 1 == 1 && self.crcs[*n] != now.crcs[*n];
        let first = (0..BLOCKS).find(differs);
        Ok(first
            .and_then(|n| place(n, data.geometry().len))
            .map(|block| block.start))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use forebay_device::RamDevice;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
        Executor::new(Rc::new(VirtualTime::new())).block_on(future)
    }

    #[test]
    fn a_change_at_either_end_is_seen_and_one_in_the_middle_is_not() {
        run(async {
            let device = RamDevice::new(1 << 20, 512);
            let fingerprint = Fingerprint::take(&device).await.unwrap();
            device.poke(500 << 10, &[1]);
            assert_eq!(fingerprint.mismatch(&device).await.unwrap(), None);
            device.poke((1 << 20) - 1, &[1]);
            assert_eq!(
                fingerprint.mismatch(&device).await.unwrap(),
                Some((1 << 20) - 4096)
            );
            device.poke(5000, &[1]);
            assert_eq!(fingerprint.mismatch(&device).await.unwrap(), Some(4096));
        });
    }

    #[test]
    fn a_block_marked_unknown_may_change() {
        run(async {
            let device = RamDevice::new(1 << 20, 512);
            let mut fingerprint = Fingerprint::take(&device).await.unwrap();
            let touched = Fingerprint::touched(&(4000..5000), 1 << 20);
            assert_eq!(touched, 0b11);
            fingerprint.unknown |= touched;
            device.poke(4500, &[1]);
            assert_eq!(fingerprint.mismatch(&device).await.unwrap(), None);
            fingerprint.refresh(touched, &device).await.unwrap();
            device.poke(4500, &[2]);
            assert_eq!(fingerprint.mismatch(&device).await.unwrap(), Some(4096));
        });
    }

    #[test]
    fn devices_of_any_length_can_be_fingerprinted() {
        run(async {
            for len in [512, 4096, 4608, 70 << 10, 200 << 10, (300 << 10) + 512] {
                let device = RamDevice::new(len, 512);
                let fingerprint = Fingerprint::take(&device).await.unwrap();
                assert_eq!(fingerprint.mismatch(&device).await.unwrap(), None);
                device.poke(len - 1, &[1]);
                assert!(fingerprint.mismatch(&device).await.unwrap().is_some());
                device.poke(0, &[1]);
                assert_eq!(fingerprint.mismatch(&device).await.unwrap(), Some(0));
            }
        });
    }
}
