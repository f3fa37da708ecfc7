//! Counters of a volume.

/// Counters of a volume since it was attached.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SpaceStats {
    /// Batches that were applied.
    pub batches: u64,
    /// Bytes of data that clients wrote.
    pub bytes_written: u64,
    /// Part of `bytes_written` that was written in place.
    pub bytes_in_place: u64,
    /// Bytes of data that the cleaner moved.
    pub bytes_moved: u64,
    /// Part of `bytes_moved` that was moved because its segments were less worn than others.
    pub bytes_levelled: u64,
    /// Bytes that checkpoints wrote: nodes, the table, the body and its index.
    pub bytes_checkpoints: u64,
    /// Checkpoints that became valid.
    pub checkpoints: u64,
    /// Segments that the cleaner emptied.
    pub segments_cleaned: u64,
    /// Nodes of the map that were read.
    pub node_reads: u64,
}
