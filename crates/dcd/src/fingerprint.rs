//! Detection of changes that were made to a data device without the cache.
//!
//! Filesystems and partition tables keep data that changes at every mount in a device's first 128 KiB and last 64 KiB.
//! The superblock holds a checksum of each 4 KiB block of these, taken from the data device. While a destage may change
//! a block, its checksum is marked unknown. This mark is durable before the write, so that after a crash the cache's
//! own writes do not look like foreign writes.

use std::ops::Range;

use forebay_device::{BufMut, Device, Result};

/// Number of fingerprinted blocks.
pub const BLOCKS: usize = HEAD + TAIL;
const HEAD: usize = 32;
const TAIL: usize = 16;
const BLOCK: u64 = 4096;

/// Checksums of both ends of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// CRC32C of each block: 32 from the start, then 16 up to the end.
    pub crcs: [u32; BLOCKS],
    /// Blocks whose checksum is not valid, one bit each.
    pub unknown: u64,
}

/// All blocks unknown.
const ALL: u64 = (1 << BLOCKS) - 1;

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint {
            crcs: [0; BLOCKS],
            unknown: ALL,
        }
    }
}

/// Returns the byte range of block `n` on a device of `len` bytes, cut at the device's end. `None` if the device has no
/// such block.
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
    /// Returns the blocks that a change of `range` (bytes) touches, one bit each.
    pub fn touched(range: &Range<u64>, len: u64) -> u64 {
        let touches = |n: &usize| {
            place(*n, len).is_some_and(|block| block.start < range.end && range.start < block.end)
        };
        (0..BLOCKS).filter(touches).map(|n| 1 << n).sum()
    }

    /// Blocks at the end of a device, one bit each. They become unknown when the device's length changes.
    pub(crate) const END: u64 = ALL & !((1 << HEAD) - 1);

    /// Returns the byte range of these blocks on a device of `len` bytes.
    pub(crate) fn end_of(len: u64) -> Range<u64> {
        len.saturating_sub(TAIL as u64 * BLOCK)..len
    }

    /// Renews the checksums of the blocks in `which` from the device. Each end takes one read, since attaching and
    /// stopping wait for the result, and a slow device completes few requests per second. The volume is the device's
    /// first `len` bytes.
    ///
    /// # Errors
    /// The device's.
    pub async fn refresh(&mut self, which: u64, data: &dyn Device, len: u64) -> Result<()> {
        for end in [0..HEAD, HEAD..BLOCKS] {
            let chosen = end.filter(|n| which >> n & 1 == 1);
            let blocks: Vec<_> = chosen.filter_map(|n| Some((n, place(n, len)?))).collect();
            if self.take_blocks(&blocks, data).await.is_ok() {
                continue;
            }
            // A bad sector may lie between the requested blocks.
            for block in blocks {
                self.take_blocks(&[block], data).await?;
            }
        }
        Ok(())
    }

    /// Renews the checksums of blocks of one end, in ascending order.
    async fn take_blocks(
        &mut self,
        blocks: &[(usize, Range<u64>)],
        data: &dyn Device,
    ) -> Result<()> {
        let (Some((_, first)), Some((_, last))) = (blocks.first(), blocks.last()) else {
            return Ok(());
        };
        let span = BufMut::to_fill((last.end - first.start) as usize);
        let bytes = data.read(first.start, span).await?;
        for (n, block) in blocks {
            let (from, to) = (block.start - first.start, block.end - first.start);
            self.crcs[*n] = crc32c::crc32c(&bytes[from as usize..to as usize]);
            self.unknown &= !(1 << n);
        }
        Ok(())
    }

    /// Computes the fingerprint of a device's first `len` bytes as they are now.
    ///
    /// # Errors
    /// The device's.
    pub async fn take(data: &dyn Device, len: u64) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::default();
        fingerprint.refresh(ALL, data, len).await?;
        Ok(fingerprint)
    }

    /// Returns the first byte at which the device's first `len` bytes differ from this fingerprint, which must be of a
    /// device of `len` bytes. Unknown blocks are not compared.
    ///
    /// # Errors
    /// The device's.
    pub async fn mismatch(&self, data: &dyn Device, len: u64) -> Result<Option<u64>> {
        let now = Fingerprint::take(data, len).await?;
        let known = !(self.unknown | now.unknown);
        let differs = |n: &usize| known >> n & 1 == 1 && self.crcs[*n] != now.crcs[*n];
        let first = (0..BLOCKS).find(differs);
        Ok(first.and_then(|n| place(n, len)).map(|block| block.start))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::ErrorKind;
    use std::rc::Rc;

    use forebay_device::{DeviceError, RamDevice, Tap, TapHooks, TapRequest};
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    const LEN: u64 = 1 << 20;

    fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
        Executor::new(Rc::new(VirtualTime::new())).block_on(future)
    }

    #[test]
    fn changes_in_the_first_and_last_blocks_are_detected_and_changes_in_the_middle_are_not() {
        run(async {
            let device = RamDevice::new(LEN, 512);
            let fingerprint = Fingerprint::take(&device, LEN).await.unwrap();
            device.poke(500 << 10, &[1]);
            assert_eq!(fingerprint.mismatch(&device, LEN).await.unwrap(), None);
            device.poke((LEN) - 1, &[1]);
            assert_eq!(
                fingerprint.mismatch(&device, LEN).await.unwrap(),
                Some((LEN) - 4096)
            );
            device.poke(5000, &[1]);
            assert_eq!(
                fingerprint.mismatch(&device, LEN).await.unwrap(),
                Some(4096)
            );
        });
    }

    #[test]
    fn a_change_in_a_block_marked_unknown_is_not_a_mismatch() {
        run(async {
            let device = RamDevice::new(LEN, 512);
            let mut fingerprint = Fingerprint::take(&device, LEN).await.unwrap();
            let touched = Fingerprint::touched(&(4000..5000), LEN);
            assert_eq!(touched, 0b11);
            fingerprint.unknown |= touched;
            device.poke(4500, &[1]);
            assert_eq!(fingerprint.mismatch(&device, LEN).await.unwrap(), None);
            fingerprint.refresh(touched, &device, LEN).await.unwrap();
            device.poke(4500, &[2]);
            assert_eq!(
                fingerprint.mismatch(&device, LEN).await.unwrap(),
                Some(4096)
            );
        });
    }

    #[test]
    fn devices_of_any_length_can_be_fingerprinted() {
        run(async {
            for len in [512, 4096, 4608, 70 << 10, 200 << 10, (300 << 10) + 512] {
                let device = RamDevice::new(len, 512);
                let fingerprint = Fingerprint::take(&device, len).await.unwrap();
                assert_eq!(fingerprint.mismatch(&device, len).await.unwrap(), None);
                device.poke(len - 1, &[1]);
                assert!(fingerprint.mismatch(&device, len).await.unwrap().is_some());
                device.poke(0, &[1]);
                assert_eq!(fingerprint.mismatch(&device, len).await.unwrap(), Some(0));
            }
        });
    }

    #[test]
    fn the_original_length_of_a_grown_device_can_be_compared() {
        run(async {
            let device = RamDevice::new(2 * LEN, 512);
            let fingerprint = Fingerprint::take(&device, LEN).await.unwrap();
            device.poke(2 * LEN - 1, &[1]);
            assert_eq!(fingerprint.mismatch(&device, LEN).await.unwrap(), None);
            device.poke(LEN - 1, &[1]);
            let end = Some(LEN - 4096);
            assert_eq!(fingerprint.mismatch(&device, LEN).await.unwrap(), end);
        });
    }

    /// Counts reads of the device, and makes one of its blocks unreadable.
    #[derive(Default)]
    struct BadBlockHooks {
        bad: Option<u64>,
        reads: Cell<u32>,
    }

    impl TapHooks for BadBlockHooks {
        async fn before(&self, asked: &TapRequest) -> forebay_device::Result<()> {
            self.reads.set(self.reads.get() + 1);
            match self.bad {
                Some(bad) if asked.range().contains(&bad) => {
                    let cause = ErrorKind::Other.into();
                    Err(DeviceError::io(asked.op(), asked.range(), cause))
                }
                _ => Ok(()),
            }
        }
    }

    // Found by a scenario in which each request took 1.6 s: stopping took a minute, most of it for these reads.
    #[test]
    fn each_end_is_read_with_a_single_request() {
        run(async {
            let picky = Tap::new(RamDevice::new(LEN, 512), BadBlockHooks::default());
            Fingerprint::take(&picky, LEN).await.unwrap();
            assert_eq!(picky.reads.get(), 2);
        });
    }

    #[test]
    fn a_bad_sector_between_refreshed_blocks_does_not_fail_the_refresh() {
        run(async {
            let mut fingerprint = Fingerprint::default();
            let bad = Some(5000);
            let hooks = BadBlockHooks {
                bad,
                ..BadBlockHooks::default()
            };
            let picky = Tap::new(RamDevice::new(LEN, 512), hooks);
            fingerprint.refresh(0b101, &picky, LEN).await.unwrap();
            assert_eq!(fingerprint.unknown, ALL & !0b101);
            fingerprint.refresh(0b111, &picky, LEN).await.unwrap_err();
        });
    }
}
