//! A part of a disk's capacity, spread over the whole disk.
//!
//! A disk of which a thirtieth is in use behaves differently from a full disk: its arm hardly moves. So the used part
//! lies in pieces at even distances from the first block to the last, with the mechanics of the whole disk. A piece is
//! as long as a segment's part on the disk, and behaves like on the whole disk. From one piece to the next the arm
//! moves. The arm also moves between the segments of a log that has been cleaned for a while.

use std::collections::BTreeMap;

use forebay_disk_model::TimingModel;
use forebay_disk_model::disk::{DiskCompletion, DiskOp};
use forebay_rt::Instant;

/// A disk with its pieces in use.
pub struct SpreadDisk<T> {
    disk: T,
    /// Sectors of a piece, and the distance of two pieces.
    piece: u64,
    apart: u64,
    pieces: u64,
    /// For commands that need several commands of the disk, the number of incomplete disk commands.
    parts: BTreeMap<u64, u32>,
    /// The command to which each disk command belongs.
    whose: BTreeMap<u64, u64>,
    next: u64,
    done: Vec<DiskCompletion>,
}

impl<T: TimingModel> SpreadDisk<T> {
    /// Creates `pieces` pieces of `piece` sectors each.
    ///
    /// # Panics
    /// If the pieces are larger than the disk.
    pub fn new(disk: T, piece: u64, pieces: u64) -> SpreadDisk<T> {
        let apart = match pieces {
            0 | 1 => piece,
            _ => (disk.blocks() - piece) / (pieces - 1),
        };
        assert!(apart >= piece, "{pieces} pieces of {piece} sectors");
        SpreadDisk {
            disk,
            piece,
            apart,
            pieces,
            parts: BTreeMap::new(),
            whose: BTreeMap::new(),
            next: 0,
            done: Vec::new(),
        }
    }

    fn number(&mut self, id: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.whose.insert(number, id);
        *self.parts.entry(id).or_insert(0) += 1;
        number
    }
}

impl<T: TimingModel> TimingModel for SpreadDisk<T> {
    fn blocks(&self) -> u64 {
        self.pieces * self.piece
    }

    fn has_write_cache(&self) -> bool {
        self.disk.has_write_cache()
    }

    fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
        let (mut at, end) = (first, first + u64::from(blocks));
        while at < end {
            let (piece, within) = (at / self.piece, at % self.piece);
            let here = (self.piece - within).min(end - at);
            let number = self.number(id);
            let place = piece * self.apart + within;
            self.disk.submit(now, number, op, place, here as u32);
            at += here;
        }
    }

    fn flush(&mut self, now: Instant, id: u64) {
        let number = self.number(id);
        self.disk.flush(now, number);
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    /// Completes a command when its last part is complete. The time statistics are those of the last part.
    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        self.disk.advance(now, &mut self.done);
        for part in self.done.drain(..) {
            let Some(id) = self.whose.remove(&part.id) else {
                continue;
            };
            let left = self.parts.entry(id).or_insert(1);
            *left -= 1;
            if *left == 0 {
                self.parts.remove(&id);
                done.push(DiskCompletion { id, ..part });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_disk_model::EvenDisk;

    use super::*;

    /// Records its requests.
    struct NotingDisk(EvenDisk, Vec<(u64, u32)>);

    impl TimingModel for NotingDisk {
        fn blocks(&self) -> u64 {
            self.0.blocks()
        }
        fn has_write_cache(&self) -> bool {
            false
        }
        fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
            self.1.push((first, blocks));
            self.0.submit(now, id, op, first, blocks);
        }
        fn flush(&mut self, now: Instant, id: u64) {
            self.0.flush(now, id);
        }
        fn next_event(&self) -> Option<Instant> {
            self.0.next_event()
        }
        fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
            self.0.advance(now, done);
        }
    }

    #[test]
    fn fragments_span_the_disk_and_a_command_completes_with_its_last_fragment() {
        let each = Duration::from_millis(1);
        let mut spread =
            SpreadDisk::new(NotingDisk(EvenDisk::new(10_000, each), Vec::new()), 100, 10);
        assert_eq!(spread.blocks(), 1000);
        let start = Instant::default();
        spread.submit(start, 7, DiskOp::Write, 950, 50);
        spread.submit(start, 8, DiskOp::Read, 90, 120);
        spread.flush(start, 9);
        assert_eq!(
            spread.disk.1,
            [(9950, 50), (90, 10), (1100, 100), (2200, 10)]
        );
        let mut done = Vec::new();
        spread.advance(start.plus(each * 3), &mut done);
        assert_eq!(done.iter().map(|done| done.id).collect::<Vec<_>>(), [7]);
        spread.advance(start.plus(each * 4), &mut done);
        let ids: Vec<u64> = done.iter().map(|done| done.id).collect();
        assert_eq!(ids, [7, 8, 9]);
        assert_eq!(done[1].at, start.plus(each * 4));
        assert_eq!(spread.next_event(), None);
    }
}
