//! `forebay try`: what the program is for, end to end, on scratch images.
//!
//! As root with a filesystem on a loop device (`filesystem.rs`), otherwise the same steps at block
//! level over NBD (`blocks.rs`). Both measure the same work with and without the cache, kill the
//! daemon in the middle of writing, recover, and check that nothing that was flushed is missing,
//! neither in the volume nor, after a detach, on the data image alone.
//!
//! The work is done on a thread of its own, so that a signal can be heard: it sets [`Stop`], and the
//! work comes to its end through its ordinary way out, which cleans up.

mod blocks;
mod drive;
mod filesystem;
mod nbd_client;
mod place;
mod raw_server;
mod report;
mod system;
mod tree;
mod writers;

use std::io::pipe;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_os::{Poller, Ring, Signals};
use forebay_units::ByteLen;
use futures_util::future::{Either, select};

use crate::args::TryArgs;
use crate::failure::{Failure, Outcome};
use crate::output::result_line;
use crate::run::on_ring;

use drive::Volume;
use place::Scratch;
use report::Report;

/// Set when the user wants to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Fails if it is set.
    fn check(&self) -> Outcome {
        if self.is_set() {
            return Err(Failure::general(
                "stopped by a signal; everything is cleaned up",
            ));
        }
        Ok(())
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What both variants need. The volume comes before the directory it is in, so that it goes first.
struct Context {
    users: u32,
    stop: Stop,
    volume: Volume,
    /// The image that is used without the cache, for comparison.
    direct: PathBuf,
    scratch: Scratch,
}

/// Room for each user's files and copies, and for the filesystem's own.
fn data_bytes(users: u32) -> u64 {
    (256 << 20) + u64::from(users) * (64 << 20)
}

/// Enough not to fill up in the measured phases.
const LOG_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: TryArgs) -> Outcome {
    let ok = on_ring(|_, ring| async move { until_done_or_signal(&ring, args).await })?;
    if ok {
        Ok(())
    } else {
        Err(Failure::general("a check failed; see above"))
    }
}

async fn until_done_or_signal(ring: &Rc<Ring>, args: TryArgs) -> Outcome<bool> {
    // Before the worker is started, which must not be ended by them.
    let signals = Signals::new(ring).map_err(Failure::io)?;
    let (reader, writer) = pipe().map_err(Failure::io)?;
    let stop = Stop::default();
    let theirs = stop.clone();
    let worker = std::thread::spawn(move || {
        let result = work(&args, theirs);
        // Closing it wakes the waiting side.
        drop(writer);
        result
    });
    let poller = Poller::new(ring, Rc::new(reader.into()));
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
        .unwrap_or_else(|_| Err(Failure::general("the work panicked; see above")))
}

/// Returns whether all checks passed.
fn work(args: &TryArgs, stop: Stop) -> Outcome<bool> {
    let data_bytes = data_bytes(args.users);
    let scratch = Scratch::new(args.dir.as_deref(), args.keep, 2 * data_bytes + LOG_BYTES)?;
    let as_root = system::can_mount();
    result_line!("scratch images: {}", scratch.dir().display());
    match &as_root {
        Ok(()) => result_line!("running as root: an ext4 filesystem on a loop device"),
        Err(why) => {
            result_line!("{why}: the same steps at block level over NBD, without a filesystem")
        }
    }
    result_line!("no disk is emulated; on a fast disk, expect little gain from the cache");
    let data = scratch.image("data.img", data_bytes, &stop)?;
    let direct = scratch.image("direct.img", data_bytes, &stop)?;
    result_line!("making a log of {} and a volume", ByteLen(LOG_BYTES));
    let volume = Volume::create(&scratch, data, LOG_BYTES)?;
    let mut context = Context {
        users: args.users,
        stop,
        volume,
        direct,
        scratch,
    };
    let mut report = Report::default();
    match as_root {
        Ok(()) => filesystem::run(&mut context, &mut report)?,
        Err(_) => blocks::run(&mut context, &mut report)?,
    }
    report.print(args.users);
    if !report.all_passed() {
        context.scratch.keep();
    }
    context.scratch.farewell();
    Ok(report.all_passed())
}
