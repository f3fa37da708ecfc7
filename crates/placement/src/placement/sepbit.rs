//! Six classes by how long data is expected to live, so that what dies together lies together (Wang et
//! al., "Separating data via block invalidation time inference for write amplification reduction in
//! log-structured storage", FAST 2022, section 3).
//!
//! Lifetimes are told by the write clock. What a user writes is expected to live as long as what it
//! overwrites did: for less than ℓ, and it is short-lived (class 0), or else not (class 1); what overwrites
//! nothing is not. What cleaning finds in a segment of class 0 was taken for short-lived and is not: class
//! 2. The rest is expected to live for the longer the older it is: below 4ℓ (class 3), below 16ℓ (class 4),
//! or above (class 5). ℓ is how long the last 16 collected segments of class 0 lived, from when they were
//! opened, on average; without bound before there were 16.
//!
//! The paper keeps a queue of addresses to tell lifetimes. Here they follow from births in the map, so all
//! there is to remember is ℓ.

use super::{
    Collected, Fact, Kind, MovedPiece, MovedPlace, Needs, Order, Placed, Placement, Stream,
    UserPlace, UserWrite, saved,
};

/// Collected segments of class 0 that a mean is taken of.
const SEGMENTS: u64 = 16;
/// The ages at which moved data passes to the next class, in multiples of ℓ.
const AGES: [u64; 2] = [4, 16];
/// The streams of moved data, by what is moved to them.
const OF_SHORT_LIVED: u8 = 0;
const BY_AGE: u8 = 1;

/// ℓ, and what is known of its next value.
#[derive(Clone, Debug)]
pub(super) struct SepBit {
    /// In sectors that users write.
    lifetime: u64,
    /// Segments of class 0 collected since, and the sum of their lifetimes.
    collected: u64,
    sum: u64,
    /// Sectors written by users to each class, since it began.
    written: [u64; 2],
}

impl Default for SepBit {
    fn default() -> SepBit {
        SepBit {
            lifetime: u64::MAX,
            collected: 0,
            sum: 0,
            written: [0; 2],
        }
    }
}

impl SepBit {
    fn class_of_moved(&self, piece: &MovedPiece) -> u8 {
        if piece.stream == Stream::User(0) {
            return OF_SHORT_LIVED;
        }
        let age = piece.now.since(piece.born);
        let passed = AGES
            .iter()
            .filter(|&&n| age >= self.lifetime.saturating_mul(n));
        BY_AGE + passed.count() as u8
    }
}

impl Placement for SepBit {
    fn kind(&self) -> Kind {
        Kind::SepBit
    }

    fn needs(&self) -> Needs {
        Needs {
            user: 2,
            moved: BY_AGE + 1 + AGES.len() as u8,
            in_place: false,
            order: Order::AsFound,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> Placed<UserPlace> {
        let lived = write.overwrites.map(|old| write.now.since(old.born));
        let short = lived.is_some_and(|lived| lived < self.lifetime);
        let class = if short { 0 } else { 1 };
        let written = &mut self.written[usize::from(class)];
        *written = written.saturating_add(u64::from(write.sectors));
        Placed {
            place: UserPlace::Append(class),
            sectors: write.sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace> {
        Placed {
            place: MovedPlace::Append(self.class_of_moved(piece)),
            sectors: piece.sectors,
        }
    }

    fn collected(&mut self, segment: &Collected) {
        if segment.stream != Stream::User(0) {
            return;
        }
        self.collected += 1;
        self.sum = self.sum.saturating_add(segment.now.since(segment.opened));
        if self.collected >= SEGMENTS {
            // Not 0, or nothing would ever be short-lived again.
            self.lifetime = (self.sum / self.collected).max(1);
            (self.collected, self.sum) = (0, 0);
        }
    }

    fn describe(&self) -> Vec<Fact> {
        let [short, long] = self.written.map(|sectors| sectors as f64);
        let lifetime = match self.lifetime {
            u64::MAX => f64::INFINITY,
            lifetime => lifetime as f64,
        };
        vec![
            Fact {
                name: "short-lived for less than",
                value: lifetime,
                unit: "sectors written",
            },
            Fact {
                name: "taken for short-lived",
                value: short / (short + long).max(1.0),
                unit: "of writes",
            },
        ]
    }

    fn save(&self) -> Vec<u8> {
        saved::encode(self.kind(), &[self.lifetime, self.collected, self.sum])
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let Some([lifetime, collected, sum]) = saved::decode(self.kind(), bytes) else {
            return false;
        };
        self.lifetime = lifetime.max(1);
        (self.collected, self.sum) = (collected.min(SEGMENTS - 1), sum);
        true
    }
}
