//! `forebay create`: makes a volume from its devices.

use std::fs::{self, File};
use std::path::Path;
use std::rc::Rc;

use forebay_linux::{DeviceKind, DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    ConfigFile, CreateContext, CreateSpec, DeviceSpec, FILESYSTEM, KindSpec, OpenContext,
    OpenDevice, OpenedForCreate, OptionValues, ServedAs, SuperblockDevice, VolumeName,
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
    refuse_if_in_use(&blank, args.force).await?;
    for why in dirty_logs_of(&args, &dirs, &rt, &ring).await {
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
    if let (Some(before), Ok(state)) = (before, dirs.state()) {
        FailedLogDir::new(&rt, state).forget(&before).await;
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

async fn refuse_if_in_use(blank: &OpenedForCreate, force: bool) -> CommandResult {
    for (spec, content, why) in blank.holds().await? {
        if !force {
            return Err(CommandFailure::refused(why));
        }
        eprintln!("forebay: {spec} holds {content}: overwriting it (--force)");
    }
    Ok(())
}

/// Returns the reasons against overwriting the data device, as texts: one for each configured cache on this device
/// whose log holds data for it. If the device was used without its log, the log could never be applied again.
async fn dirty_logs_of(
    args: &CreateArgs,
    dirs: &ProgramDirs,
    rt: &Rt,
    ring: &Rc<IoRing>,
) -> Vec<String> {
    let mut dirty = Vec::new();
    let Some((data, identity)) = data_of(args)
        .ok()
        .and_then(|data| Some((data, data.identity().ok()?)))
    else {
        return dirty;
    };
    let overlaps = |spec: &DeviceSpec| spec.identity().is_ok_and(|other| other.overlaps(&identity));
    for name in dirs.described_names() {
        let Ok(tree) = dirs.description(&name).map(|described| described.tree) else {
            continue;
        };
        let Some(log) = tree.log().filter(|_| {
            let devices = tree.devices();
            devices
                .iter()
                .any(|(role, spec)| role.starts_with("data") && overlaps(spec))
        }) else {
            continue;
        };
        // A log device that is overwritten itself is examined elsewhere.
        let own = args.devices.devices.get("log");
        let is_own = own.and_then(|own| own.identity().ok());
        if is_own.is_some_and(|own| log.identity().is_ok_and(|log| log.overlaps(&own))) {
            continue;
        }
        let options = DeviceOpenOptions::existing().for_reading();
        let context = OpenContext { rt, ring, options };
        let Ok(own) = SuperblockDevice::open(tree.kind(), log, context) else {
            continue;
        };
        match own.inspect().await {
            Ok(info) if !info.clean && !info.abandoned => dirty.push(format!(
                "{data} is the data device of the volume {name}, whose log {log} HOLDS UNSAVED DATA for it, which could \
                 no longer be applied: attach and drain or remove {name} first, or abandon that data with --force"
            )),
            _ => {}
        }
    }
    dirty
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
fn stable(spec: &DeviceSpec) -> CommandResult<DeviceSpec> {
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
