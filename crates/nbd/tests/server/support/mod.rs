//! A wire in memory, a client that can send anything, and a controllable device.

pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod served;

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_frontend::requests::RequestMemory;
use forebay_nbd::{BlockStatus, ClientLimits, NbdExport, NbdServer, StatusExtent, duplex};
use forebay_rt::{Executor, Rt, VirtualTime};

use client::DuplexClient;

/// Length of the devices served here, in bytes.
pub(crate) const LEN: u64 = 64 << 20;

/// Runs `test` on a virtual clock. A hanging test panics as a deadlock.
pub(crate) fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()));
}

/// Creates a server of one export, "disk".
pub(crate) fn serve(rt: &Rt, device: Rc<dyn Device>) -> NbdServer {
    serve_export(rt, NbdExport::new("disk", device))
}

pub(crate) fn serve_export(rt: &Rt, export: NbdExport) -> NbdServer {
    NbdServer::new(
        rt.clone(),
        vec![export],
        ClientLimits::default(),
        &RequestMemory::default(),
    )
    .unwrap()
}

/// Opens a new connection to `server`, without a handshake.
pub(crate) fn connect(server: &NbdServer) -> DuplexClient {
    let (ours, theirs) = duplex::pair();
    server.connect(theirs);
    DuplexClient::new(ours)
}

/// Block status with its own context, `forebay:place`: alternating ranges of 64 KiB.
pub(crate) struct StripedStatus;

impl BlockStatus for StripedStatus {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, max: usize) -> Vec<StatusExtent> {
        const STRIPE: u64 = 64 << 10;
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end && extents.len() < max {
            let stripe = at / STRIPE;
            let end = (stripe + 1) * STRIPE;
            extents.push(StatusExtent {
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
