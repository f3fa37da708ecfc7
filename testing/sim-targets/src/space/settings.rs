//! Settings of a volume in one scenario, and its possible faults.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_sim::plan::ScenarioSettings;
pub(super) use forebay_vsl::PlacementKind as Placing;

/// The roles of the disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceDisk {
    /// The only disk.
    Medium,
}

impl forebay_sim::role::DiskRole for SpaceDisk {
    const ALL: &'static [SpaceDisk] = &[SpaceDisk::Medium];
}

impl Display for SpaceDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("medium")
    }
}

/// The faults of a scenario, in addition to power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceFaultKind {
    /// No faults.
    Calm,
    /// The disk fails requests occasionally, for a while, or permanently.
    Fails,
    /// Reads fail occasionally.
    ReadsFail,
    /// Bits change.
    Rot,
    /// A write goes to another place.
    Misdirect,
    /// The disk acknowledges flushes without executing them.
    Lies,
}

/// A volume in one scenario.
#[derive(Clone, Debug)]
pub struct SpaceTarget {
    /// The faults of the scenario.
    pub kind: SpaceFaultKind,
    /// Maximum delay of appended data before it is written.
    pub max_delay: Duration,
    /// Limit of the map's memory in bytes, if it is small.
    pub map_bytes: Option<u64>,
    /// Number of entries after the last checkpoint that triggers a checkpoint.
    pub recovery_entries: u64,
    /// Minimum length of a huge trim, in sectors. A huge trim completes before all old mappings are examined.
    pub huge_trim: u64,
    /// Limit of detached subtrees of the map that are not examined yet.
    pub detached_max: usize,
    /// Limit of the data that waits for its write in place, in bytes.
    pub home_bytes: u64,
    /// True if much is written at once.
    pub flood: bool,
    /// True if segments are discarded before they are used again.
    pub discard: bool,
    /// Reciprocal of the fraction of segments that stays unmapped.
    pub spare_part: u64,
    /// True if the volume moves data out of little worn segments at every opportunity.
    pub levelled: bool,
    /// Placement of data.
    pub placement: forebay_vsl::PlacementKind,
    /// Seed of occasional changes of the placement, if any.
    pub changes: Option<u64>,
}

impl SpaceTarget {
    /// Returns the usual settings of a volume, with these faults.
    pub fn plain(kind: SpaceFaultKind) -> SpaceTarget {
        SpaceTarget {
            kind,
            max_delay: Duration::from_millis(5),
            map_bytes: None,
            recovery_entries: 1 << 20,
            huge_trim: 1 << 17,
            detached_max: 1024,
            home_bytes: forebay_vsl::SpaceSettings::default().home_bytes,
            flood: false,
            discard: false,
            levelled: false,
            spare_part: forebay_vsl::SPARE_PART,
            placement: Placing::Lfs,
            changes: None,
        }
    }

    /// Returns true if this placement is possible. Parts of data written in place have no checksum, so a disk that
    /// damages data excludes such placements.
    pub(super) fn allows(&self, placement: Placing) -> bool {
        !self.is_dishonest() || !placement.in_place()
    }
}

impl ScenarioSettings for SpaceTarget {
    type Role = SpaceDisk;

    fn kind(&self) -> String {
        format!("{:?}", self.kind)
    }

    fn show(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, delay {:?}", self.placement, self.max_delay)?;
        write!(f, ", a checkpoint after {} entries", self.recovery_entries)?;
        write!(f, ", 1/{} spare", self.spare_part)?;
        if self.placement.in_place() {
            write!(f, ", {} bytes on their way home", self.home_bytes)?;
        }
        if self.changes.is_some() {
            write!(f, ", another placement now and then")?;
        }
        if self.levelled {
            write!(f, ", worn evenly")?;
        }
        if self.discard {
            write!(f, ", segments discarded")?;
        }
        if let Some(bytes) = self.map_bytes {
            write!(f, ", {bytes} bytes of memory for the map")?;
        }
        Ok(())
    }

    fn may_fail(&self) -> bool {
        !matches!(self.kind, SpaceFaultKind::Calm | SpaceFaultKind::Lies)
    }

    fn is_dishonest(&self) -> bool {
        matches!(
            self.kind,
            SpaceFaultKind::Rot | SpaceFaultKind::Misdirect | SpaceFaultKind::Lies
        )
    }

    fn plainer() -> &'static [fn(&mut SpaceTarget)] {
        &[
            |space| space.map_bytes = None,
            |space| space.discard = false,
            |space| space.levelled = false,
            |space| space.changes = None,
            |space| space.placement = Placing::Lfs,
            |space| space.recovery_entries = 1 << 20,
        ]
    }
}
