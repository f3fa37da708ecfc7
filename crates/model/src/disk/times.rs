//! The controller's times, in nanoseconds.

use super::mechanics::ns;
use super::spec::{self, Controller};

/// A time that depends on the previous request.
#[derive(Clone, Copy)]
pub(crate) struct Overhead {
    pub(crate) after_read: u64,
    pub(crate) after_write: u64,
}

impl Overhead {
    fn new(of: spec::Overhead) -> Overhead {
        Overhead {
            after_read: ns(of.after_read_ms),
            after_write: ns(of.after_write_ms),
        }
    }
}

/// The values of [`Controller`], converted.
pub(crate) struct Times {
    pub(crate) block: u64,
    pub(crate) first_block: u64,
    pub(crate) read_hit: Overhead,
    pub(crate) read_miss: Overhead,
    pub(crate) write_hit: Overhead,
    pub(crate) write_miss: Overhead,
    pub(crate) write_completion: u64,
}

impl Times {
    pub(crate) fn new(controller: &Controller) -> Times {
        Times {
            block: ns(controller.bus_ms),
            first_block: ns(controller.first_block_ms),
            read_hit: Overhead::new(controller.read_hit),
            read_miss: Overhead::new(controller.read_miss),
            write_hit: Overhead::new(controller.write_hit),
            write_miss: Overhead::new(controller.write_miss),
            write_completion: ns(controller.write_completion_ms),
        }
    }
}
