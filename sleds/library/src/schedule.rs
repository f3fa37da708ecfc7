//! The order of reading: lowest latency first, lowest offset among equals, every byte once (the paper's section 4.2).
//! All I/O goes through [`UnitBoundaries`].

use std::collections::BTreeMap;
use std::io;

/// Cost of a part of a file. Only the order of costs matters.
///
/// The value is a latency in seconds, as bits: positive floating-point numbers have the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReadCost(u64);

impl ReadCost {
    /// In the page cache.
    pub(crate) const CACHED: ReadCost = ReadCost(0);
    /// A hole.
    pub(crate) const HOLE: ReadCost = ReadCost(1);

    /// Returns the cost of a device with this latency in seconds. An unknown latency is the highest cost.
    pub(crate) fn device(latency_s: Option<f64>) -> ReadCost {
        let latency = latency_s.filter(|latency| *latency >= 0.0);
        ReadCost(latency.unwrap_or(f64::INFINITY).to_bits().max(2))
    }
}

/// A part of a file with the same cost throughout; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CostStretch {
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) cost: ReadCost,
}

/// Boundaries of units that must not be cut.
pub(crate) trait UnitBoundaries {
    /// Returns the first end of a unit in `from..=limit`, if the search can recognize it as an end.
    fn end_after(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>>;
    /// Returns the last end of a unit in `limit + 1..=from`.
    fn end_before(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>>;
}

/// Units of single bytes.
pub(crate) struct ByteBoundaries;

impl UnitBoundaries for ByteBoundaries {
    fn end_after(&mut self, from: u64, _limit: u64) -> io::Result<Option<u64>> {
        Ok(Some(from))
    }

    fn end_before(&mut self, from: u64, _limit: u64) -> io::Result<Option<u64>> {
        Ok(Some(from))
    }
}

/// Units of `size` bytes, the first at `start`.
pub(crate) struct ElementBoundaries {
    pub(crate) start: u64,
    pub(crate) size: u64,
}

impl UnitBoundaries for ElementBoundaries {
    fn end_after(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        let into = from.saturating_sub(self.start);
        let end = into
            .checked_next_multiple_of(self.size)
            .map(|at| at + self.start);
        Ok(end.filter(|end| *end <= limit))
    }

    fn end_before(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        let into = from.saturating_sub(self.start);
        let end = into - into % self.size + self.start;
        Ok((end > limit).then_some(end))
    }
}

/// Raises the cost of cheap stretches of up to `worth` bytes to the cost of both neighbours, if the neighbours have
/// equal costs. A device then gets one long request instead of many short requests.
pub(crate) fn read_over(stretches: &mut [CostStretch], worth: u64) {
    for at in 1..stretches.len().saturating_sub(1) {
        let (before, over, after) = (stretches[at - 1], stretches[at], stretches[at + 1]);
        if over.cost < before.cost && before.cost == after.cost && over.end - over.offset <= worth {
            stretches[at].cost = before.cost;
        }
    }
}

/// Moves the edges between stretches to boundaries of units: a unit belongs to the most expensive stretch that it
/// touches (the paper's figure 4). A stretch without a boundary joins the more expensive neighbour.
///
/// The search reads only the cheaper side of an edge. The byte before the edge shows if a record ends exactly there. If
/// this byte is on the expensive side, it is not read, and the first record of the cheap side always moves to the
/// expensive side.
///
/// The outer edges must be boundaries, and do not move.
pub(crate) fn settle(
    stretches: impl IntoIterator<Item = CostStretch>,
    boundaries: &mut dyn UnitBoundaries,
) -> io::Result<Vec<CostStretch>> {
    let mut out: Vec<CostStretch> = Vec::new();
    for mut next in stretches {
        // True if the edge between the last and the next stretch is already a boundary.
        let mut settled = false;
        loop {
            let Some(last) = out.last_mut() else {
                out.push(next);
                break;
            };
            if last.cost == next.cost {
                last.end = next.end;
                break;
            }
            if settled {
                out.push(next);
                break;
            }
            if last.cost > next.cost {
                let edge = boundaries.end_after(next.offset, next.end)?;
                last.end = edge.unwrap_or(next.end);
                if last.end < next.end {
                    next.offset = last.end;
                    out.push(next);
                }
                break;
            }
            if let Some(edge) = boundaries.end_before(next.offset, last.offset)? {
                last.end = edge;
                next.offset = edge;
                out.push(next);
                break;
            }
            next.offset = last.offset;
            out.pop();
            settled = true;
        }
    }
    Ok(out)
}

/// Parts not yet read, most expensive last.
#[derive(Default, Debug)]
pub(crate) struct ReadSchedule {
    /// Ends of stretches by cost and offset.
    stretches: BTreeMap<(ReadCost, u64), u64>,
}

impl ReadSchedule {
    pub(crate) fn add(&mut self, stretches: impl IntoIterator<Item = CostStretch>) {
        for one in stretches {
            self.stretches.insert((one.cost, one.offset), one.end);
        }
    }

    /// Returns the cheapest stretch with a cost of at least `least`, and the first among equal costs.
    pub(crate) fn first(&self, least: ReadCost) -> Option<CostStretch> {
        let mut from = self.stretches.range((least, 0)..);
        let (&(cost, offset), &end) = from.next()?;
        Some(CostStretch { offset, end, cost })
    }

    /// Removes the bytes before `end` from `stretch`, which [`ReadSchedule::first`] returned.
    pub(crate) fn take(&mut self, stretch: CostStretch, end: u64) {
        self.stretches.remove(&(stretch.cost, stretch.offset));
        if end < stretch.end {
            self.stretches.insert((stretch.cost, end), stretch.end);
        }
    }

    /// Removes all stretches, and returns them joined and sorted by offset.
    pub(crate) fn drain(&mut self) -> Vec<(u64, u64)> {
        let stretches = std::mem::take(&mut self.stretches);
        let mut all: Vec<_> = stretches
            .into_iter()
            .map(|((_, at), end)| (at, end))
            .collect();
        all.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (at, end) in all {
            match joined.last_mut() {
                Some(last) if last.1 == at => last.1 = end,
                _ => joined.push((at, end)),
            }
        }
        joined
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
