//! Reasons why devices cannot be composed into a volume.

use std::path::PathBuf;

use forebay_linux::DeviceOpenError;
use forebay_units::ByteLen;

use crate::error_cause::ErrorCause;
use crate::tree::NoSuchOption;

/// Reason why a volume cannot be composed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// Two devices overlap.
    #[error(
        "the {} {} and the {} {} are the same device{}; give another {}, or parts that do not overlap \
         (PATH@OFFSET+LENGTH)",
        devices[0].0, devices[0].1, devices[1].0, devices[1].1, if *in_part { " in part" } else { "" },
        devices[0].0
    )]
    SameDevice {
        /// Role and device, as given.
        devices: [(&'static str, String); 2],
        /// True if only parts of the device were given.
        in_part: bool,
    },
    /// Different models were named for two parts of one disk.
    #[error(
        "the {} {} and the {} {} are parts of one disk, which cannot be emulated as two models; name the same model, \
         with the same options, for both",
        devices[0].0, devices[0].1, devices[1].0, devices[1].1
    )]
    TwoModels {
        /// Role and device, as given.
        devices: [(&'static str, String); 2],
    },
    /// The data does not fit on the emulated disk.
    #[error(
        "{} has {} ({len} bytes), but the disk \"{model}\" holds {} ({capacity} bytes); give a larger model, or a \
         smaller image (an image smaller than the disk is its first part)",
        path.display(), ByteLen(*len), ByteLen(*capacity)
    )]
    TooLarge {
        /// The path of the data.
        path: PathBuf,
        /// The length of the data in bytes.
        len: u64,
        /// The disk's name.
        model: String,
        /// The disk's capacity in bytes.
        capacity: u64,
    },
    /// The part is not inside the device.
    #[error("{spec} reaches past the end of the device, which has {} ({len} bytes)", ByteLen(*len))]
    PastTheEnd {
        /// The part, as given.
        spec: String,
        /// The device's length in bytes.
        len: u64,
    },
    /// The part is not aligned to whole blocks.
    #[error("{spec} does not begin and end on the device's blocks of {block_size} bytes; round it")]
    Unaligned {
        /// The part, as given.
        spec: String,
        /// The block size in bytes.
        block_size: u32,
    },
    /// The layer does not have this option.
    #[error(transparent)]
    NoSuchOption(#[from] NoSuchOption),
    /// Only the log of a write cache can be salvaged.
    #[error("{0} is not a write cache: only the log of a write cache can be salvaged")]
    NothingToSalvage(String),
    /// The parameters of the requested volume contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The device is unsuitable for a volume of this kind.
    #[error("cannot use {path} as {what}: {why}")]
    Unfit {
        /// The device, as given.
        path: String,
        /// The intended role.
        what: &'static str,
        /// The cause.
        why: String,
    },
    /// A device cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The device, as given.
        path: String,
        /// The cause.
        error: forebay_device::DeviceError,
    },
    /// A volume cannot be created.
    #[error("cannot make {what} of {path}: {why}")]
    Make {
        /// The device, as given.
        path: String,
        /// The kind of volume that was requested.
        what: &'static str,
        /// The cause.
        why: String,
    },
    /// An error of one kind of volume.
    #[error("{0}")]
    Kind(Box<dyn KindError>),
}

/// An error of one kind of volume.
pub trait KindError: std::error::Error + 'static {
    /// Returns the class of the error.
    fn class(&self) -> ErrorCause;
}

impl<E: KindError> From<E> for VolumeError {
    fn from(error: E) -> VolumeError {
        VolumeError::Kind(Box::new(error))
    }
}

impl VolumeError {
    /// Returns the class of the error.
    pub fn cause(&self) -> ErrorCause {
        match self {
            VolumeError::Open(error) => cause_in_opening(error),
            VolumeError::PastTheEnd { .. }
            | VolumeError::Unaligned { .. }
            | VolumeError::TooLarge { .. }
            | VolumeError::TwoModels { .. }
            | VolumeError::NoSuchOption(_)
            | VolumeError::Usage(_)
            | VolumeError::Unfit { .. } => ErrorCause::Usage,
            VolumeError::NothingToSalvage(_) => ErrorCause::NotFound,
            VolumeError::Make { .. } | VolumeError::Read { .. } => ErrorCause::Device,
            VolumeError::SameDevice { .. } => ErrorCause::Refused,
            VolumeError::Kind(error) => error.class(),
        }
    }
}

/// Returns the class of an error in opening a device.
fn cause_in_opening(error: &DeviceOpenError) -> ErrorCause {
    match error {
        DeviceOpenError::Missing { .. } | DeviceOpenError::NoMedium { .. } => ErrorCause::NotFound,
        DeviceOpenError::InUse { .. }
        | DeviceOpenError::BacksLoop { .. }
        | DeviceOpenError::Locked { .. } => ErrorCause::Refused,
        _ => ErrorCause::Device,
    }
}
