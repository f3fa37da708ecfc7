//! Users at work: bursts of changes, mostly to the same files, with pauses in between. In the pauses a cache destages
//! data that the next burst may overwrite. So the order and the start time of destaging make a difference.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use forebay_rng::Rng;
use forebay_rt::Rt;

use crate::arm::DiskActivity;
use crate::disks::SetupDevice;
use crate::response::{ResponseFilter, ResponseTimes, UfsRequestKind};
use crate::scale::PaperScale;
use crate::ufs::{Ufs, UfsDirectory, UfsFile};

const USERS: u64 = 4;
/// Initial files of a user, and the number of them that most calls use.
const FILES: usize = 200;
const HOT: u64 = 40;
const LENGTH_MAX: u64 = 24 << 10;
/// Calls in a burst.
const BURST: u32 = 30;
/// Pauses between bursts, in milliseconds.
const PAUSES: [u64; 6] = [50, 200, 500, 1000, 2000, 5000];

/// Response times that users saw, and the cost.
#[derive(Clone, Debug)]
pub(crate) struct OfficeOutcome {
    pub(crate) reads: ResponseTimes,
    pub(crate) writes: ResponseTimes,
    /// Bytes that the filesystem wrote.
    pub(crate) written: u64,
    /// Time from the first burst to the end of the last burst, in seconds, pauses included.
    pub(crate) seconds: f64,
    /// Activity of the disk in this time.
    pub(crate) spent: DiskActivity,
}

/// Runs users on a device, after their files are created and destaged.
pub(crate) async fn office(
    rt: &Rt,
    opened: SetupDevice,
    scale: PaperScale,
) -> Result<OfficeOutcome> {
    let bursts = match scale {
        PaperScale::Full => 100,
        PaperScale::Quick => 40,
    };
    let fs = Ufs::new(rt, opened.device, 2);
    let root = fs.make_directory(None).await?;
    let mut desks = Vec::new();
    for user in 0..USERS {
        desks.push(OfficeUser::new(&fs, &root, user).await?);
    }
    fs.sync().await?;
    rt.sleep(Duration::from_secs(60)).await;
    fs.take_requests();
    let (began, before) = (rt.now(), opened.spent.get());
    let tasks: Vec<_> = desks
        .into_iter()
        .map(|desk| rt.spawn(desk.work(bursts)))
        .collect();
    for task in tasks {
        task.await?;
    }
    let seconds = rt.now().since(began).as_secs_f64();
    fs.sync().await?;
    let requests = fs.take_requests();
    let writes = requests
        .iter()
        .filter(|request| request.kind != UfsRequestKind::Read);
    let written = writes.map(|request| request.bytes).sum();
    Ok(OfficeOutcome {
        spent: opened.spent.get().since(&before),
        reads: ResponseTimes::of(ResponseFilter::Reads, &requests),
        writes: ResponseTimes::of(ResponseFilter::Writes, &requests),
        written,
        seconds,
    })
}

/// A user with a directory.
struct OfficeUser {
    fs: Rc<Ufs>,
    random: Rng,
    directory: UfsDirectory,
    files: Vec<UfsFile>,
}

impl OfficeUser {
    async fn new(fs: &Rc<Ufs>, root: &UfsDirectory, user: u64) -> Result<OfficeUser> {
        let random = Rng::new(user + 1);
        let directory = fs.make_directory(Some(root)).await?;
        let mut files = Vec::new();
        for _ in 0..FILES {
            files.push(fs.create(&directory, random.below(LENGTH_MAX) + 1).await?);
        }
        Ok(OfficeUser {
            fs: Rc::clone(fs),
            random,
            directory,
            files,
        })
    }

    async fn work(mut self, bursts: u32) -> Result<()> {
        for _ in 0..bursts {
            for _ in 0..BURST {
                self.call().await?;
            }
            let pause = Duration::from_millis(self.random.pick(&PAUSES));
            self.fs.rt.sleep(pause).await;
        }
        Ok(())
    }

    /// Makes one call. Of twenty calls eleven save a file, three create a file, three remove a file, three read a file.
    async fn call(&mut self) -> Result<()> {
        // Four of five calls use one of the hot files.
        let among = if self.random.one_in(5) {
            self.files.len() as u64
        } else {
            HOT.min(self.files.len() as u64)
        };
        let chosen = self.random.below(among) as usize;
        match self.random.below(20) {
            0..=10 => self.fs.rewrite(&self.files[chosen]).await,
            11..=13 => {
                let len = self.random.below(LENGTH_MAX) + 1;
                let file = self.fs.create(&self.directory, len).await?;
                self.files.push(file);
                Ok(())
            }
            14..=16 if self.files.len() > HOT as usize => {
                let file = self.files.swap_remove(chosen);
                self.fs.remove(&self.directory, &file).await
            }
            _ => {
                let file = self.files[chosen];
                self.fs.forget_data(&file);
                self.fs.open(&self.directory, &file).await?;
                self.fs.read(&file, 0..file.len).await
            }
        }
    }
}
