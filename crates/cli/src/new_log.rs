//! Replacing the log of a volume, in the daemon that serves the volume and in a command that recovered it.

use std::rc::Rc;
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::LogReplacedReply;
use forebay_linux::{DeviceOpenOptions, IoRing, isolated};
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_volume::{DeviceSpec, Layer, LayerTree, LogRecording, NewLog, OpenContext};

use crate::dirs::{ConfigChange, ProgramDirs};
use crate::log_file;
use crate::stable_path::stable;
use crate::target::VolumeTarget;
use crate::witness::FailedLogDir;

/// Time limit for writing the configuration file.
const PATIENCE: Duration = Duration::from_secs(30);

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
    pub(crate) layer: &'a dyn Layer,
}

/// Replaces the log, and names the new log in the configuration file, if the volume has one. Returns the reply to the
/// client, and the layers with the new log.
///
/// # Errors
/// If the device is unsuitable or in use, or the log is not replaced.
pub(crate) async fn replace_log(
    owner: LogOwner<'_>,
    wanted: LogRequest,
) -> CommandResult<(LogReplacedReply, LayerTree)> {
    let LogOwner { rt, ring, dirs, .. } = owner;
    let (name, tree) = (&owner.target.name, &owner.target.tree);
    let is_described = owner.target.is_described(dirs);
    // Waiting for readers would stop the service.
    let options = DeviceOpenOptions::existing();
    let context = OpenContext { rt, ring, options };
    let new = NewLog::open(&wanted.log, tree, wanted.segment, context)?;
    let records = dirs.state().ok().map(|state| FailedLogDir::new(rt, state));
    let records = records.as_ref().map(|records| records as _);
    if let Some((content, why)) = new.holds(records).await? {
        if !wanted.force {
            return Err(CommandFailure::refused(why));
        }
        tracing::warn!("{} holds {content}: overwriting it", wanted.log);
    }
    let log = stable(&wanted.log)?;
    if !wanted.sparse && log_file::has_holes(new.device())? {
        log_file::zero(new.device(), |_, _| ()).await?;
    }
    let record = recording(owner, is_described, &log);
    let replaced = owner.layer.replace_log(new, record).await;
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

/// Names the log in the configuration file of the volume. The file may be on the volume itself, or on a disk that does
/// not answer, so a thread writes it.
fn recording(owner: LogOwner<'_>, is_described: bool, log: &DeviceSpec) -> LogRecording {
    let (rt, dirs) = (owner.rt.clone(), owner.dirs.clone());
    let (name, log) = (owner.target.name.clone(), log.clone());
    Box::pin(async move {
        if !is_described {
            return Ok(());
        }
        let (file, turn) = (dirs.description_file(&name), ConfigChange::begin());
        let change = Box::pin(isolated(move || dirs.change_log(turn, &name, &log)));
        match rt.timeout(PATIENCE, change).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(failure))) => Err(failure.text),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} does not answer", file.display())),
        }
    })
}
