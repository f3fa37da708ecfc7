//! The lane of parts in the page cache.

use std::io;

use crate::schedule::ReadCost;

use super::assemble::PieceAssembly;
use super::unread::{LaneStep, UnreadParts};

/// Number of failed expectations after which residency is no longer looked up again. The page cache then changes faster
/// than this lane reads, and missing pages are faulted in.
const RECONSIDERED_MAX: u32 = 1000;

/// Reads cached stretches. Before each piece, checks that the piece is still cached.
pub(super) struct CachedLane {
    /// The current stretch: position of the next read, and end.
    current: Option<(u64, u64)>,
    pub(super) assembly: PieceAssembly,
    reconsidered: u32,
}

impl CachedLane {
    pub(super) fn new(assembly: PieceAssembly) -> CachedLane {
        CachedLane {
            current: None,
            assembly,
            reconsidered: 0,
        }
    }

    pub(super) fn step(&mut self, unread: &mut UnreadParts<'_>) -> io::Result<LaneStep> {
        if self.assembly.cut(false) {
            return Ok(LaneStep::Piece);
        }
        match self.current {
            None => {
                let first = unread.schedule.first(ReadCost::CACHED);
                let Some(stretch) = first.filter(|one| one.cost == ReadCost::CACHED) else {
                    return Ok(LaneStep::Done);
                };
                unread.schedule.take(stretch, stretch.end);
                self.assembly.restart(stretch.offset);
                self.current = Some((stretch.offset, stretch.end));
                Ok(LaneStep::More)
            }
            Some((at, end)) if at < end => self.load(unread, at, end),
            Some((_, end)) => {
                self.current = None;
                Ok(unread.end_stretch(&mut self.assembly, end))
            }
        }
    }

    /// Reads the next part of the stretch if it is still cached. Otherwise returns the rest of the stretch to the
    /// schedule.
    fn load(&mut self, unread: &mut UnreadParts<'_>, at: u64, end: u64) -> io::Result<LaneStep> {
        let to = end.min(at + unread.options.chunk.max(1) as u64);
        if self.reconsidered < RECONSIDERED_MAX && !unread.is_cached(at, to)? {
            self.reconsidered += 1;
            let from = self.assembly.at();
            self.assembly.restart(from);
            self.current = None;
            unread.consider(from, end)?;
            return Ok(LaneStep::More);
        }
        let got = unread.load(&mut self.assembly, at, to)?;
        // A short read: the file was truncated here.
        let at = if got < to - at { end } else { to };
        self.current = Some((at, end));
        if self.assembly.cut(false) {
            Ok(LaneStep::Piece)
        } else {
            Ok(LaneStep::More)
        }
    }
}
