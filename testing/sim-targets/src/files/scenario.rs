//! Scenarios of the filesystem: a disk, a volume, clients, power cuts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device};
use forebay_dfs::{
    FileKind, FileSpec, FileTime, Fs, FsCheckTotals, FsClock, FsError, FsGeometry, FsSpec, ROOT,
    create, open,
};
use forebay_mount::{MountSettings, MountedFiles};
use forebay_rng::{Rng, mix};
use forebay_rt::{Rt, VirtualTime};
use forebay_sim::Violation;
use forebay_sim::disk::{DiskFaults, DiskImage, SimDisk, WriteFate};
use forebay_sim::machine::{DiskContents, Machine};
use forebay_sim::plan::coin;
use forebay_sim::role::PerDisk;
use forebay_sim::scenario::{ScenarioOutcome, ScenarioTally};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{SegmentLayout, Space, SpaceSettings, SpaceWorkers, VolumeId};
use futures_util::future::join_all;

use super::account::{DirectoryHistories, DirectoryHistory};
use super::known::FileObservations;
use super::load::load;
use super::model::{FilesModel, ModelId};
use super::plan::{FilesIncarnation, FilesScenario};
use super::user::FilesUser;
use crate::space::SpaceDisk;

const SEGMENT_BYTES: u64 = 128 << 10;
const VOLUME: VolumeId = VolumeId([9; 16]);
/// Geometry for files of 512 MiB and slots of 4 KiB.
const GEOMETRY: FsGeometry = FsGeometry {
    chunk_bits: 20,
    slot_sectors: 8,
};
/// The longest virtual time of an incarnation. A longer time means that an operation hangs.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Name of a file without a client that uses up space.
const FILLER: &[u8] = b"filler";

/// The state and the results of a scenario.
struct FilesContext {
    scenario: FilesScenario,
    accounts: DirectoryHistories,
    known: Rc<RefCell<FileObservations>>,
    tally: RefCell<ScenarioTally>,
    violation: RefCell<Option<Violation>>,
    digest: RefCell<DefaultHasher>,
    /// Nanoseconds in the previous incarnations.
    clock: Cell<u64>,
    /// True if operations of clients are printed.
    aloud: bool,
}

/// Executes a scenario.
pub fn run(scenario: &FilesScenario) -> ScenarioOutcome {
    live_through(scenario, false)
}

/// Executes a scenario and prints the operations of its clients.
pub fn run_aloud(scenario: &FilesScenario) -> ScenarioOutcome {
    live_through(scenario, true)
}

fn live_through(scenario: &FilesScenario, aloud: bool) -> ScenarioOutcome {
    let ctx = Rc::new(FilesContext {
        scenario: scenario.clone(),
        accounts: Rc::default(),
        known: Rc::default(),
        tally: RefCell::default(),
        violation: RefCell::default(),
        digest: RefCell::default(),
        clock: Cell::new(0),
        aloud,
    });
    let mut medium = ctx.made();
    for n in 0..scenario.incarnations.len() {
        medium = ctx.live(n, &medium);
        if ctx.violation.borrow().is_some() {
            break;
        }
    }
    let mut tally = *ctx.tally.borrow();
    tally.scenarios = 1;
    let digest = ctx.digest.borrow().finish();
    ScenarioOutcome {
        digest,
        tally,
        violation: ctx.violation.take(),
        ..ScenarioOutcome::default()
    }
}

fn clock_of(rt: &Rt, from: u64) -> FsClock {
    let rt = rt.clone();
    Rc::new(move || {
        let ns = from + rt.now().as_nanos();
        FileTime {
            seconds: (ns / 1_000_000_000) as i64,
            nanos: (ns % 1_000_000_000) as u32,
        }
    })
}

/// Uses up the free space, except `left` bytes.
async fn fill(fs: &Fs, left: u64) -> Result<(), FsError> {
    let new = FileSpec::of(FileKind::Regular, 0o644);
    let file = fs.make(ROOT, FILLER, &new).await?.file;
    loop {
        let sectors = fs.room().free.saturating_sub(left) / SECTOR_BYTES;
        if sectors == 0 {
            return fs.forget(file, 1).await;
        }
        let len = (sectors * SECTOR_BYTES).min(256 << 10);
        let data = BufMut::zeroed(len as usize).freeze();
        fs.write(file, None, data).await?;
    }
}

/// An attached filesystem.
struct AttachedFs {
    fs: Fs,
    _workers: SpaceWorkers,
}

async fn attach(
    rt: Rt,
    disk: Rc<dyn Device>,
    options: SpaceSettings,
    clock: FsClock,
) -> Result<AttachedFs, String> {
    let opened = forebay_vsl::open(rt, disk, options, false).await;
    let (space, workers, _) = opened.map_err(|error| error.to_string())?;
    let fs = open(space, clock)
        .await
        .map_err(|error| error.to_string())?;
    Ok(AttachedFs {
        fs,
        _workers: workers,
    })
}

impl FilesContext {
    fn violated(&self, checker: &'static str, what: String) {
        let mut violation = self.violation.borrow_mut();
        violation.get_or_insert(Violation::new(checker, what));
    }

    fn machine(
        &self,
        seed: u64,
        cut_at: Option<u64>,
        medium: &DiskContents<SpaceDisk>,
    ) -> Machine<SpaceDisk> {
        let blocks = PerDisk::of(|_| 512);
        Machine::new(seed, cut_at, medium, &blocks, Rc::new(VirtualTime::new()))
    }

    /// Makes a disk with a filesystem in which each client has a directory.
    fn made(&self) -> DiskContents<SpaceDisk> {
        let len = (1 << 20) + self.scenario.segments * SEGMENT_BYTES;
        let empty = PerDisk::of(|_| DiskImage::new(len));
        let machine = self.machine(0, None, &empty);
        let disk: Rc<dyn Device> = Rc::clone(&machine.disks[SpaceDisk::Medium]) as Rc<dyn Device>;
        let layout = SegmentLayout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT_BYTES)));
        let making = forebay_vsl::SpaceSpec {
            volume: VOLUME,
            layout: layout.expect("it is large enough"),
            space_sectors: GEOMETRY.space_sectors(),
            placement: forebay_vsl::PlacementKind::Lfs,
            auto: false,
            page_sectors: 8,
            disk: None,
        };
        let (rt, clock) = (machine.rt.clone(), clock_of(&machine.rt, 0));
        let (users, left) = (self.scenario.users, self.scenario.left);
        let work = async move {
            forebay_vsl::create(rt.clone(), Rc::clone(&disk), &making)
                .await
                .expect("made");
            let opened = forebay_vsl::open(rt, disk, SpaceSettings::default(), false).await;
            let (space, _workers, _): (Space, SpaceWorkers, _) = opened.expect("taken up");
            let making = FsSpec {
                volume: VOLUME,
                geometry: GEOMETRY,
                hash_key: [3; 16],
                owner: (0, 0),
                permissions: 0o755,
            };
            create(&space, &making, &clock).await.expect("made");
            let fs = open(space, clock).await.expect("taken up");
            for user in 0..users {
                let new = FileSpec::of(FileKind::Directory, 0o755);
                let made = fs.make(ROOT, &[b'0' + user as u8], &new).await;
                fs.forget(made.expect("made").file, 1).await.expect("it is");
            }
            if let Some(left) = left {
                fill(&fs, left).await.expect("there is room");
            }
            fs.sync().await.expect("durable");
        };
        machine.run(work).expect("no cut");
        let fresh = (0..users).map(|_| DirectoryHistory::new(FilesModel::new()));
        self.accounts.borrow_mut().extend(fresh);
        machine.cut(WriteFate::Keep)
    }

    /// Executes an incarnation, and checks the disk that it leaves.
    fn live(
        self: &Rc<Self>,
        n: usize,
        medium: &DiskContents<SpaceDisk>,
    ) -> DiskContents<SpaceDisk> {
        let incarnation = self.scenario.incarnations[n].clone();
        let seed = mix(self.scenario.seed, 1000 + n as u64);
        let machine = self.machine(seed, Some(incarnation.cut_at), medium);
        let disk = &machine.disks[SpaceDisk::Medium];
        disk.slowest.set(incarnation.slowest);
        disk.faults.replace(incarnation.faults.clone());
        let (ctx, watched) = (Rc::clone(self), Rc::clone(disk));
        machine.power.watch.replace(Some(Box::new(move |request| {
            let rng = Rng::new(mix(seed, request));
            if rng.one_in(ctx.scenario.incarnations[n].looks) && ctx.violation.borrow().is_none() {
                let image = watched.cut(coin(&rng, mix(seed, request + 1)));
                ctx.look(&PerDisk::of(|_| image.clone()), &rng);
            }
        })));
        let clock = clock_of(&machine.rt, self.clock.get());
        let served = self.serve(machine.rt.clone(), Rc::clone(disk), seed, n, clock);
        machine.run(served);
        machine.power.watch.replace(None);
        self.clock
            .set(self.clock.get() + machine.rt.now().as_nanos());
        {
            let mut tally = self.tally.borrow_mut();
            tally.faults += disk.injected();
            tally.requests += disk.requests();
            tally.virtual_time += Duration::from_nanos(machine.rt.now().as_nanos());
        }
        let left = machine.cut(incarnation.coin);
        if self.violation.borrow().is_none() {
            let found = self.look(&left, &Rng::new(mix(seed, 77)));
            if let Some((accounts, known)) = found {
                *self.accounts.borrow_mut() = accounts;
                *self.known.borrow_mut() = known;
            }
        }
        left
    }

    /// Runs the clients until they are done, or the power is cut.
    fn serve(
        self: &Rc<Self>,
        rt: Rt,
        disk: Rc<SimDisk>,
        seed: u64,
        n: usize,
        clock: FsClock,
    ) -> impl Future<Output = ()> + 'static {
        let ctx = Rc::clone(self);
        async move {
            let device = Rc::clone(&disk) as Rc<dyn Device>;
            let attached = attach(rt.clone(), device, ctx.scenario.options(), clock).await;
            // A disk with faults may prevent the attach.
            let Ok(attached) = attached else {
                return;
            };
            let users = (0..ctx.scenario.users as usize).map(|index| {
                let (ctx, fs, rt) = (Rc::clone(&ctx), attached.fs.clone(), rt.clone());
                async move {
                    let rng = Rng::new(mix(seed, 50 + index as u64));
                    let worked = Box::pin(ctx.work(fs, index, rng, &ctx.scenario.incarnations[n]));
                    match rt.timeout(PATIENCE, worked).await {
                        Ok(Ok(())) => {}
                        Ok(Err(what)) => ctx.violated("the model", what),
                        Err(_) => ctx.violated("patience", format!("user {index} waits for ever")),
                    }
                }
            });
            join_all(users).await;
            disk.faults.replace(DiskFaults::default());
            if attached.fs.space().failure().is_none() && ctx.violation.borrow().is_none() {
                let is_healthy = ctx.scenario.incarnations[n].is_healthy();
                let healed = ctx.look_at_healed(&attached.fs, is_healthy).await;
                healed.unwrap_or_else(|what| ctx.violated("heals", what));
            }
        }
    }

    async fn work(
        &self,
        fs: Fs,
        index: usize,
        rng: Rng,
        incarnation: &FilesIncarnation,
    ) -> Result<(), String> {
        let directory = match fs.look_up(ROOT, &[b'0' + index as u8]).await {
            Ok(inode) => inode.file,
            Err(FsError::Space(_)) => return Ok(()),
            Err(error) => return Err(format!("user {index} has no directory: {error}")),
        };
        let numbers = match load(&fs, directory).await {
            Ok((model, numbers)) => self.same_numbers(index, &model, numbers)?,
            Err(FsError::Space(_)) => return Ok(()),
            Err(error) => return Err(format!("user {index}: {error}")),
        };
        let mut user = FilesUser {
            files: Rc::new(MountedFiles::new(fs.clone(), MountSettings::default())),
            fs,
            accounts: Rc::clone(&self.accounts),
            known: Rc::clone(&self.known),
            index,
            numbers,
            rng,
            fills: self.scenario.left.is_some(),
            pairs: self.scenario.pairs,
            reads: incarnation.is_healthy(),
            aloud: self.aloud,
        };
        user.begin().await?;
        for _ in 0..incarnation.steps {
            if self.violation.borrow().is_some() {
                break;
            }
            user.step().await?;
        }
        user.release_all().await
    }

    /// Returns the numbers of the files in a client's model, from the model read from the filesystem. The history
    /// continues with this model.
    fn same_numbers(
        &self,
        index: usize,
        read: &FilesModel,
        numbers: BTreeMap<ModelId, u64>,
    ) -> Result<BTreeMap<ModelId, u64>, String> {
        let mut accounts = self.accounts.borrow_mut();
        let expected = accounts[index].now().digest();
        if read.digest() != expected {
            return Err(format!(
                "user {index}'s directory is not as it was looked at"
            ));
        }
        let mut model = read.clone();
        // No read shows the preallocation, but it must exist.
        model.take_preallocated(accounts[index].now());
        accounts[index] = DirectoryHistory::new(model);
        Ok(numbers)
    }

    /// Checks the disk after a cut. Returns the found state if it is permitted.
    fn look(
        self: &Rc<Self>,
        medium: &DiskContents<SpaceDisk>,
        rng: &Rng,
    ) -> Option<(Vec<DirectoryHistory>, FileObservations)> {
        self.tally.borrow_mut().cycles += 1;
        let mut medium = medium.clone();
        if rng.one_in(4) {
            // The power is cut again during the attach.
            let machine = self.machine(rng.next(), Some(rng.below(12)), &medium);
            let disk = Rc::clone(&machine.disks[SpaceDisk::Medium]) as Rc<dyn Device>;
            let clock = clock_of(&machine.rt, self.clock.get());
            let attached = attach(machine.rt.clone(), disk, self.scenario.options(), clock);
            machine.run(async move { drop(attached.await) });
            medium = machine.cut(coin(rng, rng.next()));
            let mut tally = self.tally.borrow_mut();
            tally.cycles += 1;
            tally.cuts_in_recovery += 1;
        }
        let machine = self.machine(0, None, &medium);
        let disk = Rc::clone(&machine.disks[SpaceDisk::Medium]) as Rc<dyn Device>;
        let clock = clock_of(&machine.rt, self.clock.get());
        let attached = attach(machine.rt.clone(), disk, self.scenario.options(), clock);
        let ctx = Rc::clone(self);
        let looked = machine.run(async move {
            let attached = attached.await?;
            ctx.look_at(&attached.fs).await
        });
        match looked.expect("no cut") {
            Ok(found) => Some(found),
            Err(what) => {
                self.violated("after a crash", what);
                None
            }
        }
    }

    /// Checks that `check` finds no problem.
    async fn checked(&self, fs: &Fs) -> Result<FsCheckTotals, String> {
        let mut problems = Vec::new();
        let checked = fs.check(&mut |problem| problems.push(problem)).await;
        match problems.first() {
            Some(problem) => Err(format!("check: file {}: {}", problem.file, problem.what)),
            None => checked.map_err(|error| format!("check: {error}")),
        }
    }

    async fn look_at(&self, fs: &Fs) -> Result<(Vec<DirectoryHistory>, FileObservations), String> {
        if self.checked(fs).await?.orphans > 0 {
            return Err("files without a name are left".into());
        }
        let mut found = Vec::new();
        for index in 0..self.scenario.users as usize {
            let name = [b'0' + index as u8];
            let inode = fs.look_up(ROOT, &name).await;
            let inode = inode.map_err(|error| format!("user {index}: {error}"))?;
            let loaded = load(fs, inode.file).await;
            let (model, _) = loaded.map_err(|error| format!("user {index}: {error}"))?;
            let digest = model.digest();
            digest.hash(&mut *self.digest.borrow_mut());
            let account = self.accounts.borrow()[index].find(digest);
            let account = account.ok_or_else(|| {
                format!("user {index}'s directory is like after no operation since it was durable")
            })?;
            found.push(account);
        }
        let known = self.known.borrow().clone();
        Ok((found, known.find(fs).await?))
    }

    /// Checks that all files exist and are readable after the faults of the disk ended, if no client was using them.
    async fn look_at_healed(&self, fs: &Fs, was_healthy: bool) -> Result<(), String> {
        for index in 0..self.scenario.users as usize {
            let wrong = |error| format!("user {index}, when the disk works again: {error}");
            let inode = fs.look_up(ROOT, &[b'0' + index as u8]).await;
            let number = inode.map_err(wrong)?.file;
            let (model, _) = load(fs, number).await.map_err(wrong)?;
            fs.forget(number, 1).await.map_err(wrong)?;
            if model.digest() != self.accounts.borrow()[index].now().digest() {
                return Err(format!("user {index}'s directory is not as it was left"));
            }
        }
        // No client uses a file any more, so nameless files are removed unless the removal could not be written.
        match self.checked(fs).await?.orphans {
            n if n > 0 && was_healthy => Err(format!("{n} files stay that nobody uses")),
            _ => Ok(()),
        }
    }
}
