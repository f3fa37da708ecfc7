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
    /// Ranges of a member that were told from the others.
    pub reconstructions: u64,
}
