//! A wire in memory, a client that can send anything, and a controllable device.

pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod served;

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_serve::Memory;
use forebay_serve::nbd::{BlockStatus, Export, Extent, Limits, Server, duplex};

use client::Client;

/// Length of the devices served here, in bytes.
pub(crate) const LEN: u64 = 64 << 20;

/// Runs `test` on a virtual clock. A hanging test panics as a deadlock.
pub(crate) fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()));
}

/// Creates a server of one export, "disk".
pub(crate) fn serve(rt: &Rt, device: Rc<dyn Device>) -> Server {
    serve_export(rt, Export::new("disk", device))
}

pub(crate) fn serve_export(rt: &Rt, export: Export) -> Server {
    Server::new(
        rt.clone(),
        vec![export],
        Limits::default(),
        &Memory::default(),
    )
    .unwrap()
}

/// Opens a new connection to `server`, without a handshake.
pub(crate) fn connect(server: &Server) -> Client {
    let (ours, theirs) = duplex::pair();
    server.connect(theirs);
    Client::new(ours)
}

/// Block status with its own context, `forebay:place`: alternating ranges of 64 KiB.
pub(crate) struct Striped;

impl BlockStatus for Striped {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, max: usize) -> Vec<Extent> {
        const STRIPE: u64 = 64 << 10;
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end && extents.len() < max {
            let stripe = at / STRIPE;
            let end = (stripe + 1) * STRIPE;
            extents.push(Extent {
                len: end - at,
                hole: stripe % 4 == 3,
                zero: stripe % 4 >= 2,
                value: [0, 1, 3, 3][stripe as usize % 4],
            });
            at = end;
        }
        extents
    }
}
