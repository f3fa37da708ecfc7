//! Replacing the log of a volume, in the daemon that serves the volume and in a command that recovered it.

use std::rc::Rc;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::LogReplacedReply;
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_volume::{
    DeviceSpec, FormerLog, Layer, LayerTree, LogRecording, NewLog, OpenContext, open_one,
};

use crate::config_change::OwnDescription;
use crate::dirs::{ProgramDirs, name_log};
use crate::log_file;
use crate::stable_path::stable;
use crate::target::VolumeTarget;
use crate::witness::FailedLogDir;

/// The log that a volume gets.
#[derive(Debug)]
pub(crate) struct LogRequest {
    /// The device.
    pub(crate) log: DeviceSpec,
    /// Size of a segment, if it is not the default.
    pub(crate) segment: Option<ByteLen>,
    /// Leave a log file sparse.
    pub(crate) sparse: bool,
    /// Overwrite recognised content.
    pub(crate) force: bool,
}

/// The volume whose log is replaced.
#[derive(Clone, Copy)]
pub(crate) struct LogOwner<'a> {
    pub(crate) rt: &'a Rt,
    pub(crate) ring: &'a Rc<IoRing>,
    pub(crate) dirs: &'a ProgramDirs,
    /// The volume, with its present layers and devices.
    pub(crate) target: &'a VolumeTarget,
}

/// A new log whose device may be overwritten, and its name in the configuration file.
struct CheckedLog {
    new: NewLog,
    name: DeviceSpec,
}

impl<'a> LogOwner<'a> {
    /// Returns the context for opening a device at once: waiting for readers would stop the service.
    fn opening(&self) -> OpenContext<'a> {
        OpenContext {
            rt: self.rt,
            ring: self.ring,
            options: DeviceOpenOptions::existing(),
        }
    }

    fn records(&self) -> Option<FailedLogDir> {
        let state = self.dirs.state().ok();
        state.map(|state| FailedLogDir::new(self.rt, state))
    }

    /// Opens the new log, and checks that it may be overwritten.
    async fn open(&self, wanted: &LogRequest) -> CommandResult<CheckedLog> {
        let tree = &self.target.tree;
        let new = NewLog::open(&wanted.log, tree, wanted.segment, self.opening())?;
        let records = self.records();
        let records = records.as_ref().map(|records| records as _);
        if let Some((content, why)) = new.holds(records).await? {
            if !wanted.force {
                return Err(CommandFailure::refused(why));
            }
            tracing::warn!("{} holds {content}: overwriting it", wanted.log);
        }
        let name = stable(&wanted.log)?;
        if !wanted.sparse && log_file::has_holes(new.device())? {
            log_file::zero(new.device(), |_, _| ()).await?;
        }
        Ok(CheckedLog { new, name })
    }

    /// Returns the log of a volume that is not attached, if that log is out of use.
    ///
    /// # Errors
    /// If a failed-log record cannot be read.
    pub(crate) async fn former_log(&self) -> CommandResult<Option<FormerLog>> {
        let Some(log) = self.target.tree.log() else {
            return Ok(None);
        };
        let options = DeviceOpenOptions::existing().for_reading();
        let context = OpenContext {
            options,
            ..self.opening()
        };
        // Attaching the volume reports a log that cannot be opened.
        let Ok(log) = open_one(context, log) else {
            return Ok(None);
        };
        let records = self.records();
        let records = records.as_ref().map(|records| records as _);
        let former = FormerLog::find(&*log.device, records).await;
        let former = former.map_err(|error| {
            let name = &self.target.name;
            CommandFailure::refused(format!(
                "the failed-log record of {name} cannot be read: {error}"
            ))
        })?;
        let own = self.target.volume.as_ref();
        let is_own = |former: &FormerLog| own.is_none_or(|own| *own == former.volume().to_string());
        Ok(former.filter(is_own))
    }
}

/// Gives a volume that is not attached another log in place of `former`, which is out of use, and names it in the
/// configuration file. The caller holds the lock of the volume.
///
/// # Errors
/// If a device is unsuitable or in use, or data was lost with the former log.
pub(crate) async fn follow(
    owner: LogOwner<'_>,
    former: &FormerLog,
    wanted: &LogRequest,
) -> CommandResult<LogReplacedReply> {
    let (target, dirs) = (owner.target, owner.dirs);
    let CheckedLog { new, name: log } = owner.open(wanted).await?;
    let is_described = target.is_described(dirs);
    let mut notes = new.follow(former, &target.tree, owner.opening()).await?;
    let before = target.tree.log().expect("the former log was read");
    notes.push(if former.is_marked() {
        format!(
            "the former log {before} stays marked as abandoned; `forebay create` and `replace-log` overwrite it with \
             --force"
        )
    } else {
        format!(
            "the former log {before} could not record data that was lost with it: compare with the messages of the \
             daemon; erase or replace the device, since only the failed-log record prevents its use"
        )
    });
    if is_described {
        name_log(&dirs.description_file(&target.name), &target.name, &log)?;
    }
    Ok(LogReplacedReply {
        former: before.to_string(),
        log: log.to_string(),
        notes,
    })
}

/// Replaces the log of a volume with the layer `layer`, and names the new log in the configuration file, if the volume
/// has one. Returns the reply to the client, and the layers with the new log.
///
/// # Errors
/// If the device is unsuitable or in use, or the log is not replaced.
pub(crate) async fn replace_log(
    owner: LogOwner<'_>,
    layer: &dyn Layer,
    wanted: LogRequest,
) -> CommandResult<(LogReplacedReply, LayerTree)> {
    let (name, tree) = (&owner.target.name, &owner.target.tree);
    let is_described = owner.target.is_described(owner.dirs);
    let CheckedLog { new, name: log } = owner.open(&wanted).await?;
    let description = OwnDescription::with_log(owner.rt, owner.dirs, name, &log);
    if is_described {
        // Now, since the present log is out of use when the file is changed.
        description.check().await?;
    }
    let record = recording(description, is_described);
    let replaced = layer.replace_log(new, record).await;
    let replaced = replaced.map_err(|error| {
        let code = CommandFailure::code_of(error.cause);
        CommandFailure::new(code, format!("cannot replace the log of {name}: {error}"))
    })?;
    let former = tree.log().cloned();
    let exchanged = &mut |spec: &DeviceSpec| -> CommandResult<DeviceSpec> {
        let is_former = Some(spec) == former.as_ref();
        Ok(if is_former { log.clone() } else { spec.clone() })
    };
    let tree = tree.clone().on(exchanged)?;
    let mut notes = replaced.notes;
    if !is_described {
        notes.push(format!(
            "the volume has no configuration file: attach it with --log {log} from now on, or write a file with \
             `forebay adopt --log {log}`"
        ));
    }
    let reply = LogReplacedReply {
        former: replaced.former,
        log: log.to_string(),
        notes,
    };
    Ok((reply, tree))
}

/// Names the log in the configuration file of the volume, if it has one.
fn recording(description: OwnDescription, is_described: bool) -> LogRecording {
    Box::pin(async move {
        if !is_described {
            return Ok(());
        }
        description.put().await.map_err(|failure| failure.text)
    })
}
