//! The executor and its io_uring, for commands that access devices.

use std::future::Future;
use std::rc::Rc;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_linux::IoRing;
use forebay_rt::Rt;

/// Runs `work` on an executor of its own.
pub(crate) fn on_ring<T, F>(work: impl FnOnce(Rt, Rc<IoRing>) -> F) -> CommandResult<T>
where
    T: 'static,
    F: Future<Output = CommandResult<T>> + 'static,
{
    forebay_linux::on_ring(work).map_err(CommandFailure::io)?
}
