//! `forebay umount`: unmount a filesystem, and wait for its daemon to have made all of it durable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_control::Request;
use forebay_program::client::{Absent, Client, Process};
use forebay_program::dirs::{Dirs, mount_point};
use forebay_program::failure::{Failure, Outcome};
use forebay_program::result_line;
use forebay_serve::fuse::Mount;
use forebay_stack::Name;

use super::drain::drained;
use crate::args::UmountArgs;

/// How long a daemon that said it is done may take to end.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// How long a daemon may take to answer when all are asked: it has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &UmountArgs) -> Outcome {
    let dirs = Dirs::new()?;
    let Some((name, mut client)) = mounted(&dirs, &args.what)? else {
        return clear_dead(&dirs, &args.what);
    };
    let pid = client.pid()?;
    let process = Process::open(pid);
    let request = Request::Detach { keep_dirty: false };
    let done = drained(&mut client, &request, format!("unmounting {name}"))?;
    if process.is_some_and(|process| !process.wait(END_PATIENCE)) {
        return Err(Failure::general(format!(
            "{name} is unmounted, but its daemon (process {pid}) does not end; its device may still be in use"
        )));
    }
    if let Some(why) = done.incomplete {
        return Err(Failure::io(format!(
            "{name} is unmounted, and is not complete: {why}"
        )));
    }
    result_line!("{name} is unmounted; there is nothing to recover on its device");
    Ok(())
}

/// The mounted filesystem of that name, or in that directory.
fn mounted(dirs: &Dirs, what: &Path) -> Outcome<Option<(Name, Client)>> {
    let named = what.to_str().and_then(|text| text.parse::<Name>().ok());
    if let Some(name) = named
        && let Ok(mut client) = Client::try_connect(dirs, &name)
    {
        if !client.status()?.service.is_filesystem() {
            return Err(Failure::usage(format!(
                "{name} is a block device: stop it with: forebay detach {name}"
            )));
        }
        return Ok(Some((name, client)));
    }
    let dir = mount_point(what);
    let mut silent = None;
    for name in dirs.attached_names() {
        let asked = match Client::try_within(dirs, &name, PATIENCE) {
            Ok(mut client) => client.status().map(|report| (report, client)),
            Err(Absent::NotAttached | Absent::Dead) => continue,
            Err(Absent::Failed(failure)) => Err(failure),
        };
        match asked {
            Ok((report, client))
                if report.service.mounted.as_ref().map(PathBuf::from).as_ref() == Some(&dir) =>
            {
                return Ok(Some((name, client)));
            }
            Ok(_) => {}
            // Perhaps not the one that is meant.
            Err(failure) => silent = Some(failure),
        }
    }
    silent.map_or(Ok(None), Err)
}

/// Takes away what a daemon that was killed left mounted.
fn clear_dead(dirs: &Dirs, what: &Path) -> Outcome {
    let named = what.to_str().and_then(|text| text.parse::<Name>().ok());
    let noted = named.and_then(|name| dirs.noted_mount(&name));
    let dir = noted.unwrap_or_else(|| mount_point(what));
    let mounts = forebay_os::mounts().map_err(Failure::io)?;
    let there = mounts.iter().rev().find(|mount| mount.point == dir);
    let cleared = match there {
        Some(mount) => {
            let dead = Mount::at(dir.clone(), &mount.source.to_string_lossy());
            dead.clear_dead().map_err(|error| {
                Failure::io(format!("cannot unmount {}: {error}", dir.display()))
            })?
        }
        None => false,
    };
    if !cleared {
        return Err(Failure::not_found(format!(
            "no filesystem of Forebay's is mounted at {}; see `forebay list`. One that was unmounted while in use is \
             known by its name",
            dir.display()
        )));
    }
    result_line!(
        "{} is unmounted; its daemon had ended before, and what was flushed is recovered by the next mount",
        dir.display()
    );
    Ok(())
}
