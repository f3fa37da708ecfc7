//! The trial with a real filesystem: ext4 on a loop device.
//!
//! On an emulated disk of the nineties, ext4 is used as filesystems were used then: without a journal, and with
//! synchronous changes of directories (`dirsync`). A journal is itself a log that gathers small writes, so a cache
//! gains little for a filesystem with a journal, except for later destaging. The crash test is different: before the
//! daemon is killed, the filesystem gets a journal.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_rng::Rng;

use super::context::TryContext;
use super::drive::ScratchVolume;
use super::raw_server::{RawAccess, RawServer};
use super::report::{PhaseTimes, TryReport};
use super::setup::{StorageSetup, StorageShape, TriedVolume, move_home};
use super::system::{
    ImageLoop, ScratchImage, ToolMount, add_journal, check_filesystem, make_filesystem, trim,
};
use super::users::{SYNCHRONOUS, USUAL, together};
use super::writers::{SyncedFiles, write_and_fsync, write_durably};
use crate::tree::{GeneratedTree, digests};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// Time that users write before the daemon is killed.
const WRITING: Duration = Duration::from_secs(2);
/// Files of each user's tree, about as many as in the paper's tree.
const FILES: u32 = 500;
/// Files that each user writes with fsync in the measured phase.
const MAILS: u32 = 100;
pub(super) fn run(
    context: &TryContext,
    shapes: &[StorageShape],
    report: &mut TryReport,
) -> CommandResult {
    let at = context.scratch.subdir("mnt")?;
    for shape in shapes.iter().copied() {
        result_line!("{}: {} users work on it", shape.name(), context.users);
        let setup = StorageSetup::new(context, shape, true)?;
        let times = match setup.volume(context, shape)? {
            None => plain(context, report, &setup, &at)?,
            Some(volume) => {
                let (setup, volume) = (&setup, &volume);
                let tried = TriedVolume {
                    shape,
                    setup,
                    volume,
                };
                cached(context, report, tried, &at)?
            }
        };
        report.times(shape.name(), times);
        setup.remove(context);
    }
    Ok(())
}

pub(super) fn plain(
    context: &TryContext,
    report: &mut TryReport,
    setup: &StorageSetup,
    at: &Path,
) -> CommandResult<PhaseTimes> {
    if context.disk.is_none() {
        let direct = ImageLoop::over(&setup.data)?;
        return work(context, direct.device(), at);
    }
    let access = RawAccess::Loop(context.scratch.subdir("run")?);
    let server = RawServer::start(&setup.spec, access)?;
    let times = work(context, &server.at().display().to_string(), at)?;
    context.note_lateness(report, server.stop()?);
    Ok(times)
}

fn cached(
    context: &TryContext,
    report: &mut TryReport,
    tried: TriedVolume<'_>,
    at: &Path,
) -> CommandResult<PhaseTimes> {
    let TriedVolume {
        shape,
        setup,
        volume,
    } = tried;
    let device = volume.attach("loop")?;
    if !shape.is_in_front() {
        let len = volume.status()?.status.summary().len_bytes;
        let whole = ScratchImage {
            path: device.clone().into(),
            part: None,
        };
        make_filesystem(&whole, len, context.journal)?;
    }
    let times = work(context, &device, at)?;
    if shape.is_killed() {
        if context.disk.is_some() {
            add_journal(&device)?;
        }
        let mount = ToolMount::new(&device, at.to_owned(), USUAL)?;
        let promised = crash(context, volume, mount.path())?;
        mount.unmount()?;
        recover(context, report, tried, at, &promised)?;
    } else {
        move_home(report, shape, volume)?;
        let alone = ImageLoop::over(&setup.data)?;
        let what = format!("fsck reports the data of the {} clean", shape.name());
        report.check(what, check_filesystem(alone.device()));
    }
    Ok(times)
}

/// Runs the measured phases; each ends with a sync of the filesystem.
fn work(context: &TryContext, device: &str, at: &Path) -> CommandResult<PhaseTimes> {
    let options = if context.journal { USUAL } else { SYNCHRONOUS };
    if let Some(percent) = context.filled {
        let mount = ToolMount::new(device, at.to_owned(), USUAL)?;
        fill(context, mount.path(), percent)?;
        mount.unmount()?;
    }
    let mount = ToolMount::new(device, at.to_owned(), options)?;
    let times = phases(context, mount.path())?;
    mount.unmount()?;
    Ok(times)
}

/// Fills a filesystem with files of 64 KiB to halfway between `percent` and full. Then removes random files until
/// `percent` is in use, so that the free space is fragmented.
pub(super) fn fill(context: &TryContext, dir: &Path, percent: u8) -> CommandResult {
    result_line!("  filling it to {percent} %");
    let all = dir.join("filled");
    std::fs::create_dir(&all).map_err(CommandFailure::io)?;
    let used = || {
        let known = rustix::fs::statvfs(dir).map_err(CommandFailure::io)?;
        Ok::<f64, CommandFailure>(100.0 * (1.0 - known.f_bfree as f64 / known.f_blocks as f64))
    };
    let (numbers, percent) = (Rng::new(0), f64::from(percent));
    let mut there = Vec::new();
    while used()? < f64::midpoint(percent, 100.0) {
        context.stop.check()?;
        for _ in 0..16 {
            let path = all.join(there.len().to_string());
            std::fs::write(&path, numbers.bytes(64 << 10)).map_err(CommandFailure::io)?;
            there.push(path);
        }
    }
    let sync = || rustix::fs::syncfs(std::fs::File::open(dir)?).map_err(io::Error::from);
    sync().map_err(CommandFailure::io)?;
    while used()? > percent && !there.is_empty() {
        let chosen = numbers.below(there.len() as u64) as usize;
        std::fs::remove_file(there.swap_remove(chosen)).map_err(CommandFailure::io)?;
    }
    sync().map_err(CommandFailure::io)?;
    trim(dir);
    Ok(())
}

pub(super) fn phases(context: &TryContext, dir: &Path) -> CommandResult<PhaseTimes> {
    let (users, files) = (context.users, context.amount(FILES));
    let tree = |user: u32| GeneratedTree::generate(user.into(), files.into());
    let trees: Vec<GeneratedTree> = (0..users).map(tree).collect();
    let home = |user: u32| dir.join(format!("user{user}"));
    let mut times = PhaseTimes::new();
    let mut phase =
        |name: &'static str, each: &(dyn Fn(u32) -> io::Result<()> + Sync)| -> CommandResult {
            context.stop.check()?;
            let took = together(dir, users, each)
                .map_err(|error| CommandFailure::io(format!("{name} failed: {error}")))?;
            result_line!("  {name}: {:.3} s", took.as_secs_f64());
            times.push((name, took));
            Ok(())
        };
    phase("untar, then sync", &|user| {
        trees[user as usize].unpack(&home(user).join("tree"))
    })?;
    phase("copy, then sync", &|user| {
        trees[user as usize].copy(&home(user).join("tree"), &home(user).join("copy"))
    })?;
    phase("remove, then sync", &|user| {
        std::fs::remove_dir_all(home(user).join("tree"))
    })?;
    let mails = context.amount(MAILS);
    phase("small files, fsync each", &|user| {
        let mail = home(user).join("mail");
        std::fs::create_dir_all(&mail)?;
        let content = [user as u8; 4096];
        (0..mails).try_for_each(|n| write_durably(&mail.join(n.to_string()), &content))
    })?;
    Ok(times)
}

/// Kills the daemon while users write. Returns the files that were synced.
pub(super) fn crash(
    context: &TryContext,
    volume: &ScratchVolume,
    at: &Path,
) -> CommandResult<SyncedFiles> {
    result_line!("killing the daemon while {} users write", context.users);
    let dir = at.join("crash");
    for user in 0..context.users {
        std::fs::create_dir_all(dir.join(format!("user{user}"))).map_err(CommandFailure::io)?;
    }
    rustix::fs::syncfs(std::fs::File::open(&dir).map_err(CommandFailure::io)?)
        .map_err(CommandFailure::io)?;
    let (promised, stop) = (SyncedFiles::default(), AtomicBool::new(false));
    let killed = std::thread::scope(|scope| {
        for user in 0..context.users {
            let (dir, promised, stop) = (&dir, &promised, &stop);
            scope.spawn(move || write_and_fsync(dir, user, promised, stop));
        }
        let until = Instant::now() + WRITING;
        while Instant::now() < until && !context.stop.is_set() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let killed = volume.kill();
        stop.store(true, Ordering::Relaxed);
        killed
    });
    killed?;
    context.stop.check()?;
    result_line!("  killed; {} files were fsynced by then", promised.len());
    Ok(promised)
}

fn recover(
    context: &TryContext,
    report: &mut TryReport,
    tried: TriedVolume<'_>,
    at: &Path,
    promised: &SyncedFiles,
) -> CommandResult {
    let TriedVolume {
        shape,
        setup,
        volume,
    } = tried;
    result_line!("recovering");
    let started = Instant::now();
    let device = volume.attach("loop")?;
    report.note(format!(
        "recovery took {:.3} s",
        started.elapsed().as_secs_f64()
    ));
    // Mounting replays the filesystem's own journal; otherwise fsck would report a pending journal.
    let mount = ToolMount::new(&device, at.to_owned(), USUAL)?;
    check_promises(report, "the recovered volume", mount.path(), promised);
    let found = digests(mount.path()).map_err(CommandFailure::io)?;
    mount.unmount()?;
    report.check(
        "fsck reports the filesystem clean",
        check_filesystem(&device),
    );
    context.stop.check()?;
    move_home(report, shape, volume)?;
    if !shape.is_in_front() {
        report.check("`forebay check` reports the volume clean", volume.check());
        return Ok(());
    }
    result_line!("mounting the data image alone");
    let alone = ImageLoop::over(&setup.data)?;
    report.check(
        "fsck reports the image alone clean",
        check_filesystem(alone.device()),
    );
    let mount = ToolMount::new(alone.device(), at.to_owned(), USUAL)?;
    check_promises(report, "the data image alone", mount.path(), promised);
    let image = digests(mount.path()).map_err(CommandFailure::io)?;
    report.expect(
        format!(
            "all {} files on the image alone equal those on the volume",
            found.len()
        ),
        image == found,
        "they differ",
    );
    mount.unmount()
}

pub(super) fn check_promises(
    report: &mut TryReport,
    place: &str,
    dir: &Path,
    promised: &SyncedFiles,
) {
    let broken = promised.broken(&dir.join("crash"));
    let example = broken.first().map(|path| path.display().to_string());
    report.expect(
        format!("all {} fsynced files are intact in {place}", promised.len()),
        broken.is_empty() && promised.len() > 0,
        &format!(
            "{} are not, for example {}",
            broken.len(),
            example.unwrap_or_default()
        ),
    );
}
