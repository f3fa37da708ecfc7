//! Counters of an array with parity.

/// The ways in which an array with parity executed requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ParityStats {
    /// Writes of whole rows, which read nothing.
    pub row_writes: u64,
    /// Writes that read the overwritten data and the parity.
    pub read_modify_writes: u64,
    /// Writes that read the rest of the row.
    pub reconstruct_writes: u64,
    /// Bytes of data, without parity, in writes of whole rows.
    pub row_bytes: u64,
    /// Bytes of data in writes that read to compute the parity.
    pub part_bytes: u64,
    /// Ranges of a member that were reconstructed from the others.
    pub reconstructions: u64,
}
