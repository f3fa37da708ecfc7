//! WOLF: pages are sorted into several write buffers by write frequency. So a segment holds either active pages and is
//! soon empty, or inactive pages and stays full (Wang and Hu, "WOLF: a novel reordering write buffer to boost the
//! performance of log-structured file systems", FAST 2002).
//!
//! Each page has a reference count. A count restarts when it is older than a time limit, initially ten minutes. After
//! writes of the buffers' size, the counts seen meanwhile are divided into as many parts as buffers, and the next pages
//! are sorted by these parts. The time limit is doubled if nine tenths of the counts are equal, and halved if at most
//! one tenth is equal.
//!
//! The paper sorts the contents of its buffers in memory before they are written. Here a page is sorted when it
//! arrives, by the counts of earlier pages, so no page waits for others.
//!
//! Counts are kept for a bounded number of pages (`placement/wolf/references.rs`).

mod references;

use super::pages::{alike, pages};
use super::{
    MoveOrder, MovedExtent, MovedPlace, Placement, PlacementAnswer, PlacementKind,
    PlacementOptions, PolicyFact, PolicyNeeds, UserPlace, UserWrite, saved,
};
use forebay_units::SECTOR_BYTES;
use references::ReferenceCounts;

const SECOND: u64 = 1_000_000_000;
/// Initial time limit and its bounds, in seconds.
const BAR: u64 = 600;
const BAR_MIN: u64 = 1;
const BAR_MAX: u64 = 86_400;
/// Fraction of equal counts above which the time limit is doubled, and up to which it is halved.
const EQUAL_MANY: f64 = 0.9;
const EQUAL_FEW: f64 = 0.1;
/// Number of distinguished counts.
const COUNTS: usize = 256;
const BUFFERS_MAX: usize = 8;

/// Reference counts, and the sorting of pages by them.
#[derive(Debug)]
pub(super) struct Wolf {
    page: u32,
    buffers: usize,
    /// Capacity of the buffers, in page writes.
    room: u64,
    references: ReferenceCounts,
    /// Time limit of a count, in seconds.
    bar: u64,
    /// Bounds between buffers: for each bound that its count exceeds, a page goes to the next more active buffer.
    bounds: [u64; BUFFERS_MAX - 1],
    /// Page writes by count, for the pages in the buffers.
    seen: [u64; COUNTS],
    held: u64,
    active: u64,
    all: u64,
}

impl Wolf {
    pub(super) fn new(options: &PlacementOptions) -> Wolf {
        let buffers = usize::from(options.buffers).clamp(2, BUFFERS_MAX);
        let page_bytes = u64::from(options.page()) * SECTOR_BYTES;
        let pages = options.segment_bytes / page_bytes;
        Wolf {
            page: options.page(),
            buffers,
            room: (pages * buffers as u64).max(64),
            references: ReferenceCounts::new(options.memory()),
            bar: BAR,
            bounds: [1; BUFFERS_MAX - 1],
            seen: [0; COUNTS],
            held: 0,
            active: 0,
            all: 0,
        }
    }

    /// Returns the buffer of a page with this count. Buffer 0 is the most active.
    fn buffer(&self, count: u64) -> usize {
        let bounds = &self.bounds[..self.buffers - 1];
        bounds.iter().filter(|&&bound| count <= bound).count()
    }

    /// Recomputes the bounds and the time limit when the buffers are full.
    fn turn(&mut self) {
        let mut below = 0;
        let mut bounds = [0; BUFFERS_MAX - 1];
        let mut part = 1;
        for (count, &many) in self.seen.iter().enumerate() {
            below += many;
            while part < self.buffers && below * self.buffers as u64 >= self.held * part as u64 {
                bounds[part - 1] = count as u64;
                part += 1;
            }
        }
        self.bounds = bounds;
        let most = self.seen.iter().max().copied().unwrap_or(0);
        let equal = most as f64 / self.held.max(1) as f64;
        self.bar = match equal {
            equal if equal >= EQUAL_MANY => (self.bar * 2).min(BAR_MAX),
            equal if equal <= EQUAL_FEW => (self.bar / 2).max(BAR_MIN),
            _ => self.bar,
        };
        self.seen = [0; COUNTS];
        self.held = 0;
    }
}

impl Placement for Wolf {
    fn kind(&self) -> PlacementKind {
        PlacementKind::Wolf
    }

    fn needs(&self) -> PolicyNeeds {
        PolicyNeeds {
            user: self.buffers as u8,
            moved: 1,
            in_place: false,
            order: MoveOrder::Age,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace> {
        let seconds = write.nanos / SECOND;
        let count = |page| 1 + self.references.get(page, seconds, self.bar);
        let (buffer, sectors) = alike(write.at, write.sectors, self.page, |page| {
            self.buffer(count(page))
        });
        for page in pages(write.at, sectors, self.page) {
            let count = self.references.count(page, seconds, self.bar);
            self.seen[(count as usize).min(COUNTS - 1)] += 1;
            self.held += 1;
            self.all += 1;
            self.active += u64::from(buffer * 2 < self.buffers);
        }
        if self.held >= self.room {
            self.turn();
        }
        PlacementAnswer {
            place: UserPlace::Append(buffer as u8),
            sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace> {
        PlacementAnswer {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }

    fn describe(&self) -> Vec<PolicyFact> {
        let fact = |name, value, unit| PolicyFact { name, value, unit };
        let bound = self.bounds[(self.buffers - 1) / 2];
        vec![
            fact(
                "active",
                self.active as f64 / self.all.max(1) as f64,
                "of page writes",
            ),
            fact("active above", bound as f64, "references"),
            fact("references count for", self.bar as f64, "seconds"),
        ]
    }

    /// References are not saved: after a restart pages are inactive until they are written again.
    fn save(&self) -> Vec<u8> {
        let mut numbers = [self.bar; BUFFERS_MAX];
        numbers[1..].copy_from_slice(&self.bounds);
        saved::encode(self.kind(), &numbers)
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let Some([bar, bounds @ ..]) = saved::decode::<BUFFERS_MAX>(self.kind(), bytes) else {
            return false;
        };
        self.bar = bar.clamp(BAR_MIN, BAR_MAX);
        self.bounds = bounds;
        true
    }
}
