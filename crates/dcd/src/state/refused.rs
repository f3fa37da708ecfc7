//! Data and zeroes that the data device fails to write: their copies in the log, and the time of the next attempt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_ring_log::{LogAddr, RangeKind};
use forebay_rt::Instant;
use forebay_units::{BlockNumber, LINE_BYTES, RecordSeq};

use crate::map::CacheMap;
use crate::policy;
use crate::ranges::RangeState;

/// Maximum number of ranges in the status; the others are only counted.
const NAMED: usize = 16;

/// Data that the data device failed to write, and the time of the next attempt.
#[derive(Default)]
pub(crate) struct UnwritableBlocks {
    /// Copies that were appended again. The address is needed, since another fragment of the same block may lie in
    /// another segment and be destaged.
    copies: BTreeSet<(BlockNumber, LogAddr)>,
    /// Records by which zeroes were appended again.
    marks: BTreeSet<RecordSeq>,
    /// Last error.
    cause: Option<Arc<str>>,
    /// Time when all remaining data is tried again, and the number of failed attempts.
    again_at: Option<Instant>,
    failures: u32,
    /// True if the log had no free space to keep the rejected data of a window of many segments. Then windows of one
    /// segment are taken.
    pub(crate) narrow: bool,
    /// Cached result of [`UnwritableBlocks::keeps_all`], and the state of the map for which it is valid.
    all: Option<((usize, u64, RecordSeq), bool)>,
    /// Number of attempts begun, and the number of the last attempt that tried everything without success.
    begun: u64,
    in_vain: u64,
}

impl UnwritableBlocks {
    /// Returns true if it is time to try again.
    pub(crate) fn due(&self, now: Instant) -> bool {
        !self.is_empty() && self.again_at.is_none_or(|at| at <= now)
    }

    /// Returns the time until the next attempt.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        let at = self.again_at.filter(|_| !self.is_empty())?;
        Some(at.since(now))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.marks.is_empty()
    }

    /// Begins an attempt to destage the data.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    /// Returns true if an attempt begun after the first `begun` attempts was unsuccessful, or no data is left to try.
    pub(crate) fn tried_since(&self, begun: u64) -> bool {
        self.is_empty() || self.in_vain > begun
    }

    /// Requests an attempt now. Returns the number of attempts begun before.
    pub(crate) fn try_now(&mut self) -> u64 {
        self.again_at = None;
        self.failures = 0;
        self.begun
    }

    /// Records an error of the data device.
    pub(crate) fn note(&mut self, error: &DeviceError) {
        self.cause = Some(error.to_string().into());
    }

    /// Returns the last error, while any data is rejected.
    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        self.cause.clone().filter(|_| !self.is_empty())
    }

    /// Removes a copy that was destaged.
    pub(crate) fn went_home(&mut self, line: BlockNumber, addr: LogAddr) {
        if self.copies.remove(&(line, addr)) {
            self.all = None;
        }
    }

    /// Removes a copy that is being appended again elsewhere.
    pub(crate) fn moved(&mut self, line: BlockNumber, addr: LogAddr) {
        self.copies.remove(&(line, addr));
    }

    /// Adds a copy that was appended again, since the data device failed to write it.
    pub(crate) fn keep(&mut self, line: BlockNumber, addr: LogAddr) {
        self.copies.insert((line, addr));
    }

    /// Returns the blocks with rejected data, in ascending order.
    fn lines(&self) -> impl Iterator<Item = BlockNumber> {
        let mut before = None;
        let lines = self.copies.iter().map(|(line, _)| *line);
        lines.filter(move |line| before.replace(*line) != Some(*line))
    }

    /// Adds records by which zeroes were appended again, since the data device failed to write them.
    pub(crate) fn keep_marks(&mut self, records: Vec<RecordSeq>) {
        self.marks.extend(records);
    }

    /// Returns true if all data in the log is either rejected or lost. `next_record` is the next record to be appended:
    /// the answer stays valid as long as it and the map do not change.
    pub(crate) fn keeps_all(&mut self, map: &CacheMap, next_record: RecordSeq) -> bool {
        let key = (map.len(), map.live_sectors(), next_record);
        match self.all {
            Some((then, all)) if then == key => all,
            _ => {
                let all = self.is_all(map);
                self.all = Some((key, all));
                all
            }
        }
    }

    fn is_all(&self, map: &CacheMap) -> bool {
        if map.is_empty() || map.len() > self.copies.len() {
            return false;
        }
        let mark_stays =
            |mark: RangeState| mark.kind == RangeKind::Lost || self.marks.contains(&mark.record);
        let ranges = map.ranges();
        if ranges.lost() < ranges.len() && !ranges.iter().all(|(_, mark)| mark_stays(mark)) {
            return false;
        }
        let there = |copy: &&(BlockNumber, LogAddr)| map.piece_at(copy.0, copy.1).is_some();
        self.copies.iter().filter(there).count() == map.len()
    }

    /// Reviews the state after a burst. `progress` tells if any data was destaged, `complete` if all data was tried.
    /// Removes entries that are no longer rejected, and schedules the next attempt for the rest.
    pub(crate) fn review(&mut self, map: &CacheMap, now: Instant, progress: bool, complete: bool) {
        let keeps = self.is_all(map);
        let there = |copy: &(BlockNumber, LogAddr)| map.piece_at(copy.0, copy.1).is_some();
        self.copies.retain(there);
        let records: BTreeSet<RecordSeq> =
            map.ranges().iter().map(|(_, mark)| mark.record).collect();
        self.marks.retain(|record| records.contains(record));
        self.all = None;
        if self.is_empty() {
            *self = UnwritableBlocks {
                begun: self.begun,
                in_vain: self.in_vain,
                narrow: self.narrow,
                ..UnwritableBlocks::default()
            };
            return;
        }
        if !keeps {
            return;
        }
        self.failures = if progress { 0 } else { self.failures + 1 };
        let pause = policy::retry_after(self.failures, false);
        self.again_at = Some(now.plus(pause));
        if complete && !progress {
            self.in_vain = self.begun;
        }
    }

    /// Returns the number of rejected bytes, in whole blocks, and the first ranges of them (first byte, length).
    pub(crate) fn ranges(&self) -> (u64, Vec<(u64, u64)>) {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for line in self.lines() {
            let at = line.0 * LINE_BYTES;
            let named = ranges.len();
            match ranges.last_mut() {
                Some((start, len)) if *start + *len == at => *len += LINE_BYTES,
                _ if named == NAMED => break,
                _ => ranges.push((at, LINE_BYTES)),
            }
        }
        (self.lines().count() as u64 * LINE_BYTES, ranges)
    }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
