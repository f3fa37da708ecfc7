//! What a volume is like in one world, and what may go wrong there.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_sim::plan::ScenarioSettings;
pub(super) use forebay_vsl::PlacementKind as Placing;

/// There is one disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceDisk {
    /// It has everything.
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

/// What may go wrong in a world, beside power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceFaultKind {
    /// Nothing.
    Calm,
    /// The disk refuses requests now and then, for a while, or for good.
    Fails,
    /// Reads fail now and then.
    ReadsFail,
    /// Bits change.
    Rot,
    /// A write lands elsewhere.
    Misdirect,
    /// The disk says that it flushes and does not.
    Lies,
}

/// A volume in one world.
#[derive(Clone, Debug)]
pub struct SpaceTarget {
    /// What may go wrong.
    pub kind: SpaceFaultKind,
    /// How long what is appended waits before it is written.
    pub max_delay: Duration,
    /// The memory that the map may take, in bytes, if that is little.
    pub map_bytes: Option<u64>,
    /// A checkpoint is made when there are so many entries behind the last.
    pub recovery_entries: u64,
    /// Trims from this length on, in sectors, do not look at all that was mapped there.
    pub huge_trim: u64,
    /// How many subtrees may be cut out of the map and not looked at.
    pub detached_max: usize,
    /// Bytes that may be on their way home.
    pub home_bytes: u64,
    /// Much is written at once.
    pub flood: bool,
    /// Segments are discarded before they are used again.
    pub discard: bool,
    /// One in so many segments is kept free of what is mapped.
    pub spare_part: u64,
    /// What lies in segments that are hardly worn is moved at every turn.
    pub levelled: bool,
    /// How data is placed.
    pub placement: forebay_vsl::PlacementKind,
    /// The placement is changed now and then, as follows from this seed.
    pub changes: Option<u64>,
}

impl SpaceTarget {
    /// A volume of the usual kind.
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

    /// True if what was brought home may be there: parts of that have no checksum, so of a disk that harms data nothing can be
    /// asked then.
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
