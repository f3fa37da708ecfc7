//! How a volume is to behave.

use std::time::Duration;

use forebay_placement::wear::Levelling;

/// How a volume is to behave while it is in use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The longest that appended data waits before it is sent to the device, if nobody flushes. To fast devices it is sent
    /// earlier, where that costs them little.
    pub max_delay: Duration,
    /// Memory for the map, in bytes. Nodes that are changed and not yet written may take more for a while, and 700 KiB at
    /// any time.
    pub map_bytes: u64,
    /// Memory for checksums of what was written in a row, in bytes: 3 MiB for each GiB that is read here and there. What is
    /// not there is read from its segment's summary or headers first.
    pub check_bytes: u64,
    /// Pieces of data that recovery may have to take up: a checkpoint is made when there are more. Recovery
    /// takes about half a second for a million.
    pub recovery_entries: u64,
    /// Bytes that are kept in memory of what was appended and is to be written where it lay before: with more, writers
    /// wait. Of small media less is used, since till then it takes room in the log.
    pub home_bytes: u64,
    /// How long a request waits for a device that fails before it gets an error. The volume tries again for as long as the
    /// device fails, whatever its clients were told.
    pub patience: Duration,
    /// Segments are discarded before they are used again, all that are free when a checkpoint is made.
    pub discard: bool,
    /// When what lies in segments that are worn less than others is moved for that. Media that see to their wear
    /// themselves do not need it.
    pub levelling: Levelling,
    /// One in so many segments is kept free of what is mapped, beside what the cleaner and checkpoints need: from 2 to 128, or to
    /// 1024 where the placement writes in place; to 32 in a log that is small or has little memory for its map. The more there are, the less cleaning costs on a full volume. If nothing is said,
    /// it is one in [`SPARE_PART`](crate::SPARE_PART), and where the placement writes in place, one in 512: cold pages stay where they are, so little
    /// has to be moved.
    pub spare_part: Option<u64>,
    /// Trims from this length on, in sectors, do not look at all that was mapped there before they are done.
    pub huge_trim: u64,
    /// What such trims cut out of the map and nobody has looked at yet is at most about so many subtrees; with more, trims
    /// look at all. A checkpoint names them, in 24 bytes each.
    pub detached_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_delay: Duration::from_millis(250),
            map_bytes: 256 << 20,
            check_bytes: 64 << 20,
            recovery_entries: 1 << 20,
            home_bytes: 8 << 20,
            patience: Duration::from_secs(60),
            discard: false,
            levelling: Levelling::NEVER,
            spare_part: None,
            huge_trim: 1 << 17,
            detached_max: 1024,
        }
    }
}
