//! `forebay-bench paper-dcd`: the experiments of the paper that describes the cache.
//!
//! The crate `dcd-paper` has the part on a virtual clock. This module has the part on a real clock: users untar, copy
//! and remove on real filesystems, on an emulated disk alone and on both shapes of the cache.

use std::path::{Path, PathBuf};

use forebay_dcd_paper::{Circumstances, FilesystemRun, PaperScale, measure, write_report};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_scratch::TryDisk;
use forebay_scratch::context::{TryContext, data_bytes};
use forebay_scratch::place::ScratchDir;
use forebay_scratch::raw_server::{RawAccess, RawServer};
use forebay_scratch::report::{PhaseTimes, TryReport};
use forebay_scratch::setup::{StorageSetup, StorageShape, move_home};
use forebay_scratch::stop::{UserStop, stoppable};
use forebay_scratch::system::{ImageLoop, ToolMount, can_mount, check_filesystem};
use forebay_scratch::tree::GeneratedTree;
use forebay_scratch::users::together;
use forebay_scratch::variant::FilesystemVariant;
use forebay_scratch::writers::write_durably;

use crate::args::PaperDcdArgs;
use crate::forebay;

/// Disk model, of the same family as the paper's disk, with the options of `try`.
const DISK: &str = "barracuda";
/// Length of the log, as in the paper.
const LOG_BYTES: u64 = 64 << 20;
/// Numbers of concurrent users, and files that each user unpacks.
const USERS: [u32; 2] = [4, 1];
const FILES: u32 = 508;
/// Numbers of users and files in a quick run.
const USERS_QUICK: [u32; 1] = [4];
const FILES_QUICK: u32 = 100;
/// One file for each of this many unpacked files is written with an fsync in the last phase.
const FILES_A_MAIL: u32 = 5;

/// Runs `forebay-bench paper-dcd`.
///
/// # Errors
/// If a measurement or a write fails, or a signal came.
pub(crate) fn run(args: PaperDcdArgs, dir: Option<PathBuf>) -> CommandResult {
    let report = stoppable(move |stop| work(&args, dir.as_deref(), &stop))?;
    result_line!("{}", report.display());
    Ok(())
}

fn work(args: &PaperDcdArgs, dir: Option<&Path>, stop: &UserStop) -> CommandResult<PathBuf> {
    let program = program(args)?;
    let circumstances = Circumstances::begin();
    let scale = if args.quick {
        PaperScale::Quick
    } else {
        PaperScale::Full
    };
    let measured = measure(scale, |what| {
        eprintln!("forebay-bench: {what}");
        !stop.is_set()
    });
    stop.check()?;
    let measured = measured.map_err(|error| CommandFailure::general(format!("{error:#}")))?;
    let filesystems = match program {
        Ok(program) => Ok(filesystems(args, &program, dir, stop)?),
        Err(why) => Err(why),
    };
    let filesystems = filesystems.as_deref().map_err(String::as_str);
    write_report(&args.places.output, &circumstances, &measured, filesystems)
        .map_err(|error| CommandFailure::io(format!("{error:#}")))
}

/// Returns the program `forebay`, or the reason why filesystems are not measured.
fn program(args: &PaperDcdArgs) -> CommandResult<Result<PathBuf, String>> {
    if args.virtual_only {
        return Ok(Err("omitted by `--virtual-only`".into()));
    }
    if let Err(why) = can_mount() {
        return Ok(Err(why));
    }
    forebay::program(args.places.forebay.as_deref()).map(Ok)
}

/// Measures users on each filesystem.
fn filesystems(
    args: &PaperDcdArgs,
    program: &Path,
    dir: Option<&Path>,
    stop: &UserStop,
) -> CommandResult<Vec<FilesystemRun>> {
    let (users, files): (&[u32], u32) = if args.quick {
        (&USERS_QUICK, FILES_QUICK)
    } else {
        (&USERS, FILES)
    };
    let mut runs = Vec::new();
    // The paper's variant comes first in the report.
    for kind in FilesystemVariant::ALL.into_iter().rev() {
        for users in users {
            let context = context(program, dir, stop, *users)?;
            runs.push(one(&context, kind, files)?);
        }
    }
    Ok(runs)
}

fn context(
    program: &Path,
    dir: Option<&Path>,
    stop: &UserStop,
    users: u32,
) -> CommandResult<TryContext> {
    let disk = match DISK.parse() {
        Ok(TryDisk::Model(model)) => Some(model),
        Ok(TryDisk::None) => None,
        Err(error) => return Err(CommandFailure::usage(error)),
    };
    let (data_bytes, log_bytes) = (data_bytes(users), LOG_BYTES);
    Ok(TryContext {
        users,
        stop: stop.clone(),
        disk,
        filled: None,
        program: program.to_owned(),
        scratch: ScratchDir::new(dir, false, data_bytes + log_bytes)?,
        data_bytes,
        log_bytes,
    })
}

/// Measures one filesystem in all shapes.
fn one(context: &TryContext, kind: FilesystemVariant, files: u32) -> CommandResult<FilesystemRun> {
    let (mut report, mut shapes) = (TryReport::default(), Vec::new());
    for shape in StorageShape::ALL {
        eprintln!(
            "forebay-bench: {}, users: {}, {}",
            kind.name(),
            context.users,
            shape.name()
        );
        let setup = StorageSetup::new(context, shape, Some(kind))?;
        let times = on_shape(context, &mut report, kind, files, shape, &setup)?;
        let times = times
            .into_iter()
            .map(|(name, took)| (name.to_owned(), took));
        shapes.push((shape.name().to_owned(), times.collect()));
        setup.remove(context);
    }
    if !report.all_passed() {
        return Err(CommandFailure::general("a check failed; see above"));
    }
    Ok(FilesystemRun {
        filesystem: kind.name().into(),
        users: context.users,
        files,
        shapes,
        notes: report.notes().to_vec(),
    })
}

fn on_shape(
    context: &TryContext,
    report: &mut TryReport,
    kind: FilesystemVariant,
    files: u32,
    shape: StorageShape,
    setup: &StorageSetup,
) -> CommandResult<PhaseTimes> {
    let Some(volume) = setup.volume(context, shape)? else {
        let access = RawAccess::Loop(context.scratch.subdir("run")?);
        let server = RawServer::start(&setup.spec, access)?;
        let device = server.at().display().to_string();
        let times = programs(context, kind, files, &device)?;
        context.note_lateness(report, server.stop()?);
        return Ok(times);
    };
    let device = volume.attach("loop")?;
    let times = programs(context, kind, files, &device)?;
    move_home(report, shape, &volume)?;
    let alone = ImageLoop::over(&setup.data)?;
    let what = format!("fsck reports the data of the {} clean", shape.name());
    report.check(what, check_filesystem(alone.device()));
    Ok(times)
}

/// Runs the programs, one after the other, each on a freshly mounted filesystem.
fn programs(
    context: &TryContext,
    kind: FilesystemVariant,
    files: u32,
    device: &str,
) -> CommandResult<PhaseTimes> {
    let at = context.scratch.subdir("mnt")?;
    let users = context.users;
    let trees: Vec<GeneratedTree> = (0..users)
        .map(|user| GeneratedTree::generate(user.into(), files.into()))
        .collect();
    let home = |user: u32| at.join(format!("user{user}"));
    let mut times = PhaseTimes::new();
    let mut program =
        |name: &'static str, each: &(dyn Fn(u32) -> std::io::Result<()> + Sync)| -> CommandResult {
            context.stop.check()?;
            let mount = ToolMount::new(device, at.clone(), kind.options())?;
            let took = together(mount.path(), users, each)
                .map_err(|error| CommandFailure::io(format!("{name} failed: {error}")))?;
            mount.unmount()?;
            eprintln!("forebay-bench:   {name}: {:.1} s", took.as_secs_f64());
            times.push((name, took));
            Ok(())
        };
    program("untar", &|user| {
        trees[user as usize].unpack(&home(user).join("tree"))
    })?;
    program("copy", &|user| {
        trees[user as usize].copy(&home(user).join("tree"), &home(user).join("copy"))
    })?;
    program("remove", &|user| {
        std::fs::remove_dir_all(home(user).join("tree"))
    })?;
    program("small files, fsync each", &|user| {
        let mail = home(user).join("mail");
        std::fs::create_dir_all(&mail)?;
        let content = [user as u8; 4096];
        let mut names = 0..files / FILES_A_MAIL;
        names.try_for_each(|n| write_durably(&mail.join(n.to_string()), &content))
    })?;
    Ok(times)
}
