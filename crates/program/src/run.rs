//! The executor and its io_uring, for commands that access devices.

use std::future::Future;
use std::rc::Rc;

use forebay_os::Ring;
use forebay_rt::{Executor, Rt};

use crate::failure::{Failure, Outcome};

/// Maximum requests between two system calls; see [`Ring::new`].
const RING_ENTRIES: u32 = 256;

/// Runs `work` on an executor of its own.
pub fn on_ring<T, F, W>(work: W) -> Outcome<T>
where
    T: 'static,
    F: Future<Output = Outcome<T>> + 'static,
    W: FnOnce(Rt, Rc<Ring>) -> F,
{
    let ring = Ring::new(RING_ENTRIES).map_err(Failure::io)?;
    let executor = Executor::new(Rc::clone(&ring) as Rc<_>);
    executor.block_on(work(executor.rt(), ring))
}
