//! Cost of a request while few or many others wait: for a lock, for free space in a full log, for a flush.
//!
//! Devices are in memory and the clock is virtual, so all of the time is processor time.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Instant;

use forebay_dcd::DcdVolume;
use forebay_device::{Device, Durability, RamDevice};
use forebay_rng::Rng;
use forebay_rt::{Executor, RangeLock, Rt, VirtualTime};

use crate::cases::median;
use crate::load::{self, noise};
use crate::place::{attach, create};

/// Numbers of waiting requests in the two compared runs.
const FEW: u64 = 32;
const MANY: u64 = 4096;
/// Requests in a run.
const REQUESTS: u64 = 400_000;

/// Prints a row for each reason to wait.
pub(crate) fn waiters(rounds: usize) -> anyhow::Result<()> {
    row("a turn at one place", rounds, |n| turns(n, |_, _| 0..1))?;
    row("a turn at ranges that overlap", rounds, |n| {
        turns(n, |random, n| {
            let at = random.below(n);
            at..at + 1 + random.below(8)
        })
    })?;
    row("a 4 KiB write to a full log", rounds, |n| writes(n, false))?;
    row("a 4 KiB write and a flush", rounds, |n| writes(n, true))
}

fn row(
    name: &str,
    rounds: usize,
    measure: impl Fn(u64) -> anyhow::Result<f64>,
) -> anyhow::Result<()> {
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        few.push(measure(FEW)?);
        many.push(measure(MANY)?);
    }
    let ratios = many.iter().zip(&few).map(|(a, b)| a / b).collect();
    println!(
        "| {name}, {MANY} who wait | {:.2} µs | {:.2} µs ({FEW} who wait) | {:.2} |",
        median(many),
        median(few),
        median(ratios)
    );
    Ok(())
}

/// Runs `users` tasks with `REQUESTS` requests in total. Returns the microseconds of each request.
async fn share<F>(
    rt: &Rt,
    users: u64,
    user: impl Fn(u64, Rc<Cell<u64>>) -> F,
) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    let left = Rc::new(Cell::new(REQUESTS));
    let began = Instant::now();
    load::users(rt, users, |n| user(n, Rc::clone(&left))).await?;
    Ok(began.elapsed().as_secs_f64() * 1e6 / REQUESTS as f64)
}

fn goes_on(left: &Cell<u64>) -> bool {
    left.set(left.get().saturating_sub(1));
    left.get() > 0
}

/// Locks the range that `choose` returns, each time for one round of the executor.
fn turns(
    users: u64,
    choose: impl Fn(&Rng, u64) -> std::ops::Range<u64> + Copy + 'static,
) -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let lock = Rc::new(RangeLock::new());
        share(&rt, users, |n, left| {
            let (rt, lock) = (rt.clone(), Rc::clone(&lock));
            let random = Rng::new(n + 1);
            async move {
                while goes_on(&left) {
                    let _turn = lock.lock(choose(&random, users)).await;
                    rt.yield_now().await;
                }
                Ok(())
            }
        })
        .await
    })
}

/// Writes blocks at random places, with or without a flush after each.
fn writes(users: u64, flush: bool) -> anyhow::Result<f64> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let log: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 20, 512));
        let data: Rc<dyn Device> = Rc::new(RamDevice::new(256 << 20, 512));
        create(Rc::clone(&log), Rc::clone(&data)).await?;
        let volume = attach(rt.clone(), log, data).await?;
        let each = share(&rt, users, |n, left| {
            let (volume, random) = (volume.clone(), Rng::new(n + 1));
            let line = noise(n, 4096);
            async move {
                while goes_on(&left) {
                    write(&volume, random.below(65536) * 4096, line.clone(), flush).await?;
                }
                Ok(())
            }
        });
        let each = each.await?;
        volume.close().await?;
        Ok(each)
    })
}

async fn write(
    volume: &DcdVolume,
    at: u64,
    line: forebay_device::Buf,
    flush: bool,
) -> anyhow::Result<()> {
    volume.write(at, line, Durability::Flush).await?;
    if flush {
        volume.flush().await?;
    }
    Ok(())
}
