//! A full log before a slow disk: regularity of the service for writers, on the virtual clock.
//!
//! Continuous random 4 KiB writes, starting with an empty log. The log is full within moments, and from then on the
//! disk limits the rate. Every second is recorded, also while the log fills up; the median is that of the second half,
//! when the log has long been full.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, Durability, RamDevice};
use forebay_disk_model::disk::{DiskOptions, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk, EvenDisk};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::cases::median;
use crate::load::{noise, users};
use crate::place::{attach, create};

const LINE: u64 = 4096;
const DEPTHS: [u64; 3] = [1, 32, 128];
/// Sizes of logs in MiB, with the seconds of writing: larger logs take longer to fill up.
const LOGS: [(u64, u64); 4] = [(64, 300), (256, 300), (1024, 1200), (4096, 3600)];
/// Seconds of writing to the disk alone.
const ALONE: u64 = 120;
/// Time of a request to the log.
const FAST: Duration = Duration::from_micros(50);

/// Creates a device of `len` bytes that takes `each` for every request, one after another.
fn even(rt: &Rt, len: u64, each: Duration) -> anyhow::Result<Rc<dyn Device>> {
    let data = Rc::new(RamDevice::new(len, 512));
    let disk = EvenDisk::new(len / SECTOR_BYTES, each);
    Ok(Rc::new(EmulatedDisk::new(rt, data, disk)?))
}

#[derive(Clone, Copy)]
enum SlowDisk {
    Barracuda,
    /// This many requests per second.
    Even(u32),
}

impl SlowDisk {
    fn name(self) -> String {
        match self {
            SlowDisk::Barracuda => "barracuda".into(),
            SlowDisk::Even(n) => format!("a disk of {n} I/Os a second"),
        }
    }

    fn open(self, rt: &Rt) -> anyhow::Result<Rc<dyn Device>> {
        let each = match self {
            SlowDisk::Even(n) => Duration::from_secs(1) / n,
            SlowDisk::Barracuda => {
                let spec = named("barracuda").ok_or_else(|| anyhow::anyhow!("no model"))?;
                let options = DiskOptions {
                    scheduling: Scheduling::Elevator,
                    ..DiskOptions::default()
                };
                let data = Rc::new(RamDevice::new(2_000_000_000 / LINE * LINE, 512));
                return Ok(Rc::new(EmulatedDisk::new(
                    rt,
                    data,
                    Drive::new(spec, options),
                )?));
            }
        };
        even(rt, ByteLen::gib(16).0, each)
    }
}

/// Rates and waits that writers saw.
#[derive(Default)]
struct WriterRates {
    by_second: Vec<f64>,
    longest: Duration,
}

impl WriterRates {
    fn mean(&self, from: usize) -> f64 {
        let seconds = &self.by_second[from..];
        seconds.iter().sum::<f64>() / seconds.len() as f64
    }
}

/// Prints a row for each disk, log and depth.
pub(crate) fn slow() -> anyhow::Result<()> {
    for disk in [SlowDisk::Even(150), SlowDisk::Barracuda] {
        for depth in DEPTHS {
            let alone = measure(disk, None, depth, ALONE)?;
            let own = alone.mean(1);
            for (log, seconds) in LOGS {
                let seen = measure(disk, Some(ByteLen::mib(log)), depth, seconds)?;
                // In the first second the log fills up to the point at which writers are slowed.
                let (full, half) = (1, seen.by_second.len() / 2);
                let middle = median(seen.by_second[half..].to_vec());
                let seconds = seen.by_second.iter().copied();
                let worst = seconds.fold(f64::INFINITY, f64::min);
                println!(
                    "| {}, log of {log} MiB, depth {depth}: mean, median second, worst second, longest \
                     wait | {:.0} /s, {middle:.0} /s, {worst:.0} /s, {:.2} s | alone {own:.0} /s, {:.2} s \
                     | {:.2}, worst to median {:.2} |",
                    disk.name(),
                    seen.mean(full),
                    seen.longest.as_secs_f64(),
                    alone.longest.as_secs_f64(),
                    seen.mean(full) / own,
                    worst / middle,
                );
            }
        }
    }
    Ok(())
}

fn measure(
    disk: SlowDisk,
    log: Option<ByteLen>,
    depth: u64,
    seconds: u64,
) -> anyhow::Result<WriterRates> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let data = disk.open(&rt)?;
        let Some(log) = log else {
            return write(&rt, data, depth, seconds).await;
        };
        let log = even(&rt, log.0, FAST)?;
        create(Rc::clone(&log), Rc::clone(&data)).await?;
        let volume = attach(rt.clone(), log, data).await?;
        let seen = write(&rt, Rc::new(volume.clone()), depth, seconds).await?;
        volume.close().await?;
        Ok(seen)
    })
}

async fn write(
    rt: &Rt,
    device: Rc<dyn Device>,
    depth: u64,
    seconds: u64,
) -> anyhow::Result<WriterRates> {
    let seen = Rc::new(RefCell::new(WriterRates {
        by_second: vec![0.0; seconds as usize],
        longest: Duration::ZERO,
    }));
    users(rt, depth, |user| {
        let (rt, device, seen) = (rt.clone(), Rc::clone(&device), Rc::clone(&seen));
        async move { writer(user, &rt, &*device, &seen).await }
    })
    .await?;
    Ok(seen.take())
}

/// Writes one block after the other until all seconds are over.
async fn writer(
    user: u64,
    rt: &Rt,
    device: &dyn Device,
    seen: &RefCell<WriterRates>,
) -> forebay_device::Result<()> {
    let began = rt.now();
    let random = Rng::new(user + 1);
    let line = noise(user, LINE as usize);
    let lines = device.geometry().len / LINE;
    loop {
        let (at, then) = (random.below(lines) * LINE, rt.now());
        device.write(at, line.clone(), Durability::Flush).await?;
        let now = rt.now();
        let mut seen = seen.borrow_mut();
        seen.longest = seen.longest.max(now.since(then));
        let second = now.since(began).as_secs() as usize;
        match seen.by_second.get_mut(second) {
            Some(count) => *count += 1.0,
            None => return Ok(()),
        }
    }
}
