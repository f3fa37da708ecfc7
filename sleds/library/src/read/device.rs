//! The lane of parts on the device.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use crate::delivery::{BLOCK, DEPTH};
use crate::schedule::{CostStretch, ReadCost};

use super::assemble::PieceAssembly;
use super::clock::WaitClock;
use super::pool::ReadPool;
use super::unread::{LaneStep, UnreadParts};

/// A requested part of the file.
struct LaneRequest {
    from: u64,
    to: u64,
    /// Another process read the part into the page cache in the meantime, so it is taken from there.
    cached: bool,
}

/// Reads stretches from the device, cheapest first, with several requests in flight.
///
/// Invariant after [`DeviceLane::ask`]: `current` ends at the end of its stretch, or the next block of the stretch is
/// first in `asked`.
pub(super) struct DeviceLane {
    /// The current stretch: end of the received bytes, and end of the requested bytes.
    current: Option<(u64, u64)>,
    pub(super) assembly: PieceAssembly,
    /// Blocks in flight, in the order in which they are returned.
    asked: VecDeque<LaneRequest>,
    /// Stretches of these blocks, without the current stretch: first byte, and end of the requested bytes.
    stretches: VecDeque<(u64, u64)>,
    /// The part of the last stretch in `asked` that is not yet requested. It is requested before any other stretch,
    /// even one at a lower offset, since units extend across its blocks.
    begun: Option<CostStretch>,
    /// The file ended inside the current stretch.
    cut_off: bool,
    pool: Option<ReadPool>,
    /// Bytes of a piece.
    chunk: usize,
    /// Clock of this pass; `None` if the pass is not observed.
    clock: Option<WaitClock>,
}

impl DeviceLane {
    pub(super) fn new(
        assembly: PieceAssembly,
        chunk: usize,
        clock: Option<WaitClock>,
    ) -> DeviceLane {
        DeviceLane {
            current: None,
            assembly,
            asked: VecDeque::new(),
            stretches: VecDeque::new(),
            begun: None,
            cut_off: false,
            pool: None,
            chunk: chunk.max(1),
            clock,
        }
    }

    /// Disables observations of this pass.
    pub(super) fn unobserved(&mut self) {
        self.clock = None;
    }

    /// Returns true if the next step does not wait: the last block has a rest, or the next block has arrived.
    pub(super) fn is_ready(&self) -> bool {
        if self.assembly.rest() >= self.chunk {
            return true;
        }
        match (self.asked.front(), &self.pool) {
            (Some(asked), _) if asked.cached => true,
            (Some(_), Some(pool)) => pool.is_ready(),
            _ => false,
        }
    }

    pub(super) fn step(&mut self, unread: &mut UnreadParts<'_>) -> io::Result<LaneStep> {
        if self.assembly.cut(false) {
            return Ok(LaneStep::Piece);
        }
        self.ask(unread)?;
        match self.current {
            None => {
                let Some((from, end)) = self.stretches.pop_front() else {
                    if let Some(clock) = self.clock.take() {
                        clock.note();
                    }
                    return Ok(LaneStep::Done);
                };
                self.assembly.restart(from);
                self.cut_off = false;
                self.current = Some((from, end));
                Ok(LaneStep::More)
            }
            Some((at, end)) if at < end => {
                self.load(unread, end)?;
                if self.assembly.cut(false) {
                    Ok(LaneStep::Piece)
                } else {
                    Ok(LaneStep::More)
                }
            }
            Some((_, end)) => {
                self.current = None;
                Ok(unread.end_stretch(&mut self.assembly, end))
            }
        }
    }

    /// Keeps the device busy. Afterwards [`DEPTH`] blocks are requested, or all.
    pub(super) fn ask(&mut self, unread: &mut UnreadParts<'_>) -> io::Result<()> {
        while self.asked.len() < DEPTH {
            let Some(stretch) = self.begun.take().or_else(|| take_dear(unread)) else {
                return Ok(());
            };
            let (from, end) = (stretch.offset, stretch.end);
            let to = end.min((from / BLOCK + 1) * BLOCK);
            self.begun = (to < end).then_some(CostStretch {
                offset: to,
                ..stretch
            });
            match (self.stretches.back_mut(), &mut self.current) {
                (Some((_, end)), _) if *end == from => *end = to,
                (None, Some((_, end))) if *end == from => *end = to,
                _ => self.stretches.push_back((from, to)),
            }
            let cached = unread.is_cached(from, to)?;
            self.asked.push_back(LaneRequest { from, to, cached });
            if cached {
                continue;
            }
            if self.pool.is_none() {
                self.pool = Some(ReadPool::new(unread.file, BLOCK as usize)?);
            }
            self.pool.as_mut().expect("just made").ask(from, to);
        }
        Ok(())
    }

    /// Loads the next block of the current stretch.
    fn load(&mut self, unread: &mut UnreadParts<'_>, end: u64) -> io::Result<()> {
        let asked = self
            .asked
            .pop_front()
            .expect("blocks until the end of the stretch");
        self.current = Some((asked.to, end));
        let got = if !asked.cached {
            self.load_from_pool()?
        } else if self.cut_off {
            0
        } else {
            unread.load(&mut self.assembly, asked.from, asked.to)?
        };
        self.cut_off |= got < asked.to - asked.from;
        self.ask(unread)
    }

    fn load_from_pool(&mut self) -> io::Result<u64> {
        let pool = self.pool.as_mut().expect("asked for a block");
        let begun = Instant::now();
        let block = pool.wait()?;
        let length = block.length as u64;
        if let Some(clock) = &mut self.clock {
            clock.waited_since(begun, length);
        }
        if !self.cut_off {
            self.assembly.append(block.bytes())?;
        }
        pool.recycle(block);
        Ok(length)
    }
}

fn take_dear(unread: &mut UnreadParts<'_>) -> Option<CostStretch> {
    let stretch = unread.schedule.first(ReadCost::HOLE)?;
    unread.schedule.take(stretch, stretch.end);
    Some(stretch)
}
