//! What an array with parity counts.

/// How an array with parity did what it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ParityStats {
    /// Writes that read nothing, since they were of whole rows.
    pub row_writes: u64,
    /// Writes that read what they overwrote, and the parity.
    pub read_modify_writes: u64,
    /// Writes that read the rest of the row.
    pub reconstruct_writes: u64,
    /// Bytes of data, parity not counted, in writes of whole rows.
    pub row_bytes: u64,
    /// Bytes of data in writes that read for the parity.
    pub part_bytes: u64,
    /// Ranges of a member that were told from the others.
    pub reconstructions: u64,
}
