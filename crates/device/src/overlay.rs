//! A device that is not changed: writes stay in memory, and reads see them in front of the device's content.
//!
//! So recovery can be tried on a device without changing it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, Result, ZeroedSpace};

/// Unit of memory, in bytes.
const PIECE: u64 = 4096;

/// A device, with all writes to it in memory.
pub struct MemoryOverlay {
    below: Rc<dyn Device>,
    /// Written units, by their number.
    pieces: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl MemoryOverlay {
    /// Creates an overlay without writes.
    pub fn new(below: Rc<dyn Device>) -> MemoryOverlay {
        MemoryOverlay {
            below,
            pieces: RefCell::default(),
        }
    }

    /// Returns true if any data was written.
    pub fn is_changed(&self) -> bool {
        !self.pieces.borrow().is_empty()
    }

    /// Reads a range of `below`, without the writes in memory.
    async fn original(&self, range: Range<u64>) -> Result<BufMut> {
        let len = (range.end - range.start) as usize;
        self.below.read(range.start, BufMut::zeroed(len)).await
    }

    /// Stores written bytes in memory. For units that are written in part, the rest is read first.
    async fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at + bytes.len() as u64;
        let (first, last) = (at / PIECE, end.div_ceil(PIECE));
        for piece in first..last {
            let start = piece * PIECE;
            let stop = (start + PIECE).min(self.below.geometry().len);
            let whole = at <= start && stop <= end;
            if !whole && !self.pieces.borrow().contains_key(&piece) {
                let read = self.original(start..stop).await?;
                let mut pieces = self.pieces.borrow_mut();
                pieces.entry(piece).or_insert_with(|| read.to_vec());
            }
            let mut pieces = self.pieces.borrow_mut();
            let kept = pieces.entry(piece);
            let kept = kept.or_insert_with(|| vec![0; (stop - start) as usize]);
            let (from, to) = (at.max(start), end.min(stop));
            let new = &bytes[(from - at) as usize..(to - at) as usize];
            kept[(from - start) as usize..(to - start) as usize].copy_from_slice(new);
        }
        Ok(())
    }

    /// Copies the writes in memory over the bytes that were read at `at`.
    fn cover(&self, at: u64, buf: &mut [u8]) {
        let end = at + buf.len() as u64;
        let pieces = self.pieces.borrow();
        for (piece, kept) in pieces.range(at / PIECE..end.div_ceil(PIECE)) {
            let start = piece * PIECE;
            let (from, to) = (at.max(start), end.min(start + kept.len() as u64));
            let kept = &kept[(from - start) as usize..(to - start) as usize];
            buf[(from - at) as usize..(to - at) as usize].copy_from_slice(kept);
        }
    }
}

impl Device for MemoryOverlay {
    fn geometry(&self) -> DeviceGeometry {
        self.below.geometry()
    }

    fn refresh_len(&self) -> Result<u64> {
        self.below.refresh_len()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let mut read = self.below.read(at, buf).await?;
            self.cover(at, &mut read);
            Ok(read)
        })
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move { self.put(at, &buf).await })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, _range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let zeroes = vec![0; (range.end - range.start) as usize];
            self.put(range.start, &zeroes).await
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::RamDevice;
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    #[test]
    fn an_overlay_returns_its_writes_and_does_not_change_the_device() {
        let below = Rc::new(RamDevice::new(3 * PIECE + 512, 512));
        let old: Vec<u8> = (0..3 * PIECE + 512).map(|n| (n / 512) as u8 + 1).collect();
        below.poke(0, &old);
        let overlay = MemoryOverlay::new(Rc::clone(&below) as Rc<dyn Device>);
        let (len, mut new) = (old.len(), old.clone());
        new[3584..8704].fill(0xee);
        new[11776..12800].fill(0);
        let read = Executor::new(Rc::new(VirtualTime::new())).block_on(async move {
            let written = BufMut::copy_of(&[0xee; 5120]).freeze();
            let flush = Durability::Flush;
            overlay.write(3584, written, flush).await.unwrap();
            overlay
                .write_zeroes(11776..12800, ZeroedSpace::Keep)
                .await
                .unwrap();
            overlay.read(0, BufMut::zeroed(len)).await.unwrap()
        });
        assert!(read[..] == new[..]);
        let mut kept = vec![0; old.len()];
        below.peek(0, &mut kept);
        assert!(kept == old);
    }
}
