//! The paper's benchmarks (section 4.1): N users unpack, copy and remove a tree each, at the same time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use forebay_rt::{Rt, Task};

use crate::arm::DiskActivity;
use crate::disks::SetupDevice;
use crate::response::{UfsRequest, UfsRequestKind};
use crate::tree::tree;
use crate::ufs::{Ufs, UfsDirectory, UfsFile};

/// The three programs, in this order.
pub(crate) const PHASES: [&str; 3] = ["untar", "copy", "remove"];
/// Pause between two programs for an unmount and a mount, so that the next program starts with empty memory.
const REMOUNT: Duration = Duration::from_secs(10);
/// Pause before the first program, long enough to destage the initial data.
const SETTLE: Duration = Duration::from_secs(300);
/// Size of a header in a tar file. The content of a file is padded to a multiple of this size.
const TAR_BLOCK: u64 = 512;

/// Returns a number of users in words.
pub(crate) fn who(users: u64) -> String {
    match users {
        1 => "1 user".to_owned(),
        n => format!("{n} users"),
    }
}

/// Measurements of one program, run by all users at the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramPhase {
    /// Time until the last user finished, in seconds.
    pub(crate) seconds: f64,
    /// Time until all written data was durable, in seconds.
    pub(crate) durable: f64,
    /// Processor time, in seconds.
    pub(crate) processor: f64,
    /// Requests that the filesystem made to the device.
    pub(crate) requests: Vec<UfsRequest>,
    /// Activity of the data disk until the last user finished.
    pub(crate) spent: DiskActivity,
}

impl ProgramPhase {
    /// Returns the bytes that the filesystem wrote.
    pub(crate) fn written(&self) -> u64 {
        let writes = self.requests.iter();
        let writes = writes.filter(|request| request.kind != UfsRequestKind::Read);
        writes.map(|request| request.bytes).sum()
    }
}

/// A directory and its files.
type DirectoryFiles = (UfsDirectory, Vec<UfsFile>);

/// A user's own part of the filesystem.
struct UserTree {
    top: UfsDirectory,
    tar: UfsFile,
    /// Lengths of the files, directory by directory.
    lengths: Vec<Vec<u64>>,
}

/// Runs the three programs; `every` makes the trees smaller.
pub(crate) async fn phases(
    rt: &Rt,
    opened: SetupDevice,
    users: u64,
    every: usize,
) -> Result<[ProgramPhase; 3]> {
    let (fs, spent) = (Ufs::new(rt, opened.device, 1), opened.spent);
    let root = fs.make_directory(None).await?;
    let mut homes = Vec::new();
    for user in 0..users {
        let top = fs.make_directory(Some(&root)).await?;
        let lengths = tree(user, every);
        let tar = lengths.iter().flatten().map(|len| in_tar(*len)).sum();
        let tar = fs.create(&top, tar).await?;
        homes.push(Rc::new(UserTree { top, tar, lengths }));
    }
    fs.sync().await?;
    rt.sleep(SETTLE).await;
    let untars = homes
        .iter()
        .map(|home| unpack(Rc::clone(&fs), Rc::clone(home)));
    let (untar, trees) = together(&fs, &spent, untars).await?;
    let trees: Vec<Rc<Vec<DirectoryFiles>>> = trees.into_iter().map(Rc::new).collect();
    let each = || homes.iter().zip(&trees);
    let copies = each().map(|(home, tree)| copy(Rc::clone(&fs), Rc::clone(home), Rc::clone(tree)));
    let (copied, _) = together(&fs, &spent, copies).await?;
    let removes =
        each().map(|(home, tree)| remove(Rc::clone(&fs), Rc::clone(home), Rc::clone(tree)));
    let (removed, _) = together(&fs, &spent, removes).await?;
    Ok([untar, copied, removed])
}

/// Returns the space of a file of this length in a tar file.
fn in_tar(len: u64) -> u64 {
    TAR_BLOCK + len.next_multiple_of(TAR_BLOCK)
}

/// Runs the work of all users, with empty memory at the start.
async fn together<T: 'static>(
    fs: &Rc<Ufs>,
    spent: &Cell<DiskActivity>,
    users: impl Iterator<Item = impl Future<Output = Result<T>> + 'static>,
) -> Result<(ProgramPhase, Vec<T>)> {
    fs.forget();
    fs.take_requests();
    let (began, computed, before) = (fs.rt.now(), fs.computed(), spent.get());
    let tasks: Vec<Task<Result<T>>> = users.map(|user| fs.rt.spawn(user)).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await?);
    }
    let seconds = || fs.rt.now().since(began).as_secs_f64();
    let (until_done, spent) = (seconds(), spent.get().since(&before));
    let processor = (fs.computed() - computed).as_secs_f64();
    fs.sync().await?;
    let phase = ProgramPhase {
        seconds: until_done,
        durable: seconds(),
        processor,
        requests: fs.take_requests(),
        spent,
    };
    fs.rt.sleep(REMOUNT).await;
    Ok((phase, results))
}

async fn unpack(fs: Rc<Ufs>, home: Rc<UserTree>) -> Result<Vec<DirectoryFiles>> {
    let (mut tree, mut read) = (Vec::new(), 0);
    fs.open(&home.top, &home.tar).await?;
    for lengths in &home.lengths {
        let directory = fs.make_directory(Some(&home.top)).await?;
        let mut files = Vec::new();
        for len in lengths {
            let end = read + in_tar(*len);
            fs.read(&home.tar, read..end).await?;
            read = end;
            files.push(fs.create(&directory, *len).await?);
        }
        tree.push((directory, files));
    }
    Ok(tree)
}

async fn copy(fs: Rc<Ufs>, home: Rc<UserTree>, tree: Rc<Vec<DirectoryFiles>>) -> Result<()> {
    for (from, files) in &*tree {
        let to = fs.make_directory(Some(&home.top)).await?;
        for file in files {
            fs.open(from, file).await?;
            fs.read(file, 0..file.len).await?;
            fs.create(&to, file.len).await?;
        }
    }
    Ok(())
}

async fn remove(fs: Rc<Ufs>, home: Rc<UserTree>, tree: Rc<Vec<DirectoryFiles>>) -> Result<()> {
    for (directory, files) in &*tree {
        for file in files {
            fs.remove(directory, file).await?;
        }
        fs.remove_directory(&home.top, directory).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::{CacheSetup, CacheShape, virtually};

    fn on(shape: CacheShape, users: u64) -> [ProgramPhase; 3] {
        virtually(move |rt| async move {
            let opened = CacheSetup::of(shape).open(&rt).await?;
            phases(&rt, opened, users, 8).await
        })
        .unwrap()
    }

    /// Returns the share of the written requests that have this length.
    fn share(phase: &ProgramPhase, bytes: u64) -> f64 {
        let writes: Vec<_> = phase
            .requests
            .iter()
            .filter(|request| request.kind == UfsRequestKind::Write)
            .collect();
        let found = writes.iter().filter(|request| request.bytes == bytes);
        found.count() as f64 / writes.len() as f64
    }

    #[test]
    fn a_remove_writes_inodes_and_directories_equally_often() {
        let [_, _, remove] = on(CacheShape::Plain, 2);
        assert!((share(&remove, 8192) - 0.5).abs() < 0.15);
        assert!(share(&remove, 1024) > 0.2);
    }

    #[test]
    fn every_layout_gets_identical_requests_and_free_writes_are_the_fastest() {
        let [plain, logical, free] =
            [CacheShape::Plain, CacheShape::Logical, CacheShape::Free].map(|shape| on(shape, 2));
        for (n, name) in PHASES.iter().enumerate() {
            // Inodes may lie in other blocks when another user is first.
            let ratio = plain[n].requests.len() as f64 / logical[n].requests.len() as f64;
            assert!((0.98..1.02).contains(&ratio), "{name}: {ratio}");
            assert_eq!(plain[n].processor, logical[n].processor, "{name}");
            assert!(plain[n].seconds > logical[n].seconds, "{name}");
            // Reads come in another order, which may save a rotation of the disk now and then.
            assert!(logical[n].seconds > 0.9 * free[n].seconds, "{name}");
        }
    }

    #[test]
    fn runs_are_deterministic() {
        let times = || on(CacheShape::Physical, 2).map(|phase| phase.seconds);
        assert_eq!(times(), times());
    }
}
