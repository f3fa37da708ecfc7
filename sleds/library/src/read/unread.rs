//! State that both lanes of reading in best order share.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::delivery::worth_reading_over;
use crate::describe::{RangeHolder, parts, shared};
use crate::located::LocatedDevice;
use crate::records::{PeekRange, with_boundaries};
use crate::residency::{self, Presence, ResidencyMethod};
use crate::schedule::{CostStretch, ReadCost, ReadSchedule, read_over, settle};

use super::ReadOptions;
use super::assemble::PieceAssembly;
use crate::plan::{ReadPlan, ReadUnit};

/// Result of a step of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneStep {
    /// The lane's assembly has a piece.
    Piece,
    /// The lane needs more steps before the next piece.
    More,
    /// The lane has nothing left.
    Done,
}

/// The file, and its parts not yet read.
pub(super) struct UnreadParts<'f> {
    pub(super) file: &'f File,
    pub(super) options: ReadOptions,
    /// End of the file when reading began.
    pub(super) to: u64,
    pub(super) located: Arc<LocatedDevice>,
    /// Stretches that no lane has begun. They begin and end at boundaries of units, except at the end of the file.
    pub(super) schedule: ReadSchedule,
    /// Offset at which linear reading continues in the end: `to`, or the beginning of an incomplete last unit.
    pub(super) tail: u64,
    /// Holes that are left out: their lengths by their ends.
    holes: BTreeMap<u64, u64>,
    means: ResidencyMethod,
    peek: PeekRange<'f>,
}

impl<'f> UnreadParts<'f> {
    pub(super) fn new(
        file: &'f File,
        from: u64,
        to: u64,
        options: ReadOptions,
    ) -> io::Result<UnreadParts<'f>> {
        let mut unread = UnreadParts {
            file,
            options,
            to,
            located: shared().locate(file)?,
            schedule: ReadSchedule::default(),
            tail: to,
            holes: BTreeMap::new(),
            means: residency::means(file)?,
            peek: PeekRange::new(file, from, to),
        };
        unread.consider(from, to)?;
        Ok(unread)
    }

    /// Looks up where bytes `from` to `to` are, and adds them to the schedule.
    pub(super) fn consider(&mut self, from: u64, to: u64) -> io::Result<()> {
        let located = Arc::clone(&self.located);
        let parts = parts(self.file, (from, to), &located)?;
        let stretches = parts.into_iter().map(|part| CostStretch {
            offset: part.offset,
            end: part.end,
            cost: match part.holder {
                RangeHolder::Cache => ReadCost::CACHED,
                RangeHolder::Nothing => ReadCost::HOLE,
                RangeHolder::Unknown => ReadCost::device(None),
                RangeHolder::Device(spot) => {
                    ReadCost::device(located.zone(spot).rates.map(|rates| rates.latency_s.median))
                }
            },
        });
        let mut stretches: Vec<_> = stretches.collect();
        if self.options.plan == ReadPlan::Auto {
            read_over(
                &mut stretches,
                worth_reading_over(located.somewhere().rates),
            );
        }
        let groups = if self.options.leaves_out_holes() {
            self.without_holes(stretches)
        } else {
            vec![stretches]
        };
        for group in groups {
            let settled = with_boundaries(self.options.unit, &mut self.peek, |boundaries| {
                settle(group, boundaries)
            })?;
            self.schedule.add(settled);
        }
        Ok(())
    }

    /// Removes the holes from `stretches`, and records them. Returns the stretches between two holes as a group. A hole
    /// keeps the rest after its first byte, which terminates the record before the hole.
    fn without_holes(&mut self, stretches: Vec<CostStretch>) -> Vec<Vec<CostStretch>> {
        let mut groups = vec![Vec::new()];
        for stretch in stretches {
            let group = groups.last_mut().expect("there is always a last group");
            if stretch.cost != ReadCost::HOLE {
                group.push(stretch);
                continue;
            }
            let mut start = stretch.offset;
            if let Some(last) = group.last_mut() {
                start += 1;
                last.end = start;
                groups.push(Vec::new());
            }
            if start < stretch.end {
                self.holes.insert(stretch.end, stretch.end - start);
            }
        }
        groups
    }

    /// Returns the number of bytes in holes directly before byte `at` that are left out.
    pub(super) fn skipped_before(&self, at: u64) -> u64 {
        let mut start = at;
        while let Some(length) = self.holes.get(&start) {
            start -= length;
        }
        at - start
    }

    /// Returns true if all bytes from `from` to `to` are in the page cache now.
    pub(super) fn is_cached(&self, from: u64, to: u64) -> io::Result<bool> {
        let presence = residency::uniform(self.file, self.means, from, to)?;
        Ok(presence == Some(Presence::Cached))
    }

    /// Adds bytes `from` to `to` to `assembly`, without read-ahead, and returns their number.
    pub(super) fn load(
        &mut self,
        assembly: &mut PieceAssembly,
        from: u64,
        to: u64,
    ) -> io::Result<u64> {
        let mut at = from;
        while at < to {
            let room = assembly.make_room()?;
            let length = room.len().min((to - at) as usize);
            let n = self.peek.read(at, &mut room[..length])?;
            assembly.add(n);
            at += n as u64;
            if n < length {
                break;
            }
        }
        Ok(at - from)
    }

    /// Ends a stretch that was read up to `end`. An incomplete unit at the end of the file is left for the tail, since
    /// the file may have grown.
    pub(super) fn end_stretch(&mut self, assembly: &mut PieceAssembly, end: u64) -> LaneStep {
        if end == self.to && self.options.unit != ReadUnit::Bytes {
            self.tail = assembly.at();
            assembly.restart(self.tail);
        }
        if assembly.cut(true) {
            LaneStep::Piece
        } else {
            LaneStep::More
        }
    }
}
