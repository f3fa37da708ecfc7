//! `forebay try`: chooses the variant, and runs it.

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

use crate::args::{TryArgs, TryDisk, TryKind};
use crate::context::{TryContext, data_bytes, log_bytes};
use crate::place::ScratchDir;
use crate::report::TryReport;
use crate::setup::{self, StorageShape};
use crate::stop::{UserStop, stoppable};
use crate::{blocks, files, filesystem, system};

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
    let (data_bytes, log_bytes) = (data_bytes(args.users), log_bytes(disk.as_ref()));
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
        // The filesystem that is compared with Forebay's must also survive a crash.
        journal: disk.is_none() || kind == TryKind::Fs,
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
