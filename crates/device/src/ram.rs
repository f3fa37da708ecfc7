//! A device in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use forebay_units::LINE_BYTES;

use crate::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, ZeroedSpace};

const PAGE: usize = LINE_BYTES as usize;

/// A device whose content lives in memory. Pages are allocated when they are written; the rest reads as zeroes.
///
/// For scratch volumes, tests, and as the fastest device to measure a front end with.
pub struct RamDevice {
    geometry: Cell<DeviceGeometry>,
    pages: RefCell<BTreeMap<u64, Box<[u8; PAGE]>>>,
}

impl RamDevice {
    /// Creates a device of `len` zero bytes in blocks of `block_size` bytes.
    ///
    /// # Panics
    /// If `len` is not a multiple of the block size, or the block size is neither 512 nor 4096.
    pub fn new(len: u64, block_size: u32) -> RamDevice {
        assert!(
            block_size == 512 || block_size == 4096,
            "block size {block_size}"
        );
        assert!(
            len.is_multiple_of(block_size.into()),
            "{len} bytes in blocks of {block_size}"
        );
        let geometry = DeviceGeometry {
            len,
            block_size,
            physical_block_size: block_size,
            preferred_io: 4096,
            volatile: false,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        };
        RamDevice {
            geometry: Cell::new(geometry),
            pages: RefCell::default(),
        }
    }

    /// Makes the device longer, with zeroes, as if its storage had been extended.
    ///
    /// # Panics
    /// If `len` is not a multiple of the block size, or is shorter than the device.
    pub fn grow(&self, len: u64) {
        let geometry = self.geometry.get();
        let whole = len.is_multiple_of(geometry.block_size.into());
        assert!(
            whole && len >= geometry.len,
            "{len} bytes after {}",
            geometry.len
        );
        self.geometry.set(DeviceGeometry { len, ..geometry });
    }

    /// Copies the content from byte `at` on into `out`.
    pub fn peek(&self, at: u64, out: &mut [u8]) {
        let pages = self.pages.borrow();
        for_pages(at, out.len(), |page, in_page, in_buf| {
            match pages.get(&page) {
                Some(data) => out[in_buf].copy_from_slice(&data[in_page]),
                None => out[in_buf].fill(0),
            }
        });
    }

    /// Stores `data` from byte `at` on.
    pub fn poke(&self, at: u64, data: &[u8]) {
        let mut pages = self.pages.borrow_mut();
        for_pages(at, data.len(), |page, in_page, in_buf| {
            let stored = pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            stored[in_page].copy_from_slice(&data[in_buf]);
        });
    }

    fn clear(&self, range: Range<u64>) {
        let mut pages = self.pages.borrow_mut();
        let (first, last) = (range.start / LINE_BYTES, range.end.div_ceil(LINE_BYTES));
        let touched: Vec<u64> = pages.range(first..last).map(|(page, _)| *page).collect();
        for page in touched {
            let from = range.start.saturating_sub(page * LINE_BYTES) as usize;
            let to = (range.end - page * LINE_BYTES).min(LINE_BYTES) as usize;
            if from == 0 && to == PAGE {
                pages.remove(&page);
            } else if let Some(data) = pages.get_mut(&page) {
                data[from..to].fill(0);
            }
        }
    }
}

/// Calls `each` for every page of a request, with the page's number, the range in the page and the range in the buffer.
fn for_pages(at: u64, len: usize, mut each: impl FnMut(u64, Range<usize>, Range<usize>)) {
    let mut done = 0;
    while done < len {
        let pos = at + done as u64;
        let from = (pos % LINE_BYTES) as usize;
        let n = (PAGE - from).min(len - done);
        each(pos / LINE_BYTES, from..from + n, done..done + n);
        done += n;
    }
}

impl Device for RamDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry.get()
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            self.peek(at, &mut buf);
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.poke(at, &buf);
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.write_zeroes(range, ZeroedSpace::Release)
    }

    /// Frees memory for both values of `room`: a write never fails for lack of space.
    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.clear(range);
            Ok(())
        })
    }
}
