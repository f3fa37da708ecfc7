//! A device for a run, and its counters.

use std::rc::Rc;

use forebay_device::Device;
use forebay_disk_model::ZonedDevice;
use forebay_disk_model::flash::{PlainFlash, TranslatedFlash};
use forebay_raid::ParityArray;
use serde::{Deserialize, Serialize};

/// Counters of the devices below a system, in bytes unless stated otherwise. A counter is 0 if the device does not
/// maintain it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct MediumCounts {
    /// Bytes written to a solid-state drive.
    pub host: u64,
    /// Bytes programmed by flash chips.
    pub programmed: u64,
    /// Programmed bytes that a drive's collection moved.
    pub moved: u64,
    /// Bytes that a drive read to complete mapping units.
    pub completed: u64,
    /// Data written in whole rows of an array with parity.
    pub row: u64,
    /// Data written in parts of rows of an array with parity.
    pub part: u64,
    /// Number of zone resets.
    pub resets: u64,
    /// Number of writes that a zone refused.
    pub refused: u64,
    /// Maximum number of partly written zones at one time, since the beginning.
    pub partly_written_max: u64,
}

impl MediumCounts {
    /// Returns the counters since `before`.
    #[must_use]
    pub fn since(&self, before: &MediumCounts) -> MediumCounts {
        MediumCounts {
            host: self.host - before.host,
            programmed: self.programmed - before.programmed,
            moved: self.moved - before.moved,
            completed: self.completed - before.completed,
            row: self.row - before.row,
            part: self.part - before.part,
            resets: self.resets - before.resets,
            refused: self.refused - before.refused,
            partly_written_max: self.partly_written_max,
        }
    }
}

/// The device whose counters are read.
pub(crate) enum CountedDevice {
    Nothing,
    Parity(Rc<ParityArray>),
    Zones(Rc<ZonedDevice>),
    Chips(Rc<PlainFlash>),
    Drive(Rc<TranslatedFlash>),
}

/// Bytes of a page of plain flash.
const CHIP_PAGE_BYTES: u64 = 4096;

/// A device for a system.
pub struct MediumDevice {
    pub(crate) device: Rc<dyn Device>,
    pub(crate) counted: CountedDevice,
}

impl MediumDevice {
    /// Returns the device.
    pub fn device(&self) -> Rc<dyn Device> {
        Rc::clone(&self.device)
    }

    /// Returns the current counters.
    pub fn counts(&self) -> MediumCounts {
        let none = MediumCounts::default();
        match &self.counted {
            CountedDevice::Nothing => none,
            CountedDevice::Parity(array) => MediumCounts {
                row: array.stats().row_bytes,
                part: array.stats().part_bytes,
                ..none
            },
            CountedDevice::Zones(zones) => MediumCounts {
                resets: zones.usage().resets,
                refused: zones.usage().refused,
                partly_written_max: zones.usage().partly_written_max,
                ..none
            },
            CountedDevice::Chips(chips) => MediumCounts {
                programmed: chips.usage().programs * CHIP_PAGE_BYTES,
                ..none
            },
            CountedDevice::Drive(drive) => {
                let usage = drive.usage();
                MediumCounts {
                    host: usage.host,
                    programmed: usage.programmed,
                    moved: usage.moved,
                    completed: usage.completed,
                    ..none
                }
            }
        }
    }

    /// Returns true for a solid-state drive, which has its own cleaning.
    pub(crate) fn is_drive(&self) -> bool {
        matches!(self.counted, CountedDevice::Drive(_))
    }

    /// Returns true if segments must or should be discarded before they are written again.
    pub(crate) fn wants_discards(&self) -> bool {
        matches!(
            self.counted,
            CountedDevice::Zones(_) | CountedDevice::Chips(_) | CountedDevice::Drive(_)
        )
    }
}
