//! What a volume has done.

/// What a volume has done since it was taken up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Batches that were done.
    pub batches: u64,
    /// Bytes of data that users wrote.
    pub bytes_written: u64,
    /// Of those, bytes that were written home, to where they lay before.
    pub bytes_in_place: u64,
    /// Bytes of data that the cleaner moved.
    pub bytes_moved: u64,
    /// Of those, bytes that were moved because their segments were worn less than others.
    pub bytes_levelled: u64,
    /// Bytes that checkpoints wrote: nodes, the table, their block.
    pub bytes_checkpoints: u64,
    /// Checkpoints that came to count.
    pub checkpoints: u64,
    /// Segments that the cleaner emptied.
    pub segments_cleaned: u64,
    /// Nodes of the map that were read.
    pub node_reads: u64,
}
