//! The order in which a file is read, and the units that stay together.

/// Order of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadPlan {
    /// From the first byte to the last.
    Linear,
    /// Cheapest first.
    Best,
    /// [`ReadPlan::Best`] if it pays by the estimates, otherwise [`ReadPlan::Linear`].
    #[default]
    Auto,
}

/// Unit that must not be split between two pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadUnit {
    /// Pieces begin and end anywhere.
    #[default]
    Bytes,
    /// A piece holds whole records, each terminated by this byte. The last record of a file may lack the terminator.
    Records(u8),
    /// A piece holds whole elements of `size` bytes, the first at byte `start`. An incomplete element at the end of the
    /// file is a separate piece, or the end of a piece.
    Elements {
        /// First byte of the first element. Bytes before it are not read.
        start: u64,
        /// Bytes of an element.
        size: u32,
    },
}
