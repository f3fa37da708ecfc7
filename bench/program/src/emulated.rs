//! The emulated disk: its accuracy on the wall clock, and its speed on the virtual clock.

use std::rc::Rc;
use std::time::Instant;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_disk_model::disk::{DiskOptions, named};
use forebay_disk_model::{Drive, EmulatedDisk, Lateness};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

use crate::cases::{BenchContext, median};
use crate::load::{DeviceLoad, LoadKind, noise, run, users};
use crate::place::{ScratchFiles, on_ring, open};

/// Model of the emulated disk: the family of the DCD paper's disk.
const MODEL: &str = "barracuda";
/// Requests of a run on the virtual clock, and concurrent requests.
const VIRTUAL_REQUESTS: u64 = 1_000_000;
const VIRTUAL_DEPTH: u64 = 8;

fn emulated(rt: &Rt, data: Rc<dyn Device>) -> anyhow::Result<EmulatedDisk> {
    let spec = named(MODEL).ok_or_else(|| anyhow::anyhow!("no model {MODEL}"))?;
    Ok(EmulatedDisk::new(
        rt,
        data,
        Drive::new(spec, DiskOptions::default()),
    )?)
}

impl BenchContext {
    pub(crate) fn emulated(&self) -> anyhow::Result<()> {
        for depth in [1, 8] {
            self.wall_clock(depth)?;
        }
        let mut rates = Vec::new();
        for _ in 0..self.rounds {
            rates.push(virtual_rate()?);
        }
        println!(
            "| emulated {MODEL}, virtual clock, depth {VIRTUAL_DEPTH} | {:.0} /s | 300000 /s | |",
            median(rates)
        );
        Ok(())
    }

    /// Prints the lateness of answers on the wall clock, of all rounds together.
    fn wall_clock(&self, depth: usize) -> anyhow::Result<()> {
        let mut scratch = ScratchFiles::new();
        let path = scratch.file(&self.dir, "disk", ByteLen::gib(1), false)?;
        for (what, kind) in [
            ("reads", LoadKind::RandomRead),
            ("writes", LoadKind::RandomWrite),
        ] {
            let load = DeviceLoad {
                kind,
                size: 4096,
                depth,
                seconds: self.seconds * self.rounds as f64,
                most: u64::MAX,
                flush_each: None,
            };
            let path = path.clone();
            let late: Lateness = on_ring(move |rt, ring| async move {
                forebay_linux::precise_timers();
                let disk = Rc::new(emulated(&rt, open(&ring, &path)?)?);
                run(&rt, Rc::clone(&disk) as Rc<dyn Device>, load).await?;
                Ok(disk.lateness())
            })?;
            println!(
                "| emulated {MODEL}, {what}, depth {depth}: late at p99 | {:.0} µs (p50 {:.0} µs, \
                 worst {:.0} µs; {} answers, {} waited for data) | 200 µs | |",
                late.p99.as_secs_f64() * 1e6,
                late.p50.as_secs_f64() * 1e6,
                late.worst.as_secs_f64() * 1e6,
                late.answers,
                late.by_data
            );
        }
        Ok(())
    }
}

/// Returns the requests per second that one processor simulates, half of them writes.
fn virtual_rate() -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let began = Instant::now();
    executor.block_on(async move {
        // A few blocks are used, so that the time is that of the emulation, not of the memory.
        let data = Rc::new(RamDevice::new(2_000_000_000 / 4096 * 4096, 512));
        let disk = Rc::new(emulated(&rt, data)?);
        users(&rt, VIRTUAL_DEPTH, |user| {
            half_writes(user, Rc::clone(&disk))
        })
        .await?;
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(VIRTUAL_REQUESTS as f64 / began.elapsed().as_secs_f64())
}

/// Makes a user's share of the requests on the virtual clock.
async fn half_writes(user: u64, disk: Rc<EmulatedDisk>) -> forebay_device::Result<()> {
    let random = Rng::new(user + 1);
    let stride = disk.geometry().len / 4096 / 1024;
    let data = noise(user, 4096);
    let mut memory = BufMut::zeroed(4096);
    for n in 0..VIRTUAL_REQUESTS / VIRTUAL_DEPTH {
        let at = random.below(1024) * stride * 4096;
        if n % 2 == 0 {
            disk.write(at, data.clone(), Durability::Flush).await?;
        } else {
            memory = disk.read(at, memory).await?;
        }
    }
    Ok(())
}
