//! Serves memory as a block device, until interrupted: `fuse_ram [SIZE [DIRECTORY]]`.
//!
//! Prints the block device and the FUSE file beneath it, one a line.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context;
use forebay_device::RamDevice;
use forebay_os::{Ring, Signals};
use forebay_rt::{Executor, Rt};
use forebay_serve::blockdev::{LoopOptions, attach_loop};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let size = args.next().map_or(Ok(1 << 30), |size| size.parse())?;
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let ring = Ring::new(256)?;
    let executor = Executor::new(ring.clone());
    let signals = Signals::new(&ring)?;
    executor.block_on(serve(executor.rt(), ring, signals, size, dir))
}

async fn serve(
    rt: Rt,
    ring: Rc<Ring>,
    signals: Signals,
    size: u64,
    dir: PathBuf,
) -> anyhow::Result<()> {
    let device = Rc::new(RamDevice::new(size, 4096));
    let options = LoopOptions::default();
    let mut volume = attach_loop(&rt, &ring, device, &dir, "ram", options).await?;
    println!("{}\n{}", volume.path().display(), volume.file().display());
    loop {
        signals.next().await.context("waiting for a signal")?;
        match volume.detach().await {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{error}"),
        }
    }
}
