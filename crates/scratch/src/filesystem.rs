//! The trial with a real filesystem: ext4 on a loop device.
//!
//! First with its journal and default options, as on most machines of today. On an emulated disk of the nineties, a
//! second table has ext4 as filesystems were used then ([`FilesystemVariant::Synchronous`]). The crash test is part of
//! the first.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_rng::Rng;

use super::context::TryContext;
use super::drive::ScratchVolume;
use super::phases::{everyday, of_paper};
use super::raw_server::{RawAccess, RawServer};
use super::report::{PhaseTimes, TryReport};
use super::setup::{StorageSetup, StorageShape, TriedVolume, move_home};
use super::system::{ImageLoop, ScratchImage, ToolMount, check_filesystem, make_filesystem, trim};
use super::users::USUAL;
use super::variant::FilesystemVariant;
use super::writers::{SyncedFiles, write_and_fsync};
use crate::tree::digests;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// Time that users write before the daemon is killed.
const WRITING: Duration = Duration::from_secs(2);

pub(super) fn run(
    context: &TryContext,
    shapes: &[StorageShape],
    report: &mut TryReport,
) -> CommandResult {
    let at = context.scratch.subdir("mnt")?;
    let is_cache = shapes.contains(&StorageShape::Physical);
    let variants = match &context.disk {
        Some(_) if is_cache => &FilesystemVariant::ALL[..],
        _ => &FilesystemVariant::ALL[..1],
    };
    for variant in variants.iter().copied() {
        report.table(introduction(variant, is_cache));
        for shape in shapes.iter().copied() {
            let (column, users) = (shape.column(), context.users);
            result_line!("{}, {column}: {users} users work on it", variant.name());
            let setup = StorageSetup::new(context, shape, Some(variant))?;
            let times = match setup.volume(context, shape)? {
                None => plain(context, variant, report, &setup, &at)?,
                Some(volume) => {
                    let (setup, volume) = (&setup, &volume);
                    let tried = TriedVolume {
                        shape,
                        setup,
                        volume,
                    };
                    cached(context, variant, report, tried, &at)?
                }
            };
            report.times(column, times);
            setup.remove(context);
        }
    }
    Ok(())
}

/// Returns the lines above a table: its filesystem, and which machines it resembles.
fn introduction(variant: FilesystemVariant, is_cache: bool) -> Vec<String> {
    let filesystem = match variant {
        FilesystemVariant::Journal => {
            "All columns: ext4 with its journal and default options. Most machines of today resemble this."
        }
        FilesystemVariant::Synchronous => {
            "The setting of the paper (1999). All columns: ext4 WITHOUT a journal, mounted with dirsync, so that each \
             change of a directory is a write of its own. A machine of today hardly resembles this."
        }
    };
    let mut lines = vec![filesystem.to_owned()];
    if is_cache && variant == FilesystemVariant::Journal {
        let legend = "log on disk: a write cache whose log is a part of the same disk (logical DCD). log on 2nd: its \
                      log is a second disk of the same kind (physical DCD).";
        lines.push(legend.into());
    }
    lines
}

pub(super) fn plain(
    context: &TryContext,
    variant: FilesystemVariant,
    report: &mut TryReport,
    setup: &StorageSetup,
    at: &Path,
) -> CommandResult<PhaseTimes> {
    if context.disk.is_none() {
        let direct = ImageLoop::over(&setup.data)?;
        return work(context, variant, direct.device(), at);
    }
    let access = RawAccess::Loop(context.scratch.subdir("run")?);
    let server = RawServer::start(&setup.spec, access)?;
    let times = work(context, variant, &server.at().display().to_string(), at)?;
    context.note_lateness(report, server.stop()?);
    Ok(times)
}

fn cached(
    context: &TryContext,
    variant: FilesystemVariant,
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
        make_filesystem(&whole, len, variant)?;
    }
    let times = work(context, variant, &device, at)?;
    if shape.is_killed() && variant.has_journal() {
        let mount = ToolMount::new(&device, at.to_owned(), USUAL)?;
        let promised = crash(context, volume, mount.path())?;
        mount.unmount()?;
        recover(context, report, tried, at, &promised)?;
    } else {
        move_home(report, shape, volume)?;
        let alone = ImageLoop::over(&setup.data)?;
        let what = format!("fsck reports the data disk clean ({})", shape.column());
        report.check(what, check_filesystem(alone.device()));
    }
    Ok(times)
}

/// Runs the measured phases; each ends with a sync of the filesystem.
fn work(
    context: &TryContext,
    variant: FilesystemVariant,
    device: &str,
    at: &Path,
) -> CommandResult<PhaseTimes> {
    if let Some(percent) = context.filled {
        let mount = ToolMount::new(device, at.to_owned(), USUAL)?;
        fill(context, mount.path(), percent)?;
        mount.unmount()?;
    }
    let mount = ToolMount::new(device, at.to_owned(), variant.options())?;
    let times = match variant {
        FilesystemVariant::Journal => everyday(context, mount.path())?,
        FilesystemVariant::Synchronous => of_paper(context, mount.path())?,
    };
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
