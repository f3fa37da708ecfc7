//! A filesystem on a volume in memory, with a clock that tests set.

use std::cell::Cell;
use std::rc::Rc;

use forebay_device::{BufMut, Device, RamDevice};
use forebay_dfs::{
    FileKind, FileSpec, FileTime, Fs, FsClock, FsGeometry, FsSpec, ROOT, VolumeId, create, open,
};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_vsl::{SegmentLayout, SpaceSettings, SpaceWorkers};

/// A filesystem with its runtime, clock and device.
pub(crate) struct FsTestbed {
    pub(crate) rt: Rt,
    pub(crate) fs: Fs,
    /// The present time, in seconds.
    pub(crate) now: Rc<Cell<i64>>,
    device: Rc<dyn Device>,
    _workers: SpaceWorkers,
}

async fn attach(rt: &Rt, device: &Rc<dyn Device>, now: &Rc<Cell<i64>>) -> (Fs, SpaceWorkers) {
    let opened = forebay_vsl::open(
        rt.clone(),
        Rc::clone(device),
        SpaceSettings::default(),
        false,
    );
    let (space, workers, _) = opened.await.expect("taken up");
    let fs = open(space, clock(now)).await.expect("taken up");
    (fs, workers)
}

fn clock(now: &Rc<Cell<i64>>) -> FsClock {
    let now = Rc::clone(now);
    Rc::new(move || FileTime {
        seconds: now.get(),
        nanos: 0,
    })
}

impl FsTestbed {
    async fn new(rt: Rt, bytes: u64, geometry: FsGeometry) -> FsTestbed {
        let device: Rc<dyn Device> = Rc::new(RamDevice::new(bytes, 4096));
        let making = forebay_vsl::SpaceSpec {
            volume: VolumeId([1; 16]),
            layout: SegmentLayout::for_device(&device.geometry(), None).expect("it fits"),
            space_sectors: geometry.space_sectors(),
            placement: forebay_vsl::PlacementKind::Lfs,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        let made = forebay_vsl::create(rt.clone(), Rc::clone(&device), &making);
        made.await.expect("made");
        let now = Rc::new(Cell::new(1000));
        {
            let opened = forebay_vsl::open(
                rt.clone(),
                Rc::clone(&device),
                SpaceSettings::default(),
                false,
            );
            let (space, _workers, _) = opened.await.expect("taken up");
            let making = FsSpec {
                volume: VolumeId([1; 16]),
                geometry,
                hash_key: [2; 16],
                owner: (0, 0),
                permissions: 0o755,
            };
            create(&space, &making, &clock(&now)).await.expect("made");
        }
        let (fs, workers) = attach(&rt, &device, &now).await;
        FsTestbed {
            rt,
            fs,
            now,
            device,
            _workers: workers,
        }
    }

    /// Makes everything durable, and opens the filesystem again.
    pub(crate) async fn again(self) -> FsTestbed {
        self.fs.sync().await.expect("durable");
        let FsTestbed {
            rt,
            fs,
            now,
            device,
            _workers: workers,
        } = self;
        drop((fs, workers));
        let (fs, workers) = attach(&rt, &device, &now).await;
        FsTestbed {
            rt,
            fs,
            now,
            device,
            _workers: workers,
        }
    }

    /// Reads bytes from the device, by reading the whole blocks that contain them.
    pub(crate) async fn medium(&self, at: u64, len: usize) -> Vec<u8> {
        let first = at / 4096 * 4096;
        let skip = (at - first) as usize;
        let buf = BufMut::zeroed((skip + len).next_multiple_of(4096));
        let read = self.device.read(first, buf).await.expect("read");
        read[skip..skip + len].to_vec()
    }

    /// Makes a file that is in use.
    pub(crate) async fn make(&self, directory: u64, name: &[u8], kind: FileKind) -> u64 {
        let made = self
            .fs
            .make(directory, name, &FileSpec::of(kind, 0o755))
            .await;
        made.expect("made").file
    }
}

/// Runs `work` with a filesystem on a device of `bytes` bytes, and checks the filesystem afterwards.
pub(crate) fn run_on<F: Future<Output = FsTestbed> + 'static>(
    bytes: u64,
    geometry: FsGeometry,
    work: impl FnOnce(FsTestbed) -> F + 'static,
) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let world = work(FsTestbed::new(rt, bytes, geometry).await).await;
        let mut problems = Vec::new();
        let checked = world.fs.check(&mut |problem| problems.push(problem)).await;
        let checked = checked.expect("read");
        assert_eq!(problems, Vec::new());
        assert_eq!(checked.orphans, 0, "files without a name are left");
    });
}

/// Like [`run_on`], with a device of 64 MiB.
pub(crate) fn run<F: Future<Output = FsTestbed> + 'static>(
    work: impl FnOnce(FsTestbed) -> F + 'static,
) {
    run_on(64 << 20, FsGeometry::default(), work);
}

/// Runs `work` with a filesystem that would fail the check afterwards.
pub(crate) fn run_unchecked<F: Future<Output = ()> + 'static>(
    work: impl FnOnce(FsTestbed) -> F + 'static,
) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        work(FsTestbed::new(rt, 64 << 20, FsGeometry::default()).await).await;
    });
}

/// Returns true if the name exists in the root directory.
pub(crate) async fn there(fs: &Fs, name: &[u8]) -> bool {
    match fs.look_up(ROOT, name).await {
        Ok(inode) => {
            fs.forget(inode.file, 1).await.expect("forgotten");
            true
        }
        Err(_) => false,
    }
}
