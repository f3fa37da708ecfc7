//! `forebay replace-log`: gives an attached or detached write cache another log.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use forebay_control::{ConnectError, ControlRequest, LogReplacedReply, NewLogRequest};
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    BOOT, BootAttach, ConfigFile, DeviceSpec, Layer, NewLog, OpenContext, VolumeName, open_one,
};

use super::detached::on_locked_volume;
use super::drain::drained;
use crate::args::{ReplaceLogArgs, TargetArgs};
use crate::client::{self, DaemonClient};
use crate::dirs::{ProgramDirs, check_log, name_log};
use crate::dirty_logs::dirty_logs_over;
use crate::lock::NameLock;
use crate::log_file;
use crate::new_log::{LogOwner, LogRequest, follow as follow_former, replace_log};
use crate::report::DaemonReply;
use crate::run::on_ring;
use crate::stable_path::stable;
use crate::target::VolumeTarget;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::DrainProgress;
use forebay_command_output::result_line;

pub(crate) fn run(args: ReplaceLogArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let mut client = match client::try_connect(&dirs, &args.name) {
        Ok(client) => Some(client),
        Err(ConnectError::Failed(failure)) => return Err(failure.into()),
        Err(ConnectError::NotAttached | ConnectError::Dead) => None,
    };
    // The daemon has another working directory.
    let path = std::path::absolute(args.log.path()).map_err(CommandFailure::io)?;
    let log = args.log.at(path);
    let made = log_file::make_if_missing(&log, args.log_size, args.sparse, None)?;
    let name = args.name.clone();
    prepare(&args, &log, &dirs, client.as_mut())
        .inspect_err(|_| discard(made.as_deref(), &dirs, &name))?;
    let replaced = if let Some(client) = &mut client {
        attached(client, &args, &log)
    } else {
        let (log, config) = (log.clone(), dirs.clone());
        let replaced = on_ring(move |rt, ring| detached(args, log, dirs, rt, ring));
        replaced.inspect_err(|_| discard(made.as_deref(), &config, &name))
    }?;
    print_result(&name, &replaced);
    follow(&ProgramDirs::new()?, &name, &replaced.log)
}

/// Removes a log file that this command made for a volume that no daemon serves, and that the volume does not use: a
/// second attempt must start from the same state.
fn discard(made: Option<&Path>, dirs: &ProgramDirs, name: &VolumeName) {
    let Some(made) = made else { return };
    let own = fs::canonicalize(made).ok();
    let is_used = |described: ConfigFile| {
        let log = described.tree.log().cloned();
        log.and_then(|log| fs::canonicalize(log.path()).ok()) == own
    };
    if dirs
        .description(name)
        .is_ok_and(|described| !is_used(described))
    {
        let _ = fs::remove_file(made);
    }
}

/// Names the new log in the configuration file that this command reads, if the daemon has another file: the daemon of a
/// root filesystem has a copy in memory.
fn follow(dirs: &ProgramDirs, name: &VolumeName, log: &str) -> CommandResult {
    let Ok(described) = dirs.description(name) else {
        return Ok(());
    };
    let log: DeviceSpec = log.parse().map_err(CommandFailure::general)?;
    if described.tree.log() != Some(&log) {
        name_log(&dirs.description_file(name), name, &log)?;
    }
    if described.service.get(&BOOT) == Some(BootAttach::On) {
        eprintln!(
            "forebay: the initramfs still names the former log: make it again before the next boot, with \
             `update-initramfs -u` or `dracut --force`"
        );
    }
    Ok(())
}

/// Does everything that leaves the log as it is: the checks, and a drain.
fn prepare(
    args: &ReplaceLogArgs,
    log: &DeviceSpec,
    dirs: &ProgramDirs,
    client: Option<&mut DaemonClient>,
) -> CommandResult {
    check_others(args, log, dirs)?;
    outlast_readers(log)?;
    let Some(client) = client else { return Ok(()) };
    let drain = ControlRequest::Drain { timeout_ms: None };
    drained(client, &drain, format!("draining {}", args.name)).map(drop)
}

/// Refuses a device that other volumes need, unless `--force` is given.
fn check_others(args: &ReplaceLogArgs, log: &DeviceSpec, dirs: &ProgramDirs) -> CommandResult {
    let (log, dirs, name) = (log.clone(), dirs.clone(), args.name.clone());
    let others = on_ring(move |rt, ring| async move {
        let records = dirs.state().ok().map(|state| FailedLogDir::new(&rt, state));
        Ok(dirty_logs_over(&[&log], Some(&name), &dirs, records.as_ref(), &rt, &ring).await)
    })?;
    for why in others {
        if !args.force {
            return Err(CommandFailure::refused(why));
        }
        eprintln!("forebay: {why}: continuing without it (--force)");
    }
    Ok(())
}

/// Waits for programs that only read the new log, by opening and closing it. A daemon must not wait for them.
fn outlast_readers(log: &DeviceSpec) -> CommandResult {
    let log = log.clone();
    on_ring(|rt, ring| async move {
        let options = DeviceOpenOptions::existing().outlasting_readers();
        let context = OpenContext {
            rt: &rt,
            ring: &ring,
            options,
        };
        // The daemon, which also knows the devices of the volume, reports errors.
        let _ = open_one(context, &log);
        Ok(())
    })
}

/// Sends the request to the daemon that serves it.
fn attached(
    client: &mut DaemonClient,
    args: &ReplaceLogArgs,
    log: &DeviceSpec,
) -> CommandResult<LogReplacedReply> {
    let name = &args.name;
    let request = ControlRequest::ReplaceLog(NewLogRequest {
        log: log.to_string(),
        segment: args.segment.map(|segment| segment.0),
        sparse: args.sparse,
        force: args.force,
    });
    let mut progress = DrainProgress::new(format!("replacing the log of {name}"));
    let reply = client.ask(&request, |left| progress.set(left));
    progress.finish();
    match reply? {
        DaemonReply::LogReplaced(replaced) => Ok(replaced),
        reply => Err(client.unexpected(&reply).into()),
    }
}

/// Replaces the log of a volume that no daemon serves.
async fn detached(
    args: ReplaceLogArgs,
    log: DeviceSpec,
    dirs: ProgramDirs,
    rt: Rt,
    ring: Rc<IoRing>,
) -> CommandResult<LogReplacedReply> {
    let target = TargetArgs {
        name: Some(args.name),
        ..TargetArgs::default()
    };
    let target = VolumeTarget::find(&target, &dirs, &rt, &ring).await?;
    // Before the volume is recovered.
    NewLog::check_owner(&target.tree)?;
    let wanted = LogRequest {
        log,
        segment: args.segment,
        sparse: args.sparse,
        force: args.force,
    };
    let lock = NameLock::take(&dirs, &target.name)?;
    if target.is_described(&dirs) {
        // Before a device is changed.
        let file = dirs.description_file(&target.name);
        check_log(&file, &target.name, &stable(&wanted.log)?)?;
    }
    let owned = target.clone();
    let owner = LogOwner {
        rt: &rt,
        ring: &ring,
        dirs: &dirs,
        target: &owned,
    };
    if let Some(former) = owner.former_log().await? {
        let made = lock.patiently(&rt, async || follow_former(owner, &former, &wanted).await);
        return made.await;
    }
    let replace = async |layer: &dyn Layer| replace_log(owner, layer, wanted).await;
    let worked = on_locked_volume(lock, target, &dirs, &rt, &ring, replace).await?;
    let (mut replaced, _) = worked.result;
    replaced.notes.splice(0..0, worked.notes);
    Ok(replaced)
}

fn print_result(name: &VolumeName, replaced: &LogReplacedReply) {
    for note in &replaced.notes {
        eprintln!("forebay: {note}");
    }
    result_line!(
        "{name} has the log {} now, {} before",
        replaced.log,
        replaced.former
    );
}
