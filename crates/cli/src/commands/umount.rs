//! `forebay umount`: unmounts a filesystem, and waits until its daemon has made all data durable.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::client::{self, DaemonClient};
use crate::dirs::{ProgramDirs, mount_point};
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_command_output::result_line;
use forebay_control::{ConnectError, ControlRequest, ProcessHandle};
use forebay_fuse::FuseMount;
use forebay_volume::VolumeName;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::drain::drained;
use crate::args::UmountArgs;
use crate::lock::cut_off_killed;

/// Time for a daemon to exit after it reported completion.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// Time for each daemon to answer when all daemons are asked. A status request never waits for a device.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &UmountArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let found = mounted(&dirs, &args.what);
    if args.force {
        return by_force(&dirs, &args.what, found);
    }
    match found? {
        Some((name, client)) => in_order(&name, client),
        None => clear_dead(&dirs, &args.what),
    }
}

/// Unmounts a filesystem that is not in use.
fn in_order(name: &VolumeName, mut client: DaemonClient) -> CommandResult {
    let pid = client.pid()?;
    let process = ProcessHandle::open(pid);
    let request = ControlRequest::Detach { keep_dirty: false };
    let done = drained(&mut client, &request, format!("unmounting {name}"))?;
    if process.is_some_and(|process| !process.wait(END_PATIENCE)) {
        return Err(CommandFailure::general(format!(
            "{name} is unmounted, but its daemon (process {pid}) does not end; its device may still be in use"
        )));
    }
    if let Some(why) = done.incomplete {
        return Err(CommandFailure::io(format!(
            "{name} is unmounted, but is not complete: {why}"
        )));
    }
    result_line!("{name} is unmounted; its device needs no recovery");
    Ok(())
}

/// Returns the mounted filesystem with that name, or in that directory.
fn mounted(dirs: &ProgramDirs, what: &Path) -> CommandResult<Option<(VolumeName, DaemonClient)>> {
    let named = what
        .to_str()
        .and_then(|text| text.parse::<VolumeName>().ok());
    if let Some(name) = named
        && let Ok(mut client) = client::try_within(dirs, &name, PATIENCE)
    {
        if !client.status()?.service.is_filesystem() {
            return Err(CommandFailure::usage(format!(
                "{name} is a block device: stop it with: forebay detach {name}"
            )));
        }
        let client = client::connect(dirs, &name)?;
        return Ok(Some((name, client)));
    }
    let dir = mount_point(what);
    let mut silent = None;
    for name in dirs.attached_names() {
        let asked = match client::try_within(dirs, &name, PATIENCE) {
            Ok(mut client) => client.status().map(|report| (report, client)),
            Err(ConnectError::NotAttached | ConnectError::Dead) => continue,
            Err(ConnectError::Failed(failure)) => Err(failure),
        };
        match asked {
            Ok((report, client))
                if report.service.mounted.as_ref().map(PathBuf::from).as_ref() == Some(&dir) =>
            {
                drop(client);
                let client = client::connect(dirs, &name)?;
                return Ok(Some((name, client)));
            }
            Ok(_) => {}
            // The daemon may serve another filesystem than the requested one.
            Err(failure) => silent = Some(failure),
        }
    }
    silent.map_or(Ok(None), |error| Err(error.into()))
}

/// Unmounts a filesystem that is in use, or whose daemon does not answer. First writes back the cached data of the
/// kernel, as far as the daemon accepts it. Then the kernel ends all requests with errors, and the daemon closes the
/// volume.
fn by_force(
    dirs: &ProgramDirs,
    what: &Path,
    found: CommandResult<Option<(VolumeName, DaemonClient)>>,
) -> CommandResult {
    let (mut dir, mut process, answers) = (directory(dirs, what), None, found.is_ok());
    match found {
        Ok(None) => return clear_dead(dirs, what),
        Ok(Some((name, mut client))) => {
            process = ProcessHandle::open(client.pid()?);
            dir = client.status()?.service.mounted.map_or(dir, PathBuf::from);
            match in_order(&name, client) {
                Err(failure) if failure.code == FailureCode::Refused => {}
                done => return done,
            }
        }
        Err(failure) if failure.code != FailureCode::Io || !is_mounted(&dir)? => {
            return Err(failure);
        }
        Err(_) => {}
    }
    if answers {
        write_back(&dir);
    }
    let cannot = |error: Errno| {
        let advice = match error {
            Errno::PERM => "; only root can unmount a filesystem in use",
            _ => "",
        };
        CommandFailure::io(format!("cannot unmount {}: {error}{advice}", dir.display()))
    };
    let unmount = |flags| rustix::mount::unmount(&dir, flags | UnmountFlags::NOFOLLOW);
    match unmount(UnmountFlags::FORCE) {
        // The connection is cut, and the filesystem is still in use. Its daemon unmounts it then.
        Ok(()) | Err(Errno::BUSY | Errno::INVAL) => {}
        Err(error) => return Err(cannot(error)),
    }
    let ended = process.is_some_and(|process| process.wait(END_PATIENCE));
    if is_mounted(&dir)? {
        unmount(UnmountFlags::DETACH).map_err(cannot)?;
    }
    let closed = if ended {
        "data written before is kept"
    } else {
        "its daemon has not ended: flushed data is kept"
    };
    result_line!(
        "{} is unmounted by force; its users get errors, and {closed}",
        dir.display()
    );
    Ok(())
}

/// Makes the kernel write back its cached data of the filesystem. Waits at most [`END_PATIENCE`]: on a failing device
/// the write-back may never end.
fn write_back(dir: &Path) {
    let (sender, receiver) = mpsc::channel();
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let synced = File::open(&dir).map(|dir| rustix::fs::syncfs(&dir));
        let _ = sender.send(synced);
    });
    let _ = receiver.recv_timeout(END_PATIENCE);
}

/// Returns true if a FUSE filesystem is mounted on this directory.
fn is_mounted(dir: &Path) -> CommandResult<bool> {
    let mounts = forebay_linux::mounts().map_err(CommandFailure::io)?;
    let mut there = mounts.iter().filter(|mount| mount.point == dir);
    Ok(there.any(|mount| mount.fstype == forebay_fuse::FUSE_TYPE))
}

/// Returns the mount directory of the volume with that name, or the argument as a directory.
fn directory(dirs: &ProgramDirs, what: &Path) -> PathBuf {
    let named = what
        .to_str()
        .and_then(|text| text.parse::<VolumeName>().ok());
    let noted = named.and_then(|name| dirs.noted_mount(&name));
    noted.unwrap_or_else(|| mount_point(what))
}

/// Removes a mount that a killed daemon left behind.
fn clear_dead(dirs: &ProgramDirs, what: &Path) -> CommandResult {
    let dir = directory(dirs, what);
    let mounts = forebay_linux::mounts().map_err(CommandFailure::io)?;
    let there = mounts.iter().rev().find(|mount| mount.point == dir);
    let cleared = match there {
        Some(mount) => {
            let source = mount.source.to_string_lossy();
            let name = source.parse::<VolumeName>();
            let dead = FuseMount::at(dir.clone(), &source);
            name.is_ok_and(|name| cut_off_killed(dirs, &name))
                || dead.clear_dead().map_err(|error| {
                    CommandFailure::io(format!("cannot unmount {}: {error}", dir.display()))
                })?
        }
        None => false,
    };
    if !cleared {
        return Err(CommandFailure::not_found(format!(
            "no Forebay filesystem is mounted at {}; see `forebay list`. If it was unmounted while in use, give its \
             name",
            dir.display()
        )));
    }
    result_line!(
        "{} is unmounted; its daemon had ended before, and the next mount recovers the flushed data",
        dir.display()
    );
    Ok(())
}
