//! What users do: which page is read or written next. Plain state, apart from waiting.

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

/// Bytes of a page: those of the study.
pub const PAGE_BYTES: u64 = 8 << 10;

/// A request for a run of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageAccess {
    /// The first page.
    pub page: u32,
    /// How many, at least one.
    pub pages: u32,
    /// True for a write, false for a read.
    pub write: bool,
}

impl PageAccess {
    /// A write of one page.
    pub fn write(page: u32) -> PageAccess {
        PageAccess {
            page,
            pages: 1,
            write: true,
        }
    }

    /// A read of one page.
    pub fn read(page: u32) -> PageAccess {
        PageAccess {
            write: false,
            ..PageAccess::write(page)
        }
    }
}

/// What users do. What comes next depends on nothing but who asked in which order.
pub trait Workload {
    /// Pages that there are; all of them hold data.
    fn pages(&self) -> u32;

    /// What a user does next. It never ends.
    fn next(&mut self, user: usize) -> PageAccess;

    /// After so many requests of all users together everything was done once, if it repeats: what is measured is whole
    /// rounds, or one system would be judged by other parts than another.
    fn round(&self) -> Option<u64> {
        None
    }
}
