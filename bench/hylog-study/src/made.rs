//! A medium that was made, and what its devices count.

use std::rc::Rc;

use forebay_device::Device;
use forebay_disk_model::ZonedDevice;
use forebay_disk_model::flash::{PlainFlash, TranslatedFlash};
use forebay_raid::ParityArray;
use serde::{Deserialize, Serialize};

/// Counts of the devices below a system, in bytes where not said otherwise; 0 where a device does not count them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct MediumCounts {
    /// Written to a solid-state drive.
    pub host: u64,
    /// Programmed by flash chips.
    pub programmed: u64,
    /// Of that, moved by a drive's collection.
    pub moved: u64,
    /// Read by a drive to complete mapping units.
    pub completed: u64,
    /// Data written in whole rows of an array with parity.
    pub row: u64,
    /// Data written in parts of rows of an array with parity.
    pub part: u64,
    /// Zones that were reset.
    pub resets: u64,
    /// Writes that a zone refused.
    pub refused: u64,
    /// The most zones that were partly written at one time, since the beginning.
    pub partly_written_max: u64,
}

impl MediumCounts {
    /// Counts since then.
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

/// Device whose counts are read.
pub(crate) enum CountedDevice {
    Nothing,
    Parity(Rc<ParityArray>),
    Zones(Rc<ZonedDevice>),
    Chips(Rc<PlainFlash>),
    Drive(Rc<TranslatedFlash>),
}

/// Bytes of a page of plain flash.
const CHIP_PAGE_BYTES: u64 = 4096;

/// A device to run a system on.
pub struct MediumDevice {
    pub(crate) device: Rc<dyn Device>,
    pub(crate) counted: CountedDevice,
}

impl MediumDevice {
    /// The device.
    pub fn device(&self) -> Rc<dyn Device> {
        Rc::clone(&self.device)
    }

    /// Counts so far.
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

    /// True for a solid-state drive, which cleans below whatever is written to it.
    pub(crate) fn is_drive(&self) -> bool {
        matches!(self.counted, CountedDevice::Drive(_))
    }

    /// True if segments must be discarded before they are written again, or should be.
    pub(crate) fn wants_discards(&self) -> bool {
        matches!(
            self.counted,
            CountedDevice::Zones(_) | CountedDevice::Chips(_) | CountedDevice::Drive(_)
        )
    }
}
