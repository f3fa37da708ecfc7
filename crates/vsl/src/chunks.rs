//! The table of segments in memory, in the chunks in which checkpoints write it.
//!
//! A checkpoint takes a copy of the table at its cut. The copy shares all chunks with the table, so the cost of the
//! copy does not depend on the number of changed segments. A chunk is copied when the table or the copy changes it.

use std::rc::Rc;

use crate::format::TABLE_CHUNK_SEGMENTS;
use crate::geometry::SegmentSlot;
use crate::segment::SegmentEntry;

/// All segments by their slots. A clone shares the chunks that neither copy has changed.
#[derive(Clone)]
pub(crate) struct SegmentChunks {
    chunks: Vec<Rc<Vec<SegmentEntry>>>,
    len: usize,
    /// Chunks that changed since the last cut, one flag for each chunk.
    changed: Vec<bool>,
}

impl SegmentChunks {
    /// Creates the table from `segments`. No chunk counts as changed.
    pub(crate) fn new(segments: Vec<SegmentEntry>) -> SegmentChunks {
        let len = segments.len();
        let chunks: Vec<_> = segments
            .chunks(TABLE_CHUNK_SEGMENTS)
            .map(|chunk| Rc::new(chunk.to_vec()))
            .collect();
        SegmentChunks {
            changed: vec![false; chunks.len()],
            chunks,
            len,
        }
    }

    /// Adds unused segments up to a number of `len`. The chunks that receive segments count as changed, unless the
    /// newest checkpoint contains these segments (`checkpointed`).
    pub(crate) fn grow(&mut self, len: usize, checkpointed: bool) {
        while self.len < len {
            if self.len.is_multiple_of(TABLE_CHUNK_SEGMENTS) {
                self.chunks.push(Rc::new(Vec::new()));
                self.changed.push(false);
            }
            let last = self.chunks.len() - 1;
            let free = TABLE_CHUNK_SEGMENTS - self.len % TABLE_CHUNK_SEGMENTS;
            let more = free.min(len - self.len);
            Rc::make_mut(&mut self.chunks[last])
                .extend(std::iter::repeat_n(SegmentEntry::NEW, more));
            self.changed[last] |= !checkpointed;
            self.len += more;
        }
    }

    /// Returns the number of segments.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of chunks.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the table entry of a segment.
    pub(crate) fn get(&self, slot: SegmentSlot) -> &SegmentEntry {
        let at = slot.0 as usize;
        &self.chunks[at / TABLE_CHUNK_SEGMENTS][at % TABLE_CHUNK_SEGMENTS]
    }

    /// Returns the table entry of a segment for changes. Its chunk counts as changed.
    pub(crate) fn get_mut(&mut self, slot: SegmentSlot) -> &mut SegmentEntry {
        let at = slot.0 as usize;
        let chunk = at / TABLE_CHUNK_SEGMENTS;
        self.changed[chunk] = true;
        &mut Rc::make_mut(&mut self.chunks[chunk])[at % TABLE_CHUNK_SEGMENTS]
    }

    /// Returns the segments of a chunk.
    pub(crate) fn chunk(&self, n: usize) -> &[SegmentEntry] {
        &self.chunks[n]
    }

    /// Returns true if a segment of the chunk changed.
    pub(crate) fn has_changed(&self, n: usize) -> bool {
        self.changed[n]
    }

    /// Makes the next checkpoint write a chunk, changed or not.
    pub(crate) fn mark(&mut self, n: usize) {
        if let Some(changed) = self.changed.get_mut(n) {
            *changed = true;
        }
    }

    /// Returns the current table with its changed flags, for a checkpoint. The flags of `self` are cleared.
    pub(crate) fn cut(&mut self) -> SegmentChunks {
        let cut = self.clone();
        self.changed.fill(false);
        cut
    }

    /// Restores the changed flags after the checkpoint that took `cut` has failed.
    pub(crate) fn put_back(&mut self, cut: &SegmentChunks) {
        for (mine, cut) in self.changed.iter_mut().zip(&cut.changed) {
            *mine |= cut;
        }
    }
}
