//! Context of a trial, and the sizes of its images.

use std::path::PathBuf;

use forebay_disk_model::Lateness;
use forebay_volume::DiskModelSpec;

use crate::place::ScratchDir;
use crate::report::TryReport;
use crate::stop::UserStop;

/// Context of a trial: the users, the disk, and the places of the images.
pub struct TryContext {
    /// Number of concurrent users.
    pub users: u32,
    /// The user's wish to stop.
    pub stop: UserStop,
    /// Model of the emulated disk under the images, if a disk is emulated.
    pub disk: Option<DiskModelSpec>,
    /// Share of a filesystem that is in use before the measurement, in percent.
    pub filled: Option<u8>,
    /// The program `forebay`, which serves the volumes.
    pub program: PathBuf,
    /// The directory of the images.
    pub scratch: ScratchDir,
    /// Size of a data device.
    pub data_bytes: u64,
    /// Size of a log.
    pub log_bytes: u64,
}

/// Returns the space for each user's files and copies, and for the filesystem itself.
pub fn data_bytes(users: u32) -> u64 {
    (256 << 20) + u64::from(users) * (64 << 20)
}

impl TryContext {
    /// Returns the amount of work of a user: `full`, or on an emulated disk the part that fits into tens of seconds.
    pub(crate) fn amount(&self, full: u32) -> u32 {
        match self.disk {
            Some(_) => full * 2 / 5,
            None => full,
        }
    }

    /// Adds a note about the lateness of the emulated disk.
    pub fn note_lateness(&self, report: &mut TryReport, late: Option<Lateness>) {
        if let Some(late) = late {
            report.note(format!(
                "the emulated plain disk completed {} requests, half of them within {} µs of its model, 99 % within \
                 {} µs; {} had to wait for the real disk",
                late.answers,
                late.p50.as_micros(),
                late.p99.as_micros(),
                late.by_data
            ));
        }
    }
}
