//! Errors of arrays, and conversion of members' errors.

use std::ops::Range;

use forebay_device::{DeviceError, DeviceOp};

/// An error if devices cannot form an array, or a device cannot become a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The number of devices is too small or too large.
    #[error("{have} devices; an array of this kind has {least} to {most}")]
    Members {
        /// The number of devices.
        have: usize,
        /// The fewest devices.
        least: usize,
        /// The most devices.
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
    /// The physical block of a device is smaller than the smallest request of another device.
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
    /// A device is too short.
    #[error("a device has {have} bytes; {need} are needed")]
    TooShort {
        /// The device's length, in bytes.
        have: u64,
        /// The shortest sufficient length, in bytes.
        need: u64,
    },
    /// The member does not exist, or is not in the required state.
    #[error("member {0} is not there, or not missing: nothing was done")]
    NoSuchMember(usize),
    /// More members are missing than the others can replace.
    #[error("{0} members are missing; the others can stand in for one")]
    Missing(usize),
}

/// Converts a member's error to an error of the array's request, with positions of the array.
pub(crate) fn located(error: DeviceError, op: DeviceOp, range: &Range<u64>) -> DeviceError {
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
