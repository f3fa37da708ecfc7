//! Numbers from a seed.

use std::cell::Cell;
use std::rc::Rc;

/// A small generator (SplitMix64, Steele, Lea and Flood 2014): the same seed, the same numbers.
/// Clones go on from one another.
#[derive(Clone)]
pub struct Rng(Rc<Cell<u64>>);

impl Rng {
    /// A generator that begins at `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(Rc::new(Cell::new(seed)))
    }

    /// The next number, of all 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        scramble(state)
    }

    /// A number below `n`.
    pub fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    /// True half of the time.
    pub fn coin(&self) -> bool {
        self.next() & 1 == 1
    }

    /// True once in `n` times.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Clone>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

fn scramble(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// One number out of two, scrambled: a seed for a part of a world, or a step of a digest.
pub fn mix(a: u64, b: u64) -> u64 {
    scramble(scramble(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ b)
}
