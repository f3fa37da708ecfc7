//! Requests that are not in whole blocks.
//!
//! Such requests come even from programs that use whole blocks only. The kernel splits a request that touches more
//! pages of memory than fit one message, and it splits at the end of a *memory* page. A megabyte that does not begin on
//! a page boundary arrives as two requests with the split inside a block. This is rare, so the code is simple rather
//! than fast.

use std::ops::Range;

use forebay_device::{Buf, BufMut, Result};
use forebay_frontend::requests::FrontDevice;

/// Returns the whole blocks around `len` bytes from `at`.
pub(super) fn around(at: u64, len: usize, block: u32) -> Range<u64> {
    let block = u64::from(block);
    let end = at + len as u64;
    at - at % block..end.next_multiple_of(block)
}

/// Reads `len` bytes from `at`, all inside the device.
pub(super) async fn read(target: &FrontDevice, at: u64, len: usize) -> Result<Buf> {
    let blocks = around(at, len, target.geometry().block_size);
    let skip = (at - blocks.start) as usize;
    let buf = BufMut::zeroed((blocks.end - blocks.start) as usize);
    let buf = target.read(blocks.start, buf).await?;
    Ok(buf.freeze().slice(skip..skip + len))
}

/// Writes `data` at `at`, all inside the device. The caller must exclude other writes to the surrounding blocks
/// meanwhile.
pub(super) async fn write(target: &FrontDevice, at: u64, data: &[u8]) -> Result<()> {
    let blocks = around(at, data.len(), target.geometry().block_size);
    let skip = (at - blocks.start) as usize;
    let buf = BufMut::zeroed((blocks.end - blocks.start) as usize);
    let mut buf = target.read(blocks.start, buf).await?;
    buf[skip..skip + data.len()].copy_from_slice(data);
    target.write(blocks.start, buf.freeze(), false).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_extended_to_block_boundaries() {
        assert_eq!(around(4096, 4096, 4096), 4096..8192);
        assert_eq!(around(4097, 1, 4096), 4096..8192);
        assert_eq!(around(4095, 2, 4096), 0..8192);
        assert_eq!(around(512, 512, 512), 512..1024);
    }
}
