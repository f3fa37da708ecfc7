//! The users' requests: reads and writes of pages. A workload has only state, without waiting.

mod pool;
mod synthetic;
mod tables;
mod tpcc;
mod traced;

pub use pool::{DatabasePool, PoolOptions};
pub use synthetic::{Skew, SyntheticWorkload};
pub use tables::{TpcCSize, TpcCTable};
pub use tpcc::TpcC;
pub use traced::{StudyTrace, TraceError, TracedWorkload};

/// Bytes of a page, as in the slides.
pub const PAGE_BYTES: u64 = 8 << 10;

/// A request for consecutive pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageAccess {
    /// The first page.
    pub page: u32,
    /// Number of pages, at least one.
    pub pages: u32,
    /// True for a write, false for a read.
    pub write: bool,
}

impl PageAccess {
    /// Returns a write of one page.
    pub fn write(page: u32) -> PageAccess {
        PageAccess {
            page,
            pages: 1,
            write: true,
        }
    }

    /// Returns a read of one page.
    pub fn read(page: u32) -> PageAccess {
        PageAccess {
            write: false,
            ..PageAccess::write(page)
        }
    }
}

/// A source of requests. The requests depend only on the order in which users ask.
pub trait Workload {
    /// Returns the number of pages. All pages hold data.
    fn pages(&self) -> u32;

    /// Returns the next request of a user. The requests never end.
    fn next(&mut self, user: usize) -> PageAccess;

    /// Returns the number of requests of all users after which the workload repeats, if it does. A measurement covers
    /// whole rounds, because different parts of a workload would bias the comparison of systems.
    fn round(&self) -> Option<u64> {
        None
    }
}
