//! The cases, one for each bar.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use forebay_dcd::DcdVolume;
use forebay_device::Device;
use forebay_units::ByteLen;

use crate::load::{DeviceLoad, LoadKind, LoadOutcome, run};
use crate::place::{ScratchFiles, attach, create, on_ring, open};

/// Settings of all cases.
pub(crate) struct BenchContext {
    pub(crate) dir: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
}

pub(crate) const SMALL: u64 = 4096;
pub(crate) const LARGE: u64 = 1 << 20;

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a row: both rates and the median of the ratios, round by round.
pub(crate) fn row(name: &str, ours: &[f64], theirs: &[f64], other: &str) {
    let ratios = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    let (a, b) = (median(ours.to_vec()), median(theirs.to_vec()));
    println!(
        "| {name} | {a:.0} /s | {b:.0} /s ({other}) | {:.2} |",
        median(ratios)
    );
}

impl BenchContext {
    pub(crate) fn load(&self, kind: LoadKind, size: u64, depth: usize) -> DeviceLoad {
        DeviceLoad {
            kind,
            size,
            depth,
            seconds: self.seconds,
            most: u64::MAX,
            flush_each: None,
        }
    }

    /// Creates files for a log and for data. They exist until the first of the three values is dropped.
    pub(crate) fn files(
        &self,
        log: ByteLen,
        data: ByteLen,
        sparse: bool,
    ) -> anyhow::Result<(ScratchFiles, PathBuf, PathBuf)> {
        let mut scratch = ScratchFiles::new();
        let log = scratch.file(&self.dir, "log", log, sparse)?;
        let data = scratch.file(&self.dir, "data", data, sparse)?;
        Ok((scratch, log, data))
    }

    /// Runs one load on a plain file.
    pub(crate) fn raw(&self, path: &Path, load: DeviceLoad) -> anyhow::Result<LoadOutcome> {
        let path = path.to_owned();
        on_ring(move |rt, ring| async move {
            let device = open(&ring, &path)?;
            Ok(run(&rt, device, load).await?)
        })
    }

    /// Runs one load on a volume with a fresh log.
    fn cached(&self, log: &Path, data: &Path, load: DeviceLoad) -> anyhow::Result<LoadOutcome> {
        let (log, data) = (log.to_owned(), data.to_owned());
        on_ring(move |rt, ring| async move {
            let (log, data) = (open(&ring, &log)?, open(&ring, &data)?);
            create(Rc::clone(&log), Rc::clone(&data)).await?;
            let volume = attach(rt.clone(), log, data).await?;
            let outcome = run(&rt, Rc::new(volume.clone()), load).await?;
            volume.close().await?;
            Ok(outcome)
        })
    }

    pub(crate) fn writes(&self) -> anyhow::Result<()> {
        let (_scratch, log, data) = self.files(ByteLen::gib(4), ByteLen::gib(1), false)?;
        let (mut ours, mut sequential, mut random, mut cpu) = (vec![], vec![], vec![], vec![]);
        let small = self.load(LoadKind::RandomWrite, SMALL, 32);
        // The log must not fill so far that destaging slows down writers.
        let most = (ByteLen::gib(4).0 as f64 * 0.65) as u64 / SMALL;
        let load = DeviceLoad { most, ..small };
        for _ in 0..self.rounds {
            let outcome = self.cached(&log, &data, load)?;
            ours.push(outcome.rate);
            cpu.push(outcome.cpu_us);
            let large = self.raw(&log, self.load(LoadKind::SequentialWrite, LARGE, 4))?;
            sequential.push(large.rate * (LARGE / SMALL) as f64);
            random.push(self.raw(&data, small)?.rate);
        }
        let name = "random 4 KiB writes, depth 32";
        let large = "sequential 1 MiB writes as 4 KiB";
        row(name, &ours, &sequential, large);
        row(name, &ours, &random, "raw random 4 KiB writes");
        println!(
            "| processor time a write | {:.2} µs | 2.5 µs | |",
            median(cpu)
        );
        Ok(())
    }

    pub(crate) fn sync(&self) -> anyhow::Result<()> {
        let (_scratch, log, data) = self.files(ByteLen::gib(2), ByteLen::gib(1), false)?;
        for writers in [32, 1] {
            let (mut ours, mut raw) = (vec![], vec![]);
            for _ in 0..self.rounds {
                let load = DeviceLoad {
                    flush_each: Some(1),
                    ..self.load(LoadKind::RandomWrite, SMALL, writers)
                };
                ours.push(self.cached(&log, &data, load)?.rate);
                raw.push(self.raw(&data, load)?.rate);
            }
            let name = format!("write + flush, {writers} writers");
            row(&name, &ours, &raw, "raw write + flush");
        }
        Ok(())
    }

    pub(crate) fn misses(&self) -> anyhow::Result<()> {
        let (_scratch, log, data) = self.files(ByteLen::mib(256), ByteLen::gib(2), false)?;
        for depth in [1, 32] {
            let (mut ours, mut raw) = (vec![], vec![]);
            for _ in 0..self.rounds {
                let load = self.load(LoadKind::RandomRead, SMALL, depth);
                ours.push(self.cached(&log, &data, load)?.rate);
                raw.push(self.raw(&data, load)?.rate);
            }
            let name = format!("reads that miss, depth {depth}");
            row(&name, &ours, &raw, "raw reads");
        }
        Ok(())
    }

    pub(crate) fn full(&self) -> anyhow::Result<()> {
        let (_scratch, log, data) = self.files(ByteLen::mib(512), ByteLen::gib(4), false)?;
        let short = self.load(LoadKind::RandomWrite, SMALL, 32);
        let seconds = self.seconds * 30.0;
        let before = self.raw(&data, short)?.rate;
        let outcome = self.cached(&log, &data, DeviceLoad { seconds, ..short })?;
        let after = self.raw(&data, short)?.rate;
        // The first seconds fill the log; the last second is incomplete.
        let whole = &outcome.by_second[..outcome.by_second.len().saturating_sub(1)];
        let full: Vec<f64> = whole.iter().skip(3).map(|n| *n as f64).collect();
        let worst = full.iter().copied().fold(f64::INFINITY, f64::min);
        let (middle, raw) = ([median(full)], [f64::midpoint(before, after)]);
        row(
            "full log, median second",
            &middle,
            &raw,
            "raw random writes",
        );
        row(
            "full log, worst second",
            &[worst],
            &middle,
            "its median second",
        );
        eprintln!("by second: {:?}", outcome.by_second);
        Ok(())
    }

    pub(crate) fn recovery(&self) -> anyhow::Result<()> {
        let (_scratch, log, data) = self.files(ByteLen::gib(16), ByteLen::gib(64), true)?;
        map_memory(&log, &data)?;
        let (mut times, mut share) = (vec![], 0.0);
        for _ in 0..self.rounds {
            let (seconds, bytes) = recover(&log, &data)?;
            times.push(seconds);
            share = bytes as f64 / ByteLen::gib(16).0 as f64 * 100.0;
        }
        println!(
            "| recovery of a full 16 GiB log | {:.2} s, reading {share:.2} % | 1 s, 0.5 % | |",
            median(times)
        );
        Ok(())
    }
}

/// Fills a fresh log, stops as a kill does, and prints the memory of the map.
fn map_memory(log: &Path, data: &Path) -> anyhow::Result<()> {
    let before = resident();
    let (log, data) = (log.to_owned(), data.to_owned());
    let (map_bytes, dirty, grown) = on_ring(move |rt, ring| async move {
        let (log, data) = (open(&ring, &log)?, open(&ring, &data)?);
        create(Rc::clone(&log), Rc::clone(&data)).await?;
        let volume = attach(rt.clone(), log, data).await?;
        fill(&rt, &volume).await?;
        let status = volume.status();
        let grown = resident().saturating_sub(before);
        // The volume is dropped without a close, as a kill does.
        Ok((status.map_bytes, status.dirty_bytes, grown))
    })?;
    let gib = dirty as f64 / (1u64 << 30) as f64;
    let per_gib = map_bytes as f64 / gib / f64::from(1 << 20);
    println!(
        "| map memory | {per_gib:.2} MiB/GiB ({gib:.1} GiB cached; process grew by {grown} MiB) | 6 MiB/GiB | |"
    );
    Ok(())
}

/// Recovers a volume. Returns the seconds and the bytes read.
fn recover(log: &Path, data: &Path) -> anyhow::Result<(f64, u64)> {
    let (log, data) = (log.to_owned(), data.to_owned());
    on_ring(move |rt, ring| async move {
        let (log, data) = (open(&ring, &log)?, open(&ring, &data)?);
        let began = Instant::now();
        let identity = forebay_dcd::DataIdentity::default();
        let options = forebay_dcd::AttachOptions::default();
        let (_volume, report) = DcdVolume::attach(rt, log, data, identity, options).await?;
        Ok((began.elapsed().as_secs_f64(), report.bytes_read))
    })
}

/// Fills the log with random 4 KiB writes to just below the point at which writers wait.
async fn fill(rt: &forebay_rt::Rt, volume: &DcdVolume) -> anyhow::Result<()> {
    let status = volume.status();
    let most = (status.log_bytes as f64 * 0.69) as u64 / SMALL;
    let load = DeviceLoad {
        kind: LoadKind::RandomWrite,
        size: SMALL,
        depth: 32,
        seconds: 600.0,
        most,
        flush_each: None,
    };
    let device: Rc<dyn Device> = Rc::new(volume.clone());
    run(rt, Rc::clone(&device), load).await?;
    device.flush().await?;
    Ok(())
}

/// Returns the memory of this process, in MiB.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    (pages * 4096) >> 20
}
