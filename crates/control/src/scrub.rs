//! The state of the newest scrub of a volume, as its daemon reports it.

use forebay_device::described;
use serde::{Deserialize, Serialize};

/// A range of sectors in which a scrub found a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScrubRange {
    /// The part of the volume: `data`, `map`, `log`, `superblock`, `log superblock` or `data device`.
    pub area: String,
    /// The first sector of 512 bytes. For superblocks and devices, counted on the device, otherwise in the volume.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// The reason.
    pub detail: String,
}

impl std::fmt::Display for ScrubRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (area, sector, sectors) = (&self.area, self.sector, self.sectors);
        write!(
            f,
            "{area}: {sectors} sectors from sector {sector} on: {}",
            self.detail
        )
    }
}

described! {
    /// The state of the newest scrub.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct ScrubStatus {
        #[serde(default)]
        Fact scrub: String = "Phase of the newest scrub: `never`, `running`, `finished`, `stopped`, or `failed` if a device returned too many errors",
        #[serde(default)]
        Gauge scrub_done_bytes: u64 = "Bytes that the newest scrub has read",
        #[serde(default)]
        Gauge scrub_checked_bytes: u64 = "The part of these bytes that was compared with checksums",
        #[serde(default)]
        Gauge scrub_total_bytes: u64 = "Bytes that the newest scrub has to read, approximately while it is running",
        #[serde(default)]
        Gauge scrub_rate_max_bytes: u64 = "Limit of the newest scrub, in bytes per second; 0 without a limit",
        #[serde(default)]
        Gauge scrub_eta_s: Option<f64> = "Expected time until the end of the running scrub, in seconds",
        #[serde(default)]
        Gauge scrub_finished_timestamp_s: Option<f64> = "Time when the newest complete scrub ended, in seconds since 1970",
        #[serde(default)]
        Gauge scrub_damaged_ranges: u64 = "Ranges that the newest scrub found damaged",
        #[serde(default)]
        Gauge scrub_unreadable_ranges: u64 = "Ranges that a device did not return to the newest scrub, not even later: not damage, but errors of a device",
        #[serde(default)]
        Fact scrub_damage: Vec<ScrubRange> = "The first damaged ranges, at most 256: `area`, `sector`, `sectors` and `detail`",
        #[serde(default)]
        Fact scrub_unreadable: Vec<ScrubRange> = "The first unreadable ranges, at most 256",
    }
}

impl ScrubStatus {
    /// Returns true while the scrub is under way.
    pub fn is_running(&self) -> bool {
        self.scrub == "running"
    }

    /// Returns true if the scrub has read everything.
    pub fn is_finished(&self) -> bool {
        self.scrub == "finished"
    }

    /// Returns true if a scrub began since the volume was attached.
    pub fn has_begun(&self) -> bool {
        !self.scrub.is_empty() && self.scrub != "never"
    }
}
