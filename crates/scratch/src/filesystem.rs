//! With a real filesystem: ext4 on a loop device.
//!
//! On an emulated disk of the nineties it is used as filesystems were then: without a journal, and
//! directories written at once when they change (`dirsync`). A journal is itself a log that gathers
//! small writes; on a disk that has one, the cache has little left to win but the moving home.
//! Surviving a crash is another matter: before the daemon is killed the filesystem gets a journal.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_rng::Rng;

use super::Context;
use super::drive::Volume;
use super::raw_server::{Access, RawServer};
use super::report::{Report, Times};
use super::setup::{Setup, Shape, move_home};
use super::system::{Image, Loop, Mount, add_journal, check_filesystem, make_filesystem, trim};
use super::writers::{Promised, write_and_fsync, write_durably};
use crate::tree::{Tree, digests};
use forebay_program::failure::{Failure, Outcome};
use forebay_program::result_line;

/// How long users write before the daemon is killed.
const WRITING: Duration = Duration::from_secs(2);
/// Files of each user's tree, about as many as the paper's has.
const FILES: u32 = 500;
/// Files each user writes with fsync in the measured phase.
const MAILS: u32 = 100;
/// With directories written at once when they change, as the paper's filesystem did, ...
pub(super) const SYNCHRONOUS: &str = "dirsync";
/// ... or as ext4 does it by itself.
pub(super) const USUAL: &str = "defaults";

pub(super) fn run(context: &Context, shapes: &[Shape], report: &mut Report) -> Outcome {
    let at = context.scratch.subdir("mnt")?;
    for shape in shapes.iter().copied() {
        result_line!("{}: {} users work on it", shape.name(), context.users);
        let setup = Setup::new(context, shape, true)?;
        let times = match setup.volume(context, shape)? {
            None => plain(context, report, &setup, &at)?,
            Some(volume) => cached(context, report, (shape, &setup, &volume), &at)?,
        };
        report.times(shape.name(), times);
        setup.remove(context);
    }
    Ok(())
}

pub(super) fn plain(
    context: &Context,
    report: &mut Report,
    setup: &Setup,
    at: &Path,
) -> Outcome<Times> {
    if context.disk.is_none() {
        let direct = Loop::over(&setup.data)?;
        return work(context, direct.device(), at);
    }
    let access = Access::Loop(context.scratch.subdir("run")?);
    let server = RawServer::start(&setup.spec, access)?;
    let times = work(context, &server.at().display().to_string(), at)?;
    context.note_lateness(report, server.stop()?);
    Ok(times)
}

fn cached(
    context: &Context,
    report: &mut Report,
    (shape, setup, volume): (Shape, &Setup, &Volume),
    at: &Path,
) -> Outcome<Times> {
    let device = volume.attach("loop")?;
    if !shape.is_in_front() {
        let len = volume.status()?.status.len_bytes();
        let whole = Image {
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
        let mount = Mount::new(&device, at.to_owned(), USUAL)?;
        let promised = crash(context, volume, mount.path())?;
        mount.unmount()?;
        recover(context, report, (shape, setup, volume), at, &promised)?;
    } else {
        move_home(report, shape, volume)?;
        let alone = Loop::over(&setup.data)?;
        let what = format!("fsck finds the data of the {} clean", shape.name());
        report.check(what, check_filesystem(alone.device()));
    }
    Ok(times)
}

/// The measured phases; each ends with a sync of the filesystem.
fn work(context: &Context, device: &str, at: &Path) -> Outcome<Times> {
    let options = if context.journal { USUAL } else { SYNCHRONOUS };
    if let Some(percent) = context.filled {
        let mount = Mount::new(device, at.to_owned(), USUAL)?;
        fill(context, mount.path(), percent)?;
        mount.unmount()?;
    }
    let mount = Mount::new(device, at.to_owned(), options)?;
    let times = phases(context, mount.path())?;
    mount.unmount()?;
    Ok(times)
}

/// Fills a filesystem half as far again as is asked for, with files of 64 KiB, and removes some of them here and there:
/// so what is free lies in between.
pub(super) fn fill(context: &Context, dir: &Path, percent: u8) -> Outcome {
    result_line!("  filling it to {percent} %");
    let all = dir.join("filled");
    std::fs::create_dir(&all).map_err(Failure::io)?;
    let used = || {
        let known = rustix::fs::statvfs(dir).map_err(Failure::io)?;
        Ok::<f64, Failure>(100.0 * (1.0 - known.f_bfree as f64 / known.f_blocks as f64))
    };
    let (numbers, percent) = (Rng::new(0), f64::from(percent));
    let mut there = Vec::new();
    while used()? < (percent + 100.0) / 2.0 {
        context.stop.check()?;
        for _ in 0..16 {
            let path = all.join(there.len().to_string());
            std::fs::write(&path, numbers.bytes(64 << 10)).map_err(Failure::io)?;
            there.push(path);
        }
    }
    let sync = || rustix::fs::syncfs(std::fs::File::open(dir)?).map_err(io::Error::from);
    sync().map_err(Failure::io)?;
    while used()? > percent && !there.is_empty() {
        let chosen = numbers.below(there.len() as u64) as usize;
        std::fs::remove_file(there.swap_remove(chosen)).map_err(Failure::io)?;
    }
    sync().map_err(Failure::io)?;
    trim(dir);
    Ok(())
}

pub(super) fn phases(context: &Context, dir: &Path) -> Outcome<Times> {
    let (users, files) = (context.users, context.amount(FILES));
    let tree = |user: u32| Tree::generate(user.into(), files.into());
    let trees: Vec<Tree> = (0..users).map(tree).collect();
    let home = |user: u32| dir.join(format!("user{user}"));
    let mut times = Times::new();
    let mut phase =
        |name: &'static str, each: &(dyn Fn(u32) -> io::Result<()> + Sync)| -> Outcome {
            context.stop.check()?;
            let took = together(dir, users, each)
                .map_err(|error| Failure::io(format!("{name} failed: {error}")))?;
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

/// All users at once, then a sync; how long both took.
pub(super) fn together(
    dir: &Path,
    users: u32,
    each: &(dyn Fn(u32) -> io::Result<()> + Sync),
) -> io::Result<Duration> {
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..users)
            .map(|user| scope.spawn(move || each(user)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a user panicked")))
        };
        threads
            .into_iter()
            .map(join)
            .collect::<io::Result<Vec<()>>>()
    })?;
    rustix::fs::syncfs(std::fs::File::open(dir)?)?;
    Ok(started.elapsed())
}

/// Kills the daemon while users write; returns what they were promised.
pub(super) fn crash(context: &Context, volume: &Volume, at: &Path) -> Outcome<Promised> {
    result_line!("killing the daemon while {} users write", context.users);
    let dir = at.join("crash");
    for user in 0..context.users {
        std::fs::create_dir_all(dir.join(format!("user{user}"))).map_err(Failure::io)?;
    }
    rustix::fs::syncfs(std::fs::File::open(&dir).map_err(Failure::io)?).map_err(Failure::io)?;
    let (promised, stop) = (Promised::default(), AtomicBool::new(false));
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
    context: &Context,
    report: &mut Report,
    (shape, setup, volume): (Shape, &Setup, &Volume),
    at: &Path,
    promised: &Promised,
) -> Outcome {
    result_line!("recovering");
    let started = Instant::now();
    let device = volume.attach("loop")?;
    report.note(format!(
        "recovery took {:.3} s",
        started.elapsed().as_secs_f64()
    ));
    // Mounting replays the filesystem's own journal; fsck would otherwise complain of it.
    let mount = Mount::new(&device, at.to_owned(), USUAL)?;
    check_promises(report, "the recovered volume", mount.path(), promised);
    let found = digests(mount.path()).map_err(Failure::io)?;
    mount.unmount()?;
    report.check("fsck finds the filesystem clean", check_filesystem(&device));
    context.stop.check()?;
    move_home(report, shape, volume)?;
    if !shape.is_in_front() {
        report.check("`forebay check` finds the volume clean", volume.check());
        return Ok(());
    }
    result_line!("mounting the data image alone");
    let alone = Loop::over(&setup.data)?;
    report.check(
        "fsck finds the image alone clean",
        check_filesystem(alone.device()),
    );
    let mount = Mount::new(alone.device(), at.to_owned(), USUAL)?;
    check_promises(report, "the data image alone", mount.path(), promised);
    let image = digests(mount.path()).map_err(Failure::io)?;
    report.expect(
        format!(
            "all {} files on the image alone are as on the volume",
            found.len()
        ),
        image == found,
        "they differ",
    );
    mount.unmount()
}

pub(super) fn check_promises(report: &mut Report, place: &str, dir: &Path, promised: &Promised) {
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
