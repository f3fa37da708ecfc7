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
    /// Like [`ReadUnit::Records`], but a zero byte terminates a record as well. `grep` splits files that are not text
    /// into lines in this way.
    RecordsOrZeros(u8),
    /// A piece holds whole elements of `size` bytes, the first at byte `start`. An incomplete element at the end of the
    /// file is a separate piece, or the end of a piece.
    Elements {
        /// First byte of the first element. Bytes before it are not read.
        start: u64,
        /// Bytes of an element.
        size: u32,
    },
}

/// Bytes that terminate a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordEnds {
    byte: u8,
    zeros: bool,
}

impl RecordEnds {
    /// Returns true if `byte` terminates a record.
    pub(crate) fn contains(self, byte: u8) -> bool {
        byte == self.byte || self.zeros && byte == 0
    }
}

impl ReadUnit {
    /// Returns the bytes that terminate a record; `None` if the unit is not a record.
    pub(crate) fn record_ends(self) -> Option<RecordEnds> {
        match self {
            ReadUnit::Records(byte) => Some(RecordEnds { byte, zeros: false }),
            ReadUnit::RecordsOrZeros(byte) => Some(RecordEnds { byte, zeros: true }),
            ReadUnit::Bytes | ReadUnit::Elements { .. } => None,
        }
    }

    /// Returns true if every zero byte terminates a record, so that a hole is a sequence of empty records.
    pub(crate) fn ends_at_zeros(self) -> bool {
        self.record_ends().is_some_and(|ends| ends.contains(0))
    }
}
