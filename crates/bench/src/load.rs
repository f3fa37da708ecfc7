//! Loads on a device: how many requests it serves in a time, and what they cost.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rng::Rng;
use forebay_rt::Rt;

/// What each user of a load does, over and over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RandomWrite,
    RandomRead,
    SequentialWrite,
    WriteAndFlush,
}

/// A load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    /// Bytes a request.
    pub(crate) size: u64,
    /// Requests under way at once.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// Stop after this many requests.
    pub(crate) most: u64,
}

/// What a load came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Processor time a request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Requests in each whole second.
    pub(crate) by_second: Vec<u64>,
}

/// Data that does not compress and differs by buffer.
pub(crate) fn noise(seed: u64, len: usize) -> Buf {
    let mut buf = BufMut::zeroed(len);
    Rng::new(seed).fill(&mut buf);
    buf.freeze()
}

/// Processor time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    // The load, the engine and the ring are one thread.
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0);
    Duration::from_nanos(ns)
}

/// Puts a load on a device.
pub(crate) async fn run(
    rt: &Rt,
    device: Rc<dyn Device>,
    load: Load,
) -> forebay_device::Result<Outcome> {
    let (began, cpu) = (rt.now(), cpu_time());
    let end = began.plus(Duration::from_secs_f64(load.seconds));
    let done = Rc::new(Cell::new(0u64));
    let next = Rc::new(Cell::new(0u64));
    let seconds = Rc::new(std::cell::RefCell::new(Vec::new()));
    let users: Vec<_> = (0..load.depth)
        .map(|user| {
            let (rt, device) = (rt.clone(), Rc::clone(&device));
            let (done, next, seconds) = (Rc::clone(&done), Rc::clone(&next), Rc::clone(&seconds));
            rt.clone().spawn(async move {
                let random = Rng::new(user as u64 + 1 + rt.now().as_nanos());
                let data = noise(user as u64 + 1, load.size as usize);
                let blocks = device.geometry().len / load.size;
                let mut memory = Some(BufMut::zeroed(load.size as usize));
                loop {
                    let now = rt.now();
                    if now >= end || next.get() >= load.most {
                        return Ok::<(), forebay_device::DeviceError>(());
                    }
                    let n = next.replace(next.get() + 1);
                    let block = if load.kind == Kind::SequentialWrite {
                        n % blocks
                    } else {
                        random.below(blocks)
                    };
                    let at = block * load.size;
                    match load.kind {
                        Kind::RandomRead => {
                            let buf = memory.take().expect("given back");
                            memory = Some(device.read(at, buf).await?);
                        }
                        _ => device.write(at, data.clone(), Durability::Flush).await?,
                    }
                    if load.kind == Kind::WriteAndFlush {
                        device.flush().await?;
                    }
                    done.set(done.get() + 1);
                    let second = now.since(began).as_secs() as usize;
                    let mut seconds = seconds.borrow_mut();
                    if seconds.len() <= second {
                        seconds.resize(second + 1, 0);
                    }
                    seconds[second] += 1;
                }
            })
        })
        .collect();
    for user in users {
        user.await?;
    }
    let elapsed = rt.now().since(began).as_secs_f64();
    let count = done.get().max(1) as f64;
    Ok(Outcome {
        rate: count / elapsed,
        cpu_us: (cpu_time() - cpu).as_secs_f64() * 1e6 / count,
        by_second: Rc::unwrap_or_clone(seconds).into_inner(),
    })
}
