//! Time of `fsync` of small files on ext4 with its journal: on a disk, and behind a log on a disk.
//!
//! The requests are those that ext4 made for a new file of 4 KiB and an `fsync` of the file and its directory, by the
//! counters of its block device (Linux 6.18; 3 writes and 2 flushes each time): the data; behind the data a journal's
//! descriptor and six blocks; a flush; the commit block, durable. The later bulk writes in place are omitted on all
//! disks alike. One user, on the virtual clock.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, OffsetPolicy};
use forebay_device::{Device, DeviceSlice, Durability, RamDevice};
use forebay_disk_model::disk::{DiskOptions, Scheduling, named};
use forebay_disk_model::{Drive, EmulatedDisk};
use forebay_rt::{Executor, Rt, VirtualTime};

use super::DISKS;
use crate::load::noise;
use crate::place::{attach_with, create};

/// Bytes of the log and of the filesystem, as in `forebay try`.
const LOG: u64 = 64 << 20;
const HOME: u64 = 320 << 20;
/// Place of the journal in the filesystem, and its length, in bytes.
const JOURNAL_AT: u64 = 112 << 20;
const JOURNAL: u64 = 8 << 20;
/// Blocks of a transaction before its commit.
const BLOCKS: u64 = 7;
/// Numbers of files to write, including those for learning: one number whose data fits into the log, and one with which
/// the log is full most of the time.
const FILES: [u64; 2] = [1000, 5000];

#[derive(Clone, Copy, PartialEq)]
enum Ext4Shape {
    Plain,
    /// The log is the first part of the disk.
    Logical,
    /// The log is a separate disk.
    Physical,
}

/// Prints the mean time of an `fsync` by disk, by block size of the filesystem and by cache shape.
pub(super) fn ext4() -> anyhow::Result<()> {
    for disk in DISKS {
        for (block, n) in [1024, 4096].into_iter().flat_map(|b| FILES.map(|n| (b, n))) {
            let ms = |shape, gaps| mean_ms(disk, block, n, shape, gaps);
            let plain = ms(Ext4Shape::Plain, OffsetPolicy::Never)?;
            for (name, shape) in [
                ("logical", Ext4Shape::Logical),
                ("physical", Ext4Shape::Physical),
            ] {
                let learnt = ms(shape, OffsetPolicy::Learnt)?;
                let never = ms(shape, OffsetPolicy::Never)?;
                println!(
                    "| fsync on ext4 with blocks of {block}, {n} files, {name} DCD on {disk} | {learnt:.2} ms \
                     | no gaps {never:.2} ms, plain disk {plain:.2} ms | {:.2}, {:.2} |",
                    never / learnt,
                    plain / learnt
                );
            }
        }
    }
    Ok(())
}

fn drive(rt: &Rt, disk: &str, len: u64) -> anyhow::Result<Rc<dyn Device>> {
    let spec = named(disk).ok_or_else(|| anyhow::anyhow!("no model {disk}"))?;
    let options = DiskOptions {
        scheduling: Scheduling::Elevator,
        ..DiskOptions::default()
    };
    let data = Rc::new(RamDevice::new(len, 512));
    Ok(Rc::new(EmulatedDisk::new(
        rt,
        data,
        Drive::new(spec, options),
    )?))
}

fn part(disk: &Rc<dyn Device>, start: u64, len: u64) -> anyhow::Result<Rc<dyn Device>> {
    let slice = DeviceSlice::new(Rc::clone(disk), start, len);
    Ok(Rc::new(
        slice.ok_or_else(|| anyhow::anyhow!("no such part"))?,
    ))
}

/// Returns the mean for `n` files of a filesystem with blocks of this size, in bytes.
fn mean_ms(
    disk: &'static str,
    block: u64,
    n: u64,
    shape: Ext4Shape,
    gaps: OffsetPolicy,
) -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let (log, home) = match shape {
            Ext4Shape::Plain => return files(&rt, &*drive(&rt, disk, HOME)?, block, n).await,
            Ext4Shape::Logical => {
                let both = drive(&rt, disk, LOG + HOME)?;
                (part(&both, 0, LOG)?, part(&both, LOG, HOME)?)
            }
            Ext4Shape::Physical => (drive(&rt, disk, LOG)?, drive(&rt, disk, HOME)?),
        };
        create(Rc::clone(&log), Rc::clone(&home)).await?;
        let options = AttachOptions {
            gaps,
            ..AttachOptions::default()
        };
        let volume = attach_with(rt.clone(), log, home, options).await?;
        let ms = files(&rt, &volume, block, n).await?;
        volume.close().await?;
        Ok(ms)
    })
}

/// Writes files one after the other. Returns the mean time until a file is durable, in milliseconds.
async fn files(rt: &Rt, device: &dyn Device, block: u64, n: u64) -> anyhow::Result<f64> {
    let began = rt.now();
    let bytes = noise(1, (BLOCKS * block) as usize);
    let mut head = 0;
    for file in 0..n {
        device
            .write(file * 4096, bytes.slice(0..4096), Durability::Flush)
            .await?;
        // A transaction does not wrap around to the journal's start.
        if head + (BLOCKS + 1) * block > JOURNAL {
            head = 0;
        }
        let at = JOURNAL_AT + head;
        device.write(at, bytes.clone(), Durability::Flush).await?;
        device.flush().await?;
        let commit = bytes.slice(0..block as usize);
        device
            .write(at + BLOCKS * block, commit, Durability::Fua)
            .await?;
        head += (BLOCKS + 1) * block;
        // Processor time of the programs and of the filesystem.
        rt.sleep(Duration::from_micros(100)).await;
    }
    Ok(rt.now().since(began).as_secs_f64() * 1e3 / n as f64)
}
