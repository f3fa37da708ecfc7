//! The places of the newest checkpoint, beside the nodes of the map.

use forebay_extent_map::LogPlace;
use forebay_units::SECTOR_BYTES;

use crate::format::{ChunkRef, TABLE_CHUNK_SEGMENTS, TableChunk};

/// The parts of the newest checkpoint beside nodes. A part that did not change was written by an older checkpoint.
#[derive(Clone, Default)]
pub(crate) struct CheckpointParts {
    /// The chunks of the table, in order. `None` before the first checkpoint.
    pub(crate) table: Vec<Option<ChunkRef>>,
    /// The parts of the body and their index, with their lengths in sectors.
    pub(crate) body: Vec<(LogPlace, u64)>,
}

impl CheckpointParts {
    /// Returns the state of a volume of `segments` segments before its first checkpoint.
    pub(crate) fn empty(segments: usize) -> CheckpointParts {
        CheckpointParts {
            table: vec![None; segments.div_ceil(TABLE_CHUNK_SEGMENTS)],
            body: Vec::new(),
        }
    }

    /// Returns all places, with their lengths in sectors. `segments` is the number of segments in the table.
    pub(crate) fn places(&self, segments: usize) -> Vec<(LogPlace, u64)> {
        let chunks = self
            .table
            .iter()
            .enumerate()
            .filter_map(|(n, chunk)| Some((chunk.as_ref()?.place, chunk_sectors(n, segments))));
        chunks.chain(self.body.iter().copied()).collect()
    }
}

/// Returns the sectors of a chunk of the table.
pub(crate) fn chunk_sectors(n: usize, segments: usize) -> u64 {
    let left = segments.saturating_sub(n * TABLE_CHUNK_SEGMENTS);
    TableChunk::encoded_len(left.min(TABLE_CHUNK_SEGMENTS)) as u64 / SECTOR_BYTES
}
