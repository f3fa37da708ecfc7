//! An executor over a ring of its own, for a program's main thread or a thread of its own.

use std::future::Future;
use std::io;
use std::rc::Rc;

use forebay_rt::{Executor, Rt};

use crate::ring::IoRing;

/// Maximum requests between two system calls; see [`IoRing::new`].
const RING_ENTRIES: u32 = 256;

/// Runs `work` on an executor of its own, and returns its output.
///
/// # Errors
/// If the kernel has no io_uring, or forbids it: see [`IoRing::new`].
pub fn on_ring<T, F>(work: impl FnOnce(Rt, Rc<IoRing>) -> F) -> io::Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let ring = IoRing::new(RING_ENTRIES)?;
    let executor = Executor::new(Rc::clone(&ring) as Rc<_>);
    Ok(executor.block_on(work(executor.rt(), ring)))
}
