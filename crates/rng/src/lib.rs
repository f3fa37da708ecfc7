//! A random number generator whose numbers depend only on the seed, on every machine.
//!
//! For tests, simulations and workloads. The numbers are neither secret nor good enough for statistics.

use std::cell::Cell;

/// A small generator: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug)]
pub struct Rng(Cell<u64>);

impl Rng {
    /// Creates a generator that begins at `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(Cell::new(seed))
    }

    /// Returns the next number, of all 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(STEP);
        self.0.set(state);
        scramble(state)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns true half of the time.
    pub fn coin(&self) -> bool {
        self.next() & 1 == 1
    }

    /// Returns true once in `n` times on average.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a random element of `choices`.
    ///
    /// # Panics
    /// If `choices` is empty.
    pub fn pick<T: Clone>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// Overwrites all of `bytes`, eight bytes with each number.
    pub fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }

    /// Returns `len` random bytes.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn scramble(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Mixes two numbers into a scrambled number: a seed for a part of a scenario, or a step of a digest.
pub fn mix(a: u64, b: u64) -> u64 {
    scramble(scramble(a.wrapping_add(STEP)) ^ b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        // Numbers of the reference implementation (https://prng.di.unimi.it/splitmix64.c). Recorded seeds are usable
        // only as long as these numbers do not change.
        let rng = Rng::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| rng.next());
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn a_shuffle_keeps_all_and_bytes_are_as_many_as_asked() {
        let (rng, mut items) = (Rng::new(1), [0, 1, 2, 3, 4, 5, 6, 7]);
        rng.shuffle(&mut items);
        assert_ne!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((rng.bytes(0).len(), rng.bytes(13).len()), (0, 13));
    }
}
