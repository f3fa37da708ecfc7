//! Serves memory, nothing, or a file over NBD, to measure the server itself.
//!
//! `nbd_ram ADDRESS [ram|null|PATH] [SIZE]`, for example `nbd_ram unix:/tmp/nbd.sock null 1GiB`.

use std::ops::Range;
use std::rc::Rc;

use anyhow::Context;
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, RamDevice, ZeroedSpace,
};
use forebay_frontend::requests::RequestMemory;
use forebay_linux::{DeviceOpenOptions, IoRing, SignalReader, SocketAddress, SocketListener};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};
use forebay_rt::{Driver, Executor};
use forebay_units::ByteLen;

/// A device that drops all writes.
struct NullDevice(u64);

impl Device for NullDevice {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry {
            len: self.0,
            block_size: 512,
            physical_block_size: 512,
            preferred_io: 4096,
            volatile: false,
            discard_granularity: 0,
            zeroes_by_unmapping: false,
        }
    }

    fn read(&self, _at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(std::future::ready(Ok(buf)))
    }

    fn write(&self, _at: u64, _buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _range: Range<u64>) -> IoFuture<'_, ()> {
        self.flush()
    }

    fn write_zeroes(&self, _range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.flush()
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let address: SocketAddress = args.next().context("ADDRESS is missing")?.parse()?;
    let kind = args.next().unwrap_or_else(|| "ram".into());
    let ByteLen(len) = args.next().as_deref().unwrap_or("1GiB").parse()?;

    let ring = IoRing::new(256)?;
    let device: Rc<dyn Device> = match kind.as_str() {
        "ram" => Rc::new(RamDevice::new(len, 512)),
        "null" => Rc::new(NullDevice(len)),
        path => forebay_linux::open(&ring, path, DeviceOpenOptions::default())?.device,
    };
    let signals = SignalReader::new(&ring)?;
    let executor = Executor::new(Rc::clone(&ring) as Rc<dyn Driver>);
    let rt = executor.rt();
    let server = NbdServer::new(
        rt.clone(),
        vec![NbdExport::new("disk", device)],
        ClientLimits::default(),
        &RequestMemory::default(),
    )?;
    let listener = SocketListener::bind(&ring, &address)?;
    println!("listening at {address}");
    executor.block_on(async move {
        let accepting = server.clone();
        let accepting = rt.spawn(async move { accepting.listen(&listener).await });
        signals.next().await?;
        server.shutdown().await;
        accepting.await
    })?;
    Ok(())
}
