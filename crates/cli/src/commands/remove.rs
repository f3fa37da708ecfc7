//! `forebay remove`: moves all data to the data device, then erases the log and the configuration file. A volume
//! without a separate data device is erased completely.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_linux::{DeviceOpenOptions, IoRing, SignalReader};
use forebay_rt::Rt;
use forebay_volume::{AcceptedFaults, Layer, OpenContext, OpenVolume, SuperblockDevice};
use futures_util::future::{Either, select};

use crate::args::RemoveArgs;
use crate::dirs::ProgramDirs;
use crate::lock::NameLock;
use crate::report::left;
use crate::run::on_ring;
use crate::scrub_record::ScrubRecord;
use crate::target::VolumeTarget;
use crate::waiting;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_command_output::progress::DrainProgress;
use forebay_command_output::result_line;

/// Interval between two updates of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(args: RemoveArgs) -> CommandResult {
    on_ring(move |rt, ring| remove(rt, ring, args))
}

async fn remove(rt: Rt, ring: Rc<IoRing>, args: RemoveArgs) -> CommandResult {
    let signals = SignalReader::new(&ring).map_err(CommandFailure::io)?;
    let dirs = ProgramDirs::new()?;
    let target = VolumeTarget::find(&args.target, &dirs, &rt, &ring).await?;
    let lock = NameLock::take(&dirs, &target.name)?;
    let all = async || target.open_with_defaults(&rt, &ring);
    let (own, opened) = match lock.patiently(&rt, all).await {
        Ok(opened) => (opened.own(), Ok(opened)),
        Err(failure) => match own_alone(&target, &rt, &ring) {
            Ok(own) => (own, Err(failure)),
            Err(error) => return forget(&dirs, &target, &args, &error),
        },
    };
    let info = match own.inspect().await {
        Ok(info) => info,
        Err(error) => return forget(&dirs, &target, &args, &error.into()),
    };
    if let Some(expected) = target.volume.as_ref().filter(|id| **id != info.volume) {
        let text = format!(
            "{} holds another volume, {} (named {}), not {expected}",
            target.own(),
            info.volume,
            info.name
        );
        return forget(&dirs, &target, &args, &CommandFailure::not_found(text));
    }
    if let Some(device) = waiting::device(&info.volume) {
        let (device, name) = (device.display(), &target.name);
        return Err(CommandFailure::refused(format!(
            "{device} is the block device of {name}, and waits for it: attach and detach it first"
        )));
    }
    let witness = Rc::new(FailedLogDir::new(&rt, dirs.state()?));
    // A log that was abandoned does not describe its own state.
    let abandoned = loses_abandoned(&target, witness.is_abandoned(&info).await, &args)?;
    let clean = info.clean;
    let stays = match opened {
        Ok(opened) if abandoned => opened.stays(),
        Ok(opened) => {
            let witness = Rc::clone(&witness);
            taken_home(&rt, &signals, opened, clean, &target, witness, &args).await?
        }
        Err(_) if clean || abandoned => None,
        // The volume is only in use, not lost.
        Err(failure) if failure.code == FailureCode::Refused => return Err(failure),
        Err(failure) => loses_log(&target, &failure, &args).map(|()| None)?,
    };
    erase(&own).await?;
    lock.settle();
    witness.forget(&info.volume).await;
    ScrubRecord::of(&rt, &dirs, &info.volume).remove().await;
    // After a kill, nothing else removes them, and `list` would show the volume as dead.
    dirs.remove_sockets(&target.name);
    if target.is_described(&dirs) {
        dirs.remove_description(&target.name)?;
    }
    let complete = stays.map_or_else(String::new, |stays| format!("{stays}, "));
    result_line!(
        "removed volume {}: {complete}{} is free",
        target.name,
        target.own()
    );
    Ok(())
}

/// Opens the volume's own device, which describes the volume, after another of its devices could not be opened.
fn own_alone(target: &VolumeTarget, rt: &Rt, ring: &Rc<IoRing>) -> CommandResult<SuperblockDevice> {
    let options = DeviceOpenOptions::existing();
    let context = OpenContext { rt, ring, options };
    Ok(SuperblockDevice::open(
        target.tree.kind(),
        target.own(),
        context,
    )?)
}

/// Removes the configuration file of a volume whose own device is gone or holds something else, for the reason in
/// `failure`. Erases nothing.
fn forget(
    dirs: &ProgramDirs,
    target: &VolumeTarget,
    args: &RemoveArgs,
    failure: &CommandFailure,
) -> CommandResult {
    // A device that is in use, or cannot be read at the moment, may still be the volume.
    if !target.described || failure.code != FailureCode::NotFound {
        return Err(failure.clone());
    }
    let name = &target.name;
    if !args.force {
        return Err(CommandFailure::new(
            failure.code,
            format!(
                "{failure}; if the devices of the volume {name} will not come back, remove only its configuration \
                 file, with --force"
            ),
        ));
    }
    dirs.remove_description(name)?;
    dirs.remove_sockets(name);
    result_line!("removed the configuration file of volume {name}; nothing was erased: {failure}");
    Ok(())
}

/// Refuses to lose the data in the log, for the reason in `failure`, unless `--force` is given.
fn loses_log(target: &VolumeTarget, failure: &CommandFailure, args: &RemoveArgs) -> CommandResult {
    if !args.force {
        return Err(CommandFailure::new(
            failure.code,
            format!(
                "{failure}; to remove {} anyway, and LOSE the data that exists only in its log {}, use --force",
                target.name,
                target.own()
            ),
        ));
    }
    eprintln!("forebay: {failure}: losing the data in the log (--force)");
    Ok(())
}

/// Returns true if the log was abandoned and may be erased. Its data is on the data device, but without the log, data
/// that was lost with it cannot be salvaged later.
fn loses_abandoned(
    target: &VolumeTarget,
    abandoned: CommandResult<bool>,
    args: &RemoveArgs,
) -> CommandResult<bool> {
    match abandoned {
        Ok(true) if !args.force => Err(CommandFailure::refused(format!(
            "the log {} of {} failed in use and was abandoned; all data that could be read was moved to the data \
             device, which alone is the volume: remove it with --force (this also erases what `forebay check \
             --salvage` could still find)",
            target.own(),
            target.name
        ))),
        Ok(abandoned) => Ok(abandoned),
        Err(failure) => loses_log(target, &failure, args).map(|()| true),
    }
}

/// Moves all data to the data device, unless the log is clean. Returns a text that describes the data that remains
/// after the removal.
async fn taken_home(
    rt: &Rt,
    signals: &SignalReader,
    opened: OpenVolume,
    clean: bool,
    target: &VolumeTarget,
    witness: Rc<FailedLogDir>,
    args: &RemoveArgs,
) -> CommandResult<Option<String>> {
    let (loses, stays) = (opened.loses(), opened.stays());
    match loses {
        Some(lost) if !args.force => Err(CommandFailure::refused(format!(
            "removing {} LOSES {lost}; do it with --force",
            target.name
        ))),
        Some(_) => {
            let erased = opened.erase_others().await;
            erased.map_err(|error| {
                CommandFailure::io(format!("cannot erase {}: {error}", target.name))
            })?;
            Ok(None)
        }
        // A clean log needs no data device, whatever its state.
        None if clean => Ok(stays),
        None => match drain_home(rt, signals, opened, target, witness, args).await {
            Ok(()) => Ok(stays),
            // Stopped by a signal.
            Err(failure) if failure.code == FailureCode::General => Err(failure),
            Err(failure) => loses_log(target, &failure, args).map(|()| None),
        },
    }
}

async fn drain_home(
    rt: &Rt,
    signals: &SignalReader,
    opened: OpenVolume,
    target: &VolumeTarget,
    witness: Rc<FailedLogDir>,
    args: &RemoveArgs,
) -> CommandResult {
    let accept = AcceptedFaults {
        loss: args.accept.accept_loss,
        changed: args.accept.accept_changed,
    };
    let context = target.attach_context(rt, witness, accept);
    let attached = opened.attach(context).await?;
    let drained = drain(rt, signals, &*attached.layer, target.name.as_str()).await;
    let closed = attached.layer.close().await;
    drained?;
    closed.map_err(|error| {
        CommandFailure::io(format!(
            "cannot close {}: {error}; nothing was erased",
            target.name
        ))
    })
}

async fn drain(rt: &Rt, signals: &SignalReader, volume: &dyn Layer, name: &str) -> CommandResult {
    let mut progress = DrainProgress::new(format!("draining {name}"));
    let mut draining = pin!(volume.drain());
    let mut signal = pin!(signals.next());
    let drained = loop {
        let pause = pin!(rt.sleep(PROGRESS_EVERY));
        let pause = select(signal.as_mut(), pause);
        match select(draining.as_mut(), pause).await {
            Either::Left((drained, _)) => {
                break drained.map_err(|error| {
                    CommandFailure::io(format!("cannot drain {name}: {error}; nothing was erased"))
                });
            }
            Either::Right((Either::Left(_), _)) => {
                break Err(CommandFailure::general(format!(
                    "stopped by a signal; {name} is unchanged, with less data left to drain"
                )));
            }
            Either::Right((Either::Right(_), _)) => progress.set(&left(&volume.status())),
        }
    };
    progress.finish();
    drained
}

async fn erase(own: &SuperblockDevice) -> CommandResult {
    let erased = own.erase().await;
    erased.map_err(|error| CommandFailure::io(format!("cannot erase {}: {error}", own.spec())))
}
