//! Gain of a rotational offset before each record of a log on a disk, for one writer that flushes each write.
//!
//! The disk rotates on while the host receives the completion of a record. So the head is already behind the next sector
//! of the log when the next record arrives, and this record waits for nearly a whole rotation. A record that begins some
//! sectors later does not wait. The first part measures fixed offsets on the disk alone. The second part measures the log, which learns the offset from its
//! own writes, for such writers and for a filesystem with a journal. All measurements run on the virtual clock, so the
//! figures are equal on every machine.

mod ext4;

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdVolume, OffsetPolicy};
use forebay_device::{Buf, Device, Durability, RamDevice};
use forebay_disk_model::disk::{DiskOptions, named};
use forebay_disk_model::{Drive, EmulatedDisk, EvenDisk};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};

use crate::load::{noise, users};
use crate::place::{attach_with, create};

/// Bytes of a record: a header of 4 KiB and one block.
const RECORD: u64 = 8192;
const RECORDS: u64 = 2000;
/// Disk models.
const DISKS: [&str; 3] = ["dec_rz26", "barracuda", "atlas10k"];
/// Offsets to try, in KiB.
const GAPS: [u64; 16] = [0, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128];

/// Position of the next write.
#[derive(Clone, Copy)]
enum WritePosition {
    /// This many bytes behind the last write.
    Gap(u64),
    /// A random place on the disk, one block alone: as a disk without a log.
    Anywhere,
}

/// Bytes of each disk.
const DISK: u64 = 900_000_000 / 4096 * 4096;
/// Writes before the measurement, in which the log learns the offset.
const LEARNING: u64 = 500;

/// Prints the results of fixed offsets, and of the log.
pub(crate) fn gap() -> anyhow::Result<()> {
    log()?;
    ext4::ext4()?;
    fixed()
}

/// Prints the mean latency by offset, without and with a user's pause between writes.
fn fixed() -> anyhow::Result<()> {
    for disk in DISKS {
        for think_us in [0, 200, 1000] {
            let think = Duration::from_micros(think_us);
            let plain = mean_ms(disk, WritePosition::Anywhere, think)?;
            let none = mean_ms(disk, WritePosition::Gap(0), think)?;
            for gap in GAPS {
                let ms = mean_ms(disk, WritePosition::Gap(gap << 10), think)?;
                println!(
                    "| {disk}, one writer, {think_us} µs between writes, gap {gap} KiB | {ms:.2} ms \
                     | no gap {none:.2} ms, in place {plain:.2} ms | {:.2}, {:.2} |",
                    none / ms,
                    plain / ms
                );
            }
        }
    }
    Ok(())
}

/// Work of writers that flush.
#[derive(Clone, Copy)]
struct FlushLoad {
    writers: u64,
    think: Duration,
    /// True if each writer writes some blocks without waiting, then flushes, then writes one block with FUA: a
    /// journal's transaction and its commit.
    journal: bool,
}

/// Prints the mean time of a flushed write through the log, with learnt offsets and without offsets.
fn log() -> anyhow::Result<()> {
    let lone = FlushLoad {
        writers: 1,
        think: Duration::ZERO,
        journal: false,
    };
    let paused = |us| FlushLoad {
        think: Duration::from_micros(us),
        ..lone
    };
    let loads = [
        ("one writer".to_owned(), lone),
        ("one writer, 200 µs between writes".into(), paused(200)),
        ("one writer, 1 ms between writes".into(), paused(1000)),
        ("one writer, 30 ms between writes".into(), paused(30_000)),
        ("8 writers".into(), FlushLoad { writers: 8, ..lone }),
        (
            "32 writers".into(),
            FlushLoad {
                writers: 32,
                ..lone
            },
        ),
        (
            "a journal".into(),
            FlushLoad {
                journal: true,
                ..paused(100)
            },
        ),
    ];
    for disk in DISKS.into_iter().chain([FLASH, SLOW]) {
        for (name, load) in &loads {
            let learnt = log_ms(disk, OffsetPolicy::Learnt, *load)?;
            let never = log_ms(disk, OffsetPolicy::Never, *load)?;
            let plain = plain_ms(disk, *load)?;
            println!(
                "| the log on {disk}, {name} | {learnt:.2} ms | no gaps {never:.2} ms, in place \
                 {plain:.2} ms | {:.2}, {:.2} |",
                never / learnt,
                plain / learnt
            );
        }
    }
    Ok(())
}

/// Devices without a rotational position: a fast one, and a slow one.
const FLASH: &str = "a device of 0.1 ms a request";
const SLOW: &str = "a device of 6 ms a request";

fn emulated(rt: &Rt, disk: &str) -> anyhow::Result<Rc<dyn Device>> {
    let data = Rc::new(RamDevice::new(DISK, 512));
    let even = |each| EvenDisk::new(DISK / 512, each);
    Ok(match disk {
        FLASH => Rc::new(EmulatedDisk::new(
            rt,
            data,
            even(Duration::from_micros(100)),
        )?),
        SLOW => Rc::new(EmulatedDisk::new(rt, data, even(Duration::from_millis(6)))?),
        _ => {
            let spec = named(disk).ok_or_else(|| anyhow::anyhow!("no model {disk}"))?;
            Rc::new(EmulatedDisk::new(
                rt,
                data,
                Drive::new(spec, DiskOptions::default()),
            )?)
        }
    })
}

/// Measures a volume with its log on this disk, and a data device that takes no time.
fn log_ms(disk: &'static str, gaps: OffsetPolicy, load: FlushLoad) -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let log = emulated(&rt, disk)?;
        let home: Rc<dyn Device> = Rc::new(RamDevice::new(256 << 20, 512));
        create(Rc::clone(&log), Rc::clone(&home)).await?;
        let options = AttachOptions {
            gaps,
            ..AttachOptions::default()
        };
        let volume: Rc<DcdVolume> = Rc::new(attach_with(rt.clone(), log, home, options).await?);
        let ms = flushing(&rt, Rc::clone(&volume) as Rc<dyn Device>, load).await?;
        volume.close().await?;
        Ok(ms)
    })
}

/// Measures the disk itself.
fn plain_ms(disk: &'static str, load: FlushLoad) -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let disk = emulated(&rt, disk)?;
        flushing(&rt, disk, load).await
    })
}

/// Runs writers at random places. Returns the mean time of a flushed write, with its transaction, in ms.
async fn flushing(rt: &Rt, device: Rc<dyn Device>, load: FlushLoad) -> anyhow::Result<f64> {
    let total = Rc::new(std::cell::Cell::new(Duration::ZERO));
    let each = (RECORDS + LEARNING) / load.writers;
    users(rt, load.writers, |user| {
        let (rt, device, total) = (rt.clone(), Rc::clone(&device), Rc::clone(&total));
        async move {
            let random = Rng::new(user + 1);
            let lines = device.geometry().len / 4096;
            let line = noise(user, 4096);
            for n in 0..each {
                let began = rt.now();
                if load.journal {
                    for _ in 0..4 {
                        let at = random.below(lines) * 4096;
                        device.write(at, line.clone(), Durability::Flush).await?;
                    }
                    device.flush().await?;
                }
                let at = random.below(lines) * 4096;
                device.write(at, line.clone(), Durability::Fua).await?;
                if n >= LEARNING / load.writers {
                    total.set(total.get() + rt.now().since(began));
                }
                rt.sleep(load.think).await;
            }
            Ok::<(), anyhow::Error>(())
        }
    })
    .await?;
    let measured = (each - LEARNING / load.writers) * load.writers;
    Ok(total.get().as_secs_f64() * 1e3 / measured as f64)
}

fn mean_ms(disk: &str, next: WritePosition, think: Duration) -> anyhow::Result<f64> {
    let spec = named(disk).ok_or_else(|| anyhow::anyhow!("no model {disk}"))?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let drive = Drive::new(spec, DiskOptions::default());
        let data = Rc::new(RamDevice::new(DISK, 512));
        let disk = EmulatedDisk::new(&rt, data, drive)?;
        let len = disk.geometry().len;
        let random = Rng::new(1);
        let line = noise(1, RECORD as usize);
        let (mut at, mut total) = (1 << 20, Duration::ZERO);
        for _ in 0..RECORDS {
            let (place, bytes): (u64, Buf) = match next {
                WritePosition::Gap(_) => (at, line.clone()),
                WritePosition::Anywhere => (random.below(len / 4096) * 4096, noise(1, 4096)),
            };
            let began = rt.now();
            disk.write(place, bytes, Durability::Fua).await?;
            total += rt.now().since(began);
            if let WritePosition::Gap(gap) = next {
                at += RECORD + gap;
            }
            rt.sleep(think).await;
        }
        Ok(total.as_secs_f64() * 1e3 / RECORDS as f64)
    })
}
