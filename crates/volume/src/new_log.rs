//! A device that becomes the log of a volume.

use forebay_units::ByteLen;

use crate::open::{OpenDevice, SharedStorage};

/// A device that becomes the log of a volume; `replacing.rs` opens it.
pub struct NewLog {
    /// The device, which is still unchanged.
    pub(crate) device: OpenDevice,
    /// Bytes in a segment of the log.
    pub(crate) segment: ByteLen,
    /// The storage that the device shares with the data device of the volume.
    pub(crate) shared: SharedStorage,
}

impl NewLog {
    /// Returns the device.
    pub fn device(&self) -> &OpenDevice {
        &self.device
    }
}
