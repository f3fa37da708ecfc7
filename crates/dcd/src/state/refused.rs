//! What home refuses: which data and zeroes are kept in the log instead, and when they are tried again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_log::{Addr, RangeKind};
use forebay_rt::Instant;
use forebay_units::{LINE_BYTES, Line, RecordSeq};

use crate::map::Map;
use crate::policy;
use crate::ranges::Mark;

/// How many ranges are named to users; the rest is counted.
const NAMED: usize = 16;

/// What home refused, and when it is tried again.
#[derive(Default)]
pub(crate) struct Refused {
    /// The copies that were appended anew. Not their lines: another piece of the same line may lie in
    /// another segment, and go home.
    copies: BTreeSet<(Line, Addr)>,
    /// Records by which zeroes were noted anew.
    marks: BTreeSet<RecordSeq>,
    /// The last error.
    cause: Option<Arc<str>>,
    /// When all that is left is to be tried again, and how often it was in vain.
    again_at: Option<Instant>,
    failures: u32,
    /// There was no room to keep what a window of many segments held of it: one is taken at a time.
    pub(crate) narrow: bool,
    /// The last answer to whether this is all that is left, and what the map was like then.
    all: Option<((usize, u64, RecordSeq), bool)>,
    /// Attempts begun, and the last of them that brought nothing home and left nothing untried.
    begun: u64,
    in_vain: u64,
}

impl Refused {
    /// True if it is time to try again.
    pub(crate) fn due(&self, now: Instant) -> bool {
        !self.is_empty() && self.again_at.is_none_or(|at| at <= now)
    }

    /// How long until then.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        let at = self.again_at.filter(|_| !self.is_empty())?;
        Some(at.since(now))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.marks.is_empty()
    }

    /// An attempt to bring home what can be begins.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    /// True if an attempt in vain was begun after so many others, or there is nothing to try.
    pub(crate) fn tried_since(&self, begun: u64) -> bool {
        self.is_empty() || self.in_vain > begun
    }

    /// It is to be tried again now. Gives how many attempts were begun before.
    pub(crate) fn try_now(&mut self) -> u64 {
        self.again_at = None;
        self.failures = 0;
        self.begun
    }

    /// Home refused something, with this error.
    pub(crate) fn note(&mut self, error: &DeviceError) {
        self.cause = Some(error.to_string().into());
    }

    /// The last error, while anything is refused.
    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        self.cause.clone().filter(|_| !self.is_empty())
    }

    /// This copy went home.
    pub(crate) fn went_home(&mut self, line: Line, addr: Addr) {
        if self.copies.remove(&(line, addr)) {
            self.all = None;
        }
    }

    /// What lies here is appended anew.
    pub(crate) fn moved(&mut self, line: Line, addr: Addr) {
        self.copies.remove(&(line, addr));
    }

    /// This copy was appended anew, since home did not take it.
    pub(crate) fn keep(&mut self, line: Line, addr: Addr) {
        self.copies.insert((line, addr));
    }

    /// The lines of which something is refused, in ascending order.
    fn lines(&self) -> impl Iterator<Item = Line> {
        let mut before = None;
        let lines = self.copies.iter().map(|(line, _)| *line);
        lines.filter(move |line| before.replace(*line) != Some(*line))
    }

    /// Zeroes that could not be made at home were noted anew in these records.
    pub(crate) fn keep_marks(&mut self, records: Vec<RecordSeq>) {
        self.marks.extend(records);
    }

    /// True if what is not home is all refused or lost. `next_record` is the one that will be appended
    /// next: the answer stays the same as long as it and the map do.
    pub(crate) fn keeps_all(&mut self, map: &Map, next_record: RecordSeq) -> bool {
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

    fn is_all(&self, map: &Map) -> bool {
        if map.is_empty() || map.len() > self.copies.len() {
            return false;
        }
        let mark_stays =
            |mark: Mark| mark.kind == RangeKind::Lost || self.marks.contains(&mark.record);
        let ranges = map.ranges();
        if ranges.lost() < ranges.len() && !ranges.iter().all(|(_, mark)| mark_stays(mark)) {
            return false;
        }
        let there = |copy: &&(Line, Addr)| map.piece_at(copy.0, copy.1).is_some();
        self.copies.iter().filter(there).count() == map.len()
    }

    /// After a burst, which made progress or did not, and left something untried or was complete:
    /// forgets what is refused no longer, and says when the rest is tried again.
    pub(crate) fn review(&mut self, map: &Map, now: Instant, progress: bool, complete: bool) {
        let keeps = self.is_all(map);
        let there = |copy: &(Line, Addr)| map.piece_at(copy.0, copy.1).is_some();
        self.copies.retain(there);
        let records: BTreeSet<RecordSeq> =
            map.ranges().iter().map(|(_, mark)| mark.record).collect();
        self.marks.retain(|record| records.contains(record));
        self.all = None;
        if self.is_empty() {
            *self = Refused {
                begun: self.begun,
                in_vain: self.in_vain,
                narrow: self.narrow,
                ..Refused::default()
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

    /// What home refuses: bytes in whole lines, and the first ranges of them (first byte, length).
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
