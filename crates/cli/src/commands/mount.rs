//! `forebay mount`: recovers a filesystem and mounts it, in the foreground or in the background.

use std::ffi::OsString;
use std::path::Path;

use crate::dirs::mount_point;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_volume::{FILESYSTEM, MountOptions};

use crate::args::{AcceptArgs, MountArgs, TargetArgs};
use crate::daemon::{self, MountRequest, ServingArgs};

/// Mounts the filesystem. `args` are the relevant arguments of this process; the daemon process is started with them.
pub(crate) fn run(mut mount: MountArgs, args: Vec<OsString>) -> CommandResult {
    let mut words = words(&mut mount)?;
    let is_remount = words.iter().any(|word| word == "remount");
    if is_remount {
        // `mount -o remount` also passes the options that the mount table shows.
        words.retain(|word| word != "remount" && !is_of_fuse(word));
    }
    let options = if mount.options.is_empty() {
        None
    } else {
        Some(
            words
                .join(",")
                .parse::<MountOptions>()
                .map_err(CommandFailure::usage)?,
        )
    };
    if mount.fake {
        return Ok(());
    }
    if is_remount {
        return remount(&mount, options.unwrap_or_default());
    }
    if !mount.foreground {
        return daemon::in_background(args, mount.quiet);
    }
    daemon::in_foreground(ServingArgs {
        target: target(&mount.source)?,
        options: mount.serve.values,
        accept: AcceptArgs {
            accept_loss: mount.accept_loss,
            accept_changed: false,
        },
        daemon: mount.daemon,
        mount: Some(MountRequest {
            dir: mount.dir,
            options,
        }),
    })
}

/// Returns true if the kernel's FUSE shows this option in the mount table.
fn is_of_fuse(word: &str) -> bool {
    const KEYS: [&str; 6] = [
        "fd", "rootmode", "user_id", "group_id", "max_read", "blksize",
    ];
    let key = word.split_once('=').map(|(key, _)| key);
    key.is_some_and(|key| KEYS.contains(&key))
}

/// Changes the access options of an existing mount. The kernel keeps these options. The options that the daemon
/// implements (which reads update access times, when data becomes durable) change only with the next mount.
fn remount(mount: &MountArgs, options: MountOptions) -> CommandResult {
    let dir = mount.dir.as_deref().ok_or_else(|| {
        CommandFailure::usage(
            "no directory to remount: give it with forebay mount -o remount,… NAME DIR",
        )
    })?;
    let dir = mount_point(dir);
    let mounts = forebay_linux::mounts().unwrap_or_default();
    // The last mount on a directory covers the earlier ones.
    let top = mounts.iter().rfind(|mount| mount.point == dir);
    let source = mount.source.as_str();
    let is_it = |mount: &&forebay_linux::MountEntry| {
        // The mount table contains names of volumes, not devices.
        let is_named = source.contains('/') || mount.source == Path::new(source);
        mount.fstype == forebay_fuse::FUSE_TYPE && is_named
    };
    if top.is_none_or(|mount| !is_it(&mount)) {
        return Err(CommandFailure::not_found(format!(
            "{source} is not mounted at {}: `forebay list` shows the mounted filesystems",
            dir.display()
        )));
    }
    let flags = daemon::mount_flags(&options);
    forebay_fuse::FuseMount::at(dir.clone(), &mount.source)
        .remount(flags)
        .map_err(|error| CommandFailure::io(format!("cannot remount {}: {error}", dir.display())))
}

/// Decodes the source: a name, or a device if it contains a slash.
fn target(source: &str) -> CommandResult<TargetArgs> {
    if source.contains('/') {
        let mut target = TargetArgs::default();
        let data = source.parse().map_err(CommandFailure::usage)?;
        target.devices.set(FILESYSTEM.own_role, data);
        return Ok(target);
    }
    Ok(TargetArgs {
        name: Some(source.parse()?),
        ..TargetArgs::default()
    })
}

/// Returns the words of `-o` that are not options of this command. Stores the options of this command in `mount`, as if
/// they were given on the command line.
fn words(mount: &mut MountArgs) -> CommandResult<Vec<String>> {
    let all = mount.options.join(",");
    let mut words = Vec::new();
    for word in all.split(',') {
        if word == "accept-loss" {
            mount.accept_loss = true;
            continue;
        }
        let is_set = match word.split_once('=') {
            Some((key, value)) => mount.serve.set(key, value).map_err(|error| {
                CommandFailure::usage(format!("the mount option \"{word}\": {error}"))
            })?,
            None => false,
        };
        if !is_set {
            words.push(word.into());
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn mount(args: &[&str]) -> MountArgs {
        let all = ["forebay", "mount"].iter().chain(args);
        match Cli::parse_from(all).command {
            CliCommand::Mount(mount) => mount,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_o_option_of_mount_accepts_command_line_options() {
        let mut args = mount(&[
            "a",
            "/mnt",
            "-o",
            "ro,memory=100MiB",
            "-o",
            "accept-loss,_netdev",
        ]);
        assert_eq!(words(&mut args).unwrap(), ["ro", "_netdev"]);
        assert!(args.serve.values.text("memory").is_some() && args.accept_loss);
        let mut wrong = mount(&["a", "/mnt", "-o", "memory=much"]);
        let error = words(&mut wrong).unwrap_err().text;
        assert!(error.contains("memory=much"), "{error}");
    }

    #[test]
    fn a_mount_source_with_a_slash_is_a_device_and_others_are_volume_names() {
        assert!(target("/dev/sdb").unwrap().devices.get("data").is_some());
        assert!(target("./image").unwrap().devices.get("data").is_some());
        assert!(target("archive").unwrap().name.is_some());
        assert!(target("no name").is_err());
    }
}
