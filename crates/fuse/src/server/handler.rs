//! The interface between a connection and a filesystem.

use std::future::Future;
use std::rc::Rc;

use super::request::IncomingRequest;
use crate::codec::FuseRequest;

/// The options that a handler requests from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct InitOptions {
    /// See [`init_flag`](crate::codec::init_flag).
    pub flags: u64,
    /// Limit on the kernel's read-ahead, in bytes.
    pub read_ahead: u32,
}

/// A filesystem that answers the kernel's requests. The handler in the crate `loopdev` has one file; a whole
/// filesystem is another handler over the same transport.
///
/// The transport itself answers INIT and malformed requests. The handler gets all others.
pub trait FuseHandler: 'static {
    /// Returns the requested options.
    fn wishes(&self) -> InitOptions;

    /// Answers a request, or begins it. The connection receives no other request meanwhile. So a client that sends too
    /// much waits only for the resources that this method waits for, mostly memory. These resources must become
    /// available without an answer to another request of this connection.
    fn take(
        self: &Rc<Self>,
        arrival: IncomingRequest<'_>,
        request: FuseRequest,
    ) -> impl Future<Output = ()>;
}
