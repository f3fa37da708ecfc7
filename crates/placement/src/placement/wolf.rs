//! WOLF: pages are sorted into several write buffers by how often they are written, so that a segment holds
//! either active pages, and is soon empty, or inactive ones, and stays full (Wang and Hu, "WOLF: a novel
//! reordering write buffer to boost the performance of log-structured file systems", FAST 2002).
//!
//! Each page has a reference count, which begins anew once it is older than a bar: ten minutes at first.
//! When as much was written as the buffers hold, the counts seen meanwhile are divided into as many parts
//! as there are buffers, which is where the next pages are sorted; and the bar is doubled if nine tenths of
//! the counts are equal, and halved if no more than one tenth is.
//!
//! The paper sorts what lies in its buffers, in memory, before it is written. Here a page is sorted when it
//! comes, by the counts of those before it: nothing has to wait for others.
//!
//! Counts are kept for a bounded number of pages (`placement/wolf/references.rs`).

mod references;

use super::pages::{alike, pages};
use super::{
    Fact, Kind, MovedPiece, MovedPlace, Needs, Options, Order, Placed, Placement, UserPlace,
    UserWrite, saved,
};
use forebay_units::SECTOR_BYTES;
use references::References;

const SECOND: u64 = 1_000_000_000;
/// The bar at first, and its bounds, in seconds.
const BAR: u64 = 600;
const BAR_MIN: u64 = 1;
const BAR_MAX: u64 = 86_400;
/// Shares of equal counts beyond which the bar is doubled, and up to which it is halved.
const EQUAL_MANY: f64 = 0.9;
const EQUAL_FEW: f64 = 0.1;
/// Counts that are told apart.
const COUNTS: usize = 256;
const BUFFERS_MAX: usize = 8;

/// Reference counts, and how pages are sorted by them.
#[derive(Debug)]
pub(super) struct Wolf {
    page: u32,
    buffers: usize,
    /// Page writes that the buffers hold.
    room: u64,
    references: References,
    /// In seconds.
    bar: u64,
    /// A page goes to the buffer before, the more active one, for each of these that its count is above.
    bounds: [u64; BUFFERS_MAX - 1],
    /// Page writes by count, of what is in the buffers.
    seen: [u64; COUNTS],
    held: u64,
    active: u64,
    all: u64,
}

impl Wolf {
    pub(super) fn new(options: &Options) -> Wolf {
        let buffers = usize::from(options.buffers).clamp(2, BUFFERS_MAX);
        let page_bytes = u64::from(options.page()) * SECTOR_BYTES;
        let pages = options.segment_bytes / page_bytes;
        Wolf {
            page: options.page(),
            buffers,
            room: (pages * buffers as u64).max(64),
            references: References::new(options.memory()),
            bar: BAR,
            bounds: [1; BUFFERS_MAX - 1],
            seen: [0; COUNTS],
            held: 0,
            active: 0,
            all: 0,
        }
    }

    /// The buffer of a page with this count: 0 the most active.
    fn buffer(&self, count: u64) -> usize {
        let bounds = &self.bounds[..self.buffers - 1];
        bounds.iter().filter(|&&bound| count <= bound).count()
    }

    /// The buffers are full: counts are sorted anew, and the bar is set.
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
    fn kind(&self) -> Kind {
        Kind::Wolf
    }

    fn needs(&self) -> Needs {
        Needs {
            user: self.buffers as u8,
            moved: 1,
            in_place: false,
            order: Order::Age,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> Placed<UserPlace> {
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
        Placed {
            place: UserPlace::Append(buffer as u8),
            sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace> {
        Placed {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }

    fn describe(&self) -> Vec<Fact> {
        let fact = |name, value, unit| Fact { name, value, unit };
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

    /// The references are lost: after a restart pages are inactive until written again.
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
