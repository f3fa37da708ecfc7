//! What can be wrong with an array, and how members' errors are told.

use std::ops::Range;

use forebay_device::{DeviceError, Op};

/// Why devices cannot become an array, or a device a member of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// There are too few or too many devices.
    #[error("{have} devices; an array of this kind has {least} to {most}")]
    Members {
        /// How many there are.
        have: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The stripe unit does not suit the devices.
    #[error(
        "a stripe unit of {unit} bytes is not a multiple of the {block} bytes that a device writes at \
         once, or makes rows of 4 GiB or more"
    )]
    Unit {
        /// The stripe unit, in bytes.
        unit: u32,
        /// The largest physical block of the devices, in bytes.
        block: u32,
    },
    /// A device writes less at once than another one's smallest request.
    #[error(
        "a device writes blocks of {physical} bytes at once, and another one takes no requests below \
         {block}: use devices of one block size"
    )]
    Unlike {
        /// The smallest physical block of the devices, in bytes.
        physical: u32,
        /// The largest block of the devices, in bytes.
        block: u32,
    },
    /// A device is shorter than it must be.
    #[error("a device has {have} bytes; {need} are needed")]
    TooShort {
        /// The device's length, in bytes.
        have: u64,
        /// The least that would do, in bytes.
        need: u64,
    },
    /// There is no member of that number, or it is not in the state that this asks for.
    #[error("member {0} is not there, or not missing: nothing was done")]
    NoSuchMember(usize),
    /// More members are missing than the others can stand in for.
    #[error("{0} members are missing; the others can stand in for one")]
    Missing(usize),
}

/// A member's error as the array's, whose request it was a part of: positions are the array's.
pub(crate) fn located(error: DeviceError, op: Op, range: &Range<u64>) -> DeviceError {
    let range = range.clone();
    match error {
        DeviceError::Io { source, .. } => DeviceError::Io { op, range, source },
        DeviceError::Damaged { detail, .. } => DeviceError::Damaged { range, detail },
        DeviceError::OutOfRange { .. } | DeviceError::Unaligned { .. } => {
            DeviceError::io(op, range, std::io::Error::other(error))
        }
        DeviceError::ReadOnly { .. } | DeviceError::Failed { .. } | DeviceError::Closed { .. } => {
            error
        }
    }
}
