//! A log-structured volume beside its disk.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use forebay_device::Device;
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_vsl::{
    DiskParameters, PlacementKind as Placing, SegmentLayout, Space, SpaceDevice, SpaceSettings,
    SpaceSpec, SpaceWorkers,
};

use crate::cases::{BenchContext, LARGE, SMALL, median, resident, row};
use crate::load::{DeviceLoad, LoadKind, LoadOutcome, run};
use crate::place::{fresh_id, on_ring, open};

/// Bytes of sequential writes between flushes of the device.
const FLUSHED_AFTER: u64 = 8 << 20;

/// Settings of a volume for one measurement.
#[derive(Clone, Copy)]
struct MeasuredVolume {
    placement: Placing,
    /// Share of the mappable space that the volume has as its size.
    part: f64,
}

/// Result of a load, and its cost on the device.
struct SpaceOutcome {
    outcome: LoadOutcome,
    stats: forebay_vsl::SpaceStats,
}

/// Creates a volume and opens it.
async fn fresh(
    rt: &Rt,
    device: Rc<dyn Device>,
    made: MeasuredVolume,
) -> anyhow::Result<(Space, SpaceWorkers)> {
    let layout = SegmentLayout::for_device(&device.geometry(), None)?;
    let segments = u64::from(layout.segment_bytes) * u64::from(layout.segment_count);
    let making = SpaceSpec {
        volume: fresh_id(),
        layout,
        space_sectors: (segments as f64 * made.part) as u64 / LARGE * (LARGE / 512),
        placement: made.placement,
        auto: false,
        page_sectors: 16,
        // Approximately the values that `create` measures on a disk without an arm.
        disk: Some(DiskParameters {
            positioning: 100e-6,
            bandwidth: 2e9,
            arms: 1.0,
        }),
    };
    forebay_vsl::create(rt.clone(), Rc::clone(&device), &making).await?;
    let opened = forebay_vsl::open(rt.clone(), device, SpaceSettings::default(), false).await?;
    Ok((opened.0, opened.1))
}

/// Fills a fresh volume sequentially on request, and runs loads on it. Returns the result of the last load.
fn on_volume(
    path: &Path,
    made: MeasuredVolume,
    loads: Vec<DeviceLoad>,
) -> anyhow::Result<SpaceOutcome> {
    let path = path.to_owned();
    on_ring(move |rt, ring| async move {
        let (space, _workers) = fresh(&rt, open(&ring, &path)?, made).await?;
        let device: Rc<dyn Device> = Rc::new(SpaceDevice::new(space.clone()));
        let mut done = None;
        for load in loads {
            let before = space.stats();
            let outcome = run(&rt, Rc::clone(&device), load).await?;
            let mut stats = space.stats();
            stats.bytes_written -= before.bytes_written;
            stats.bytes_moved -= before.bytes_moved;
            stats.bytes_checkpoints -= before.bytes_checkpoints;
            done = Some(SpaceOutcome { outcome, stats });
        }
        device.flush().await?;
        done.ok_or_else(|| anyhow::anyhow!("no load"))
    })
}

impl BenchContext {
    /// Returns a load of a kind with this number of bytes in total.
    fn all_of(&self, kind: LoadKind, size: u64, depth: usize, bytes: u64) -> DeviceLoad {
        DeviceLoad {
            most: bytes / size,
            seconds: 600.0,
            ..self.load(kind, size, depth)
        }
    }

    pub(crate) fn space(&self) -> anyhow::Result<()> {
        let (_scratch, path, raw) = self.files(ByteLen::gib(4), ByteLen::gib(2), false)?;
        self.fresh_space(&path, &raw)?;
        self.space_reads(&path, &raw)?;
        self.steady_space(&path, &raw)?;
        space_memory(&path)
    }

    fn fresh_space(&self, path: &Path, raw: &Path) -> anyhow::Result<()> {
        let made = MeasuredVolume {
            placement: Placing::Lfs,
            part: 0.8,
        };
        let small = self.load(LoadKind::RandomWrite, SMALL, 32);
        let load = DeviceLoad {
            // This amount fits without cleaning.
            most: ByteLen::gib(3).0 / SMALL,
            ..small
        };
        let large = self.load(LoadKind::SequentialWrite, LARGE, 4);
        // The device is flushed as often as the volume flushes, since the volume keeps data in memory until the data is
        // durable.
        let flushed = DeviceLoad {
            flush_each: Some(FLUSHED_AFTER / LARGE),
            ..large
        };
        let (mut ours, mut cpu) = (vec![], vec![]);
        let (mut unflushed, mut durable) = (vec![], vec![]);
        for _ in 0..self.rounds {
            let done = on_volume(path, made, vec![load])?;
            ours.push(done.outcome.rate);
            cpu.push(done.outcome.cpu_us);
            for (load, rates) in [(large, &mut unflushed), (flushed, &mut durable)] {
                let rate = self.raw(raw, load)?.rate;
                rates.push(rate * (LARGE / SMALL) as f64);
            }
        }
        let name = "volume: random 4 KiB writes, fresh";
        row(name, &ours, &unflushed, "sequential 1 MiB writes as 4 KiB");
        row(name, &ours, &durable, "the same, flushed each 8 MiB");
        println!(
            "| volume: processor time a write | {:.2} µs | 3 µs | |",
            median(cpu)
        );
        Ok(())
    }

    fn space_reads(&self, path: &Path, raw: &Path) -> anyhow::Result<()> {
        let made = MeasuredVolume {
            placement: Placing::Lfs,
            part: 0.5,
        };
        let bytes = ByteLen::gib(2).0;
        let cases = [
            (
                "sequential 1 MiB reads of what was so written",
                LoadKind::SequentialRead,
                LARGE,
                4,
            ),
            (
                "random 4 KiB reads of it, depth 32",
                LoadKind::RandomRead,
                SMALL,
                32,
            ),
        ];
        for (name, kind, size, depth) in cases {
            let (mut ours, mut theirs) = (vec![], vec![]);
            for _ in 0..self.rounds {
                let fill = self.all_of(LoadKind::SequentialWrite, LARGE, 4, bytes);
                let load = self.load(kind, size, depth);
                ours.push(on_volume(path, made, vec![fill, load])?.outcome.rate);
                theirs.push(self.raw(raw, load)?.rate);
            }
            row(&format!("volume: {name}"), &ours, &theirs, "the disk's");
        }
        Ok(())
    }

    /// Measures a filled volume under random writes for a long time.
    fn steady_space(&self, path: &Path, raw: &Path) -> anyhow::Result<()> {
        let made = MeasuredVolume {
            placement: Placing::Lfs,
            part: 0.75,
        };
        let fill = self.all_of(LoadKind::SequentialWrite, LARGE, 4, ByteLen::gib(3).0);
        let small = self.load(LoadKind::RandomWrite, SMALL, 32);
        let load = DeviceLoad {
            seconds: self.seconds * 30.0,
            ..small
        };
        let done = on_volume(path, made, vec![fill, load])?;
        let late = done.outcome.latency.value_at_quantile(0.999) as f64 / 1e6;
        let whole = &done.outcome.by_second[..done.outcome.by_second.len().saturating_sub(1)];
        // The first seconds use up the free space.
        let steady: Vec<f64> = whole
            .iter()
            .skip(whole.len() / 3)
            .map(|n| *n as f64)
            .collect();
        let worst = steady.iter().copied().fold(f64::INFINITY, f64::min);
        let middle = median(steady);
        row(
            "volume: worst second at steady state",
            &[worst],
            &[middle],
            "its median second",
        );
        let alone = self.raw(raw, small)?.latency.value_at_quantile(0.999) as f64 / 1e6;
        println!(
            "| volume: 99.9th percentile of latency at steady state | {late:.1} ms | {alone:.1} ms (the disk's random \
             4 KiB writes) | {:.2} |",
            late / alone
        );
        let (stats, users) = (&done.stats, done.stats.bytes_written as f64);
        println!(
            "| volume: written for each byte of users', moved and by checkpoints | {:.2} + {:.3} | | |",
            (users + stats.bytes_moved as f64) / users,
            stats.bytes_checkpoints as f64 / users
        );
        eprintln!("by second: {:?}", done.outcome.by_second);
        Ok(())
    }
}

/// Measures the memory of the map, and the time to recover a volume after a kill.
fn space_memory(path: &Path) -> anyhow::Result<()> {
    let made = MeasuredVolume {
        placement: Placing::Lfs,
        part: 0.7,
    };
    for (name, kind, size) in [
        ("random 4 KiB", LoadKind::RandomWrite, SMALL),
        ("sequential 1 MiB", LoadKind::SequentialWrite, LARGE),
    ] {
        let before = resident();
        let load = DeviceLoad {
            kind,
            size,
            depth: 4,
            seconds: 600.0,
            most: ByteLen::gib(2).0 / size,
            flush_each: None,
        };
        let path: PathBuf = path.to_owned();
        let again = path.clone();
        let (map, mapped) = on_ring(move |rt, ring| async move {
            let (space, _workers) = fresh(&rt, open(&ring, &path)?, made).await?;
            let device: Rc<dyn Device> = Rc::new(SpaceDevice::new(space.clone()));
            run(&rt, Rc::clone(&device), load).await?;
            device.flush().await?;
            // The volume is dropped without a close, as a kill does.
            Ok((space.map_memory(), space.capacity().mapped))
        })?;
        let gib = mapped as f64 / (1u64 << 30) as f64;
        let map = map as f64 / gib / f64::from(1 << 20);
        let grown = resident().saturating_sub(before);
        println!(
            "| volume: map memory, {name} | {map:.2} MiB/GiB (process grew by {grown} MiB) | | |"
        );
        let seconds = on_ring(move |rt, ring| async move {
            let device = open(&ring, &again)?;
            let began = Instant::now();
            forebay_vsl::open(rt, device, SpaceSettings::default(), false).await?;
            Ok(began.elapsed().as_secs_f64())
        })?;
        println!("| volume: taken up after a kill, {name} | {seconds:.2} s | 1 s | |");
    }
    Ok(())
}
