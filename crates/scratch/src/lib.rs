//! `forebay try`: an end-to-end demonstration of the program, on scratch images.
//!
//! As root, with a filesystem on a loop device (`filesystem.rs`); otherwise, with the steps at block level over NBD
//! (`blocks.rs`). Both measure equal work on a disk alone and on the write cache in its two shapes, or on
//! log-structured volumes (`setup.rs`). Then they kill the daemon in the middle of writes, recover, and check that all
//! flushed data is present, both in the volume and, after a detach, on the data image alone. The disks are emulated by
//! default.
//!
//! `paper.rs` measures this work on real filesystems for `forebay bench paper-dcd`.
//!
//! The work runs on a thread of its own, so that the main thread can receive signals. A signal sets `UserStop`; the
//! work then ends through its ordinary error path, which cleans up.

mod args;
mod blocks;
mod dfs;
mod drive;
mod files;
mod filesystem;
mod paper;
mod place;
mod raw_server;
mod report;
mod setup;
mod system;
pub mod tree;
mod writers;

use std::io::pipe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_disk_model::Lateness;
use forebay_linux::{FdPoller, IoRing, SignalReader};
use forebay_volume::DiskModelSpec;
use futures_util::future::{Either, select};

use forebay_program::failure::{CommandFailure, CommandResult};
use forebay_program::result_line;
use forebay_program::run::on_ring;

pub use args::{DfsArgs, PaperDcdArgs, TryArgs, TryDisk, TryKind};
pub use dfs::run as dfs;
pub use paper::run as paper_dcd;
use place::ScratchDir;
use report::TryReport;
use setup::StorageShape;

/// Flag that is set when the user wants to stop.
#[derive(Clone, Default)]
pub(crate) struct UserStop(Arc<AtomicBool>);

impl UserStop {
    /// Returns an error if the flag is set.
    fn check(&self) -> CommandResult {
        if self.is_set() {
            return Err(CommandFailure::general(
                "stopped by a signal; everything is cleaned up",
            ));
        }
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Context of both variants.
struct TryContext {
    users: u32,
    stop: UserStop,
    /// Model of the emulated disk under the images, if a disk is emulated.
    disk: Option<DiskModelSpec>,
    /// True if filesystems are made with a journal.
    journal: bool,
    /// Share of a filesystem that is in use before the measurement, in percent.
    filled: Option<u8>,
    scratch: ScratchDir,
    /// Sizes of a data device and of a log.
    data_bytes: u64,
    log_bytes: u64,
}

/// Returns the space for each user's files and copies, and for the filesystem itself.
fn data_bytes(users: u32) -> u64 {
    (256 << 20) + u64::from(users) * (64 << 20)
}

/// Returns the length of the log: the paper's on an emulated disk; otherwise enough for the measured phases.
fn log_bytes(disk: Option<&DiskModelSpec>) -> u64 {
    match disk {
        Some(_) => 64 << 20,
        None => 256 << 20,
    }
}

impl TryContext {
    /// Returns the amount of work of a user: `full`, or on an emulated disk the part that fits into tens of seconds.
    fn amount(&self, full: u32) -> u32 {
        match self.disk {
            Some(_) => full * 2 / 5,
            None => full,
        }
    }

    /// Adds a note about the lateness of the emulated disk.
    fn note_lateness(&self, report: &mut TryReport, late: Option<Lateness>) {
        if let Some(late) = late {
            report.note(format!(
                "the emulated plain disk completed {} requests, half of them within {} µs of its model, 99 % within \
                 {} µs; {} had to wait for the real disk",
                late.answers,
                late.p50.as_micros(),
                late.p99.as_micros(),
                late.by_data
            ));
        }
    }
}

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

/// Runs `work` on a thread of its own, which a signal tells to stop.
fn stoppable<T: Send + 'static>(
    work: impl FnOnce(UserStop) -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    on_ring(|_, ring| async move { until_done_or_signal(&ring, work).await })
}

async fn until_done_or_signal<T: Send + 'static>(
    ring: &Rc<IoRing>,
    work: impl FnOnce(UserStop) -> CommandResult<T> + Send + 'static,
) -> CommandResult<T> {
    // Signals are blocked before the worker starts, since they must not end the worker.
    let signals = SignalReader::new(ring).map_err(CommandFailure::io)?;
    let (reader, writer) = pipe().map_err(CommandFailure::io)?;
    let stop = UserStop::default();
    let theirs = stop.clone();
    let worker = std::thread::spawn(move || {
        let result = work(theirs);
        // Closing the pipe wakes the waiting side.
        drop(writer);
        result
    });
    let poller = FdPoller::new(ring, Rc::new(reader.into()));
    let mut ended = pin!(poller.readable());
    loop {
        match select(ended.as_mut(), pin!(signals.next())).await {
            Either::Left(_) => break,
            Either::Right(_) => {
                eprintln!("forebay: stopping and cleaning up");
                stop.0.store(true, Ordering::Relaxed);
            }
        }
    }
    worker
        .join()
        .unwrap_or_else(|_| Err(CommandFailure::general("the work panicked; see above")))
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
            result_line!("{why}: the same steps at block level over NBD, without a filesystem")
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
