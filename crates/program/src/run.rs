//! The executor and its io_uring, for commands that access devices.

use std::future::Future;
use std::rc::Rc;

use forebay_linux::IoRing;
use forebay_rt::{Executor, Rt};

use crate::failure::{CommandFailure, CommandResult};

/// Maximum requests between two system calls; see [`IoRing::new`].
const RING_ENTRIES: u32 = 256;

/// Runs `work` on an executor of its own.
pub fn on_ring<T, F, W>(work: W) -> CommandResult<T>
where
    T: 'static,
    F: Future<Output = CommandResult<T>> + 'static,
    W: FnOnce(Rt, Rc<IoRing>) -> F,
{
    let ring = IoRing::new(RING_ENTRIES).map_err(CommandFailure::io)?;
    let executor = Executor::new(Rc::clone(&ring) as Rc<_>);
    executor.block_on(work(executor.rt(), ring))
}
