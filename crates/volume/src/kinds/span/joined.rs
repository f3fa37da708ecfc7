//! A device over two devices, one after the other.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, PlacementHandle, Result, ZeroedSpace,
};
use futures_util::future::join;

/// Two devices, one after the other.
pub(super) struct JoinedDevices {
    first: Rc<dyn Device>,
    second: Rc<dyn Device>,
    block_size: u32,
}

impl JoinedDevices {
    /// Joins two devices. `block_size` is a multiple of both block sizes, and divides both lengths.
    pub(super) fn new([first, second]: [Rc<dyn Device>; 2], block_size: u32) -> JoinedDevices {
        JoinedDevices {
            first,
            second,
            block_size,
        }
    }

    /// Length of the first device.
    fn boundary(&self) -> u64 {
        self.first.geometry().len
    }

    /// Returns the parts of a range on the first and on the second device, in the addresses of that device.
    fn parts(&self, range: &Range<u64>) -> (Option<Range<u64>>, Option<Range<u64>>) {
        let at = self.boundary();
        let first = range.start..range.end.min(at);
        let second = range.start.max(at) - at..range.end.max(at) - at;
        let part = |range: Range<u64>| (!range.is_empty()).then_some(range);
        (part(first), part(second))
    }

    /// Runs a request on each part of a range, at the same time. Both end before the result is known.
    async fn on_parts<'a, F: Future<Output = Result<()>> + 'a>(
        &'a self,
        range: Range<u64>,
        request: impl Fn(&'a Rc<dyn Device>, Range<u64>) -> F,
    ) -> Result<()> {
        match self.parts(&range) {
            (Some(first), Some(second)) => {
                let both = (request(&self.first, first), request(&self.second, second));
                let (first, second) = join(both.0, both.1).await;
                first.and(second)
            }
            (Some(first), None) => request(&self.first, first).await,
            (None, Some(second)) => request(&self.second, second).await,
            (None, None) => Ok(()),
        }
    }
}

impl Device for JoinedDevices {
    fn geometry(&self) -> DeviceGeometry {
        let [a, b] = [&self.first, &self.second].map(forebay_device::Device::geometry);
        DeviceGeometry {
            len: a.len + b.len,
            block_size: self.block_size,
            physical_block_size: a.physical_block_size.max(b.physical_block_size),
            preferred_io: a.preferred_io.max(b.preferred_io),
            volatile: a.volatile || b.volatile,
            discard_granularity: if a.discard_granularity == 0 || b.discard_granularity == 0 {
                0
            } else {
                a.discard_granularity.max(b.discard_granularity)
            },
            zeroes_by_unmapping: a.zeroes_by_unmapping && b.zeroes_by_unmapping,
        }
    }

    fn place(&self, range: Range<u64>, handle: PlacementHandle) {
        let (first, second) = self.parts(&range);
        if let Some(part) = first {
            self.first.place(part, handle);
        }
        if let Some(part) = second {
            self.second.place(part, handle);
        }
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            let range = at..at + buf.len() as u64;
            match self.parts(&range) {
                (Some(first), Some(second)) => {
                    let front = buf.split_to((first.end - first.start) as usize);
                    let (front, back) = join(
                        self.first.read(first.start, front),
                        self.second.read(second.start, buf),
                    )
                    .await;
                    let whole = front?.unsplit(back?);
                    Ok(whole.unwrap_or_else(|(front, back)| {
                        BufMut::copy_of(&[&front[..], &back[..]].concat())
                    }))
                }
                (_, Some(second)) => self.second.read(second.start, buf).await,
                (_, None) => self.first.read(at, buf).await,
            }
        })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let range = at..at + buf.len() as u64;
            let front = (self.boundary().clamp(range.start, range.end) - at) as usize;
            self.on_parts(range, |device, part| {
                let is_first = Rc::ptr_eq(device, &self.first);
                let part_buf = if is_first {
                    buf.slice(..front)
                } else {
                    buf.slice(front..)
                };
                device.write(part.start, part_buf, durability)
            })
            .await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            let (first, second) = join(self.first.flush(), self.second.flush()).await;
            first.and(second)
        })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(self.on_parts(range, forebay_device::Device::discard))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(self.on_parts(range, move |device, part| device.write_zeroes(part, room)))
    }
}

#[cfg(test)]
mod tests {
    use forebay_device::{RamDevice, Tap, TapHooks, TapRequest};
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    fn joined() -> JoinedDevices {
        let ram = |len| Rc::new(RamDevice::new(len, 512)) as Rc<dyn Device>;
        JoinedDevices::new([ram(8192), ram(12288)], 4096)
    }

    fn run<T: 'static>(work: impl Future<Output = T> + 'static) -> T {
        Executor::new(Rc::new(VirtualTime::new())).block_on(work)
    }

    #[test]
    fn a_write_over_the_boundary_reads_back_at_every_offset() {
        run(async {
            let device = joined();
            assert_eq!(device.geometry().len, 20480);
            for start in (0..20480).step_by(4096) {
                for end in (start + 4096..=20480).step_by(4096) {
                    let bytes: Vec<u8> = (start..end).map(|at| (at / 512 + end) as u8).collect();
                    let buf = BufMut::copy_of(&bytes).freeze();
                    device.write(start, buf, Durability::Flush).await.unwrap();
                    let read = BufMut::to_fill(bytes.len());
                    let read = device.read(start, read).await.unwrap();
                    assert_eq!(read[..], bytes[..], "{start}..{end}");
                }
            }
            device
                .write_zeroes(4096..12288, ZeroedSpace::Keep)
                .await
                .unwrap();
            let read = device.read(4096, BufMut::to_fill(8192)).await.unwrap();
            assert!(read.iter().all(|byte| *byte == 0));
            let other = device.read(12288, BufMut::to_fill(4096)).await.unwrap();
            assert!(other.iter().any(|byte| *byte != 0));
        });
    }

    /// Fails every flush.
    struct FailingFlush;

    impl TapHooks for FailingFlush {
        async fn before(&self, asked: &TapRequest) -> Result<()> {
            match asked {
                TapRequest::Flush => Err(forebay_device::DeviceError::Failed {
                    op: asked.op(),
                    cause: "a test".into(),
                }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_flush_fails_if_either_device_fails_it() {
        run(async {
            for failing in 0..2 {
                let ram = || RamDevice::new(8192, 512);
                let mut devices: [Rc<dyn Device>; 2] = [Rc::new(ram()), Rc::new(ram())];
                devices[failing] = Rc::new(Tap::new(ram(), FailingFlush));
                assert!(JoinedDevices::new(devices, 512).flush().await.is_err());
            }
        });
    }
}
