//! Reasons why devices cannot be composed into a volume.

use std::path::PathBuf;

use forebay_dcd::{DcdAttachError, InspectError, SalvageError};
use forebay_linux::DeviceOpenError;
use forebay_ring_log::{LogOpenError as LogError, PairError};
use forebay_segment_log::{FormatError, PairError as CopiesError};
use forebay_units::ByteLen;
use forebay_vsl::SpaceOpenError as SpaceError;

use crate::space::{NoSuchOption, hint};
use crate::{DeviceSpec, DeviceSpecError};

/// Reason why a volume cannot be composed.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// The configuration file describes a cache over another cache.
    #[error(
        "the data {0} is a write cache itself; a cache over a cache is not supported yet: name a device, or a \
         log-structured volume"
    )]
    LayerBelow(String),
    /// The log does not belong to a cache over this log-structured volume.
    #[error(
        "the log {log} belongs to {want}, and the data {data} is {have}; name the right devices"
    )]
    OtherBelow {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The data that the log belongs to.
        want: String,
        /// The data that the data device holds.
        have: String,
    },
    /// The log and the data device overlap.
    #[error(
        "the log {log} and the data {data} are the same device{}; give another log, or parts that \
         do not overlap (PATH@OFFSET+LENGTH)",
        if *in_part { " in part" } else { "" }
    )]
    SameDevice {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// True if only parts of the device were given.
        in_part: bool,
    },
    /// Different models were named for two parts of one disk.
    #[error(
        "the log {log} and the data {data} are parts of one disk, which cannot be emulated as two models; name the \
         same model, with the same options, for both"
    )]
    TwoModels {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
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
    /// The device named as the log is not a log, or cannot be read.
    #[error("cannot use {log} as a Forebay log: {error}")]
    NotALog {
        /// The log, as given.
        log: String,
        /// The cause.
        error: InspectError,
    },
    /// Data that was lost with a log cannot be salvaged.
    #[error("cannot salvage {log} (data {data}): {error}")]
    Salvage {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The cause.
        error: SalvageError,
    },
    /// The device named as a log-structured volume is not a log-structured volume, or cannot be read.
    #[error("cannot use {data} as a log-structured volume: {error}{}", hint(error))]
    NotASpace {
        /// The device, as given.
        data: String,
        /// The cause.
        error: forebay_vsl::SpaceOpenError,
    },
    /// The log-structured volume cannot be attached.
    #[error("cannot attach {data}: {error}{}", hint(error))]
    AttachSpace {
        /// The device, as given.
        data: String,
        /// The cause.
        error: forebay_vsl::SpaceOpenError,
    },
    /// A block device was requested, but the device holds a filesystem.
    #[error(
        "{0} holds a filesystem, not a block device: mount it with: forebay mount --data {0} DIR"
    )]
    IsFiles(String),
    /// The device named as a filesystem is not a filesystem.
    #[error("cannot use {data} as a filesystem: {error}")]
    NotFiles {
        /// The device, as given.
        data: String,
        /// The cause.
        error: forebay_dfs::FsOpenError,
    },
    /// The structures of a filesystem cannot be read.
    #[error("cannot read the filesystem on {path}: {error}")]
    ReadFiles {
        /// The device, as given.
        path: String,
        /// The cause.
        error: forebay_dfs::FsError,
    },
    /// The layer does not have this option.
    #[error(transparent)]
    NoSuchOption(#[from] NoSuchOption),
    /// Only the log of a write cache can be salvaged.
    #[error("{0} is not a write cache: only the log of a write cache can be salvaged")]
    NothingToSalvage(String),
    /// Salvage does not support the log of a cache over a log-structured volume.
    #[error("{0} is the log of a cache over a log-structured volume, which cannot be salvaged yet")]
    SalvageOver(String),
    /// The data device that the log records is not a path.
    #[error(
        "the log {log} records its data device as {path}, which is not a path ({error}); name the data device with \
         --data PATH"
    )]
    Remembered {
        /// The log, as given.
        log: String,
        /// The recorded text.
        path: String,
        /// Reason why the text is not a path.
        error: DeviceSpecError,
    },
    /// The options of the requested volume contradict each other.
    #[error("{0}")]
    Wanted(String),
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
    /// The write cache cannot be attached.
    #[error("cannot attach {log} (data {data}): {error}")]
    Attach {
        /// The log, as given.
        log: String,
        /// The data device, as given.
        data: String,
        /// The cause.
        error: DcdAttachError,
    },
}

/// Class of an error, as far as programs distinguish errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorCause {
    /// Any other cause.
    General,
    /// The request is impossible.
    Usage,
    /// A named object is missing, or is not of the expected kind.
    NotFound,
    /// Continuing could lose or mix up data, or the object is in use.
    Refused,
    /// Continuing would abandon data that is missing from a log. An administrator can accept the loss.
    Loss,
    /// A device failed.
    Device,
}

impl StackError {
    /// Returns the error for a device that was named as a log-structured volume, but cannot be read or is not such a
    /// volume.
    pub(crate) fn not_a_space(data: &DeviceSpec, error: SpaceError) -> StackError {
        let path = data.to_string();
        match error {
            SpaceError::Device(error) => StackError::Read { path, error },
            error => StackError::NotASpace { data: path, error },
        }
    }

    /// Returns the class of the error.
    pub fn cause(&self) -> ErrorCause {
        match self {
            StackError::Open(error) => cause_in_opening(error),
            StackError::PastTheEnd { .. }
            | StackError::Unaligned { .. }
            | StackError::TooLarge { .. }
            | StackError::TwoModels { .. }
            | StackError::LayerBelow(_)
            | StackError::IsFiles(_)
            | StackError::NoSuchOption(_)
            | StackError::Wanted(_)
            | StackError::Unfit { .. } => ErrorCause::Usage,
            StackError::NothingToSalvage(_) | StackError::SalvageOver(_) => ErrorCause::NotFound,
            StackError::Remembered { .. } => ErrorCause::General,
            StackError::Make { .. } | StackError::Read { .. } | StackError::ReadFiles { .. } => {
                ErrorCause::Device
            }
            StackError::NotASpace { error, .. } => match error {
                SpaceError::Superblocks(CopiesError::NoSuperblock {
                    a: FormatError::Unreadable(_),
                    ..
                }) => ErrorCause::Device,
                _ => ErrorCause::NotFound,
            },
            StackError::NotFiles { error, .. } => match error {
                forebay_dfs::FsOpenError::Superblock(_) => ErrorCause::NotFound,
                forebay_dfs::FsOpenError::Space(forebay_vsl::SpaceError::Device(_)) => {
                    ErrorCause::Device
                }
                _ => ErrorCause::Refused,
            },
            StackError::AttachSpace { error, .. } => cause_in_space(error),
            StackError::SameDevice { .. } | StackError::OtherBelow { .. } => ErrorCause::Refused,
            StackError::NotALog { .. } => ErrorCause::NotFound,
            StackError::Salvage { error, .. } => match error {
                SalvageError::Device(_) => ErrorCause::Device,
                _ => ErrorCause::Refused,
            },
            StackError::Attach { error, .. } => match error {
                DcdAttachError::Log(error) => cause_in_log(error),
                DcdAttachError::NotOurs => ErrorCause::NotFound,
                DcdAttachError::Device(_) => ErrorCause::Device,
                _ => ErrorCause::Refused,
            },
        }
    }
}

/// Returns the class of an error in opening a device.
fn cause_in_opening(error: &DeviceOpenError) -> ErrorCause {
    match error {
        DeviceOpenError::Missing { .. } => ErrorCause::NotFound,
        DeviceOpenError::InUse { .. }
        | DeviceOpenError::BacksLoop { .. }
        | DeviceOpenError::Locked { .. } => ErrorCause::Refused,
        _ => ErrorCause::Device,
    }
}

/// Returns the class of an error in attaching a log-structured volume.
fn cause_in_space(error: &SpaceError) -> ErrorCause {
    match error {
        SpaceError::Damaged { .. } => ErrorCause::Loss,
        SpaceError::Device(_) | SpaceError::Failed(_) => ErrorCause::Device,
        SpaceError::Superblocks(CopiesError::NoSuperblock { .. }) => ErrorCause::NotFound,
        _ => ErrorCause::Refused,
    }
}

/// Returns the class of an error in attaching a log.
fn cause_in_log(error: &LogError) -> ErrorCause {
    match error {
        LogError::Damaged(_) => ErrorCause::Loss,
        LogError::Device(_) => ErrorCause::Device,
        LogError::Superblocks(PairError::NoSuperblock { .. }) => ErrorCause::NotFound,
        _ => ErrorCause::Refused,
    }
}
