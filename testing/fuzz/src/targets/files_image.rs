//! A whole filesystem, changed by an attacker with correct checksums.
//!
//! The input is a list of changes to the sectors of a filesystem that contains every kind of object. Then the
//! filesystem is opened, and every operation is done on every object. Guarantee: each operation returns a value or an
//! error and terminates, and its memory does not depend on numbers in the sectors.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_dfs::{
    AttributeCondition, Fallocate, FileKind, FileSpec, FileTime, Fs, FsClock, FsGeometry, FsSpec,
    ListedEntry, NewAttributes, ROOT, RenameTarget, VolumeId,
};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, Sector};
use forebay_vsl::{Batch, SegmentLayout, Space, SpaceSettings, SpaceWorkers};

use crate::cap;
use crate::seal::{seal, seal_sector};

const SEGMENT: u64 = 128 << 10;
const MEDIUM: u64 = (1 << 20) + 64 * SEGMENT;
const GEOMETRY: FsGeometry = FsGeometry {
    chunk_bits: 20,
    slot_sectors: 8,
};
/// Memory for the device, segments, and the operations.
const MEMORY: usize = 40 << 20;
/// Maximum number of visited names in each filesystem.
const NAMES_MAX: usize = 60;

/// Mapped sectors and their content.
type MappedSectors = BTreeMap<u64, Vec<u8>>;

thread_local! {
    static BASE: OnceCell<MappedSectors> = const { OnceCell::new() };
}

fn clock() -> FsClock {
    Rc::new(|| FileTime {
        seconds: 1_700_000_000,
        nanos: 0,
    })
}

async fn space(rt: &Rt) -> (Space, SpaceWorkers) {
    let device: Rc<dyn Device> = Rc::new(RamDevice::new(MEDIUM, 512));
    let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT)));
    let making = forebay_vsl::SpaceSpec {
        volume: VolumeId([5; 16]),
        layout: layout.expect("it fits"),
        space_sectors: GEOMETRY.space_sectors(),
        placement: forebay_vsl::PlacementKind::Lfs,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    let made = forebay_vsl::create(rt.clone(), Rc::clone(&device), &making);
    made.await.expect("made");
    let opened = forebay_vsl::open(rt.clone(), device, SpaceSettings::default(), false).await;
    let (space, workers, _) = opened.expect("taken up");
    (space, workers)
}

/// Fills a filesystem with every kind of object.
async fn fill(fs: &Fs) -> forebay_dfs::Result<()> {
    let make = async |directory, name: &[u8], kind, target: &[u8]| {
        let new = FileSpec {
            target: target.to_vec(),
            ..FileSpec::of(kind, 0o755)
        };
        Ok::<_, forebay_dfs::FsError>(fs.make(directory, name, &new).await?.file)
    };
    let below = make(ROOT, b"directory", FileKind::Directory, b"").await?;
    let deeper = make(below, b"deeper", FileKind::Directory, b"").await?;
    make(deeper, b"deepest", FileKind::Directory, b"").await?;
    for (n, len) in [0, 100, 1000, 3000, 6000].into_iter().enumerate() {
        let file = make(below, &[b'a' + n as u8], FileKind::Regular, b"").await?;
        let mut data = BufMut::zeroed(len);
        data.fill(n as u8 + 1);
        fs.write(file, Some(0), data.freeze()).await?;
        fs.write(file, Some(n as u64 * 3000), BufMut::zeroed(512).freeze())
            .await?;
        fs.set_attribute(file, b"user.a", &[3; 40], AttributeCondition::Any, None)
            .await?;
        fs.link(file, deeper, &[b'z' - n as u8]).await?;
    }
    make(ROOT, b"short", FileKind::Symlink, b"directory").await?;
    make(ROOT, b"long", FileKind::Symlink, &[b'x'; 900]).await?;
    make(ROOT, b"pipe", FileKind::Fifo, b"").await?;
    fs.make_nameless(&FileSpec::of(FileKind::Regular, 0o600))
        .await?;
    Ok(())
}

fn base() -> MappedSectors {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let (space, _workers) = space(&rt).await;
        let making = FsSpec {
            volume: VolumeId([5; 16]),
            geometry: GEOMETRY,
            hash_key: [6; 16],
            owner: (0, 0),
            permissions: 0o755,
        };
        forebay_dfs::create(&space, &making, &clock())
            .await
            .expect("made");
        let fs = forebay_dfs::open(space.clone(), clock())
            .await
            .expect("taken up");
        fill(&fs).await.expect("filled");
        let (mut sectors, mut at) = (MappedSectors::new(), 0);
        while let Some(run) = space.next_mapped(at..space.sectors()).await.expect("read") {
            for sector in run.clone() {
                let read = space.read(Sector(sector), BufMut::zeroed(512)).await;
                sectors.insert(sector, read.expect("read").to_vec());
            }
            at = run.end;
        }
        sectors
    })
}

/// Bytes of the input, one after the other; zeroes behind the last.
struct SectorScript<'a>(&'a [u8]);

impl SectorScript<'_> {
    fn byte(&mut self) -> u8 {
        let first = self.0.first().copied().unwrap_or_default();
        self.0 = self.0.get(1..).unwrap_or_default();
        first
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// Changes sectors as an input describes.
fn change(sectors: &mut MappedSectors, script: &[u8]) {
    let places: Vec<u64> = sectors.keys().copied().collect();
    let mut script = SectorScript(script);
    while !script.0.is_empty() {
        let what = script.byte();
        let mut place = || places[usize::from(script.byte()) % places.len()];
        let (at, other) = (place(), place());
        match what % 5 {
            0 | 1 => {
                let from = usize::from(script.byte()) + 256 * usize::from(script.byte() % 2);
                let len = usize::from(script.byte() % 16);
                let Some(sector) = sectors.get_mut(&at) else {
                    continue;
                };
                for byte in sector.iter_mut().skip(from).take(len) {
                    *byte = script.byte();
                }
                if what.is_multiple_of(5) && sector.starts_with(b"FB") {
                    seal_sector(sector);
                }
            }
            2 => {
                let copied = sectors.get(&at).cloned().unwrap_or_default();
                if !copied.is_empty() {
                    sectors.insert(other, copied);
                }
            }
            3 => drop(sectors.remove(&at)),
            _ => {
                let to = script.number() % GEOMETRY.space_sectors();
                if let Some(copied) = sectors.get(&at).cloned() {
                    sectors.insert(to, copied);
                }
            }
        }
    }
    // The superblock has eight sectors.
    let mut superblock: Vec<u8> = (0..8)
        .flat_map(|n| sectors.get(&n).cloned().unwrap_or(vec![0; 512]))
        .collect();
    seal(&mut superblock);
    for (n, sector) in (0..).zip(superblock.chunks(512)) {
        sectors.insert(n, sector.to_vec());
    }
}

/// Runs all read operations on a name and its i-node.
async fn ask(fs: &Fs, directory: u64, name: &[u8]) {
    let Ok(inode) = fs.look_up(directory, name).await else {
        return;
    };
    let file = inode.file;
    let _ = fs.sectors(file).await;
    let _ = fs.attributes(file).await;
    let _ = fs.read_link(file).await;
    let _ = fs.look_up(file, b"..").await;
    for at in [0, 600, inode.size.saturating_sub(10)] {
        let _ = fs.read(file, at, 4096).await;
        let _ = (
            fs.seek(file, at, true).await,
            fs.seek(file, at, false).await,
        );
    }
}

/// Runs all modifying operations on a name and its i-node.
async fn act(fs: &Fs, directory: u64, name: &[u8], n: usize) {
    let Ok(inode) = fs.look_up(directory, name).await else {
        return;
    };
    let file = inode.file;
    let data = BufMut::zeroed(700).freeze();
    let _ = fs.write(file, Some(n as u64 * 400), data.clone()).await;
    let _ = fs.write(file, None, data).await;
    let reserve = Fallocate::Reserve { keep_size: true };
    let _ = fs.fallocate(file, 0, 9000, reserve).await;
    let _ = fs.fallocate(file, 100, 2000, Fallocate::Punch).await;
    let size = NewAttributes {
        size: Some(n as u64 * 90),
        ..NewAttributes::default()
    };
    let _ = fs.set(file, &size).await;
    let _ = fs
        .set_attribute(file, b"user.b", &[1; 600], AttributeCondition::Any, None)
        .await;
    let _ = fs.remove_attribute(file, b"user.a").await;
    let _ = fs.link(file, ROOT, &[b'A' + n as u8]).await;
    let _ = fs
        .make(file, b"new", &FileSpec::of(FileKind::Directory, 0o755))
        .await;
    let target = [
        RenameTarget::Any,
        RenameTarget::Free,
        RenameTarget::Exchange,
    ][n % 3];
    let _ = fs.rename((directory, name), (ROOT, b"moved"), target).await;
    let _ = fs
        .rename((ROOT, b"moved"), (file, b"in"), RenameTarget::Any)
        .await;
    let _ = fs.unlink(directory, name).await;
    let _ = fs.remove_directory(directory, name).await;
    let _ = fs.sync_file(file, false).await;
    let _ = fs.forget(file, 9).await;
}

/// Returns the names of all reachable directories, up to a maximum number.
async fn names(fs: &Fs) -> Vec<(u64, Vec<u8>)> {
    let (mut found, mut wanted) = (Vec::new(), vec![ROOT]);
    while let Some(directory) = wanted.pop() {
        let mut from = 0;
        while let Ok(listed) = fs.list(directory, from, 16).await {
            let Some(ListedEntry { next, .. }) = listed.last() else {
                break;
            };
            from = *next;
            for one in listed {
                if found.len() >= NAMES_MAX {
                    return found;
                }
                if !matches!(&one.entry.name[..], b"." | b"..") {
                    wanted.push(one.entry.file);
                }
                found.push((directory, one.entry.name));
            }
        }
    }
    found
}

async fn exercise(rt: Rt, sectors: MappedSectors) {
    let (space, _workers) = space(&rt).await;
    let mut batch = Batch::new();
    for (at, bytes) in &sectors {
        batch.write(Sector(*at), BufMut::copy_of(bytes).freeze());
    }
    space
        .apply(&batch, Durability::Flush)
        .await
        .expect("there is room");
    let mut ignore = |_| {};
    for _ in 0..2 {
        let Ok(fs) = forebay_dfs::open(space.clone(), clock()).await else {
            return;
        };
        let _ = fs.check(&mut ignore).await;
        let all = names(&fs).await;
        for (directory, name) in &all {
            ask(&fs, *directory, name).await;
        }
        for (n, (directory, name)) in all.iter().enumerate() {
            act(&fs, *directory, name, n).await;
        }
        let _ = fs
            .make(ROOT, b"more", &FileSpec::of(FileKind::Regular, 0o644))
            .await;
        let _ = fs.sync().await;
        let _ = fs.check(&mut ignore).await;
    }
}

/// Runs a filesystem with changed sectors.
pub fn image(bytes: &[u8]) {
    let mut sectors = BASE.with(|known| known.get_or_init(base).clone());
    change(&mut sectors, &bytes[..bytes.len().min(512)]);
    cap::within(MEMORY, || {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(exercise(rt, sectors));
    });
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    // The first eight sectors are the superblock; i-nodes follow, the root's first.
    let edit = |place: u8, at: u8, bytes: &[u8]| {
        let mut one = vec![0, place, 0, at, 0, bytes.len() as u8];
        one.extend_from_slice(bytes);
        one
    };
    let all_inodes =
        |at, bytes: &[u8]| -> Vec<u8> { (8..24).flat_map(|n| edit(n, at, bytes)).collect() };
    vec![
        ("as_it_is", vec![]),
        ("geometry", edit(0, 60, &[40])),
        ("links", all_inodes(28, &[0xff, 0xff, 0xff, 0x7f])),
        ("size", all_inodes(48, &[0xff; 7])),
        ("base", all_inodes(56, &[0, 0, 0, 0, 1])),
        ("kind", all_inodes(24, &[4])),
        ("generation", all_inodes(16, &[9])),
        ("parent", all_inodes(64, &[2])),
        ("gone", (9..16).flat_map(|n| [3, n, 0]).collect()),
        ("copied", (8..60).flat_map(|n| [2, n, 77 - n]).collect()),
        ("elsewhere", vec![4, 30, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (
            "garbage",
            (8..80).flat_map(|n| edit(n, n, &[n; 9])).collect(),
        ),
    ]
}
