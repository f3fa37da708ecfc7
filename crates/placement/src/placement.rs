//! Placement of data: choice of the open stream to which a write is appended, or of a write in place.
//!
//! A policy only decides. It learns about writes, moved data and collected segments, and answers with a stream. An
//! option limits its memory, regardless of the size of the volume. The state that must survive a restart fits into
//! [`SAVED_MAX`] bytes. After a restart without valid saved state, the policy only starts to learn again.
//!
//! | policy | client writes | moved data | source |
//! |---|---|---|---|
//! | `lfs` | one stream | one stream, oldest first | Rosenblum and Ousterhout, TOCS 1992 |
//! | `wolf` | by write frequency of the page | one stream, oldest first | Wang and Hu, FAST 2002 |
//! | `hylog` | hot pages logged, cold ones in place | hot ones logged, cold ones into holes | Wang et al., FAST 2004 |
//! | `sepbit` | by lifetime of the overwritten data | by former class, and by age | Wang et al., FAST 2022 |
//! | `hylog+sepbit` | as `hylog`, hot ones as `sepbit` | as `hylog`, hot ones as `sepbit` | |
//! | `overwrite` | in place | one stream | |
//!
//! Data to be written in place or into a hole has a stream, too. The stream is used for data without a place, and if no
//! hole is left. It is also used for data that must not be overwritten: a part of an atomic batch, or data on a device
//! that cannot overwrite.
//!
//! - `placement/auto.rs`: the policy with the lowest expected cost on a device, and the reason.
//! - `placement/profile.rs`: distribution of client writes over the pages, learnt under any policy.
//! - `placement/tuner.rs`: change of the policy of a volume in use.
//! - `placement/heat.rs`: HyLog's separation of hot and cold pages, based on `placement/counts.rs`.
//! - `placement/saved.rs`: the bytes that survive a restart.

mod auto;
mod budget;
mod counts;
mod heat;
mod hylog;
mod lfs;
mod overwrite;
mod pages;
mod profile;
mod saved;
mod sepbit;
mod tuner;
mod wolf;

use std::fmt;
use std::str::FromStr;

use forebay_units::Sector;

use crate::clock::WriteClock;
use crate::cost::DiskParameters;
use crate::victim::VictimSelection;

pub use auto::{DeviceProperties, PolicyChoice, WorkloadProperties, choose, choose_by_all};
pub use profile::{EpochProfile, WriteProfile};
pub use tuner::{Tuner, TunerDecision, TunerStatus, WorkTotals};

/// Maximum number of bytes that [`Placement::save`] returns.
pub const SAVED_MAX: usize = 2048;

/// A stream from which segments are filled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PlacementStream {
    /// Stream of client writes, by number.
    User(u8),
    /// Stream of data moved by cleaning, by number.
    Moved(u8),
}

/// A client write: an extent of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserWrite {
    /// First sector.
    pub at: Sector,
    /// Number of sectors, at least one.
    pub sectors: u32,
    /// Write clock before this write.
    pub now: WriteClock,
    /// Wall-clock time in nanoseconds since any start, for policies that use it in their paper.
    pub nanos: u64,
    /// Overwritten data. `None` if the first sector is not mapped.
    pub overwrites: Option<OverwrittenExtent>,
}

/// Data that a write overwrites. For an extent, the data at its first sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverwrittenExtent {
    /// Time of the client write of this data: exact, or the opening time of its segment if the exact time is unknown.
    pub born: WriteClock,
    /// Stream of the segment that contains the data.
    pub stream: PlacementStream,
}

/// Place of a client write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserPlace {
    /// Append to this client stream.
    Append(u8),
    /// Write in place, or append to this client stream if that is impossible.
    InPlace(u8),
}

/// Live data that cleaning found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedExtent {
    /// First sector.
    pub at: Sector,
    /// Number of sectors, at least one.
    pub sectors: u32,
    /// Current write clock.
    pub now: WriteClock,
    /// Time of the client write of this data: exact, or the opening time of its segment. Moving does not change it.
    pub born: WriteClock,
    /// Stream of the segment that contains the data.
    pub stream: PlacementStream,
    /// Sectors that clients wrote since that segment was closed.
    pub segment_age: u64,
}

/// Place of moved data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MovedPlace {
    /// Append to this stream of moved data.
    Append(u8),
    /// Write into a hole of another segment, or append to this stream if no hole fits.
    Plug(u8),
}

/// An answer of the policy for the first `sectors` sectors of an extent. The caller asks again for the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementAnswer<P> {
    /// Place of these sectors.
    pub place: P,
    /// Number of sectors, at least one.
    pub sectors: u32,
}

/// A collected segment: all its live data was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectedSegment {
    /// Stream that filled the segment.
    pub stream: PlacementStream,
    /// Time of the first append.
    pub opened: WriteClock,
    /// Time of the last append.
    pub closed: WriteClock,
    /// Time of the collection.
    pub now: WriteClock,
    /// Live sectors at the time of the collection.
    pub live: u32,
    /// Capacity for data, in sectors.
    pub capacity: u32,
}

/// Fill level of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FillLevel {
    /// Live sectors.
    pub live: u64,
    /// Capacity for data, in sectors, without the space reserved for cleaning.
    pub capacity: u64,
}

impl FillLevel {
    /// Returns the utilisation d, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        (self.live as f64 / self.capacity.max(1) as f64).min(1.0)
    }

    /// Returns true if a placement that knows `told` would expect clearly other costs: the costs of a log depend on the
    /// free space, and not on the live data. On a nearly full device, a change by a thousandth can double them.
    pub fn differs_from(&self, told: &FillLevel) -> bool {
        let free = |fill: &FillLevel| fill.capacity.saturating_sub(fill.live);
        let (now, before) = (free(self), free(told));
        let clearly = (now.min(before) / FREE_PARTS).max(self.capacity / FILL_PARTS);
        now.abs_diff(before) > clearly
    }
}

/// A change of the free space by one in this many is a change of costs...
const FREE_PARTS: u64 = 16;
/// ...if it is more than one in this many of the capacity.
const FILL_PARTS: u64 = 4096;

/// Order in which the live data of several segments is appended to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveOrder {
    /// Oldest first, so that data of the same age comes together (*age sort*; Rosenblum and Ousterhout, section 3.4).
    Age,
    /// In the order of the segments.
    AsFound,
}

/// Requirements of a policy on the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyNeeds {
    /// Number of streams for client writes, at least one.
    pub user: u8,
    /// Number of streams for moved data, at least one.
    pub moved: u8,
    /// True if the policy writes in place or plugs holes.
    pub in_place: bool,
    /// Order of moved data within a stream.
    pub order: MoveOrder,
}

/// A property of a policy, for the status output.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyFact {
    /// Short name, such as `hot share`.
    pub name: &'static str,
    /// Numeric value.
    pub value: f64,
    /// Unit, such as `of pages` or `sectors`.
    pub unit: &'static str,
}

/// A placement policy. Its answers depend only on the sequence of calls.
pub trait Placement: fmt::Debug {
    /// Returns the kind of the policy.
    fn kind(&self) -> PlacementKind;

    /// Returns the requirements of the policy, which never change.
    fn needs(&self) -> PolicyNeeds;

    /// Returns the place of a client write, and counts the sectors of the answer as written.
    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace>;

    /// Returns the place of data that cleaning moves.
    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace>;

    /// Returns the current method for choosing the segments to clean.
    fn selection(&self) -> VictimSelection {
        VictimSelection::default()
    }

    /// Notes a collected segment.
    fn collected(&mut self, _segment: &CollectedSegment) {}

    /// Notes the fill level of the device. The caller must call this at the start, and after changes of about a
    /// hundredth.
    fn filled(&mut self, _fill: FillLevel) {}

    /// Returns properties for the status output.
    fn describe(&self) -> Vec<PolicyFact> {
        Vec::new()
    }

    /// Returns the state that should survive a restart: at most [`SAVED_MAX`] bytes.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores the state that [`Placement::save`] returned. Returns false for other bytes, and changes nothing then.
    fn restore(&mut self, _bytes: &[u8]) -> bool {
        false
    }
}

/// Kinds of policies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlacementKind {
    /// A single log.
    Lfs,
    /// A log for active pages and a log for inactive ones.
    Wolf,
    /// A log for hot pages; cold pages are overwritten.
    HyLog,
    /// Logs by expected lifetime.
    SepBit,
    /// HyLog with a log divided by expected lifetime.
    HyLogSepBit,
    /// No log.
    Overwrite,
}

impl PlacementKind {
    /// All policies.
    pub const ALL: [PlacementKind; 6] = [
        PlacementKind::Lfs,
        PlacementKind::Wolf,
        PlacementKind::HyLog,
        PlacementKind::SepBit,
        PlacementKind::HyLogSepBit,
        PlacementKind::Overwrite,
    ];

    /// Returns the name on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PlacementKind::Lfs => "lfs",
            PlacementKind::Wolf => "wolf",
            PlacementKind::HyLog => "hylog",
            PlacementKind::SepBit => "sepbit",
            PlacementKind::HyLogSepBit => "hylog+sepbit",
            PlacementKind::Overwrite => "overwrite",
        }
    }

    /// Returns the number on the device; never 0.
    pub fn code(self) -> u8 {
        match self {
            PlacementKind::Lfs => 1,
            PlacementKind::Wolf => 2,
            PlacementKind::HyLog => 3,
            PlacementKind::SepBit => 4,
            PlacementKind::HyLogSepBit => 5,
            PlacementKind::Overwrite => 6,
        }
    }

    /// Returns the policy with this number.
    pub fn from_code(code: u8) -> Option<PlacementKind> {
        PlacementKind::ALL
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    /// Returns true if the policy writes in place, which some devices cannot do.
    pub fn in_place(self) -> bool {
        matches!(
            self,
            PlacementKind::HyLog | PlacementKind::HyLogSepBit | PlacementKind::Overwrite
        )
    }

    /// Creates a policy of this kind.
    pub fn build(self, options: &PlacementOptions) -> Box<dyn Placement> {
        match self {
            PlacementKind::Lfs => Box::new(lfs::Lfs),
            PlacementKind::Wolf => Box::new(wolf::Wolf::new(options)),
            PlacementKind::HyLog => Box::new(hylog::HyLog::new(self, options, lfs::Lfs)),
            PlacementKind::SepBit => Box::new(sepbit::SepBit::default()),
            PlacementKind::HyLogSepBit => {
                let log = sepbit::SepBit::default();
                Box::new(hylog::HyLog::new(self, options, log))
            }
            PlacementKind::Overwrite => Box::new(overwrite::Overwrite),
        }
    }
}

impl fmt::Display for PlacementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: the name belongs to no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown placement `{0}`: use lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite")]
pub struct UnknownPlacement(String);

impl FromStr for PlacementKind {
    type Err = UnknownPlacement;

    fn from_str(name: &str) -> Result<PlacementKind, UnknownPlacement> {
        let mut all = PlacementKind::ALL.into_iter();
        all.find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownPlacement(name.to_owned()))
    }
}

/// Options of policies. Each policy ignores options that it does not need.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlacementOptions {
    /// Sectors of the pages whose writes are counted (`wolf`, `hylog`): 8 KiB by default, rounded to a power of two
    /// from 4 to 64 KiB.
    pub page_sectors: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// The disk, for the cost of writes in place (`hylog`).
    pub disk: DiskParameters,
    /// Memory for counts in bytes (`wolf`, `hylog`), at least 64 KiB. The default of 4 MiB is enough to distinguish a
    /// million pages (`wolf`: a quarter of them). `hylog` needs a sample of less than 128 KiB in addition. The other
    /// policies need almost no memory.
    pub memory: usize,
    /// Write buffers (`wolf`), 2 to 8: streams into which pages are sorted.
    pub buffers: u8,
    /// True if moved data is written into holes on request ([`MovedPlace::Plug`]). Otherwise only cleaning reclaims
    /// holes between cold pages (`hylog`).
    pub plugs: bool,
}

impl Default for PlacementOptions {
    /// Returns options for a disk of 2003 and segments of 1 MiB.
    fn default() -> PlacementOptions {
        PlacementOptions {
            page_sectors: 16,
            segment_bytes: 1 << 20,
            disk: DiskParameters::OF_2003,
            memory: 4 << 20,
            buffers: 2,
            plugs: false,
        }
    }
}

impl PlacementOptions {
    const MEMORY_MIN: usize = 64 << 10;

    /// Returns the sectors of a page within bounds: a power of two from 8 to 128, even for an invalid superblock.
    pub fn page(&self) -> u32 {
        self.page_sectors.clamp(8, 128).next_power_of_two()
    }

    /// Returns the memory for counts within bounds, in bytes.
    fn memory(&self) -> usize {
        self.memory.max(PlacementOptions::MEMORY_MIN)
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
