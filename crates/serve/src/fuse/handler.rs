//! What stands behind a connection.

use std::future::Future;
use std::rc::Rc;

use super::request::Arrival;

/// What a handler wants of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// See [`init_flag`](forebay_fuse::init_flag).
    pub flags: u64,
    /// How much the kernel may read ahead of who reads, in bytes.
    pub read_ahead: u32,
}

/// Whoever answers what the kernel asks of one mounted filesystem. [`crate::volume_file`] is one
/// file; a whole filesystem is another handler over the same transport.
///
/// The transport itself answers INIT and what is malformed. All else comes here.
pub trait Handler: 'static {
    /// What is wanted of what the kernel offers.
    fn wishes(&self) -> Wishes;

    /// Sees to a request: answers it, or begins it. Nothing else is received meanwhile, so that what
    /// this waits for (memory, for the most part) is all that a peer that asks for too much is kept
    /// waiting for; it must come without any other request of this connection being answered first.
    fn take(self: &Rc<Self>, arrival: Arrival<'_>) -> impl Future<Output = ()>;
}
