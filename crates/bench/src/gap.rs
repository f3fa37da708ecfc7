//! What a gap before each record would gain a log on a disk, for one writer that flushes each write.
//!
//! The next place of a log has just passed under the head when a record is durable, so the next record
//! waits for nearly a whole turn. A record that begins some sectors later, where the head will be, does
//! not. Measured on the virtual clock, so these figures are the same on every machine.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, Device, Durability, RamDevice};
use forebay_model::disk::{Options, named};
use forebay_model::{Drive, Emulated};
use forebay_rng::Rng;
use forebay_rt::{Executor, VirtualTime};

use crate::load::noise;

/// A header of 4 KiB and one line.
const RECORD: u64 = 8192;
const RECORDS: u64 = 2000;
/// The disks, and a track's sectors where the log is, nearly.
const DISKS: [&str; 3] = ["dec_rz26", "barracuda", "atlas10k"];
/// Gaps tried, in KiB.
const GAPS: [u64; 16] = [0, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128];

/// Where the next write goes.
#[derive(Clone, Copy)]
enum Next {
    /// So many bytes behind the last.
    Gap(u64),
    /// Anywhere on the disk, a line alone: what a disk without a log does.
    Anywhere,
}

/// Prints the mean latency by gap, without and with a user's pause between writes.
pub(crate) fn gap() -> anyhow::Result<()> {
    for disk in DISKS {
        for think_us in [0, 200, 1000] {
            let think = Duration::from_micros(think_us);
            let plain = mean_ms(disk, Next::Anywhere, think)?;
            let none = mean_ms(disk, Next::Gap(0), think)?;
            for gap in GAPS {
                let ms = mean_ms(disk, Next::Gap(gap << 10), think)?;
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

fn mean_ms(disk: &str, next: Next, think: Duration) -> anyhow::Result<f64> {
    let spec = named(disk).ok_or_else(|| anyhow::anyhow!("no model {disk}"))?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let drive = Drive::new(spec, Options::default());
        let data = Rc::new(RamDevice::new(900_000_000 / 4096 * 4096, 512));
        let disk = Emulated::new(&rt, data, drive)?;
        let len = disk.geometry().len;
        let random = Rng::new(1);
        let line = noise(1, RECORD as usize);
        let (mut at, mut total) = (1 << 20, Duration::ZERO);
        for _ in 0..RECORDS {
            let (place, bytes): (u64, Buf) = match next {
                Next::Gap(_) => (at, line.clone()),
                Next::Anywhere => (random.below(len / 4096) * 4096, noise(1, 4096)),
            };
            let began = rt.now();
            disk.write(place, bytes, Durability::Fua).await?;
            total += rt.now().since(began);
            if let Next::Gap(gap) = next {
                at += RECORD + gap;
            }
            rt.sleep(think).await;
        }
        Ok(total.as_secs_f64() * 1e3 / RECORDS as f64)
    })
}
