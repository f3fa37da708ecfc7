//! The speed of a disk model.

use std::time::{Duration, Instant as Clock};

use anyhow::Result;
use forebay_disk_model::disk::{
    DiskCompletion, DiskOp, DiskOptions, DiskSpec, EnabledCaches, MechanicalDisk, Scheduling,
};
use forebay_rng::Rng;
use forebay_rt::Instant;

/// Arguments of `speed`.
#[derive(clap::Args)]
pub(crate) struct SpeedArgs {
    /// A model's name, or a file with a drive's table
    #[arg(default_value = "barracuda")]
    model: String,
    /// Simulate this number of requests in each run
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
}

pub(crate) fn run(args: &SpeedArgs) -> Result<()> {
    let spec = crate::models::demerit::find(&args.model)?;
    println!(
        "{:>10} {:>6} {:>8} {:>12} {:>14}",
        "caches", "depth", "queue", "requests/s", "ms each"
    );
    for caches in [EnabledCaches::Off, EnabledCaches::Own] {
        for (depth, scheduling) in [
            (1, Scheduling::Fcfs),
            (32, Scheduling::Fcfs),
            (32, Scheduling::Elevator),
            (32, Scheduling::Sptf),
        ] {
            let options = DiskOptions {
                caches,
                scheduling,
                ..DiskOptions::default()
            };
            row(&spec, options, depth, args.requests);
        }
    }
    Ok(())
}

/// Executes one run and prints its result.
fn row(spec: &DiskSpec, options: DiskOptions, depth: u64, requests: u64) {
    let began = ThreadCpuTimer::now();
    let end = simulate(spec, options, depth, requests);
    let seconds = began.elapsed().as_secs_f64();
    let caches = options.caches;
    println!(
        "{:>10} {depth:>6} {:>8} {:>12.0} {:>14.3}",
        if caches == EnabledCaches::Off {
            "off"
        } else {
            "own"
        },
        format!("{:?}", options.scheduling).to_lowercase(),
        requests as f64 / seconds,
        end as f64 / 1e6 / requests as f64,
    );
}

/// The processor time of this thread, so that the result does not depend on other programs. If the kernel does not
/// report this time, the wall-clock time.
struct ThreadCpuTimer {
    wall: Clock,
    processor: Option<Duration>,
}

impl ThreadCpuTimer {
    fn now() -> ThreadCpuTimer {
        ThreadCpuTimer {
            wall: Clock::now(),
            processor: processor_time(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (self.processor, processor_time()) {
            (Some(then), Some(now)) if now > then => now - then,
            _ => self.wall.elapsed(),
        }
    }
}

fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// Simulates random requests of 4 KiB, three reads to a write, `depth` at a time. Returns their virtual time in
/// nanoseconds.
fn simulate(spec: &DiskSpec, options: DiskOptions, depth: u64, requests: u64) -> u64 {
    let mut disk = MechanicalDisk::new(spec.clone(), options);
    let mut done: Vec<DiskCompletion> = Vec::new();
    let rng = Rng::new(88_172_645_463_325_252);
    let mut now = Instant::from_nanos(0);
    let (mut submitted, mut completed) = (0, 0);
    while completed < requests {
        while submitted < requests && submitted - completed < depth {
            let first = rng.below(disk.blocks() - 8);
            let op = if rng.one_in(4) {
                DiskOp::Write
            } else {
                DiskOp::Read
            };
            disk.submit(now, submitted, op, first, 8);
            submitted += 1;
        }
        now = disk.next_event().expect("requests are under way");
        disk.advance(now, &mut done);
        completed += done.len() as u64;
        done.clear();
    }
    now.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_completes_every_request_and_is_deterministic() {
        let spec = crate::models::demerit::find("barracuda").expect("a known name");
        for depth in [1, 7] {
            let options = DiskOptions {
                caches: EnabledCaches::Own,
                scheduling: Scheduling::Sptf,
                ..DiskOptions::default()
            };
            let end = simulate(&spec, options, depth, 500);
            assert!(end > 0);
            assert_eq!(end, simulate(&spec, options, depth, 500));
        }
    }
}
