//! Options of a volume.

use std::time::Duration;

use forebay_placement::wear::WearLevelling;

/// Behaviour of a volume while it is in use.
#[derive(Clone, Copy, Debug)]
pub struct SpaceSettings {
    /// Maximum time before appended data is sent to the device without a flush. Fast devices receive it earlier, since
    /// small writes cost them little.
    pub max_delay: Duration,
    /// Memory for the map, in bytes. Changed nodes that are not yet written may exceed this limit temporarily, and 700
    /// KiB may be used at any time.
    pub map_bytes: u64,
    /// Memory for checksums of data that was written sequentially, in bytes: 3 MiB for each GiB that is read randomly.
    /// Missing checksums are first read from the segment's summary or headers.
    pub check_bytes: u64,
    /// Number of data entries that recovery may have to apply. More entries trigger a checkpoint. Recovery takes about
    /// half a second for a million entries.
    pub recovery_entries: u64,
    /// Bytes of memory for appended data that waits for its write in place. Writers wait beyond this limit. On small
    /// devices the limit is lower, since this data takes free space in the log.
    pub home_bytes: u64,
    /// Time that a request waits for a failing device before the request fails. The volume retries for as long as the
    /// device fails, even after clients got errors.
    pub patience: Duration,
    /// True if segments are discarded before they are used again. Each checkpoint discards all free segments.
    pub discard: bool,
    /// Condition for moving data out of little worn segments. Devices with their own wear levelling do not need it.
    pub levelling: WearLevelling,
    /// Reciprocal of the fraction of segments that stays unmapped, in addition to the needs of the cleaner and of
    /// checkpoints: from 2 to 128, or to 1024 if the placement writes in place. The limit is 32 for a log that is small
    /// or has little memory for its map. More spare segments make cleaning cheaper on a full volume. The default is
    /// [`SPARE_PART`](crate::SPARE_PART), or 512 if the placement writes in place: cold pages then keep their places,
    /// so little data has to be moved.
    pub spare_part: Option<u64>,
    /// Minimum length of a huge trim, in sectors. Huge trims complete before all old mappings of their range are
    /// examined.
    pub huge_trim: u64,
    /// Approximate limit of the subtrees that huge trims detached and that are not reaped yet. Beyond this limit, trims
    /// examine all mappings. A checkpoint stores each of these subtrees in 24 bytes.
    pub detached_max: usize,
}

impl Default for SpaceSettings {
    fn default() -> SpaceSettings {
        SpaceSettings {
            max_delay: Duration::from_millis(250),
            map_bytes: 256 << 20,
            check_bytes: 64 << 20,
            recovery_entries: 1 << 20,
            home_bytes: 8 << 20,
            patience: Duration::from_secs(60),
            discard: false,
            levelling: WearLevelling::NEVER,
            spare_part: None,
            huge_trim: 1 << 17,
            detached_max: 1024,
        }
    }
}
