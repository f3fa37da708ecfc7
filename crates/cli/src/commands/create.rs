//! `forebay create`: makes a volume from its devices.

use std::fs::{self, File};
use std::path::Path;
use std::rc::Rc;

use forebay_linux::{DeviceKind, DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    ConfigFile, CreateContext, CreateSpec, DeviceSpec, ErrorCause, FILESYSTEM, KindSpec,
    OpenContext, OpenDevice, OpenedForCreate, OptionValues, ServedAs, SuperblockDevice, VolumeName,
};
use rustix::fs::SeekFrom;

use crate::args::{CreateArgs, warn};
use crate::clock::clock;
use crate::dirs::{NewConfigFile, ProgramDirs};
use crate::lock::NameLock;
use crate::run::on_ring;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::ByteProgress;
use forebay_command_output::result_line;

pub(crate) fn run(args: CreateArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let name = name_of(&args)?;
    let lock = NameLock::take(&dirs, &name)?;
    let file = dirs.description_file(&name);
    if file.exists() && !args.force {
        return Err(CommandFailure::refused(format!(
            "a volume {name} exists already ({}); choose another --name, remove it with `forebay remove {name}`, or \
             replace its configuration file with --force",
            file.display()
        )));
    }
    wanted(&args).check()?;
    warn(&args.options.warnings);
    // Before anything is formatted, so that no volume is made without a configuration file.
    let description = dirs.new_description(&name)?;
    let made = make_log_file(&args)?;
    let on = dirs.clone();
    let created = on_ring(|rt, ring| create(args, name, rt, ring, on, description));
    match created {
        Ok(text) => {
            lock.settle();
            result_line!("{text}");
            Ok(())
        }
        Err(failure) => {
            if let Some(made) = made {
                // The file did not exist before, and a second attempt must start from the same state.
                let _ = fs::remove_file(made);
            }
            Err(failure)
        }
    }
}

fn name_of(args: &CreateArgs) -> CommandResult<VolumeName> {
    if let Some(name) = &args.name {
        Ok(name.clone())
    } else {
        let data = data_of(args)?;
        VolumeName::from_path(data.path()).ok_or_else(|| {
            CommandFailure::usage(format!(
                "cannot make a name from {data}; give a name with --name"
            ))
        })
    }
}

/// Returns the data device.
fn data_of(args: &CreateArgs) -> CommandResult<&DeviceSpec> {
    let data = args.devices.devices.get("data");
    data.ok_or_else(|| CommandFailure::usage("name the data device with --data PATH"))
}

/// Creates the log file if `--log-size` is given and the file does not exist. Returns its path if it was created.
fn make_log_file(args: &CreateArgs) -> CommandResult<Option<std::path::PathBuf>> {
    let Some(log) = args.devices.devices.get("log") else {
        return Ok(None);
    };
    let path = log.path();
    let missing = matches!(fs::metadata(path), Err(e) if e.kind() == std::io::ErrorKind::NotFound);
    match (missing, args.log_size) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(CommandFailure::refused(format!(
            "{} exists already; leave out --log-size to use it as it is",
            path.display()
        ))),
        (true, None) => Err(CommandFailure::not_found(format!(
            "cannot open {}: it does not exist; check the path, or create a file with --log-size 1GiB",
            path.display()
        ))),
        (true, Some(_)) if log.part().is_some() => Err(CommandFailure::usage(format!(
            "{log} is a part of a device that does not exist; --log-size makes whole files only"
        ))),
        (true, Some(size)) => {
            // Check the data device first, so that a volume that cannot be made leaves no log file behind.
            let data = data_of(args)?;
            if let Err(error) = fs::metadata(data.path()) {
                return Err(CommandFailure::not_found(format!(
                    "cannot open {data}: {error}; check the path"
                )));
            }
            forebay_linux::create_file(path, size.0, args.sparse)?;
            Ok(Some(path.to_owned()))
        }
    }
}

async fn create(
    args: CreateArgs,
    name: VolumeName,
    rt: Rt,
    ring: Rc<IoRing>,
    dirs: ProgramDirs,
    description: NewConfigFile,
) -> CommandResult<String> {
    let kind = kind_of(&args);
    let (mut id, mut hash_key) = ([0; 16], [0; 16]);
    for random in [&mut id, &mut hash_key] {
        getrandom::fill(random)
            .map_err(|e| CommandFailure::io(format!("no random numbers: {e}")))?;
    }
    let mut wanted = wanted(&args);
    wanted.hash_key = hash_key;
    let context = OpenContext {
        rt: &rt,
        ring: &ring,
        options: DeviceOpenOptions::default(),
    };
    let blank = wanted.open(context)?;
    let state = dirs.state().ok();
    let failed_logs = state.map(|state| FailedLogDir::new(&rt, state));
    refuse_if_in_use(&blank, failed_logs.as_ref(), args.force).await?;
    for why in dirty_logs_of(&args, &dirs, failed_logs.as_ref(), &rt, &ring).await {
        if !args.force {
            return Err(CommandFailure::refused(why));
        }
        eprintln!("forebay: {why}: continuing without it (--force)");
    }
    if let Some(log) = blank.to_fill().filter(|_| !args.sparse)
        && has_holes(log)?
    {
        zero(log).await?;
    }
    let before = blank.replaces().await;
    let context = CreateContext {
        rt: &rt,
        name: &name,
        id,
        clock: &clock(),
    };
    let made = blank.create(context).await?;
    if let (Some(before), Some(failed_logs)) = (before, &failed_logs) {
        failed_logs.forget(&before).await;
    }
    let file = description.write(&ConfigFile {
        name: name.clone(),
        volume: Some(made.volume),
        tree: made.tree.on(&mut stable)?,
        service: OptionValues::default(),
        warnings: Vec::new(),
    })?;
    Ok(format!(
        "created volume {name}: {}; configuration file {}\n{}",
        made.summary,
        file.display(),
        match kind.served_as {
            ServedAs::Files => format!("mount it with: forebay mount {name} DIR"),
            ServedAs::BlockDevice => format!("attach it with: forebay attach {name}"),
        }
    ))
}

fn kind_of(args: &CreateArgs) -> &'static KindSpec {
    if args.fs { FILESYSTEM } else { args.volume }
}

fn wanted(args: &CreateArgs) -> CreateSpec {
    let process = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    CreateSpec {
        kind: kind_of(args),
        devices: args.devices.devices.clone(),
        options: args.options.values.clone(),
        owner: process,
        hash_key: [0; 16],
    }
}

async fn refuse_if_in_use(
    blank: &OpenedForCreate,
    failed_logs: Option<&FailedLogDir>,
    force: bool,
) -> CommandResult {
    let failed_logs = failed_logs.map(|records| records as _);
    for (spec, content, why) in blank.holds(failed_logs).await? {
        if !force {
            return Err(CommandFailure::refused(why));
        }
        eprintln!("forebay: {spec} holds {content}: overwriting it (--force)");
    }
    Ok(())
}

/// Returns the reasons against using the devices, as texts: one for each configured cache whose data device is among
/// them, and whose log holds data for it, or cannot be read. If the device was used without its log, the log could
/// never be applied again.
async fn dirty_logs_of(
    args: &CreateArgs,
    dirs: &ProgramDirs,
    failed_logs: Option<&FailedLogDir>,
    rt: &Rt,
    ring: &Rc<IoRing>,
) -> Vec<String> {
    let devices = &args.devices.devices;
    let named = devices.roles().filter_map(|role| devices.get(role));
    let named: Vec<_> = named
        .filter_map(|spec| Some((spec, spec.identity().ok()?)))
        .collect();
    let used = |spec: &DeviceSpec| {
        let other = spec.identity().ok()?;
        let overlapping = named.iter().find(|(_, own)| own.overlaps(&other));
        overlapping.map(|(spec, _)| *spec)
    };
    let mut dirty = Vec::new();
    for name in dirs.described_names() {
        let Ok(tree) = dirs.description(&name).map(|described| described.tree) else {
            continue;
        };
        let under = tree.devices();
        let mut under = under.iter().filter(|(role, _)| role.starts_with("data"));
        let Some((log, data)) = tree.log().zip(under.find_map(|(_, spec)| used(spec))) else {
            continue;
        };
        // A log device that is overwritten itself is examined elsewhere.
        if used(log).is_some() {
            continue;
        }
        let options = DeviceOpenOptions::existing().for_reading();
        let context = OpenContext { rt, ring, options };
        let reason = match SuperblockDevice::open(tree.kind(), log, context) {
            Ok(own) => unsaved_in(&own, failed_logs).await,
            Err(error) => Some(format!("may hold unsaved data for it ({error})")),
        };
        if let Some(reason) = reason {
            dirty.push(format!(
                "{data} is the data device of the volume {name}, whose log {log} {reason}; the log could no longer be \
                 applied: attach and drain or remove {name} first, or abandon that data with --force"
            ));
        }
    }
    dirty
}

/// Describes the data that is only in a log, as the predicate of a sentence. `None` if the data device is complete.
async fn unsaved_in(log: &SuperblockDevice, failed_logs: Option<&FailedLogDir>) -> Option<String> {
    let info = match log.inspect().await {
        Ok(info) => info,
        // A device that holds no log any more has no data for this device.
        Err(error) if error.cause() == ErrorCause::NotFound => return None,
        Err(error) => return Some(format!("may hold unsaved data for it ({error})")),
    };
    let abandoned = info
        .is_abandoned(failed_logs.map(|records| records as _))
        .await;
    let needed = !info.clean && !abandoned.unwrap_or(false);
    needed.then(|| "HOLDS UNSAVED DATA for it".into())
}

/// Returns true if a log file has ranges that are unallocated, or allocated and never written. Its filesystem would
/// have to record the first write to each such range.
fn has_holes(log: &OpenDevice) -> CommandResult<bool> {
    let path = log.spec.path();
    let failed =
        |e: std::io::Error| CommandFailure::io(format!("cannot examine {}: {e}", path.display()));
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(false);
    }
    let file = File::open(path).map_err(failed)?;
    let whole = 0..log.device.geometry().len;
    let part = log.spec.part().unwrap_or(&whole);
    // A filesystem without support for holes reports the first hole at the end of the file.
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(part.start));
    Ok(hole.is_ok_and(|hole| hole < part.end))
}

/// Fills the log with zeroes. Bypasses an emulated disk: it has no allocation to prepare, and would take its emulated
/// time.
async fn zero(log: &OpenDevice) -> CommandResult {
    let mut progress = ByteProgress::new(format!("zeroing {}", log.spec));
    let filled =
        forebay_linux::zero_fill(&*log.beneath, |done, total| progress.set(done, total)).await;
    progress.finish();
    filled.map_err(|error| {
        CommandFailure::io(format!(
            "cannot fill {}: {error}; free some space, or skip it with --sparse",
            log.spec
        ))
    })
}

/// Returns the device with a path that stays valid after a reboot and from another directory.
pub(super) fn stable(spec: &DeviceSpec) -> CommandResult<DeviceSpec> {
    let failed = |e: std::io::Error| CommandFailure::io(format!("cannot identify {spec}: {e}"));
    let identity = forebay_linux::identity(spec.path()).map_err(failed)?;
    let link = identity
        .names
        .iter()
        .map(|name| Path::new("/dev/disk").join(name))
        .find(|link| identity.kind == DeviceKind::Block && link.exists());
    if let Some(link) = link.filter(|_| !spec.path().starts_with("/dev/disk")) {
        return Ok(spec.at(link));
    }
    // Keep the path of the user if it is already under /dev; otherwise use the path with symbolic links resolved.
    if spec.path().starts_with("/dev/") {
        return Ok(spec.clone());
    }
    Ok(spec.at(identity.path))
}
