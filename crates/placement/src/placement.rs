//! Where data is placed: which of the open streams a write is appended to, or whether it goes in place.
//!
//! A policy decides and does nothing: it is told what is written, what cleaning finds and which segments
//! were collected, and answers with a stream. Its memory is bounded by an option, whatever the size of the
//! space; what has to survive a restart fits into [`SAVED_MAX`] bytes, and a restart without them, or with
//! anything else, only begins to learn anew.
//!
//! | policy | users' writes | moved data | after |
//! |---|---|---|---|
//! | `lfs` | one stream | one, oldest first | Rosenblum and Ousterhout, TOCS 1992 |
//! | `wolf` | by how often a page is written | one, oldest first | Wang and Hu, FAST 2002 |
//! | `hylog` | hot pages logged, cold ones in place | hot ones logged, cold ones into holes | Wang, Zhao and Bunt, FAST 2004 |
//! | `sepbit` | by how long lived what they overwrite | by the class they come from, and by age | Wang et al., FAST 2022 |
//! | `hylog+sepbit` | as `hylog`, hot ones as `sepbit` | as `hylog`, hot ones as `sepbit` | |
//! | `overwrite` | in place | one stream | |
//!
//! Whatever is to go in place or into a hole names a stream, too: for what has no place yet, or must not be
//! overwritten (a part of an atomic batch, or on a medium that cannot), and for when no hole is left.
//!
//! - `placement/auto.rs`: which policy is expected to cost least on a device, and why.
//! - `placement/profile.rs`: how users' writes are distributed over the pages, learnt whatever the policy.
//! - `placement/tuner.rs`: when a volume in use should change its policy.
//! - `placement/heat.rs`: HyLog's separation of hot pages from cold ones, over `placement/counts.rs`.
//! - `placement/saved.rs`: the bytes that survive a restart.

mod auto;
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
use crate::cost::Disk;
use crate::victim::Selection;

pub use auto::{Chosen, Known, Medium, choose, choose_by_all};
pub use profile::{Profile, Profiled};
pub use tuner::{Done, Look, Tuner, Tuning};

/// The most bytes that [`Placement::save`] returns.
pub const SAVED_MAX: usize = 2048;

/// One of the streams that segments are filled from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Of what users write, by number.
    User(u8),
    /// Of what cleaning moves, by number.
    Moved(u8),
}

/// Something that a user writes: a run of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserWrite {
    /// Its first sector.
    pub at: Sector,
    /// How many, at least one.
    pub sectors: u32,
    /// The write clock before it.
    pub now: WriteClock,
    /// Nanoseconds by the wall clock since some beginning, for what the paper tells by that.
    pub nanos: u64,
    /// What it overwrites; nothing if its first sector is not mapped.
    pub overwrites: Option<Overwritten>,
}

/// What a write overwrites: of a run, what lies at its first sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overwritten {
    /// When that was written by a user: exactly, or where that is not known, when its segment was opened.
    pub born: WriteClock,
    /// The stream of the segment that it lies in.
    pub stream: Stream,
}

/// Where what a user writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserPlace {
    /// To the end of this of the users' streams.
    Append(u8),
    /// Where its sectors lie; or, where that cannot be, to the end of this of the users' streams.
    InPlace(u8),
}

/// Live data that cleaning found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedPiece {
    /// Its first sector.
    pub at: Sector,
    /// How many, at least one.
    pub sectors: u32,
    /// The write clock now.
    pub now: WriteClock,
    /// When a user wrote it: exactly, or when its segment was opened. Moving does not change it.
    pub born: WriteClock,
    /// The stream of the segment that it lies in.
    pub stream: Stream,
    /// Sectors that users wrote since that segment was closed.
    pub segment_age: u64,
}

/// Where what cleaning moves goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MovedPlace {
    /// To the end of this of the streams of moved data.
    Append(u8),
    /// Into a hole of another segment; or, if there is none that fits, to the end of this stream.
    Plug(u8),
}

/// An answer, and for how many sectors from the beginning of the run, at least one: the policy is asked
/// again for the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed<P> {
    /// Where they go.
    pub place: P,
    /// How many.
    pub sectors: u32,
}

/// A segment that was collected: all of it that was live is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collected {
    /// The stream that filled it.
    pub stream: Stream,
    /// When its first data was appended.
    pub opened: WriteClock,
    /// When its last was.
    pub closed: WriteClock,
    /// When it was collected.
    pub now: WriteClock,
    /// Sectors that were live then.
    pub live: u32,
    /// Sectors that it has for data.
    pub capacity: u32,
}

/// How full the medium is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// Sectors that are live.
    pub live: u64,
    /// Sectors that there are for data, without what is kept for cleaning.
    pub capacity: u64,
}

impl Fill {
    /// The utilisation d, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        (self.live as f64 / self.capacity.max(1) as f64).min(1.0)
    }
}

/// In which order the live data of a few segments is appended to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Oldest first, so that what is of one age comes together (*age sort*; Rosenblum and Ousterhout,
    /// section 3.4).
    Age,
    /// As it lies in the segments.
    AsFound,
}

/// What a policy needs of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Streams for what users write, at least one.
    pub user: u8,
    /// Streams for what cleaning moves, at least one.
    pub moved: u8,
    /// True if it would write in place, or plug holes.
    pub in_place: bool,
    /// How moved data is to be ordered within a stream.
    pub order: Order,
}

/// Something that a policy says of itself, for the status.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fact {
    /// A short name: `hot share`.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// Of what: `of pages`, `sectors`.
    pub unit: &'static str,
}

/// A policy of placement. Its answers follow from what it was told, in order.
pub trait Placement: fmt::Debug {
    /// Which of them it is.
    fn kind(&self) -> Kind;

    /// What it needs; the same as long as it lives.
    fn needs(&self) -> Needs;

    /// Where to write what a user writes. The write counts as done, as far as the answer goes.
    fn place_user(&mut self, write: &UserWrite) -> Placed<UserPlace>;

    /// Where to write what cleaning moves.
    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace>;

    /// How segments to clean are to be chosen, for now.
    fn selection(&self) -> Selection {
        Selection::default()
    }

    /// A segment was collected.
    fn collected(&mut self, _segment: &Collected) {}

    /// The medium is so full now. To be told at first, and whenever it changes by a hundredth or so.
    fn filled(&mut self, _fill: Fill) {}

    /// What it says of itself.
    fn describe(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// What is worth to be known after a restart: at most [`SAVED_MAX`] bytes.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes up what [`Placement::save`] returned. Anything else changes nothing: false then.
    fn restore(&mut self, _bytes: &[u8]) -> bool {
        false
    }
}

/// The policies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One log.
    Lfs,
    /// A log for active pages and one for inactive ones.
    Wolf,
    /// A log for hot pages; cold ones are overwritten.
    HyLog,
    /// Logs by expected lifetime.
    SepBit,
    /// HyLog, whose log is divided by expected lifetime.
    HyLogSepBit,
    /// No log at all.
    Overwrite,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Lfs,
        Kind::Wolf,
        Kind::HyLog,
        Kind::SepBit,
        Kind::HyLogSepBit,
        Kind::Overwrite,
    ];

    /// The name that users know it by.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lfs => "lfs",
            Kind::Wolf => "wolf",
            Kind::HyLog => "hylog",
            Kind::SepBit => "sepbit",
            Kind::HyLogSepBit => "hylog+sepbit",
            Kind::Overwrite => "overwrite",
        }
    }

    /// The number that it has on a medium; never 0.
    pub fn code(self) -> u8 {
        match self {
            Kind::Lfs => 1,
            Kind::Wolf => 2,
            Kind::HyLog => 3,
            Kind::SepBit => 4,
            Kind::HyLogSepBit => 5,
            Kind::Overwrite => 6,
        }
    }

    /// The policy that has this number.
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// True if it writes in place, which not every medium can.
    pub fn in_place(self) -> bool {
        matches!(self, Kind::HyLog | Kind::HyLogSepBit | Kind::Overwrite)
    }

    /// Such a policy.
    pub fn build(self, options: &Options) -> Box<dyn Placement> {
        match self {
            Kind::Lfs => Box::new(lfs::Lfs),
            Kind::Wolf => Box::new(wolf::Wolf::new(options)),
            Kind::HyLog => Box::new(hylog::HyLog::new(self, options, lfs::Lfs)),
            Kind::SepBit => Box::new(sepbit::SepBit::default()),
            Kind::HyLogSepBit => {
                let log = sepbit::SepBit::default();
                Box::new(hylog::HyLog::new(self, options, log))
            }
            Kind::Overwrite => Box::new(overwrite::Overwrite),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no placement `{0}`: lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Kind, UnknownKind> {
        let mut all = Kind::ALL.into_iter();
        all.find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// What policies are made for. What one does not ask for does not matter to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Sectors of the pages whose writes are counted (`wolf`, `hylog`): 8 KiB unless told, rounded to a
    /// power of two from 4 to 64 KiB.
    pub page_sectors: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// The disk, for what it costs to write in place (`hylog`).
    pub disk: Disk,
    /// Bytes that counts may take (`wolf`, `hylog`), at least 64 KiB: 4 MiB unless told, which is enough
    /// to tell a million pages apart (`wolf`: a quarter of that). A sample of `hylog`'s comes on top, of
    /// less than 128 KiB; the others remember next to nothing.
    pub memory: usize,
    /// Write buffers (`wolf`), 2 to 8: streams that pages are sorted into.
    pub buffers: u8,
    /// Moved data is written into holes where that is asked for ([`MovedPlace::Plug`]); else only cleaning gets room
    /// back that lies in holes between cold pages (`hylog`).
    pub plugs: bool,
}

impl Default for Options {
    /// For a disk of 2003 and segments of a mebibyte, until it is told what it is made for.
    fn default() -> Options {
        Options {
            page_sectors: 16,
            segment_bytes: 1 << 20,
            disk: Disk::OF_2003,
            memory: 4 << 20,
            buffers: 2,
            plugs: false,
        }
    }
}

impl Options {
    const MEMORY_MIN: usize = 64 << 10;

    /// Sectors of a page, within bounds: a power of two from 8 to 128, whatever a volume's superblock says.
    pub fn page(&self) -> u32 {
        self.page_sectors.clamp(8, 128).next_power_of_two()
    }

    /// Bytes for counts, within bounds.
    fn memory(&self) -> usize {
        self.memory.max(Options::MEMORY_MIN)
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
