//! Mounts a filesystem in memory, until interrupted or unmounted: `mount_ram SIZE DIRECTORY [FILE]`. With `FILE`,
//! mounts the filesystem in that file, which is created if it is missing.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use forebay_device::{Device, RamDevice};
use forebay_dfs::{FileTime, FsClock, FsGeometry, FsSpec, VolumeId};
use forebay_frontend::requests::RequestMemory;
use forebay_fuse::{FuseMount, ServedMount};
use forebay_linux::{DeviceOpenOptions, IoRing, SignalReader};
use forebay_mount::{MountSettings, MountedFiles};
use forebay_rt::{Executor, Rt};
use forebay_vsl::{PlacementKind, SegmentLayout, SpaceSettings};
use futures_util::future::{Either, select};

fn now() -> FileTime {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    FileTime {
        seconds: now.as_secs() as i64,
        nanos: now.subsec_nanos(),
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let size = args.next().context("a size")?.parse()?;
    let dir = PathBuf::from(args.next().context("a directory")?);
    mount(size, dir, args.next().map(PathBuf::from))
}

/// Mounts a filesystem of `size` bytes until interrupted or unmounted, and then checks it.
pub(crate) fn mount(size: u64, dir: PathBuf, file: Option<PathBuf>) -> anyhow::Result<()> {
    let ring = IoRing::new(256)?;
    let executor = Executor::new(ring.clone());
    let signals = SignalReader::new(&ring)?;
    let is_there = file.as_ref().is_some_and(|file| file.exists());
    let device: Rc<dyn Device> = match file {
        None => Rc::new(RamDevice::new(size, 4096)),
        Some(file) => {
            if !is_there {
                std::fs::File::create(&file)?.set_len(size)?;
            }
            forebay_linux::open(&ring, file, DeviceOpenOptions::default())?.device
        }
    };
    let rt = executor.rt();
    executor.block_on(async move {
        if !is_there {
            create(&rt, &device).await?;
        }
        serve(rt, ring, signals, device, dir).await
    })
}

async fn create(rt: &Rt, device: &Rc<dyn Device>) -> anyhow::Result<()> {
    let geometry = FsGeometry::default();
    let volume = VolumeId([1; 16]);
    let making = forebay_vsl::SpaceSpec {
        volume,
        layout: SegmentLayout::for_device(&device.geometry(), None)?,
        space_sectors: geometry.space_sectors(),
        placement: PlacementKind::Lfs,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    forebay_vsl::create(rt.clone(), Rc::clone(device), &making).await?;
    let opened = forebay_vsl::open(
        rt.clone(),
        Rc::clone(device),
        SpaceSettings::default(),
        false,
    );
    let (space, _workers, _) = opened.await?;
    let making = FsSpec {
        volume,
        geometry,
        hash_key: [5; 16],
        owner: (0, 0),
        permissions: 0o755,
    };
    let clock: FsClock = Rc::new(now);
    Ok(forebay_dfs::create(&space, &making, &clock).await?)
}

async fn serve(
    rt: Rt,
    ring: Rc<IoRing>,
    signals: SignalReader,
    device: Rc<dyn Device>,
    dir: PathBuf,
) -> anyhow::Result<()> {
    let opened = forebay_vsl::open(rt.clone(), device, SpaceSettings::default(), false).await?;
    let (space, _workers, _) = opened;
    let clock: FsClock = Rc::new(now);
    let fs = forebay_dfs::open(space, clock).await?;
    let files = Rc::new(MountedFiles::new(fs, MountSettings::default()));
    let memory = RequestMemory::default();
    let mount = FuseMount::at(dir, "ram");
    let mut mounted = ServedMount::new(&rt, &ring, Rc::clone(&files), &memory, mount)?;
    println!("mounted");
    while !mounted.is_over() {
        {
            let signal = std::pin::pin!(signals.next());
            let ended = std::pin::pin!(mounted.ended());
            if let Either::Right(_) = select(signal, ended).await {
                break;
            }
        }
        if let Err(error) = mounted.unmount().await {
            eprintln!("{error}");
        }
    }
    let mut problems = 0;
    let checked = files
        .fs()
        .check(&mut |problem| {
            problems += 1;
            println!("file {}: {}", problem.file, problem.what);
        })
        .await?;
    println!("{:?}", files.fs().space().stats());
    println!("{checked:?}, {problems} problems");
    Ok(())
}
