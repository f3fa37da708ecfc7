//! Worlds of the filesystem: a disk, a volume on it, users, power cuts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_dfs::{Clock, Fs, Geometry, Kind, Making, New, ROOT, Time, create, open};
use forebay_rng::{Rng, mix};
use forebay_rt::{Rt, VirtualTime};
use forebay_sim::Violation;
use forebay_sim::disk::{Coin, Faults, Image, Outage};
use forebay_sim::machine::{Machine, Medium};
use forebay_sim::plan::coin;
use forebay_sim::role::Each;
use forebay_sim::world::{Outcome, Tally};
use forebay_units::ByteLen;
use forebay_vsl::{Layout, Options, Space, VolumeId, Workers};
use futures_util::future::join_all;

use super::account::{Account, Accounts};
use super::load::load;
use super::model::{Id, Model};
use super::user::User;
use crate::space::Role;

const SEGMENT_BYTES: u64 = 128 << 10;
const VOLUME: VolumeId = VolumeId([9; 16]);
/// Files of 512 MiB, slots of 4 KiB.
const GEOMETRY: Geometry = Geometry {
    chunk_bits: 20,
    slot_sectors: 8,
};
/// What a life may take, in virtual time: more, and something hangs.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A world.
#[derive(Clone, Debug)]
pub struct World {
    /// What all follows from.
    pub seed: u64,
    /// Each has a directory.
    pub users: u64,
    /// Segments of the disk.
    pub segments: u64,
    /// The memory that the map may take, in bytes, if that is little.
    pub map_bytes: Option<u64>,
    /// A checkpoint is made after so many entries.
    pub recovery_entries: u64,
    /// From one attach to the next.
    pub lives: Vec<Life>,
}

/// From taking the filesystem up to a power cut.
#[derive(Clone, Debug)]
pub struct Life {
    /// What each user does.
    pub steps: u64,
    /// The power goes at this request that changes something.
    pub cut_at: u64,
    /// What is kept then of what is not durable.
    pub coin: Coin,
    /// One in so many requests is looked at as if the power went there.
    pub looks: u64,
    /// Latencies of requests are at most so long.
    pub slowest: Duration,
    /// What the disk does wrong.
    pub faults: Faults,
}

impl Display for World {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl World {
    /// The world of a seed.
    pub fn of_seed(seed: u64) -> World {
        let rng = Rng::new(mix(seed, 0x00_f11e));
        let lives = 1 + rng.below(4);
        World {
            seed,
            users: 1 + rng.below(3),
            segments: rng.pick(&[32, 32, 48, 96]),
            map_bytes: rng.one_in(3).then(|| 8192 << rng.below(4)),
            recovery_entries: 8 << rng.below(12),
            lives: (0..lives).map(|n| life(&rng, mix(seed, n + 1))).collect(),
        }
    }

    fn options(&self) -> Options {
        let common = Options::default();
        Options {
            map_bytes: self.map_bytes.unwrap_or(common.map_bytes),
            check_bytes: self.map_bytes.unwrap_or(common.check_bytes),
            recovery_entries: self.recovery_entries,
            ..common
        }
    }
}

fn life(rng: &Rng, seed: u64) -> Life {
    let steps = 4 + rng.below(120);
    let mut faults = Faults {
        seed: mix(seed, 1),
        ..Faults::default()
    };
    match rng.below(12) {
        0 => faults.reads_fail = 4 + rng.below(60),
        1 => faults.flushes_fail = 4 + rng.below(30),
        2 => faults.writes_fail = 4 + rng.below(60),
        3 => {
            faults.outage = Some(Outage {
                from: rng.below(100),
                op: None,
                requests: rng.coin().then(|| 1 + rng.below(100)),
                reads: rng.coin(),
            });
        }
        _ => {}
    }
    faults.forgetful = rng.coin();
    let slowest = if rng.coin() { 50 } else { 20_000 };
    Life {
        steps,
        cut_at: rng.below(steps * 2),
        coin: coin(rng, seed),
        looks: 1 + rng.below(4),
        slowest: Duration::from_micros(rng.below(slowest) + 1),
        faults,
    }
}

/// What is checked while a world goes on, and what came of it.
struct Ctx {
    world: World,
    accounts: Accounts,
    tally: RefCell<Tally>,
    violation: RefCell<Option<Violation>>,
    digest: RefCell<DefaultHasher>,
    /// Nanoseconds in the lives before.
    clock: Cell<u64>,
    /// What users do is printed.
    aloud: bool,
}

/// Lives through a world.
pub fn run(world: &World) -> Outcome {
    live_through(world, false)
}

/// The same, and prints what users do.
pub fn run_aloud(world: &World) -> Outcome {
    live_through(world, true)
}

fn live_through(world: &World, aloud: bool) -> Outcome {
    let ctx = Rc::new(Ctx {
        world: world.clone(),
        accounts: Rc::default(),
        tally: RefCell::default(),
        violation: RefCell::default(),
        digest: RefCell::default(),
        clock: Cell::new(0),
        aloud,
    });
    let mut medium = ctx.made();
    for n in 0..world.lives.len() {
        medium = ctx.live(n, &medium);
        if ctx.violation.borrow().is_some() {
            break;
        }
    }
    let mut tally = *ctx.tally.borrow();
    tally.worlds = 1;
    let digest = ctx.digest.borrow().finish();
    Outcome {
        digest,
        tally,
        violation: ctx.violation.take(),
        ..Outcome::default()
    }
}

fn clock_of(rt: &Rt, from: u64) -> Clock {
    let rt = rt.clone();
    Rc::new(move || {
        let ns = from + rt.now().as_nanos();
        Time {
            seconds: (ns / 1_000_000_000) as i64,
            nanos: (ns % 1_000_000_000) as u32,
        }
    })
}

/// What is attached.
struct Attached {
    fs: Fs,
    _workers: Workers,
}

async fn attach(
    rt: Rt,
    disk: Rc<dyn Device>,
    options: Options,
    clock: Clock,
) -> Result<Attached, String> {
    let opened = forebay_vsl::open(rt, disk, options, false).await;
    let (space, workers, _) = opened.map_err(|error| error.to_string())?;
    let fs = open(space, clock)
        .await
        .map_err(|error| error.to_string())?;
    Ok(Attached {
        fs,
        _workers: workers,
    })
}

impl Ctx {
    fn violated(&self, checker: &'static str, what: String) {
        let mut violation = self.violation.borrow_mut();
        violation.get_or_insert(Violation::new(checker, what));
    }

    fn machine(&self, seed: u64, cut_at: Option<u64>, medium: &Medium<Role>) -> Machine<Role> {
        let blocks = Each::of(|_| 512);
        Machine::new(seed, cut_at, medium, &blocks, Rc::new(VirtualTime::new()))
    }

    /// A disk with a filesystem in which each user has a directory.
    fn made(&self) -> Medium<Role> {
        let len = (1 << 20) + self.world.segments * SEGMENT_BYTES;
        let empty = Each::of(|_| Image::new(len));
        let machine = self.machine(0, None, &empty);
        let disk: Rc<dyn Device> = Rc::clone(&machine.disks[Role::Medium]) as Rc<dyn Device>;
        let layout = Layout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT_BYTES)));
        let making = forebay_vsl::Making {
            volume: VOLUME,
            layout: layout.expect("it is large enough"),
            space_sectors: GEOMETRY.space_sectors(),
            placement: forebay_vsl::Kind::Lfs,
            page_sectors: 8,
            disk: None,
        };
        let (rt, users, clock) = (
            machine.rt.clone(),
            self.world.users,
            clock_of(&machine.rt, 0),
        );
        let work = async move {
            forebay_vsl::create(rt.clone(), Rc::clone(&disk), &making)
                .await
                .expect("made");
            let opened = forebay_vsl::open(rt, disk, Options::default(), false).await;
            let (space, _workers, _): (Space, Workers, _) = opened.expect("taken up");
            let making = Making {
                volume: VOLUME,
                geometry: GEOMETRY,
                hash_key: [3; 16],
                owner: (0, 0),
                permissions: 0o755,
            };
            create(&space, &making, &clock).await.expect("made");
            let fs = open(space, clock).await.expect("taken up");
            for user in 0..users {
                let new = New::of(Kind::Directory, 0o755);
                let made = fs.make(ROOT, &[b'0' + user as u8], &new).await;
                fs.forget(made.expect("made").file, 1).await.expect("it is");
            }
            fs.sync().await.expect("durable");
        };
        machine.run(work).expect("no cut");
        let fresh = (0..users).map(|_| Account::new(Model::new()));
        self.accounts.borrow_mut().extend(fresh);
        machine.cut(Coin::Keep)
    }

    /// Lives a life, and looks at what it leaves.
    fn live(self: &Rc<Self>, n: usize, medium: &Medium<Role>) -> Medium<Role> {
        let life = self.world.lives[n].clone();
        let seed = mix(self.world.seed, 1000 + n as u64);
        let machine = self.machine(seed, Some(life.cut_at), medium);
        let disk = &machine.disks[Role::Medium];
        disk.slowest.set(life.slowest);
        disk.faults.replace(life.faults.clone());
        let (ctx, watched) = (Rc::clone(self), Rc::clone(disk));
        machine.power.watch.replace(Some(Box::new(move |request| {
            let rng = Rng::new(mix(seed, request));
            if rng.one_in(ctx.world.lives[n].looks) && ctx.violation.borrow().is_none() {
                let image = watched.cut(coin(&rng, mix(seed, request + 1)));
                ctx.look(&Each::of(|_| image.clone()), &rng);
            }
        })));
        let clock = clock_of(&machine.rt, self.clock.get());
        let served = self.serve(
            machine.rt.clone(),
            Rc::clone(disk) as Rc<dyn Device>,
            seed,
            n,
            clock,
        );
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
        let left = machine.cut(life.coin);
        if self.violation.borrow().is_none() {
            let found = self.look(&left, &Rng::new(mix(seed, 77)));
            if let Some(found) = found {
                *self.accounts.borrow_mut() = found;
            }
        }
        left
    }

    /// Users work until they are done, or the power goes.
    fn serve(
        self: &Rc<Self>,
        rt: Rt,
        disk: Rc<dyn Device>,
        seed: u64,
        n: usize,
        clock: Clock,
    ) -> impl Future<Output = ()> + 'static {
        let ctx = Rc::clone(self);
        async move {
            let steps = ctx.world.lives[n].steps;
            let attached = attach(rt.clone(), disk, ctx.world.options(), clock).await;
            // A disk that refuses requests may have it that nothing is attached.
            let Ok(attached) = attached else {
                return;
            };
            let users = (0..ctx.world.users as usize).map(|index| {
                let (ctx, fs, rt) = (Rc::clone(&ctx), attached.fs.clone(), rt.clone());
                async move {
                    let rng = Rng::new(mix(seed, 50 + index as u64));
                    let worked = ctx.work(fs, index, rng, steps);
                    match rt.timeout(PATIENCE, worked).await {
                        Ok(Ok(())) => {}
                        Ok(Err(what)) => ctx.violated("the model", what),
                        Err(_) => ctx.violated("patience", format!("user {index} waits for ever")),
                    }
                }
            });
            join_all(users).await;
        }
    }

    async fn work(&self, fs: Fs, index: usize, rng: Rng, steps: u64) -> Result<(), String> {
        let directory = match fs.look_up(ROOT, &[b'0' + index as u8]).await {
            Ok(inode) => inode.file,
            Err(forebay_dfs::FsError::Space(_)) => return Ok(()),
            Err(error) => return Err(format!("user {index} has no directory: {error}")),
        };
        let numbers = match load(&fs, directory).await {
            Ok((model, numbers)) => self.same_numbers(index, &model, numbers)?,
            Err(forebay_dfs::FsError::Space(_)) => return Ok(()),
            Err(error) => return Err(format!("user {index}: {error}")),
        };
        let mut user = User {
            fs,
            accounts: Rc::clone(&self.accounts),
            index,
            numbers,
            rng,
            aloud: self.aloud,
        };
        for _ in 0..steps {
            if self.violation.borrow().is_some() {
                break;
            }
            user.step().await?;
        }
        Ok(())
    }

    /// The numbers of the files of a user's model, told by what was read of the filesystem. The account goes on with that.
    fn same_numbers(
        &self,
        index: usize,
        read: &Model,
        numbers: BTreeMap<Id, u64>,
    ) -> Result<BTreeMap<Id, u64>, String> {
        let mut accounts = self.accounts.borrow_mut();
        let expected = accounts[index].now().digest();
        if read.digest() != expected {
            return Err(format!(
                "user {index}'s directory is not as it was looked at"
            ));
        }
        accounts[index] = Account::new(read.clone());
        Ok(numbers)
    }

    /// Looks at what a cut left; gives what is there now, if it is what it may be.
    fn look(self: &Rc<Self>, medium: &Medium<Role>, rng: &Rng) -> Option<Vec<Account>> {
        self.tally.borrow_mut().cycles += 1;
        let mut medium = medium.clone();
        if rng.one_in(4) {
            // The power goes again while it is taken up.
            let machine = self.machine(rng.next(), Some(rng.below(12)), &medium);
            let disk = Rc::clone(&machine.disks[Role::Medium]) as Rc<dyn Device>;
            let clock = clock_of(&machine.rt, self.clock.get());
            let attached = attach(machine.rt.clone(), disk, self.world.options(), clock);
            machine.run(async move { drop(attached.await) });
            medium = machine.cut(coin(rng, rng.next()));
            let mut tally = self.tally.borrow_mut();
            tally.cycles += 1;
            tally.cuts_in_recovery += 1;
        }
        let machine = self.machine(0, None, &medium);
        let disk = Rc::clone(&machine.disks[Role::Medium]) as Rc<dyn Device>;
        let clock = clock_of(&machine.rt, self.clock.get());
        let attached = attach(machine.rt.clone(), disk, self.world.options(), clock);
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

    async fn look_at(&self, fs: &Fs) -> Result<Vec<Account>, String> {
        let mut problems = Vec::new();
        let checked = fs.check(&mut |problem| problems.push(problem)).await;
        let checked = checked.map_err(|error| format!("check: {error}"))?;
        if let Some(problem) = problems.first() {
            return Err(format!("check: file {}: {}", problem.file, problem.what));
        }
        if checked.orphans > 0 {
            return Err("files without a name are left".into());
        }
        let mut found = Vec::new();
        for index in 0..self.world.users as usize {
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
        Ok(found)
    }
}
