//! The controller's times, in nanoseconds.

use super::mechanics::ns;
use super::spec::{self, ControllerSpec};

/// A time that depends on the previous request.
#[derive(Clone, Copy)]
pub(crate) struct CommandOverhead {
    pub(crate) after_read: u64,
    pub(crate) after_write: u64,
}

impl CommandOverhead {
    fn new(of: spec::OverheadSpec) -> CommandOverhead {
        CommandOverhead {
            after_read: ns(of.after_read_ms),
            after_write: ns(of.after_write_ms),
        }
    }
}

/// The values of [`ControllerSpec`], converted.
pub(crate) struct ControllerTimes {
    pub(crate) block: u64,
    pub(crate) first_block: u64,
    pub(crate) read_hit: CommandOverhead,
    pub(crate) read_miss: CommandOverhead,
    pub(crate) write_hit: CommandOverhead,
    pub(crate) write_miss: CommandOverhead,
    pub(crate) write_completion: u64,
}

impl ControllerTimes {
    pub(crate) fn new(controller: &ControllerSpec) -> ControllerTimes {
        ControllerTimes {
            block: ns(controller.bus_ms),
            first_block: ns(controller.first_block_ms),
            read_hit: CommandOverhead::new(controller.read_hit),
            read_miss: CommandOverhead::new(controller.read_miss),
            write_hit: CommandOverhead::new(controller.write_hit),
            write_miss: CommandOverhead::new(controller.write_miss),
            write_completion: ns(controller.write_completion_ms),
        }
    }
}
