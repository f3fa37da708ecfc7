//! The interface between a scrub, which reads all data of a volume in use, and the layers that own the data.

use std::ops::Range;
use std::pin::Pin;

use crate::error::DeviceError;

/// A part of a volume, as a scrub reports it. Positions are sectors of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubArea {
    /// Copies of a superblock. Positions are those of the device that holds them.
    Superblock,
    /// Data of the volume. Positions are those of the volume, or of the space below a filesystem.
    Data,
    /// Nodes of the map. Positions are the sectors of the volume that a node maps.
    Map,
    /// Copies of the superblock of a write cache's log.
    LogSuperblock,
    /// Data in the log of a write cache. Positions are those of the volume.
    Log,
    /// A device without checksums. Positions are those of the device.
    Device,
}

impl ScrubArea {
    /// Returns the name, as in messages and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ScrubArea::Superblock => "superblock",
            ScrubArea::Data => "data",
            ScrubArea::Map => "map",
            ScrubArea::LogSuperblock => "log superblock",
            ScrubArea::Log => "log",
            ScrubArea::Device => "data device",
        }
    }
}

/// Kind of a fault that a scrub found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubFaultKind {
    /// The content does not match its checksum.
    Damaged,
    /// A device returned an error, so the content is unknown.
    Unreadable,
}

/// A fault that a scrub found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubFault {
    /// The part of the volume.
    pub area: ScrubArea,
    /// Kind of the fault.
    pub kind: ScrubFaultKind,
    /// The affected sectors of the area.
    pub sectors: Range<u64>,
    /// The reason, in words.
    pub detail: String,
}

impl ScrubFault {
    /// Returns a fault of content that does not match its checksum.
    pub fn damaged(area: ScrubArea, sectors: Range<u64>, detail: impl ToString) -> ScrubFault {
        ScrubFault {
            area,
            kind: ScrubFaultKind::Damaged,
            sectors,
            detail: detail.to_string(),
        }
    }

    /// Returns the fault that an error of a device means. Damage that a layer below the area reports is damage.
    pub fn of_device(area: ScrubArea, sectors: Range<u64>, error: &DeviceError) -> ScrubFault {
        let kind = match error {
            DeviceError::Damaged { .. } => ScrubFaultKind::Damaged,
            _ => ScrubFaultKind::Unreadable,
        };
        ScrubFault {
            area,
            kind,
            sectors,
            detail: error.to_string(),
        }
    }
}

/// Result of one step of a scrub.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubStep {
    /// The position where the next step begins. At least the end of the range if the area has no more content.
    pub next: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The part of these bytes that was compared with checksums.
    pub checked_bytes: u64,
    /// Faults in these bytes.
    pub faults: Vec<ScrubFault>,
}

impl ScrubStep {
    /// Adds a fault. Joins it with the last fault if both are alike and adjacent.
    pub fn add(&mut self, fault: ScrubFault) {
        match self.faults.last_mut() {
            Some(last)
                if (last.area, last.kind) == (fault.area, fault.kind)
                    && (last.sectors.start..=last.sectors.end).contains(&fault.sectors.start) =>
            {
                last.sectors.end = last.sectors.end.max(fault.sectors.end);
            }
            _ => self.faults.push(fault),
        }
    }
}

/// Future result of a step of a scrub.
pub type ScrubFuture<'a> = Pin<Box<dyn Future<Output = ScrubStep> + 'a>>;

/// A part of a volume that a scrub reads, in the order of its positions.
pub trait ScrubTarget {
    /// Returns the part of the volume.
    fn area(&self) -> ScrubArea;

    /// Returns the position behind the last, at present.
    fn end(&self) -> u64;

    /// Returns the bytes to read from the start to the end, at present and approximately.
    fn bytes(&self) -> u64;

    /// Reads the next content of a range of positions, at most about [`SCRUB_BYTES`], and compares it with its
    /// checksums. A step keeps nothing locked or pinned when it has ended, so the volume may change in any way between
    /// two steps. A step must not be abandoned before its end, unless the volume is closed.
    fn step(&self, range: Range<u64>) -> ScrubFuture<'_>;
}

/// Bytes that one step of a scrub reads. A client's request may have to wait for them.
pub const SCRUB_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_faults_of_one_kind_are_joined() {
        let mut step = ScrubStep::default();
        let data = |sectors| ScrubFault::damaged(ScrubArea::Data, sectors, "");
        step.add(data(0..8));
        step.add(data(8..16));
        // A block of an extent that shares one checksum reports the whole extent.
        step.add(data(8..32));
        step.add(data(40..48));
        let gone = DeviceError::io(
            crate::DeviceOp::Read,
            0..1,
            std::io::Error::from_raw_os_error(5),
        );
        step.add(ScrubFault::of_device(ScrubArea::Data, 48..56, &gone));
        let found: Vec<_> = step
            .faults
            .iter()
            .map(|f| (f.kind, f.sectors.clone()))
            .collect();
        let expected = [
            (ScrubFaultKind::Damaged, 0..32),
            (ScrubFaultKind::Damaged, 40..48),
            (ScrubFaultKind::Unreadable, 48..56),
        ];
        assert_eq!(found, expected);
    }
}
