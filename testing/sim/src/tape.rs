//! Record of a scenario: always a digest, and readable lines on request.

use std::cell::{Cell, RefCell};

use forebay_rt::Instant;

use forebay_rng::mix;

/// A scenario's tape.
pub struct Tape {
    digest: Cell<u64>,
    lines: Option<RefCell<Vec<String>>>,
}

impl Tape {
    /// Creates an empty tape, with lines if `readable`.
    pub fn new(readable: bool) -> Tape {
        Tape {
            digest: Cell::new(0),
            lines: readable.then(RefCell::default),
        }
    }

    /// Adds a value to the digest.
    pub fn note(&self, key: u64) {
        self.digest.set(mix(self.digest.get(), key));
    }

    /// Adds a line, if lines are kept.
    pub fn say(&self, now: Instant, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            let ms = now.as_nanos() as f64 / 1e6;
            lines
                .borrow_mut()
                .push(format!("{ms:>12.3} ms  {}", line()));
        }
    }

    /// Adds a heading, if lines are kept.
    pub fn head(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            lines.borrow_mut().push(line());
        }
    }

    /// Returns the digest so far.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// Returns the lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines
            .as_ref()
            .map_or_else(Vec::new, |lines| lines.borrow().clone())
    }
}
