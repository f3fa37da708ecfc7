//! With a real filesystem: ext4 on a loop device.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_units::ByteLen;

use super::report::Report;
use super::system::{Loop, Mount, check_filesystem, make_filesystem};
use super::tree::{Tree, digests};
use super::writers::{Promised, write_and_fsync, write_durably};
use super::{Context, Stop};
use crate::failure::{Failure, Outcome};
use crate::output::result_line;

/// How long users write before the daemon is killed.
const WRITING: Duration = Duration::from_secs(2);
/// Files each user writes with fsync in the measured phase.
const MAILS: u32 = 100;

type Times = Vec<(&'static str, Duration)>;

pub(super) fn run(context: &mut Context, report: &mut Report) -> Outcome {
    let at = context.scratch.subdir("mnt")?;
    result_line!(
        "without the cache: {} users work on {}",
        context.users,
        context.direct.display()
    );
    let without = {
        let direct = Loop::over(&context.direct)?;
        make_filesystem(direct.device())?;
        let mount = Mount::new(direct.device(), at.clone())?;
        let times = work(mount.path(), context.users, &context.stop)?;
        mount.unmount()?;
        times
    };
    result_line!("with the cache: {} users do the same", context.users);
    let device = context.volume.attach("loop")?;
    make_filesystem(&device)?;
    let mount = Mount::new(&device, at.clone())?;
    let with = work(mount.path(), context.users, &context.stop)?;
    report.times(without, with);
    let promised = crash(context, mount)?;
    recover(context, report, &at, &promised)
}

/// The measured phases; each ends with a sync of the filesystem.
fn work(dir: &Path, users: u32, stop: &Stop) -> Outcome<Times> {
    let trees: Vec<Tree> = (0..users).map(|user| Tree::generate(user.into())).collect();
    let home = |user: u32| dir.join(format!("user{user}"));
    let mut times = Times::new();
    let mut phase =
        |name: &'static str, each: &(dyn Fn(u32) -> io::Result<()> + Sync)| -> Outcome {
            stop.check()?;
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
    phase("100 files, fsync each", &|user| {
        let mail = home(user).join("mail");
        std::fs::create_dir_all(&mail)?;
        let content = [user as u8; 4096];
        (0..MAILS).try_for_each(|n| write_durably(&mail.join(n.to_string()), &content))
    })?;
    Ok(times)
}

/// All users at once, then a sync; how long both took.
fn together(
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
fn crash(context: &Context, mount: Mount) -> Outcome<Promised> {
    result_line!("killing the daemon while {} users write", context.users);
    let dir = mount.path().join("crash");
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
        let killed = context.volume.kill();
        stop.store(true, Ordering::Relaxed);
        killed
    });
    killed?;
    context.stop.check()?;
    result_line!("  killed; {} files were fsynced by then", promised.len());
    mount.unmount()?;
    Ok(promised)
}

fn recover(context: &mut Context, report: &mut Report, at: &Path, promised: &Promised) -> Outcome {
    result_line!("recovering");
    let started = Instant::now();
    let device = context.volume.attach("loop")?;
    report.note(format!(
        "recovery took {:.3} s",
        started.elapsed().as_secs_f64()
    ));
    // Mounting replays the filesystem's own journal; fsck would otherwise complain of it.
    let mount = Mount::new(&device, at.to_owned())?;
    check_promises(report, "the recovered volume", mount.path(), promised);
    let volume = digests(mount.path()).map_err(Failure::io)?;
    mount.unmount()?;
    report.check("fsck finds the filesystem clean", check_filesystem(&device));
    context.stop.check()?;
    let dirty = context.volume.status()?.dirty_bytes;
    let took = context.volume.detach()?;
    report.note(format!(
        "moving {} home and detaching took {:.3} s",
        ByteLen(dirty),
        took.as_secs_f64()
    ));
    result_line!("mounting the data image alone");
    let alone = Loop::over(context.volume.data())?;
    report.check(
        "fsck finds the image alone clean",
        check_filesystem(alone.device()),
    );
    let mount = Mount::new(alone.device(), at.to_owned())?;
    check_promises(report, "the data image alone", mount.path(), promised);
    let image = digests(mount.path()).map_err(Failure::io)?;
    report.expect(
        format!(
            "all {} files on the image alone are as on the volume",
            volume.len()
        ),
        image == volume,
        "they differ",
    );
    mount.unmount()
}

fn check_promises(report: &mut Report, place: &str, dir: &Path, promised: &Promised) {
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
