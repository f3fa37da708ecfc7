//! What a cache is like in one world, and what may go wrong there.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_dcd::AckMode;
use forebay_sim::plan::ScenarioSettings;

/// What a disk of a cache is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheDisk {
    /// Small writes go there at once.
    Log,
    /// Their home.
    Data,
}

impl forebay_sim::role::DiskRole for CacheDisk {
    const ALL: &'static [CacheDisk] = &[CacheDisk::Log, CacheDisk::Data];
}

impl Display for CacheDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CacheDisk::Log => "log",
            CacheDisk::Data => "data",
        })
    }
}

/// What may go wrong in a world, beside power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFaultKind {
    /// Nothing.
    Calm,
    /// The data device refuses requests now and then, for a while, or for good.
    DataFails,
    /// The data device has no more space.
    DataFull,
    /// The log device refuses a request, some, or all from then on.
    LogFails,
    /// Reads of the log fail now and then.
    LogReadsFail,
    /// Bits change on the log device.
    Rot,
    /// A write to the log lands elsewhere.
    Misdirect,
    /// The disks say that they flush and do not.
    Lies,
    /// After a crash, the log device is gone and another is in its place.
    LogLost,
    /// A device, or both as if they were parts of one, does not work for milliseconds or for hours, or
    /// ever again.
    Away,
    /// Places of the data device take no writes, or places of the log cannot be read.
    BadPlaces,
    /// Summaries of the log change, once they are durable: all that they say is in their records, too.
    Summaries,
    /// The log fails, and its superblocks take no writes for longer, or only parts of them.
    Superblocks,
}

/// A cache in one world.
#[derive(Clone, Debug)]
pub struct CacheTarget {
    /// What may go wrong.
    pub kind: CacheFaultKind,
    /// The log device was something else before.
    pub used_log: bool,
    /// The data device became twice as long since the log was made.
    pub grown: bool,
    /// When a write is acknowledged.
    pub acknowledge: AckMode,
    /// How long the log waits before it writes.
    pub max_delay: Duration,
    /// Writes from this length on go past the log.
    pub bypass: Option<u64>,
    /// The memory that the map may take, in bytes, if that is little.
    pub map_memory: Option<u64>,
    /// The log leaves gaps between records, chosen by this seed.
    pub gaps: Option<u64>,
    /// Much is written at once, so that the log is full and wraps.
    pub flood: bool,
    /// Both devices are parts of one disk: a failed flush of either may lose the unflushed writes of both.
    pub one_disk: bool,
}

impl CacheTarget {
    /// A cache of the usual kind.
    pub fn plain(kind: CacheFaultKind) -> CacheTarget {
        CacheTarget {
            kind,
            used_log: false,
            grown: false,
            acknowledge: AckMode::Flush,
            max_delay: Duration::from_millis(5),
            bypass: None,
            map_memory: None,
            gaps: None,
            flood: false,
            one_disk: false,
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
            AckMode::Flush => {}
            AckMode::Handover => write!(f, ", writes handed over")?,
            AckMode::Write => write!(f, ", durable writes")?,
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
            |cache| cache.used_log = false,
            |cache| cache.grown = false,
            |cache| cache.acknowledge = AckMode::Flush,
        ]
    }
}
