//! Loads on a device: rate of requests, and their costs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rng::Rng;
use forebay_rt::{Instant, Rt};
use hdrhistogram::Histogram;

/// Operation that each user of a load repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadKind {
    RandomWrite,
    RandomRead,
    SequentialWrite,
    SequentialRead,
}

/// A load.
#[derive(Clone, Copy)]
pub(crate) struct DeviceLoad {
    pub(crate) kind: LoadKind,
    /// Bytes of a request.
    pub(crate) size: u64,
    /// Concurrent requests.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// Maximum number of requests.
    pub(crate) most: u64,
    /// Requests between two flushes, while the other users continue; `None` for no flushes.
    pub(crate) flush_each: Option<u64>,
}

/// Results of a load.
#[derive(Clone, Debug)]
pub(crate) struct LoadOutcome {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Processor time of a request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Requests in each whole second.
    pub(crate) by_second: Vec<u64>,
    /// Latency of requests, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

/// Returns data that does not compress and differs between buffers.
pub(crate) fn noise(seed: u64, len: usize) -> Buf {
    let mut buf = BufMut::zeroed(len);
    Rng::new(seed).fill(&mut buf);
    buf.freeze()
}

/// Returns the processor time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    // The load, the engine and the ring use one thread.
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0);
    Duration::from_nanos(ns)
}

/// Runs `n` concurrent users, each as a task, to their ends.
pub(crate) async fn users<F, E>(rt: &Rt, n: u64, user: impl Fn(u64) -> F) -> Result<(), E>
where
    F: Future<Output = Result<(), E>> + 'static,
    E: 'static,
{
    let tasks: Vec<_> = (0..n).map(|n| rt.spawn(user(n))).collect();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// Runs a load on a device.
pub(crate) async fn run(
    rt: &Rt,
    device: Rc<dyn Device>,
    load: DeviceLoad,
) -> forebay_device::Result<LoadOutcome> {
    let (began, cpu) = (rt.now(), cpu_time());
    let running = Rc::new(RunningLoad {
        rt: rt.clone(),
        device,
        load,
        began,
        end: began.plus(Duration::from_secs_f64(load.seconds)),
        next: Cell::new(0),
        by_second: RefCell::default(),
        latency: RefCell::new(histogram()),
    });
    users(rt, load.depth as u64, |user| {
        let running = Rc::clone(&running);
        async move { running.user(user).await }
    })
    .await?;
    let elapsed = rt.now().since(began).as_secs_f64();
    let by_second = running.by_second.take();
    let latency = running.latency.borrow().clone();
    let count = by_second.iter().sum::<u64>().max(1) as f64;
    Ok(LoadOutcome {
        rate: count / elapsed,
        cpu_us: (cpu_time() - cpu).as_secs_f64() * 1e6 / count,
        by_second,
        latency,
    })
}

/// Creates a histogram for times of up to a minute, in nanoseconds. Longer times are recorded as a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds and digits are in order")
}

/// A running load.
struct RunningLoad {
    rt: Rt,
    device: Rc<dyn Device>,
    load: DeviceLoad,
    began: Instant,
    end: Instant,
    /// Number of the next request.
    next: Cell<u64>,
    /// Completed requests, by the second in which they began.
    by_second: RefCell<Vec<u64>>,
    latency: RefCell<Histogram<u64>>,
}

impl RunningLoad {
    /// Makes request after request until the load is over.
    async fn user(&self, user: u64) -> forebay_device::Result<()> {
        let random = Rng::new(user + 1 + self.rt.now().as_nanos());
        let data = noise(user + 1, self.load.size as usize);
        let blocks = self.device.geometry().len / self.load.size;
        let mut memory = BufMut::zeroed(self.load.size as usize);
        let mut before = None;
        loop {
            let now = self.rt.now();
            if let Some(before) = before.replace(now) {
                let took = now.since(before).as_nanos() as u64;
                self.latency.borrow_mut().saturating_record(took);
            }
            if now >= self.end || self.next.get() >= self.load.most {
                return Ok(());
            }
            let n = self.next.replace(self.next.get() + 1);
            let block = match self.load.kind {
                LoadKind::SequentialWrite | LoadKind::SequentialRead => n % blocks,
                _ => random.below(blocks),
            };
            let at = block * self.load.size;
            match self.load.kind {
                LoadKind::RandomRead | LoadKind::SequentialRead => {
                    memory = self.device.read(at, memory).await?;
                }
                _ => {
                    let data = data.clone();
                    self.device.write(at, data, Durability::Flush).await?;
                }
            }
            if self
                .load
                .flush_each
                .is_some_and(|each| (n + 1).is_multiple_of(each))
            {
                self.device.flush().await?;
            }
            self.count(now);
        }
    }

    /// Records a request that began at `then`.
    fn count(&self, then: Instant) {
        let second = then.since(self.began).as_secs() as usize;
        let mut by_second = self.by_second.borrow_mut();
        if by_second.len() <= second {
            by_second.resize(second + 1, 0);
        }
        by_second[second] += 1;
    }
}
