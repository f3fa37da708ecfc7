//! Memory of the map for each GiB, or each pending discard: the cache's own figure, and the growth of the process.
//!
//! The devices discard all data, so that nothing else grows; the clock is virtual.

use std::ops::Range;
use std::rc::Rc;

use forebay_dcd::DcdVolume;
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, RamDevice, ZeroedSpace,
};
use forebay_rt::{Executor, VirtualTime};

use crate::cases::resident;
use crate::load::noise;
use crate::place::{attach, create};

/// Bytes at the beginning of a device that are kept: the log's superblocks are there.
const KEPT: u64 = 1 << 20;
const LINE: u64 = 4096;
/// Blocks of the volume. A multiplication by the stride spreads consecutive numbers.
const LINES: u64 = 1 << 28;
const STRIDE: u64 = 7_919;

/// A device that discards all data except its beginning.
struct ForgetfulDevice {
    kept: RamDevice,
    len: u64,
}

impl ForgetfulDevice {
    fn device(len: u64) -> Rc<dyn Device> {
        let kept = RamDevice::new(KEPT, 512);
        Rc::new(ForgetfulDevice { kept, len })
    }
}

impl Device for ForgetfulDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            len: self.len,
            ..self.kept.geometry()
        }
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        if at + buf.len() as u64 <= KEPT {
            self.kept.read(at, buf)
        } else {
            Box::pin(async { Ok(buf) })
        }
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        if at + buf.len() as u64 <= KEPT {
            self.kept.write(at, buf, durability)
        } else {
            Box::pin(async { Ok(()) })
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, _range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn write_zeroes(&self, _range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Prints a row for each way to fill the map.
pub(crate) fn memory() -> anyhow::Result<()> {
    const PIECES: u64 = 4 << 20;
    let line = |n: u64| n * STRIDE % LINES * LINE;
    writes("4 KiB", LINE, PIECES / 4, line)?;
    writes("512 bytes, one to a line", 512, PIECES, line)?;
    writes("512 bytes, two to a line", 512, PIECES, move |n| {
        line(n / 2) + n % 2 * 1024
    })?;
    writes("512 bytes, eight to a line", 512, PIECES, move |n| {
        line(n / 8) + n % 8 * 512
    })?;
    let (said, grown) = filled(PIECES, move |volume, n| async move {
        let at = n * STRIDE % LINES * LINE;
        Ok(volume.discard(at..at + LINE).await?)
    })?;
    let each = |bytes: u64| bytes as f64 / PIECES as f64;
    println!(
        "| map memory of a discard of 4 KiB | {:.1} bytes; the process grew by {:.1} | 32 | |",
        each(said),
        each(grown)
    );
    Ok(())
}

fn writes(
    name: &str,
    len: u64,
    pieces: u64,
    at: impl Fn(u64) -> u64 + Copy + 'static,
) -> anyhow::Result<()> {
    let data = noise(1, len as usize);
    let (said, grown) = filled(pieces, move |volume, n| {
        let data = data.clone();
        async move { Ok(volume.write(at(n), data, Durability::Flush).await?) }
    })?;
    let gib = (pieces * len) as f64 / (1u64 << 30) as f64;
    let each = |bytes: u64| bytes as f64 / gib / f64::from(1 << 20);
    let bar = if len == LINE { 6 } else { 40 };
    println!(
        "| map memory, writes of {name} | {:.1} MiB/GiB ({gib:.0} GiB cached; the process grew by {:.1}) \
         | {bar} MiB/GiB | |",
        each(said),
        each(grown)
    );
    Ok(())
}

/// Calls `each` this many times. Returns the memory of the map by its own figure, and the growth of the process, in
/// bytes.
fn filled<F>(times: u64, each: impl Fn(DcdVolume, u64) -> F + 'static) -> anyhow::Result<(u64, u64)>
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let (log, data) = (
            ForgetfulDevice::device(256 << 30),
            ForgetfulDevice::device(LINES * LINE),
        );
        create(Rc::clone(&log), Rc::clone(&data)).await?;
        let volume = attach(rt, log, data).await?;
        // The buffers have reached their final size by then.
        let (mut before, settled) = (0, times / 8);
        let mut said = 0;
        for n in 0..times {
            if n == settled {
                volume.flush().await?;
                (before, said) = (resident(), volume.status().map_bytes);
            }
            each(volume.clone(), n).await?;
        }
        volume.flush().await?;
        let status = volume.status();
        anyhow::ensure!(status.destaged_bytes == 0, "something left the map");
        // For the memory before that point, the map's own figure is used.
        let grown = (resident() - before) * (1 << 20) + said;
        Ok((status.map_bytes, grown))
    })
}
