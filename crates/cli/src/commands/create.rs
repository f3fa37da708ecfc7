//! `forebay create`: makes a volume from its devices.

use std::fs;
use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    ConfigFile, CreateContext, CreateSpec, DeviceSpec, FILESYSTEM, KindSpec, OpenContext,
    OpenDevice, OpenedForCreate, OptionValues, VolumeName,
};

use crate::args::{CreateArgs, warn};
use crate::clock::clock;
use crate::dirs::{NewConfigFile, ProgramDirs};
use crate::dirty_logs::dirty_logs_over;
use crate::lock::NameLock;
use crate::log_file;
use crate::new_volume::{next_step, refuse_taken};
use crate::run::on_ring;
use crate::stable_path::stable;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::ByteProgress;
use forebay_command_output::result_line;

pub(crate) fn run(args: CreateArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let name = name_of(&args)?;
    let lock = NameLock::take(&dirs, &name)?;
    if !args.force {
        let remedies = format!(
            ", remove it with `forebay remove {name}`, or replace its configuration file with --force"
        );
        refuse_taken(&dirs, &name, &remedies)?;
    }
    wanted(&args).check()?;
    warn(&args.options.warnings);
    // Before anything is formatted, so that no volume is made without a configuration file.
    let description = dirs.new_description(&name)?;
    let log = args.devices.devices.get("log");
    let data = data_of(&args)?;
    let made =
        log.map(|log| log_file::make_if_missing(log, args.log_size, args.sparse, Some(data)));
    let made = made.transpose()?.flatten();
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
    let devices = &args.devices.devices;
    let named: Vec<_> = devices
        .roles()
        .filter_map(|role| devices.get(role))
        .collect();
    for why in dirty_logs_over(&named, None, &dirs, failed_logs.as_ref(), &rt, &ring).await {
        if !args.force {
            return Err(CommandFailure::refused(why));
        }
        eprintln!("forebay: {why}: continuing without it (--force)");
    }
    if let Some(log) = blank.to_fill().filter(|_| !args.sparse) {
        fill(log).await?;
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
        next_step(kind.served_as, &name)
    ))
}

/// Writes zeroes to a log file with holes.
async fn fill(log: &OpenDevice) -> CommandResult {
    if !log_file::has_holes(log)? {
        return Ok(());
    }
    let mut progress = ByteProgress::new(format!("zeroing {}", log.spec));
    let filled = log_file::zero(log, |done, total| progress.set(done, total)).await;
    progress.finish();
    filled
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
