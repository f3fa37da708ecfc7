//! Arguments of commands that give a volume other devices, or devices another volume.

use clap::Args;
use forebay_units::ByteLen;
use forebay_volume::{DeviceSpec, VolumeName};

use super::completing;
use super::volumes::FoundDeviceArgs;

#[derive(Args, Debug)]
pub(crate) struct ReplaceLogArgs {
    /// The volume.
    #[arg(add = completing::volume_names())]
    pub(crate) name: VolumeName,
    /// The new log device: a block device or a file, or a part of one (PATH@OFFSET+LENGTH).
    #[arg(long, value_name = "PATH", add = completing::paths())]
    pub(crate) log: DeviceSpec,
    /// Create the new log as a file of this size if it does not exist.
    #[arg(long, value_name = "SIZE")]
    pub(crate) log_size: Option<ByteLen>,
    /// Leave a log file sparse. Faster now; later slower, and able to run out of space.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Bytes in a segment of the new log [default: 1MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) segment: Option<ByteLen>,
    /// Overwrite the contents of the new log device.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CloneIdArgs {
    #[command(flatten)]
    pub(crate) devices: FoundDeviceArgs,
    /// The name of the copy.
    #[arg(long)]
    pub(crate) name: VolumeName,
}
