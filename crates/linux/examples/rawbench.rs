//! Measures a device through this crate: `rawbench [PATH] [SECONDS]`.
//!
//! Without a path it creates a file of 1 GiB in the current directory and removes it afterwards. Data at the path is
//! overwritten. On a shared machine, absolute figures mean little, but the ratios are useful.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, Durability};
use forebay_linux::{DeviceOpenOptions, IoRing, create_file, open, zero_fill};
use forebay_rng::Rng;
use forebay_rt::{Driver, Executor, Instant, Rt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FILE_BYTES: u64 = 1 << 30;
const BLOCK: usize = 4096;

#[derive(Clone, Copy, PartialEq)]
enum RawLoad {
    RandomRead,
    RandomWrite,
    SequentialWrite(usize),
    WriteFlush,
    FuaWrite,
}

impl RawLoad {
    fn bytes(self) -> usize {
        match self {
            RawLoad::SequentialWrite(bytes) => bytes,
            _ => BLOCK,
        }
    }
}

const RUNS: [(&str, RawLoad, usize); 14] = [
    ("random 4 KiB reads, depth 1", RawLoad::RandomRead, 1),
    ("random 4 KiB reads, depth 32", RawLoad::RandomRead, 32),
    ("random 4 KiB reads, depth 128", RawLoad::RandomRead, 128),
    ("random 4 KiB writes, depth 1", RawLoad::RandomWrite, 1),
    ("random 4 KiB writes, depth 32", RawLoad::RandomWrite, 32),
    ("random 4 KiB writes, depth 128", RawLoad::RandomWrite, 128),
    (
        "sequential 128 KiB writes, depth 4",
        RawLoad::SequentialWrite(128 << 10),
        4,
    ),
    (
        "sequential 1 MiB writes, depth 1",
        RawLoad::SequentialWrite(1 << 20),
        1,
    ),
    (
        "sequential 1 MiB writes, depth 4",
        RawLoad::SequentialWrite(1 << 20),
        4,
    ),
    ("write 4 KiB + flush, 1 writer", RawLoad::WriteFlush, 1),
    ("write 4 KiB + flush, 8 writers", RawLoad::WriteFlush, 8),
    ("write 4 KiB + flush, 32 writers", RawLoad::WriteFlush, 32),
    ("FUA write 4 KiB, 1 writer", RawLoad::FuaWrite, 1),
    ("FUA write 4 KiB, 8 writers", RawLoad::FuaWrite, 8),
];

/// State shared by the writers of one run.
struct RawRun {
    device: Rc<dyn Device>,
    load: RawLoad,
    next: Cell<u64>,
    rng: Rng,
    done: Cell<u64>,
    rt: Rt,
    end: Instant,
}

impl RawRun {
    /// Returns the place of the next request: random, or directly after the last request.
    fn place(&self) -> u64 {
        let bytes = self.load.bytes() as u64;
        let places = self.device.geometry().len / bytes;
        let place = match self.load {
            RawLoad::SequentialWrite(_) => self.next.replace(self.next.get() + 1) % places,
            _ => self.rng.below(places),
        };
        place * bytes
    }

    async fn work(&self) -> forebay_device::Result<()> {
        let mut buf = BufMut::zeroed(self.load.bytes());
        let data = {
            let mut data = BufMut::zeroed(self.load.bytes());
            data.fill(0xA5);
            data.freeze()
        };
        // No timer is set, because a timer makes every wait slightly more expensive.
        while self.rt.now() < self.end {
            let at = self.place();
            let write = |durability| self.device.write(at, data.clone(), durability);
            match self.load {
                RawLoad::RandomRead => buf = self.device.read(at, buf).await?,
                RawLoad::RandomWrite | RawLoad::SequentialWrite(_) => {
                    write(Durability::Flush).await?;
                }
                RawLoad::FuaWrite => write(Durability::Fua).await?,
                RawLoad::WriteFlush => {
                    write(Durability::Flush).await?;
                    self.device.flush().await?;
                }
            }
            self.done.set(self.done.get() + 1);
        }
        Ok(())
    }
}

/// Returns the requests per second, and the processor time per request in microseconds.
async fn measure(
    rt: &Rt,
    device: &Rc<dyn Device>,
    load: RawLoad,
    depth: usize,
    span: Duration,
) -> Result<(f64, f64)> {
    let shared = Rc::new(RawRun {
        device: Rc::clone(device),
        load,
        next: Cell::new(0),
        rng: Rng::new(1),
        done: Cell::new(0),
        rt: rt.clone(),
        end: rt.now().plus(span),
    });
    let (begin, cpu) = (rt.now(), cpu_time());
    let workers: Vec<_> = (0..depth)
        .map(|_| {
            let shared = Rc::clone(&shared);
            rt.spawn(async move { shared.work().await })
        })
        .collect();
    for worker in workers {
        worker.await?;
    }
    let (elapsed, cpu) = (rt.now().since(begin), cpu_time() - cpu);
    let done = shared.done.get() as f64;
    Ok((done / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / done))
}

/// Returns the processor time that this process has used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

async fn run(rt: Rt, ring: Rc<IoRing>, path: PathBuf, span: Duration, only: String) -> Result<()> {
    let opened = open(&ring, &path, DeviceOpenOptions::default())?;
    println!("{path:?}: {:?}", opened.device.geometry());
    zero_fill(&*opened.device, |_, _| ()).await?;
    println!(
        "{:36} {:>10} {:>10} {:>9}",
        "", "requests/s", "MiB/s", "CPU µs"
    );
    for (name, load, depth) in RUNS {
        if !name.ends_with(&only) {
            continue;
        }
        let (rate, cpu) = measure(&rt, &opened.device, load, depth, span).await?;
        let mib = rate * load.bytes() as f64 / f64::from(1 << 20);
        println!("{name:36} {rate:10.0} {mib:10.0} {cpu:9.2}");
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let given = arguments.next().map(PathBuf::from);
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |s| s.parse())?;
    let only = arguments.next().unwrap_or_default();
    let path = given.clone().unwrap_or("rawbench.tmp".into());
    if given.is_none() {
        create_file(&path, FILE_BYTES, false)?;
    }
    let ring = IoRing::new(256)?;
    let executor = Executor::new(Rc::clone(&ring) as Rc<dyn Driver>);
    let span = Duration::from_secs_f64(seconds);
    let result = executor.block_on(run(executor.rt(), ring, path.clone(), span, only));
    if given.is_none() {
        std::fs::remove_file(path)?;
    }
    result
}
