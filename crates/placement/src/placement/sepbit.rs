//! Six classes by expected lifetime, so that data that dies together lies together (Wang et al., "Separating data via
//! block invalidation time inference for write amplification reduction in log-structured storage", FAST 2022, section
//! 3).
//!
//! The write clock measures lifetimes. A client write is expected to live as long as the data that it overwrites. If
//! that data lived for less than ℓ, the new data is short-lived (class 0). All other client writes are in class 1,
//! including writes that overwrite nothing. Live data in a cleaned segment of class 0 was wrongly expected to be
//! short-lived: it goes to class 2. The expected lifetime of all other moved data grows with its age: below 4ℓ (class
//! 3), below 16ℓ (class 4), or above (class 5). ℓ is the mean lifetime of the last 16 collected segments of class 0,
//! from their opening. It is unlimited before 16 such segments were collected.
//!
//! The paper finds lifetimes with a queue of addresses. Here the map contains the birth of all data, so the only state
//! is ℓ.

use super::{
    CollectedSegment, MoveOrder, MovedExtent, MovedPlace, Placement, PlacementAnswer,
    PlacementKind, PlacementStream, PolicyFact, PolicyNeeds, UserPlace, UserWrite, saved,
};

/// Number of collected segments of class 0 for a mean.
const SEGMENTS: u64 = 16;
/// Ages at which moved data passes to the next class, in multiples of ℓ.
const AGES: [u64; 2] = [4, 16];
/// Streams of moved data.
const OF_SHORT_LIVED: u8 = 0;
const BY_AGE: u8 = 1;

/// ℓ, and the partial mean for its next value.
#[derive(Clone, Debug)]
pub(super) struct SepBit {
    /// ℓ in sectors that clients write.
    lifetime: u64,
    /// Collected segments of class 0 since the last mean, and the sum of their lifetimes.
    collected: u64,
    sum: u64,
    /// Sectors written by clients to each class since the start.
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
    fn class_of_moved(&self, piece: &MovedExtent) -> u8 {
        if piece.stream == PlacementStream::User(0) {
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
    fn kind(&self) -> PlacementKind {
        PlacementKind::SepBit
    }

    fn needs(&self) -> PolicyNeeds {
        PolicyNeeds {
            user: 2,
            moved: BY_AGE + 1 + AGES.len() as u8,
            in_place: false,
            order: MoveOrder::AsFound,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace> {
        let lived = write.overwrites.map(|old| write.now.since(old.born));
        let short = lived.is_some_and(|lived| lived < self.lifetime);
        let class = u8::from(!short);
        let written = &mut self.written[usize::from(class)];
        *written = written.saturating_add(u64::from(write.sectors));
        PlacementAnswer {
            place: UserPlace::Append(class),
            sectors: write.sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace> {
        PlacementAnswer {
            place: MovedPlace::Append(self.class_of_moved(piece)),
            sectors: piece.sectors,
        }
    }

    fn collected(&mut self, segment: &CollectedSegment) {
        if segment.stream != PlacementStream::User(0) {
            return;
        }
        self.collected += 1;
        self.sum = self.sum.saturating_add(segment.now.since(segment.opened));
        if self.collected >= SEGMENTS {
            // With 0 no data would be short-lived again.
            self.lifetime = (self.sum / self.collected).max(1);
            (self.collected, self.sum) = (0, 0);
        }
    }

    fn describe(&self) -> Vec<PolicyFact> {
        let [short, long] = self.written.map(|sectors| sectors as f64);
        let lifetime = match self.lifetime {
            u64::MAX => f64::INFINITY,
            lifetime => lifetime as f64,
        };
        vec![
            PolicyFact {
                name: "short-lived for less than",
                value: lifetime,
                unit: "sectors written",
            },
            PolicyFact {
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
