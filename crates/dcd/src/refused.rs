//! What home refuses: places of the data device that take no writes, and have none to take them.
//!
//! A bad sector, or a thin image without space, must not stop the tail: what cannot go home is appended
//! anew at the head, so that the segments behind it can be reused, and is tried again now and then.
//! While nothing but this, and what is lost, is left in the log, the log is not destaged for its own
//! sake, or it would chase its tail.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_device::{Buf, DeviceError, Op};
use forebay_log::{Addr, RangeKind, SEGMENTS_RESERVED};
use forebay_rt::Instant;
use forebay_units::{LINE_BYTES, Line, RecordSeq, SECTOR_BYTES, Sector};

use crate::engine::Engine;
use crate::home::Loaded;
use crate::map::Piece;
use crate::policy;
use crate::ranges::Mark;

/// The most ranges that are appended in one group.
const GROUP: usize = 64;
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
    pub(crate) fn due_in(&self, now: Instant) -> Option<std::time::Duration> {
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

    /// The lines of which something is refused, in ascending order.
    fn lines(&self) -> impl Iterator<Item = Line> {
        let mut before = None;
        let lines = self.copies.iter().map(|(line, _)| *line);
        lines.filter(move |line| before.replace(*line) != Some(*line))
    }
}

impl Engine {
    /// True if what is not home is all refused or lost.
    pub(crate) fn keeps_all(&self) -> bool {
        let key = {
            let map = self.map.borrow();
            (map.len(), map.live_sectors(), self.log.next_record())
        };
        let known = self.refused.borrow().all;
        match known {
            Some((then, all)) if then == key => all,
            _ => {
                let all = self.is_all_kept();
                self.refused.borrow_mut().all = Some((key, all));
                all
            }
        }
    }

    fn is_all_kept(&self) -> bool {
        let map = self.map.borrow();
        let refused = self.refused.borrow();
        if map.is_empty() || map.len() > refused.copies.len() {
            return false;
        }
        let mark_stays =
            |mark: Mark| mark.kind == RangeKind::Lost || refused.marks.contains(&mark.record);
        let ranges = map.ranges();
        if ranges.lost() < ranges.len() && !ranges.iter().all(|(_, mark)| mark_stays(mark)) {
            return false;
        }
        let there = |copy: &&(Line, Addr)| map.piece_at(copy.0, copy.1).is_some();
        refused.copies.iter().filter(there).count() == map.len()
    }

    /// True if moving the tail would free much more than what has to be appended anew for it.
    pub(crate) fn would_gain(&self) -> bool {
        let ring = self.log.ring();
        let log = ring.segment_count * u64::from(ring.segment_bytes);
        self.map.borrow().live_sectors() * SECTOR_BYTES < log / 2
    }

    /// After a burst: forgets what is refused no longer, and says when the rest is tried again.
    pub(crate) fn review_refused(&self, progress: bool, complete: bool) {
        let keeps = self.is_all_kept();
        let mut refused = self.refused.borrow_mut();
        {
            let map = self.map.borrow();
            let there = |copy: &(Line, Addr)| map.piece_at(copy.0, copy.1).is_some();
            refused.copies.retain(there);
            let records: BTreeSet<RecordSeq> =
                map.ranges().iter().map(|(_, mark)| mark.record).collect();
            refused.marks.retain(|record| records.contains(record));
        }
        refused.all = None;
        if refused.is_empty() {
            let Refused {
                begun,
                in_vain,
                narrow,
                ..
            } = *refused;
            *refused = Refused {
                begun,
                in_vain,
                narrow,
                ..Refused::default()
            };
            return;
        }
        if !keeps {
            return;
        }
        refused.failures = if progress { 0 } else { refused.failures + 1 };
        let pause = policy::retry_after(refused.failures, false);
        refused.again_at = Some(self.rt.now().plus(pause));
        if complete && !progress {
            refused.in_vain = refused.begun;
        }
    }

    /// True if what home refuses of so many segments can be appended anew: all of it, since what is
    /// appended in part frees nothing. Of the segments that are kept from users none may be lost by it,
    /// so then it must take clearly less room than it frees.
    pub(crate) fn can_keep(&self, pieces: &[Loaded], segments: u64) -> bool {
        let segment = u64::from(self.log.ring().segment_bytes);
        let bytes = pieces.iter().map(|l| l.piece.bytes() as u64).sum::<u64>();
        let (need, free) = (
            bytes.div_ceil(segment / 8 * 7) + 1,
            self.log.free_segments(),
        );
        let frees = bytes * 4 <= segments * segment * 3;
        free >= need && (frees || free >= need + SEGMENTS_RESERVED)
    }

    /// Appends anew what home did not take, so that the tail can pass it.
    ///
    /// # Errors
    /// If there is no room for it in the log.
    pub(crate) fn keep_in_log(&self, pieces: &[Loaded]) -> Result<(), DeviceError> {
        let quarter = u64::from(self.log.ring().segment_bytes) / 4;
        for group in pieces.chunks((quarter / LINE_BYTES) as usize) {
            let parts: Vec<(u64, Buf)> = {
                let map = self.map.borrow();
                let live = group.iter().flat_map(|Loaded { piece, bytes }| {
                    let now = map.piece_at(piece.line, piece.addr);
                    let first = piece.sector().0;
                    now.into_iter().flat_map(Piece::live_runs).map(move |run| {
                        let at = |sector: u64| ((sector - first) * SECTOR_BYTES) as usize;
                        (run.start, bytes.slice(at(run.start)..at(run.end)))
                    })
                });
                live.collect()
            };
            let bytes = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            self.needs_room(bytes, parts.len() as u64)?;
            let mut map = self.map.borrow_mut();
            let mut refused = self.refused.borrow_mut();
            for Loaded { piece, .. } in group {
                refused.copies.remove(&(piece.line, piece.addr));
            }
            self.log.append(|log| {
                for (sector, bytes) in &parts {
                    let (crc, sector) = (crc32c::crc32c(bytes), Sector(*sector));
                    let addr = log.data(sector, bytes, crc);
                    let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u8;
                    let copy = Piece::new(sector, sectors, addr, crc);
                    map.insert_copy(copy);
                    refused.copies.insert((copy.line, addr));
                }
            });
        }
        Ok(())
    }

    /// Notes anew what ranges are that cannot be made so at home.
    ///
    /// # Errors
    /// If there is no room for it in the log.
    pub(crate) fn keep_marks(
        &self,
        kind: RangeKind,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<(), DeviceError> {
        for group in ranges.chunks(GROUP) {
            self.needs_room(0, group.len() as u64)?;
            let mut map = self.map.borrow_mut();
            let mut records = Vec::new();
            self.log.append(|log| {
                for range in group {
                    let len = range.end - range.start;
                    let record = log.range(kind, Sector(range.start), len);
                    map.mark(range.clone(), Some(Mark { kind, record }));
                    records.push(record);
                }
            });
            if kind != RangeKind::Lost {
                self.refused.borrow_mut().marks.extend(records);
            }
        }
        Ok(())
    }

    fn needs_room(&self, bytes: u64, entries: u64) -> Result<(), DeviceError> {
        // What is appended to a log that failed is in memory only, and the rescue looks elsewhere.
        if self.log.failure().is_none() && self.log.has_room(bytes, entries, 0) {
            return Ok(());
        }
        let cause = "no room in the log to keep what cannot go home".into();
        let op = Op::Write;
        Err(DeviceError::Failed { op, cause })
    }

    /// What home refuses: bytes in whole lines, and the first ranges of them (first byte, length).
    pub(crate) fn refused_ranges(&self) -> (u64, Vec<(u64, u64)>) {
        let refused = self.refused.borrow();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for line in refused.lines() {
            let at = line.0 * LINE_BYTES;
            let named = ranges.len();
            match ranges.last_mut() {
                Some((start, len)) if *start + *len == at => *len += LINE_BYTES,
                _ if named == NAMED => break,
                _ => ranges.push((at, LINE_BYTES)),
            }
        }
        (refused.lines().count() as u64 * LINE_BYTES, ranges)
    }
}
