//! Why devices cannot be composed to a volume.

use std::path::PathBuf;

use forebay_dcd::{AttachError, InspectError, SalvageError};
use forebay_log::{OpenError as LogError, PairError};
use forebay_os::OpenError;
use forebay_segments::{FormatError, PairError as CopiesError};
use forebay_units::ByteLen;
use forebay_vsl::OpenError as SpaceError;

use crate::space::{NoSuchOption, hint};
use crate::{Spec, SpecError};

/// Why a volume cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A cache is described that is over another one.
    #[error(
        "the data {0} is a write cache itself; a cache over a cache can be described, and not be opened \
         yet: name a device, or a log-structured volume"
    )]
    LayerBelow(String),
    /// The log is not that of a cache over this log-structured volume.
    #[error(
        "the log {log} belongs to {want}, and the data {data} is {have}; name the right devices"
    )]
    OtherBelow {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// What the log is in front of.
        want: String,
        /// What the data device is taken for.
        have: String,
    },
    /// Log and data are one.
    #[error(
        "the log {log} and the data {data} are the same device{}; give another log, or parts that \
         do not overlap (PATH@OFFSET+LENGTH)",
        if *in_part { " in part" } else { "" }
    )]
    SameDevice {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// Whether only parts of it were given.
        in_part: bool,
    },
    /// One disk cannot be two.
    #[error(
        "the log {log} and the data {data} are parts of one disk, which cannot be two models at once; \
         name the same model, with the same options, for both"
    )]
    TwoModels {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
    },
    /// The data does not fit on the disk it is to be like.
    #[error(
        "{} has {} ({len} bytes), but the disk \"{model}\" holds {} ({capacity} bytes); give a larger \
         model, or a smaller image (an image may be smaller than the disk: it is its first part)",
        path.display(), ByteLen(*len), ByteLen(*capacity)
    )]
    TooLarge {
        /// The path of the data.
        path: PathBuf,
        /// Its length in bytes.
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
    /// The part is not in whole blocks.
    #[error("{spec} does not begin and end on the device's blocks of {block_size} bytes; round it")]
    Unaligned {
        /// The part, as given.
        spec: String,
        /// The block size in bytes.
        block_size: u32,
    },
    /// What was taken for a log is none, or cannot be looked at.
    #[error("cannot use {log} as a Forebay log: {error}")]
    NotALog {
        /// The log, as given.
        log: String,
        /// Why.
        error: InspectError,
    },
    /// What was lost with a log cannot be brought back.
    #[error("cannot salvage {log} (data {data}): {error}")]
    Salvage {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// Why.
        error: SalvageError,
    },
    /// What was taken for a log-structured volume is none, or cannot be looked at.
    #[error("cannot use {data} as a log-structured volume: {error}{}", hint(error))]
    NotASpace {
        /// The device, as given.
        data: String,
        /// Why.
        error: forebay_vsl::OpenError,
    },
    /// The log-structured volume cannot be taken up.
    #[error("cannot attach {data}: {error}{}", hint(error))]
    AttachSpace {
        /// The device, as given.
        data: String,
        /// Why.
        error: forebay_vsl::OpenError,
    },
    /// A filesystem was taken for what is served as a block device.
    #[error(
        "{0} holds a filesystem and no block device: mount it with: forebay mount --data {0} DIR"
    )]
    IsFiles(String),
    /// What was taken for a filesystem is none.
    #[error("cannot use {data} as a filesystem: {error}")]
    NotFiles {
        /// The device, as given.
        data: String,
        /// Why.
        error: forebay_dfs::OpenError,
    },
    /// A filesystem's structures cannot be read.
    #[error("cannot read the filesystem on {path}: {error}")]
    ReadFiles {
        /// The device, as given.
        path: String,
        /// Why.
        error: forebay_dfs::FsError,
    },
    /// A layer has no such option.
    #[error(transparent)]
    NoSuchOption(#[from] NoSuchOption),
    /// Only a write cache has something to salvage.
    #[error("{0} is no write cache: only the log of one can be salvaged")]
    NothingToSalvage(String),
    /// What was lost with a log over a log-structured volume is not brought back.
    #[error("{0} is the log of a cache over a log-structured volume, which cannot be salvaged yet")]
    SalvageOver(String),
    /// A log remembers its data by what is no path.
    #[error(
        "the log {log} remembers its data device as {path}, which is no path ({error}); say where it is \
         with --data PATH"
    )]
    Remembered {
        /// The log, as given.
        log: String,
        /// What it remembers.
        path: String,
        /// Why that is no path.
        error: SpecError,
    },
    /// What is to be made does not go together.
    #[error("{0}")]
    Wanted(String),
    /// A volume of that kind cannot be on that device.
    #[error("cannot use {path} as {what}: {why}")]
    Unfit {
        /// The device, as given.
        path: String,
        /// As what.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A device cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The device, as given.
        path: String,
        /// Why.
        error: forebay_device::DeviceError,
    },
    /// A volume cannot be made.
    #[error("cannot make {what} of {path}: {why}")]
    Make {
        /// The device, as given.
        path: String,
        /// What was to be made.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The write cache refuses.
    #[error("cannot attach {log} (data {data}): {error}")]
    Attach {
        /// The log, as given.
        log: String,
        /// The data, as given.
        data: String,
        /// Why.
        error: AttachError,
    },
}

/// What stands in the way, as far as programs tell it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// None of the others.
    General,
    /// What was asked for cannot be.
    Usage,
    /// What was named is not there, or not what it should be.
    NotFound,
    /// Going on could lose or mix up data, or it is in use.
    Refused,
    /// Going on would give up data that is missing from a log, which can be accepted.
    Loss,
    /// A device failed.
    Device,
}

impl StackError {
    /// Why what should be a log-structured volume cannot be looked at: it is none, or its device fails.
    pub(crate) fn not_a_space(data: &Spec, error: SpaceError) -> StackError {
        let path = data.to_string();
        match error {
            SpaceError::Device(error) => StackError::Read { path, error },
            error => StackError::NotASpace { data: path, error },
        }
    }

    /// What stands in the way.
    pub fn cause(&self) -> Cause {
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
            | StackError::Unfit { .. } => Cause::Usage,
            StackError::NothingToSalvage(_) | StackError::SalvageOver(_) => Cause::NotFound,
            StackError::Remembered { .. } => Cause::General,
            StackError::Make { .. } | StackError::Read { .. } | StackError::ReadFiles { .. } => {
                Cause::Device
            }
            StackError::NotASpace { error, .. } => match error {
                SpaceError::Superblocks(CopiesError::NoSuperblock {
                    a: FormatError::Unreadable(_),
                    ..
                }) => Cause::Device,
                _ => Cause::NotFound,
            },
            StackError::NotFiles { error, .. } => match error {
                forebay_dfs::OpenError::Superblock(_) => Cause::NotFound,
                forebay_dfs::OpenError::Space(forebay_vsl::SpaceError::Device(_)) => Cause::Device,
                _ => Cause::Refused,
            },
            StackError::AttachSpace { error, .. } => cause_in_space(error),
            StackError::SameDevice { .. } | StackError::OtherBelow { .. } => Cause::Refused,
            StackError::NotALog { .. } => Cause::NotFound,
            StackError::Salvage { error, .. } => match error {
                SalvageError::Device(_) => Cause::Device,
                _ => Cause::Refused,
            },
            StackError::Attach { error, .. } => match error {
                AttachError::Log(error) => cause_in_log(error),
                AttachError::NotOurs => Cause::NotFound,
                AttachError::Device(_) => Cause::Device,
                _ => Cause::Refused,
            },
        }
    }
}

/// Of a device that cannot be opened.
fn cause_in_opening(error: &OpenError) -> Cause {
    match error {
        OpenError::Missing { .. } => Cause::NotFound,
        OpenError::InUse { .. } | OpenError::BacksLoop { .. } | OpenError::Locked { .. } => {
            Cause::Refused
        }
        _ => Cause::Device,
    }
}

/// Of a log-structured volume that cannot be taken up.
fn cause_in_space(error: &SpaceError) -> Cause {
    match error {
        SpaceError::Damaged { .. } => Cause::Loss,
        SpaceError::Device(_) | SpaceError::Failed(_) => Cause::Device,
        SpaceError::Superblocks(CopiesError::NoSuperblock { .. }) => Cause::NotFound,
        _ => Cause::Refused,
    }
}

/// Of a log that cannot be taken up.
fn cause_in_log(error: &LogError) -> Cause {
    match error {
        LogError::Damaged(_) => Cause::Loss,
        LogError::Device(_) => Cause::Device,
        LogError::Superblocks(PairError::NoSuperblock { .. }) => Cause::NotFound,
        _ => Cause::Refused,
    }
}
