//! Processor cost of the filesystem's operations, in one process and in memory: without the kernel, and without a disk.

use std::rc::Rc;
use std::time::Instant;

use forebay_device::{BufMut, Device, RamDevice};
use forebay_dfs::{FileKind, FileSpec, FileTime, Fs, FsClock, FsGeometry, ROOT};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::SECTOR_BYTES;

use crate::cases::median;
use crate::place::fresh_id;

/// Bytes of the device, and of the file that is read and written.
const MEDIUM: u64 = 1 << 30;
const FILE: u64 = 256 << 20;
const BLOCK: u64 = 4096;
/// Operations on blocks and on names in a round.
const BLOCKS: u64 = 100_000;
const NAMES: u64 = 20_000;

async fn fresh(rt: &Rt) -> anyhow::Result<(Fs, forebay_vsl::SpaceWorkers)> {
    let device: Rc<dyn Device> = Rc::new(RamDevice::new(MEDIUM, BLOCK as u32));
    let geometry = FsGeometry::default();
    let volume = fresh_id();
    let making = forebay_vsl::SpaceSpec {
        volume,
        layout: forebay_vsl::SegmentLayout::for_device(&device.geometry(), None)?,
        space_sectors: geometry.space_sectors(),
        placement: forebay_vsl::PlacementKind::Lfs,
        auto: false,
        page_sectors: (BLOCK / SECTOR_BYTES) as u32,
        disk: None,
    };
    forebay_vsl::create(rt.clone(), Rc::clone(&device), &making).await?;
    let options = forebay_vsl::SpaceSettings::default();
    let (space, workers, _) = forebay_vsl::open(rt.clone(), device, options, false).await?;
    let clock: FsClock = Rc::new(|| FileTime {
        seconds: 1,
        nanos: 0,
    });
    let making = forebay_dfs::FsSpec {
        volume,
        geometry,
        hash_key: [7; 16],
        owner: (0, 0),
        permissions: 0o755,
    };
    forebay_dfs::create(&space, &making, &clock).await?;
    Ok((forebay_dfs::open(space, clock).await?, workers))
}

/// Returns the nanoseconds of each of `count` operations.
async fn each<F: Future<Output = anyhow::Result<()>>>(
    count: u64,
    mut work: impl FnMut(u64) -> F,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    for n in 0..count {
        work(n).await?;
    }
    Ok(began.elapsed().as_nanos() as f64 / count as f64)
}

/// Operations, in this order.
const WHAT: [&str; 6] = [
    "random 4 KiB write",
    "random 4 KiB read",
    "attributes of the file that was written to",
    "create",
    "look up, and forget",
    "unlink",
];

async fn round(rt: Rt) -> anyhow::Result<[f64; 6]> {
    let (fs, _workers) = fresh(&rt).await?;
    let made = fs
        .make(ROOT, b"file", &FileSpec::of(FileKind::Regular, 0o644))
        .await?;
    let file = made.file;
    let rng = Rng::new(1);
    let piece = BufMut::copy_of(&rng.bytes(1 << 20)).freeze();
    for at in (0..FILE).step_by(piece.len()) {
        fs.write(file, Some(at), piece.clone()).await?;
    }
    let block = piece.slice(0..BLOCK as usize);
    let place = || rng.below(FILE / BLOCK) * BLOCK;
    let fs = &fs;
    // The file grows until all of the device has been written.
    for _ in 0..MEDIUM / BLOCK {
        fs.write(file, Some(place()), block.clone()).await?;
    }
    let written = each(BLOCKS, |_| {
        let (at, block) = (place(), block.clone());
        async move { Ok(fs.write(file, Some(at), block).await.map(drop)?) }
    });
    let written = written.await?;
    let read = each(BLOCKS, |_| {
        let at = place();
        async move { Ok(fs.read(file, at, BLOCK as usize).await.map(drop)?) }
    });
    let read = read.await?;
    let known = each(BLOCKS, |_| async move {
        let inode = fs.inode(file).await?;
        Ok(fs.sectors(inode.file).await.map(drop)?)
    });
    let known = known.await?;
    let name = |n: u64| format!("file{n:08}").into_bytes();
    let created = each(NAMES, |n| async move {
        let new = FileSpec::of(FileKind::Regular, 0o644);
        let made = fs.make(ROOT, &name(n), &new).await?;
        Ok(fs.forget(made.file, 1).await?)
    });
    let created = created.await?;
    let looked = each(NAMES, |n| async move {
        let found = fs.look_up(ROOT, &name(n)).await?;
        Ok(fs.forget(found.file, 1).await?)
    });
    let looked = looked.await?;
    let gone = each(
        NAMES,
        |n| async move { Ok(fs.unlink(ROOT, &name(n)).await?) },
    );
    let gone = gone.await?;
    Ok([written, read, known, created, looked, gone])
}

/// Prints the medians over the rounds.
pub(crate) fn files(rounds: usize) -> anyhow::Result<()> {
    let mut all: [Vec<f64>; WHAT.len()] = Default::default();
    for _ in 0..rounds {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let took = executor.block_on(round(rt))?;
        for (all, took) in all.iter_mut().zip(took) {
            all.push(took);
        }
    }
    for (what, took) in WHAT.iter().zip(all) {
        let each = median(took) / 1e3;
        println!("| a filesystem in memory, {what} | {each:.2} µs of processor | | |");
    }
    Ok(())
}
