//! `forebay try`: chooses the variant, and runs it.

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

use crate::args::{TryArgs, TryDisk, TryKind};
use crate::context::{TryContext, data_bytes};
use crate::place::ScratchDir;
use crate::report::TryReport;
use crate::setup::{self, StorageShape};
use crate::stop::{UserStop, stoppable};
use crate::{blocks, files, filesystem, system};

/// Length of a log: enough for all phases, since a full log is as slow as the disk.
const LOG_BYTES: u64 = 256 << 20;

/// Runs `forebay try`.
///
/// # Errors
/// If a check fails or a requirement is missing.
pub fn run(args: TryArgs) -> CommandResult {
    let ok = stoppable(move |stop| work(args, stop))?;
    if ok {
        Ok(())
    } else {
        Err(CommandFailure::general("a check failed; see above"))
    }
}

/// Runs the trial. Returns true if all checks passed.
fn work(args: TryArgs, stop: UserStop) -> CommandResult<bool> {
    let disk = match args.disk {
        TryDisk::None => None,
        TryDisk::Model(model) => Some(model),
    };
    let (data_bytes, log_bytes) = (data_bytes(args.users), LOG_BYTES);
    // The images of one shape are removed before those of the next shape are made.
    let kind = if args.fs { TryKind::Fs } else { args.volume };
    let shapes = StorageShape::of(kind, &args.placement);
    let sets = if args.keep {
        shapes.len() + usize::from(kind == TryKind::Fs)
    } else {
        1
    };
    let need = sets as u64 * (data_bytes + log_bytes);
    let mut context = TryContext {
        users: args.users,
        stop,
        filled: args.filled,
        disk,
        program: std::env::current_exe().map_err(CommandFailure::io)?,
        scratch: ScratchDir::new(args.dir.as_deref(), args.keep, need)?,
        data_bytes,
        log_bytes,
    };
    result_line!("scratch images: {}", context.scratch.dir().display());
    let as_root = system::can_mount();
    if let (Err(why), Some(_)) = (&as_root, context.filled) {
        return Err(CommandFailure::usage(format!(
            "--filled: {why}, so there is no filesystem to fill"
        )));
    }
    match &as_root {
        _ if kind == TryKind::Fs => {}
        Ok(()) => result_line!("running as root: an ext4 filesystem on a loop device"),
        Err(why) => {
            result_line!("{why}: the same steps at block level over NBD, without a filesystem");
        }
    }
    setup::introduce(&context);
    let mut report = TryReport::default();
    report.explain_slower(why_slower(kind, context.disk.is_some()));
    match as_root {
        as_root if kind == TryKind::Fs => files::run(&context, as_root, &mut report)?,
        Ok(()) => filesystem::run(&context, &shapes, &mut report)?,
        Err(_) => blocks::run(&context, &shapes, &mut report)?,
    }
    report.print(args.users);
    if !report.all_passed() {
        context.scratch.keep();
    }
    context.scratch.farewell();
    Ok(report.all_passed())
}

/// Returns why some work may be slower than on the disk alone.
fn why_slower(kind: TryKind, is_emulated: bool) -> &'static str {
    match (kind, is_emulated) {
        (TryKind::Cache, false) => {
            "log and data are images on one disk here, which is not slow. The cache writes all data twice to this \
             disk, and each request passes through its daemon. A cache is for data on a disk that is slower than the \
             log."
        }
        (TryKind::Cache, true) => {
            "destaging competes with the users for the arms of the disks, and large transfers, as of copies, gain \
             nothing from a log."
        }
        (TryKind::Vsl, _) => {
            "reads of data that was written in another order, and the cleaner, cost time on the same disk."
        }
        (TryKind::Fs, _) => {
            "each request passes through the kernel's FUSE and a daemon, where ext4 stays in the kernel. Without slow \
             flushes this costs more than the log saves."
        }
    }
}
