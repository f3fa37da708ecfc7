//! Settings of a cache in one scenario, and its possible faults.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_device::AckMode;
use forebay_sim::plan::ScenarioSettings;

/// The role of a disk in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheDisk {
    /// The log device, which receives small writes first.
    Log,
    /// The data device.
    Data,
    /// A device that may become the log.
    Spare,
}

impl forebay_sim::role::DiskRole for CacheDisk {
    const ALL: &'static [CacheDisk] = &[CacheDisk::Log, CacheDisk::Data, CacheDisk::Spare];
}

impl Display for CacheDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CacheDisk::Log => "log",
            CacheDisk::Data => "data",
            CacheDisk::Spare => "spare log",
        })
    }
}

/// The faults of a scenario, in addition to power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFaultKind {
    /// No faults.
    Calm,
    /// The data device fails requests occasionally, for a while, or permanently.
    DataFails,
    /// The data device has no free space.
    DataFull,
    /// The log device fails one request, some requests, or all later requests.
    LogFails,
    /// Reads of the log fail occasionally.
    LogReadsFail,
    /// Bits change on the log device.
    Rot,
    /// A write to the log goes to another place.
    Misdirect,
    /// The disks acknowledge flushes without executing them.
    Lies,
    /// After a crash, the log device is missing and another device replaces it.
    LogLost,
    /// A device, or both as parts of one disk, is unavailable for milliseconds, for hours, or permanently.
    Away,
    /// Places of the data device fail writes, or places of the log fail reads.
    BadPlaces,
    /// Summaries of the log change after they are durable. The records contain the same data.
    Summaries,
    /// The log fails. For a longer time, writes to its superblocks fail completely or in part.
    Superblocks,
}

/// A cache in one scenario.
#[derive(Clone, Debug)]
pub struct CacheTarget {
    /// The faults of the scenario.
    pub kind: CacheFaultKind,
    /// True if the log device had another use before.
    pub used_log: bool,
    /// True if the data device became twice as long after the log was made.
    pub grown: bool,
    /// The moment at which a write is acknowledged.
    pub acknowledge: AckMode,
    /// Maximum delay of the log before it writes.
    pub max_delay: Duration,
    /// Minimum length in bytes of writes that bypass the log.
    pub bypass: Option<u64>,
    /// Limit of the map's memory in bytes, if it is small.
    pub map_memory: Option<u64>,
    /// Seed of the rotational offsets between records, if the log leaves offsets.
    pub gaps: Option<u64>,
    /// True if much is written at once, so that the log is full and wraps.
    pub flood: bool,
    /// True if both devices are parts of one disk. A failed flush of either device may then lose the unflushed writes
    /// of both.
    pub one_disk: bool,
    /// True if a second device exists, which may become the log.
    pub spare_log: bool,
}

impl CacheTarget {
    /// Returns the usual settings of a cache, with these faults.
    pub fn plain(kind: CacheFaultKind) -> CacheTarget {
        CacheTarget {
            kind,
            used_log: false,
            grown: false,
            acknowledge: AckMode::Memory,
            max_delay: Duration::from_millis(5),
            bypass: None,
            map_memory: None,
            gaps: None,
            flood: false,
            one_disk: false,
            spare_log: false,
        }
    }
}

impl ScenarioSettings for CacheTarget {
    type Role = CacheDisk;

    fn kind(&self) -> String {
        format!("{:?}", self.kind)
    }

    fn show(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "delay {:?}", self.max_delay)?;
        match self.acknowledge {
            AckMode::Memory => {}
            AckMode::Device => write!(f, ", writes handed over")?,
            AckMode::Durable => write!(f, ", durable writes")?,
        }
        if let Some(from) = self.bypass {
            write!(f, ", past the log from {from} bytes on")?;
        }
        if self.used_log {
            write!(f, ", a log device that was something else before")?;
        }
        if self.grown {
            write!(f, ", a data device that grew")?;
        }
        if let Some(bytes) = self.map_memory {
            write!(f, ", {bytes} bytes of memory for the map")?;
        }
        if self.gaps.is_some() {
            write!(f, ", gaps in the log")?;
        }
        if self.one_disk {
            write!(f, ", both devices on one disk")?;
        }
        if self.spare_log {
            write!(f, ", a spare log")?;
        }
        Ok(())
    }

    fn may_fail(&self) -> bool {
        !matches!(
            self.kind,
            CacheFaultKind::Calm
                | CacheFaultKind::Summaries
                | CacheFaultKind::LogLost
                | CacheFaultKind::Lies
        )
    }

    fn is_dishonest(&self) -> bool {
        matches!(
            self.kind,
            CacheFaultKind::Rot | CacheFaultKind::Misdirect | CacheFaultKind::Lies
        )
    }

    fn plainer() -> &'static [fn(&mut CacheTarget)] {
        &[
            |cache| cache.bypass = None,
            |cache| cache.map_memory = None,
            |cache| cache.gaps = None,
            |cache| cache.one_disk = false,
            |cache| cache.spare_log = false,
            |cache| cache.used_log = false,
            |cache| cache.grown = false,
            |cache| cache.acknowledge = AckMode::Memory,
        ]
    }
}
