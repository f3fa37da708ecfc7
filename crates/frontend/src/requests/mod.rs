//! The steps common to the requests of all front ends, whatever the protocol.
//!
//! A front end takes a request from its peer and goes through these steps:
//!
//! 1. It waits until its [`RequestLimiter`] admits the request, and leases [`RequestMemory`] for the data. While a place
//!    or memory is lacking, it accepts no more requests from this peer. A peer that sends too much thus delays only
//!    itself.
//! 2. It begins the request with [`start()`], which runs the request at once as far as possible, and makes it a task
//!    only if it has to wait.
//! 3. It calls the [`FrontDevice`], the device behind the checks that every layer has.
//! 4. It replies. [`RequestFault`] converts an error into the protocol's code.
//! 5. It returns the memory, and then the request's place, when the reply is sent or no longer wanted.
//!
//! These steps wait only for the device, for a place, and for memory. They allocate only the future of the request.

mod fault;
mod memory;
mod start;
mod target;
mod under_way;

pub use fault::{RequestFault, kernel_errno};
pub use memory::{FRONT_RESERVE, PART_BYTES, RequestMemory, WHOLE_BYTES_MAX};
pub use start::start;
pub use target::{ChangeRequest, FrontDevice};
pub use under_way::{AdmittedRequest, RequestLimiter, RequestLoad};
