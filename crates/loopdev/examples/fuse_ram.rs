//! Serves memory as a block device, until interrupted: `fuse_ram [SIZE [DIRECTORY]]`.
//!
//! Prints the block device and the FUSE file below it, each on its own line. The memory is flat, unlike that of
//! `RamDevice`, so that `compare.sh` beside this file compares only the front ends.

use std::cell::RefCell;
use std::future::ready;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context;
use forebay_device::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, ZeroedSpace};
use forebay_linux::{IoRing, SignalReader};
use forebay_loopdev::{LoopOptions, attach_loop};
use forebay_rt::{Executor, Rt};

struct RamVolume(RefCell<Vec<u8>>);

fn at(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Device for RamVolume {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            len: self.0.borrow().len() as u64,
            block_size: 4096,
            physical_block_size: 4096,
            preferred_io: 4096,
            volatile: false,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        }
    }

    fn read(&self, from: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        let range = at(from..from + buf.len() as u64);
        buf.copy_from_slice(&self.0.borrow()[range]);
        Box::pin(ready(Ok(buf)))
    }

    fn write(&self, to: u64, buf: Buf, _: Durability) -> IoFuture<'_, ()> {
        let range = at(to..to + buf.len() as u64);
        self.0.borrow_mut()[range].copy_from_slice(&buf);
        Box::pin(ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.write_zeroes(range, ZeroedSpace::Release)
    }

    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.0.borrow_mut()[at(range)].fill(0);
        Box::pin(ready(Ok(())))
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let size = args.next().map_or(Ok(1 << 30), |size| size.parse())?;
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let ring = IoRing::new(256)?;
    let executor = Executor::new(ring.clone());
    let signals = SignalReader::new(&ring)?;
    executor.block_on(serve(executor.rt(), ring, signals, size, dir))
}

async fn serve(
    rt: Rt,
    ring: Rc<IoRing>,
    signals: SignalReader,
    size: u64,
    dir: PathBuf,
) -> anyhow::Result<()> {
    let device = Rc::new(RamVolume(RefCell::new(vec![1; usize::try_from(size)?])));
    let (memory, options) = (
        forebay_frontend::requests::RequestMemory::default(),
        LoopOptions::default(),
    );
    let mut volume = attach_loop(&rt, &ring, device, &memory, &dir, "ram", options).await?;
    println!("{}\n{}", volume.path().display(), volume.file().display());
    loop {
        signals.next().await.context("waiting for a signal")?;
        match volume.detach().await {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{error}"),
        }
    }
}
