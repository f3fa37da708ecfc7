//! What every front end does with a request, whatever its protocol.
//!
//! A front end takes a request from its peer, and then:
//!
//! 1. has it admitted, among those that are [`UnderWay`], and leases [`Memory`] for its data. As long
//!    as there is no room or no memory it takes no more from the peer, so that whoever sends too much
//!    stops only itself.
//! 2. begins it with [`start`], which goes on at once as far as it can and makes a task only of what
//!    has to wait.
//! 3. asks the [`Target`], which is the device behind the checks that every layer has.
//! 4. replies; what an error is to those who asked, [`Fault`] says.
//! 5. gives back the memory and then its place, when the reply is sent or nobody wants it any more.
//!
//! None of this waits but for the device, for room and for memory, and none of it allocates but what
//! the request's own future takes.

mod fault;
mod memory;
mod start;
mod target;
mod under_way;

pub(crate) use fault::Fault;
pub use fault::kernel_errno;
pub use memory::Memory;
pub(crate) use memory::{FRONT_RESERVE, PART_BYTES, WHOLE_BYTES_MAX};
pub(crate) use start::start;
pub(crate) use target::{Change, Target};
pub(crate) use under_way::{Admission, Load, UnderWay};
